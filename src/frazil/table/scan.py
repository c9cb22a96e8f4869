"""Scans: what a user asks of a table, and the doors through which the rows come (PyIceberg's DataScan, with Spark beside Arrow)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.arrow.read import read_tasks as arrow_read
from frazil.catalog import LoadedTable
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, And, Predicate
from frazil.expr.parse import parse
from frazil.scan import columns
from frazil.scan.explain import Explanation
from frazil.scan.incremental import plan_appends
from frazil.scan.plan import Plan, ScanOptions, plan
from frazil.scan.snapshot_ref import resolve
from frazil.scan.tasks import FileScanTask
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.table.frames import in_duckdb, is_spark_column, pandas_of, polars_of, session, spark_room
from frazil.table.naming import naming

RowFilter: TypeAlias = str | Predicate | Any


@dataclass(frozen=True)
class ScannedTable:
    """The table as a scan sees it: one state of its metadata, where its files are, its name for messages."""

    name: str
    metadata: TableMetadata
    storage: Storage

    def naming(self) -> AbstractContextManager[None]:
        return naming(self.name, self.metadata.location)


@dataclass(frozen=True)
class DataScan:
    """A read of one snapshot. Immutable: every refinement returns a new scan. Nothing is read until a door is opened.

    `row_filter` is Spark SQL text, a predicate of `frazil.expressions`, or (for `to_spark`) a Spark Column. `case_sensitive` None: True,
    at Spark doors the session's `spark.sql.caseSensitive`. `options` are Java's read options (`split-size`, `lookback`, `file-open-cost`).
    """

    source: ScannedTable
    row_filter: RowFilter = field(default_factory=AlwaysTrue)
    selected_fields: tuple[str, ...] = ("*",)
    case_sensitive: bool | None = None
    snapshot_id: int | None = None
    branch: str | None = None
    tag: str | None = None
    as_of_ms: int | None = None
    options: dict[str, str] = field(default_factory=dict, hash=False)
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise InvalidInput(f"limit must not be negative, got {self.limit}")

    # --- refinements

    def select(self, *field_names: str) -> DataScan:
        return replace(self, selected_fields=tuple(field_names) or ("*",))

    def filter(self, expr: RowFilter) -> DataScan:
        """Rows must match this as well as what was asked before."""
        if isinstance(self.row_filter, AlwaysTrue):
            return replace(self, row_filter=expr)
        if isinstance(self.row_filter, str) and isinstance(expr, str):
            return replace(self, row_filter=f"({self.row_filter}) AND ({expr})")
        if is_spark_column(self.row_filter) and is_spark_column(expr):
            column: Any = self.row_filter
            return replace(self, row_filter=column & expr)
        both: Predicate = And(predicate_of(self.row_filter), predicate_of(expr))
        return replace(self, row_filter=both)

    def use_ref(self, name: str) -> DataScan:
        """A branch or a tag by name."""
        found = self.source.metadata.ref(name)
        return replace(self, branch=name) if found.is_branch else replace(self, tag=name)

    def with_case_sensitive(self, case_sensitive: bool = True) -> DataScan:
        return replace(self, case_sensitive=case_sensitive)

    def update(self, **overrides: Any) -> DataScan:
        return replace(self, **overrides)

    # --- what will be read

    def _target(self) -> tuple[Snapshot | None, Schema]:
        return resolve(self.source.metadata, snapshot_id=self.snapshot_id, branch=self.branch, tag=self.tag, as_of_ms=self.as_of_ms)

    @property
    def _selects(self) -> bool:
        return any(x is not None for x in (self.snapshot_id, self.branch, self.tag, self.as_of_ms))

    def snapshot(self) -> Snapshot | None:
        return self._target()[0]

    def projection(self) -> Schema:
        """The schema of the rows, metadata columns included."""
        with self.source.naming():
            return columns.project(self.source.metadata, self._target()[1], self.selected_fields, self.case_sensitive is not False)

    def plan(self, predicate: Predicate | None = None, case_sensitive: bool | None = None, zone: str = "UTC") -> Plan:
        """The files to read, after pruning by the filter. `predicate` replaces the filter for pruning, and `zone` is that of literals
        without one (Spark doors do that)."""
        with self.source.naming():
            snapshot, schema = self._target()
            return plan(
                self.source.metadata,
                self.source.storage,
                snapshot=snapshot,
                row_filter=predicate_of(self.row_filter) if predicate is None else predicate,
                schema=schema,
                case_sensitive=self.case_sensitive is not False if case_sensitive is None else case_sensitive,
                zone=zone,
                options=ScanOptions.of(self.options, self.source.metadata.properties),
            )

    def plan_files(self) -> Sequence[FileScanTask]:
        """A task for each file: `.file`, `.delete_files`, `.residual`. The list is lazy, its length is known at once."""
        return self.plan().tasks()

    def explain(self) -> Explanation:
        """What the filter skipped, and by what: printable, with the counters as `report`.

        `deletes` lists every delete file, the number of planned data files it applies to or the reason why it applies to none
        (`ExplainedDelete`); `deletes_of(file_path)` does so for one data file.
        """
        return self.plan().explain()

    # --- doors

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches; memory stays bounded whatever the table's size."""
        found = self.plan()
        context = arrow_read.ReadContext.of(found, self.projection(), self.source.storage)
        return arrow_read.read(found.tasks(), context, limit=self.limit)

    def to_arrow(self) -> pa.Table:
        return self.to_arrow_batch_reader().read_all()

    def to_pandas(self, **kwargs: Any) -> Any:
        return pandas_of(self.to_arrow(), **kwargs)

    def to_polars(self) -> Any:
        return polars_of(self.to_arrow())

    def to_duckdb(self, table_name: str, connection: Any = None) -> Any:
        """The rows as a table of a DuckDB connection (a new one in memory unless given); returns the connection."""
        return in_duckdb(self.to_arrow(), table_name, connection)

    def count(self) -> int:
        """How many rows: from the manifests where they tell, reading only the files they cannot decide."""
        found = self.plan()
        known = found.matched_records
        if self.limit is not None and known >= self.limit:
            return self.limit
        undecided = found.undecided_tasks()
        if undecided:
            context = arrow_read.ReadContext.of(found, found.filter_schema(), self.source.storage)
            known += sum(batch.num_rows for batch in arrow_read.read(undecided, context))
        return known if self.limit is None else min(known, self.limit)

    def to_spark(self, spark: Any = None) -> Any:
        """A DataFrame, planned now and read when it is used, on Spark's own scan where that is possible. It keeps the table's state; a
        temporary view over it follows what this process writes, unless the scan names a snapshot or a time."""
        spark = session(spark)
        frame = self._frame(spark)
        if not self._may_follow:
            return frame

        def again(loaded: LoadedTable) -> Any:
            return replace(self, source=replace(self.source, metadata=loaded.metadata, storage=loaded.storage))._frame(spark)

        return spark_room("read.following").follow(spark, frame, self.source.metadata, again)

    @property
    def _may_follow(self) -> bool:
        return self.snapshot_id is None and self.as_of_ms is None

    def _frame(self, spark: Any) -> Any:
        reader = spark_room("read.native_read")
        sensitive = spark_room("host.session_conf").is_case_sensitive(spark, self.case_sensitive)
        scan = replace(self, case_sensitive=sensitive)
        if not self._selects and (branch := spark_room("host.session_conf").wap_branch(spark, self.source.metadata)):
            scan = replace(scan, branch=branch)
        with self.source.naming():
            predicate, zone = reader.pruning(spark, self.row_filter, scan._target()[1], sensitive)
        found = scan.plan(predicate, sensitive, zone)
        where = None if isinstance(self.row_filter, AlwaysTrue) else self.row_filter
        with spark_room("host.session_conf").sensitivity(spark, self.case_sensitive):  # Spark looks the filter's names up
            frame = reader.read(
                spark, found, projection=scan.projection(), storage=self.source.storage, where=where, case_sensitive=sensitive,
                limit=self.limit,
            )  # fmt: skip
            if self.case_sensitive is not None:
                _ = frame.columns  # Spark Connect looks names up when it is asked
            return frame


@dataclass(frozen=True)
class IncrementalAppendScan(DataScan):
    """The rows that `append` snapshots added after one snapshot (exclusive; None: from the first) up to another (inclusive; None: now)."""

    from_snapshot_id_exclusive: int | None = None
    to_snapshot_id_inclusive: int | None = None

    @property
    def _may_follow(self) -> bool:
        return False

    def _target(self) -> tuple[Snapshot | None, Schema]:
        metadata = self.source.metadata
        end = self.to_snapshot_id_inclusive
        return (metadata.current_snapshot() if end is None else metadata.snapshot_by_id(end)), metadata.schema()

    def plan(self, predicate: Predicate | None = None, case_sensitive: bool | None = None, zone: str = "UTC") -> Plan:
        with self.source.naming():
            snapshot, schema = self._target()
            return plan_appends(
                self.source.metadata,
                self.source.storage,
                from_snapshot_id_exclusive=self.from_snapshot_id_exclusive,
                to_snapshot_id_inclusive=snapshot.snapshot_id if snapshot else None,
                row_filter=predicate_of(self.row_filter) if predicate is None else predicate,
                schema=schema,
                case_sensitive=self.case_sensitive is not False if case_sensitive is None else case_sensitive,
                zone=zone,
                options=ScanOptions.of(self.options, self.source.metadata.properties),
            )


def predicate_of(row_filter: RowFilter) -> Predicate:
    """Text or an expression as a predicate; a Spark Column is refused."""
    if isinstance(row_filter, str):
        return parse(row_filter)
    if isinstance(row_filter, Predicate):
        return row_filter
    if is_spark_column(row_filter):
        raise InvalidInput("A Spark Column filters only Spark reads.", hint="Give a string or a predicate of frazil.expressions here.")
    raise InvalidInput(f"A filter is a string or a predicate of frazil.expressions, not {type(row_filter).__name__}.")
