"""Pair target rows with the source rows they match: by the index over the join keys, then by the
rest of the ON condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.values.evaluate import compute_over, evaluate
from frazil.expr.bound import TRUE, Bound, BoundCast, BoundReference
from frazil.rows.assign import at_path
from frazil.rows.bound_merge import BoundMerge
from frazil.rows.key_index import KeyIndex, Pairs, Rows, comparable_key, every_pair, index_on_disk
from frazil.rows.source import MergeSource
from frazil.spec.types import StringType, UUIDType


def as_side(batch: pa.RecordBatch, alias: str) -> pa.RecordBatch:
    """Wrap the columns of one side in the struct that bound expressions expect."""
    return pa.RecordBatch.from_arrays([batch.to_struct_array()], names=[alias])


def rows_where(condition: Bound, batch: pa.RecordBatch) -> Rows:
    """Return the numbers of the rows for which the condition is TRUE."""
    if condition == TRUE:
        return np.arange(batch.num_rows)
    matches = evaluate(condition, batch)
    return np.flatnonzero(matches.fill_null(False).to_numpy(zero_copy_only=False))


def key_values(keys: Sequence[Bound], side: pa.RecordBatch) -> list[pa.Array]:
    """Compute the comparable values of the keys of one side."""
    return [comparable_key(_values(k, side)) for k in keys]


def _values(key: Bound, side: pa.RecordBatch) -> pa.Array:
    inner = key.term if isinstance(key, BoundCast) and isinstance(key.type, StringType) else key
    if isinstance(inner, BoundReference) and isinstance(inner.type, UUIDType):
        return at_path(side, inner.path)  # readers return uuids as text, so no cast is needed
    return compute_over(key, side)


IN_MEMORY = 8_000_000  # rows of a source up to which its index is held in memory


def flags_of(rows: Rows, count: int) -> Any:
    flags = np.zeros(count, bool)
    flags[rows] = True
    return flags


@dataclass(frozen=True)
class Pairing:
    """Pair the rows of target batches with source rows; the key index is made once per process."""

    merge: BoundMerge
    source: MergeSource

    @property
    def index(self) -> KeyIndex:
        index: KeyIndex = self.source.fact(("index", self.merge.on), self._make_index)
        return index

    def _make_index(self) -> KeyIndex:
        safe = [k.null_safe for k in self.merge.on.keys]
        if self.source.num_rows > IN_MEMORY:
            wanted = (
                None if self.candidates is None else flags_of(self.candidates, self.source.num_rows)
            )
            return index_on_disk(self._keys(), safe, self._keys_at, wanted)
        parts = list(self._keys())
        if not parts:
            return KeyIndex.of([pa.array([], pa.int64()) for _ in safe], safe)
        return KeyIndex.of(
            [pa.concat_arrays(column) for column in zip(*parts, strict=True)], safe, self.candidates
        )

    def _keys(self) -> Iterator[list[pa.Array]]:
        """Yield the comparable keys of the source, batch by batch."""
        for batch in self.source.batches(self.key_names):
            yield self._keys_of(batch)

    def _keys_at(self, rows: Rows) -> list[pa.Array]:
        return self._keys_of(self.source.take(rows, self.key_names))

    def _keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return key_values(
            [k.source for k in self.merge.on.keys], as_side(batch, self.merge.sides.source_alias)
        )

    @property
    def candidates(self) -> Rows | None:
        """Return the source rows that meet the source-only parts of ON; None: all of them."""
        if self.merge.on.of_source == TRUE:
            return None
        candidates: Rows = self.source.fact(
            ("candidates", self.merge.on.of_source), self._find_candidates
        )
        return candidates

    def _find_candidates(self) -> Rows:
        pieces, first = [np.zeros(0, np.int64)], 0
        for batch in self.source.batches(
            self.merge.names_of_source([self.merge.on.of_source]) or self._any_name
        ):
            pieces.append(
                first
                + rows_where(self.merge.on.of_source, as_side(batch, self.merge.sides.source_alias))
            )
            first += batch.num_rows
        return np.concatenate(pieces)

    @property
    def key_names(self) -> list[str]:
        return self.merge.names_of_source([k.source for k in self.merge.on.keys])

    @property
    def _any_name(self) -> list[str]:
        return [f.name for f in self.merge.sides.source.fields[:1]]

    def pairs(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        """Yield (rows of the batch, rows of the source) that match, some at a time. `target`: a
        batch as the target side.
        """
        on = self.merge.on
        if on.never or not target.num_rows or not self.source.num_rows:
            return
        rows = rows_where(on.of_target, target)
        for target_rows, source_rows in self._pairs_by_keys(target, rows):
            if on.rest != TRUE:
                matched = rows_where(
                    on.rest,
                    self.pair(
                        target, target_rows, source_rows, self.merge.names_of_source([on.rest])
                    ),
                )
                target_rows, source_rows = target_rows[matched], source_rows[matched]
            if len(target_rows):
                yield target_rows, source_rows

    def _pairs_by_keys(self, target: pa.RecordBatch, rows: Rows) -> Iterator[Pairs]:
        on = self.merge.on
        if not on.keys:
            candidates = self.candidates
            for target_rows, source_rows in every_pair(
                rows, self.source.num_rows if candidates is None else len(candidates)
            ):
                yield target_rows, source_rows if candidates is None else candidates[source_rows]
            return
        tested = target if len(rows) == target.num_rows else target.take(pa.array(rows))
        for target_rows, source_rows in self.index.pairs(
            key_values([k.target for k in on.keys], tested)
        ):
            yield (target_rows if tested is target else rows[target_rows]), source_rows

    def pair(
        self, target: pa.RecordBatch, target_rows: Rows, source_rows: Rows, names: Sequence[str]
    ) -> pa.RecordBatch:
        """Join paired rows into one batch: the target's columns, and these columns of the source."""
        source_columns = self.source.take(source_rows, names)
        return beside(
            target.take(pa.array(target_rows)), source_columns, self.merge.sides.source_alias
        )


def beside(target: pa.RecordBatch, source: pa.RecordBatch, alias: str) -> pa.RecordBatch:
    """Add the source side to a batch of the target side."""
    columns: list[Any] = [*target.columns, source.to_struct_array()]
    return pa.RecordBatch.from_arrays(columns, names=[*target.schema.names, alias])
