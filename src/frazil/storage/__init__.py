"""Read and write files by location: on local disks, in memory, in object stores. Nothing here knows about tables.

Other rooms use `storage_for(location, properties)`, the `Storage` protocol, and the functions of `locations`.
"""

from frazil.storage.base import FileInfo, PublishUnclear, Storage
from frazil.storage.locations import (
    absolute,
    check_location,
    check_name,
    data_location,
    is_inside,
    metadata_location,
    normalise,
    place_of,
)
from frazil.storage.routing import has_vended_credentials, storage_for
from frazil.storage.secrets import redact, redact_text
from frazil.storage.vended import Credentials, CredentialsSource

__all__ = [
    "Credentials",
    "CredentialsSource",
    "FileInfo",
    "PublishUnclear",
    "Storage",
    "absolute",
    "base",
    "check_location",
    "check_name",
    "data_location",
    "has_vended_credentials",
    "is_inside",
    "local",
    "locations",
    "memory",
    "metadata_location",
    "normalise",
    "object_options",
    "place_of",
    "redact",
    "redact_text",
    "storage_for",
]
