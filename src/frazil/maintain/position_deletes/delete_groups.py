"""Plan which position delete files are rewritten together, as Java Iceberg does
(BinPackRewritePositionDeletePlanner): by partition and spec, the files that are too small or too
large, in groups. Position delete files whose data files are all gone are dropped in any case.

The options of `rewrite_position_delete_files` that steer this have the names and defaults of Java
Iceberg (RewritePositionDeleteFiles).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.commit.matching import TRUE, file_outcomes
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.maintain.compact.options import (
    COMMITS,
    LARGEST,
    MIN_INPUT_FILES,
    PARTIAL,
    REWRITE_ALL,
    SHARED,
    SMALLEST,
    TARGET,
    sizes_of,
)
from frazil.maintain.position_deletes.conflict_retries import unmatched
from frazil.ops.arguments import mapping
from frazil.ops.step import Step
from frazil.rows.modes import granularity_of
from frazil.scan.deletes import DeleteEntries, DeleteIndex, read_deletes, scopes_of_deletes
from frazil.scan.plan import Plan
from frazil.scan.tasks import TaskSequence
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import OptionTable
from frazil.spec.properties import DELETE_TARGET_FILE_SIZE


@dataclass(frozen=True)
class FileDeletions:
    """Hold a data file, and the position deletes of it that are merged."""

    file: DataFile
    deletes: tuple[DataFile, ...]


@dataclass(frozen=True)
class DeleteGroup:
    """Hold position delete files that are rewritten together, and the data files to which they
    apply.

    `replaced`: all delete files that go: these, and (v3) the deletes of single data files that are
    merged into the new vectors.
    """

    deletes: tuple[DataFile, ...]
    files: tuple[FileDeletions, ...] = field(default=(), repr=False)
    replaced: tuple[DataFile, ...] = field(default=(), repr=False)

    @property
    def bytes(self) -> int:
        return sum(d.size for d in self.deletes)

    @property
    def sequence_number(self) -> int:
        """Return the sequence number of the new deletes, as Java's: the largest of the deletes that
        are merged into them.
        """
        merged = (*self.deletes, *(d for f in self.files for d in f.deletes))
        return max(d.data_sequence_number or 0 for d in merged)


def delete_groups(
    step: Step, where: Predicate, options: DeleteRewriteOptions, only: frozenset[str] | None = None
) -> list[DeleteGroup]:
    """Group the position delete files that are worth rewriting. `only`: of these alone, all of them
    (an earlier attempt has chosen them).

    `where` chooses by the partition: a delete file is rewritten if its partition may hold rows that
    match.
    """
    if step.metadata.format_version < 2 or step.head is None:
        return []
    plan = step.plan(AlwaysTrue())
    index = next((g.deletes for g in plan.groups if isinstance(g.deletes, DeleteIndex)), None)
    entries = index.entries if index is not None else None
    entries = entries or read_deletes(
        step.metadata, step.storage, plan.all_delete_manifests, plan.options.workers
    )
    if entries is None:
        return []
    lookup = index or unmatched(entries)
    wanted = np.flatnonzero(
        ~entries.is_equality & ~entries.is_vector & _in_partitions(entries, where, step)
    ).tolist()
    if only is not None:
        wanted = [n for n in wanted if lookup.file(n).file_path in only]
    applied = _applied(plan, index) if index is not None and wanted else {}
    dangling = tuple(lookup.file(n) for n in wanted if n not in applied)
    scopes = scopes_of_deletes(entries)
    groups = [DeleteGroup(dangling, (), dangling)] if dangling else []
    for numbers in _packed(
        [n for n in wanted if n in applied], scopes, lookup, options, chosen=only is not None
    ):
        groups.append(_group(numbers, applied, lookup, step))
    groups = (
        _joined(groups)
        if step.metadata.format_version >= 3
        else [g for g in groups if options.rewrite_all or _gains(g, step)]
    )
    return _ordered(groups, options.job_order)


def _in_partitions(entries: DeleteEntries, where: Predicate, step: Step) -> Any:
    parts = []
    for spec, table in entries.groups:
        outcomes = file_outcomes(
            table,
            where,
            step.schema,
            step.metadata,
            spec.spec_id,
            step.case_sensitive,
            step.settings.zone,
            partition_only=True,
        )
        parts.append(outcomes & TRUE != 0)
    return np.concatenate(parts)


_Applied = dict[int, list[tuple[DataFile, tuple[int, ...]]]]


def _applied(plan: Plan, index: DeleteIndex) -> _Applied:
    """Map each position delete file to the data files to which it applies, each with all its
    position deletes.
    """
    data_files_by_delete: _Applied = {}
    for group in plan.groups:
        numbers = group.delete_numbers
        some = numbers >= 0
        some[some] = (index.counts - index.equality_counts)[numbers[some]] > 0
        for task, row in zip(
            TaskSequence((group.chosen(pa.array(some)),)), numbers[some].tolist(), strict=True
        ):
            own = tuple(index.numbers_of(row, equality=False).tolist())
            for n in own:
                data_files_by_delete.setdefault(n, []).append((task.file, own))
    return data_files_by_delete


def _packed(
    numbers: Sequence[int],
    scopes: npt.NDArray[np.int64],
    lookup: DeleteIndex,
    options: DeleteRewriteOptions,
    *,
    chosen: bool,
) -> Iterator[tuple[int, ...]]:
    """Pack the delete files of each partition, in their order, into groups within the size and
    number of files that the options allow.
    """
    by_scope: dict[int, list[int]] = {}
    for number in numbers:
        if chosen or options.is_candidate(lookup.file(number).size):
            by_scope.setdefault(int(scopes[number]), []).append(number)
    for of_partition in by_scope.values():
        group: list[int] = []
        size = 0
        for number in of_partition:
            file_size = lookup.file(number).size
            if group and (
                size + file_size > options.group_bytes or len(group) >= options.group_files
            ):
                if chosen or options.is_worth_it(len(group), size):
                    yield tuple(group)
                group, size = [], 0
            group.append(number)
            size += file_size
        if chosen or options.is_worth_it(len(group), size):
            yield tuple(group)


def _group(
    numbers: Sequence[int], applied: _Applied, lookup: DeleteIndex, step: Step
) -> DeleteGroup:
    """Gather the data files of a group. v2: only the group's deletes are merged. v3: all position
    deletes of a data file must be in its vector, since readers with a vector look at nothing else.
    """
    vectors = step.metadata.format_version >= 3
    own = set(numbers)
    deletions_by_path: dict[str, FileDeletions] = {}
    replaced = {n: lookup.file(n) for n in numbers}
    for file, all_of_file in (pair for n in numbers for pair in applied[n]):
        merged = [n for n in all_of_file if vectors or n in own]
        deletions_by_path.setdefault(
            file.file_path, FileDeletions(file, tuple(lookup.file(n) for n in merged))
        )
        replaced |= {n: d for n in merged if (d := lookup.file(n)).referenced_data_file is not None}
    files = tuple(deletions_by_path[path] for path in sorted(deletions_by_path))
    return DeleteGroup(tuple(lookup.file(n) for n in numbers), files, tuple(replaced.values()))


def _gains(group: DeleteGroup, step: Step) -> bool:
    """Tell whether rewriting a group changes anything. It does not if each data file already has
    one delete file of its own.
    """
    if not group.files or granularity_of(step.metadata, step.to.options) != "file":
        return True
    each = [
        f.deletes[0].file_path
        for f in group.files
        if len(f.deletes) == 1 and f.deletes[0].referenced_data_file is not None
    ]
    return not len(each) == len(set(each)) == len(group.files) == len(group.deletes)


def _joined(groups: Iterable[DeleteGroup]) -> list[DeleteGroup]:
    """Join the groups that share data files: a data file gets one vector, and its deletes go in the
    commit that adds the vector.
    """
    joined_groups: list[DeleteGroup] = []
    group_of: dict[str, DeleteGroup] = {}
    for group in groups:
        shared = {
            id(g): g for f in group.files if (g := group_of.get(f.file.file_path)) is not None
        }
        joined = group
        for other in shared.values():
            files = {f.file.file_path: f for g in (other, joined) for f in g.files}
            replaced = {
                (d.file_path, d.content_offset): d for g in (other, joined) for d in g.replaced
            }
            joined = DeleteGroup(
                (*other.deletes, *joined.deletes),
                tuple(files[p] for p in sorted(files)),
                tuple(replaced.values()),
            )
        joined_groups = [g for g in joined_groups if id(g) not in shared] + [joined]
        group_of |= {f.file.file_path: joined for f in joined.files}
    return joined_groups


def _ordered(groups: list[DeleteGroup], job_order: str) -> list[DeleteGroup]:
    measure, _, direction = job_order.partition("-")
    if measure == "none":
        return groups
    return sorted(
        groups,
        key=lambda g: g.bytes if measure == "bytes" else len(g.deletes),
        reverse=direction == "desc",
    )


_SIZES = (TARGET, SMALLEST, LARGEST, MIN_INPUT_FILES, REWRITE_ALL)


@dataclass(frozen=True)
class DeleteRewriteOptions:
    """Hold the options, sizes in bytes. `commits`: commits at most, with partial progress; None:
    one for all. `most_at_once`: groups that are rewritten at the same time; None: as many as the
    runner has slots."""

    target: int
    smallest: int
    largest: int
    min_input_files: int
    group_bytes: int
    group_files: int
    rewrite_all: bool
    commits: int | None
    most_at_once: int | None
    job_order: str

    def is_candidate(self, size: int) -> bool:
        return self.rewrite_all or not self.smallest <= size <= self.largest

    def is_worth_it(self, count: int, size: int) -> bool:
        """Tell whether a group of files is rewritten (SizeBasedFileRewritePlanner)."""
        several = count > 1 and (count >= self.min_input_files or size > self.target)
        return self.rewrite_all or several or size > self.largest


OPTIONS = OptionTable("option of rewrite_position_delete_files", SHARED)


def delete_rewrite_options(
    options: Mapping[str, Any] | None, metadata: TableMetadata
) -> DeleteRewriteOptions:
    """Check options as a caller writes them. Raises InvalidInput for unknown names and values that
    Java refuses.

    In a table of format version 3, where vectors replace position delete files, all of these are
    rewritten unless an option about sizes is given.
    """
    values = OPTIONS.read(mapping("options", options))
    leftovers = metadata.format_version >= 3 and not any(option.name in values for option in _SIZES)
    sizes = sizes_of(values, DELETE_TARGET_FILE_SIZE.of(metadata.properties), metadata.location)
    commits = COMMITS.of(values) if PARTIAL.of(values) else None
    return DeleteRewriteOptions(
        *sizes, commits=commits, **OPTIONS.fields({REWRITE_ALL.name: leftovers, **values})
    )
