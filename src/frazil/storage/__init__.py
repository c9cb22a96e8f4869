"""Read and write files by location: on local disks, in memory, in object stores (`objects`), in HDFS
(`hdfs`), by secrets of `credentials`. Nothing here knows about tables.

Other rooms use `storage_for(location, properties)`, the `Storage` protocol, and the functions of
`locations`.
"""

from frazil.storage.base import FileInfo, PublishUnclear, Storage
from frazil.storage.credentials.vended import Credentials
from frazil.storage.file_io import FileIO, InputFile, OutputFile, OutputStream, file_io
from frazil.storage.locations import (
    absolute,
    check_location,
    check_name,
    is_inside,
    is_own_io,
    metadata_location,
    normalise,
    place_of,
    settled,
)
from frazil.storage.routing import (
    REMOTE_SCHEMES,
    RoutedStorage,
    asks_catalog,
    catalog_properties,
    checked,
    hdfs_settings_of,
    lasting_properties,
    read_whole,
    routed,
    storage_for,
    storages_by_prefix,
)
from frazil.storage.secrets import redact, redact_text, without_secrets

__all__ = [
    "REMOTE_SCHEMES",
    "Credentials",
    "FileIO",
    "FileInfo",
    "InputFile",
    "OutputFile",
    "OutputStream",
    "PublishUnclear",
    "RoutedStorage",
    "Storage",
    "absolute",
    "asks_catalog",
    "base",
    "catalog_properties",
    "check_location",
    "check_name",
    "checked",
    "credentials",
    "file_io",
    "hdfs",
    "hdfs_settings_of",
    "is_inside",
    "is_own_io",
    "lasting_properties",
    "local",
    "locations",
    "memory",
    "metadata_location",
    "normalise",
    "objects",
    "place_of",
    "read_whole",
    "real_paths",
    "redact",
    "redact_text",
    "routed",
    "secrets",
    "settled",
    "storage_for",
    "storages_by_prefix",
    "tuning",
    "without_secrets",
]
