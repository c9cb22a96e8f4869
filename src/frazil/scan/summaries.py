"""Tell what a manifest list says of the partitions in its manifests: one rule for scans, commits
and maintenance.

A partition summary that is missing, damaged or in a list of another length than the partition spec
says nothing, and so does one without both bounds: by the specification it would belong to files
whose values are all null or NaN, but ClickHouse writes such summaries, with `contains_null` false,
for files of any partition. A manifest of null partitions alone is then read for nothing, which
costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.expr.building import column
from frazil.expr.pruning.partitions import range_of_summaries
from frazil.expr.pruning.prune_tests import compare
from frazil.expr.pruning.ranges import Range, constant, unknown
from frazil.scan.bounds import decode_bounds
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.partitioning import PartitionField, PartitionKey, PartitionSpec, plain_values
from frazil.spec.schema import Schema
from frazil.spec.transforms import IdentityTransform, Transform
from frazil.spec.types import IcebergType, UnknownType

_MOST_KEYS = 1000
"""More partitions than this are not compared with the bounds of each manifest, which would take
longer than reading the manifests.
"""


def source_range(
    manifests: Sequence[ManifestFile],
    spec: PartitionSpec,
    field: PartitionField,
    source: IcebergType,
) -> Range:
    """Return what the manifests, all of this spec, hold of a partition field's source column."""
    return _range(manifests, spec, spec.fields.index(field), field.transform, source)


def _range(
    manifests: Sequence[ManifestFile],
    spec: PartitionSpec,
    place: int,
    transform: Transform,
    source: IcebergType,
) -> Range:
    complete = len(spec.fields)
    parts = [
        m.partitions[place] if m.partitions is not None and len(m.partitions) == complete else None
        for m in manifests
    ]
    if not any(
        p is not None and (p.lower_bound is not None or p.upper_bound is not None) for p in parts
    ):
        return unknown(source)
    result = transform.result_type(source)
    lower = decode_bounds(
        column([p.lower_bound if p else None for p in parts], pa.binary()), result
    )
    upper = decode_bounds(
        column([p.upper_bound if p else None for p in parts], pa.binary()), result
    )
    nulls = column([p.contains_null if p else None for p in parts], pa.bool_())
    nans = column([p.contains_nan if p else None for p in parts], pa.bool_())
    return range_of_summaries(transform, source, lower, upper, nulls, nans)


def manifests_that_may_hold(
    manifests: Sequence[ManifestFile], keys: Iterable[PartitionKey], metadata: TableMetadata
) -> set[str]:
    """Return the paths of the manifests that may hold a file of one of the partitions."""
    partitions: dict[int, list[tuple[Any, ...]]] = {}
    for key in keys:
        partitions.setdefault(key[0], []).append(plain_values(key))
    paths = set[str]()
    for spec_id, of_spec in partitions.items():
        group = [m for m in manifests if m.partition_spec_id == spec_id]
        if group:
            may = _may_hold(group, metadata.spec_by_id(spec_id), of_spec, metadata)
            paths |= {m.manifest_path for m, held in zip(group, may, strict=True) if held}
    return paths


def _has_type(field: PartitionField, schema: Schema) -> bool:
    """Tell whether the type of the field's values is known, which depends on the source column and
    the transform.
    """
    source = schema.by_id.get(field.source_id)
    return (
        source is not None
        and field.transform.is_known
        and not isinstance(source.field_type, UnknownType)
    )


def _may_hold(
    group: Sequence[ManifestFile],
    spec: PartitionSpec,
    partitions: Sequence[tuple[Any, ...]],
    metadata: TableMetadata,
) -> npt.NDArray[np.bool_]:
    if len(partitions) > _MOST_KEYS:
        return np.ones(len(group), bool)
    schema = schema_of_spec(metadata, spec)
    typed = [
        (n, f.field_type)
        for n, f in enumerate(spec.partition_type(schema))
        if _has_type(spec.fields[n], schema)
    ]
    ranges = [
        (place, type_, _range(group, spec, place, IdentityTransform(), type_))
        for place, type_ in typed
    ]
    may = np.zeros(len(group), bool)
    for values in partitions:
        held = np.ones(len(group), bool)
        for place, type_, summaries in ranges:
            value = values[place]
            held &= (
                summaries.nulls
                if value is None
                else compare("eq", summaries, constant(value, type_))[0]
            )
        may |= held
    return may
