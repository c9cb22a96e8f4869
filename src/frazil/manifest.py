"""Provide entries of manifests by PyIceberg's path: `from frazil.manifest import DataFile,
DataFileContent, ManifestFile`.

`t.inspect.manifests()` and `t.inspect.entries()` read manifests; there are no functions here that
do.
"""

from frazil.spec.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from frazil.spec.manifest import FieldSummary as PartitionFieldSummary

__all__ = [
    "DataFile",
    "DataFileContent",
    "ManifestContent",
    "ManifestEntry",
    "ManifestEntryStatus",
    "ManifestFile",
    "PartitionFieldSummary",
]
