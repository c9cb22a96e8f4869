"""Run `rewrite_data_files` from end to end: plan, rewrite groups in tasks, commit them, report with
the columns of Java's procedure.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.catalog import LoadedTable
from frazil.commit.actions import WrittenFor
from frazil.commit.context import remove
from frazil.errors import CommitStateUnknownException, CorruptData, FrazilError, NoSuchRefError
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue
from frazil.maintain.compact.carry import Partitions, RewrittenGroup, older_deletes, unused_deletes
from frazil.maintain.compact.commit import (
    MOST_PAIRS,
    CompactFiles,
    GroupsGone,
    RemoveIdleDeletes,
    counted,
)
from frazil.maintain.compact.options import CompactionOptions, compaction_options
from frazil.maintain.compact.plan import FileGroup, file_groups, own_deletes, paths_of, pieces_of
from frazil.maintain.compact.ranges import rewrite_by_ranges
from frazil.maintain.compact.rewrite import (
    CompactContext,
    RewritePiece,
    Rewritten,
    new_bytes,
    rewrite_piece,
)
from frazil.maintain.compact.sorting import Sorting, sorting_of
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_readable
from frazil.maintain.progress import Progress, ProgressCallback, progress
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import TableOperation
from frazil.ops.reading import RowFilter
from frazil.ops.row_changes import condition_of
from frazil.ops.stage import StagedWrite
from frazil.ops.step import Step
from frazil.ops.target import WriteArguments
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask, TaskSequence
from frazil.spec.manifest import DataFileContent
from frazil.spec.properties import COMMIT_RETRY
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.sorting import SortOrder
from frazil.tasks.attempts import attempts_of, removing_files_on_error
from frazil.tasks.runner import ExchangingRunner, InProcess

log = logging.getLogger(__name__)
_SAMPLE_BYTES = 8 << 20
"""The bytes of a group that are encoded once more, only to learn how small they become."""
_DELETE_CACHE, _LEAST_SHARE = 64 << 20, 0.001
_WORTH_PASSING = 3
"""Of how many slots' even shares a group must hold the bytes, for its rows to be sorted by many
tasks: passing them takes about twice the work."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RewriteDataFilesResult(ProcedureResult):
    """Hold the columns of Java's `rewrite_data_files`. In a dry run they are those of the real run,
    but `added_data_files_count`, an estimate by sizes.

    `rewritten_data_files_count`, `rewritten_bytes_count`: the data files that were replaced, and
    their size. `failed_data_files_count`: with partial progress, data files that stay since their
    group failed. `removed_delete_files_count`: delete files that no data file needs any more.
    `groups`: how many groups of files there were. `commits`: how many snapshots were made.
    `failed_commits`: of partial progress. `removed_files`, `added_files`: paths of the data files
    that were replaced, and of those that took their place (none in a dry run).
    """

    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    rewritten_bytes_count: int = 0
    failed_data_files_count: int = 0
    removed_delete_files_count: int = 0
    groups: int = field(default=0, metadata={"ours": True})
    commits: int = field(default=0, metadata={"ours": True})
    failed_commits: int = field(default=0, metadata={"ours": True})
    removed_files: tuple[str, ...] = field(default=(), metadata={"ours": True}, repr=False)
    added_files: tuple[str, ...] = field(default=(), metadata={"ours": True}, repr=False)


@dataclass(frozen=True)
class CompactionPlan:
    """Hold the plan of a compaction: groups of files, and how they are rewritten."""

    table: MaintainedTable
    step: Step
    plan: Plan
    options: CompactionOptions
    sorting: Sorting | None
    groups: tuple[FileGroup, ...]

    @property
    def tasks(self) -> TaskSequence:
        return self.plan.tasks()

    @property
    def sequence_number(self) -> int | None:
        """Return the sequence number of the new files: that of the snapshot that was read. Format
        v1 has none.
        """
        if (
            not self.options.keeps_sequence
            or self.step.metadata.format_version < 2
            or self.step.head is None
        ):
            return None
        return self.step.head.sequence_number

    def context(self) -> CompactContext:
        """Return the context that tasks share which run at the same time. The names of their files
        hold an id of their own, so that the files of others stay when those of these tasks are
        removed."""
        write = replace(
            self.step.write_context,
            operation_id=str(uuid.uuid4()),
            target_size=self.options.file_bytes,
        )
        return CompactContext(self.step.read_context(self.plan), write, self.sorting)

    def expected(self) -> RewriteDataFilesResult:
        """Return the numbers of a dry run."""
        size = sum(g.bytes for g in self.groups)
        return RewriteDataFilesResult(
            dry_run=True,
            bytes_rewritten=size,
            rewritten_data_files_count=sum(g.files for g in self.groups),
            rewritten_bytes_count=size,
            added_data_files_count=sum(  # an estimate: none is exact
                0 if g.is_deleted else self.options.files_for(g.bytes) for g in self.groups
            ),
            removed_delete_files_count=len(self._obsolete()),
            groups=len(self.groups),
            commits=len(list(self.batches())),
            removed_files=tuple(paths_of(self.plan, self.groups).to_pylist()),
        )

    def _obsolete(self) -> set[tuple[str, int | None]]:
        """Find the delete files that are removed with the data files to which they apply and, with
        remove-dangling-deletes, those that apply to none."""
        metadata, branch, storage = self.step.metadata, self.step.to.branch, self.step.storage
        gone = paths_of(self.plan, self.groups)
        obsolete = own_deletes(self.plan, gone)
        if self.groups:
            obsolete |= older_deletes(metadata, branch, storage, gone, self.sequence_number)
        if self.options.removes_dangling:
            obsolete |= unused_deletes(
                metadata,
                branch,
                storage,
                gone,
                MOST_PAIRS,
                self.sequence_number,
                self._new_partitions,
            )
        return obsolete

    def _new_partitions(self) -> Partitions | None:
        """Tell into which partitions new files come: of a group of which deletes leave no row,
        there is none. Reads position deletes.
        """
        partitions: Partitions = set()
        cache = DeleteCache(_DELETE_CACHE)
        for group in self.groups:
            tasks: Sequence[FileScanTask] = () if group.is_deleted else group.tasks(self.tasks)
            if any(self._deleted_of(t, cache) < t.file.record_count for t in tasks):
                if group.mixed:
                    return None
                partitions.add((tasks[0].file.spec_id, tasks[0].file.partition))
        return partitions

    def _deleted_of(self, task: FileScanTask, cache: DeleteCache) -> int:
        positional = [d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES]
        return (
            len(positions_of(task.file, positional, self.step.storage, cache)) if positional else 0
        )

    def batches(self) -> Sequence[tuple[FileGroup, ...]]:
        """Divide the groups into commits: one, or with partial progress at most as many as the
        options say.
        """
        if not self.groups:
            return ()
        size = (
            len(self.groups)
            if self.options.commits is None
            else -(-len(self.groups) // self.options.commits)
        )
        return [self.groups[start : start + size] for start in range(0, len(self.groups), size)]

    def rounds(self) -> Iterator[list[tuple[FileGroup, ...]]]:
        """Divide the commits into those whose groups are rewritten at the same time: as few as have
        a task for each slot of the runner.
        """
        batches: list[tuple[FileGroup, ...]] = []
        tasks = 0
        for batch in self.batches():
            batches.append(batch)
            tasks += sum(
                1 if self.sorting is not None else self.options.files_for(g.bytes) for g in batch
            )
            if tasks >= self.table.runner.parallelism:
                yield batches
                batches, tasks = [], 0
        if batches:
            yield batches


def plan_compaction(
    table: MaintainedTable,
    strategy: str | None,
    sort_order: str | Sequence[str] | SortOrder | None,
    options: Mapping[str, Any] | None,
    where: RowFilter | None,
    branch: str | None,
) -> CompactionPlan | None:
    """Plan a compaction of the table's newest state; None: the branch has no snapshot. Raises
    InvalidInput for arguments that Java refuses too, NoSuchRefError for an unknown branch."""
    table = newest_readable(table)
    metadata, named = table.metadata, branch or MAIN_BRANCH
    case_sensitive = table.engine.settings().case_sensitive
    sorting, chosen = sorting_of(
        strategy,
        sort_order,
        metadata,
        partial(compaction_options, options, metadata),
        case_sensitive,
    )
    condition = AlwaysTrue() if where is None else condition_of(where)
    if named != MAIN_BRANCH and named not in metadata.refs:
        raise NoSuchRefError(
            f"Cannot rewrite files of branch {named}: there is no such branch.",
            table=table.name,
            ref=named,
        )
    wanted = {
        "target_file_size_bytes": chosen.target,
        "output_spec_id": chosen.output_spec_id,
        "use_table_distribution_and_ordering": False,
    }
    step = table.begin().step(
        WriteArguments("append", named, options=wanted, case_sensitive=case_sensitive),
        IN_PROCESS,
        table.runner,
        named=False,
    )
    # raises for a column that does not exist, also where nothing is to be done
    bind(condition, step.schema, **step.binding_arguments)
    if step.head is None:
        return None
    planned = step.plan(condition)
    return CompactionPlan(table, step, planned, chosen, sorting, file_groups(planned, chosen))


def rewrite_data_files(
    table: MaintainedTable,
    strategy: str | None = None,
    sort_order: str | Sequence[str] | SortOrder | None = None,
    options: Mapping[str, Any] | None = None,
    where: RowFilter | None = None,
    branch: str | None = None,
    dry_run: bool = False,
    on_progress: ProgressCallback | None = None,
) -> RewriteDataFilesResult:
    """Rewrite data files, or tell what would be rewritten. Nothing to do makes no snapshot.

    `on_progress`: called as files are rewritten. Where other writers have changed the files of all
    groups meanwhile, the compaction is planned again, as often as commit.retry.num-retries says.
    After that, partial progress counts the files as failed; without it, ValidationException is
    raised.
    """
    begun, tries = time.perf_counter(), 0
    while True:
        planned = plan_compaction(table, strategy, sort_order, options, where, branch)
        if planned is None:
            return RewriteDataFilesResult(dry_run=dry_run)
        if dry_run:
            result = planned.expected()
            break
        with progress(
            sum(g.bytes for g in planned.groups), "bytes rewritten", on_progress
        ) as shown:
            run = _CompactionRun(planned, shown)
            result = run.run()
        tries += 1
        lost = result.failed_data_files_count and not (result.commits or result.failed_commits)
        if not lost:
            break
        if tries > COMMIT_RETRY.retries.of(planned.step.metadata.properties):
            if planned.options.commits is None and run.last_error is not None:
                raise run.last_error
            break
    return replace(result, seconds=time.perf_counter() - begun)


# Doing it
# --------------------------------------------------------------------------------------------------


@dataclass
class _CompactionRun:
    """Carry out a plan, and count the files and commits."""

    planned: CompactionPlan
    shown: Progress
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    bytes: int = 0
    failed: int = 0
    deletes: int = 0
    commits: int = 0
    failed_commits: int = 0
    last_error: Exception | None = None
    loaded: LoadedTable | None = None

    def run(self) -> RewriteDataFilesResult:
        plan = self.planned
        for batches in plan.rounds():
            if plan.options.commits is None:
                for batch in batches:
                    self._commit(*self._rewritten(batch))
            else:
                self._commit_what_can_be(batches)
        if self.failed_commits > plan.options.failed_commits:
            text = (
                f"partial-progress.enabled is true but {self.failed_commits} rewrite commits failed. This is more than the maximum allowed "
                f"failures of {plan.options.failed_commits}. Check the logs to determine why the individual commits failed."
            )
            raise FrazilError(text, table=plan.table.name) from self.last_error
        if plan.options.removes_dangling:
            self._remove_idle_deletes()
        return RewriteDataFilesResult(
            rewritten_data_files_count=len(self.removed),
            added_data_files_count=len(self.added),
            rewritten_bytes_count=self.bytes,
            failed_data_files_count=self.failed,
            removed_delete_files_count=self.deletes,
            bytes_rewritten=self.bytes,
            groups=len(plan.groups),
            commits=self.commits,
            failed_commits=self.failed_commits,
            removed_files=tuple(self.removed),
            added_files=tuple(self.added),
        )

    # --- files

    def _rewritten(
        self, groups: Sequence[FileGroup]
    ) -> tuple[CompactContext, list[RewrittenGroup]]:
        """Rewrite groups in tasks. After an error none of their new files is left."""
        plan, context = self.planned, self.planned.context()
        tasks = [tuple(g.tasks(plan.tasks)) for g in groups]
        pieces: list[RewritePiece] = []
        by_ranges: dict[int, CompactionOptions] = {}
        runner = plan.table.runner
        share = sum(g.bytes for g in groups) / runner.parallelism
        for n, (of_plan, own, options) in enumerate(
            zip(groups, tasks, self._measured(context, groups, tasks), strict=True)
        ):
            if (
                plan.sorting is not None
                and isinstance(runner, ExchangingRunner)
                and not of_plan.mixed
                and of_plan.bytes > _WORTH_PASSING * share
                and options.files_for(of_plan.bytes) > 1
            ):
                by_ranges[n] = options
            elif plan.sorting is not None:
                pieces.append(RewritePiece(n, own, of_plan.mixed, options.sizes_for(of_plan.bytes)))
            else:
                pieces += (
                    RewritePiece(n, piece, of_plan.mixed) for piece in pieces_of(own, options)
                )
        # in process, a task reports the bytes that it has read while it reads
        here = isinstance(runner, InProcess)
        work = (
            partial(rewrite_piece, context, on_bytes=self.shown.advance)
            if here
            else partial(rewrite_piece, context)
        )
        with removing_files_on_error(context.write, runner):
            done = []
            for part in self._rounds(pieces):
                for piece, result in zip(part, runner.run(work, part), strict=True):
                    done.append(result)
                    if not here:
                        self.shown.advance(sum(t.length for t in piece.tasks))
            of_group = _joined(pieces, done)
            for n, options in by_ranges.items():
                assert isinstance(runner, ExchangingRunner)
                of_group[n] = rewrite_by_ranges(
                    runner,
                    context,
                    pieces_of(tasks[n], options),
                    options.sizes_for(groups[n].bytes),
                )
                self.shown.advance(groups[n].bytes)
            rewritten = [of_group[n] for n in sorted(of_group)]
            for group in rewritten:
                _check(group, plan.table.name)
            attempts_of(context.write, runner).remove_unreported(
                f.file_path for g in rewritten for f in g.added
            )
        return context, rewritten

    def _measured(
        self,
        context: CompactContext,
        groups: Sequence[FileGroup],
        tasks: Sequence[Sequence[FileScanTask]],
    ) -> list[CompactionOptions]:
        """Return the options for each group, with the share of its bytes that new files will have
        (`compression`).

        Small files take more bytes than the same rows in large ones do: footers, dictionaries and
        runs come once in each. So a sample of a group of small files is written nowhere, unless the
        group becomes one file in any case or the caller has given the share.
        """
        options = self.planned.options
        wanted = [
            n
            for n, group in enumerate(groups)
            if options.compression == 1.0
            and not group.is_deleted
            and options.files_for(group.bytes) > 1
            and group.bytes < options.smallest * group.files
        ]
        samples = [RewritePiece(n, _sampled(tasks[n]), groups[n].mixed) for n in wanted]
        shares = [options] * len(groups)
        if not samples:
            return shares
        for piece, size in zip(
            samples,
            self.planned.table.runner.run(partial(new_bytes, context), samples),
            strict=True,
        ):
            share = size / sum(t.length for t in piece.tasks)
            shares[piece.group] = replace(options, compression=min(max(share, _LEAST_SHARE), 1.0))
        return shares

    def _rounds(self, pieces: Sequence[RewritePiece]) -> list[list[RewritePiece]]:
        """Divide the pieces such that no more groups are rewritten at the same time than
        max-concurrent-file-group-rewrites says.
        """
        most = self.planned.options.most_at_once
        if most is None:
            return [list(pieces)]
        pieces_by_round: dict[int, list[RewritePiece]] = {}
        for piece in pieces:
            pieces_by_round.setdefault(piece.group // most, []).append(piece)
        return [pieces_by_round[n] for n in sorted(pieces_by_round)]

    # --- commits

    def _begin(self) -> TableOperation:
        """Begin an operation on the state that the last commit left."""
        table = replace(self.planned.table, on_commit=self._take)
        return table.begin(self.loaded)

    def _take(self, loaded: LoadedTable) -> None:
        self.loaded = loaded
        self.planned.table.on_commit(loaded)

    def _commit(self, context: CompactContext, groups: Sequence[RewrittenGroup]) -> None:
        plan = self.planned
        assert plan.step.head is not None
        action = CompactFiles(
            groups=tuple(groups),
            context=context,
            starting_snapshot_id=plan.step.head.snapshot_id,
            sequence_number=plan.sequence_number,
            **plan.step.to.snapshot_fields,
        )
        try:
            with self._begin() as operation:
                fits = WrittenFor(
                    plan.step.metadata, plan.step.to.known_columns, action.added, True
                )
                operation.add(StagedWrite((fits, action), action.added))
        except GroupsGone as gone:
            log.warning("Left out %d groups of %s: %s", len(groups), plan.table.name, gone)
            self.failed += sum(len(g.removed) for g in groups)
            self.last_error = gone
            return
        for n in action.left_out:
            log.warning(
                "Left out a group of %s: another writer has removed files of it, or deletes of them, meanwhile.",
                plan.table.name,
            )
            self.failed += len(groups[n].removed)
        self.commits += 1
        self.removed += (f.file_path for f in action.removed)
        self.added += (f.file_path for f in action.added)
        self.bytes += sum(f.file_size_in_bytes for f in action.removed)
        self.deletes += counted(operation.result.summary, "removed-delete-files")

    def _commit_what_can_be(self, batches: Sequence[Sequence[FileGroup]]) -> None:
        """Rewrite the groups of some commits at the same time, and commit them. If the rewrite
        fails, each group is rewritten on its own; a commit of which no group could be rewritten has
        failed."""
        groups = [g for batch in batches for g in batch]
        done: list[tuple[CompactContext, list[RewrittenGroup]]] = []
        try:
            context, every = self._rewritten(groups)
            left = iter(every)
            done = [(context, list(islice(left, len(batch)))) for batch in batches]
        except Exception as error:
            log.warning(
                "Could not rewrite %d groups of %s at once: %s",
                len(groups),
                self.planned.table.name,
                error,
            )
            if len(groups) == 1:
                self._fails(groups, error)
            else:
                done = [
                    of_batch
                    for batch in batches
                    if (of_batch := self._rewritten_apart(batch)) is not None
                ]
            self.failed_commits += len(batches) - len(done)
        for number, (context, rewritten) in enumerate(done):
            try:
                self._commit(context, rewritten)
            except CommitStateUnknownException:
                uncommitted = [
                    f.file_path for _, later in done[number + 1 :] for g in later for f in g.added
                ]
                remove(self.planned.step.storage, uncommitted, "commits that were not begun")
                raise
            except Exception as error:
                log.warning(
                    "Could not commit a part of the compaction of %s: %s",
                    self.planned.table.name,
                    error,
                )
                self.failed += sum(len(g.removed) for g in rewritten)
                self.failed_commits, self.last_error = self.failed_commits + 1, error

    def _rewritten_apart(
        self, batch: Sequence[FileGroup]
    ) -> tuple[CompactContext, list[RewrittenGroup]] | None:
        """Rewrite the groups of a commit one after the other, without those that fail; None: all
        do.
        """
        contexts: list[CompactContext] = []
        rewritten: list[RewrittenGroup] = []
        for group in batch:
            try:
                context, of_group = self._rewritten((group,))
            except Exception as error:
                self._fails((group,), error)
            else:
                contexts.append(context)
                rewritten += of_group
        return (contexts[0], rewritten) if contexts else None

    def _fails(self, groups: Sequence[FileGroup], error: Exception) -> None:
        log.warning("Could not rewrite a group of %s: %s", self.planned.table.name, error)
        self.failed += sum(g.files for g in groups)
        self.last_error = error

    def _remove_idle_deletes(self) -> None:
        plan = self.planned
        with self._begin() as operation:
            operation.stage(RemoveIdleDeletes(**plan.step.to.snapshot_fields))
        self.deletes += counted(operation.result.summary, "removed-delete-files")


def _sampled(tasks: Sequence[FileScanTask]) -> tuple[FileScanTask, ...]:
    """Choose files from all over a group, of some bytes in all; all files of a small group."""
    size = sum(t.length for t in tasks)
    return tuple(tasks[:: max(1, -(-size // _SAMPLE_BYTES))])


def _joined(pieces: Sequence[RewritePiece], done: Sequence[Rewritten]) -> dict[int, RewrittenGroup]:
    """Put the pieces of each group together again, in their order."""
    results_by_group: dict[int, list[tuple[RewritePiece, Rewritten]]] = {}
    for piece, result in zip(pieces, done, strict=True):
        results_by_group.setdefault(piece.group, []).append((piece, result))
    return {n: _together(own) for n, own in results_by_group.items()}


def _together(own: Sequence[tuple[RewritePiece, Rewritten]]) -> RewrittenGroup:
    return RewrittenGroup(
        tuple(t for p, _ in own for t in p.tasks),
        tuple(c for _, r in own for c in r.counts),
        tuple(f for _, r in own for f in r.added),
        own[0][0].mixed,
    )


def _check(group: RewrittenGroup, name: str) -> None:
    """Check that no row was lost or doubled: as many must have been written as were read."""
    read, written = sum(group.counts), sum(f.record_count for f in group.added)
    if read != written:
        raise CorruptData(
            f"Compaction of {name} read {read} rows and wrote {written}; nothing was changed.",
            table=name,
        )
