"""Estimate from metadata alone how much of a table's files scans would read if its rows were sorted
or z-ordered.

How: each file of the current snapshot is taken as a box, from the least to the greatest value of
each column that filters compare, within which its rows lie evenly. Within each partition, sample
rows are drawn from these boxes: as many of each file as it has rows, and in all some dozens for
each file that a rewrite would leave (as many as compaction writes of the target size). They are
ordered as the rewrite would order them, and cut into these files, whose ranges are compared with
the filter. The result is the ratio of the bytes that a scan would read of the new files to those
that it would read of the present ones.

The estimate does not know of values that crowd within a file, nor of columns that depend on each
other within one. Where files share their bounds, the column is taken to have few values, which skip
less. Row groups and pages skipped within files are not counted.
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
from frazil.maintain.advice.table_state import LiveFiles
from frazil.maintain.compact.curves import ColumnScale, bits_of_column, ordered_words, zorder
from frazil.maintain.compact.file_cuts import FileSizes, file_ends
from frazil.maintain.compact.options import CompactionOptions
from frazil.scan.scan_log.records import LoggedPart
from frazil.spec.properties import TARGET_FILE_SIZE
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
)

MOST_FILES = 4_096
"""Files that a layout is estimated with; a table of more is taken as one of so many, which
understates what is skipped.
"""
ROWS_OF_A_FILE = 64
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
    """Hold files as boxes: the range of each column, by field id, and the bytes of each file.
    `binned`: the ranges of columns with few values count these values."""

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
            touched &= overlapping(
                low,
                high,
                _in_bins(axis, intervals) if self.binned and axis.values is not None else intervals,
            )
        return float(self.sizes[touched].sum())


def _in_bins(axis: Axis, intervals: Sequence[Interval]) -> list[Interval]:
    inside = [i for i in intervals if i[1] >= axis.start and i[0] <= axis.end]
    return [
        (float(a), float(b))
        for a, b in (axis.bins(np.clip(np.array(i), axis.start, axis.end)) for i in inside)
    ]


@dataclass(frozen=True, eq=False)
class _FilesOfPartition:
    """Hold the files of a partition by their numbers, their bytes together, and the options of a
    rewrite.
    """

    members: npt.NDArray[np.intp]
    bytes: float
    options: CompactionOptions


@dataclass(frozen=True, eq=False)
class LayoutEstimator:
    """Estimate layouts of one state of a table, for filters that compare the columns of `axes`."""

    state: LiveFiles
    axes: Mapping[int, Axis]

    @classmethod
    def of(cls, state: LiveFiles, columns: frozenset[int]) -> LayoutEstimator:
        """Make the estimator; columns without bounds, and those of types without order, are left
        out.
        """
        types = state.metadata.schema().by_id
        axes = {
            i: axis
            for i in sorted(columns)
            if f"low{i}" in state.files.column_names
            and (
                axis := axis_of(
                    types[i].field_type,
                    *(state.files.column(f"{side}{i}") for side in ("low", "high")),
                )
            )
            is not None
        }
        return cls(state, axes)

    @cached_property
    def current(self) -> Boxes:
        """Return the files as they are."""
        sizes = self.state.numbers("file_size_in_bytes").astype(np.float64)
        return Boxes({i: (a.low, a.high) for i, a in self.axes.items()}, sizes)

    @cached_property
    def _partitions(self) -> list[_FilesOfPartition]:
        """Return the files of each partition, and the options of a rewrite, which decide how many
        it would leave of them.
        """
        groups, target = (
            self.state.numbers("group"),
            TARGET_FILE_SIZE.of(self.state.metadata.properties),
        )
        order = np.argsort(groups, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []
        sizes = [float(self.current.sizes[m].sum()) for m in members]
        options = CompactionOptions.of_target(
            int(target * max(1.0, sum(sizes) / target / MOST_FILES))
        )
        return [_FilesOfPartition(m, size, options) for m, size in zip(members, sizes, strict=True)]

    def after(self, layout: RowLayout) -> Boxes:
        """Return the files that a rewrite in this order would leave."""
        random = np.random.default_rng(0)
        boxes_by_partition = [self._rewritten(group, layout, random) for group in self._partitions]
        ranges = {
            i: tuple(
                np.concatenate([f.ranges[i][side] for f in boxes_by_partition]) for side in (0, 1)
            )
            for i in self.axes
        }
        return Boxes(
            {i: (r[0], r[1]) for i, r in ranges.items()},
            np.concatenate([f.sizes for f in boxes_by_partition]),
            binned=True,
        )

    def _rewritten(
        self, group: _FilesOfPartition, layout: RowLayout, random: np.random.Generator
    ) -> Boxes:
        sizes = group.options.sizes_for(int(group.bytes))
        if sizes.files == 1:
            whole = {field_id: self._whole(a, group.members) for field_id, a in self.axes.items()}
            return Boxes(whole, np.array([group.bytes]), binned=True)
        rows = self._sample(group.members, ROWS_OF_A_FILE * sizes.files, random)
        order, ends = self._ordered(rows, layout, sizes)
        begins = np.array([0, *ends[:-1]])
        drawn = np.diff([0, *ends])
        ranges: Ranges = {}
        for field_id, values in rows.items():
            axis = self.axes[field_id]
            shown = axis.bins(values) if axis.values is not None else values
            low, high = (
                np.minimum.reduceat(shown[order], begins),
                np.maximum.reduceat(shown[order], begins),
            )
            if axis.values is None:
                # the ends of the rows that were not drawn lie a little further out
                further = (high - low) / np.maximum(drawn - 1, 1)
                low, high = (
                    np.maximum(low - further, shown.min()),
                    np.minimum(high + further, shown.max()),
                )
            ranges[field_id] = (low, high)
        return Boxes(ranges, group.bytes * drawn / drawn.sum(), binned=True)

    def _whole(self, axis: Axis, members: npt.NDArray[np.intp]) -> tuple[Positions, Positions]:
        ends = np.clip(
            np.array([axis.low[members].min(), axis.high[members].max()]), axis.start, axis.end
        )
        ends = axis.bins(ends) if axis.values is not None else ends
        return ends[:1], ends[1:]

    def _sample(
        self, members: npt.NDArray[np.intp], rows: int, random: np.random.Generator
    ) -> dict[int, Positions]:
        """Choose sample rows from the boxes of files, evenly by their numbers of rows."""
        weights = np.cumsum(
            np.maximum(self.state.numbers("record_count")[members], 0).astype(np.float64)
        )
        row_weights = (np.arange(rows) + 0.5) / rows * weights[-1]
        files = members[np.minimum(np.searchsorted(weights, row_weights), len(members) - 1)]
        positions_by_field = {}
        for field_id, axis in self.axes.items():
            low, high = (
                np.maximum(axis.low[files], axis.start),
                np.minimum(axis.high[files], axis.end),
            )
            share = random.random(rows)
            positions_by_field[field_id] = (
                low + np.floor(share * (high - low + 1))
                if axis.is_whole
                else low + share * (high - low)
            )
        return positions_by_field

    def _ordered(
        self, rows: Mapping[int, Positions], layout: RowLayout, sizes: FileSizes
    ) -> tuple[npt.NDArray[np.intp], list[int]]:
        """Order sample rows as the rewrite would, and cut them where it would. Returns the order,
        and the rows up to the end of each file."""
        number = len(next(iter(rows.values())))
        if not layout.is_zorder:
            return np.argsort(rows[layout.columns[0]], kind="stable"), file_ends(sizes, number)
        bits = bits_of_column(len(layout.columns))
        words = [self._words(i, rows[i]) for i in layout.columns]
        places = zorder([ColumnScale.of(w).ranks(w, bits) for w in words], bits)
        order = np.argsort(places, kind="stable")
        return order, file_ends(sizes, number, [places[order]], bits * len(words))

    def _words(self, field_id: int, values: Positions) -> Any:
        """Return the bytes that a z-order mixes, as for the values themselves."""
        axis = self.axes[field_id]
        match axis.type:
            case FloatType() | DoubleType() | DecimalType():
                column = pa.array(values)
            case BooleanType():
                column = pa.array(values > 0)
            case StringType() | BinaryType():
                column = pa.array(
                    [axis.common + int(v).to_bytes(7, "big")[1:] for v in values], pa.binary()
                )
            case _:
                column = pa.array(values.astype(np.int64))
        return ordered_words(column, axis.type, 8)
