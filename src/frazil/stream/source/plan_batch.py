"""Plan a micro-batch: from its two offsets to the tasks that read its rows.

The plan depends on the offsets and on files that never change, so a batch that is planned again, by
this process or after a restart, reads the same rows in the same tasks. Its files are packed into
tasks of about one size, in their order unless `lookback` is given; large files are cut at their row
groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from frazil.arrow.changelog.read_changelog import ChangelogRead
from frazil.arrow.read.read_context import ReadContext
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.reading import ChangelogReading, predicate_of
from frazil.rows.groups import in_few_groups
from frazil.scan import columns
from frazil.scan.changelog import ChangelogPlan, ChangelogTask, SnapshotChangelog, plan_changelog
from frazil.scan.combine import combine
from frazil.scan.incremental import plan_added, plan_added_by
from frazil.scan.options import ScanOptions, SplitOptions
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import SPLIT_OPEN_FILE_COST
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.stream.source.added import AddedFiles
from frazil.stream.source.batch_end import READ, REFUSED, refuse, treatment
from frazil.stream.source.file_order import FileOrder
from frazil.stream.source.offset import Position
from frazil.stream.source.options import StreamOptions
from frazil.stream.source.scan_pages import ScanPages


@dataclass(frozen=True)
class RowTasks:
    """Hold scan tasks, and the read context that they share."""

    tasks: tuple[FileScanTask, ...]
    context: ReadContext = field(repr=False)


@dataclass(frozen=True)
class BatchPlan:
    """Hold what a micro-batch reads: rows of data files, or rows with their change type
    (`changes`). `options`: among them those by which files are cut into tasks."""

    rows: tuple[RowTasks, ...] = ()
    changes: ChangelogPlan | None = None
    changelog_read: ChangelogRead | None = None
    options: ScanOptions = field(default_factory=ScanOptions)

    @property
    def files(self) -> int:
        """Count the files that are read."""
        return sum(len(r.tasks) for r in self.rows) + (
            0 if self.changes is None else len(self.changes.tasks)
        )


@dataclass(frozen=True)
class Segment:
    """Name the part of one snapshot that is read: a page of its initial scan (`scan`), or of the
    files that it added. `files`: None for all of them."""

    snapshot: Snapshot
    scan: bool = False
    files: range | None = None
    order: str = ""
    ordinal: int = 0


@dataclass(frozen=True)
class TableState:
    """Hold a table as a stream reads it: with the schema that the query started with."""

    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False)
    schema: Schema = field(repr=False)
    options: StreamOptions
    order: FileOrder | None = None

    @property
    def row_filter(self) -> Predicate:
        return (
            AlwaysTrue()
            if self.options.row_filter is None
            else predicate_of(self.options.row_filter)
        )

    @property
    def scan_options(self) -> ScanOptions:
        """Return the options of planning. Unless `file-open-cost` is given, small files weigh
        little, so that a batch of many small files is read in as few tasks as there are slots: in a
        stream they are the rule, and a Python task costs more than to open a file."""
        options = ScanOptions.of(self.options.split, self.metadata.properties)
        is_given = (
            "file-open-cost" in self.options.split
            or SPLIT_OPEN_FILE_COST.text(self.metadata.properties) is not None
        )
        return options if is_given else replace(options, split=in_few_groups(options.split))

    def projection(self) -> Schema:
        """Return the columns of the rows that the stream returns."""
        if self.options.changes:
            return self.changelog().projection()
        return columns.project(
            self.metadata, self.schema, self.options.selected_fields, self.options.case_sensitive
        )

    def check_filter(self) -> None:
        """Raise InvalidInput for a filter that does not fit the columns."""
        schema = self.changelog().schema if self.options.changes else self.schema
        bind(
            self.row_filter,
            schema,
            case_sensitive=self.options.case_sensitive,
            zone=self.options.zone,
        )

    def changelog(self) -> ChangelogReading:
        """Return how changes are read: rows with equal identifier fields are reported as updates."""
        options = self.options
        return ChangelogReading(
            self.metadata,
            self.storage,
            compute_updates=bool(self.schema.identifier_field_ids),
            row_filter=self.row_filter,
            selected_fields=options.selected_fields,
            case_sensitive=options.case_sensitive,
            options=options.split,
        )


def segments(
    walk: Sequence[Snapshot], begin: Position, end: Position, options: StreamOptions, table: str
) -> Iterator[Segment]:
    """Yield the segments between two positions. `walk`: the snapshots from the one that is partly
    read, or the one after the beginning, up to that of the end, oldest first.

    Raises ValidationError for a snapshot that the options refuse.
    """
    ordinal = begin.ordinal
    for snapshot in walk:
        treated = treatment(snapshot, options)
        if treated == REFUSED:
            raise refuse(snapshot, table)
        partly_begun = begin.phase == "files" and begin.snapshot_id == snapshot.snapshot_id
        partly_ended = end.phase == "files" and end.snapshot_id == snapshot.snapshot_id
        if treated == READ and not (partly_ended and end.file == 0):
            first, last = begin.file if partly_begun else 0, end.file if partly_ended else None
            files = (
                None
                if not first and last is None
                else range(first, last if last is not None else 1 << 62)
            )
            yield Segment(snapshot, False, files, "", ordinal)
        ordinal += options.changes and snapshot.operation != "replace"


def plan_rows(
    state: TableState, parts: Sequence[Segment], added: AddedFiles, pages: ScanPages | None
) -> BatchPlan:
    """Plan the rows of these segments."""
    row_tasks: list[RowTasks] = []
    for segment in parts:
        if segment.scan:
            assert pages is not None and segment.files is not None
            planned, page = pages.plan(
                segment.files,
                state.row_filter,
                state.options.case_sensitive,
                state.options.zone,
                state.scan_options,
            )
            row_tasks.append(_row_tasks(state, planned, page))
    appended = [s for s in parts if not s.scan]
    whole = [s for s in appended if s.files is None]
    tasks: list[FileScanTask] = []
    last: Plan | None = None
    if whole:
        last = _plan_whole(state, [s.snapshot for s in whole], added)
        tasks += list(last.tasks())
    for segment in (s for s in appended if s.files is not None):
        last = _plan_part(state, segment)
        tasks += sorted(last.tasks(), key=lambda t: t.number or 0)
    if last is not None:
        places = {s.snapshot.snapshot_id: n for n, s in enumerate(appended)}
        tasks.sort(key=lambda t: places[t.facts.snapshot_id or 0])
        row_tasks.append(
            _row_tasks(state, last, tasks if state.order is None else state.order.arranged(tasks))
        )
    return BatchPlan(tuple(row_tasks), options=state.scan_options)


def _row_tasks(state: TableState, planned: Plan, tasks: Sequence[FileScanTask]) -> RowTasks:
    return RowTasks(tuple(tasks), ReadContext.of(planned, state.projection(), state.storage))


def _statistics(state: TableState) -> ScanOptions:
    return replace(
        state.scan_options, with_stats=state.order is not None and state.order.needs_statistics
    )


def _plan_whole(state: TableState, snapshots: Sequence[Snapshot], added: AddedFiles) -> Plan:
    """Plan all files that several snapshots added, reading each manifest once."""
    manifests = {
        m.manifest_path: m
        for of_snapshot in added.of_each(snapshots, state.scan_options.workers)
        for m in of_snapshot.manifests
    }
    return plan_added_by(
        state.metadata,
        state.storage,
        snapshots,
        list(manifests.values()),
        end=snapshots[-1],
        row_filter=state.row_filter,
        schema=state.schema,
        case_sensitive=state.options.case_sensitive,
        zone=state.options.zone,
        options=_statistics(state),
    )


def _plan_part(state: TableState, segment: Segment) -> Plan:
    return plan_added(
        state.metadata,
        state.storage,
        segment.snapshot,
        files=segment.files,
        row_filter=state.row_filter,
        schema=state.schema,
        case_sensitive=state.options.case_sensitive,
        zone=state.options.zone,
        options=_statistics(state),
    )


def plan_with_changelog(
    state: TableState, parts: Sequence[Segment], pages: ScanPages | None
) -> BatchPlan:
    """Plan the rows of these segments with their change types: rows of the initial scan and of
    appends are inserts.
    """
    reading = state.changelog()
    before = reading.decided_first(state.row_filter)
    options, sensitive, zone = state.scan_options, state.options.case_sensitive, state.options.zone
    bound = bind(before, state.schema, case_sensitive=sensitive, zone=zone)
    others = [s for s in parts if not s.scan and s.snapshot.operation != "append"]
    changed = plan_changelog(
        state.metadata,
        state.storage,
        [s.snapshot for s in others],
        row_filter=before,
        case_sensitive=sensitive,
        zone=zone,
        options=options,
    )
    tasks_of = {s.snapshot_id: s.tasks for s in changed.snapshots}
    equality_ids, snapshot_changelogs = set(changed.equality_ids), []
    for segment in parts:
        ordinal, snapshot = segment.ordinal, segment.snapshot
        if segment.scan:
            assert pages is not None and segment.files is not None
            planned, tasks = pages.plan(segment.files, before, sensitive, zone, options)
            equality_ids |= set(planned.equality_ids)
            changelog_tasks = [ChangelogTask(True, ordinal, snapshot.snapshot_id, t) for t in tasks]
        elif snapshot.operation == "append":
            planned = plan_added(
                state.metadata,
                state.storage,
                snapshot,
                files=segment.files,
                row_filter=before,
                schema=state.schema,
                case_sensitive=sensitive,
                zone=zone,
                options=options,
            )
            changelog_tasks = [
                ChangelogTask(True, ordinal, snapshot.snapshot_id, t) for t in planned.tasks()
            ]
        else:
            changelog_tasks = [
                replace(t, ordinal=ordinal) for t in tasks_of.get(snapshot.snapshot_id, ())
            ]
        snapshot_changelogs.append(
            SnapshotChangelog(ordinal, snapshot.snapshot_id, tuple(changelog_tasks))
        )
    plan = ChangelogPlan(
        state.metadata,
        tuple(snapshot_changelogs),
        state.schema,
        bound,
        tuple(sorted(equality_ids)),
        options,
    )
    return BatchPlan(changes=plan, changelog_read=reading.read_of(plan), options=options)


def packed(
    tasks: Sequence[FileScanTask], split: SplitOptions, parallelism: int, lookback: int = 1
) -> list[tuple[FileScanTask, ...]]:
    """Return groups of tasks of at most a split size, unless one piece alone is larger.

    With adaptive sizes there are as many groups as slots, unless that makes them larger than the
    split size: as Spark packs files, a file weighs its bytes and at least `open_file_cost`. A piece
    goes into the first of the last `lookback` groups that has room for it. The same tasks give the
    same groups.
    """
    weights = [max(t.size_bytes, (1 + len(t.delete_files)) * split.open_file_cost) for t in tasks]
    size = split.split_size
    if split.adaptive:
        size = min(size, max(split.open_file_cost, -(-sum(weights) // max(parallelism, 1))))
    groups: list[list[FileScanTask]] = []
    rooms: list[int] = []
    for task, weight in zip(tasks, weights, strict=True):
        cut = (
            [p for c in combine([task], size, 1, split.open_file_cost) for p in c.tasks]
            if task.length > size
            else [task]
        )
        for piece in cut:
            cost = weight if len(cut) == 1 else max(piece.size_bytes, split.open_file_cost)
            # A size that follows from the number of slots may be exceeded by half of a group's last
            # file, since one task more than there are slots would wait until another has ended.
            slack = 2 if size < split.split_size else 1
            place = next(
                (
                    n
                    for n in range(max(0, len(groups) - lookback), len(groups))
                    if cost <= slack * rooms[n]
                ),
                None,
            )
            if place is None:
                place = len(groups)
                groups.append([])
                rooms.append(size)
            groups[place].append(piece)
            rooms[place] -= cost
    return [tuple(g) for g in groups]
