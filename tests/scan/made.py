"""Small tables made in memory for the tests of this room: rows in, manifests and table metadata
out, no data files.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.codec import single_value
from frazil.codec.manifest import encode_manifest
from frazil.codec.manifest_list import encode_manifest_list
from frazil.errors import NoSuchFileError
from frazil.spec.manifest import DataFile, FieldSummary, ManifestEntry, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotLogEntry, Snapshots
from frazil.spec.transform_values import apply
from frazil.spec.transforms import HourTransform, Transform
from frazil.spec.types import (
    DoubleType,
    FloatType,
    IcebergType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

Row = dict[int, Any]  # field id of a leaf -> internal value


class DictStorage:
    """Just enough of a storage: files in a dict; `reads` counts them by name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []

    def read(self, location: str) -> bytes:
        self.reads.append(location)
        try:
            return self.files[location]
        except KeyError:
            raise NoSuchFileError(f"There is no file {location}.", file=location) from None

    def local_path(self, location: str) -> str | None:
        return None


@dataclass(frozen=True)
class MadeFile:
    """Rows of one file; `keep` are the metrics that its writer kept: a subset of "vcnbN" (sizes
    aside): values, nulls, NaNs, bounds.

    `exchanged`: lower bounds stand for upper ones and the other way round. `row_groups`: that many;
    uuid bounds are then joined as Java does.
    """

    rows: tuple[Row, ...]
    keep: str = "vnNb"
    narrow: bool = False  # bounds in the width before the promotion
    truncate: int | None = None
    lacks: frozenset[int] = frozenset()  # columns that did not exist when the file was written
    exchanged: bool = False
    row_groups: int = 1


@dataclass
class Made:
    metadata: TableMetadata
    storage: DictStorage
    rows_of: dict[str, tuple[Row, ...]] = field(default_factory=dict)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def partition_of(row: Row, spec: PartitionSpec, schema: Schema) -> tuple[Any, ...]:
    return tuple(
        as_java_writes(f.transform, schema.by_id[f.source_id].field_type, row.get(f.source_id))
        for f in spec.fields
    )


def as_java_writes(transform: Transform, type_: IcebergType, value: Any) -> Any:
    """The partition value; Java's hours wrap around where Frazil refuses the row."""
    if (
        isinstance(transform, HourTransform)
        and isinstance(type_, TimestampType | TimestamptzType)
        and value is not None
    ):
        return (value // 3_600_000_000 + 2**31) % 2**32 - 2**31
    return apply(transform, type_, value)


def partition_key(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        ("nan" if is_nan(v) else struct.pack(">d", v)) if isinstance(v, float) else v
        for v in values
    )


def leaves(schema: Schema) -> list[int]:
    return [i for i, f in schema.by_id.items() if not isinstance(f.field_type, StructType)]


def _bound_bytes(type_: Any, value: Any, made: MadeFile, upper: bool) -> bytes | None:
    if made.truncate and isinstance(value, str) and len(value) > made.truncate:
        value = value[: made.truncate]
        if upper:
            value = value[:-1] + chr(ord(value[-1]) + 1)
    if made.narrow and str(type_) == "long" and -(2**31) <= value < 2**31:
        return struct.pack("<i", value)
    if (
        made.narrow
        and str(type_) == "double"
        and abs(value) < 1e30
        and struct.unpack("<f", struct.pack("<f", value))[0] == value
    ):
        return struct.pack("<f", value)
    return single_value.to_bytes(type_, value)


def data_file(
    path: str, made: MadeFile, spec: PartitionSpec, schema: Schema, partition: tuple[Any, ...]
) -> DataFile:
    values, nulls, nans, lower, upper = {}, {}, {}, {}, {}
    for i in leaves(schema):
        if i in made.lacks:
            continue
        type_ = schema.by_id[i].field_type
        column = [r.get(i) for r in made.rows]
        values[i], nulls[i] = len(column), sum(v is None for v in column)
        if isinstance(type_, FloatType | DoubleType):
            nans[i] = sum(is_nan(v) for v in column)
        real = [v for v in column if v is not None and not is_nan(v)]
        if real:
            order = sorted(
                real,
                key=lambda v: (
                    v.encode()
                    if isinstance(v, str)
                    else (v, math.copysign(1, v))
                    if isinstance(v, float)
                    else v
                ),
            )
            if isinstance(type_, UUIDType):
                order = joined_by_java(column, made.row_groups)
            lower[i] = _bound_bytes(type_, order[0], made, False)
            upper[i] = _bound_bytes(type_, order[-1], made, True)
    if made.exchanged:
        lower, upper = upper, lower
    return DataFile(
        file_path=path,
        file_format="parquet",
        partition=partition,
        record_count=len(made.rows),
        file_size_in_bytes=100 + len(made.rows),
        value_counts=values if "v" in made.keep else None,
        null_value_counts=nulls if "n" in made.keep else None,
        nan_value_counts=nans if "N" in made.keep else None,
        lower_bounds=lower if "b" in made.keep else None,
        upper_bounds=upper if "b" in made.keep else None,
        split_offsets=tuple(range(4, 4 + made.row_groups)),
        spec_id=spec.spec_id,
    )


def joined_by_java(values: Sequence[bytes | None], row_groups: int) -> list[bytes]:
    """Least and greatest uuid as Java has them: the range of each row group unsigned, the ranges
    joined by signed halves.
    """
    size = -(-len(values) // row_groups)
    groups = [
        real
        for i in range(0, len(values), size)
        if (real := [v for v in values[i : i + size] if v is not None])
    ]
    return [min(map(min, groups), key=signed_halves), max(map(max, groups), key=signed_halves)]


def signed_halves(value: bytes) -> tuple[int, int]:
    return int.from_bytes(value[:8], "big", signed=True), int.from_bytes(
        value[8:], "big", signed=True
    )


def summaries(
    entries: Sequence[ManifestEntry], spec: PartitionSpec, schema: Schema, exchanged: bool = False
) -> tuple[FieldSummary, ...]:
    found = []
    for place, typed in enumerate(spec.partition_type(schema).fields):
        values = [e.data_file.partition[place] for e in entries]
        real = [v for v in values if v is not None and not is_nan(v)]
        real.sort(
            key=lambda v: (
                v.encode()
                if isinstance(v, str)
                else (v, math.copysign(1, v))
                if isinstance(v, float)
                else v
            )
        )
        low, high = (
            (single_value.to_bytes(typed.field_type, v) for v in (real[0], real[-1]))
            if real
            else (None, None)
        )
        found.append(
            FieldSummary(
                None in values,
                any(map(is_nan, values)),
                *((high, low) if exchanged else (low, high)),
            )
        )
    return tuple(found)


def manifest(
    storage: DictStorage,
    path: str,
    entries: Sequence[ManifestEntry],
    spec: PartitionSpec,
    schema: Schema,
    *,
    snapshot_id: int = 1,
    sequence_number: int = 1,
    format_version: int = 2,
    content: int = 0,
    counts: bool = True,
    exchanged: bool = False,
) -> ManifestFile:
    data = encode_manifest(
        entries,
        spec=spec,
        schema=schema,
        format_version=format_version,
        content=content,
        snapshot_id=snapshot_id,
    )
    storage.files[path] = data
    by_status = [[e for e in entries if e.status == s] for s in (1, 0, 2)]
    rows = [sum(e.data_file.record_count for e in some) for some in by_status]
    known: dict[str, Any] = {}
    if counts:
        names = ("added", "existing", "deleted")
        known = {f"{n}_files_count": len(some) for n, some in zip(names, by_status, strict=True)}
        known |= {f"{n}_rows_count": r for n, r in zip(names, rows, strict=True)}
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=sequence_number,
        min_sequence_number=sequence_number,
        added_snapshot_id=snapshot_id,
        partitions=summaries(entries, spec, schema, exchanged),
        **known,
    )


def split_by_partition(
    rows: Iterable[Row], spec: PartitionSpec, schema: Schema
) -> list[tuple[tuple[Any, ...], tuple[Row, ...]]]:
    groups: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[Row]]] = {}
    for row in rows:
        values = partition_of(row, spec, schema)
        groups.setdefault(partition_key(values), (values, []))[1].append(row)
    return [(values, tuple(found)) for values, found in groups.values()]


def make_table(
    schema: Schema,
    manifests: Sequence[tuple[PartitionSpec, Sequence[MadeFile]]],
    *,
    format_version: int = 2,
    schemas: tuple[Schema, ...] = (),
    exchanged: bool = False,
) -> Made:
    """A table of one snapshot; rows of a file that fall into several partitions become several
    files.

    `exchanged`: the lower bounds of partition summaries stand for the upper ones and the other way
    round.
    """
    storage = DictStorage()
    rows_of: dict[str, tuple[Row, ...]] = {}
    listed = []
    for m, (spec, files) in enumerate(manifests):
        entries = []
        for f, made in enumerate(files):
            for p, (values, rows) in enumerate(split_by_partition(made.rows, spec, schema)):
                path = f"/t/data/{m}-{f}-{p}.parquet"
                rows_of[path] = rows
                part = replace(made, rows=rows)
                entries.append(ManifestEntry(1, data_file(path, part, spec, schema, values), 1))
        if entries:
            path = f"/t/metadata/{id(storage)}-m{m}.avro"
            listed.append(
                manifest(
                    storage,
                    path,
                    entries,
                    spec,
                    schema,
                    format_version=format_version,
                    exchanged=exchanged,
                )
            )
    return Made(
        table_metadata(storage, schema, listed, [s for s, _ in manifests], format_version, schemas),
        storage,
        rows_of,
    )


def table_metadata(
    storage: DictStorage,
    schema: Schema,
    listed: Sequence[ManifestFile],
    specs: Iterable[PartitionSpec],
    format_version: int = 2,
    schemas: tuple[Schema, ...] = (),
) -> TableMetadata:
    path = f"/t/metadata/snap-{id(storage)}.avro"
    storage.files[path] = encode_manifest_list(
        listed,
        snapshot_id=1,
        parent_snapshot_id=None,
        sequence_number=1,
        first_row_id=0 if format_version == 3 else None,
        format_version=format_version,
    )
    by_id = {s.spec_id: s for s in specs}
    return TableMetadata(
        format_version=format_version,
        table_uuid="u",
        location="/t",
        last_updated_ms=1,
        last_column_id=schema.highest_field_id,
        schemas=(*schemas, schema),
        current_schema_id=schema.schema_id,
        partition_specs=tuple(by_id.values()),
        default_spec_id=max(by_id),
        current_snapshot_id=1,
        snapshots=Snapshots.of(
            [Snapshot(1, 1, path, summary={"operation": "append"}, sequence_number=1)]
        ),
        snapshot_log=(SnapshotLogEntry(1, 1),),
    )
