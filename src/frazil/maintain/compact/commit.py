"""Commit rewritten files by an action that can be applied again to newer metadata; it then carries
over the deletes of other writers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.arrow.deletes.write_deletes import FileDeletes, write_position_deletes, write_vectors
from frazil.commit import conflicts
from frazil.commit.actions import SnapshotAction
from frazil.commit.context import Context
from frazil.commit.filtering import DeleteRemoval, Removal
from frazil.commit.history import History
from frazil.commit.produce import Change, parent_of, produce
from frazil.errors import NoSuchFileError, ValidationException
from frazil.maintain.compact.carry import RewrittenGroup, carried_over
from frazil.maintain.compact.rewrite import CompactContext
from frazil.maintain.position_deletes.conflict_retries import unmatched
from frazil.rows.modes import granularity_of
from frazil.scan.deletes import DeleteIndex, read_deletes
from frazil.scan.plan import plan
from frazil.scan.tasks import FileScanTask, TaskSequence
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import partition_key
from frazil.spec.updates import Update
from frazil.storage import Storage

_CACHE = 256 << 20
MOST_PAIRS = 50_000_000  # (data file, delete file) pairs that are tested one by one


class GroupsGone(ValidationException):
    """Report that other writers have changed the files of all groups meanwhile, so that there is
    nothing to commit.
    """


@dataclass(frozen=True, kw_only=True)
class CompactFiles(SnapshotAction):
    """Replace the files of some groups by those with the same rows. A group of which a file is
    gone, or a delete that was applied, is left out (`left_out`).

    `sequence_number`: that of the new files, by which equality deletes that were committed
    meanwhile still apply to them; None: they get a new one, and such deletes are a conflict.
    Positions that were deleted meanwhile become positions of the new files. `starting_snapshot_id`:
    the snapshot that was read. Raises GroupsGone when no group is left.
    """

    groups: Sequence[RewrittenGroup]
    context: CompactContext
    starting_snapshot_id: int
    sequence_number: int | None
    made: dict[frozenset[tuple[str, int | None]], tuple[DataFile, ...]] = field(
        default_factory=dict, compare=False
    )
    left_out: set[int] = field(default_factory=set, compare=False)
    """Places of the groups that the last attempt left out."""

    @property
    def kept(self) -> tuple[RewrittenGroup, ...]:
        """Return the groups that are committed."""
        return tuple(g for n, g in enumerate(self.groups) if n not in self.left_out)

    @property
    def removed(self) -> tuple[DataFile, ...]:
        return tuple(f for g in self.kept for f in g.removed)

    @property
    def added(self) -> tuple[DataFile, ...]:
        return tuple(f for g in self.kept for f in g.added)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if not context.only_new:
            self._leave_out(metadata, context)
        carried = () if context.only_new else self._carried(metadata, context)
        change = Change(
            "replace",
            added=self.added,
            added_deletes=carried,
            removal=Removal(self.removed, required=True),
            data_sequence_number=self.sequence_number,
        )
        updates = produce(change, self.target, metadata, context)
        if carried and not context.only_new:
            # else they are removed as files of a lost attempt
            context.state(metadata).used |= {f.file_path for f in carried}
        return updates

    def _leave_out(self, metadata: TableMetadata, context: Context) -> None:
        """Find the groups of which another writer has removed a file, or deletes by a rollback;
        their new files are not needed.
        """
        parent = parent_of(metadata, self.branch)
        if parent is not None and parent.snapshot_id == self.starting_snapshot_id:
            return
        files = [f for g in self.groups for f in g.removed]
        history = History(metadata, context.storage, parent, self.starting_snapshot_id)
        wanted, live_paths = pa.array([f.file_path for f in files], pa.string()), set[str]()
        for _, table in history.live_data({partition_key(f.spec_id, f.partition) for f in files}):
            paths = table.column("file_path")
            live_paths.update(paths.filter(pc.is_in(paths, value_set=wanted)).to_pylist())
        gone = {
            n
            for n, g in enumerate(self.groups)
            if any(f.file_path not in live_paths for f in g.removed)
        }
        other_deletes = self._with_other_deletes(metadata, context, history)
        gone |= {
            n
            for n, g in enumerate(self.groups)
            if any(f.file_path in other_deletes for f in g.removed)
        }
        if len(gone) == len(self.groups):
            missing = sorted({f.file_path for f in files} - live_paths)
            text = (
                f"Cannot commit: {len(missing)} of the files that were rewritten are gone, such as {missing[0]}."
                if missing
                else (
                    f"Cannot commit: other deletes apply now to {len(other_deletes)} of the files that were rewritten, such as "
                    f"{min(other_deletes)}, and the table's history does not show why."
                )
            )
            hint = "Another writer has rewritten or removed them, or rolled the branch back. Run rewrite_data_files again."
            raise GroupsGone(
                text, hint=hint, table=metadata.location, files=missing or sorted(other_deletes)
            )
        if gone != self.left_out:
            state = context.state(metadata)
            state.new_data, state.filtered = None, {}  # these were made for the files of all groups
            self.left_out.clear()
            self.left_out.update(gone)
        context.unneeded[context.action] = {f.file_path for n in gone for f in self.groups[n].added}

    def _with_other_deletes(
        self, metadata: TableMetadata, context: Context, history: History
    ) -> set[str]:
        """Find the files that have lost deletes which were applied when they were read, or have got
        equality deletes that would not apply to the new files. Both are looked for only where the
        branch does not go on from the snapshot that was read: it was rolled back, or the snapshots
        in between have expired."""
        with suppress(ValidationException):
            # the branch goes on from the snapshot that was read, so that deletes were only added or
            # merged
            _ = history.snapshots
            return set()
        before = {t.file.file_path: t for g in self.groups for t in g.tasks}
        now = {
            t.file.file_path: t.delete_files for t in self._with_deletes(before, metadata, context)
        }
        cache = DeleteCache(_CACHE)

        def has_other_deletes(task: FileScanTask) -> bool:
            applied, present = task.delete_files, now.get(task.file.file_path, ())
            keys_applied, keys_present = (
                {_name(d) for d in _of_keys(deletes)} for deletes in (applied, present)
            )
            if keys_applied - keys_present or any(
                _name(d) not in keys_applied and not self._is_later(d) for d in _of_keys(present)
            ):
                return True
            if not _names(applied) - _names(present):
                return False
            try:  # deletes of positions may have been merged
                earlier, later = (
                    positions_of(task.file, _positional(d), context.storage, cache)
                    for d in (applied, present)
                )
            except NoSuchFileError:
                return True
            return not np.isin(earlier, later).all()

        return {path for path, task in before.items() if has_other_deletes(task)}

    def _is_later(self, delete: DataFile) -> bool:
        """Tell whether an equality delete applies to the new files."""
        return (
            self.sequence_number is not None
            and (delete.data_sequence_number or 0) > self.sequence_number
        )

    def _carried(self, metadata: TableMetadata, context: Context) -> tuple[DataFile, ...]:
        """Return delete files for rows of the removed files that were deleted since these were
        read; those of an earlier attempt serve as long as the deletes are the same."""
        parent = parent_of(metadata, self.branch)
        if (
            parent is None
            or parent.snapshot_id == self.starting_snapshot_id
            or metadata.format_version < 2
        ):
            return ()
        history = History(
            metadata,
            context.storage,
            parent,
            self.starting_snapshot_id,
            own=frozenset(context.snapshot_ids()),
        )
        if self.sequence_number is None:
            conflicts.no_new_deletes_for(history, self.removed)
            return ()
        try:
            conflicts.no_new_deletes_for(history, self.removed, ignore_equality=True)
            return ()
        except ValidationException:
            # there are new deletes, or may be, since snapshots in between have expired
            pass
        tasks = self._hit(metadata, context)
        key = frozenset(
            (d.file_path, d.content_offset) for t in tasks for d in _positional(t.delete_files)
        )
        if key not in self.made:
            self.made[key] = self._written(tasks, metadata, context)
        return self.made[key]

    def _hit(self, metadata: TableMetadata, context: Context) -> list[FileScanTask]:
        """Find the removed files to which other position deletes apply now than when they were
        read.
        """
        before = {t.file.file_path: _names(t.delete_files) for g in self.kept for t in g.tasks}
        return [
            t
            for t in self._with_deletes(before, metadata, context)
            if _names(t.delete_files) - before[t.file.file_path]
        ]

    def _with_deletes(
        self, paths: Iterable[str], metadata: TableMetadata, context: Context
    ) -> TaskSequence:
        """Find those of some data files to which deletes apply at the head of the branch."""
        head = plan(
            metadata,
            context.storage,
            snapshot=parent_of(metadata, self.branch),
            schema=metadata.schema(),
        )
        wanted = pa.array(sorted(paths), pa.string())
        chosen = (
            g.chosen(
                pc.and_(
                    pc.is_in(g.table.column("file_path"), value_set=wanted), pa.array(g.has_deletes)
                )
            )
            for g in head.groups
        )
        return TaskSequence(tuple(g for g in chosen if len(g)), head.row_filter)

    def _written(
        self, tasks: Sequence[FileScanTask], metadata: TableMetadata, context: Context
    ) -> tuple[DataFile, ...]:
        cache = DeleteCache(_CACHE)
        deleted = {
            t.file.file_path: positions_of(
                t.file, _positional(t.delete_files), context.storage, cache
            )
            for t in tasks
        }
        file_deletes: list[FileDeletes] = []
        for group in self.kept:
            own = {
                f.file_path: deleted[f.file_path] for f in group.removed if f.file_path in deleted
            }
            file_deletes += carried_over(group, own, self.context) if own else []
        files = _delete_files(file_deletes, metadata, self.context)
        context.output.written += (f.file_path for f in files)
        return tuple(files)


def _delete_files(
    file_deletes: Sequence[FileDeletes], metadata: TableMetadata, context: CompactContext
) -> list[DataFile]:
    write = replace(context.write, operation_id=str(uuid.uuid4()))
    if metadata.format_version >= 3:
        return write_vectors(file_deletes, write)
    return write_position_deletes(
        file_deletes, write, granularity=granularity_of(metadata, write.options)
    )


def _positional(deletes: Sequence[DataFile]) -> list[DataFile]:
    return [d for d in deletes if d.content == DataFileContent.POSITION_DELETES]


def _of_keys(deletes: Sequence[DataFile]) -> list[DataFile]:
    return [d for d in deletes if d.content == DataFileContent.EQUALITY_DELETES]


def _names(deletes: Sequence[DataFile]) -> set[tuple[str, int | None]]:
    return {_name(d) for d in _positional(deletes)}


def _name(delete: DataFile) -> tuple[str, int | None]:
    return delete.file_path, delete.content_offset


@dataclass(frozen=True, kw_only=True)
class RemoveIdleDeletes(SnapshotAction):
    """Remove the delete files that apply to no data file of the branch any more (Java's
    removeDanglingDeleteFiles). They are looked up again at each attempt."""

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        files = () if context.only_new else idle_deletes(metadata, self.branch, context.storage)
        if not files:
            return ()
        return produce(
            Change("replace", delete_removal=DeleteRemoval(files, True)),
            self.target,
            metadata,
            context,
        )


def idle_deletes(metadata: TableMetadata, branch: str, storage: Storage) -> tuple[DataFile, ...]:
    """Find the delete files of a branch that apply to no data file, by partition, sequence number,
    path and bounds.
    """
    head = parent_of(metadata, branch)
    if head is None or metadata.format_version < 2:
        return ()
    planned = plan(metadata, storage, snapshot=head, schema=metadata.schema())
    index = next((g.deletes for g in planned.groups if isinstance(g.deletes, DeleteIndex)), None)
    indexed = {m.manifest_path for m in planned.delete_manifests} if index is not None else set()
    # Planning leaves out manifests whose deletes apply to nothing for sure.
    left_out = [m for m in planned.all_delete_manifests if m.manifest_path not in indexed]
    rest = read_deletes(metadata, storage, left_out, planned.options.workers)
    idle = [] if rest is None else [unmatched(rest).file(n) for n in range(len(rest))]
    if index is not None:
        counts = index.exact_file_counts(MOST_PAIRS)
        used = index.used if counts is None else counts > 0
        idle += [index.file(int(n)) for n in np.flatnonzero(~used)]
    return tuple(idle)


def counted(summary: Mapping[str, str], name: str) -> int:
    """Return a count of a snapshot's summary."""
    return int(summary.get(name, "0"))
