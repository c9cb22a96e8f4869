"""Describe how a compaction orders rows, and compute the keys by which Arrow sorts a batch: a sort
order, a z-order, or a Hilbert curve.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.write.grouping import column_of, sort_keys
from frazil.arrow.write.row_order import row_order
from frazil.errors import InvalidInput
from frazil.maintain.compact.curves import (
    MOST_COLUMNS,
    ColumnScale,
    Words,
    bits_of_column,
    check_curve,
    hilbert,
    ordered_words,
    zorder,
)
from frazil.maintain.compact.options import STRATEGIES, CompactionOptions
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder, build_sort_order
from frazil.spec.transforms import unquote
from frazil.spec.types import ListType, MapType, StructType
from frazil.tasks.in_order import map_in_order

_CURVE = re.compile(r"\s*(zorder|hilbert)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
PLACE = "k0"
"""Name of the key column of a curve: the place on it."""
_SAMPLE = 1 << 16  # rows, also those whose places one thread computes at once
_TERMS = re.compile(r"(?:[^,(`]|`(?:[^`]|``)*`|\([^)]*\))+")


@dataclass(frozen=True)
class Sorting:
    """Describe an order of rows; frozen and picklable. `curve`: "zorder" or "hilbert" over
    `columns` (field ids), else `order` counts.

    `order_id`: the table's id of this order, with which new files are marked (0: the table has no
    such order). `scales`: how the values of each column of a curve are spread in the group that is
    sorted, from a sample of its rows.
    """

    schema: Schema
    order: SortOrder = UNSORTED_SORT_ORDER
    curve: str | None = None
    columns: tuple[int, ...] = ()
    text_bytes: int = 8
    key_bytes: int = 2**31 - 1
    order_id: int = 0
    scales: tuple[ColumnScale, ...] | None = None

    @property
    def needs_sample(self) -> bool:
        return self.curve is not None and self.scales is None

    @property
    def curve_bits(self) -> int:
        """Return the number of bits of a place on the curve."""
        bits = bits_of_column(len(self.columns)) * len(self.columns)
        return min(bits, 8 * self.key_bytes) if self.curve == "zorder" else bits

    @property
    def field_ids(self) -> frozenset[int]:
        """Return the ids of the columns that decide the order."""
        return frozenset(self.columns or (f.source_id for f in self.order.fields))

    def _words(self, batch: pa.RecordBatch, schema: Schema | None = None) -> list[list[Words]]:
        batch_schema = schema or self.schema
        return [
            ordered_words(
                column_of(batch, batch_schema, i), batch_schema.by_id[i].field_type, self.text_bytes
            )
            for i in self.columns
        ]

    def with_sample(
        self, batches: Iterable[pa.RecordBatch], rows: int, schema: Schema | None = None
    ) -> Sorting:
        """Compute how the values of a curve's columns are spread, from every so manieth row of a
        group that has about `rows` rows.
        """
        step = max(1, rows // _SAMPLE)
        samples = [self._words(batch, schema) for batch in thinned(batches, step)]
        if not samples:
            return replace(
                self, scales=(ColumnScale.of([np.zeros(0, np.uint64)]),) * len(self.columns)
            )
        columns = (
            [np.concatenate(parts) for parts in zip(*column, strict=True)]
            for column in zip(*samples, strict=True)
        )
        return replace(self, scales=tuple(ColumnScale.of(words) for words in columns))

    def keys(
        self, batch: pa.RecordBatch, schema: Schema | None = None, workers: int = 1
    ) -> SortKeys:
        """Compute the sort keys of a batch, those of a curve by several threads. `schema`: the
        batch's columns, where they are not all of the table's.
        """
        if self.curve is None:
            columns, directions = sort_keys(batch, schema or self.schema, self.order, always=True)
            return SortKeys({n: _plain(c) for n, c in columns.items()}, tuple(directions))
        slices = (batch.slice(start, _SAMPLE) for start in range(0, batch.num_rows, _SAMPLE))
        places = map_in_order(lambda rows: self._places(rows, schema), slices, workers)
        column = pa.array(np.concatenate([np.zeros(0, np.uint64), *places]))
        return SortKeys({PLACE: column}, ((PLACE, "ascending"),))

    def _places(self, batch: pa.RecordBatch, schema: Schema | None) -> Words:
        assert self.scales is not None
        bits = bits_of_column(len(self.columns))
        ranks = [
            scale.ranks(words, bits)
            for scale, words in zip(self.scales, self._words(batch, schema), strict=True)
        ]
        if self.curve == "hilbert":
            return hilbert(ranks, bits)
        return zorder(ranks, bits) >> np.uint64(bits * len(ranks) - self.curve_bits)


def thinned(batches: Iterable[pa.RecordBatch], step: int) -> Iterator[pa.RecordBatch]:
    """Yield every so manieth row of a stream, the first of them included."""
    skipped = 0
    for batch in batches:
        places = np.arange(skipped, batch.num_rows, step)
        skipped = (int(places[-1]) + step if len(places) else skipped) - batch.num_rows
        if len(places):
            yield batch.take(pa.array(places))


@dataclass(frozen=True, eq=False)
class SortKeys:
    """Hold the columns by which rows are sorted, and the direction of each."""

    columns: dict[str, pa.Array]
    directions: tuple[tuple[str, str], ...]

    def order(self) -> pa.Array:
        """Return the rows in sorted order; equal ones stay in theirs."""
        return row_order(self.columns, self.directions)


def _plain(column: pa.Array) -> pa.Array:
    """Store times as numbers, which Python can compare without loss."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if not pa.types.is_temporal(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


# Arguments
# --------------------------------------------------------------------------------------------------


def sorting_of(
    strategy: str | None,
    sort_order: str | Sequence[str] | SortOrder | None,
    metadata: TableMetadata,
    options: Callable[[str], CompactionOptions],
    case_sensitive: bool = True,
) -> tuple[Sorting | None, CompactionOptions]:
    """Resolve the arguments `strategy` and `sort_order`: how rows are ordered (None: binpack), and
    the options.

    `sort_order`: as in Java `a ASC NULLS LAST, b DESC`, `zorder(a, b)` or `hilbert(a, b)`; a list
    of columns for the strategies zorder and hilbert; a SortOrder. Without it, strategy sort takes
    the table's sort order. Raises InvalidInput for contradictions.
    """
    chosen = (
        strategy.lower()
        if isinstance(strategy, str)
        else "binpack"
        if strategy is None and sort_order is None
        else "sort"
    )
    if chosen not in STRATEGIES:
        raise InvalidInput(
            f"unsupported strategy: {strategy}. Only {', '.join(STRATEGIES)} are supported."
        )
    if chosen == "binpack" and sort_order is not None:
        raise InvalidInput(
            "Must use only one rewriter type (bin-pack, sort, zorder)",
            hint="sort_order= goes with strategy='sort'.",
        )
    if isinstance(sort_order, str) and (match := _CURVE.fullmatch(sort_order)):
        if chosen not in ("sort", match[1].lower()):
            raise InvalidInput(
                f"strategy={strategy!r} and sort_order={sort_order!r} contradict each other."
            )
        chosen, sort_order = match[1].lower(), _terms(match[2])
    curve_options = options(chosen)
    if chosen == "binpack":
        return None, curve_options
    schema = metadata.schema()
    if chosen == "sort":
        return _by_order(sort_order, metadata, schema, case_sensitive), curve_options
    names = _listed(sort_order or ())
    return _by_curve(chosen, names, curve_options, metadata, schema, case_sensitive), curve_options


def _terms(text: str) -> list[str]:
    return [t.strip() for t in _TERMS.findall(text) if t.strip()]


def _listed(sort_order: str | Sequence[str] | SortOrder | None) -> list[Any]:
    if isinstance(sort_order, str):
        return _terms(sort_order)
    terms = list(sort_order) if isinstance(sort_order, Iterable) else [None]
    if not all(isinstance(term, str) for term in terms):
        text = f"sort_order is a text, a list of columns or a SortOrder, not {sort_order!r}."
        raise InvalidInput(text, hint="Write it as sort_order='a, b DESC'.")
    return terms


def _by_order(
    sort_order: str | Sequence[str] | SortOrder | None,
    metadata: TableMetadata,
    schema: Schema,
    case_sensitive: bool,
) -> Sorting:
    if sort_order is None:
        order = metadata.sort_order()
        if order.is_unsorted:
            text = f"Cannot sort data without a valid sort order, table '{metadata.location}' is unsorted and no sort order is provided"
            raise InvalidInput(
                text,
                hint="Give sort_order='a, b DESC', or set one by t.update_sort_order().",
                table=metadata.location,
            )
    elif isinstance(sort_order, SortOrder):
        order = sort_order
    else:
        terms = _listed(sort_order)
        if any(isinstance(t, str) and _CURVE.fullmatch(t) for t in terms):
            raise InvalidInput(
                "Cannot mix identity sort columns and a Zorder sort expression",
                hint="Give zorder(…) or columns.",
            )
        order = build_sort_order(schema, terms, case_sensitive=case_sensitive)
    if order.is_unsorted:
        raise InvalidInput("sort_order names no column.", table=metadata.location)
    order_id = next((o.order_id for o in metadata.sort_orders if o.fields == order.fields), 0)
    return Sorting(schema, order, order_id=order_id)


def _by_curve(
    curve: str,
    names: Sequence[str],
    options: CompactionOptions,
    metadata: TableMetadata,
    schema: Schema,
    case_sensitive: bool,
) -> Sorting:
    if not names:
        hint = f"Write it as sort_order='{curve}(a, b)'."
        raise InvalidInput(
            f"Cannot {curve} when no columns are specified", hint=hint, table=metadata.location
        )
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(
            f"{curve} takes at most {MOST_COLUMNS} columns, not {len(names)}.",
            hint="More columns than four skip little.",
        )
    field_ids = []
    for name in names:
        field = schema.find_field(unquote(name), case_sensitive)
        path = [schema.by_id[p].field_type for p in schema.parents[field.field_id]]
        if any(isinstance(t, ListType | MapType) for t in path) or isinstance(
            field.field_type, StructType | ListType | MapType
        ):
            raise InvalidInput(
                f"Cannot use column {name} in {curve}: it is not a single value of its row.",
                column=name,
            )
        check_curve(name, field.field_type)
        field_ids.append(field.field_id)
    spec = metadata.spec_by_id(options.output_spec_id)
    by_partition = {f.source_id for f in spec.fields if str(f.transform) == "identity"}
    column_ids = tuple(i for i in dict.fromkeys(field_ids) if i not in by_partition)
    if not column_ids:
        text = f"Cannot {curve}, all columns provided were identity partition columns and cannot be used"
        raise InvalidInput(text, table=metadata.location)
    return Sorting(
        schema,
        curve=curve,
        columns=column_ids,
        text_bytes=options.text_bytes,
        key_bytes=options.key_bytes,
    )
