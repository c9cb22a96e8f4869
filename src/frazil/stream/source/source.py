"""Read a table as a stream: the next offset within limits, and the tasks between two offsets.
Engine-free; one object per query and run.

The table is loaded at most once per `monitor-interval`. If planning fails it is tried again later,
as often as `max-allowed-planning-failures` allows. A lost position, or a snapshot that is no
append, is an error at once, since no retry can help.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from frazil.catalog import LoadedTable
from frazil.errors import (
    CorruptData,
    InvalidInput,
    NoSuchRefError,
    NoSuchSnapshotError,
    NoSuchTableError,
    ValidationError,
)
from frazil.scan.options import planning_threads
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.stream.source.added import AddedFiles
from frazil.stream.source.batch_end import next_position
from frazil.stream.source.file_order import order_of, ordered_by
from frazil.stream.source.history import Lost, StreamHistory, counted, head_of
from frazil.stream.source.offset import NO_SNAPSHOT, Offset, Position, parse_offset, start_offset
from frazil.stream.source.options import Limits, StreamOptions
from frazil.stream.source.plan_batch import (
    BatchPlan,
    Segment,
    TableState,
    plan_rows,
    plan_with_changelog,
    segments,
)
from frazil.stream.source.scan_pages import ScanPages
from frazil.stream.source.start import after_loss, latest, resolve_start

_NO_UUID = "None"
_log = logging.getLogger("frazil")
_FINAL = (InvalidInput, NoSuchTableError, NoSuchRefError, NoSuchSnapshotError, CorruptData)
_LONGEST_PAUSE = 10.0
T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """Tell the time and wait; tests use a clock of their own."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    wall_ms: Callable[[], float] = lambda: time.time() * 1000


@dataclass(frozen=True)
class _View:
    """Hold one loaded state of the table, prepared for planning."""

    loaded: LoadedTable
    state: TableState
    history: StreamHistory
    added: AddedFiles

    @property
    def metadata(self) -> TableMetadata:
        return self.state.metadata


class StreamSource:
    """Serve one run of a streaming query over a table. `load`: loads the table's newest state;
    `schema`: that with which all rows are read."""

    def __init__(
        self,
        load: Callable[[], LoadedTable],
        options: StreamOptions,
        schema: Schema,
        clock: Clock = Clock(),
    ):
        self._load, self._options, self._schema, self._clock = load, options, schema, clock
        self._order = order_of(options, schema)
        self._view: _View | None = None
        self._loaded_at = self._failed_at = -float("inf")
        self._failures = 0
        self._frozen = False
        self._last: dict[str, Any] | None = None
        self._pages: tuple[Position, ScanPages] | None = None
        self._planned: tuple[Any, BatchPlan] | None = None

    # --- what an engine asks

    def initial_offset(self) -> dict[str, Any]:
        """Return the constant that stands for "nothing has been read"."""
        return start_offset()

    def freeze(self) -> None:
        """Read up to what the table holds now, and no further (trigger availableNow)."""
        self._retried(lambda: self._current(fresh=True))
        self._frozen = True

    def latest_offset(
        self, start: Mapping[str, Any] | None = None, limits: Limits | None = None
    ) -> dict[str, Any]:
        """Return where the batch after `start` ends; `start` itself when there is nothing new.

        `limits`: of this batch; None: those of the options. `start` None (PySpark 4.1): continue
        after the offset that was returned last. On the first call that is unknown: the batch ends
        at the head, and limits are ignored.
        """
        previous = start if start is not None else self._last
        if self._frozen or previous is None:
            offset = self._retried(lambda: self._next(previous, limits))
        else:
            offset = self._next_or_same(previous, limits)
        self._last = offset
        return offset

    def plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> BatchPlan:
        """Plan the batch between two offsets; the plan of the last pair is kept."""
        key = (dict(start), dict(end))
        if self._planned is None or self._planned[0] != key:
            self._planned = (key, self._retried(lambda: self._plan(start, end)))
        return self._planned[1]

    def report(self) -> dict[str, Any] | None:
        """Return how far the stream lags behind the table: the files, rows and snapshots after the
        offset that was returned last, and the age of the oldest snapshot among them."""
        view, last = self._view, None if self._last is None else parse_offset(self._last)
        if view is None or last is None or last.table_uuid != view.metadata.table_uuid:
            return None
        pending = view.history.after(last.position)
        if isinstance(pending, Lost):
            return None
        history, position = view.history, last.position
        files, rows = history.files[pending], history.rows[pending]
        if position.phase == "files":
            half_read = view.history.walked[pending - 1]
            files = max(0, files - position.file)
            rows -= _share(
                counted(half_read, "added-records"),
                position.file,
                counted(half_read, "added-data-files"),
            )
        if position.phase == "scan":
            scan = self._pages_of(view, position)
            with planning_threads(self._options.workers):
                files += max(0, scan.total - position.file)
            rows += _share(
                counted(scan.snapshot, "total-records"), scan.total - position.file, scan.total
            )
        oldest = history.walked[pending - 1] if pending else None
        lag = (
            0.0 if oldest is None else max(0.0, self._clock.wall_ms() - oldest.timestamp_ms) / 1000
        )
        return {
            "snapshot_id": NO_SNAPSHOT if history.head is None else history.head.snapshot_id,
            "pending_snapshots": pending,
            "pending_files": files,
            "pending_rows": rows,
            "lag_seconds": round(lag),
        }

    # --- the table

    def _current(self, fresh: bool = False) -> _View:
        """Return the table's state, loaded again when the last one is older than the monitor
        interval.
        """
        due = self._clock.now() - self._loaded_at >= self._options.monitor_interval_ms / 1000
        if self._view is None or ((due or fresh) and not self._frozen):
            loaded = self._load()
            self._loaded_at = self._clock.now()
            if (
                self._view is None
                or loaded.metadata_location != self._view.loaded.metadata_location
            ):
                self._view = self._view_of(loaded)
        return self._view

    def _view_of(self, loaded: LoadedTable) -> _View:
        metadata = with_schema(loaded.metadata, self._schema)
        state = TableState(metadata, loaded.storage, self._schema, self._options, self._order)
        head = head_of(metadata, self._options.branch)
        return _View(
            loaded, state, StreamHistory(metadata, head), AddedFiles(metadata, loaded.storage, head)
        )

    def _pages_of(self, view: _View, position: Position) -> ScanPages:
        """Return the pages of the initial scan, which are the same in every state of the table."""
        key = replace(position, file=0, ordinal=0)
        if self._pages is None or self._pages[0] != key:
            snapshot = view.metadata.snapshot_by_id(position.snapshot_id)
            order = ordered_by(position.order, self._order)
            self._pages = (
                key,
                ScanPages(view.metadata, view.state.storage, snapshot, self._schema, order),
            )
        return self._pages[1]

    # --- planning that fails

    def _next_or_same(self, start: Mapping[str, Any], limits: Limits | None) -> dict[str, Any]:
        """Plan once; after a failure nothing is new until the monitor interval has passed."""
        if (
            self._failures
            and self._clock.now() - self._failed_at < self._options.monitor_interval_ms / 1000
        ):
            return dict(start)
        try:
            with planning_threads(self._options.workers):
                offset = self._next(start, limits)
        except _FINAL:
            raise
        except Exception as error:
            self._failed(error)
            return dict(start)
        self._failures = 0
        return offset

    def _retried(self, work: Callable[[], T]) -> T:
        """Plan, and plan again after failures, for calls in which an engine needs an answer at once
        (the end of availableNow).
        """
        while True:
            try:
                with planning_threads(self._options.workers):
                    result = work()
            except _FINAL:
                raise
            except Exception as error:
                self._failed(error)
                self._clock.wait(min(0.5 * 2 ** min(self._failures, 8), _LONGEST_PAUSE))
            else:
                self._failures = 0
                return result

    def _failed(self, error: Exception) -> None:
        """Count a failure. Raises the error when there were too many without a success between
        them.
        """
        self._failures, self._failed_at = self._failures + 1, self._clock.now()
        # the table is loaded again: files may be missing because their snapshots have expired since
        self._loaded_at = -float("inf")
        if 0 <= self._options.max_failures < self._failures:
            raise error
        _log.warning("Planning a batch failed (%d in a row): %s", self._failures, error)

    # --- the next offset

    def _next(self, start: Mapping[str, Any] | None, limits: Limits | None) -> dict[str, Any]:
        view = self._current()
        offset = None if start is None else parse_offset(start)
        uuid = str(view.metadata.table_uuid)
        if start is None:
            return Offset(uuid, latest(view.history)).to_dict()
        batch_start = self._resume_position(view, offset)
        if batch_start is None:
            return dict(start)
        must_name_start = (
            offset is None or batch_start != offset.position or offset.table_uuid != uuid
        )
        chosen = self._options.limits if limits is None else limits
        end = next_position(
            view.history,
            batch_start,
            self._options,
            chosen,
            view.added,
            lambda p: self._pages_of(view, p),
        )
        if end == batch_start and not must_name_start:
            return dict(start)
        return Offset(uuid, end, batch_start if must_name_start else None).to_dict()

    def _resume_position(self, view: _View, offset: Offset | None) -> Position | None:
        """Return where reading goes on: at the position, or where the starting strategy or the
        policy for lost positions says. None: not yet known."""
        if offset is None:
            return resolve_start(view.history, self._options, self._scan_order)
        lost = self._lost(view, view.history, offset)
        return (
            offset.position if lost is None else self._after_loss(view, view.history, offset, lost)
        )

    def _after_loss(
        self, view: _View, history: StreamHistory, offset: Offset, lost: Lost
    ) -> Position:
        """Return where the stream goes on in a history, and log what is read twice or not at all.
        Raises ValidationError where the policy is to fail."""
        policy = self._policy(view, offset, lost)
        position = replace(
            after_loss(history, offset.position, policy, self._scan_order),
            ordinal=offset.position.ordinal,
        )
        reading = f"scans snapshot {position.snapshot_id}, the oldest that is kept, and reads on from there: rows may come twice"
        if position.phase != "scan":
            reading = "reads the snapshots that are kept: rows may come twice"
        if policy == "latest":
            reading = f"goes on after snapshot {position.snapshot_id}, the newest one: rows up to it that were not read are lost"
        _log.warning(
            "Position %s of the stream over %s is %s: it %s.",
            offset.position,
            view.metadata.location,
            lost.value,
            reading,
        )
        return position

    @property
    def _scan_order(self) -> str:
        """Return the name of the order in which a scan that begins now counts its files."""
        return self._order.name if self._order else ""

    def _lost(self, view: _View, history: StreamHistory, offset: Offset) -> Lost | None:
        now = str(view.metadata.table_uuid)
        if offset.table_uuid != now and offset.table_uuid != _NO_UUID:
            # the first commit of Frazil gives a v1 table without a uuid one
            return Lost.ROLLED_BACK
        pending = history.after(offset.position)
        return pending if isinstance(pending, Lost) else None

    def _policy(self, view: _View, offset: Offset, lost: Lost) -> str:
        """Return `earliest` or `latest`. Raises ValidationError where the policy is to fail."""
        name, policy = {
            Lost.EXPIRED: ("on-expired", self._options.on_expired),
            Lost.ROLLED_BACK: ("on-rollback", self._options.on_rollback),
        }[lost]
        if policy != "fail":
            return policy
        table, snapshot_id = view.metadata.location, offset.position.snapshot_id
        if offset.table_uuid != str(view.metadata.table_uuid):
            text = f"Table {table} was dropped and created again: the checkpoint is of uuid {offset.table_uuid}, the table's is "
            text += f"{view.metadata.table_uuid}."
        elif lost is Lost.EXPIRED and snapshot_id == NO_SNAPSHOT:
            text = f"The first snapshots of table {table} were expired before the stream, which began on the empty table, read them."
        elif lost is Lost.EXPIRED and view.metadata.snapshots.by_id(snapshot_id) is not None:
            text = f"Snapshot {snapshot_id}, up to which the stream has read table {table}, is kept by another ref alone: those after it "
            text += f"on branch {self._options.branch} were expired or removed."
        elif lost is Lost.EXPIRED:
            text = f"Cannot load current offset at snapshot {snapshot_id}, the snapshot was expired or removed (table {table})."
        else:
            text = f"Snapshot {snapshot_id}, up to which the stream has read table {table}, is no ancestor of the head of branch "
            text += f"{self._options.branch}: the branch was rolled back or replaced."
        rest = ""
        if offset.position.phase == "scan":
            text += f" The stream was in its initial scan, of which it had read {offset.position.file} files."
            rest = ", the rest of the initial scan with them"
        raise ValidationError(
            text,
            hint=f"Set {name}=earliest to read all rows that the kept snapshots hold, from the oldest one on (rows may come "
            f"twice), {name}=latest to go on after the newest one (rows that were not read are lost{rest}), or start with a new "
            f"checkpoint directory.",
            table=table,
            snapshot_id=snapshot_id,
        )

    # --- the tasks between two offsets

    def _plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> BatchPlan:
        first, last = parse_offset(start), parse_offset(end)
        if last is None or start == end:
            return BatchPlan()
        view = self._current()
        if self._end_of(view, last) is None and last.position.snapshot_id != NO_SNAPSHOT:
            view = self._current(fresh=True)
        snapshot = self._end_of(view, last)
        if last.position.snapshot_id == NO_SNAPSHOT:
            return BatchPlan()
        if snapshot is None:
            gone = (
                Lost.ROLLED_BACK
                if last.table_uuid != str(view.metadata.table_uuid)
                else Lost.EXPIRED
            )
            policy = self._policy(view, last, gone)
            rest = (
                "its rows are lost"
                if policy == "latest"
                else "the next one reads what of it is kept"
            )
            _log.warning(
                "The batch up to %s cannot be read any more and is left out: %s.",
                last.position,
                rest,
            )
            return BatchPlan()
        history = self._history_to(view, snapshot)
        begin = self._begin_of_batch(view, history, first, last)
        if begin is None:
            return BatchPlan()
        parts = list(self._segments(view, history, begin, last.position))
        if not parts:
            return BatchPlan(options=view.state.scan_options)
        pages = self._pages_of(view, begin) if parts[0].scan else None
        if self._options.changes:
            return plan_with_changelog(view.state, parts, pages)
        return plan_rows(view.state, parts, view.added, pages)

    def _end_of(self, view: _View, offset: Offset) -> Snapshot | None:
        if offset.table_uuid != str(view.metadata.table_uuid):
            return None
        return view.metadata.snapshots.by_id(offset.position.snapshot_id)

    def _history_to(self, view: _View, snapshot: Snapshot) -> StreamHistory:
        """Return the history that ends at the batch's end: the branch may be further by now, or
        elsewhere.
        """
        if view.history.place_of(snapshot.snapshot_id) is not None:
            return view.history
        return StreamHistory(view.metadata, snapshot)

    def _begin_of_batch(
        self, view: _View, history: StreamHistory, first: Offset | None, last: Offset
    ) -> Position | None:
        """Return where a batch begins: where its end offset says, else at the end of the batch
        before; None if it has nothing to read.
        """
        uuid = last.table_uuid
        if last.began is not None:
            offset = Offset(uuid, last.began)
        elif first is not None:
            offset = first
        else:  # PySpark 4.1: the first batch goes up to a head, of which its start follows
            ending = StreamHistory(
                view.metadata, view.metadata.snapshots.by_id(last.position.snapshot_id)
            )
            return resolve_start(ending, self._options, self._scan_order)
        lost = self._lost(view, history, offset)
        if lost is None:
            return offset.position
        if self._policy(view, offset, lost) == "latest":
            _log.warning(
                "Position %s of the stream over %s is %s: the batch up to %s is left out.",
                offset.position,
                view.metadata.location,
                lost.value,
                last.position,
            )
            return None
        return self._after_loss(view, history, offset, lost)

    def _segments(
        self, view: _View, history: StreamHistory, begin: Position, end: Position
    ) -> list[Segment]:
        scan_segments = []
        if begin.phase == "scan":
            scanned = end.phase == "scan" and end.snapshot_id == begin.snapshot_id
            pages = self._pages_of(view, begin)
            files = range(begin.file, end.file if scanned else pages.total)
            scan_segments = (
                [Segment(pages.snapshot, True, files, begin.order, begin.ordinal)]
                if len(files)
                else []
            )
            if scanned:
                return scan_segments
            begin = Position(begin.snapshot_id, ordinal=begin.ordinal + self._options.changes)
        pending, place = history.after(begin), history.place_of(end.snapshot_id)
        assert isinstance(pending, int) and place is not None
        walk = history.walked[place:pending][::-1]
        return [*scan_segments, *segments(walk, begin, end, self._options, view.metadata.location)]


def _share(rows: int | None, files: int, all_files: int | None) -> int:
    """Estimate the rows of some of a snapshot's files."""
    return rows * files // all_files if rows and all_files else 0


def with_schema(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    """Return the metadata with this schema as the current one.

    Columns added since are not read, renamed ones keep their old name, dropped ones are null in new
    files. Raises ValidationError for a column whose type was widened since: its new values do not
    fit the query.
    """
    if metadata.current_schema_id == schema.schema_id and metadata.schema() == schema:
        return metadata
    current = metadata.schema()
    for field_id, field in schema.by_id.items():
        now = current.by_id.get(field_id)
        if now is not None and field.field_type.is_primitive and now.field_type != field.field_type:
            raise ValidationError(
                f"Column {schema.find_column_name(field_id)} of table {metadata.location} was {field.field_type} when the query started "
                f"and is {now.field_type} now.",
                hint="Restart the query: it goes on from its checkpoint with the new type.",
                table=metadata.location,
            )
    if any(s.schema_id == schema.schema_id and s == schema for s in metadata.schemas):
        return replace(metadata, current_schema_id=schema.schema_id)
    others = tuple(s for s in metadata.schemas if s.schema_id != schema.schema_id)
    return replace(metadata, schemas=(*others, schema), current_schema_id=schema.schema_id)
