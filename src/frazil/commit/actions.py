"""Define the actions of a commit (append, overwrite, delete, row delta, rewrite, …). Each is
applied to the current metadata, and again to fresh metadata when another writer's commit came
first.

Conflict checks read the snapshots after `starting_snapshot_id`, the one that the writer read (None:
the branch was empty, so all of them).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from frazil.commit import conflicts
from frazil.commit.conflicts import check_isolation
from frazil.commit.context import Context
from frazil.commit.done_once import AlreadyDone
from frazil.commit.filtering import DeleteRemoval, Removal, RemovesSomething
from frazil.commit.history import History
from frazil.commit.matching import TRUE, data_file_outcome
from frazil.commit.new_table import replacement
from frazil.commit.produce import Change, SnapshotTarget, parent_of, produce
from frazil.errors import ValidationException
from frazil.expr.nodes import AlwaysFalse, AlwaysTrue, Predicate
from frazil.scan.delete_ranges import normalised
from frazil.scan.manifests import column_of, is_data, live, manifests_of, read_manifest
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec, partition_key
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder
from frazil.spec.types import NestedField, UnknownType, can_promote
from frazil.spec.updates import SetPartitionStatistics, SetStatistics, Update


class Action(Protocol):
    """Turn table metadata into metadata updates, possibly none. `context` carries what earlier
    attempts have written.

    AlreadyDone: this state of the table holds the whole commit already. The commit then succeeds
    without a swap, and the data files written for it are deleted.
    """

    def apply(
        self, metadata: TableMetadata, context: Context
    ) -> Sequence[Update] | AlreadyDone: ...


@dataclass(frozen=True, kw_only=True)
class SnapshotAction:
    """Define the base of actions that make a snapshot: the branch it goes to (see
    produce.SnapshotTarget) and the properties of its summary."""

    branch: str = MAIN_BRANCH
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    stage_only: bool = False
    wap_id: str | None = None

    @property
    def target(self) -> SnapshotTarget:
        return SnapshotTarget(self.branch, self.snapshot_properties, self.stage_only, self.wap_id)

    def validate_rows(self, metadata: TableMetadata, context: Context) -> None:
        """Raise ValidationException if other writers have changed rows that this action relies on;
        snapshots that only moved rows to other files do not count. An action that validates nothing
        relies on none."""


@dataclass(frozen=True, kw_only=True)
class CheckedAction(SnapshotAction):
    """Define the base of actions that may conflict with other commits.

    `isolation`: "snapshot" refuses new deletes of the rows concerned, "serializable" also new data;
    None: no check. `conflict_filter`: the rows that the writer relied on; None: those it removes,
    or all. `check_absent`: rows are added because no match was found for them (MERGE with inserts);
    with "serializable" isolation, no row that was found may then have been deleted.
    """

    starting_snapshot_id: int | None = None
    isolation: str | None = None
    conflict_filter: Predicate | None = None
    case_sensitive: bool = True
    zone: str = "UTC"
    check_absent: bool = False

    def history(self, metadata: TableMetadata, context: Context) -> History:
        """Return the history since the start, without snapshots of this commit itself (earlier
        steps of a transaction).
        """
        parent, own = parent_of(metadata, self.branch), frozenset(context.snapshot_ids())
        return History(
            metadata,
            context.storage,
            parent,
            self.starting_snapshot_id,
            self.case_sensitive,
            self.zone,
            own,
        )

    def validate(self, history: History) -> None:
        """Raise ValidationException for what speaks against this action in the history."""

    def validate_rows(self, metadata: TableMetadata, context: Context) -> None:
        history = replace(self.history(metadata, context), only_rows=True)
        self.validate(history)
        if self.checks_deletes and self.relies_on_deletes:
            conflicts.no_deleted_rows(
                history, AlwaysTrue() if self.conflict_filter is None else self.conflict_filter
            )

    @property
    def relies_on_deletes(self) -> bool:
        """Tell whether rows that others delete from the files of this action are a conflict. When
        those files were rewritten meanwhile, the deletes are looked for by the filter, as nothing
        tells which of the new files hold the rows."""
        return False

    @property
    def checks_deletes(self) -> bool:
        return self.isolation is not None

    @property
    def checks_data(self) -> bool:
        return self.isolation is not None and check_isolation(self.isolation) == "serializable"

    def validate_absent(self, history: History) -> None:
        if self.check_absent and self.checks_data:
            conflicts.no_deleted_rows(
                history, AlwaysTrue() if self.conflict_filter is None else self.conflict_filter
            )


@dataclass(frozen=True)
class Append(SnapshotAction):
    """Append data files. `fast`: never merge manifests. An append of no files makes a snapshot too
    (it can carry properties).
    """

    files: Sequence[DataFile] = ()
    fast: bool = field(default=False, kw_only=True)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        change = Change("append", added=self.files, merge=not self.fast, even_if_empty=True)
        return produce(change, self.target, metadata, context)


@dataclass(frozen=True, kw_only=True)
class OverwriteFiles(CheckedAction):
    """Overwrite: add data files, and remove data files by name or by a filter that must match whole
    files.

    `check_added`: added rows must match the filter. `removed_deletes`: delete files that no longer
    apply to any row, removed if they still exist. `even_if_empty`: make a snapshot also where no
    file changes.
    """

    added: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    removed_deletes: Sequence[DataFile] = ()
    row_filter: Predicate = AlwaysFalse()
    check_added: bool = False
    even_if_empty: bool = False

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if self.check_added:
            self._check_added(metadata)
        self.validate(self.history(metadata, context))
        # otherwise rows of a missing file, rewritten in `added`, would be in the table twice
        required = bool(self.removed)
        removal = Removal(
            tuple(self.removed),
            row_filter=self.row_filter,
            case_sensitive=self.case_sensitive,
            zone=self.zone,
            required=required,
        )
        operation = "append" if removal.is_empty else "overwrite" if self.added else "delete"
        change = Change(
            operation,
            added=self.added,
            removal=removal,
            delete_removal=DeleteRemoval(tuple(self.removed_deletes)),
            even_if_empty=self.even_if_empty,
        )
        return produce(change, self.target, metadata, context)

    def _check_added(self, metadata: TableMetadata) -> None:
        for f in self.added:
            if (
                data_file_outcome(f, self.row_filter, metadata, self.case_sensitive, self.zone)
                != TRUE
            ):
                raise ValidationException(
                    f"Cannot append file with rows that do not match filter: {self.row_filter}: {f.file_path}",
                    file=f.file_path,
                )

    @property
    def relies_on_deletes(self) -> bool:
        return bool(self.removed)

    def validate(self, history: History) -> None:
        by_filter = not isinstance(self.row_filter, AlwaysFalse)
        if self.checks_data:
            own = self.row_filter if by_filter and not self.removed else AlwaysTrue()
            conflicts.no_added_data_files(
                history, own if self.conflict_filter is None else self.conflict_filter
            )
        if self.checks_deletes and by_filter:
            where = self.row_filter if self.conflict_filter is None else self.conflict_filter
            conflicts.no_new_delete_files(history, where)
            conflicts.no_deleted_data_files(history, where)
        if self.checks_deletes and self.removed:
            conflicts.data_files_exist(
                history, {f.file_path for f in self.removed}, skip_deletes=False
            )
            conflicts.no_new_deletes_for(history, self.removed)
        self.validate_absent(history)


@dataclass(frozen=True)
class ReplacePartitions(CheckedAction):
    """Overwrite partitions dynamically: empty the partitions of the files first (the whole table if
    unpartitioned). Without files, commit nothing.

    `append_only`: refuse when a partition already holds files.
    """

    files: Sequence[DataFile] = ()
    append_only: bool = field(default=False, kw_only=True)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if not self.files:
            return ()
        keys = frozenset(partition_key(f.spec_id, f.partition) for f in self.files)
        whole = all(metadata.spec_by_id(f.spec_id).unpartitioned for f in self.files)
        self._validate(keys, whole, replace(self.history(metadata, context), only_rows=True))
        row_filter = AlwaysTrue() if whole else AlwaysFalse()
        removal = Removal(partitions=keys, row_filter=row_filter, append_only=self.append_only)
        change = Change(
            "overwrite",
            added=self.files,
            removal=removal,
            properties={"replace-partitions": "true"},
        )
        try:
            return produce(change, self.target, metadata, context)
        except RemovesSomething as e:
            text = f"Cannot commit file that conflicts with existing partition: {e.partition}"
            raise ValidationException(text, table=metadata.location) from e

    def _validate(self, keys: Collection[Any], whole: bool, history: History) -> None:
        """Check for conflicts with changes of rows. The partitions are emptied as they are at the
        commit, so that files which hold the same rows as others before them are none."""
        if self.checks_data and whole:
            conflicts.no_added_data_files(history, AlwaysTrue())
        elif self.checks_data:
            conflicts.no_added_data_files_in(history, keys)
        if self.checks_deletes and whole:
            conflicts.no_deleted_data_files(history, AlwaysTrue())
            conflicts.no_new_delete_files(history, AlwaysTrue())
        elif self.checks_deletes:
            conflicts.no_deleted_data_files_in(history, keys)
            conflicts.no_new_delete_files_in(history, keys)


@dataclass(frozen=True, kw_only=True)
class DeleteFiles(SnapshotAction):
    """Remove whole data files: by path, by file, or by a filter that all their rows match.
    `must_exist`: a missing named file is an error."""

    paths: Collection[str] = ()
    files: Sequence[DataFile] = ()
    row_filter: Predicate = AlwaysFalse()
    case_sensitive: bool = True
    zone: str = "UTC"
    must_exist: bool = False

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        removal = Removal(
            tuple(self.files),
            frozenset(self.paths),
            row_filter=self.row_filter,
            case_sensitive=self.case_sensitive,
            zone=self.zone,
            required=self.must_exist,
        )
        return produce(Change("delete", removal=removal), self.target, metadata, context)


@dataclass(frozen=True, kw_only=True)
class RewriteFiles(CheckedAction):
    """Rewrite files: the same rows in other files (compaction). `sequence_number`: that of the new
    data files, which keeps them older than equality deletes that were committed meanwhile, so that
    these still apply."""

    removed: Sequence[DataFile] = ()
    added: Sequence[DataFile] = ()
    removed_deletes: Sequence[DataFile] = ()
    added_deletes: Sequence[DataFile] = ()
    sequence_number: int | None = None

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if not self.removed and not self.removed_deletes:
            raise ValidationException("Files to delete cannot be empty")
        if self.added and not self.removed:
            raise ValidationException(
                "Data files to add must be empty because there's no data file to be rewritten"
            )
        if self.added_deletes and not self.removed_deletes:
            raise ValidationException(
                "Delete files to add must be empty because there's no delete file to be rewritten"
            )
        keeps = self.sequence_number is not None
        conflicts.no_new_deletes_for(
            self.history(metadata, context), self.removed, ignore_equality=keeps
        )
        change = Change(
            "replace",
            added=self.added,
            added_deletes=self.added_deletes,
            removal=Removal(tuple(self.removed), required=True),
            delete_removal=DeleteRemoval(tuple(self.removed_deletes), True),
            data_sequence_number=self.sequence_number,
        )
        return produce(change, self.target, metadata, context)


@dataclass(frozen=True, kw_only=True)
class RowDelta(CheckedAction):
    """Change rows: add data files, add delete files, and remove files, which must exist.

    `referenced`: paths of the data files to which the delete files apply; they must still exist, or
    have been removed by a delete. `check_deleted_files`: a referenced file must not have been
    removed by a delete either, and delete files to remove must exist. `check_new_deletes`: no other
    commit may have deleted rows that the writer relied on. Java uses both checks in UPDATE and
    MERGE, not in DELETE.
    """

    added: Sequence[DataFile] = ()
    added_deletes: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    removed_deletes: Sequence[DataFile] = ()
    referenced: Collection[str] = ()
    check_deleted_files: bool = False
    check_new_deletes: bool = False

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        history = self.history(metadata, context)
        self.validate(history)
        deletes = self._still_needed(history, context)
        change = Change(
            self._operation(),
            added=self.added,
            added_deletes=deletes,
            removal=Removal(tuple(self.removed), required=True),
            delete_removal=DeleteRemoval(tuple(self.removed_deletes), self.check_deleted_files),
        )
        return produce(change, self.target, metadata, context)

    def _operation(self) -> str:
        if self.added and not self.added_deletes and not self.removed:
            return "append"
        return "delete" if (self.added_deletes or self.removed) and not self.added else "overwrite"

    def _still_needed(self, history: History, context: Context) -> Sequence[DataFile]:
        """Leave out deletes of data files that another commit has removed with all their rows."""
        removed = (
            set[str]() if self.check_deleted_files else conflicts.gone(history, self.referenced)
        )
        needed = (
            [f for f in self.added_deletes if f.referenced_data_file not in removed]
            if removed
            else self.added_deletes
        )
        context.unneeded[context.action] = {f.file_path for f in self.added_deletes} - {
            f.file_path for f in needed
        }
        return needed

    @property
    def relies_on_deletes(self) -> bool:
        return self.check_new_deletes

    def validate(self, history: History) -> None:
        if both := sorted({f.file_path for f in self.removed} & set(self.referenced)):
            raise ValidationException(
                f"Cannot delete data files {both} that are referenced by new delete files",
                files=both,
            )
        if history.parent is None:
            return
        start = self.starting_snapshot_id
        if start is not None and not history.metadata.is_ancestor(start, history.parent):
            raise ValidationException(
                f"Snapshot {start} is not an ancestor of {history.parent.snapshot_id}",
                snapshot_id=start,
            )
        where = AlwaysTrue() if self.conflict_filter is None else self.conflict_filter
        conflicts.data_files_exist(
            history, self.referenced, skip_deletes=not self.check_deleted_files
        )
        if self.checks_deletes:
            conflicts.data_files_exist(
                history, {f.file_path for f in self.removed}, skip_deletes=False
            )
        if self.checks_data:
            conflicts.no_added_data_files(history, where)
        if self.check_new_deletes:
            conflicts.no_new_deletes_for(history, self.removed)
            conflicts.no_new_delete_files(history, where)
        elif self.checks_deletes and not self.checks_data:
            conflicts.no_moved_rows(history, where)
        self.validate_absent(history)
        conflicts.no_added_vectors(
            history,
            {
                f.referenced_data_file
                for f in self.added_deletes
                if f.is_dv and f.referenced_data_file
            },
        )


@dataclass(frozen=True)
class MetadataChange:
    """Change metadata only: schema, spec, sort order, properties, refs. `build` gets fresh metadata
    at each attempt.
    """

    build: Callable[[TableMetadata], Sequence[Update]]

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        return self.build(metadata)


@dataclass(frozen=True)
class AddStatistics:
    """Register statistics files (JSON objects of the spec), each for a snapshot that the table has."""

    statistics: Sequence[Mapping[str, Any]] = ()
    partition_statistics: Sequence[Mapping[str, Any]] = ()

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        for s in (*self.statistics, *self.partition_statistics):
            metadata.snapshot_by_id(s["snapshot-id"])
        return [
            *(SetStatistics(dict(s)) for s in self.statistics),
            *(SetPartitionStatistics(dict(s)) for s in self.partition_statistics),
        ]


@dataclass(frozen=True, kw_only=True)
class ReplaceTable:
    """Replace an existing table (CREATE OR REPLACE): new schema, spec and sort order, empty main
    branch, history kept. Further actions of the same commit add its data."""

    schema: Schema
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    sort_order: SortOrder = UNSORTED_SORT_ORDER
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        return replacement(
            metadata, self.schema, self.spec, self.sort_order, self.location, self.properties
        )


_HINT = "Load the table again and repeat the write."


@dataclass(frozen=True)
class WrittenFor:
    """Compare, at each attempt, the table with the metadata `written` for which `files` were
    written. It goes before the action that adds the files, and makes no updates.

    `known_columns`: the highest field id of the table when the writer loaded it; higher ids are the
    writer's own new columns, and another writer may have taken them. `rewrites`: `files` contain
    rows that were in the table before.
    """

    written: TableMetadata
    known_columns: int
    files: Sequence[DataFile] = ()
    rewrites: bool = False

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if metadata is not self.written:
            if self.rewrites and self.written.format_version < 3 <= metadata.format_version:
                raise self._changed(
                    metadata,
                    "it was upgraded to format version 3, and the rewritten rows would lose their row ids",
                )
            self._check_columns(metadata)
            self._check_specs(metadata)
        return ()

    def _check_columns(self, metadata: TableMetadata) -> None:
        written, current = self.written.schema(), metadata.schema()
        if written is current or written.same_fields(current):
            return
        for field_id, column in written.by_id.items():
            current_column = current.by_id.get(field_id)
            name = written.find_column_name(field_id) or column.name
            if field_id > self.known_columns and (
                current_column is None or current.find_column_name(field_id) != name
            ):
                raise self._changed(
                    metadata,
                    f"column {name} was written as field {field_id}, which another writer took meanwhile",
                )
            if current_column is not None and not _readable(
                column, current_column, metadata.format_version
            ):
                raise self._changed(
                    metadata,
                    f"column {name} was written as {column.field_type} and is {current_column.field_type} now",
                )

    def _check_specs(self, metadata: TableMetadata) -> None:
        for spec_id in {f.spec_id for f in self.files}:
            if metadata.spec_by_id(spec_id).fields != self.written.spec_by_id(spec_id).fields:
                raise self._changed(metadata, f"partition spec {spec_id} has other fields now")
        for order_id in {f.sort_order_id for f in self.files} - {None, 0}:
            if (
                metadata.sort_order_by_id(order_id or 0).fields
                != self.written.sort_order_by_id(order_id or 0).fields
            ):
                raise self._changed(metadata, f"sort order {order_id} has other fields now")

    def _changed(self, metadata: TableMetadata, change: str) -> ValidationException:
        text = f"Table {metadata.location} changed while data was written: {change}."
        return ValidationException(text, hint=_HINT, table=metadata.location)


@dataclass(frozen=True)
class NotYetThere:
    """Refuse to add existing files twice, or only those that have a deletion vector (`deleted`):
    it would be older than the second entry, and no read takes such a vector. It goes before the action that adds the files, and checks
    at each attempt, since another commit may have added the same files; manifests that earlier
    attempts have read are skipped."""

    paths: frozenset[str]  # normalised
    branch: str
    deleted: bool = False

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        head = parent_of(metadata, self.branch)
        if self.deleted and metadata.format_version < 3:
            return ()
        column = "referenced_data_file" if self.deleted else "file_path"
        seen, twice = context.looked_at.setdefault(context.action, set()), set[str]()
        for manifest in manifests_of(metadata, head, context.storage) if head is not None else ():
            if is_data(manifest) != self.deleted and manifest.manifest_path not in seen:
                table = live(read_manifest(context.storage, manifest, ("status", column)))
                twice |= self.paths & set(normalised(column_of(table, column)).to_pylist())
                seen.add(manifest.manifest_path)
        if twice and self.deleted:
            text = f"Cannot add files again whose rows were deleted by deletion vectors, files: {', '.join(sorted(twice)[:10])}"
            hint = "Leave these files out: the vector is older than the second entry of its file, and no read would take it."
            raise ValidationException(text, hint=hint, table=metadata.location, files=sorted(twice))
        if twice:
            shown = ", ".join(sorted(twice)[:10])
            text = f"Cannot add files that are already referenced by table, files: {shown}"
            hint = "Leave these files out, or pass check_duplicate_files=False: their rows will be read twice."
            raise ValidationException(text, hint=hint, table=metadata.location, files=sorted(twice))
        return ()


def _readable(written: NestedField, now: NestedField, version: int) -> bool:
    old, new = written.field_type, now.field_type
    if not (old.is_primitive and new.is_primitive):
        return type(old) is type(new)
    return isinstance(old, UnknownType) or can_promote(old, new, max(version, 3))
