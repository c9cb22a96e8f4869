"""Serve catalogs behind a REST server (Iceberg's open specification): the server keeps the metadata, Frazil sends updates and requirements.

Other rooms use `RestCatalog`.
"""

from frazil.catalog.rest.catalog import RestCatalog
from frazil.catalog.rest.settings import REST_PREFIXES, REST_PROPERTIES

__all__ = ["REST_PREFIXES", "REST_PROPERTIES", "RestCatalog"]
