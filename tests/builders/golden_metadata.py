"""Golden tables as the rooms below catalogs take them: metadata and storage."""

from __future__ import annotations

from pathlib import Path

from frazil.codec.metadata_json import decode_metadata
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage, storage_for
from tests.golden import Golden, GoldenTable


def opened(golden: Golden, name: str) -> tuple[GoldenTable, TableMetadata, Storage]:
    """A golden table with its decoded metadata and its storage."""
    table = golden[name]
    metadata = decode_metadata(Path(table.metadata_file).read_bytes(), table.metadata_file)
    return table, metadata, storage_for(metadata.location, {})
