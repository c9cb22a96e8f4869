"""Bytes to and from the world: local disks, memory, object stores; knows nothing of tables.

Door: `storage_for(location, properties)`, the `Storage` protocol, and the functions of `locations`.
"""

from frazil.storage.base import FileInfo, PublishUnclear, Storage
from frazil.storage.file_io import FileIO, InputFile, OutputFile, OutputStream, file_io
from frazil.storage.locations import (
    absolute,
    check_location,
    check_name,
    data_location,
    is_inside,
    is_own_io,
    metadata_location,
    normalise,
    place_of,
)
from frazil.storage.routing import storage_for
from frazil.storage.secrets import redact, redact_text

__all__ = [
    "FileIO",
    "FileInfo",
    "InputFile",
    "OutputFile",
    "OutputStream",
    "PublishUnclear",
    "Storage",
    "absolute",
    "base",
    "check_location",
    "check_name",
    "data_location",
    "file_io",
    "is_inside",
    "is_own_io",
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
