"""Table: one Iceberg table as users hold it. Reads, writes, evolution and inspection are one call each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.evolve.evolve_sort_order import UpdateSortOrder
from frazil.commit.evolve.evolve_spec import UpdateSpec
from frazil.errors import Unsupported, ValidationError, ValidationException
from frazil.expr.nodes import AlwaysTrue
from frazil.rows.clauses import Merge
from frazil.scan.changelog_range import ChangeRange
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotLogEntry, SnapshotRef
from frazil.spec.sorting import SortOrder
from frazil.spec.values import milliseconds
from frazil.storage import Storage
from frazil.table import arguments, display
from frazil.table.changes import ChangesScan
from frazil.table.evolve import ManageSnapshots, UpdateProperties, UpdateSchema, UpdateStatistics, Updating
from frazil.table.frames import is_stream
from frazil.table.inspect import InspectTable
from frazil.table.merge import MergeBuilder
from frazil.table.result import CommitResult
from frazil.table.scan import DataScan, IncrementalAppendScan, RowFilter, ScannedTable
from frazil.table.transaction import Transaction
from frazil.tasks.runner import Runner

_LATER = "It comes with a later version; see KNOWN_GAPS.md."


class Table:
    """Made by `frazil.load_table`, `catalog.load_table` or `catalog.create_table`. Safe to share between threads: metadata and its
    location change together, and a scan keeps the state it was made from."""

    def __init__(self, backend: CatalogBackend | None, loaded: LoadedTable, name: str):
        self._backend, self._loaded, self._name = backend, loaded, name

    # --- facts

    def name(self) -> tuple[str, ...]:
        """The identifier, catalog first unless the table was opened by location."""
        return tuple(self._loaded.identifier) or (self._name,)

    @property
    def metadata(self) -> TableMetadata:
        return self._loaded.metadata

    @property
    def metadata_location(self) -> str:
        return self._loaded.metadata_location

    @property
    def io(self) -> Storage:
        return self._loaded.storage

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
        return list(self.metadata.snapshot_log)

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
        return InspectTable(self.metadata, self.metadata_location, self.io)

    def refresh(self) -> Table:
        """Looks for commits of others. Raises NoSuchTableError when it was dropped, ValidationError when another took its name."""
        fresh = self._writable().load(self._loaded.identifier or (self.location(),))
        if fresh.metadata.table_uuid != self.metadata.table_uuid:
            raise ValidationError(
                f"Table {self._name} was dropped and made anew: its uuid was {self.metadata.table_uuid}, is {fresh.metadata.table_uuid}.",
                hint="Load it again.", table=self._name,
            )  # fmt: skip
        self._loaded = fresh
        return self

    def _writable(self) -> CatalogBackend:
        if self._backend is None:
            raise ValidationError(
                f"{self._name} was opened from a metadata file and is read-only.", hint="Load it by its location or name."
            )
        return self._backend

    # --- read

    @property
    def _source(self) -> ScannedTable:
        return ScannedTable(self._name, self.metadata, self.io)

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
        return self.scan().to_polars()

    # --- write: each verb is a transaction of one step

    def transaction(self) -> Transaction:
        """Several changes as one commit: `with t.transaction() as tx: tx.append(a); tx.set_properties(k="v")`."""
        return Transaction(self)

    def _one(self, verb: str, *arguments: Any, **named: Any) -> CommitResult:
        with self.transaction() as tx:
            getattr(tx, verb)(*arguments, **named)
        return tx.result

    def _change(self, verb: str, *arguments: Any, again: bool = True, **named: Any) -> CommitResult:
        """A change of rows that are there. When this handle, as it was read, held none of them, the rows that others have written since are
        asked too: nobody would tell that the handle is old, as there is nothing to commit. `again`: the arguments can be read twice."""
        result = self._one(verb, *arguments, **named)
        before = self._loaded.metadata_location
        if result.snapshot_id is not None or self.refresh()._loaded.metadata_location == before:
            return result
        if not again:
            text = f"Table {self._name} has changed since this handle read it, and the stream of rows is spent."
            raise ValidationException(text, hint="The handle is new now: hand in the rows again.", table=self._name)
        return self._one(verb, *arguments, **named)

    def append(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] = {},
        branch: str | None = MAIN_BRANCH,
        *,
        case_sensitive: bool | None = None,
        **write_options: Any,
    ) -> CommitResult:
        """Adds the rows of a frame (Spark, Arrow, pandas, polars, anything with an Arrow stream). `case_sensitive`: how its columns are
        matched; None: True, for Spark frames `spark.sql.caseSensitive`."""
        return self._one("append", df, snapshot_properties, branch, case_sensitive=case_sensitive, **write_options)

    def overwrite(
        self,
        df: Any,
        overwrite_filter: RowFilter = AlwaysTrue(),
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        **write_options: Any,
    ) -> CommitResult:
        """Replaces the rows that match the filter (all, unless given) by those of the frame."""
        return self._one("overwrite", df, overwrite_filter, snapshot_properties, case_sensitive, branch, **write_options)

    def dynamic_partition_overwrite(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] = {},
        branch: str | None = MAIN_BRANCH,
        *,
        case_sensitive: bool | None = None,
        **write_options: Any,
    ) -> CommitResult:
        """Replaces the partitions that the frame has rows for."""
        return self._one("dynamic_partition_overwrite", df, snapshot_properties, branch, case_sensitive=case_sensitive, **write_options)

    def add_files(
        self,
        file_paths: Sequence[str],
        snapshot_properties: Mapping[str, str] = {},
        check_duplicate_files: bool = True,
        branch: str | None = MAIN_BRANCH,
    ) -> CommitResult:
        """Makes existing Parquet files part of the table where they lie; only their footers are read. `check_duplicate_files=False`: nobody
        looks whether the table has them already; a snapshot that then lists a file twice is refused when it is read."""
        return self._one("add_files", file_paths, snapshot_properties, check_duplicate_files, branch)

    def delete(
        self,
        delete_filter: RowFilter = AlwaysTrue(),
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> CommitResult:
        """Deletes the rows for which the filter is TRUE; files that match as a whole go without being read.

        `mode`: copy-on-write, merge-on-read, None: the table's write.delete.mode. `runner`: who works; None: Spark, when a session is
        given or active, else this process.
        """
        common = (snapshot_properties, case_sensitive, branch)
        return self._change("delete", delete_filter, *common, mode=mode, runner=runner, spark=spark, **write_options)

    def update(
        self,
        set: Mapping[str, Any],
        where: RowFilter | None = None,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> CommitResult:
        """New values for the rows for which `where` is TRUE (None: all): `t.update(set={"qty": "qty + 1", "s.x": "null"}, where="id = 7")`.

        Texts are Spark SQL expressions over the old row, other Python values are constants. Values are cast as Spark's ANSI store
        assignment does. `mode`: None: the table's write.update.mode; `runner`, `spark` as for `delete`.
        """
        common = (snapshot_properties, case_sensitive, branch)
        return self._change("update", set, where, *common, mode=mode, runner=runner, spark=spark, **write_options)

    def upsert(
        self,
        df: Any,
        join_cols: Sequence[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] = {},
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> CommitResult:
        """Updates the rows whose keys the frame holds, where a column differs, and inserts its others: one pass, one snapshot.

        `join_cols`: the key; None: the identifier fields. A key that the frame holds more than once is refused. `mode`: as for `merge`.
        """
        matched = (when_matched_update_all, when_not_matched_insert_all, case_sensitive, branch, snapshot_properties)
        again = not is_stream(df)
        return self._change("upsert", df, join_cols, *matched, again=again, mode=mode, runner=runner, spark=spark, **write_options)

    def merge(
        self,
        df: Any,
        on: Any,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        target_alias: str = "target",
        source_alias: str = "source",
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> MergeBuilder[CommitResult]:
        """A MERGE of a frame into this table, described by `.when_…` and done by `.execute()`: one snapshot.

        `on`: the condition over `target.…` and `source.…`. `merge_schema=True`: columns that only the frame has are added where assigned.
        """
        common = (snapshot_properties, case_sensitive, branch)

        def run(frame: Any, merge: Merge, mode: str | None) -> CommitResult:
            again = not is_stream(frame)
            return self._change("do_merge", frame, merge, *common, again=again, mode=mode, runner=runner, spark=spark, **write_options)

        return MergeBuilder(df, Merge(on, (), target_alias, source_alias), run)

    def read_stream(self, **_: Any) -> Any:
        raise Unsupported(f"read_stream() on table {self._name} is not supported yet.", hint=_LATER)

    def write_stream(self, *_: Any, **__: Any) -> Any:
        raise Unsupported(f"write_stream() on table {self._name} is not supported yet.", hint=_LATER)

    @property
    def maintenance(self) -> Any:
        raise Unsupported(f"Maintenance of table {self._name} is not supported yet.", hint=_LATER)

    # --- evolution: context managers, one commit each

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> Updating[UpdateSchema]:
        return Updating(self.transaction(), UpdateSchema(self.metadata, allow_incompatible_changes, case_sensitive))

    def update_spec(self, case_sensitive: bool = True) -> Updating[UpdateSpec]:
        return Updating(self.transaction(), UpdateSpec(self.metadata, case_sensitive))

    def update_sort_order(self, case_sensitive: bool = True) -> Updating[UpdateSortOrder]:
        return Updating(self.transaction(), UpdateSortOrder(self.metadata, case_sensitive))

    def update_properties(self) -> Updating[UpdateProperties]:
        return Updating(self.transaction(), UpdateProperties())

    def update_statistics(self) -> Updating[UpdateStatistics]:
        return Updating(self.transaction(), UpdateStatistics())

    def manage_snapshots(self) -> Updating[ManageSnapshots]:
        return Updating(self.transaction(), ManageSnapshots())

    def set_properties(self, properties: Mapping[str, Any] = {}, **named: Any) -> CommitResult:
        return self._one("set_properties", properties, **named)

    def remove_properties(self, *keys: str) -> CommitResult:
        return self._one("remove_properties", *keys)

    def upgrade(self, format_version: int) -> CommitResult:
        """To a newer format version; data files stay as they are. There is no way back."""
        return self._one("upgrade_table_version", format_version)

    # --- looks

    def __repr__(self) -> str:
        return display.text(self._name, self.metadata, self.metadata_location)

    def _repr_html_(self) -> str:
        return display.as_html(self._name, self.metadata, self.metadata_location)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.name(), self.metadata_location) == (other.name(), other.metadata_location)

    __hash__ = None  # type: ignore[assignment]
