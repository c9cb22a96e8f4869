"""What changed between two snapshots, as tasks: the rows of data files that each snapshot brought or took away.

A snapshot is held against its parent. Manifests that both have say nothing; of the others the data files of one side only are rows that
came or went, and the files that stay but whose delete files differ are rows that died (or, rarely, came back). The delete files of both
sides are matched by the rules of the specification (scan.deletes), so deletes of every kind count. `replace` snapshots change no rows and
are left out, as in Java.
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
from frazil.scan.manifests import ALL_COLUMNS, DELETE, PLAN_COLUMNS, STATISTICS, column_of, is_data, live, manifests_of, read_manifest
from frazil.scan.options import ScanOptions
from frazil.scan.plan import EntryChoice, may_match, plan_manifests
from frazil.scan.report import ScanReport
from frazil.scan.tasks import DELETES, FileScanTask, PlannedFiles
from frazil.spec.data_file import DataFile, ManifestEntryStatus
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import IntegerType, LongType, NestedField, StringType, StructType
from frazil.storage import Storage

CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID = "_change_type", "_change_ordinal", "_commit_snapshot_id"
CHANGE_FIELDS = (
    NestedField(2147483543, CHANGE_TYPE, StringType(), True, doc="Record type in changelog"),
    NestedField(2147483542, CHANGE_ORDINAL, IntegerType(), False, doc="Change ordinal in changelog"),
    NestedField(2147483541, COMMIT_SNAPSHOT_ID, LongType(), False, doc="Commit snapshot ID"),
)


@dataclass(frozen=True)
class ChangeTask:
    """Rows of one data file that a snapshot brought (`inserted`) or took away.

    `task.delete_files` apply on the side where the rows live: after the snapshot if they were brought, before it if they went. `other`:
    for a file that stays, the delete files of the other side; only rows that are dead there count. None: the other side lacks the file.
    """

    inserted: bool
    ordinal: int
    snapshot_id: int
    task: FileScanTask
    other: tuple[DataFile, ...] | None = None

    @property
    def rows_at_most(self) -> int:
        """Exact when the whole file counts and nothing of it is deleted or filtered."""
        return self.task.file.record_count

    @property
    def is_whole(self) -> bool:
        return self.other is None and not self.task.delete_files and self.task.residual is None


@dataclass(frozen=True)
class SnapshotChanges:
    """`ordinal`: 0 for the oldest snapshot of the range, `replace` snapshots not counted."""

    ordinal: int
    snapshot_id: int
    tasks: tuple[ChangeTask, ...]

    @property
    def is_mixed(self) -> bool:
        """Rows went and rows came: some may be the same."""
        return len({t.inserted for t in self.tasks}) > 1


@dataclass(frozen=True)
class ChangelogPlan:
    """`schema`: the table's current one, with which all rows are read. `row_filter`: the bound filter that the tasks were pruned by."""

    metadata: TableMetadata = field(repr=False)
    snapshots: tuple[SnapshotChanges, ...]
    schema: Schema = field(repr=False)
    row_filter: Bound
    equality_ids: tuple[int, ...] = ()
    options: ScanOptions = field(default_factory=ScanOptions, repr=False)

    @cached_property
    def tasks(self) -> tuple[ChangeTask, ...]:
        return tuple(t for s in self.snapshots for t in s.tasks)

    @property
    def total_size(self) -> int:
        return sum(t.task.size_bytes for t in self.tasks)


def changelog_schema(schema: Schema) -> Schema:
    """The table's columns and the three of the changelog. Raises ValidationError when the table has columns of such names."""
    if taken := [f.name for f in CHANGE_FIELDS if schema.get_field(f.name) is not None]:
        raise ValidationError(f"Table column names conflict with names reserved for changelogs: {', '.join(taken)}")
    return Schema(*schema.fields, *CHANGE_FIELDS, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


def update_columns(schema: Schema, net: bool, names: Sequence[str] | None, compute: bool | None, case_sensitive: bool) -> tuple[int, ...]:
    """Ids of the columns that tell updates; () when none are asked for. `compute` None: only when columns are named.

    Raises InvalidInput for updates of net changes, and when updates are asked for but neither the caller nor the table names columns.
    """
    if not (compute if compute is not None else names is not None):
        return ()
    if net:
        raise InvalidInput("Not support net changes with update images: give net or identifier_columns, not both.")
    if names is None:
        names = [schema.find_column_name(i) or "" for i in schema.identifier_field_ids]
    if not names:
        raise InvalidInput(
            "Cannot compute the update images because identifier columns are not set.",
            hint="Name them: identifier_columns=[…], or set the table's identifier fields.",
        )
    found = [schema.find_field(n, case_sensitive).field_id for n in names]
    for name, i in zip(names, found, strict=True):
        around = (schema.by_id[p].field_type for p in schema.parents[i])
        if not schema.by_id[i].field_type.is_primitive or not all(isinstance(t, StructType) for t in around):
            raise InvalidInput(f"Identifier column {name} must be a plain value outside lists and maps, not {schema.by_id[i].field_type}.")
    return tuple(dict.fromkeys(found))


def split_filter(
    predicate: Predicate, schema: Schema, key_ids: Sequence[int], case_sensitive: bool
) -> tuple[Predicate | None, Predicate | None]:
    """(what may be decided before rows are matched, what must be decided last); None: nothing.

    Rows that are equal agree about any filter on the table's columns. Pairs of an update agree only about their keys: with `key_ids`
    nothing else is decided before, or a row whose other half does not match would come as a plain DELETE or INSERT.
    """
    before: list[Predicate] = []
    last: list[Predicate] = []
    for part in _parts(predicate):
        fields = [schema.get_field(n, case_sensitive) for n in names(part)]
        early = all(f is not None and (not key_ids or f.field_id in key_ids) for f in fields)
        (before if early else last).append(part)
    return tuple(None if not some else And(*some) if len(some) > 1 else some[0] for some in (before, last))  # type: ignore[return-value]


def _parts(predicate: Predicate) -> list[Predicate]:
    if isinstance(predicate, AlwaysTrue):
        return []
    return [p for part in predicate.parts for p in _parts(part)] if isinstance(predicate, And) else [predicate]


def plan_changes(
    metadata: TableMetadata,
    storage: Storage,
    snapshots: Sequence[Snapshot],
    *,
    row_filter: Predicate | None = None,
    case_sensitive: bool = True,
    zone: str = "UTC",
    options: ScanOptions | None = None,
) -> ChangelogPlan:
    """The changes of these snapshots (each a child of the one before), pruned by a filter on the table's columns.

    Raises InvalidInput when a snapshot's parent has expired and files that it took away are gone with it.
    """
    options, schema = options or ScanOptions(), metadata.schema()
    bound = bind(row_filter if row_filter is not None else AlwaysTrue(), schema, case_sensitive=case_sensitive, zone=zone)
    context = _Planning(metadata, storage, bound, schema, options)
    counted = [s for s in snapshots if s.operation != "replace"]
    found, ids = [], set[int]()
    for ordinal, snapshot in enumerate(counted):
        tasks, equality_ids = _changes_of(context, snapshot, ordinal)
        found.append(SnapshotChanges(ordinal, snapshot.snapshot_id, tasks))
        ids |= equality_ids
    return ChangelogPlan(metadata, tuple(found), schema, bound, tuple(sorted(ids)), options)


@dataclass(frozen=True)
class _Planning:
    metadata: TableMetadata
    storage: Storage
    bound: Bound
    schema: Schema
    options: ScanOptions

    def files(self, manifests: Sequence[ManifestFile], choose: EntryChoice, with_stats: bool = False) -> tuple[PlannedFiles, ...]:
        options = replace(self.options, with_stats=True) if with_stats else self.options
        report = ScanReport(table=self.metadata.location, snapshot_id=None, filter="", schema_id=self.schema.schema_id)
        return plan_manifests(self.metadata, self.storage, manifests, self.bound, self.schema, options, report, choose)[0]

    def deletes(self, manifests: Sequence[ManifestFile], choose: EntryChoice) -> DeleteEntries | None:
        relevant = may_match(manifests, self.metadata, self.bound, self.schema)
        return read_deletes(self.metadata, self.storage, relevant, self.options.workers, choose)


@dataclass(frozen=True)
class _Side:
    """A state of the table: its manifests, and which of their entries are its files."""

    manifests: tuple[ManifestFile, ...]
    choose: EntryChoice = live

    def of(self, data: bool) -> list[ManifestFile]:
        return [m for m in self.manifests if is_data(m) == data]


def _sides(planning: _Planning, snapshot: Snapshot) -> tuple[_Side, _Side, bool]:
    """Before and after a snapshot, and whether the first is told by the snapshot's own entries, its parent being gone."""
    metadata, storage = planning.metadata, planning.storage
    after = _Side(manifests_of(metadata, snapshot, storage))
    if snapshot.parent_snapshot_id is None:
        return _Side(()), after, False
    parent = metadata.snapshots.by_id(snapshot.parent_snapshot_id)
    if parent is not None:
        return _Side(manifests_of(metadata, parent, storage)), after, False
    # Counts are left out, or manifests of nothing but removed files would be passed over.
    whole = tuple(replace(m, added_files_count=None, existing_files_count=None, deleted_files_count=None) for m in after.manifests)
    return _Side(whole, partial(_before_entries, snapshot_id=snapshot.snapshot_id)), after, True


def _before_entries(entries: pa.Table, *, snapshot_id: int) -> pa.Table:
    """Entries of a snapshot's manifests that stood in its parent: not those it added, and those it removed."""
    own = pc.equal(entries.column("snapshot_id"), snapshot_id)
    removed = pc.equal(entries.column("status"), int(ManifestEntryStatus.DELETED))
    return entries.filter(pc.equal(own, removed))


def _changes_of(planning: _Planning, snapshot: Snapshot, ordinal: int) -> tuple[tuple[ChangeTask, ...], set[int]]:
    before, after, told = _sides(planning, snapshot)
    with_stats = bool(before.of(False) or after.of(False))  # by which equality deletes are matched
    columns = ALL_COLUMNS if with_stats else (*PLAN_COLUMNS, *STATISTICS) if references(planning.bound) else PLAN_COLUMNS
    gone, come = _files_of_one_side(planning, before, after, True, columns)
    removed, added = (planning.files(one.manifests, one.only, with_stats) if len(one.keys) else () for one in (gone, come))
    staying = _touched(planning, before, after, come.keys)
    then = planning.deletes(before.of(False), before.choose) if removed or staying else None
    now = planning.deletes(after.of(False), after.choose) if added or staying else None
    if told:
        _refuse_gone(planning, snapshot, removed)
    number = (ordinal, snapshot.snapshot_id)
    tasks = [ChangeTask(False, *number, t) for t in _tasks(planning, removed, then, one_snapshot=True)]
    inserted = [ChangeTask(True, *number, t) for t in _tasks(planning, added, now, one_snapshot=True)]
    for old, new in zip(_tasks(planning, staying, then), _tasks(planning, staying, now), strict=True):
        was, is_ = ({_place(d) for d in t.delete_files} for t in (old, new))
        if is_ - was:
            tasks.append(ChangeTask(False, *number, old, new.delete_files))
        if was - is_:
            inserted.append(ChangeTask(True, *number, new, old.delete_files))
    ids = {i for entries in (then, now) if entries is not None for i in _equality_ids(entries)}
    return (*tasks, *inserted), ids


def _place(delete: DataFile) -> tuple[str, int | None]:
    return delete.file_path, delete.content_offset


def _tasks(
    planning: _Planning, groups: tuple[PlannedFiles, ...], entries: DeleteEntries | None, one_snapshot: bool = False
) -> list[FileScanTask]:
    if groups and entries is not None:
        groups = attach(planning.metadata, groups, entries, one_snapshot=one_snapshot)[0]
    slim = [_without_statistics(g) for g in groups]
    return [FileScanTask(g, n, planning.bound, g.spec) for g in slim for n in range(len(g))]


def _without_statistics(group: PlannedFiles) -> PlannedFiles:
    """They were read to match equality deletes; a task that travels shall not carry them."""
    kept = [c for c in group.table.column_names if c in PLAN_COLUMNS or c.startswith("_")]
    return PlannedFiles(group.spec, group.table.select(kept), group.deletes)


def _equality_ids(entries: DeleteEntries) -> set[int]:
    return {i for _, t in entries.groups for i in pc.unique(pc.list_flatten(t.column("equality_ids"))).to_pylist()}


@dataclass(frozen=True)
class _OneSided:
    """Files (data files or delete files) that only one side has: their keys, and the manifests among whose entries they are."""

    keys: pa.Array
    manifests: list[ManifestFile]
    choose: EntryChoice
    with_offset: bool

    def only(self, entries: pa.Table) -> pa.Table:
        return _only(entries, choose=self.choose, keys=self.keys, with_offset=self.with_offset)


def _files_of_one_side(
    planning: _Planning, before: _Side, after: _Side, data: bool, columns: tuple[str, ...]
) -> tuple[_OneSided, _OneSided]:
    """What only the first side has, and what only the second has. Manifests that both have are not looked at."""
    old, new = before.of(data), after.of(data)
    if before.choose is live:  # manifests of both sides hold the same files
        shared = {m.manifest_path for m in old} & {m.manifest_path for m in new}
        old, new = ([m for m in some if m.manifest_path not in shared] for some in (old, new))
    keys = []
    for some, choose in ((old, before.choose), (new, after.choose)):
        found = [keys_of(choose(read_manifest(planning.storage, m, columns)), not data) for m in some]
        keys.append(pa.concat_arrays(found) if found else pa.array([], pa.string()))
    then, now = keys
    gone, come = then.filter(pc.invert(pc.is_in(then, value_set=now))), now.filter(pc.invert(pc.is_in(now, value_set=then)))
    return _OneSided(gone, old, before.choose, not data), _OneSided(come, new, after.choose, not data)


def keys_of(entries: pa.Table, with_offset: bool) -> pa.Array:
    """What tells a file from others: its path, and for deletion vectors the place in it."""
    paths = column_of(entries, "file_path")
    if not with_offset:
        return paths
    offsets = pc.fill_null(column_of(entries, "content_offset").cast(pa.string()), "")
    return pc.binary_join_element_wise(offsets, paths, " ")


def _only(entries: pa.Table, *, choose: EntryChoice, keys: pa.Array, with_offset: bool, invert: bool = False) -> pa.Table:
    chosen = choose(entries)
    found = pc.is_in(keys_of(chosen, with_offset), value_set=keys)
    return chosen.filter(pc.invert(found) if invert else found)


def _touched(planning: _Planning, before: _Side, after: _Side, come: pa.Array) -> tuple[PlannedFiles, ...]:
    """Files of both sides to which delete files apply that only one side has."""
    columns = (*PLAN_COLUMNS, *DELETE, *STATISTICS)
    changed = [one for one in _files_of_one_side(planning, before, after, False, columns) if len(one.keys)]
    if not changed:
        return ()
    staying = planning.files(after.of(True), partial(_only, choose=after.choose, keys=come, with_offset=False, invert=True), True)
    if not staying:
        return ()
    marks: list[Any] = [None] * len(staying)
    for one in changed:
        entries = planning.deletes(one.manifests, one.only)
        if entries is None:
            continue
        for n, group in enumerate(attach(planning.metadata, staying, entries)[0]):
            marks[n] = group.has_deletes if marks[n] is None else marks[n] | group.has_deletes
    chosen = [g.chosen(pa.array(m)) for g, m in zip(staying, marks, strict=True) if m is not None]
    return tuple(PlannedFiles(g.spec, g.table.drop_columns([c for c in (DELETES,) if c in g.table.column_names])) for g in chosen if len(g))


def _refuse_gone(planning: _Planning, snapshot: Snapshot, removed: tuple[PlannedFiles, ...]) -> None:
    """A parent that expired took its own files with it, as a rule."""
    for group in removed:
        for path in group.table.column("file_path").to_pylist():
            if not planning.storage.exists(path):
                raise InvalidInput(
                    f"Cannot tell what snapshot {snapshot.snapshot_id} of table {planning.metadata.location} changed: its parent "
                    f"{snapshot.parent_snapshot_id} has expired, and {path}, which it removed, is gone.",
                    hint=f"Start after it: start_snapshot_id={snapshot.snapshot_id}.", snapshot_id=snapshot.snapshot_id, file=path,
                )  # fmt: skip
