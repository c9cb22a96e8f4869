"""Rewrite manifests without the files that a commit removes: removed files become DELETED entries,
the others EXISTING. Delete manifests lose the delete files that are removed or obsolete as well
(Java ManifestFilterManager).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.manifest import entries_from_table
from frazil.commit.manifests import DELETED, EXISTING, ManifestWriter
from frazil.commit.matching import TRUE, file_outcomes, manifests_that_may_match
from frazil.errors import ValidationException
from frazil.expr.nodes import AlwaysFalse, Predicate
from frazil.scan.delete_ranges import normalised, path_bounds
from frazil.scan.manifests import column_of, read_manifest
from frazil.scan.summaries import manifests_that_may_hold
from frazil.spec.manifest import (
    DataFile,
    DataFileContent,
    ManifestFile,
    without_statistics,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionKey, partition_key
from frazil.spec.schema import Schema
from frazil.storage import normalise

Rows = npt.NDArray[np.bool_]


class RemovesSomething(Exception):
    """Report that an append-only change would remove a file; `partition` is the path of its
    partition.
    """

    def __init__(self, partition: str):
        super().__init__(partition)
        self.partition = partition


@dataclass(frozen=True)
class Removal:
    """Select the data files that a change removes: named files, all files of some partitions, files
    in which all rows match a filter.
    """

    files: tuple[DataFile, ...] = ()
    paths: frozenset[str] = frozenset()
    partitions: frozenset[PartitionKey] = frozenset()
    row_filter: Predicate = AlwaysFalse()
    case_sensitive: bool = True
    zone: str = "UTC"
    required: bool = False
    """A named file that does not exist is an error."""
    append_only: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.paths or self.partitions) and isinstance(
            self.row_filter, AlwaysFalse
        )


@dataclass(frozen=True)
class DeleteRemoval:
    """Select the delete files that a change removes: named ones (`required`: they must exist), and
    those that no longer apply to any row.

    The latter are delete files of dropped partitions (`partitions`, and those that `row_filter`
    matches wholly), files older than all data, and files of a single data file that is removed
    (`removed`) or gets a new deletion vector (`vectors`, into which the caller has merged the old
    deletes). A data file must not keep a second vector.
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
    """Hold one manifest after filtering; `manifest` is the old one when nothing in it was removed."""

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


def state_of(manifest: ManifestFile) -> tuple[str, int | None]:
    """Return the key under which the filtered manifest is cached for the next attempt. It includes
    the first row id, since in v3 another commit can assign row ids to a manifest that had none."""
    return manifest.manifest_path, manifest.first_row_id


def filter_data(
    manifests: Sequence[ManifestFile],
    removal: Removal,
    schema: Schema,
    writer: ManifestWriter,
    metadata: TableMetadata,
    cache: FilterCache,
) -> FilterResult:
    """Filter the files of `removal` out of data manifests. Results are kept in `cache` for the next
    attempt.

    Raises ValidationException when a file matches the filter only in part or a required file is
    missing, RemovesSomething when the change is append-only and would remove a file.
    """
    if removal.is_empty:
        return FilterResult(list(manifests))
    result = FilterResult()
    chosen = _PreparedRemoval.of(removal, manifests, schema, metadata)
    for m in manifests:
        filtered = cache.get(state_of(m))
        if filtered is None:
            filtered = (
                _filter_one(m, chosen, schema, writer, metadata)
                if chosen.may_hold(m)
                else Filtered(m)
            )
            cache[state_of(m)] = filtered
        result.take(
            m,
            replace(filtered, manifest=m)
            if filtered.manifest.manifest_path == m.manifest_path
            else filtered,
        )
    if removal.required:
        wanted = {*removal.paths, *(f.file_path for f in removal.files)}
        check_required({(p, None) for p in wanted}, {(f.file_path, None) for f in result.removed})
    return result


def check_required(
    required: set[tuple[str, int | None]], removed: set[tuple[str, int | None]]
) -> None:
    """Raise ValidationException if a required file was not removed. Files are identified by path
    and offset, since many deletion vectors share one Puffin file."""
    if missing := sorted({path for path, _ in required - removed}):
        raise ValidationException(
            f"Missing required files to delete: {','.join(missing)}", files=missing
        )


@dataclass
class _PreparedRemoval:
    """Prepare a removal for testing many manifests."""

    removal: Removal
    paths: pa.Array
    by_filter: set[str]
    by_partition: set[str]

    @classmethod
    def of(
        cls,
        removal: Removal,
        manifests: Sequence[ManifestFile],
        schema: Schema,
        metadata: TableMetadata,
    ) -> _PreparedRemoval:
        paths = pa.array(
            sorted({*removal.paths, *(f.file_path for f in removal.files)}), type=pa.string()
        )
        keys = removal.partitions | {partition_key(f.spec_id, f.partition) for f in removal.files}
        by_filter = manifests_that_may_match(
            manifests, removal.row_filter, schema, metadata, removal.case_sensitive, removal.zone
        )
        return cls(removal, paths, by_filter, manifests_that_may_hold(manifests, keys, metadata))

    def may_hold(self, m: ManifestFile) -> bool:
        if not m.has_live_files:
            return False
        return (
            bool(self.removal.paths)
            or m.manifest_path in self.by_filter
            or m.manifest_path in self.by_partition
        )


def _filter_one(
    manifest: ManifestFile,
    chosen: _PreparedRemoval,
    schema: Schema,
    writer: ManifestWriter,
    metadata: TableMetadata,
) -> Filtered:
    table = read_manifest(writer.output.storage, manifest)
    live = pc.not_equal(table["status"], int(DELETED)).to_numpy(zero_copy_only=False)
    marked = live & _marked(table, manifest, chosen)
    if manifest.manifest_path in chosen.by_filter:
        marked |= live & _wholly_matching(table, manifest, chosen, schema, metadata, live & ~marked)
    if not marked.any():
        return Filtered(manifest)
    if chosen.removal.append_only:
        raise RemovesSomething(
            _partition_path(table, int(np.flatnonzero(marked)[0]), manifest, metadata)
        )
    return rewrite_without(table, marked, live, manifest, writer, metadata)


def _marked(table: pa.Table, m: ManifestFile, chosen: _PreparedRemoval) -> Rows:
    """Mark the entries of named files and of dropped partitions."""
    marks = np.zeros(len(table), dtype=bool)
    if len(chosen.paths):
        marks |= pc.is_in(table["file_path"], value_set=chosen.paths).to_numpy(zero_copy_only=False)
    wanted = {k for k in chosen.removal.partitions if k[0] == m.partition_spec_id}
    if wanted:
        marks |= in_partitions(table, m.partition_spec_id, wanted)
    return marks


def in_partitions(table: pa.Table, spec_id: int, partitions: Iterable[PartitionKey]) -> Rows:
    keys = set(partitions)
    return np.fromiter(
        (partition_key(spec_id, values) in keys for values in partitions_of(table)),
        dtype=bool,
        count=len(table),
    )


def partitions_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the partition values of each entry."""
    column = table["partition"]
    if column.type.num_fields == 0:
        return [()] * len(table)
    children = [pc.struct_field(column, i).to_pylist() for i in range(column.type.num_fields)]
    return list(zip(*children, strict=True))


def _wholly_matching(
    table: pa.Table,
    m: ManifestFile,
    chosen: _PreparedRemoval,
    schema: Schema,
    metadata: TableMetadata,
    candidates: Rows,
) -> Rows:
    """Mark the entries whose rows all match the filter. Raises ValidationException for a candidate
    of whose rows some match.
    """
    removal = chosen.removal
    outcomes = file_outcomes(
        table,
        removal.row_filter,
        schema,
        metadata,
        m.partition_spec_id,
        removal.case_sensitive,
        removal.zone,
    )
    partly = candidates & ((outcomes & TRUE) != 0) & (outcomes != TRUE)
    if partly.any():
        path = table["file_path"][int(np.flatnonzero(partly)[0])].as_py()
        text = f"Cannot delete file where some, but not all, rows match filter {removal.row_filter}: {path}"
        raise ValidationException(
            text, file=path, hint="Rewrite the file without those rows (copy-on-write) instead."
        )
    return np.asarray(outcomes == TRUE)


def _partition_path(table: pa.Table, row: int, m: ManifestFile, metadata: TableMetadata) -> str:
    from_spec = metadata.spec_by_id(m.partition_spec_id)
    values = partitions_of(table.slice(row, 1))[0]
    return ", ".join(f"{f.name}={v}" for f, v in zip(from_spec.fields, values, strict=True))


def rewrite_without(
    table: pa.Table,
    marked: Rows,
    live: Rows,
    manifest: ManifestFile,
    writer: ManifestWriter,
    metadata: TableMetadata,
) -> Filtered:
    """Write a copy of the manifest: marked entries DELETED by this snapshot, other live ones
    EXISTING, old DELETED entries dropped.
    """
    rows = np.flatnonzero(live)
    entries = entries_from_table(
        table.take(pa.array(rows)), metadata.spec_by_id(manifest.partition_spec_id)
    )
    rewritten, removed, seen, duplicates = [], [], set[tuple[str, int | None]](), 0
    for entry, is_removed in zip(entries, marked[rows], strict=True):
        if not is_removed:
            rewritten.append(replace(entry, status=EXISTING))
            continue
        rewritten.append(replace(entry, status=DELETED, snapshot_id=writer.snapshot_id))
        name = (entry.data_file.file_path, entry.data_file.content_offset)
        if name in seen:
            duplicates += 1
        else:
            seen.add(name)
            # the snapshot's summary does not need statistics, which would only take memory
            removed.append(without_statistics(entry.data_file))
    return Filtered(
        writer.write(rewritten, manifest.partition_spec_id, manifest.content),
        tuple(removed),
        duplicates,
    )


@dataclass
class _PreparedDeleteRemoval:
    """Prepare a removal for testing many delete manifests."""

    removal: DeleteRemoval
    metadata: TableMetadata
    manifests: Sequence[ManifestFile]

    @cached_property
    def named(self) -> set[tuple[str, int | None]]:
        return {(f.file_path, f.content_offset) for f in self.removal.files}

    @cached_property
    def required(self) -> set[tuple[str, int | None]]:
        """Return the delete files that must be there to be removed: all that are named, or those
        whose data file gets a new vector, which holds their deletes. Were one to stay, the data
        file would have two vectors."""
        if self.removal.required or not self.named:
            return self.named
        replaced = set(
            _paths([v.referenced_data_file or "" for v in self.removal.vectors]).to_pylist()
        )
        named = [f for f in self.removal.files if f.is_dv and replaced]
        return {
            (f.file_path, f.content_offset)
            for f in named
            if normalise(f.referenced_data_file or "") in replaced
        }

    @cached_property
    def by_filter(self) -> set[str]:
        removal = self.removal
        return manifests_that_may_match(
            self.manifests,
            removal.row_filter,
            self.metadata.schema(),
            self.metadata,
            removal.case_sensitive,
            removal.zone,
        )

    @cached_property
    def by_partition(self) -> set[str]:
        """Return the manifests in whose partitions delete files may have to be removed; a delete
        file is in its data file's partition.
        """
        about: Iterable[DataFile] = (
            *self.removal.files,
            *self.removal.removed,
            *self.removal.vectors,
        )
        keys = self.removal.partitions | {partition_key(f.spec_id, f.partition) for f in about}
        return manifests_that_may_hold(self.manifests, keys, self.metadata)

    @cached_property
    def superseded(self) -> pa.Array:
        """Return the paths of the data files whose own delete files are removed."""
        return _paths(
            [
                *(f.file_path for f in self.removal.removed),
                *(v.referenced_data_file or "" for v in self.removal.vectors),
            ]
        )

    def may_change(self, m: ManifestFile) -> bool:
        if not m.has_live_files:
            return False
        old = (m.min_sequence_number or 0) < self.removal.before_sequence_number
        return old or m.manifest_path in self.by_filter or m.manifest_path in self.by_partition


def _paths(texts: Sequence[str]) -> pa.Array:
    return normalised(pa.array(sorted(set(texts)), pa.string()))


def filter_deletes(
    manifests: Sequence[ManifestFile],
    removal: DeleteRemoval,
    writer: ManifestWriter,
    metadata: TableMetadata,
) -> FilterResult:
    """Filter the delete files of `removal` out of delete manifests.

    Raises ValidationException when a required delete file is missing, or when a data file would
    have two deletion vectors.
    """
    result = FilterResult()
    chosen = _PreparedDeleteRemoval(removal, metadata, manifests)
    for manifest in manifests:
        if not chosen.may_change(manifest):
            result.take(manifest, Filtered(manifest))
            continue
        table = read_manifest(writer.output.storage, manifest)
        live: Rows = pc.not_equal(table["status"], int(DELETED)).to_numpy(zero_copy_only=False)
        marked = live & _deletes_marked(table, manifest, chosen)
        _refuse_second_vectors(table.filter(pa.array(live & ~marked)), removal, metadata)
        result.take(
            manifest,
            rewrite_without(table, marked, live, manifest, writer, metadata)
            if marked.any()
            else Filtered(manifest),
        )
    check_required(chosen.required, {(f.file_path, f.content_offset) for f in result.removed})
    return result


def _deletes_marked(
    table: pa.Table, manifest: ManifestFile, chosen: _PreparedDeleteRemoval
) -> Rows:
    removal = chosen.removal
    sequence = pc.fill_null(table["sequence_number"], 0).to_numpy(zero_copy_only=False)
    marked: Rows = (sequence > 0) & (sequence < removal.before_sequence_number)
    if chosen.named:
        pairs = zip(
            table["file_path"].to_pylist(), table["content_offset"].to_pylist(), strict=True
        )
        marked |= np.fromiter((p in chosen.named for p in pairs), dtype=bool, count=len(table))
    if wanted := [k for k in removal.partitions if k[0] == manifest.partition_spec_id]:
        marked |= in_partitions(table, manifest.partition_spec_id, wanted)
    if len(chosen.superseded):
        marked |= _about(table, chosen)
    if manifest.manifest_path in chosen.by_filter and not isinstance(
        removal.row_filter, AlwaysFalse
    ):
        outcomes = file_outcomes(
            table,
            removal.row_filter,
            chosen.metadata.schema(),
            chosen.metadata,
            manifest.partition_spec_id,
            removal.case_sensitive,
            removal.zone,
            partition_only=True,
        )
        marked |= outcomes == TRUE
    return marked


def _about(table: pa.Table, chosen: _PreparedDeleteRemoval) -> Rows:
    """Mark the delete files of a single data file that is removed or gets a new deletion vector. In
    the second case old vectors are not marked: the caller has to name them, so that a vector that
    was not merged is never lost."""
    positional = column_of(table, "content").to_numpy() == int(DataFileContent.POSITION_DELETES)
    single = path_bounds([table], column_of(table, "referenced_data_file"), positional).single
    vector = pc.equal(column_of(table, "file_format"), "puffin").to_numpy(zero_copy_only=False)
    removed = _is_in(single, _paths([f.file_path for f in chosen.removal.removed]))
    return np.asarray(removed | (_is_in(single, chosen.superseded) & ~vector))


def _is_in(values: pa.Array, members: pa.Array) -> Rows:
    return np.asarray(
        pc.and_(values.is_valid(), pc.is_in(values, value_set=members)).to_numpy(
            zero_copy_only=False
        )
    )


def _refuse_second_vectors(
    staying: pa.Table, removal: DeleteRemoval, metadata: TableMetadata
) -> None:
    if not removal.vectors or not len(staying):
        return
    vectors = staying.filter(pc.equal(staying["file_format"], "puffin"))
    if not len(vectors):
        return
    paths = normalised(column_of(vectors, "referenced_data_file"))
    both = vectors.filter(
        pa.array(_is_in(paths, _paths([v.referenced_data_file or "" for v in removal.vectors])))
    )
    if len(both):
        file, other = both["referenced_data_file"][0].as_py(), both["file_path"][0].as_py()
        raise ValidationException(
            f"Cannot add a deletion vector for {file}, which has one already: {other}",
            file=file,
            table=metadata.location,
            snapshot_id=both["snapshot_id"][0].as_py(),
            hint="Merge both vectors, and remove the old one in the same commit.",
        )
