"""Group the equality delete files of a scan by the columns they compare, so that a read can
anti-join each group in one step.

Which delete applies to which data file is decided in `deletes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.bounds import MapColumn
from frazil.scan.deletes import DeleteIndex, Numbers
from frazil.scan.manifests import column_of
from frazil.spec.manifest import DataFile


@dataclass(frozen=True, eq=False)
class EqualityRelation:
    """Hold the delete files that compare the columns `ids`. Each applies to data files of a lower
    sequence number and of the same scope.

    `sequences`: one per delete file; None: all are younger than all data files. `scopes`: one per
    delete file; None: every data file is in scope. `nulls`: the columns whose deleted keys may be
    null.
    """

    ids: tuple[int, ...]
    deletes: tuple[DataFile, ...]
    sequences: Numbers | None
    scopes: Numbers | None
    nulls: frozenset[int]

    @property
    def rows(self) -> int:
        return sum(d.record_count for d in self.deletes)


def equality_relations(index: DeleteIndex, rows: Numbers) -> Iterator[EqualityRelation]:
    """Yield the relations that apply to these data files (their numbers in the index)."""
    reach, entries = index.reach, index.entries
    assert reach is not None, "files of a server's plan with equality deletes are read by Arrow"
    scopes, sequences = np.unique(reach.data_scopes[rows]), reach.data_sequences[rows]
    chosen = (
        index.used
        & entries.is_equality
        & (reach.delete_sequences > sequences.min(initial=np.iinfo(np.int64).max))
    )
    chosen &= reach.everywhere | np.isin(reach.delete_scopes, scopes)
    ids = pa.concat_arrays([column_of(t, "equality_ids") for _, t in entries.groups])
    by_columns: dict[tuple[Any, ...], list[int]] = {}
    for number, compared in zip(
        np.flatnonzero(chosen).tolist(), ids.filter(pa.array(chosen)).to_pylist(), strict=True
    ):
        by_columns.setdefault(
            (tuple(sorted(set(compared))), bool(reach.everywhere[number])), []
        ).append(number)
    for (columns, everywhere), delete_numbers in by_columns.items():
        numbers = np.array(delete_numbers, np.int64)
        delete_sequences, delete_scopes = (
            reach.delete_sequences[numbers],
            reach.delete_scopes[numbers],
        )
        yield EqualityRelation(
            columns,
            tuple(map(index.file, delete_numbers)),
            None if int(delete_sequences.min()) > int(sequences.max()) else delete_sequences,
            None
            if everywhere or (len(scopes) == 1 and bool((delete_scopes == scopes[0]).all()))
            else delete_scopes,
            frozenset(_may_be_null(index, numbers, columns)),
        )


def _may_be_null(index: DeleteIndex, numbers: Numbers, ids: tuple[int, ...]) -> Iterator[int]:
    tables = [t for _, t in index.entries.groups]
    rows = pa.concat_arrays([column_of(t, "record_count") for t in tables])
    for field_id in ids:
        values, nulls = (
            pa.concat_arrays([MapColumn(t.column(name)).at(field_id) for t in tables])
            for name in ("value_counts", "null_value_counts")
        )
        never = pc.and_(pc.equal(nulls, 0), pc.equal(values, rows)).take(pa.array(numbers))
        if not pc.all(pc.fill_null(never, False)).as_py():
            yield field_id
