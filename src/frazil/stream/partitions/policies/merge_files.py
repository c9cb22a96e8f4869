"""Merge the small files of a complete partition by one atomic snapshot (policy `merge`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import partial

from frazil.commit.actions import RewriteFiles, WrittenFor
from frazil.errors import CorruptData
from frazil.expr.nodes import (
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    Predicate,
    Reference,
)
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import TableOperation
from frazil.ops.stage import StagedWrite
from frazil.ops.step import Step
from frazil.ops.target import WriteArguments
from frazil.rows.change import Changed, RewriteContext, combined, rewrite_files
from frazil.scan.tasks import FileScanTask
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TARGET_FILE_SIZE
from frazil.spec.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
)
from frazil.stream.partitions.fields import Partition, fields_of, partition_of, path_of
from frazil.stream.partitions.policies.context import PartitionContext, Policy, TableSite
from frazil.tasks.attempts import attempts_of

log = logging.getLogger(__name__)
SMALL = 0.75  # of the target size: the share below which Java's compaction takes a file for small
_TIMES = ("hour", "day", "month", "year")


def merge(site: TableSite, target_bytes: int | None = None) -> Policy:
    """Make the policy. The deletes that the table has are applied. Rows keep their sequence number,
    so that deletes that are committed meanwhile still apply. At a conflict with another writer the
    policy fails and leaves the table as it was."""

    def run(context: PartitionContext) -> None:
        loaded = site.load()
        with TableOperation(site.backend, loaded, site.name) as operation:
            staged = _staged(operation, context.partition, site, target_bytes)
            if staged is not None:
                operation.add(staged)

    return run


def _staged(
    operation: TableOperation, partition: Partition, site: TableSite, target_bytes: int | None
) -> StagedWrite | None:
    """Rewrite the groups of small files, and stage the one action that replaces them; None: there
    is nothing to merge.
    """
    target = target_bytes or TARGET_FILE_SIZE.of(operation.metadata.properties)
    options = {"target_file_size_bytes": target, "output_spec_id": partition.spec_id}
    step = operation.step(
        WriteArguments("append", site.branch, options=options), IN_PROCESS, site.runner, named=False
    )
    if step.head is None:
        return None
    plan = step.plan(partition_filter(operation.metadata, partition))
    tasks = [t for t in step.tasks(plan) if _is_in(t, partition, operation.metadata)]
    groups = small_groups(tasks, target)
    if not groups:
        return None
    changed = combined(
        step.run(
            partial(rewrite_files, RewriteContext(step.read_context(plan), step.write_context)),
            groups,
        )
    )
    with step.removing_files_on_error():
        _check(changed, step)
        attempts_of(step.write_context, step.runner).remove_unreported(
            f.file_path for f in changed.written
        )
    path = path_of(partition, fields_of(operation.metadata, partition.spec_id))
    log.info(
        "Merged %d files of partition %s of %s into %d.",
        len(changed.removed),
        path,
        site.name,
        len(changed.added),
    )
    action = RewriteFiles(
        removed=changed.removed,
        added=changed.added,
        starting_snapshot_id=step.start,
        sequence_number=_sequence_number(step),
        **step.to.snapshot_fields,
    )
    return StagedWrite(
        (WrittenFor(step.metadata, step.to.known_columns, changed.added, True), action),
        changed.written,
    )


def _sequence_number(step: Step) -> int | None:
    """Return the sequence number under which rows are written again: that of the state that was
    read. Format v1 has none.
    """
    assert step.head is not None
    return step.head.sequence_number if step.metadata.format_version > 1 else None


def _is_in(task: FileScanTask, partition: Partition, metadata: TableMetadata) -> bool:
    return (
        task.spec.spec_id == partition.spec_id
        and partition_of(metadata, task.spec.spec_id, task.file.partition) == partition
    )


def _check(changed: Changed, step: Step) -> None:
    """Check that no row was lost or doubled: as many rows must have been written as were read."""
    written = sum(f.record_count for f in changed.added)
    if written != changed.copied:
        text = f"Merging files read {changed.copied} rows and wrote {written}; nothing was changed."
        raise CorruptData(text, table=step.metadata.location)


def small_groups(tasks: Iterable[FileScanTask], target: int) -> list[tuple[FileScanTask, ...]]:
    """Group the files that are worth rewriting, each group about the target size: small ones if
    there are two or more, and those to which deletes apply."""
    groups: list[tuple[FileScanTask, ...]] = []
    held: list[FileScanTask] = []
    size = 0
    for task in sorted(tasks, key=lambda t: (t.facts.data_sequence_number or 0, t.file.file_path)):
        if task.file.file_size_in_bytes >= SMALL * target and not task.delete_files:
            continue
        if held and size + task.file.file_size_in_bytes > target:
            groups.append(tuple(held))
            held, size = [], 0
        held.append(task)
        size += task.file.file_size_in_bytes
    if held:
        groups.append(tuple(held))
    return [group for group in groups if len(group) > 1 or group[0].delete_files]


def partition_filter(metadata: TableMetadata, partition: Partition) -> Predicate:
    """Make a filter that all rows of a partition match, so that planning skips the files of others;
    fields of other transforms and types do not narrow it."""
    spec, predicate = metadata.spec_by_id(partition.spec_id), AlwaysTrue()
    for f, text in zip(spec.fields, partition.values, strict=True):
        source = metadata.schema().by_id.get(f.source_id)
        name = metadata.schema().find_column_name(f.source_id)
        condition = (
            None
            if source is None or name is None
            else _condition(name, source, str(f.transform), text)
        )
        if condition is not None:
            predicate = And(predicate, condition)  # type: ignore[assignment]
    return predicate


def _condition(
    name: str, source: NestedField, transform: str, text: str | None
) -> Predicate | None:
    column = Reference(name)
    if text is None:
        return IsNull(column) if transform in ("identity", *_TIMES) else None
    if transform == "identity":
        match source.field_type:
            case StringType():
                return EqualTo(column, text)
            case IntegerType() | LongType():
                return EqualTo(column, int(text))
            case DateType() if len(text) == 10:
                return EqualTo(column, date.fromisoformat(text))
    if (
        transform in _TIMES
        and len(text) == {"hour": 13, "day": 10, "month": 7, "year": 4}[transform]
    ):
        return _span(column, source, transform, [int(part) for part in text.split("-")])
    return None


def _span(
    column: Reference, source: NestedField, transform: str, parts: list[int]
) -> Predicate | None:
    """Make the range of a partition by time. None at the end of the calendar."""
    year, month, day, hour = (*parts, *(1, 1, 1, 0)[len(parts) :])
    start = datetime(year, month, day, hour)
    try:
        match transform:
            case "hour" | "day":
                end = start + timedelta(**{f"{transform}s": 1})
            case "month":
                end = datetime(year + month // 12, month % 12 + 1, 1)
            case _:
                end = datetime(year + 1, 1, 1)
    except (ValueError, OverflowError):
        return None
    if isinstance(source.field_type, DateType):
        return And(GreaterThanOrEqual(column, start.date()), LessThan(column, end.date()))
    if isinstance(source.field_type, TimestamptzType | TimestamptzNanoType):
        start, end = start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
    return And(GreaterThanOrEqual(column, start), LessThan(column, end))
