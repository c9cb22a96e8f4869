"""One row of decoded manifest entries to a DataFile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.spec.data_file import DataFile
from frazil.spec.partitioning import PartitionSpec

_PLAIN = (
    "key_metadata", "sort_order_id", "first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes",
)  # fmt: skip
_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
_LISTS = ("split_offsets", "equality_ids")


def data_file(row: Mapping[str, Any], spec: PartitionSpec) -> DataFile:
    """Columns that were not decoded are None in the DataFile."""
    partition = row.get("partition") or {}
    facts: dict[str, Any] = {name: row.get(name) for name in _PLAIN}
    for name in _MAPS:
        pairs = row.get(name)
        facts[name] = None if pairs is None else {p["key"]: p["value"] for p in pairs}
    for name in _LISTS:
        numbers = row.get(name)
        facts[name] = None if numbers is None else tuple(numbers)
    return DataFile(
        content=row.get("content") or 0,
        file_path=row["file_path"],
        file_format=row["file_format"],
        partition=tuple(partition.get(str(f.field_id)) for f in spec.fields),
        record_count=row["record_count"],
        file_size_in_bytes=row["file_size_in_bytes"],
        spec_id=spec.spec_id,
        **facts,
    )
