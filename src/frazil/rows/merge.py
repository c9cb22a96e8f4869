"""Decide a MERGE for the rows of one data file: find the source rows they match, choose the clause
for each, make the new versions.

Columns that keys and conditions need are read first and looked up in the source's key index. The
other columns are read later, only for rows that change, and only when an assignment or a column
that is kept needs them. Each task reports the source rows that it matched as a bitmap, one bit per
source row, since a list of row numbers could be as large as the source; the rows that no task
matched are inserted.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.rows_at import rows_at, rows_of
from frazil.errors import InvalidInput
from frazil.expr.bound import TRUE, references
from frazil.rows.assign import at_path
from frazil.rows.bound_merge import BoundClause, BoundMerge
from frazil.rows.key_index import Rows
from frazil.rows.pairing import Pairing, as_side, beside, rows_where
from frazil.rows.rewrite import HIDDEN_POS, POS, ROW_ID, RemovedRows
from frazil.rows.source import MergeSource
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import ROW_ID_ID, Schema
from frazil.spec.types import LongType, NestedField

HIDDEN_ROW_ID = NestedField(ROW_ID_ID, "\0row_id", LongType(), False)
GATHER = 1 << 20  # so many changed rows are collected before their other columns are read
NO_ROWS = np.zeros(0, np.int64)
NO_ROW_ID = -1
Flags = npt.NDArray[np.bool_]


@dataclass
class MergeCounts:
    """Count target rows by what happened to them, as Java's summary properties of a MERGE
    distinguish them.
    """

    matched_updated: int = 0
    matched_deleted: int = 0
    by_source_updated: int = 0
    by_source_deleted: int = 0

    def add(self, other: MergeCounts) -> None:
        for name, more in vars(other).items():
            setattr(self, name, getattr(self, name) + more)

    def count(self, matched: bool, updated: bool, rows: int) -> None:
        name = f"{'matched' if matched else 'by_source'}_{'updated' if updated else 'deleted'}"
        setattr(self, name, getattr(self, name) + rows)


@dataclass(frozen=True)
class MergeReport:
    """Hold the result of one group. `matched`: the source rows that match a target row, as a
    compressed bitmap; empty if not needed. Of a decider that only finds rows: the source rows that
    replace one, with the row ids of the replaced rows in that order in `row_ids`."""

    matched: bytes
    counts: MergeCounts
    row_ids: bytes = b""

    def flags(self, rows: int) -> Flags:
        packed = np.frombuffer(zlib.decompress(self.matched), np.uint8)
        return np.unpackbits(packed, count=rows).astype(bool)

    def fill_row_ids(self, row_ids: Rows) -> None:
        """Set the row id of each source row that replaces one of the group's rows."""
        if self.row_ids:
            row_ids[self.flags(len(row_ids))] = np.frombuffer(
                zlib.decompress(self.row_ids), np.int64
            )


@dataclass(frozen=True)
class Acts:
    """Hold the rows of a batch to which a clause applies, ascending: the source row of each (-1:
    none) and the clause's number in `of_target`."""

    rows: Rows
    source: Rows
    clause: Rows

    def where(self, mask: Flags) -> Acts:
        return Acts(self.rows[mask], self.source[mask], self.clause[mask])


@dataclass(frozen=True)
class MergeDecider:
    """Decide what a MERGE does to the rows of data files. `read`: the read context of the plan.
    `lineage`: updated rows keep their row ids. `wants_matched`: report the matched source rows,
    because the others are inserted. `only_finds`: the new versions are the source rows themselves,
    which are written elsewhere, so that the rows to replace are found and reported, and no other
    column is read."""

    read: ReadContext
    merge: BoundMerge
    source: MergeSource
    lineage: bool = False
    wants_matched: bool = False
    counts: MergeCounts = field(default_factory=MergeCounts, compare=False)
    only_finds: bool = False
    matched: Flags = field(default_factory=lambda: np.zeros(0, bool), compare=False, repr=False)
    row_ids: Rows = field(default_factory=lambda: NO_ROWS, compare=False, repr=False)

    def begin(self) -> Self:
        rows = self.source.num_rows
        row_ids = np.full(rows, NO_ROW_ID) if self.only_finds and self.lineage else NO_ROWS
        matched = np.zeros(rows if self._reports_matched else 0, bool)
        return replace(self, counts=MergeCounts(), matched=matched, row_ids=row_ids)

    def report(self) -> MergeReport:
        row_ids = (
            zlib.compress(self.row_ids[self.matched].tobytes(), 1) if len(self.row_ids) else b""
        )
        return MergeReport(
            zlib.compress(np.packbits(self.matched).tobytes(), 1) if self._reports_matched else b"",
            self.counts,
            row_ids,
        )

    @property
    def _reports_matched(self) -> bool:
        return self.wants_matched or self.only_finds

    @cached_property
    def pairing(self) -> Pairing:
        return Pairing(self.merge, self.source)

    # --- columns: what is read first, and what later

    @cached_property
    def first(self) -> ReadContext:
        keeps_ids = (HIDDEN_ROW_ID,) if self.lineage and self.merge.updates else ()
        return self.read.sharing_deletes(projection=Schema(*self._tested, *keeps_ids, HIDDEN_POS))

    @cached_property
    def _tested(self) -> tuple[NestedField, ...]:
        return self.read.table_schema.project(self.merge.tested).fields

    @cached_property
    def late(self) -> ReadContext | None:
        """Return how to read the other columns; None: those read first are enough to make new
        versions.
        """
        needed = self.read.table_schema.project(
            self.merge.needed_to_update | self.merge.tested
        ).fields
        missing = tuple(f for f in needed if f not in self._tested)
        return (
            self.read.sharing_deletes(projection=Schema(*missing))
            if missing and self.merge.updates
            else None
        )

    # --- one file

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        gathered = _ChangedRows()
        for batch in rows_of(task, self.first):
            acts = self._acts(self._target(batch))
            if not len(acts.rows):
                continue
            deletes = np.array([c.assignments is None for c in self.merge.of_target])[acts.clause]
            self._delete(batch, acts.where(deletes), removed_rows)
            if self.only_finds:
                self._replace(batch, acts.where(~deletes), removed_rows)
                continue
            gathered.add(batch, acts.where(~deletes))
            if gathered.count >= GATHER:
                yield from self._updated(task, gathered, removed_rows)
                gathered = _ChangedRows()
        yield from self._updated(task, gathered, removed_rows)

    def _target(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take the table's columns from a batch of the first read, as the target side."""
        return as_side(batch.select(range(len(self._tested))), self.merge.sides.target_alias)

    def _delete(self, batch: pa.RecordBatch, acts: Acts, removed_rows: RemovedRows) -> None:
        removed_rows.add(
            batch.column(batch.num_columns - 1).to_numpy()[acts.rows], deleted=len(acts.rows)
        )
        matched = int((acts.clause < len(self.merge.matched)).sum())
        self.counts.count(True, False, matched)
        self.counts.count(False, False, len(acts.rows) - matched)

    def _replace(self, batch: pa.RecordBatch, acts: Acts, removed_rows: RemovedRows) -> None:
        removed_rows.add(
            batch.column(batch.num_columns - 1).to_numpy()[acts.rows], updated=len(acts.rows)
        )
        self.counts.count(True, True, len(acts.rows))
        self.matched[acts.source] = True
        if self.lineage:
            row_ids = batch.column(batch.num_columns - 2).fill_null(NO_ROW_ID).to_numpy()
            self.row_ids[acts.source] = row_ids[acts.rows]

    # --- which clause acts on which row

    def _acts(self, target: pa.RecordBatch) -> Acts:
        merge = self.merge
        parts: list[Acts] = []
        matches: list[Rows] = []
        has_match = np.zeros(target.num_rows, bool)
        if merge.matched or merge.by_source or self.wants_matched:
            for target_rows, source_rows in self.pairing.pairs(target):
                has_match[target_rows] = True
                if self.wants_matched:
                    self.matched[source_rows] = True
                if merge.checks_cardinality:
                    matches.append(target_rows)
                    if np.count_nonzero(has_match) < sum(map(len, matches)):
                        refuse_ambiguous(merge, target, np.concatenate(matches))
                    parts.append(self._picked(target, target_rows, source_rows))
        if merge.matched and not merge.checks_cardinality:  # a lone DELETE of all rows that match
            rows = np.flatnonzero(has_match)
            parts.append(Acts(rows, np.full(len(rows), -1), np.zeros(len(rows), np.int64)))
        if merge.by_source:
            parts.append(self._by_source(target, np.flatnonzero(~has_match)))
        return _together(parts)

    def _picked(self, target: pa.RecordBatch, target_rows: Rows, source_rows: Rows) -> Acts:
        """Choose for each pair the first matched clause whose condition is TRUE; pairs without such
        a clause are left out.
        """
        undecided = np.arange(len(target_rows))
        parts: list[Acts] = []
        for number, clause in enumerate(self.merge.matched):
            chosen = undecided
            if clause.condition != TRUE and len(undecided):
                names = self.merge.names_of_source([clause.condition])
                pairs = self.pairing.pair(
                    target, target_rows[undecided], source_rows[undecided], names
                )
                chosen = undecided[rows_where(clause.condition, pairs)]
            parts.append(
                Acts(target_rows[chosen], source_rows[chosen], np.full(len(chosen), number))
            )
            undecided = np.setdiff1d(undecided, chosen, assume_unique=True)
        return _together(parts)

    def _by_source(self, target: pa.RecordBatch, rows: Rows) -> Acts:
        parts: list[Acts] = []
        for number, clause in enumerate(self.merge.by_source, len(self.merge.matched)):
            hit = np.arange(len(rows))
            if clause.condition != TRUE and len(rows):
                hit = rows_where(clause.condition, target.take(pa.array(rows)))
            parts.append(Acts(rows[hit], np.full(len(hit), -1), np.full(len(hit), number)))
            rows = np.delete(rows, hit)
        return _together(parts)

    # --- new versions

    def _updated(
        self, task: FileScanTask, gathered: _ChangedRows, removed_rows: RemovedRows
    ) -> Iterator[pa.RecordBatch]:
        if not gathered.count:
            return
        rows, acts = gathered.joined()
        done = 0
        for late in self._later(task, rows):
            part = slice(done, done + late.num_rows)
            done = part.stop
            some = Acts(acts.rows[part], acts.source[part], acts.clause[part])
            new = self._new_versions(
                rows.slice(part.start, late.num_rows), late, some, removed_rows
            )
            if new.num_rows:
                yield new

    def _later(self, task: FileScanTask, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the columns that were not read first, for these rows in their order; batches
        without columns when none is needed.
        """
        if self.late is not None:
            yield from rows_at(task, rows.column(rows.num_columns - 1).to_numpy(), self.late)
            return
        size = self.read.options.batch_size
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size).select([])

    def _new_versions(
        self, rows: pa.RecordBatch, late: pa.RecordBatch, acts: Acts, removed_rows: RemovedRows
    ) -> pa.RecordBatch:
        names = [f.name for f in self._tested]
        first = dict(zip(names, rows.columns, strict=False))
        columns = first | dict(zip(late.schema.names, late.columns, strict=True))
        flat = (
            pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            if columns
            else rows.select([])
        )
        target = as_side(flat, self.merge.sides.target_alias)
        parts = []
        for number, clause in enumerate(self.merge.of_target):
            here = np.flatnonzero(acts.clause == number)
            if len(here):
                parts.append(
                    self._of_clause(clause, number, target, rows, acts, here, removed_rows)
                )
        new_rows = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
        if len(parts) > 1:
            new_rows = new_rows.take(
                pa.array(
                    np.argsort(
                        new_rows.column(new_rows.schema.get_field_index(POS)).to_numpy(),
                        kind="stable",
                    )
                )
            )
        return new_rows

    def _of_clause(
        self,
        clause: BoundClause,
        number: int,
        target: pa.RecordBatch,
        rows: pa.RecordBatch,
        acts: Acts,
        here: Rows,
        removed_rows: RemovedRows,
    ) -> pa.RecordBatch:
        """Make the new versions for one clause, with their old positions and, if rows keep them,
        their row ids.
        """
        assert clause.assignments is not None
        matched = number < len(self.merge.matched)
        whole = len(here) == rows.num_rows
        target, rows = (
            (target, rows) if whole else (target.take(pa.array(here)), rows.take(pa.array(here)))
        )
        both = target
        if matched:
            source = self.source.take(acts.source[here], self.merge.names_of_source([], clause))
            both = beside(target, source, self.merge.sides.source_alias)
        new = clause.assignments.apply(both)
        if self.merge.changed_only and matched:
            changed = np.flatnonzero(~_same(new, target.column(0)))
            new, rows = new.take(pa.array(changed)), rows.take(pa.array(changed))
        places = rows.column(rows.num_columns - 1)
        removed_rows.add(places.to_numpy(), updated=rows.num_rows)
        self.counts.count(matched, True, rows.num_rows)
        columns, names = [*new.columns, places], [*new.schema.names, POS]
        if self.lineage:
            columns, names = [*columns, rows.column(rows.num_columns - 2)], [*names, ROW_ID]
        return pa.RecordBatch.from_arrays(columns, names=names)


class _ChangedRows:
    """Collect changed rows of several batches: the columns read first, and the clauses that apply."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []
        self._acts: list[Acts] = []
        self.count = 0

    def add(self, batch: pa.RecordBatch, acts: Acts) -> None:
        if len(acts.rows):
            self._rows.append(
                batch if len(acts.rows) == batch.num_rows else batch.take(pa.array(acts.rows))
            )
            self._acts.append(acts)
            self.count += len(acts.rows)

    def joined(self) -> tuple[pa.RecordBatch, Acts]:
        """Concatenate the collected rows in the order of the file."""
        rows, parts = self._rows, self._acts
        acts = Acts(
            *(np.concatenate([getattr(a, n) for a in parts]) for n in ("rows", "source", "clause"))
        )
        return pa.concat_batches(rows) if len(rows) > 1 else rows[0], acts


def _together(parts: list[Acts]) -> Acts:
    """Concatenate acts, sorted by row."""
    if not parts:
        return Acts(NO_ROWS, NO_ROWS, NO_ROWS)
    joined = Acts(
        *(np.concatenate([getattr(a, n) for a in parts]) for n in ("rows", "source", "clause"))
    )
    order = np.argsort(joined.rows, kind="stable")
    return Acts(joined.rows[order], joined.source[order], joined.clause[order])


def _same(new: pa.RecordBatch, old: pa.Array) -> Flags:
    """Mark the rows in which no column would change."""
    same = np.ones(new.num_rows, bool)
    for name, column in zip(new.schema.names, new.columns, strict=True):
        same &= equal_rows(column, old.field(name))
    return same


def equal_rows(a: pa.Array, b: pa.Array) -> Flags:
    """Return one flag per row for two arrays of the same type and length. Maps are equal when their
    entries are, in order.
    """
    valid_a, valid_b = _valid(a), _valid(b)
    both = valid_a & valid_b
    same: Flags = valid_a == valid_b
    if not both.any():
        return same
    types = pa.types
    if types.is_struct(a.type):
        for left, right in zip(a.flatten(), b.flatten(), strict=True):
            same &= ~both | equal_rows(left, right)
        return same
    if types.is_list(a.type) or types.is_large_list(a.type) or types.is_map(a.type):
        return same & (~both | _equal_lists(a, b, both))
    return same & (~both | _equal_values(a, b))


def _equal_values(a: pa.Array, b: pa.Array) -> Flags:
    if pa.types.is_null(a.type):
        return np.ones(len(a), bool)
    equal = pc.equal(a, b)
    if pa.types.is_floating(a.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    return np.asarray(pc.fill_null(equal, False).to_numpy(zero_copy_only=False))


def _equal_lists(a: pa.Array, b: pa.Array, both: Flags) -> Flags:
    starts_a, lengths_a = _spans(a)
    starts_b, lengths_b = _spans(b)
    same: Flags = lengths_a == lengths_b
    rows = np.flatnonzero(both & same & (lengths_a > 0))
    if not len(rows):
        return same
    counts = lengths_a[rows]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    members = [
        _members(x).take(pa.array(np.repeat(starts[rows], counts) + within))
        for x, starts in ((a, starts_a), (b, starts_b))
    ]
    wrong = ~equal_rows(members[0], members[1])
    same[np.repeat(rows, counts)[wrong]] = False
    return same


def _spans(a: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    offsets = a.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _members(a: pa.Array) -> pa.Array:
    if pa.types.is_map(a.type):
        return pa.StructArray.from_arrays([a.keys, a.items], names=["key", "value"])
    return a.values


def _valid(a: pa.Array) -> Flags:
    return np.asarray(a.is_valid().to_numpy(zero_copy_only=False))


SHOWN = 5


def refuse_ambiguous(merge: BoundMerge, target: pa.RecordBatch, rows: Rows) -> NoReturn:
    """Raise InvalidInput, which names some of the keys. `rows`: target rows, once per source row
    that matches them.
    """
    distinct, counts = np.unique(rows, return_counts=True)
    several, times = distinct[counts > 1], counts[counts > 1]
    keys = {r.path: r for k in merge.on.keys for r in references(k.target).values()} or {
        r.path: r
        for r in references(merge.on.rest).values()
        if r.field_id not in merge.sides.of_source
    }
    columns = {
        ".".join(path[1:]): at_path(target, path).take(pa.array(several[:SHOWN])).to_pylist()
        for path in keys
    }
    shown = [
        f"{', '.join(f'{n} = {v[i]!r}' for n, v in columns.items()) or 'a row'} ({times[i]} source rows)"
        for i in range(min(SHOWN, len(several)))
    ]
    more = f", and {len(several) - SHOWN} more" if len(several) > SHOWN else ""
    raise ambiguous("; ".join(shown) + more, keys=columns, rows=len(several))


def ambiguous(shown: str, **facts: object) -> InvalidInput:
    """Return the error for target rows that several source rows match, which begins as Spark's own.
    `shown`: some of the rows.
    """
    return InvalidInput(
        "[MERGE_CARDINALITY_VIOLATION] The ON search condition of the MERGE statement matched a single row from the target table with "
        f"multiple rows of the source table. MERGE is ambiguous: more than one source row matches the same target row: {shown}.",
        hint="Make the source unique by the ON condition, or add to it what tells the source rows apart: conditions of clauses do not.",
        condition="MERGE_CARDINALITY_VIOLATION",
        **facts,
    )
