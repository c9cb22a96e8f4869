"""Rewrite position delete files: many small ones become few, those whose data files are gone are
dropped, and in tables of format version 3 they become deletion vectors.

`delete_groups` plans -> tasks merge the positions of each data file within bounded memory -> one
commit, or several with partial progress (`rebased`). The new deletes keep the sequence number of
the old ones.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from frazil.arrow.deletes.delete_files import DeleteCache, Positions, position_batches, positions_of
from frazil.arrow.deletes.write_deletes import FileDeletes, write_position_deletes, write_vectors
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions, write_options
from frazil.catalog import LoadedTable
from frazil.codec.sorted_numbers import distinct
from frazil.commit.replace_deletes import ReplaceDeletes
from frazil.errors import CommitStateUnknownException
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.maintain.position_deletes.conflict_retries import (
    Ready,
    newest,
    step_of,
    until_committed,
    written_nowhere,
)
from frazil.maintain.position_deletes.delete_groups import (
    DeleteGroup,
    DeleteRewriteOptions,
    FileDeletions,
    delete_groups,
    delete_rewrite_options,
)
from frazil.maintain.procedure import MaintainedTable, ProcedureResult
from frazil.maintain.progress import Progress, ProgressCallback, progress
from frazil.ops.reading import RowFilter
from frazil.ops.row_changes import condition_of
from frazil.ops.step import Step
from frazil.rows.change import placed
from frazil.rows.modes import granularity_of
from frazil.spec.manifest import DataFile
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import Storage

log = logging.getLogger(__name__)
_POSITION_BYTES = 32  # bytes of memory per position that is merged
_CACHE = 64 << 20  # bytes of footers of Puffin files


@dataclass(frozen=True, kw_only=True, repr=False)
class RewritePositionDeleteFilesResult(ProcedureResult):
    """Hold the columns of Java's procedure.

    `rewritten_delete_files_count`, `rewritten_bytes_count`: the position delete files and deletion
    vectors that were removed, and their size. `added_delete_files_count`, `added_bytes_count`:
    those that took their place. `failed_delete_files_count`: with partial progress, the delete
    files that stay because their rewrite or its commit failed.
    """

    rewritten_delete_files_count: int = 0
    added_delete_files_count: int = 0
    rewritten_bytes_count: int = 0
    added_bytes_count: int = 0
    failed_delete_files_count: int = field(default=0, metadata={"ours": True})


def rewrite_position_delete_files(
    table: MaintainedTable,
    where: RowFilter | None = None,
    options: Mapping[str, Any] | None = None,
    branch: str = MAIN_BRANCH,
    *,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> RewritePositionDeleteFilesResult:
    """Rewrite the position delete files of the partitions that may hold rows matching `where`
    (None: all).

    Raises InvalidInput for unknown options and a branch that does not exist, and the errors of
    `until_committed`; with partial progress the latter only when no commit succeeded.
    """
    started = time.perf_counter()
    predicate = AlwaysTrue() if where is None else condition_of(where)
    loaded = newest(table)
    chosen = delete_rewrite_options(options, loaded.metadata)
    to = write_options({"target-delete-file-size-bytes": chosen.target})
    step = step_of(table, loaded, branch, to)
    # raises for a column that does not exist, also where nothing is to be done
    bind(predicate, step.schema, **step.binding_arguments)
    groups = delete_groups(step, predicate, chosen)
    with progress(sum(len(g.deletes) for g in groups), "delete files rewritten", callback) as shown:
        if dry_run:
            results = [
                _counted(
                    groups,
                    _written(step, written_nowhere(step.write_context), groups, chosen, shown),
                )
            ]
        else:
            results = _committed(
                table, branch, to, groups, _Rewriter(predicate, chosen, shown, loaded)
            )
    total = RewritePositionDeleteFilesResult(
        rewritten_delete_files_count=sum(r.rewritten_delete_files_count for r in results),
        added_delete_files_count=sum(r.added_delete_files_count for r in results),
        rewritten_bytes_count=sum(r.rewritten_bytes_count for r in results),
        added_bytes_count=sum(r.added_bytes_count for r in results),
        failed_delete_files_count=sum(r.failed_delete_files_count for r in results),
    )
    seconds = time.perf_counter() - started
    return replace(
        total, dry_run=dry_run, seconds=seconds, bytes_rewritten=total.rewritten_bytes_count
    )


def _counted(
    groups: Sequence[DeleteGroup], added: Sequence[DataFile]
) -> RewritePositionDeleteFilesResult:
    removed = [d for g in groups for d in g.replaced]
    return RewritePositionDeleteFilesResult(
        rewritten_delete_files_count=len(removed),
        added_delete_files_count=len(added),
        rewritten_bytes_count=sum(d.size for d in removed),
        added_bytes_count=sum(d.size for d in added),
    )


# Commits
# --------------------------------------------------------------------------------------------------


@dataclass
class _Rewriter:
    """Rewrite one batch of groups; on another state of the table than they were planned for
    (`planned`), the position delete files that were chosen at first are planned again."""

    where: Predicate
    options: DeleteRewriteOptions
    shown: Progress
    planned: LoadedTable
    groups: Sequence[DeleteGroup] = ()
    result: RewritePositionDeleteFilesResult = RewritePositionDeleteFilesResult()

    def work(self, step: Step) -> Ready | None:
        groups = self.groups
        if step.metadata is not self.planned.metadata:
            chosen = frozenset(d.file_path for g in self.groups for d in g.deletes)
            groups = delete_groups(step, self.where, self.options, chosen)
        added = _written(step, step.write_context, groups, self.options, self.shown)
        self.result = _counted(groups, added)
        if not groups:
            return None
        vectors = step.metadata.format_version >= 3
        action = ReplaceDeletes(
            added_deletes=added,
            removed_deletes=[d for g in groups for d in g.replaced],
            starting_snapshot_id=step.start,
            # A position delete file may outlive its data file, but a vector can only be added for a
            # data file that exists.
            referenced=frozenset(f.file.file_path for g in groups for f in g.files)
            if vectors
            else (),
            **step.to.snapshot_fields,
        )
        return Ready(action, tuple(f.file_path for f in added))


def _committed(
    table: MaintainedTable,
    branch: str,
    to: WriteOptions,
    groups: Sequence[DeleteGroup],
    rewriter: _Rewriter,
) -> list[RewritePositionDeleteFilesResult]:
    """Rewrite and commit the groups in one commit, or with partial progress in several, of which
    some may fail.
    """
    most = rewriter.options.commits
    each = max(1, -(-len(groups) // most) if most is not None else len(groups))
    results: list[RewritePositionDeleteFilesResult] = []
    errors: list[Exception] = []
    for begin in range(0, len(groups), each):
        rewriter.groups = groups[begin : begin + each]
        try:
            until_committed(table, branch, to, rewriter.work, None if begin else rewriter.planned)
            results.append(rewriter.result)
        except CommitStateUnknownException:
            raise
        except Exception as error:
            if most is None:
                raise
            log.warning(
                "Could not rewrite a group of delete files of %s; the other groups are still rewritten: %s",
                table.name,
                error,
            )
            errors.append(error)
            failed = sum(len(g.replaced) for g in rewriter.groups)
            results.append(RewritePositionDeleteFilesResult(failed_delete_files_count=failed))
    if errors and len(errors) == len(results):
        raise errors[0]
    return results


# Tasks
# --------------------------------------------------------------------------------------------------


def _written(
    step: Step,
    write: WriteContext,
    groups: Sequence[DeleteGroup],
    options: DeleteRewriteOptions,
    shown: Progress,
) -> tuple[DataFile, ...]:
    """Write the merged deletes of all groups, one task each, at most as many at once as the options
    allow.
    """
    work = partial(
        merge_deletes,
        write,
        step.metadata.format_version >= 3,
        granularity_of(step.metadata, step.to.options),
    )
    todo = [g for g in groups if g.files]
    at_once = options.most_at_once or max(1, len(todo))
    if at_once >= step.runner.parallelism:
        at_once = max(1, len(todo))
    written_files: list[DataFile] = []
    with step.removing_files_on_error():
        for begin in range(0, len(todo), at_once):
            batch = todo[begin : begin + at_once]
            for group, files in zip(batch, step.runner.run(work, batch), strict=True):
                written_files += files
                shown.advance(len(group.deletes))
    shown.advance(sum(len(g.deletes) for g in groups if not g.files))
    return tuple(written_files)


def merge_deletes(
    write: WriteContext, vectors: bool, granularity: str, group: DeleteGroup
) -> list[DataFile]:
    """Write the merged position deletes of a group: vectors, or position delete files of its
    partition. After an error none is left.
    """
    target, number = placed(write), group.sequence_number
    added: list[DataFile] = []
    try:
        for run in _runs(group.files, target.storage, target.memory // _POSITION_BYTES):
            merged = _merged(run, target.storage)
            first = len({f.file_path for f in added}) + 1
            if vectors:
                added += write_vectors(merged, target, first=first)
            else:
                added += write_position_deletes(
                    merged, target, granularity=granularity, first=first
                )
    except BaseException:
        target.storage.delete_many(sorted({f.file_path for f in added}))
        raise
    return [replace(f, data_sequence_number=number) for f in added]


def _files_of(files: Sequence[FileDeletions]) -> dict[str, tuple[DataFile, list[DataFile]]]:
    """Map each position delete file to the data files to which it applies."""
    files_by_delete: dict[str, tuple[DataFile, list[DataFile]]] = {}
    for f in files:
        for delete in f.deletes:
            if not delete.is_dv:
                files_by_delete.setdefault(delete.file_path, (delete, []))[1].append(f.file)
    return files_by_delete


def _runs(
    files: Sequence[FileDeletions], storage: Storage, most: int
) -> Iterator[Sequence[FileDeletions]]:
    """Divide data files, in the order of their paths, into runs of which the positions fit in
    memory; one run where all do.
    """
    by_delete = _files_of(files)
    if sum(delete.record_count for delete, _ in by_delete.values()) <= most:
        yield files
        return
    counts: Counter[str] = Counter()
    for delete, of_delete in by_delete.values():
        for path, positions in position_batches(delete, of_delete, storage):
            counts[path] += len(positions)
    held: list[FileDeletions] = []
    size = 0
    for f in files:
        if held and size + counts[f.file.file_path] > most:
            yield held
            held, size = [], 0
        held.append(f)
        size += counts[f.file.file_path]
    yield held


def _merged(files: Sequence[FileDeletions], storage: Storage) -> Iterator[FileDeletes]:
    """Merge the deletes of each data file, all of which are read in one pass over the delete files."""
    parts: dict[str, list[Positions]] = {}
    for delete, of_delete in _files_of(files).values():
        for path, positions in position_batches(delete, of_delete, storage):
            parts.setdefault(path, []).append(positions)
    cache = DeleteCache(_CACHE)
    for f in files:
        position_arrays = parts.pop(f.file.file_path, [])
        position_arrays += [positions_of(f.file, [d], storage, cache) for d in f.deletes if d.is_dv]
        yield FileDeletes(
            f.file,
            distinct(np.concatenate(position_arrays)) if position_arrays else np.zeros(0, np.int64),
        )


__all__ = ["RewritePositionDeleteFilesResult", "rewrite_position_delete_files"]
