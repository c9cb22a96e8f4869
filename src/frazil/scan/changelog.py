"""Plan a changelog scan: the tasks that read the rows inserted and deleted by each snapshot of a
range.

Each snapshot is compared with its parent. Manifests that both list are skipped. In the others, a
data file that only one side has was added or removed with its rows, and a data file that both have
but to which other delete files apply has rows that were deleted (or, rarely, restored). The delete
files of both sides are matched by the rules of the specification (scan.deletes), so deletes of
every kind count. `replace` snapshots change no rows and are left out, as in Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput, ValidationError
from frazil.expr.bind import bind
from frazil.expr.bound import Bound, references
from frazil.expr.nodes import AlwaysTrue, And, Predicate, names
from frazil.scan.deletes import DeleteEntries, attach, read_deletes
from frazil.scan.manifests import (
    ALL_COLUMNS,
    DELETE,
    PLAN_COLUMNS,
    STATISTICS,
    column_of,
    is_data,
    live,
    manifests_of,
    read_manifest,
)
from frazil.scan.options import ScanOptions
from frazil.scan.plan import EntryChoice, may_match, plan_manifests
from frazil.scan.report import PlanReport
from frazil.scan.tasks import DELETES, FileScanTask, PlannedFiles
from frazil.spec.manifest import DataFile, ManifestEntryStatus, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import IntegerType, LongType, NestedField, StringType, StructType
from frazil.storage import Storage

CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID = (
    "_change_type",
    "_change_ordinal",
    "_commit_snapshot_id",
)
CHANGELOG_FIELDS = (
    NestedField(2147483543, CHANGE_TYPE, StringType(), True, doc="Record type in changelog"),
    NestedField(
        2147483542, CHANGE_ORDINAL, IntegerType(), False, doc="Change ordinal in changelog"
    ),
    NestedField(2147483541, COMMIT_SNAPSHOT_ID, LongType(), False, doc="Commit snapshot ID"),
)


@dataclass(frozen=True)
class ChangelogTask:
    """Read the rows of one data file that a snapshot inserted (`inserted`) or deleted.

    `task.delete_files` are those of the side where the rows are live: after the snapshot for
    inserted rows, before it for deleted ones. `other`: for a data file that both sides have, the
    delete files of the other side; only rows that are deleted there are changes. None: the other
    side does not have the file.
    """

    inserted: bool
    ordinal: int
    snapshot_id: int
    task: FileScanTask
    other: tuple[DataFile, ...] | None = None

    @property
    def rows_at_most(self) -> int:
        """Return the most rows this task can give; exact when the whole file counts and no row of
        it is deleted or filtered out.
        """
        return self.task.file.record_count

    @property
    def is_whole(self) -> bool:
        return self.other is None and not self.task.delete_files and self.task.residual is None


@dataclass(frozen=True)
class SnapshotChangelog:
    """Hold the changelog tasks of one snapshot. `ordinal`: 0 for the oldest snapshot of the range,
    `replace` snapshots not counted.
    """

    ordinal: int
    snapshot_id: int
    tasks: tuple[ChangelogTask, ...]

    @property
    def is_mixed(self) -> bool:
        """Tell whether rows were both deleted and inserted, so that some may be the same row,
        rewritten.
        """
        return len({t.inserted for t in self.tasks}) > 1


@dataclass(frozen=True)
class ChangelogPlan:
    """Hold the changes of a range of snapshots. `schema`: the table's current schema, with which
    all rows are read. `row_filter`: the bound filter by which the tasks were pruned."""

    metadata: TableMetadata = field(repr=False)
    snapshots: tuple[SnapshotChangelog, ...]
    schema: Schema = field(repr=False)
    row_filter: Bound
    equality_ids: tuple[int, ...] = ()
    options: ScanOptions = field(default_factory=ScanOptions, repr=False)

    @cached_property
    def tasks(self) -> tuple[ChangelogTask, ...]:
        return tuple(t for s in self.snapshots for t in s.tasks)

    @property
    def total_size(self) -> int:
        return sum(t.task.size_bytes for t in self.tasks)


def changelog_schema(schema: Schema) -> Schema:
    """Add the three changelog columns to the table's. Raises ValidationError when the table has
    columns of the same names.
    """
    if taken := [f.name for f in CHANGELOG_FIELDS if schema.get_field(f.name) is not None]:
        raise ValidationError(
            f"Table column names conflict with names reserved for changelogs: {', '.join(taken)}"
        )
    return Schema(
        *schema.fields,
        *CHANGELOG_FIELDS,
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )


def update_columns(
    schema: Schema,
    names: Sequence[str] | None,
    compute: bool | None,
    case_sensitive: bool,
) -> tuple[int, ...]:
    """Resolve the identifier columns that pair a DELETE with an INSERT as an update; () when no
    update images are asked for.

    `compute` None: only when columns are named. Raises InvalidInput when update images are asked
    for but neither the caller nor the table names identifier columns.
    """
    if not (compute if compute is not None else names is not None):
        return ()
    if names is None:
        names = [
            schema.find_column_name(field_id) or "" for field_id in schema.identifier_field_ids
        ]
    if not names:
        raise InvalidInput(
            "Cannot compute the update images because identifier columns are not set.",
            hint="Pass identifier_columns=[…], or set the table's identifier fields.",
        )
    field_ids = [schema.find_field(n, case_sensitive).field_id for n in names]
    for name, field_id in zip(names, field_ids, strict=True):
        around = (schema.by_id[p].field_type for p in schema.parents[field_id])
        if not schema.by_id[field_id].field_type.is_primitive or not all(
            isinstance(t, StructType) for t in around
        ):
            field_type = schema.by_id[field_id].field_type
            raise InvalidInput(
                f"Identifier column {name} must be a primitive outside lists and maps, not {field_type}."
            )
    return tuple(dict.fromkeys(field_ids))


def split_filter(
    predicate: Predicate, schema: Schema, key_ids: Sequence[int], case_sensitive: bool
) -> tuple[Predicate | None, Predicate | None]:
    """Split a filter into the part applied before rows are matched and the part applied to the
    finished changelog; None for an empty part.

    Equal rows give the same answer to any filter on the table's columns, so it may be applied
    first. The two rows of an update agree only on their identifier columns: with `key_ids`, a
    filter on other columns waits, or a row whose other half does not match would come out as a
    plain DELETE or INSERT.
    """
    before: list[Predicate] = []
    last: list[Predicate] = []
    for part in _parts(predicate):
        fields = [schema.get_field(n, case_sensitive) for n in names(part)]
        early = all(f is not None and (not key_ids or f.field_id in key_ids) for f in fields)
        (before if early else last).append(part)
    return tuple(
        None if not some else And(*some) if len(some) > 1 else some[0] for some in (before, last)
    )  # type: ignore[return-value]


def _parts(predicate: Predicate) -> list[Predicate]:
    if isinstance(predicate, AlwaysTrue):
        return []
    return (
        [p for part in predicate.parts for p in _parts(part)]
        if isinstance(predicate, And)
        else [predicate]
    )


def plan_changelog(
    metadata: TableMetadata,
    storage: Storage,
    snapshots: Sequence[Snapshot],
    *,
    row_filter: Predicate | None = None,
    case_sensitive: bool = True,
    zone: str = "UTC",
    options: ScanOptions | None = None,
) -> ChangelogPlan:
    """Plan the changes of these snapshots (each the parent of the next), pruned by a filter on the
    table's columns.

    Raises InvalidInput when a snapshot's parent has expired and files that the snapshot removed
    have been deleted with it.
    """
    options, schema = options or ScanOptions(), metadata.schema()
    bound = bind(
        row_filter if row_filter is not None else AlwaysTrue(),
        schema,
        case_sensitive=case_sensitive,
        zone=zone,
    )
    context = _Planning(metadata, storage, bound, schema, options)
    counted = [s for s in snapshots if s.operation != "replace"]
    snapshot_changelogs, ids = [], set[int]()
    for ordinal, snapshot in enumerate(counted):
        tasks, equality_ids = _changes_of(context, snapshot, ordinal)
        snapshot_changelogs.append(SnapshotChangelog(ordinal, snapshot.snapshot_id, tasks))
        ids |= equality_ids
    return ChangelogPlan(
        metadata, tuple(snapshot_changelogs), schema, bound, tuple(sorted(ids)), options
    )


@dataclass(frozen=True)
class _Planning:
    metadata: TableMetadata
    storage: Storage
    bound: Bound
    schema: Schema
    options: ScanOptions

    def files(
        self, manifests: Sequence[ManifestFile], choose: EntryChoice, with_stats: bool = False
    ) -> tuple[PlannedFiles, ...]:
        options = replace(self.options, with_stats=True) if with_stats else self.options
        report = PlanReport(
            table=self.metadata.location,
            snapshot_id=None,
            filter="",
            schema_id=self.schema.schema_id,
        )
        return plan_manifests(
            self.metadata, self.storage, manifests, self.bound, self.schema, options, report, choose
        )[0]

    def deletes(
        self, manifests: Sequence[ManifestFile], choose: EntryChoice
    ) -> DeleteEntries | None:
        relevant = may_match(manifests, self.metadata, self.bound, self.schema)
        return read_deletes(self.metadata, self.storage, relevant, self.options.workers, choose)


@dataclass(frozen=True)
class _Side:
    """Hold one state of the table: its manifests, and the choice of those of their entries that are
    live in it.
    """

    manifests: tuple[ManifestFile, ...]
    choose: EntryChoice = live

    def manifests_listing(self, *, data: bool) -> list[ManifestFile]:
        """Return the manifests of data files, or those of delete files."""
        return [m for m in self.manifests if is_data(m) == data]


def _sides(planning: _Planning, snapshot: Snapshot) -> tuple[_Side, _Side, bool]:
    """Return the states before and after a snapshot, and whether the one before had to be derived
    from the snapshot's own manifest entries, because its parent has expired."""
    metadata, storage = planning.metadata, planning.storage
    after = _Side(manifests_of(metadata, snapshot, storage))
    if snapshot.parent_snapshot_id is None:
        return _Side(()), after, False
    parent = metadata.snapshots.by_id(snapshot.parent_snapshot_id)
    if parent is not None:
        return _Side(manifests_of(metadata, parent, storage)), after, False
    # Counts are left out, or planning would skip manifests that hold nothing but removed files.
    whole = tuple(
        replace(m, added_files_count=None, existing_files_count=None, deleted_files_count=None)
        for m in after.manifests
    )
    return _Side(whole, partial(_before_entries, snapshot_id=snapshot.snapshot_id)), after, True


def _before_entries(entries: pa.Table, *, snapshot_id: int) -> pa.Table:
    """Keep the entries of a snapshot's manifests that were live in its parent: not those it added,
    but those it removed.
    """
    own = pc.equal(entries.column("snapshot_id"), snapshot_id)
    removed = pc.equal(entries.column("status"), int(ManifestEntryStatus.DELETED))
    return entries.filter(pc.equal(own, removed))


def _changes_of(
    planning: _Planning, snapshot: Snapshot, ordinal: int
) -> tuple[tuple[ChangelogTask, ...], set[int]]:
    before, after, parent_expired = _sides(planning, snapshot)
    # Equality deletes are matched by statistics.
    with_stats = bool(before.manifests_listing(data=False) or after.manifests_listing(data=False))
    columns = (
        ALL_COLUMNS
        if with_stats
        else (*PLAN_COLUMNS, *STATISTICS)
        if references(planning.bound)
        else PLAN_COLUMNS
    )
    only_before, only_after = _files_of_one_side(planning, before, after, True, columns)
    removed, added = (
        planning.files(side.manifests, side.only, with_stats) if len(side.keys) else ()
        for side in (only_before, only_after)
    )
    staying = _touched(planning, before, after, only_after.keys)
    deletes_before = (
        planning.deletes(before.manifests_listing(data=False), before.choose)
        if removed or staying
        else None
    )
    deletes_after = (
        planning.deletes(after.manifests_listing(data=False), after.choose)
        if added or staying
        else None
    )
    if parent_expired:
        _refuse_gone(planning, snapshot, removed)
    number = (ordinal, snapshot.snapshot_id)
    deleted = [
        ChangelogTask(False, *number, t)
        for t in _tasks(planning, removed, deletes_before, one_snapshot=True)
    ]
    inserted = [
        ChangelogTask(True, *number, t)
        for t in _tasks(planning, added, deletes_after, one_snapshot=True)
    ]
    for old, new in zip(
        _tasks(planning, staying, deletes_before),
        _tasks(planning, staying, deletes_after),
        strict=True,
    ):
        applied_before, applied_after = (
            {(d.file_path, d.content_offset) for d in t.delete_files} for t in (old, new)
        )
        if applied_after - applied_before:
            deleted.append(ChangelogTask(False, *number, old, new.delete_files))
        if applied_before - applied_after:  # a delete was taken back: its rows are there again
            inserted.append(ChangelogTask(True, *number, new, old.delete_files))
    ids = {
        i
        for entries in (deletes_before, deletes_after)
        if entries is not None
        for i in _equality_ids(entries)
    }
    return (*deleted, *inserted), ids


def _tasks(
    planning: _Planning,
    groups: tuple[PlannedFiles, ...],
    entries: DeleteEntries | None,
    one_snapshot: bool = False,
) -> list[FileScanTask]:
    if groups and entries is not None:
        groups = attach(planning.metadata, groups, entries, one_snapshot=one_snapshot)[0]
    slim = [_without_statistics(g) for g in groups]
    return [FileScanTask(g, n, planning.bound, g.spec) for g in slim for n in range(len(g))]


def _without_statistics(group: PlannedFiles) -> PlannedFiles:
    """Drop the column statistics: they were read to match equality deletes, and would only make
    tasks larger that are sent to workers.
    """
    columns = [c for c in group.table.column_names if c in PLAN_COLUMNS or c.startswith("_")]
    return PlannedFiles(group.spec, group.table.select(columns), group.deletes)


def _equality_ids(entries: DeleteEntries) -> set[int]:
    return {
        i
        for _, t in entries.groups
        for i in pc.unique(pc.list_flatten(t.column("equality_ids"))).to_pylist()
    }


@dataclass(frozen=True)
class _OneSided:
    """Hold the files (data files or delete files) that only one side has: their keys, and the
    manifests that list them.
    """

    keys: pa.Array
    manifests: list[ManifestFile]
    choose: EntryChoice
    with_offset: bool

    def only(self, entries: pa.Table) -> pa.Table:
        return _only(entries, choose=self.choose, keys=self.keys, with_offset=self.with_offset)


def _files_of_one_side(
    planning: _Planning, before: _Side, after: _Side, data: bool, columns: tuple[str, ...]
) -> tuple[_OneSided, _OneSided]:
    """Return the files that only the first side has, and those that only the second has. Manifests
    that both list are not read.
    """
    old, new = before.manifests_listing(data=data), after.manifests_listing(data=data)
    if before.choose is live:  # then a manifest that both sides list holds the same files for both
        shared = {m.manifest_path for m in old} & {m.manifest_path for m in new}
        old, new = (
            [m for m in manifests if m.manifest_path not in shared] for manifests in (old, new)
        )
    keys = []
    for manifests, choose in ((old, before.choose), (new, after.choose)):
        key_arrays = [
            keys_of(choose(read_manifest(planning.storage, m, columns)), not data)
            for m in manifests
        ]
        keys.append(pa.concat_arrays(key_arrays) if key_arrays else pa.array([], pa.string()))
    old_keys, new_keys = keys
    only_old = old_keys.filter(pc.invert(pc.is_in(old_keys, value_set=new_keys)))
    only_new = new_keys.filter(pc.invert(pc.is_in(new_keys, value_set=old_keys)))
    return _OneSided(only_old, old, before.choose, not data), _OneSided(
        only_new, new, after.choose, not data
    )


def keys_of(entries: pa.Table, with_offset: bool) -> pa.Array:
    """Return the key that identifies each file: its path, and for deletion vectors also the offset
    in that file.
    """
    paths = column_of(entries, "file_path")
    if not with_offset:
        return paths
    offsets = pc.fill_null(column_of(entries, "content_offset").cast(pa.string()), "")
    return pc.binary_join_element_wise(offsets, paths, " ")


def _only(
    entries: pa.Table,
    *,
    choose: EntryChoice,
    keys: pa.Array,
    with_offset: bool,
    invert: bool = False,
) -> pa.Table:
    chosen = choose(entries)
    has_key = pc.is_in(keys_of(chosen, with_offset), value_set=keys)
    return chosen.filter(pc.invert(has_key) if invert else has_key)


def _touched(
    planning: _Planning, before: _Side, after: _Side, added: pa.Array
) -> tuple[PlannedFiles, ...]:
    """Plan the data files of both sides to which delete files apply that only one side has.
    `added`: keys of files only `after` has.
    """
    columns = (*PLAN_COLUMNS, *DELETE, *STATISTICS)
    changed_sides = [
        changes
        for changes in _files_of_one_side(planning, before, after, False, columns)
        if len(changes.keys)
    ]
    if not changed_sides:
        return ()
    not_added = partial(_only, choose=after.choose, keys=added, with_offset=False, invert=True)
    staying = planning.files(after.manifests_listing(data=True), not_added, True)
    if not staying:
        return ()
    touched: list[Any] = [None] * len(staying)  # one mask per group of files
    for side in changed_sides:
        entries = planning.deletes(side.manifests, side.only)
        if entries is None:
            continue
        for number, group in enumerate(attach(planning.metadata, staying, entries)[0]):
            touched[number] = (
                group.has_deletes
                if touched[number] is None
                else touched[number] | group.has_deletes
            )
    chosen = [
        g.chosen(pa.array(mask))
        for g, mask in zip(staying, touched, strict=True)
        if mask is not None
    ]
    return tuple(
        PlannedFiles(
            g.spec, g.table.drop_columns([c for c in (DELETES,) if c in g.table.column_names])
        )
        for g in chosen
        if len(g)
    )


def _refuse_gone(
    planning: _Planning, snapshot: Snapshot, removed: tuple[PlannedFiles, ...]
) -> None:
    """Raise InvalidInput when a removed file no longer exists: expiring the parent snapshot usually
    deletes the files only it had.
    """
    for group in removed:
        for path in group.table.column("file_path").to_pylist():
            if not planning.storage.exists(path):
                raise InvalidInput(
                    f"Cannot tell what snapshot {snapshot.snapshot_id} of table {planning.metadata.location} changed: its parent "
                    f"{snapshot.parent_snapshot_id} has expired, and data file {path}, which the snapshot removed, no longer exists.",
                    hint=f"Start the changelog after this snapshot: start_snapshot_id={snapshot.snapshot_id}.",
                    snapshot_id=snapshot.snapshot_id,
                    file=path,
                )
