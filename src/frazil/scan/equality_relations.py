"""Equality deletes of a scan as relations: delete files that compare the same columns, and what decides whether one reaches a data file."""

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
from frazil.spec.data_file import DataFile


@dataclass(frozen=True, eq=False)
class EqualityRelation:
    """Delete files that compare the columns `ids`. A delete file reaches a data file of a lower sequence number, and of the same scope.

    `sequences`: of each delete file; None: every one is younger than all data files. `scopes`: of each; None: every data file is in scope.
    `nulls`: the columns of which some delete may be null.
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
    """The relations of these data files (their numbers in the index)."""
    reach, entries = index.reach, index.entries
    scopes, sequences = np.unique(reach.data_scopes[rows]), reach.data_sequences[rows]
    chosen = index.used & entries.is_equality & (reach.delete_sequences > sequences.min(initial=np.iinfo(np.int64).max))
    chosen &= reach.everywhere | np.isin(reach.delete_scopes, scopes)
    ids = pa.concat_arrays([column_of(t, "equality_ids") for _, t in entries.groups])
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for number, compared in zip(np.flatnonzero(chosen).tolist(), ids.filter(pa.array(chosen)).to_pylist(), strict=True):
        kinds.setdefault((tuple(sorted(set(compared))), bool(reach.everywhere[number])), []).append(number)
    for (columns, everywhere), numbers in kinds.items():
        mine = np.array(numbers, np.int64)
        ages, places = reach.delete_sequences[mine], reach.delete_scopes[mine]
        yield EqualityRelation(
            columns,
            tuple(map(index.file, numbers)),
            None if int(ages.min()) > int(sequences.max()) else ages,
            None if everywhere or (len(scopes) == 1 and bool((places == scopes[0]).all())) else places,
            frozenset(_may_be_null(index, mine, columns)),
        )


def _may_be_null(index: DeleteIndex, numbers: Numbers, ids: tuple[int, ...]) -> Iterator[int]:
    tables = [t for _, t in index.entries.groups]
    for field_id in ids:
        counts = pa.concat_arrays([MapColumn(t.column("null_value_counts")).at(field_id) for t in tables]).take(pa.array(numbers))
        if not pc.all(pc.fill_null(pc.equal(counts, 0), False)).as_py():
            yield field_id
