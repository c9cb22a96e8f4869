"""Reduce the rows of a micro-batch to the last row per key, by an order column and by position, for
upsert and CDC.

Every engine uses this code: Arrow frames are reduced as a whole, Spark frames task by task after a
shuffle by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.write.conform import conform
from frazil.errors import InvalidInput, SchemaMismatch
from frazil.spec.schema import Schema
from frazil.stream.sink.options import OP_COLUMNS, SinkOptions

POSITION, REMOVED = "__frazil_position", "__frazil_removed"
CHANGELOG = "_change_type"
_CHANGELOG_ONLY = ("_change_ordinal", "_commit_snapshot_id")
_REMOVES: Mapping[str, bool] = {
    # Flink's row kinds, Debezium's operations, and the change types of Iceberg's changelogs
    "+i": False, "-u": True, "+u": False, "-d": True,
    "c": False, "r": False, "u": False, "d": True,
    "insert": False, "update_preimage": True, "update_postimage": False, "delete": True,
    "update_before": True, "update_after": False,
}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    """Describe how the rows of a frame are reduced; frozen and picklable. Names are those of the
    frame's columns.

    `keys`: the key columns as the table has them, in the order of `key_names`. `order`: the column
    by which rows of a key follow one another; among equal values, and without the column, the
    position in the frame decides. `op`: the column with the kinds of rows; None: all are upserts.
    `changelog`: the frame is an Iceberg changelog: all changes of a snapshot have the same order
    value, and a key that was removed and added in one snapshot is there after it. `unstored`:
    columns that only say how rows are applied, and are not written.
    """

    keys: Schema
    key_names: tuple[str, ...]
    order: str | None = None
    op: str | None = None
    changelog: bool = False
    unstored: tuple[str, ...] = ()
    case_sensitive: bool = True

    def removed(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Tell for each row whether it takes its key away; None: no row does. Raises InvalidInput
        for a kind that is not known.
        """
        if self.op is None:
            return None
        kinds = rows.column(self.op).cast(pa.string())
        kind_names = pa.array(list(_REMOVES))
        kind_numbers = pc.index_in(pc.utf8_lower(kinds), kind_names)
        if kind_numbers.null_count:
            bad = next(
                k
                for k, i in zip(kinds.to_pylist(), kind_numbers.to_pylist(), strict=True)
                if i is None
            )
            raise InvalidInput(
                f"Column {self.op} holds {bad!r}, which is no kind of row.",
                hint=f"Known: {', '.join(_REMOVES)}.",
            )
        return pc.take(pa.array(list(_REMOVES.values())), kind_numbers)


def reduction(
    options: SinkOptions,
    schema: Schema,
    ids: Sequence[int],
    columns: Sequence[str],
    case_sensitive: bool,
) -> Reduction:
    """Match the options with the columns of a frame. `schema`: the table's, `ids`: of its key
    columns. Raises SchemaMismatch.
    """
    keys = tuple(_named(schema.by_id[i].name, columns, case_sensitive, "key-columns") for i in ids)
    op, order = _op_and_order(options, columns, case_sensitive)
    changelog = op is not None and op.lower() == CHANGELOG
    if order is None and changelog:
        order = next((n for n in columns if n.lower() == _CHANGELOG_ONLY[0]), None)
    control = [*(_CHANGELOG_ONLY if changelog else ()), *(n for n in (op, order) if n is not None)]
    unstored = tuple(
        n
        for n in columns
        if _has(n, control, case_sensitive) and schema.get_field(n, case_sensitive) is None
    )
    return Reduction(schema.project(ids), keys, order, op, changelog, unstored, case_sensitive)


def check_named(options: SinkOptions, columns: Sequence[str], case_sensitive: bool) -> None:
    """Check that a frame has the columns that the options name, where no table is known yet. Raises
    SchemaMismatch, and InvalidInput for a key that is named twice.
    """
    keys = [_named(n, columns, case_sensitive, "key-columns") for n in options.key_columns]
    if len(set(keys)) < len(keys):
        raise InvalidInput(f"key-columns names a column twice: {', '.join(keys)}.")
    _op_and_order(options, columns, case_sensitive)


def _op_and_order(
    options: SinkOptions, columns: Sequence[str], case_sensitive: bool
) -> tuple[str | None, str | None]:
    """Find the column with the kinds of rows, in cdc, and that of their order, where one is named.
    Raises SchemaMismatch.
    """
    op, order = None, options.order_column
    if options.mode == "cdc":
        op = options.op_column or next(
            (n for n in OP_COLUMNS if _has(n, columns, case_sensitive)), None
        )
        if op is None:
            none = f"the frame has no column {', '.join(OP_COLUMNS)}; it has: {_listed(columns)}"
            raise SchemaMismatch(
                f"write-mode=cdc needs the kind of each row: {none}.", hint="Name it by op-column."
            )
        op = _named(op, columns, case_sensitive, "op-column")
    if order is not None:
        order = _named(order, columns, case_sensitive, "order-column")
    return op, order


def _has(name: str, columns: Sequence[str], case_sensitive: bool) -> bool:
    return any(c == name or (not case_sensitive and c.lower() == name.lower()) for c in columns)


def _named(name: str, columns: Sequence[str], case_sensitive: bool, option: str) -> str:
    matching = [c for c in columns if c == name] or [
        c for c in columns if not case_sensitive and c.lower() == name.lower()
    ]
    if len(matching) != 1:
        several = "several columns" if matching else "no column"
        raise SchemaMismatch(
            f"{option}: the frame has {several} {name}; it has: {_listed(columns)}.", column=name
        )
    return matching[0]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "none"


@dataclass(frozen=True)
class Reduced:
    """Hold the last row of each key. `rows`: as the frame has them, without the columns that are
    not stored. `keys`: the same rows' keys, typed as the table's. `removed`: which of them take
    their key away; None: none does."""

    rows: pa.Table
    keys: pa.Table
    removed: pa.ChunkedArray | pa.Array | None = None

    @property
    def written(self) -> pa.Table:
        """Return the rows that are to be in the table."""
        return self.rows if self.removed is None else self.rows.filter(pc.invert(self.removed))

    def source(self, reduction: Reduction) -> pa.Table:
        """Return the rows as the source of a MERGE: keys typed as the table's (uuids as texts, in
        the form in which the table's are read, since a MERGE compares texts), and, if rows have
        kinds, a column that tells which go."""
        rows = self.rows
        for n, name in enumerate(reduction.key_names):
            rows = rows.set_column(
                rows.column_names.index(name),
                self.keys.schema.field(n).with_name(name),
                self.keys.column(n),
            )
        return rows if self.removed is None else rows.append_column(REMOVED, self.removed)


def reduced(rows: pa.Table, reduction: Reduction) -> Reduced:
    """Keep the last row of each key. Null is a key like any other, as in equality deletes. A column
    `POSITION`, if there is one, holds the rows' places in the whole frame.

    Raises SchemaMismatch for keys that the table cannot hold, InvalidInput for kinds of rows that
    are not known.
    """
    typed = _typed_keys(rows, reduction)
    removed = reduction.removed(rows)
    numbers = _last(rows, typed, reduction, removed)
    last_rows = rows.drop_columns(
        [n for n in rows.column_names if n == POSITION or n in reduction.unstored]
    )
    if numbers is not None:
        last_rows, typed = last_rows.take(numbers), typed.take(numbers)
        removed = None if removed is None else removed.take(numbers)
    return Reduced(last_rows, typed, removed)


def last_rows(rows: pa.Table, reduction: Reduction) -> pa.Table:
    """Keep the last row of each key with all of its columns, so that the rows of several parts can
    be reduced together afterwards.
    """
    last = _last(rows, _typed_keys(rows, reduction), reduction, reduction.removed(rows))
    return rows if last is None else rows.take(last)


def _typed_keys(rows: pa.Table, reduction: Reduction) -> pa.Table:
    """Return the key columns, cast to the table's types."""
    names, sensitive = list(reduction.key_names), reduction.case_sensitive
    keys = conform(rows.select(names), reduction.keys, case_sensitive=sensitive)
    schema = conform(
        rows.slice(0, 0).select(names), reduction.keys, case_sensitive=sensitive
    ).schema
    return pa.Table.from_batches(list(keys), schema=schema)


def _last(
    rows: pa.Table, keys: pa.Table, reduction: Reduction, removed: pa.ChunkedArray | None
) -> pa.Array | None:
    """Find the numbers of the last rows, ascending by their place in time; None: every row is the
    only one of its key.
    """
    sorting: dict[str, pa.ChunkedArray | pa.Array] = {}
    if reduction.order is not None:
        sorting["present"] = pc.is_valid(rows.column(reduction.order))  # nulls come first
        sorting["order"] = rows.column(reduction.order)
        if reduction.changelog and removed is not None:
            sorting["rank"] = pc.invert(removed)
    if POSITION in rows.column_names:
        sorting["position"] = rows.column(POSITION)
    count = rows.num_rows
    order = np.arange(count)
    if sorting:
        sort_keys = [(name, "ascending") for name in sorting]
        order = pc.sort_indices(pa.table(sorting), sort_keys=sort_keys).to_numpy()
    columns = [_plain(c) for c in keys.columns]
    numbered = pa.table(
        [*columns, pa.array(_inverse(order))],
        names=[*(f"k{n}" for n in range(len(columns))), "place"],
    )
    places = (
        numbered.group_by(numbered.column_names[:-1], use_threads=False)
        .aggregate([("place", "max")])["place_max"]
        .to_numpy()
    )
    if len(places) == count and not sorting:
        return None
    return pa.array(order[np.sort(places)])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the plain values of a column of an extension type, as uuids are, by which Arrow cannot
    group.
    """
    if not isinstance(column.type, pa.ExtensionType):
        return column
    return pa.chunked_array([c.storage for c in column.chunks], column.type.storage_type)


def _inverse(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
