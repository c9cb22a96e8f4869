"""Estimate from metadata alone how much of a table's files scans would read if its rows were sorted or z-ordered.

How: each file of the current snapshot is taken as a box, from the least to the greatest value of each column that filters compare, within
which its rows lie evenly. Within each partition, sample rows are drawn from these boxes: as many of each file as it has rows, and in all
some dozens for each file that a rewrite would leave (files of the size that compaction writes, or of the largest there is, and one of the
rest). They are ordered as the rewrite would order them, and cut into these files, whose ranges are compared with the filter. The result is
the ratio of the bytes that a scan would read of the new files to those that it would read of the present ones.

The estimate does not know of values that crowd within a file, nor of columns that depend on each other within one. Where files share their
bounds, the column is taken to have few values, which skip less. Row groups and pages skipped within files are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.maintain.advice.positions import Axis, Interval, Positions, axis_of, overlapping
from frazil.maintain.advice.table_state import AilingTable
from frazil.maintain.compact.curves import ordered_words, zorder
from frazil.scan.scan_log.records import LoggedPart
from frazil.spec.properties import TARGET_FILE_SIZE
from frazil.spec.types import BinaryType, BooleanType, DecimalType, DoubleType, FloatType, StringType

MOST_FILES = 4_096
"""Files that a layout is estimated with; a table of more is taken as one of so many, which understates what is skipped."""
ROWS_OF_A_FILE = 64
WRITTEN = 1.4
"""Size of the files that a compaction writes, by the target size: half the way to `max-file-size-bytes`, as in Java."""
_KEY_BYTES = 2**31 - 1
Ranges = dict[int, tuple[Positions, Positions]]
Filter = tuple[LoggedPart, ...]


@dataclass(frozen=True)
class RowLayout:
    """Name an order of rows: by one column, or by the z-order of several (field ids)."""

    columns: tuple[int, ...]

    @property
    def is_zorder(self) -> bool:
        return len(self.columns) > 1


@dataclass(frozen=True, eq=False)
class Boxes:
    """Hold files as boxes: the range of each column, by field id, and the bytes of each file. `binned`: the ranges of columns with few
    values count these values."""

    ranges: Ranges
    sizes: npt.NDArray[np.float64]
    binned: bool = False

    def bytes_for(self, row_filter: Filter, axes: Mapping[int, Axis]) -> float:
        """Return how many bytes a scan with this filter reads."""
        touched = np.ones(len(self.sizes), np.bool_)
        for part in row_filter:
            if part.column not in axes or (intervals := axes[part.column].intervals(part)) is None:
                continue
            axis, (low, high) = axes[part.column], self.ranges[part.column]
            touched &= overlapping(low, high, _in_bins(axis, intervals) if self.binned and axis.values is not None else intervals)
        return float(self.sizes[touched].sum())


def _in_bins(axis: Axis, intervals: Sequence[Interval]) -> list[Interval]:
    inside = [i for i in intervals if i[1] >= axis.start and i[0] <= axis.end]
    return [(float(a), float(b)) for a, b in (axis.bins(np.clip(np.array(i), axis.start, axis.end)) for i in inside)]


@dataclass(frozen=True, eq=False)
class LayoutEstimator:
    """Estimate layouts of one state of a table, for filters that compare the columns of `axes`."""

    state: AilingTable
    axes: Mapping[int, Axis]

    @classmethod
    def of(cls, state: AilingTable, columns: frozenset[int]) -> LayoutEstimator:
        """Make the estimator; columns without bounds, and those of types without order, are left out."""
        types = state.metadata.schema().by_id
        axes = {
            i: axis
            for i in sorted(columns)
            if f"low{i}" in state.files.column_names
            and (axis := axis_of(types[i].field_type, *(state.files.column(f"{side}{i}") for side in ("low", "high")))) is not None
        }
        return cls(state, axes)

    @cached_property
    def current(self) -> Boxes:
        """Return the files as they are."""
        sizes = self.state.numbers("file_size_in_bytes").astype(np.float64)
        return Boxes({i: (a.low, a.high) for i, a in self.axes.items()}, sizes)

    @cached_property
    def _groups(self) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]]:
        """Return the files of each partition, and the sizes of those that a rewrite would leave of them. A sorted group is written file by
        file, each of the size that compaction writes, or of the largest present file if that is larger, so that the benefit is not
        overestimated; the last one holds the rest. Where a partition fills few files, this rest counts."""
        groups, target = self.state.numbers("group"), TARGET_FILE_SIZE.of(self.state.metadata.properties)
        order = np.argsort(groups, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []
        sizes = [self.current.sizes[m] for m in members]
        totals = [float(s.sum()) for s in sizes]
        each = [max(WRITTEN * target, float(s.max())) for s in sizes]
        over = max(1.0, sum(t / e for t, e in zip(totals, each, strict=True)) / MOST_FILES)
        return [(m, _cut(t, e * over)) for m, t, e in zip(members, totals, each, strict=True)]

    def after(self, layout: RowLayout) -> Boxes:
        """Return the files that a rewrite in this order would leave."""
        random = np.random.default_rng(0)
        group_boxes = [self._rewritten(members, sizes, layout, random) for members, sizes in self._groups]
        ranges = {i: tuple(np.concatenate([f.ranges[i][side] for f in group_boxes]) for side in (0, 1)) for i in self.axes}
        return Boxes({i: (r[0], r[1]) for i, r in ranges.items()}, np.concatenate([f.sizes for f in group_boxes]), binned=True)

    def _rewritten(
        self, members: npt.NDArray[np.intp], sizes: npt.NDArray[np.float64], layout: RowLayout, random: np.random.Generator
    ) -> Boxes:
        if len(sizes) == 1:
            return Boxes({field_id: self._whole(a, members) for field_id, a in self.axes.items()}, sizes, binned=True)
        drawn = np.maximum(2, np.rint(ROWS_OF_A_FILE * sizes / sizes[0]).astype(np.intp))
        rows = self._sample(members, int(drawn.sum()), random)
        order, begins = self._order(rows, layout), np.cumsum(drawn) - drawn
        ranges: Ranges = {}
        for field_id, values in rows.items():
            axis = self.axes[field_id]
            shown = axis.bins(values) if axis.values is not None else values
            low, high = np.minimum.reduceat(shown[order], begins), np.maximum.reduceat(shown[order], begins)
            if axis.values is None:  # the ends of the rows that were not drawn lie a little further out
                further = (high - low) / (drawn - 1)
                low, high = np.maximum(low - further, shown.min()), np.minimum(high + further, shown.max())
            ranges[field_id] = (low, high)
        return Boxes(ranges, sizes, binned=True)

    def _whole(self, axis: Axis, members: npt.NDArray[np.intp]) -> tuple[Positions, Positions]:
        ends = np.clip(np.array([axis.low[members].min(), axis.high[members].max()]), axis.start, axis.end)
        ends = axis.bins(ends) if axis.values is not None else ends
        return ends[:1], ends[1:]

    def _sample(self, members: npt.NDArray[np.intp], rows: int, random: np.random.Generator) -> dict[int, Positions]:
        """Choose sample rows from the boxes of files, evenly by their numbers of rows."""
        weights = np.cumsum(np.maximum(self.state.numbers("record_count")[members], 0).astype(np.float64))
        row_weights = (np.arange(rows) + 0.5) / rows * weights[-1]
        files = members[np.minimum(np.searchsorted(weights, row_weights), len(members) - 1)]
        positions_by_field = {}
        for field_id, axis in self.axes.items():
            low, high = np.maximum(axis.low[files], axis.start), np.minimum(axis.high[files], axis.end)
            share = random.random(rows)
            positions_by_field[field_id] = low + np.floor(share * (high - low + 1)) if axis.is_whole else low + share * (high - low)
        return positions_by_field

    def _order(self, rows: Mapping[int, Positions], layout: RowLayout) -> npt.NDArray[np.intp]:
        if not layout.is_zorder:
            return np.argsort(rows[layout.columns[0]], kind="stable")
        words = zorder([self._words(i, rows[i]) for i in layout.columns], _KEY_BYTES, len(next(iter(rows.values()))))
        return np.lexsort([np.ascontiguousarray(w) for w in reversed(words)])

    def _words(self, field_id: int, values: Positions) -> Any:
        """Return the bytes that a z-order mixes, as for the values themselves."""
        axis = self.axes[field_id]
        match axis.type:
            case FloatType() | DoubleType() | DecimalType():
                column = pa.array(values)
            case BooleanType():
                column = pa.array(values > 0)
            case StringType() | BinaryType():
                column = pa.array([axis.common + int(v).to_bytes(7, "big")[1:] for v in values], pa.binary())
            case _:
                column = pa.array(values.astype(np.int64))
        return ordered_words(column, axis.type, 8)


def _cut(total: float, each: float) -> npt.NDArray[np.float64]:
    """Cut a number of bytes into files of a size and one of the rest; a rest too small for a row of the sample goes to the others."""
    whole, rest = divmod(total, each)
    if whole == 0 or rest < each / ROWS_OF_A_FILE:
        count = max(1, int(whole))
        return np.full(count, total / count)
    return np.array([*[each] * int(whole), rest])
