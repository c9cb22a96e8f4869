"""Provide Table: read, write, evolve and inspect one Iceberg table, each by one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from frazil.catalog.backend import planner_of, reporter_of
from frazil.errors import InvalidInput, NotASequence
from frazil.expr.nodes import AlwaysTrue
from frazil.ops import arguments, metadata_changes
from frazil.ops.arguments import SparkFrame
from frazil.ops.engine import Frame
from frazil.ops.operation import CommitResult
from frazil.ops.reading import RowFilter
from frazil.ops.session import Session
from frazil.scan.changelog_range import ChangelogRange
from frazil.scan.snapshot_ref import tagged_snapshot_id
from frazil.spec.fact_tree import html_of, text_of
from frazil.spec.on_demand import on_demand
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotLog, SnapshotLogEntry, SnapshotRef
from frazil.spec.sorting import SortOrder
from frazil.spec.values import Time, milliseconds
from frazil.storage import FileIO, file_io
from frazil.table import engines, pickling
from frazil.table.changelog import ChangesScan
from frazil.table.frames.lazy_frames import datafusion_table, lazy_polars
from frazil.table.inspect import InspectTable
from frazil.table.missing_methods import OF_TABLES, no_such_method
from frazil.table.on_demand_types import duckdb, pd, pl, results
from frazil.table.scan import DataScan, IncrementalAppendScan, ScannedTable
from frazil.table.shown import overview
from frazil.table.shown.rows_text import show_arrow_tables
from frazil.table.transaction import Transaction
from frazil.table.verbs import CommittingVerbs


class Table(CommittingVerbs):
    """Read, write, evolve and inspect one Iceberg table. `frazil.load_table`, `catalog.load_table`
    and `catalog.create_table` make it.

    A table shows the state in which it was loaded, and after its own writes the state that they
    made; `refresh` loads the newest one. It is safe to share between threads: metadata and its
    location change together, and a scan keeps the state from which it was made.
    """

    # --- facts

    def name(self) -> tuple[str, ...]:
        """Return the identifier of the table; for a table that was opened by its location, the
        location.
        """
        return tuple(self._loaded.identifier) or (self._name,)

    @property
    def metadata_location(self) -> str:
        """Return the location of the current metadata file; empty where there is none."""
        return self._loaded.metadata_location

    @property
    def io(self) -> FileIO:
        """Return the files of the table's store: `io.new_input(location).open()`,
        `io.new_output(location).create()`, `io.delete(location)`."""
        return file_io(self._loaded.storage)

    @property
    def format_version(self) -> int:
        """Return the format version: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def properties(self) -> dict[str, str]:
        """Return the table properties, as a copy."""
        return dict(self.metadata.properties)

    def location(self) -> str:
        """Return the location of the table's directory."""
        return self.metadata.location

    def schema(self) -> Schema:
        """Return the current schema."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """Return all schemas by id."""
        return {s.schema_id: s for s in self.metadata.schemas}

    def spec(self) -> PartitionSpec:
        """Return the default partition spec."""
        return self.metadata.spec()

    def specs(self) -> dict[int, PartitionSpec]:
        """Return all partition specs by id."""
        return {s.spec_id: s for s in self.metadata.partition_specs}

    def sort_order(self) -> SortOrder:
        """Return the default sort order."""
        return self.metadata.sort_order()

    def sort_orders(self) -> dict[int, SortOrder]:
        """Return all sort orders by id."""
        return {s.order_id: s for s in self.metadata.sort_orders}

    def last_partition_id(self) -> int:
        """Return the highest id of a partition field ever given."""
        return self.metadata.last_partition_id

    @property
    def last_sequence_number(self) -> int:
        """Return the sequence number of the latest commit; 0 in format version 1."""
        return self.metadata.last_sequence_number

    def current_snapshot(self) -> Snapshot | None:
        """Return the current snapshot, that of main; None: the table has none."""
        return self.metadata.current_snapshot()

    def snapshots(self) -> Sequence[Snapshot]:
        """Return all retained snapshots, oldest first; each is decoded when it is accessed."""
        return self.metadata.snapshots

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot with this id; None: it is not retained."""
        return self.metadata.snapshots.by_id(snapshot_id)

    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """Return the snapshot of a branch or tag; None: there is no such ref."""
        return (
            self.metadata.ref_snapshot(name)
            if name in self.metadata.refs or name == MAIN_BRANCH
            else None
        )

    def snapshot_as_of_timestamp(
        self, timestamp_ms: Time, inclusive: bool = True
    ) -> Snapshot | None:
        """Return the snapshot that was current at a time (milliseconds since the epoch, datetime or
        ISO text); None: it is before the first snapshot."""
        return self.metadata.snapshot_as_of(milliseconds(timestamp_ms), inclusive)

    def history(self) -> list[SnapshotLogEntry]:
        """Return the history of the current snapshot: entries of an id and the time since when it
        was current, oldest first.
        """
        return SnapshotLog(self.metadata.snapshot_log)

    def refs(self) -> dict[str, SnapshotRef]:
        """Return branches and tags by name; `main` is included as soon as the table has a snapshot."""
        refs = dict(self.metadata.refs)
        if self.metadata.current_snapshot_id is not None:
            refs.setdefault(MAIN_BRANCH, SnapshotRef(self.metadata.current_snapshot_id))
        return refs

    def name_mapping(self) -> str | None:
        """Return the table's name mapping as JSON text; None: it has none."""
        return NAME_MAPPING.text(self.metadata.properties)

    @property
    def inspect(self) -> InspectTable:
        """Return the metadata tables as Arrow tables: `t.inspect.files()`, `t.inspect.snapshots()`,
        …
        """
        return InspectTable(self.metadata, self.metadata_location, self._loaded.storage)

    # --- read

    @property
    def _source(self) -> ScannedTable:
        loaded = self._loaded
        reporter, planner = (
            reporter_of(self._backend, loaded.identifier),
            planner_of(self._backend, loaded),
        )
        return ScannedTable(self._name, loaded.metadata, loaded.storage, reporter, planner)

    def scan(
        self,
        row_filter: RowFilter = AlwaysTrue(),
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool | None = None,
        snapshot_id: int | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
        *,
        branch: str | None = None,
        tag: str | None = None,
        as_of: Time | None = None,
    ) -> DataScan:
        """Return a scan of the current state, or of one snapshot, branch, tag or time.

        `row_filter`: Spark SQL text, a predicate or, for `to_spark`, a Spark Column.
        `selected_fields`: column names, metadata columns among them. `as_of`: milliseconds since
        the epoch, datetime or ISO text. `options`: read options, see docs/options.md. The other
        arguments are those of `DataScan`.
        """
        return DataScan(
            self._source,
            row_filter,
            arguments.names("selected_fields", selected_fields),
            arguments.flag("case_sensitive", case_sensitive),
            arguments.number("snapshot_id", snapshot_id),
            branch,
            tag,
            None if as_of is None else milliseconds(as_of),
            arguments.mapping("options", options),
            arguments.number("limit", limit, 0),
        )

    def incremental_append_scan(
        self,
        *,
        from_snapshot_id_exclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        row_filter: RowFilter = AlwaysTrue(),
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
        start_tag: str | None = None,
        end_tag: str | None = None,
    ) -> IncrementalAppendScan:
        """Return a scan of the rows that `append` snapshots added after one snapshot (exclusive;
        None: from the first) up to another (inclusive; None: the current one). `start_tag`,
        `end_tag`: tags in their place. The other arguments are those of `scan`."""
        return IncrementalAppendScan(
            self._source,
            row_filter,
            arguments.names("selected_fields", selected_fields),
            arguments.flag("case_sensitive", case_sensitive),
            options=arguments.mapping("options", options),
            limit=arguments.number("limit", limit, 0),
            from_snapshot_id_exclusive=self._bound(
                "from_snapshot_id_exclusive", from_snapshot_id_exclusive, "start_tag", start_tag
            ),
            to_snapshot_id_inclusive=self._bound(
                "to_snapshot_id_inclusive", to_snapshot_id_inclusive, "end_tag", end_tag
            ),
        )

    def changes(
        self,
        *,
        start_snapshot_id: int | None = None,
        end_snapshot_id: int | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        branch: str | None = None,
        net: bool = False,
        identifier_columns: Sequence[str] | None = None,
        compute_updates: bool | None = None,
        row_filter: RowFilter = AlwaysTrue(),
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
        start_tag: str | None = None,
        end_tag: str | None = None,
    ) -> ChangesScan:
        """Return a scan of the changelog: the rows that were inserted and deleted after one
        snapshot, tag or time (exclusive; None: from the first) up to another (inclusive; None: the
        current one). The other arguments are those of `ChangesScan` and `scan`."""
        start = self._bound("start_snapshot_id", start_snapshot_id, "start_tag", start_tag)
        end = self._bound("end_snapshot_id", end_snapshot_id, "end_tag", end_tag)
        start_ms, end_ms = (
            None if t is None else milliseconds(t) for t in (start_timestamp, end_timestamp)
        )
        return ChangesScan(
            self._source,
            row_filter,
            arguments.names("selected_fields", selected_fields),
            arguments.flag("case_sensitive", case_sensitive),
            options=arguments.mapping("options", options),
            limit=arguments.number("limit", limit, 0),
            range=ChangelogRange(start, end, start_ms, end_ms, branch),
            net=net,
            identifier_columns=None
            if identifier_columns is None
            else arguments.names("identifier_columns", identifier_columns),
            compute_updates=compute_updates,
        )

    def _bound(
        self, name: str, snapshot_id: int | None, tag_name: str, tag: str | None
    ) -> int | None:
        """Return the snapshot id at which a range begins or ends. Raises InvalidInput where an id
        and a tag are given.
        """
        if tag is None:
            return arguments.number(name, snapshot_id)
        if snapshot_id is not None:
            raise InvalidInput(
                f"{name} and {tag_name} both name a snapshot.",
                hint="Give one of them.",
                table=self._name,
            )
        return tagged_snapshot_id(self.metadata, tag, tag_name)

    def to_spark(self, spark: Session | None = None) -> Frame:
        """Return the table as a Spark DataFrame; see `DataScan.to_spark`."""
        return self.scan().to_spark(spark)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self.scan().to_arrow()

    def to_pandas(self, **kwargs: object) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame."""
        return self.scan().to_pandas(**kwargs)

    def to_polars(self) -> pl.LazyFrame:
        """Return a polars LazyFrame of the table's present state, which reads the columns that it
        needs when it is collected. Local Parquet files that hold the rows as they are (no deletes,
        no columns of other names or types) are read by polars itself. `t.scan(…).to_polars()` reads
        a DataFrame at once."""
        scan = self.scan()
        return lazy_polars(
            scan,
            self.schema().as_arrow(),
            lambda rows: scan.update(limit=rows),
            scan._plain_files(),
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows by Arrow's PyCapsule interface: `pa.table(t)`, `pl.DataFrame(t)`,
        DuckDB's `FROM t`. See `DataScan.__arrow_c_stream__`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema by Arrow's PyCapsule interface: `pa.schema(t)`."""
        return self.scan().__arrow_c_schema__()

    def to_duckdb(
        self, table_name: str | None = None, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Register the table's present state as a table of a DuckDB connection (None: a new one, in
        memory), and return the connection. `table_name` None: the last part of the table's name.
        Each query over it reads the columns that it needs, when it runs. DuckDB ignores case: of
        two columns `a` and `A` it shows the second as `A_1`. Raises NotInstalledError."""
        return self.scan().to_duckdb(table_name, connection)

    @property
    def _inner(self) -> Any:
        """Return this table's present state as a table of DataFusion, which reads this attribute in
        `ctx.register_table("t", table)`. Files are read when a query runs. DataFusion's SQL takes
        names without double quotes in small letters: a column `Id` is written `"Id"`."""
        return datafusion_table(self.scan(), self.schema().as_arrow())._inner

    def count(self) -> int:
        """Count the rows: by the manifests where their statistics suffice, else by reading the
        files concerned.
        """
        return self.scan().count()

    def head(self, n: int = 5) -> pa.Table:
        """Return the first `n` rows, in no particular order, as an Arrow table, which notebooks
        show.
        """
        show_arrow_tables()
        return self.scan(limit=n).to_arrow()

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Print the first `n` rows, in no particular order, as Spark's show does. `truncate`: cut
        texts to 20 characters (True), to a given number of characters, or not at all (False)."""
        self.scan().show(n, truncate)

    @property
    def columns(self) -> list[str]:
        """Return the names of the top-level columns."""
        return [f.name for f in self.schema().fields]

    # --- write: the verbs are those of `verbs.Verbs`

    def transaction(self, *, txn: tuple[str, int] | None = None) -> Transaction[Table]:
        """Begin a transaction, which makes several changes one commit: `with t.transaction() as tx:
        tx.append(a); tx.delete("id = 1")`.

        `txn`: a name and a number, as for a single write. If it was committed before, the
        transaction's writes do nothing and `tx.result.skipped` is True.
        """
        return Transaction(self, txn=txn)

    def upgrade(self, format_version: int) -> CommitResult:
        """Upgrade the table to a newer format version (2 or 3). Data files stay as they are; a
        downgrade is not possible.

        Raises ValidationError for an older or unknown version.
        """
        return self._change(lambda metadata: metadata_changes.upgrade(format_version, metadata))

    def read_stream(
        self,
        spark: Session | None = None,
        *,
        starting_strategy: str | None = None,
        branch: str | None = None,
        on_non_append: str | None = None,
        selected_fields: Sequence[str] | None = None,
        row_filter: RowFilter | None = None,
        case_sensitive: bool | None = None,
        **options: object,
    ) -> Frame:
        """Return a streaming DataFrame of the rows that commits bring, in the session given or the
        running one.

        `starting_strategy`: one of Flink's six (default INCREMENTAL_FROM_LATEST_SNAPSHOT).
        `on_non_append`: fail, skip, skip-overwrite, skip-delete, or changes, with which rows carry
        `_change_type`. Further options (`monitor_interval="10s"`,
        `streaming_max_files_per_micro_batch=100`, …) are listed in docs/streams.md.
        """
        named = {
            "starting-strategy": starting_strategy,
            "branch": branch,
            "on-non-append": on_non_append,
            "selected-fields": None
            if selected_fields is None
            else arguments.names("selected_fields", selected_fields),
            "row-filter": row_filter,
            "case-sensitive": case_sensitive,
        }
        stream_options = {**options, **{k: v for k, v in named.items() if v is not None}}
        session = engines.session_of_frames(spark)
        return engines.spark_entry_points().read_stream(
            session, self._backend, self._loaded, self._name, stream_options
        )

    def write_stream(
        self,
        frame: SparkFrame,
        mode: str | None = None,
        *,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] = {},
        on_commit: Callable[[int, CommitResult], object] | None = None,
        policies: Sequence[Callable[[Any], object]] = (),
        hooks: Sequence[results.BatchHook] = (),
        case_sensitive: bool | None = None,
        **options: object,
    ) -> results.StreamWriter:
        """Return a DataStreamWriter that writes a streaming DataFrame into this table, each
        micro-batch exactly once, as one snapshot: `t.write_stream(frame,
        mode="upsert").option("checkpointLocation", …).trigger(availableNow=True).start()`.

        `mode`: append; overwrite (each batch replaces the partitions that it has rows of, or all
        rows of an unpartitioned table); complete (each batch replaces all rows); upsert and cdc, by
        `key_columns` (None: the identifier fields). `on_commit`: called after each batch with its
        number and CommitResult. `policies`: functions that announce complete partitions
        (docs/partition-commit.md). `hooks`: objects with the methods `actions(batch, table)`, which
        returns actions for the batch's commit, and `committed(batch, table)`. `options`: see docs/streams-sink.md.
        """
        sink_arguments = on_demand("stream.sink.arguments", "SinkArguments")(
            mode,
            options if branch is None else {**options, "branch": branch},
            on_commit=on_commit,
            hooks=hooks,
            snapshot_properties=arguments.mapping("snapshot_properties", snapshot_properties),
            policies=policies,
            case_sensitive=arguments.flag("case_sensitive", case_sensitive),
        )
        return engines.spark_entry_points().write_stream(
            frame, self._backend, self._loaded, self._name, sink_arguments
        )

    def mark_partition_done(
        self,
        partition: Mapping[str, object],
        branch: str = MAIN_BRANCH,
        *,
        policies: Sequence[Callable[[Any], object]] = (),
        **options: object,
    ) -> None:
        """Announce a partition as complete by hand, `t.mark_partition_done({"dt": "2026-01-01"})`:
        see `t.inspect.partition_commits()`.

        `partition`: a value for each partition field, Python's own or text as in folders' names
        (`{"ts_day": "2026-01-01"}`); None is null. Raises InvalidInput for one that the field
        cannot have.
        `policies`, `options`: what announces it, as for streams, like
        `sink_partition_commit_policy_kind="merge,success-file"`; without them it is recorded in the
        table alone.
        """
        self._show(
            on_demand("stream.partitions.by_hand", "mark_done")(
                self._writable(), self._loaded, self._name, partition, branch, policies, options
            )
        )

    @property
    def maintenance(self) -> results.MaintenanceTable:
        """Return the procedures that keep the table in shape: compaction, expiry of snapshots,
        removal of orphan files, …
        """
        procedures: results.MaintenanceTable = on_demand("table.maintenance", "MaintenanceTable")(
            self
        )
        return procedures

    def report(self, path: str | Path | None = None) -> results.TableReport:
        """Report the table's health: growth, file sizes, deletes by partition, snapshots, columns,
        manifests, and what to do.

        `path`: write it there as one page of HTML that needs no network. Notebooks show the result.
        Reads metadata and manifests only.
        """
        report: results.TableReport = on_demand("report.page", "report_of")(
            self.maintenance._table("in-process")
        )
        if path is not None:
            report.save(path)
        return report

    # --- display and comparison

    def __repr__(self) -> str:
        return text_of(overview.tree(self._name, self.metadata, self.metadata_location))

    def _repr_html_(self) -> str:
        return html_of(overview.tree(self._name, self.metadata, self.metadata_location))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the table by its name and the settings of its catalog without secrets (a table
        opened by its location: by that). The copy is loaded where it is unpickled, in its newest
        state. Raises Unsupported for tables in memory."""
        return _load_again, (
            type(self),
            self._name,
            *pickling.place_of_table(self._backend, self._loaded),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.name(), self.metadata_location) == (
            other.name(),
            other.metadata_location,
        )

    __hash__ = None  # type: ignore[assignment]

    if not TYPE_CHECKING:

        def __getitem__(self, column: object) -> NoReturn:
            raise NotASequence(
                f"A table cannot be indexed by {column!r}.",
                hint='t.scan(selected_fields=("id",)) reads columns, t.schema().find_field("id") describes one.',
            )

        def __len__(self) -> NoReturn:
            raise NotASequence(
                "A table has no len(), which would read files unasked.",
                hint="t.count() counts the rows.",
            )

        def __iter__(self) -> NoReturn:
            raise NotASequence(
                "A table is not iterable.",
                hint="t.to_arrow_batch_reader(), of a scan, yields batches of rows.",
            )

        def __bool__(self) -> bool:
            return True

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_method(self, name, OF_TABLES)


def _load_again(cls: type[Table], name: str, *place: Any) -> Table:
    backend, loaded = pickling.load_again(*place)
    return cls(backend, loaded, name)
