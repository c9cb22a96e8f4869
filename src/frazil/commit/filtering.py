"""Manifests without the files that a commit removes: those are listed once more as DELETED, the rest as EXISTING."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.manifest import entries_from_table
from frazil.codec.single_value import from_bytes
from frazil.commit.manifests import DELETED, EXISTING, ManifestWriter
from frazil.commit.matching import TRUE, file_outcomes, manifests_that_may_match
from frazil.errors import ValidationException
from frazil.expr.nodes import AlwaysFalse, Predicate
from frazil.scan.manifests import read_manifest
from frazil.spec.data_file import DataFile
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.partition_key import PartitionKey, partition_key, plain_values
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType

Rows = npt.NDArray[np.bool_]
_MOST_KEYS = 1000
"""More partitions than this are not compared with each manifest's bounds."""


class RemovesSomething(Exception):
    """An append-only change met a file it would remove; `partition` is the path of its partition."""

    def __init__(self, partition: str):
        super().__init__(partition)
        self.partition = partition


@dataclass(frozen=True)
class Removal:
    """Which files a change takes out of the table: named ones, all of some partitions, all whose rows all match a filter."""

    files: tuple[DataFile, ...] = ()
    paths: frozenset[str] = frozenset()
    partitions: frozenset[PartitionKey] = frozenset()
    row_filter: Predicate = AlwaysFalse()
    case_sensitive: bool = True
    zone: str = "UTC"
    required: bool = False
    """Named files that are not there are an error."""
    append_only: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.paths or self.partitions) and isinstance(self.row_filter, AlwaysFalse)


@dataclass(frozen=True)
class DeleteRemoval:
    """Which delete files go: named ones (`required`: must be there), and those that cannot apply to any row any more.

    These are those of dropped partitions (`row_filter`: of those it matches wholly), those older than all data, those about one data file
    that goes (`removed`) or that gets a deletion vector (`vectors`, whose caller has merged them; another vector may not stay beside it).
    """

    files: tuple[DataFile, ...] = ()
    required: bool = False
    partitions: frozenset[PartitionKey] = frozenset()
    row_filter: Predicate = AlwaysFalse()
    case_sensitive: bool = True
    zone: str = "UTC"
    before_sequence_number: int = 0
    removed: tuple[DataFile, ...] = ()
    vectors: tuple[DataFile, ...] = ()


@dataclass(frozen=True)
class Filtered:
    """One manifest after filtering; `manifest` is the old one when nothing in it was removed."""

    manifest: ManifestFile
    removed: tuple[DataFile, ...] = ()
    duplicates: int = 0


FilterCache = dict[tuple[str, int | None], Filtered]


@dataclass
class FilterResult:
    manifests: list[ManifestFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    duplicates: int = 0
    replaced: int = 0

    def take(self, old: ManifestFile, filtered: Filtered) -> None:
        self.manifests.append(filtered.manifest)
        self.removed += filtered.removed
        self.duplicates += filtered.duplicates
        self.replaced += filtered.manifest is not old


def state_of(m: ManifestFile) -> tuple[str, int | None]:
    """What an attempt's work on a manifest may be used again for: in v3 another commit can give row ids to one that had none."""
    return m.manifest_path, m.first_row_id


def filter_data(
    manifests: Sequence[ManifestFile], removal: Removal, schema: Schema, writer: ManifestWriter, metadata: TableMetadata, cache: FilterCache
) -> FilterResult:
    """Data manifests without the files of `removal`. Results are kept in `cache` for the next attempt.

    Raises ValidationException when a file matches the filter only in part, or a required one is missing; RemovesSomething.
    """
    if removal.is_empty:
        return FilterResult(list(manifests))
    result = FilterResult()
    chosen = _Chosen.of(removal, manifests, schema, metadata)
    for m in manifests:
        known = cache.get(state_of(m))
        if known is None:
            known = _filter_one(m, chosen, schema, writer, metadata) if chosen.may_hold(m) else Filtered(m)
            cache[state_of(m)] = known
        result.take(m, replace(known, manifest=m) if known.manifest.manifest_path == m.manifest_path else known)
    if removal.required:
        wanted = {*removal.paths, *(f.file_path for f in removal.files)}
        check_required({(p, None) for p in wanted}, {(f.file_path, None) for f in result.removed})
    return result


def check_required(wanted: set[tuple[str, int | None]], found: set[tuple[str, int | None]]) -> None:
    """Files are told by path and place in it: many deletion vectors share one file."""
    if missing := sorted({path for path, _ in wanted - found}):
        raise ValidationException(f"Missing required files to delete: {','.join(missing)}", files=missing)


@dataclass
class _Chosen:
    """A removal made ready for the manifests at hand."""

    removal: Removal
    metadata: TableMetadata
    paths: pa.Array
    keys: frozenset[PartitionKey]
    by_filter: set[str]

    @classmethod
    def of(cls, removal: Removal, manifests: Sequence[ManifestFile], schema: Schema, metadata: TableMetadata) -> _Chosen:
        paths = pa.array(sorted({*removal.paths, *(f.file_path for f in removal.files)}), type=pa.string())
        keys = removal.partitions | {partition_key(f.spec_id, f.partition) for f in removal.files}
        by_filter = manifests_that_may_match(manifests, removal.row_filter, schema, metadata, removal.case_sensitive, removal.zone)
        return cls(removal, metadata, paths, frozenset(keys), by_filter)

    def may_hold(self, m: ManifestFile) -> bool:
        if not m.has_live_files:
            return False
        return bool(self.removal.paths) or m.manifest_path in self.by_filter or may_hold_partition(m, self.keys, self.metadata)


def may_hold_partition(m: ManifestFile, keys: Iterable[PartitionKey], metadata: TableMetadata) -> bool:
    """Whether a manifest's summaries leave room for a file of one of the partitions."""
    of_spec = [k for k in keys if k[0] == m.partition_spec_id]
    if not of_spec or m.partitions is None or len(of_spec) > _MOST_KEYS:
        return bool(of_spec)
    spec = metadata.spec_by_id(m.partition_spec_id)
    types = [f.field_type for f in spec.partition_type(schema_of_spec(metadata, spec))]
    if len(types) != len(m.partitions):
        return True
    bounds = [(s, _value(t, s.lower_bound), _value(t, s.upper_bound)) for s, t in zip(m.partitions, types, strict=True)]
    return any(all(_room(b, v) for b, v in zip(bounds, plain_values(k), strict=True)) for k in of_spec)


def _value(type_: IcebergType, bound: bytes | None) -> Any:
    return None if bound is None else from_bytes(type_, bound)


def _room(bounds: tuple[Any, Any, Any], value: Any) -> bool:
    summary, lower, upper = bounds
    if value is None:
        return bool(summary.contains_null)
    if value != value:  # NaN
        return summary.contains_nan is not False
    if lower is None or upper is None:
        return lower is not None or upper is not None
    if lower > upper:  # a writer that was wrong about both, or Java, which orders uuids as signed numbers
        return True
    if isinstance(value, bytes):  # uuids: where both bounds have the same sign, their first half bounds the first half in either order
        lower, value, upper = lower[:8], value[:8], upper[:8]
    return bool(lower <= value <= upper)


def _filter_one(m: ManifestFile, chosen: _Chosen, schema: Schema, writer: ManifestWriter, metadata: TableMetadata) -> Filtered:
    table = read_manifest(writer.output.storage, m)
    live = pc.not_equal(table["status"], int(DELETED)).to_numpy(zero_copy_only=False)
    marked = live & _marked(table, m, chosen)
    if m.manifest_path in chosen.by_filter:
        marked |= live & _wholly_matching(table, m, chosen, schema, metadata, live & ~marked)
    if not marked.any():
        return Filtered(m)
    if chosen.removal.append_only:
        raise RemovesSomething(_partition_path(table, int(np.flatnonzero(marked)[0]), m, metadata))
    return rewrite_without(table, marked, live, m, writer, metadata)


def _marked(table: pa.Table, m: ManifestFile, chosen: _Chosen) -> Rows:
    """Rows of named files and dropped partitions."""
    found = np.zeros(len(table), dtype=bool)
    if len(chosen.paths):
        found |= pc.is_in(table["file_path"], value_set=chosen.paths).to_numpy(zero_copy_only=False)
    wanted = {k for k in chosen.removal.partitions if k[0] == m.partition_spec_id}
    if wanted:
        found |= in_partitions(table, m.partition_spec_id, wanted)
    return found


def in_partitions(table: pa.Table, spec_id: int, wanted: Iterable[PartitionKey]) -> Rows:
    keys = set(wanted)
    return np.fromiter((partition_key(spec_id, values) in keys for values in partitions_of(table)), dtype=bool, count=len(table))


def partitions_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The partition values of each entry."""
    column = table["partition"]
    if column.type.num_fields == 0:
        return [()] * len(table)
    children = [pc.struct_field(column, i).to_pylist() for i in range(column.type.num_fields)]
    return list(zip(*children, strict=True))


def _wholly_matching(table: pa.Table, m: ManifestFile, chosen: _Chosen, schema: Schema, metadata: TableMetadata, asked: Rows) -> Rows:
    removal = chosen.removal
    outcomes = file_outcomes(table, removal.row_filter, schema, metadata, m.partition_spec_id, removal.case_sensitive, removal.zone)
    partly = asked & ((outcomes & TRUE) != 0) & (outcomes != TRUE)
    if partly.any():
        path = table["file_path"][int(np.flatnonzero(partly)[0])].as_py()
        text = f"Cannot delete file where some, but not all, rows match filter {removal.row_filter}: {path}"
        raise ValidationException(text, file=path, hint="Rewrite the file without those rows (copy-on-write) instead.")
    return np.asarray(outcomes == TRUE)


def _partition_path(table: pa.Table, row: int, m: ManifestFile, metadata: TableMetadata) -> str:
    from_spec = metadata.spec_by_id(m.partition_spec_id)
    values = partitions_of(table.slice(row, 1))[0]
    return ", ".join(f"{f.name}={v}" for f, v in zip(from_spec.fields, values, strict=True))


def rewrite_without(
    table: pa.Table, marked: Rows, live: Rows, m: ManifestFile, writer: ManifestWriter, metadata: TableMetadata
) -> Filtered:
    """A copy of the manifest: marked entries DELETED by this snapshot, other live ones EXISTING, old DELETED ones gone."""
    rows = np.flatnonzero(live)
    entries = entries_from_table(table.take(pa.array(rows)), metadata.spec_by_id(m.partition_spec_id))
    kept, removed, seen, duplicates = [], [], set[tuple[str, int | None]](), 0
    for e, gone in zip(entries, marked[rows], strict=True):
        if not gone:
            kept.append(replace(e, status=EXISTING))
            continue
        kept.append(replace(e, status=DELETED, snapshot_id=writer.snapshot_id))
        name = (e.data_file.file_path, e.data_file.content_offset)
        if name in seen:
            duplicates += 1
        else:
            seen.add(name)
            removed.append(_without_metrics(e.data_file))
    return Filtered(writer.write(kept, m.partition_spec_id, m.content), tuple(removed), duplicates)


def _without_metrics(f: DataFile) -> DataFile:
    """What summaries need of a removed file; its statistics would only hold memory."""
    return replace(
        f, column_sizes=None, value_counts=None, null_value_counts=None, nan_value_counts=None, lower_bounds=None, upper_bounds=None
    )  # fmt: skip
