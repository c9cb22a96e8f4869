"""Commit the micro-batches of one streaming query to many tables, which the rows name in a column
(Flink's dynamic sink).

Each table gets one commit for each batch that has rows of it, with its own mark of the query and
the batch (`stream.sink.batch`). So a batch that Spark sends again after a crash between two tables'
commits is written to the tables that lack it, and to no other. Rows that no table takes stop the
query, or are set aside: they are written to a table of their own, in the last commit of the batch.
The mark of that commit says that the whole batch is done; without it, a table that was repaired
before a replay would also get the rows set aside. The options are checked before the query starts;
`SplitRows` is what an engine does to split the rows of a batch, here also implemented for Arrow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from frazil.catalog import CatalogBackend, Identifier, LoadedTable
from frazil.commit.done_once import Txn, already_done
from frazil.errors import (
    FrazilError,
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationException,
)
from frazil.ops.engine import Engine, Frame
from frazil.ops.operation import CommitResult, skipped
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import folded
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.stream.sink.batch import StreamSink
from frazil.stream.sink.options import (
    OP_COLUMNS,
    SinkOptions,
    key_ids,
    mode_of_table,
    named_mode,
    sink_options,
)
from frazil.stream.sink.rows import BatchRows

log = logging.getLogger("frazil.stream")
_ONLY_OF_CHANGES = ("_change_ordinal", "_commit_snapshot_id")
_BAD = (InvalidInput, NoSuchTableError, NoSuchNamespaceError)
"""Errors that are about one table or its rows, after which nothing of them is committed."""


class TablePlaces(Protocol):
    """Find and make the tables of a catalog."""

    @property
    def backend(self) -> CatalogBackend:
        """Return the catalog that takes the commits."""

    def parts(self, name: str) -> Identifier:
        """Return the identifier that a row's text names. Raises InvalidInput where it names none."""

    def full_name(self, parts: Identifier) -> str:
        """Return the table's name for messages."""

    def needed(self, frame: Frame) -> frozenset[str]:
        """Return the columns of a frame without which a new table cannot be made: sources of its
        partitions and of its sort order.
        """

    def create(self, parts: Identifier, frame_or_schema: Any, as_asked: bool) -> LoadedTable:
        """Make a table. `as_asked`: with the caller's own arguments. Raises TableAlreadyExistsError
        where another writer was first.
        """


@dataclass(frozen=True)
class SetAside:
    """Report the rows of a batch that were set aside under one name. `table_name`: that name, None:
    the rows had a null in its place. `reason`: why no table took them. `rows`: their number."""

    table_name: str | None
    reason: str
    rows: int


@dataclass(frozen=True)
class TablesResult:
    """Report the result of one micro-batch of a stream into many tables.

    `tables`: the result of each table's commit, by its full name. `set_aside`: rows that no table
    took. `skipped`: the batch was committed before as a whole.
    """

    tables: Mapping[str, CommitResult] = field(default_factory=dict)
    set_aside: tuple[SetAside, ...] = ()
    skipped: bool = False


OnTables = Callable[[int, TablesResult], object]


@dataclass
class ManyTablesSink:
    """Commit the batches of one run of a query to the tables that rows name. `query_id`: the same
    after restarts from one checkpoint. `on_commit`: called after every batch with its number and
    TablesResult."""

    places: TablePlaces
    options: ManyOptions
    query_id: str = ""
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    on_commit: OnTables | None = None
    shown: Callable[[LoadedTable], object] = lambda _: None
    case_sensitive: bool | None = None

    def commit(self, batch_id: int, split: SplitRows, digest: str | None = None) -> TablesResult:
        """Write and commit one batch to all its tables. Where the whole batch was committed before,
        its rows are not evaluated. `digest`: of the offsets at which the batch ends.

        Raises the error of a table that does not take its rows, unless these are set aside, and
        ValidationError when a later batch, or another one under the same number, is committed to
        one of the tables (on-rewind): then nothing is written to any.
        """
        batch = Txn(self.query_id, batch_id, self.options.on_rewind, digest)
        result = (
            TablesResult(skipped=True)
            if self._was_set_aside(batch)
            else self._committed(batch, split)
        )
        if self.on_commit is not None:
            self.on_commit(batch_id, result)
        return result

    def _committed(self, txn: Txn, split: SplitRows) -> TablesResult:
        done: dict[str, CommitResult] = {}
        aside: list[SetAside] = []
        by_table, unnamed = self._by_table(split.groups)
        for group, error in unnamed:
            aside.append(self._bad(group, error))
        batches = [
            (_TableBatch(self, txn, parts, groups, split), groups)
            for parts, groups in sorted(by_table.items())
        ]
        for batch, _ in batches:
            batch.check()
        for batch, groups in batches:
            parts = batch.parts
            try:
                done[self.places.full_name(parts)] = batch.commit()
            except ValidationException:
                raise
            except _BAD as error:
                if batch.is_committed():
                    raise
                aside += [self._bad(group, error) for group in groups]
        if aside:
            self._set_aside(txn, split, aside)
        return TablesResult(done, tuple(aside))

    def _by_table(
        self, groups: Sequence[NamedRows]
    ) -> tuple[dict[Identifier, list[NamedRows]], list[tuple[NamedRows, FrazilError]]]:
        """Group the names that mean the same table. A table gets one commit per batch, so that its
        mark is that of all its rows.
        """
        groups_by_table: dict[Identifier, list[NamedRows]] = {}
        unnamed: list[tuple[NamedRows, FrazilError]] = []
        aside = (
            None
            if self.options.set_aside_table is None
            else self.places.parts(self.options.set_aside_table)
        )
        for group in groups:
            try:
                if group.name is None:
                    raise InvalidInput(
                        f"Column {self.options.table_column} is null.",
                        hint="It names the table of each row.",
                    )
                parts = self.places.parts(group.name)
                if parts == aside:
                    raise InvalidInput(
                        f"{group.name} is the table that takes rows which are set aside."
                    )
            except InvalidInput as error:
                unnamed.append((group, error))
            else:
                groups_by_table.setdefault(parts, []).append(group)
        return groups_by_table, unnamed

    # --- rows that no table takes

    def _bad(self, group: NamedRows, error: FrazilError) -> SetAside:
        if self.options.on_bad_table != SET_ASIDE_BAD:
            error.advise(
                f"{group.rows} rows name it in column {self.options.table_column}. on_bad_table='set-aside' with set_aside_table puts such "
                "rows into a table of their own, and the query goes on."
            )
            raise error
        return SetAside(group.name, str(error), group.rows)

    def _set_aside(self, txn: Txn, split: SplitRows, aside: Sequence[SetAside]) -> None:
        assert self.options.set_aside_table is not None
        parts = self.places.parts(self.options.set_aside_table)
        for rejected in aside:
            log.warning(
                "Batch %d: %d rows of %s are set aside: %s",
                txn.number,
                rejected.rows,
                rejected.table_name,
                rejected.reason,
            )
        loaded = self._aside_table(parts) or self._made(parts, SET_ASIDE, as_asked=False)
        options = sink_options({"on-rewind": self.options.on_rewind})
        sink = StreamSink(
            self.places.backend,
            loaded,
            self.places.full_name(parts),
            self.query_id,
            options,
            shown=self.shown,
        )
        reasons = {rejected.table_name: rejected.reason for rejected in aside}
        sink.commit(
            txn.number,
            split.rejected(Rejected(self.query_id, txn.number, reasons)),
            digest=txn.digest,
        )

    def _was_set_aside(self, txn: Txn) -> bool:
        """Tell whether the last commit of the batch, that of the rows set aside, was done: then so
        were all others.
        """
        if self.options.set_aside_table is None:
            return False
        loaded = self._aside_table(self.places.parts(self.options.set_aside_table))
        return loaded is not None and already_done(loaded.metadata, txn, MAIN_BRANCH) is not None

    def _aside_table(self, parts: Identifier) -> LoadedTable | None:
        try:
            return self.places.backend.load(parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _made(self, parts: Identifier, frame_or_schema: Any, as_asked: bool = True) -> LoadedTable:
        try:
            return self.places.create(parts, frame_or_schema, as_asked)
        except TableAlreadyExistsError:  # another writer was first
            return self.places.backend.load(parts)


class _TableBatch:
    """Commit the rows of one batch that go to one table."""

    def __init__(
        self,
        sink: ManyTablesSink,
        txn: Txn,
        parts: Identifier,
        groups: Sequence[NamedRows],
        split: SplitRows,
    ):
        self._sink, self._txn, self.parts, self._split = sink, txn, parts, split
        self._names = [g.name for g in groups if g.name is not None]
        self._filled = frozenset(i for g in groups for i in g.filled)
        self._loaded: LoadedTable | None = None

    def check(self) -> None:
        """Load the table where it is there. Raises ValidationError when it has a later batch, or
        another one under the same number.
        """
        try:
            loaded = self._sink.places.backend.load(self.parts)
            branch = self._branch(self._table_sink(loaded))
        except _BAD:  # `commit` raises the error
            return
        self._loaded = loaded
        already_done(loaded.metadata, self._txn, branch)

    def commit(self) -> CommitResult:
        """Make the table where it is missing, then write and commit its rows, unless they are
        committed already.
        """
        loaded = self._load_or_make()
        sink = self._table_sink(loaded)
        if (before := already_done(loaded.metadata, self._txn, self._branch(sink))) is not None:
            return skipped(before.snapshot_id)
        columns = self._columns(loaded.metadata.schema(), sink.options)
        return sink.commit(
            self._txn.number,
            self._split.rows(self._names, columns, loaded.metadata),
            digest=self._txn.digest,
        )

    def is_committed(self) -> bool:
        """Tell whether the table has the batch, so that an error came after its commit."""
        try:
            loaded = self._sink.places.backend.load(self.parts)
        except _BAD:  # InvalidInput: the name is one that the catalog cannot have
            return False
        try:
            sink = self._table_sink(loaded)
            return (
                already_done(
                    loaded.metadata, replace(self._txn, on_rewind="skip"), self._branch(sink)
                )
                is not None
            )
        except InvalidInput:  # options that do not fit the table, with which nothing was committed
            return False

    def _branch(self, sink: StreamSink) -> str:
        return sink.where_to(self._split.engine).branch

    def _table_sink(self, loaded: LoadedTable) -> StreamSink:
        many = self._sink
        option_values = many.options.of_table
        mode = many.options.mode
        if mode is None and named_mode(option_values) is None:
            mode = mode_of_table(option_values, loaded.metadata)
        options = replace(sink_options(option_values, mode=mode), makes_branch=True)
        return StreamSink(
            many.places.backend,
            loaded,
            many.places.full_name(self.parts),
            many.query_id,
            options,
            many.snapshot_properties,
            shown=many.shown,
            case_sensitive=many.case_sensitive,
        )

    # --- the table

    def _load_or_make(self) -> LoadedTable:
        many = self._sink
        if self._loaded is not None:
            return self._loaded
        try:
            return many.places.backend.load(self.parts)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            if not many.options.create:
                error.advise("create=True makes it.")
                raise
        options = sink_options(many.options.of_table, mode=many.options.mode)
        columns = self._new_columns(options)
        rows = self._split.rows(self._names, columns)
        if options.key_columns:
            # before a table is made that cannot take the rows
            key_ids(options, rows.schema, self._case_sensitive)
        return many._made(self.parts, rows.input.frame)

    def _new_columns(self, options: SinkOptions) -> list[int]:
        """Choose the columns of a new table: those that its rows fill, and those without which it
        cannot be made or looked up.
        """
        many, fields = self._sink, self._split.schema.fields
        control = {self._position(n) for n in self._control(options)} | {
            self._position(many.options.table_column)
        }
        stored = [i for i in range(len(fields)) if i not in control]
        if not many.options.evolve:
            return stored
        names = (
            *options.key_columns,
            *many.places.needed(self._split.rows(self._names, stored).input.frame),
        )
        needed = {self._position(name) for name in names}
        return [i for i in stored if i in self._filled or i in needed] or stored

    def _columns(self, table: Schema, options: SinkOptions) -> list[int]:
        """Choose the columns to write: those that the table has, those that its rows fill, and
        those that say how rows are applied. Of a column that the table lacks and no row fills there
        is nothing to write."""
        control = {self._position(n) for n in (*self._control(options), *options.key_columns)}
        names_table = self._position(self._sink.options.table_column)

        def stored(i: int, name: str) -> bool:
            return table.get_field(name, self._case_sensitive) is not None or (
                i != names_table and i in self._filled
            )

        return [
            i for i, f in enumerate(self._split.schema.fields) if i in control or stored(i, f.name)
        ]

    def _control(self, options: SinkOptions) -> list[str]:
        """List the columns that say how rows are applied, and are stored only where the table has
        them.
        """
        if not options.keyed:
            return []
        columns = [] if options.order_column is None else [options.order_column]
        if options.mode == "cdc":
            op = options.op_column or next(
                (n for n in OP_COLUMNS if self._position(n) is not None), None
            )
            columns += (
                []
                if op is None
                else [op, *(_ONLY_OF_CHANGES if op.lower() == OP_COLUMNS[1] else ())]
            )
        return columns

    @property
    def _case_sensitive(self) -> bool:
        """Tell how names are matched: as the caller says, else as the engine does."""
        by_caller = self._sink.case_sensitive
        return self._split.case_sensitive if by_caller is None else by_caller

    def _position(self, name: str) -> int | None:
        """Find the position of a column; None: the frame has none of that name."""
        return position_of(name, self._split.schema, self._case_sensitive)


def position_of(name: str, schema: Schema, case_sensitive: bool) -> int | None:
    """Find the position of a column at the top of a schema; None: there is none of that name."""
    names = [f.name for f in schema.fields]
    if name in names:
        return names.index(name)
    lowered = [n.lower() for n in names]
    return lowered.index(name.lower()) if not case_sensitive and name.lower() in lowered else None


def with_query(sink: ManyTablesSink, query_id: str) -> ManyTablesSink:
    """Return the sink for the query with this id."""
    return sink if sink.query_id == query_id else replace(sink, query_id=query_id)


FAIL_BAD, SET_ASIDE_BAD = "fail", "set-aside"


@dataclass(frozen=True)
class ManyOptions:
    """Hold the checked options of a stream into many tables.

    `table_column`: the column that names the table of each row. `mode`: the write mode; None: each
    table's own. `of_table`: the options of each table's writes. `create`, `evolve`: whether missing
    tables are made, and columns that rows fill are added. `on_bad_table`: whether rows that no
    table takes stop the query, or go to `set_aside_table`.
    """

    table_column: str
    mode: str | None = None
    of_table: Mapping[str, Any] = field(default_factory=dict)
    create: bool = True
    evolve: bool = True
    on_bad_table: str = FAIL_BAD
    set_aside_table: str | None = None
    on_rewind: str = FAIL_BAD


def many_options(
    table_column: str,
    mode: str | None,
    option_values: Mapping[str, Any],
    *,
    create: bool,
    evolve: bool,
    on_bad_table: str,
    set_aside_table: str | None,
) -> ManyOptions:
    """Check the options of a stream into many tables. `option_values`: those of each table's
    writes.

    Raises InvalidInput for values that are not valid and for options that contradict each other,
    and Unsupported for options that only a stream into one table has.
    """
    if on_bad_table not in (FAIL_BAD, SET_ASIDE_BAD):
        raise InvalidInput(
            f"on_bad_table must be one of {FAIL_BAD}, {SET_ASIDE_BAD}, not {on_bad_table!r}."
        )
    if (on_bad_table == SET_ASIDE_BAD) != (set_aside_table is not None):
        raise InvalidInput(
            "on_bad_table='set-aside' and set_aside_table go together.",
            hint="Name the table of such rows: set_aside_table='db.rejected'.",
        )
    if any(folded(k) == "merge-schema" for k in option_values):
        raise InvalidInput(
            "merge-schema of a stream into many tables is the argument evolve.",
            hint="evolve=True adds columns.",
        )
    of_table = {**option_values, **({"merge-schema": True} if evolve else {})}
    checked = sink_options(of_table, mode=mode)
    if checked.mode == "complete":
        raise Unsupported(
            "write-mode=complete is not for many tables: those that a batch does not name would keep rows that are not in the result.",
            hint="Start one stream per table, or use write-mode=upsert.",
        )
    if checked.on_rewind == "rewrite":
        raise Unsupported(
            "on-rewind=rewrite is not for many tables: the marks of tables without rows in a batch would stay ahead of it.",
            hint="Use on-rewind=skip, or a new checkpoint folder.",
        )
    return ManyOptions(
        table_column,
        mode,
        of_table,
        create,
        evolve,
        on_bad_table,
        set_aside_table,
        checked.on_rewind,
    )


SET_ASIDE = "table_name string, reason string, query_id string, batch_id bigint, set_aside_at timestamptz, row string"
"""The columns of the table that takes rows which were set aside; `row` is the whole row as JSON."""


@dataclass(frozen=True)
class NamedRows:
    """Count the rows of a batch that name one table. `name`: the text in the table column;
    `filled`: the positions of the columns that have a value in at least one of these rows."""

    name: str | None
    rows: int
    filled: frozenset[int]


@dataclass(frozen=True)
class Rejected:
    """Say which rows are set aside: those with a table name in `reasons`, each with its reason."""

    query_id: str
    batch_id: int
    reasons: Mapping[str | None, str]


class SplitRows(Protocol):
    """Hand out the rows of one micro-batch table by table. However many tables there are, the batch
    is evaluated once. Columns are named by their positions in the frame."""

    @property
    def engine(self) -> Engine:
        """Return the engine that writes the rows."""

    @property
    def schema(self) -> Schema:
        """Return the columns of the frame."""

    @property
    def case_sensitive(self) -> bool:
        """Tell whether names of columns that differ in case only are different columns."""

    @property
    def groups(self) -> Sequence[NamedRows]:
        """Return the table names that the batch holds. This evaluates the batch."""

    def rows(
        self, names: Sequence[str], columns: Sequence[int], metadata: TableMetadata | None = None
    ) -> BatchRows:
        """Return the rows with these table names, with these columns. `metadata`: the table's, for
        errors.
        """

    def rejected(self, rejected: Rejected) -> BatchRows:
        """Return the rows to set aside, with the columns of `SET_ASIDE`."""
