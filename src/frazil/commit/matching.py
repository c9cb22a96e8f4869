"""Find the manifests and files that a filter may match, by the pruning rules of scan planning
(scan.prune).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysFalse, AlwaysTrue, Predicate
from frazil.expr.values import array
from frazil.scan.prune import file_outcomes as outcomes_of_files
from frazil.scan.prune import manifest_outcomes, partition_outcomes
from frazil.spec.manifest import DataFile, ManifestFile
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.schema import Schema

Mask = npt.NDArray[np.uint8]
TRUE = 1
"""Bit of an outcome mask. A mask of exactly this bit: every row matches; a mask without it: no row
matches.
"""
_COUNTS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
_BOUNDS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())]))


def manifests_that_may_match(
    manifests: Sequence[ManifestFile],
    where: Predicate,
    schema: Schema,
    metadata: TableMetadata,
    case_sensitive: bool = True,
    zone: str = "UTC",
) -> set[str]:
    """Return the paths of the manifests that may hold matching rows, by their partition summaries."""
    if isinstance(where, AlwaysFalse) or not manifests:
        return set()
    if isinstance(where, AlwaysTrue):
        return {m.manifest_path for m in manifests}
    bound, paths = bind(where, schema, case_sensitive=case_sensitive, zone=zone), set()
    for spec_id in {m.partition_spec_id for m in manifests}:
        group = [m for m in manifests if m.partition_spec_id == spec_id]
        masks = manifest_outcomes(group, bound, schema, metadata.spec_by_id(spec_id))
        paths |= {m.manifest_path for m, mask in zip(group, masks, strict=True) if mask & TRUE}
    return paths


def file_outcomes(
    table: pa.Table,
    where: Predicate,
    schema: Schema,
    metadata: TableMetadata,
    spec_id: int,
    case_sensitive: bool = True,
    zone: str = "UTC",
    partition_only: bool = False,
) -> Mask:
    """Return one outcome mask per entry: 1 TRUE, 2 FALSE, 4 NULL possible for its rows.
    `partition_only`: ignore statistics, as for delete files, whose statistics are not those of the
    rows that they delete."""
    if isinstance(where, AlwaysTrue | AlwaysFalse):
        return np.full(len(table), TRUE if isinstance(where, AlwaysTrue) else 2, dtype=np.uint8)
    bound, spec = (
        bind(where, schema, case_sensitive=case_sensitive, zone=zone),
        metadata.spec_by_id(spec_id),
    )
    if not partition_only:
        return outcomes_of_files(table, bound, schema, spec, metadata.snapshots)
    partition_masks = partition_outcomes(table, bound, schema, spec)
    return np.full(len(table), 7, dtype=np.uint8) if partition_masks is None else partition_masks


def data_file_outcome(
    f: DataFile,
    where: Predicate,
    metadata: TableMetadata,
    case_sensitive: bool = True,
    zone: str = "UTC",
) -> int:
    """Return the outcome mask of one file that Frazil has written and that is not in a manifest
    yet.
    """
    return int(
        file_outcomes(
            _as_entry(f, metadata),
            where,
            metadata.schema(),
            metadata,
            f.spec_id,
            case_sensitive,
            zone,
        )[0]
    )


def _as_entry(file: DataFile, metadata: TableMetadata) -> pa.Table:
    spec = metadata.spec_by_id(file.spec_id)
    fields = list(spec.partition_type(schema_of_spec(metadata, spec)))
    children = [array([v], p.field_type) for v, p in zip(file.partition, fields, strict=True)]
    partition = (
        pa.StructArray.from_arrays(children, names=[str(p.field_id) for p in fields])
        if fields
        else pa.array([{}], type=pa.struct([]))
    )
    return pa.table(
        {
            "partition": partition,
            "record_count": pa.array([file.record_count], type=pa.int64()),
            "value_counts": _one_map(file.value_counts, _COUNTS),
            "null_value_counts": _one_map(file.null_value_counts, _COUNTS),
            "nan_value_counts": _one_map(file.nan_value_counts, _COUNTS),
            "lower_bounds": _one_map(file.lower_bounds, _BOUNDS),
            "upper_bounds": _one_map(file.upper_bounds, _BOUNDS),
            # as for one row group, so that bounds of uuids are trusted: Frazil's own bounds are
            # those of the whole file
            "split_offsets": pa.array([[0]], pa.list_(pa.int64())),
        }
    )


def _one_map(values: dict[int, Any] | None, type_: pa.DataType) -> pa.Array:
    return pa.array(
        [None if values is None else [{"key": k, "value": v} for k, v in values.items()]],
        type=type_,
    )
