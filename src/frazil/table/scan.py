"""Scan a table's rows: PyIceberg's DataScan, with Spark DataFrames beside Arrow tables and other
frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from frazil.catalog.backend import ScanPlanner
from frazil.catalog.names import identifier_parts
from frazil.catalog.reporting import TableReporter
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, And, Predicate
from frazil.ops.arguments import is_spark_column, number
from frazil.ops.engine import Frame
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import naming
from frazil.ops.reading import RowFilter, RowsReading, predicate_of
from frazil.ops.session import Session
from frazil.scan.explain.explanation import Explanation
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask
from frazil.spec.metadata import TableMetadata
from frazil.spec.name_mapping import parse_name_mapping
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import Schema
from frazil.spec.shown import listed, shortened
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.storage.locations import base_name
from frazil.table import engines
from frazil.table.frames.frames import (
    in_duckdb,
    pandas_of,
    polars_makes_a_frame,
    polars_of,
)
from frazil.table.frames.lazy_frames import polars_over, scan_dataset
from frazil.table.frames.plain_files import PlainFiles, may_be_plain, plain_files
from frazil.table.missing_methods import OF_SCANS, no_such_method
from frazil.table.on_demand_types import duckdb, pd, pl
from frazil.table.shown.rows_text import first_rows


@dataclass(frozen=True)
class ScannedTable:
    """Hold the table of a scan: one state of its metadata, its storage, its name for messages, what
    takes its metrics reports, and what plans its scans where the catalog's server is to."""

    name: str
    metadata: TableMetadata
    storage: Storage
    reporter: TableReporter | None = field(default=None, repr=False, compare=False)
    planner: ScanPlanner | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"ScannedTable({self.name!r}, {self.metadata.location!r})"

    def naming(self) -> AbstractContextManager[None]:
        return naming(self.name, self.metadata.location)


@dataclass(frozen=True)
class DataScan:
    """Describe a read of one snapshot. Scans are immutable: every refinement returns a new one.
    Nothing is read before a `to_…` method, `show` or `count` is called.

    `source`: the table. `row_filter`: Spark SQL text, a predicate of `frazil.expressions` or, for
    `to_spark`, a Spark Column. `selected_fields`: names of columns, nested ones with dots; `*`:
    all. `case_sensitive` None: True, and for `to_spark` the session's `spark.sql.caseSensitive`.
    `snapshot_id`, `branch`, `tag`, `as_of_ms`: the snapshot to read, at most one of them; none: the
    current one. `options`: read options as in Java Iceberg (`split-size`, `lookback`,
    `file-open-cost`). `limit`: at most so many rows, None: all.
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

    def __repr__(self) -> str:
        """Show the table's name and the arguments that differ from their defaults."""
        arguments = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "source"}
        default = type(self)(self.source)
        shown = [
            f"{name}=({listed(map(repr, value))})"
            if isinstance(value, tuple)
            else f"{name}={shortened(repr(value))}"
            for name, value in arguments.items()
            if is_spark_column(value) or value != getattr(default, name)
        ]
        return f"{type(self).__name__}({', '.join([self.source.name, *shown])})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_method(self, name, OF_SCANS)

    # --- refinements

    def select(self, *field_names: str) -> DataScan:
        """Return a scan of these columns only; without names, of all columns."""
        return replace(self, selected_fields=tuple(field_names) or ("*",))

    def filter(self, expr: RowFilter) -> DataScan:
        """Return a scan whose rows match this filter as well as the present one."""
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
        """Return a scan of a branch or tag. Raises NoSuchRefError."""
        ref = self.source.metadata.ref(name)
        return replace(self, branch=name) if ref.is_branch else replace(self, tag=name)

    def with_case_sensitive(self, case_sensitive: bool = True) -> DataScan:
        """Return the scan with names that must match in case, or need not."""
        return replace(self, case_sensitive=case_sensitive)

    def update(self, **overrides: Any) -> DataScan:
        """Return the scan with other values of its fields."""
        return replace(self, **overrides)

    # --- planning

    def _reading(self) -> RowsReading:
        selectors = {
            "snapshot_id": self.snapshot_id,
            "branch": self.branch,
            "tag": self.tag,
            "as_of_ms": self.as_of_ms,
        }
        return RowsReading(
            self.source.metadata,
            self.source.storage,
            selectors,
            None,
            self.row_filter,
            self.selected_fields,
            self.case_sensitive,
            self.options,
            self.limit,
            self.source.reporter,
            self.source.planner,
        )

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot that is read; None: the table has none. Raises NoSuchSnapshotError,
        NoSuchRefError."""
        return self._reading().snapshot_and_schema()[0]

    def projection(self) -> Schema:
        """Return the schema of the result, metadata columns included."""
        with self.source.naming():
            return self._reading().projection()

    def plan(
        self,
        predicate: Predicate | None = None,
        case_sensitive: bool | None = None,
        zone: str = "UTC",
    ) -> Plan:
        """Plan the files to read, pruned by the filter. `predicate` replaces the filter for
        pruning; `zone` is the time zone of literals that name none (Spark reads pass the
        session's)."""
        return self._planned(predicate, case_sensitive, zone, reported=True)

    def _planned(
        self, predicate: Predicate | None, case_sensitive: bool | None, zone: str, *, reported: bool
    ) -> Plan:
        reading = (
            self._reading()
            if case_sensitive is None
            else replace(self._reading(), case_sensitive=case_sensitive)
        )
        reading = reading if reported else replace(reading, reporter=None)
        with self.source.naming():
            return reading.plan(predicate, zone)

    def plan_files(self) -> Sequence[FileScanTask]:
        """Return one task per file: `.file`, `.delete_files`, `.residual`. The tasks are made as
        they are accessed; the length is known at once."""
        return self.plan().tasks()

    def explain(self) -> Explanation:
        """Explain what the filter skipped, and by which statistics. The result is printable;
        `report` holds the counters.

        `deletes` lists every delete file with the number of planned data files that it applies to,
        or the reason why it applies to none (`ExplainedDelete`); `deletes_of(file_path)` does so
        for one data file. `why(file_path)` tells why a data file is read or skipped.
        """
        return self._planned(None, None, "UTC", reported=False).explain()

    # --- results

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of Arrow batches. Memory use does not grow with the table's
        size.
        """
        with self.source.naming():
            return IN_PROCESS.read(self._reading())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self.to_arrow_batch_reader().read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows by Arrow's PyCapsule interface, which `pa.table(scan)`,
        `pl.DataFrame(scan)` and DuckDB's `FROM scan` use.

        Files are planned when the consumer asks for the first batch, since some ask for the schema
        several times before, and read as it asks for more. `requested_schema`: a capsule of the
        schema that the consumer would like; columns are cast to it where pyarrow can.

        For a DataFrame of polars, which takes all rows, polars reads the files itself where
        `to_polars` lets it.
        """
        if requested_schema is None and polars_makes_a_frame():
            rows = self._read_for_polars()
            if isinstance(rows, pa.RecordBatchReader):
                return rows.__arrow_c_stream__()
            return rows.to_struct().__arrow_c_stream__()  # a frame's own joins its chunks first

        def batches() -> Iterator[pa.RecordBatch]:
            yield from self.to_arrow_batch_reader()

        return pa.RecordBatchReader.from_batches(
            self.projection().as_arrow(), batches()
        ).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema of the rows by Arrow's PyCapsule interface, so that `pa.schema(scan)`
        takes it; nothing is read.
        """
        return self.projection().as_arrow().__arrow_c_schema__()

    def to_pandas(self, **kwargs: object) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame. `kwargs`: arguments of `pyarrow.Table.to_pandas`."""
        return pandas_of(self.to_arrow(), **kwargs)

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame. Up to 200 local Parquet files that hold the rows
        as they are (no deletes, no columns of other names or types) are read by polars itself,
        unless the scan has a limit, or a filter beyond comparisons of integers, dates, timestamps
        and texts with values and tests for null, joined by AND.
        """
        rows = self._read_for_polars()
        return polars_of(rows.read_all()) if isinstance(rows, pa.RecordBatchReader) else rows

    def _read_for_polars(self) -> pl.DataFrame | pa.RecordBatchReader:
        """Let polars read the files itself. Where it would read other rows, or fails, they come as
        Arrow batches: Frazil's own reader says why a file cannot be read."""
        reading = self._reading()
        with self.source.naming():
            plan = reading.plan()
            files = self._plain(plan, reading.projection())
            frame = None if files is None else polars_over(files)
            if frame is not None:
                from polars.exceptions import PolarsError

                with suppress(OSError, PolarsError):
                    return frame.collect()
            return reading.batches(plan)

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Print the first `n` rows, in no particular order, as Spark's show does. `truncate`: cut
        texts to 20 characters (True), to a given number of characters, or not at all (False)."""
        count = number("n", n, 0) or 0
        limit = count + 1 if self.limit is None else min(count + 1, self.limit)
        print(first_rows(self.update(limit=limit).to_arrow(), count, truncate))

    def to_duckdb(
        self, table_name: str | None = None, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Register the scan as a table of a DuckDB connection (None: a new one, in memory), and
        return the connection. `table_name` None: the last part of the table's name. Each query
        over it reads the columns that it needs, when it runs, and skips files by comparisons
        with values. Up to 200 local Parquet files that hold the rows as they are (no deletes, no
        columns of other names or types) are read by DuckDB itself. Raises NotInstalledError.
        """
        rows = scan_dataset(self, self.projection().as_arrow())
        source = self.source.name
        name = table_name or (base_name(source) if "/" in source else identifier_parts(source)[-1])
        files = self._plain_files()
        return in_duckdb(rows, name, connection, None if files is None else files.paths)

    def _plain_files(self) -> PlainFiles | None:
        """Find the files that other libraries read as this scan would; None where they could not.
        Nothing is planned where it is unlikely."""
        snapshot = self.snapshot()
        if (
            snapshot is None
            or not may_be_plain(snapshot)
            or self.source.storage.local_path(self.source.metadata.location) is None
            or not isinstance(self.row_filter, AlwaysTrue)
            or self.limit is not None
        ):
            return None
        return self._plain(self._planned(None, None, "UTC", reported=False), self.projection())

    def _plain(self, plan: Plan, selected: Schema) -> PlainFiles | None:
        if self.limit is not None:
            return None
        names = NAME_MAPPING.text(self.source.metadata.properties)
        mapping = parse_name_mapping(names) if names else None
        return plain_files(plan, selected, plan.reads_by(self.source.storage), mapping)

    def count(self) -> int:
        """Count the rows: by the manifests where their statistics suffice, else by reading the
        files concerned.
        """
        with self.source.naming():
            return self._reading().count()

    def to_spark(self, spark: Session | None = None) -> Frame:
        """Return a Spark DataFrame, planned now and read when it is used, by Spark's own scan where
        that is possible.

        The DataFrame keeps the present state of the table. A temporary view over it follows what
        this process writes, unless the scan names a snapshot or a time. `spark`: the session; None:
        the running one. Raises InvalidInput where none runs.
        """
        engine = engines.of_spark_frames(spark)
        with self.source.naming():
            return engine.read(self._reading())


@dataclass(frozen=True, repr=False)
class IncrementalAppendScan(DataScan):
    """Describe a read of the rows that `append` snapshots added after the snapshot
    `from_snapshot_id_exclusive` (None: from the first) up to `to_snapshot_id_inclusive` (None: the
    current one). The other fields are those of DataScan."""

    from_snapshot_id_exclusive: int | None = None
    to_snapshot_id_inclusive: int | None = None

    def _reading(self) -> RowsReading:
        return replace(
            super()._reading(),
            appends=(self.from_snapshot_id_exclusive, self.to_snapshot_id_inclusive),
        )
