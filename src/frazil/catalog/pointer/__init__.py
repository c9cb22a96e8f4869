"""Serve catalogs that keep, under each name, a pointer to a metadata file: a SQL database, a Hive
Metastore, or any other store of names.

`PointerCatalog` is the back end of all of them, for tables and views alike. What a type of catalog
supplies are the few calls of `store`: those of a `PointerStore`, which change one pointer each, and
those of a `NamespaceStore`. `commit` writes a metadata file, lets the pointer move to it, and tells
the outcome.
"""

from frazil.catalog.pointer.catalog import PointerCatalog
from frazil.catalog.pointer.store import (
    Noun,
    State,
    Stored,
    noun_of,
)

__all__ = [
    "Noun",
    "PointerCatalog",
    "State",
    "Stored",
    "noun_of",
]
