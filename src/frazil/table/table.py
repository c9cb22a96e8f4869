"""Table: one Iceberg table as users hold it. Reads, writes, evolution and inspection are one call each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import Unsupported
from frazil.expr.nodes import AlwaysTrue
from frazil.ops import arguments, metadata_changes
from frazil.ops.reading import RowFilter
from frazil.ops.result import CommitResult
from frazil.scan.changelog_range import ChangeRange
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotLog, SnapshotLogEntry, SnapshotRef
from frazil.spec.sorting import SortOrder
from frazil.spec.values import milliseconds
from frazil.storage import FileIO, file_io
from frazil.table import engines
from frazil.table.changes import ChangesScan
from frazil.table.habits import OF_TABLES, no_such_method
from frazil.table.handed.lazy_frames import datafusion_table, lazy_polars
from frazil.table.inspect import InspectTable
from frazil.table.scan import DataScan, IncrementalAppendScan, ScannedTable
from frazil.table.shown import overview
from frazil.table.transaction import Transaction
from frazil.table.verbs import CommittingVerbs

_LATER = "It comes with a later version; see KNOWN_GAPS.md."


class Table(CommittingVerbs):
    """Made by `frazil.load_table`, `catalog.load_table` or `catalog.create_table`. Safe to share between threads: metadata and its
    location change together, and a scan keeps the state it was made from."""

    # --- facts

    def name(self) -> tuple[str, ...]:
        """The identifier, catalog first unless the table was opened by location."""
        return tuple(self._loaded.identifier) or (self._name,)

    @property
    def metadata_location(self) -> str:
        return self._loaded.metadata_location

    @property
    def io(self) -> FileIO:
        """The files of the table's store: `io.new_input(location).open()`, `io.new_output(location).create()`, `io.delete(location)`."""
        return file_io(self._loaded.storage)

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.properties)

    def location(self) -> str:
        return self.metadata.location

    def schema(self) -> Schema:
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        return {s.schema_id: s for s in self.metadata.schemas}

    def spec(self) -> PartitionSpec:
        return self.metadata.spec()

    def specs(self) -> dict[int, PartitionSpec]:
        return {s.spec_id: s for s in self.metadata.partition_specs}

    def sort_order(self) -> SortOrder:
        return self.metadata.sort_order()

    def sort_orders(self) -> dict[int, SortOrder]:
        return {s.order_id: s for s in self.metadata.sort_orders}

    def last_partition_id(self) -> int:
        return self.metadata.last_partition_id

    @property
    def last_sequence_number(self) -> int:
        return self.metadata.last_sequence_number

    def current_snapshot(self) -> Snapshot | None:
        return self.metadata.current_snapshot()

    def snapshots(self) -> Sequence[Snapshot]:
        """All that are retained, oldest first; decoded as they are looked at."""
        return self.metadata.snapshots

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        return self.metadata.snapshots.by_id(snapshot_id)

    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """The head of a branch or tag; None when there is no such ref."""
        return self.metadata.ref_snapshot(name) if name in self.metadata.refs or name == MAIN_BRANCH else None

    def snapshot_as_of_timestamp(self, timestamp_ms: Any, inclusive: bool = True) -> Snapshot | None:
        """What was current at a time (milliseconds, datetime or ISO text); None before the first snapshot."""
        return self.metadata.snapshot_as_of(milliseconds(timestamp_ms), inclusive)

    def history(self) -> list[SnapshotLogEntry]:
        """Which snapshot was current since when, oldest first; shown with the times."""
        return SnapshotLog(self.metadata.snapshot_log)

    def refs(self) -> dict[str, SnapshotRef]:
        refs = dict(self.metadata.refs)
        if self.metadata.current_snapshot_id is not None:
            refs.setdefault(MAIN_BRANCH, SnapshotRef(self.metadata.current_snapshot_id))
        return refs

    def name_mapping(self) -> str | None:
        """The table's name mapping as JSON text, if it has one."""
        return NAME_MAPPING.text(self.metadata.properties)

    @property
    def inspect(self) -> InspectTable:
        return InspectTable(self.metadata, self.metadata_location, self._loaded.storage)

    # --- read

    @property
    def _source(self) -> ScannedTable:
        loaded = self._loaded
        return ScannedTable(self._name, loaded.metadata, loaded.storage)

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
        as_of: Any = None,
    ) -> DataScan:
        """A read of the current state, or of one snapshot, branch, tag or time (`as_of`: milliseconds, datetime, ISO text)."""
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
    ) -> IncrementalAppendScan:
        return IncrementalAppendScan(
            self._source,
            row_filter,
            arguments.names("selected_fields", selected_fields),
            arguments.flag("case_sensitive", case_sensitive),
            options=arguments.mapping("options", options),
            limit=arguments.number("limit", limit, 0),
            from_snapshot_id_exclusive=arguments.number("from_snapshot_id_exclusive", from_snapshot_id_exclusive),
            to_snapshot_id_inclusive=arguments.number("to_snapshot_id_inclusive", to_snapshot_id_inclusive),
        )

    def changes(
        self,
        *,
        start_snapshot_id: int | None = None,
        end_snapshot_id: int | None = None,
        start_timestamp: Any = None,
        end_timestamp: Any = None,
        branch: str | None = None,
        net: bool = False,
        identifier_columns: Sequence[str] | None = None,
        compute_updates: bool | None = None,
        row_filter: RowFilter = AlwaysTrue(),
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> ChangesScan:
        """Rows that came and went after one snapshot (or time; None: from the first) up to another (None: now). See `ChangesScan`."""
        start, end = arguments.number("start_snapshot_id", start_snapshot_id), arguments.number("end_snapshot_id", end_snapshot_id)
        start_ms, end_ms = (None if t is None else milliseconds(t) for t in (start_timestamp, end_timestamp))
        return ChangesScan(
            self._source,
            row_filter,
            arguments.names("selected_fields", selected_fields),
            arguments.flag("case_sensitive", case_sensitive),
            options=arguments.mapping("options", options),
            limit=arguments.number("limit", limit, 0),
            range=ChangeRange(start, end, start_ms, end_ms, branch),
            net=net,
            identifier_columns=None if identifier_columns is None else arguments.names("identifier_columns", identifier_columns),
            compute_updates=compute_updates,
        )

    def to_spark(self, spark: Any = None) -> Any:
        return self.scan().to_spark(spark)

    def to_arrow(self) -> Any:
        return self.scan().to_arrow()

    def to_pandas(self, **kwargs: Any) -> Any:
        return self.scan().to_pandas(**kwargs)

    def to_polars(self) -> Any:
        """A polars LazyFrame of the state that this handle has; files are planned and read when it is collected, and only the columns that
        it needs. `t.scan(…).to_polars()` reads a DataFrame at once."""
        return lazy_polars(self.scan(), self.schema().as_arrow(), lambda rows: self.scan(limit=rows))

    @property
    def _inner(self) -> Any:
        """What DataFusion asks a Python object for in `ctx.register_table("t", table)`: a table of its own. It has the state that this
        handle has now, and reads when it is asked."""
        return datafusion_table(self.scan(), self.schema().as_arrow())._inner

    def count(self) -> int:
        """How many rows the current state has: from the manifests where they tell, reading only what they cannot decide."""
        return self.scan().count()

    def head(self, n: int = 5) -> pa.Table:
        """The first `n` rows, in no order, as Arrow."""
        return self.scan(limit=n).to_arrow()

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Prints the first `n` rows, in no order, as Spark's show does. `truncate`: texts to 20 characters, to so many, or not at all."""
        self.scan().show(n, truncate)

    @property
    def columns(self) -> list[str]:
        """Names of the top-level columns."""
        return [f.name for f in self.schema().fields]

    # --- write: the verbs are those of `verbs.Verbs`

    def transaction(self, *, txn: tuple[str, int] | None = None) -> Transaction[Table]:
        """Several changes as one commit: `with t.transaction() as tx: tx.append(a); tx.set_properties(k="v")`.

        `txn`: a name and a number, as for a single write; when it is done already, the verbs do nothing and `tx.result.skipped` is True.
        """
        return Transaction(self, txn=txn)

    def upgrade(self, format_version: int) -> CommitResult:
        """To a newer format version; data files stay as they are. There is no way back."""
        return self._change(lambda metadata: metadata_changes.upgrade(format_version, metadata))

    def read_stream(
        self,
        spark: Any = None,
        *,
        starting_strategy: str | None = None,
        branch: str | None = None,
        on_non_append: str | None = None,
        selected_fields: Sequence[str] | None = None,
        row_filter: RowFilter | None = None,
        case_sensitive: bool | None = None,
        **options: Any,
    ) -> Any:
        """A streaming DataFrame of the rows that commits bring, in the session given or the running one.

        `starting_strategy`: one of Flink's six (default INCREMENTAL_FROM_LATEST_SNAPSHOT). `on_non_append`: fail, skip, skip-overwrite,
        skip-delete, or changes, with which rows carry `_change_type`. Further options (`monitor_interval="10s"`,
        `streaming_max_files_per_micro_batch=100`, …) are listed in docs/streams.md.
        """
        named = {
            "starting-strategy": starting_strategy, "branch": branch, "on-non-append": on_non_append,
            "selected-fields": None if selected_fields is None else arguments.names("selected_fields", selected_fields),
            "row-filter": row_filter, "case-sensitive": case_sensitive,
        }  # fmt: skip
        given = {**options, **{k: v for k, v in named.items() if v is not None}}
        return engines.read_stream(spark, self._backend, self._loaded, self._name, given)

    def write_stream(self, *_: Any, **__: Any) -> Any:
        raise Unsupported(f"write_stream() on table {self._name} is not supported yet.", hint=_LATER)

    @property
    def maintenance(self) -> Any:
        raise Unsupported(f"Maintenance of table {self._name} is not supported yet.", hint=_LATER)

    # --- looks

    def __repr__(self) -> str:
        return overview.text(self._name, self.metadata, self.metadata_location)

    def _repr_html_(self) -> str:
        return overview.as_html(self._name, self.metadata, self.metadata_location)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.name(), self.metadata_location) == (other.name(), other.metadata_location)

    __hash__ = None  # type: ignore[assignment]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_such_method(self, name, OF_TABLES)
