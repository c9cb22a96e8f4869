"""Provide entries of manifests by PyIceberg's path: `from frazil.manifest import DataFile,
DataFileContent, ManifestFile`.

`t.inspect.manifests()` and `t.inspect.entries()` read manifests; there are no functions here that
do.
"""

from frazil.spec.data_file import DataFile, DataFileContent, ManifestEntry, ManifestEntryStatus
from frazil.spec.manifest import FieldSummary as PartitionFieldSummary
from frazil.spec.manifest import ManifestContent, ManifestFile

__all__ = [
    "DataFile",
    "DataFileContent",
    "ManifestContent",
    "ManifestEntry",
    "ManifestEntryStatus",
    "ManifestFile",
    "PartitionFieldSummary",
]
