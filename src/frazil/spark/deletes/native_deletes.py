"""Row-level deletes on Spark's own scan: positions and vectors as bitmaps, in a sub-query when few and in a broadcast join else, equality
deletes as anti joins.

Files without deletes are scanned apart and pay nothing. What cannot be done so is left to Arrow: keys inside structs, keys of types that
Spark lacks, and positions beyond what a broadcast should hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.arrow.deletes.apply_deletes import key_schema
from frazil.scan.deletes import DeleteIndex
from frazil.scan.equality_relations import EqualityRelation, equality_relations
from frazil.scan.plan import Plan
from frazil.scan.tasks import PlannedFiles
from frazil.spark.deletes import bitmaps
from frazil.spark.deletes.equality import COMPARABLE, SCOPE, SEQUENCE, Keys, comparable, null_safe_only, with_flag, without_deleted
from frazil.spark.deletes.one_bitmap import OneBitmap, fits
from frazil.spark.scan.file_keys import FileKeys
from frazil.spec import types as i
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.storage import Storage

NONE, POSITIONS, EQUALITY = range(3)  # what applies to a file; EQUALITY: equality deletes, perhaps positions as well
CHUNKS = 128 * 1024 * 1024 // bitmaps.BYTES  # bitmaps that one read broadcasts at most
_WIDER = ((i.IntegerType, i.LongType), (i.FloatType, i.DoubleType), (i.DateType, i.TimestampType))
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyColumns:
    """The columns that equality deletes compare: `fields` as the data is read, `schema` in the widest types they ever had."""

    fields: tuple[i.NestedField, ...]
    schema: Schema

    @property
    def dropped(self) -> bool:
        """Some columns are no longer in the table."""
        return any(f.name.startswith("\0") for f in self.fields)


def key_columns(plan: Plan) -> KeyColumns | None:
    """None: Spark cannot compare the keys of this plan's equality deletes."""
    known = key_schema(plan.metadata.schemas)
    tops, current = {f.field_id: f for f in known.fields}, {f.field_id: f for f in plan.schema.fields}
    fields = []
    for field_id in plan.equality_ids:
        if (key := tops.get(field_id)) is None or not isinstance(key.field_type, COMPARABLE):
            return None
        field = current.get(field_id, key)
        if not _becomes(field.field_type, key.field_type):
            return None
        fields.append(field)
    return KeyColumns(tuple(fields), known)


def _becomes(have: i.IcebergType, wanted: i.IcebergType) -> bool:
    if isinstance(have, i.DecimalType) and isinstance(wanted, i.DecimalType):
        return have.scale == wanted.scale and have.precision <= wanted.precision
    return have == wanted or any(isinstance(have, a) and isinstance(wanted, b) for a, b in _WIDER)


def kinds(planned: PlannedFiles) -> Numbers:
    """What applies to each file: NONE, POSITIONS or EQUALITY; -1: more than Spark's scan is asked to do."""
    numbers, index = planned.delete_numbers, planned.deletes
    if not isinstance(index, DeleteIndex):
        return np.where(numbers < 0, NONE, -1).astype(np.int64)
    some = numbers >= 0
    equality = some & (index.equality_counts[numbers] > 0)
    found = np.where(equality, EQUALITY, np.where(some, POSITIONS, NONE))
    chunks = np.where(some, most_chunks(planned), 0)
    return np.where(np.cumsum(chunks) * some > CHUNKS, -1, found).astype(np.int64)


def most_chunks(planned: PlannedFiles) -> Numbers:
    """Of each file how many bitmaps it has at most."""
    assert isinstance(planned.deletes, DeleteIndex)
    rows = planned.table.column("record_count").to_numpy()
    positions = planned.deletes.position_records[planned.delete_numbers]
    return np.asarray(np.minimum(positions, -(-rows // bitmaps.ROWS)), np.int64)


@dataclass(frozen=True, eq=False)
class Applied:
    """What is deleted from the files of one scan. `deleted`: without keys yet."""

    index: DeleteIndex
    rows: Numbers  # of each file its number in the index
    deleted: tuple[bitmaps.Deleted, ...]
    relations: tuple[EqualityRelation, ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[PlannedFiles, Sequence[int]]], kind: int) -> Applied:
        """Of these places in planned files, to all of which this kind applies."""
        index = parts[0][0].deletes
        assert isinstance(index, DeleteIndex)
        rows = np.concatenate([planned.delete_numbers[list(places)] for planned, places in parts])
        deleted = tuple(_deleted(parts, rows, index))
        return cls(index, rows, deleted, tuple(equality_relations(index, rows)) if kind == EQUALITY else ())

    @property
    def facts(self) -> dict[str, tuple[pa.Array, i.IcebergType]]:
        """What rows must have beside them of their files (`lookup.with_facts`)."""
        facts = {}
        if any(r.sequences is not None for r in self.relations):
            facts[SEQUENCE] = self.index.reach.data_sequences[self.rows]
        if any(r.scopes is not None for r in self.relations):
            facts[SCOPE] = self.index.reach.data_scopes[self.rows]
        return {name: (pa.array(numbers), i.LongType()) for name, numbers in facts.items()}

    @property
    def numbered(self) -> npt.NDArray[np.bool_]:
        """Of which files positions are deleted."""
        found = np.zeros(len(self.rows), np.bool_)
        found[[f.key for f in self.deleted]] = True
        return found

    def finished(
        self, scan: DataFrame, file_keys: FileKeys | None, columns: KeyColumns | None, value: Callable[[i.NestedField], Column],
        flag: str | None, storage: Storage, mapping: NameMapping | None,
    ) -> DataFrame:  # fmt: skip
        """Without deleted rows; with a `flag`, all rows and whether they are deleted. `value`: a column of the scan by its field. The scan
        has what `numbered` and `facts` say: keys (None: nothing needs them) were added first, as no join may stand before them."""
        flags = []
        deleted = [] if file_keys is None else [replace(f, key=int(file_keys.numbers[f.key])) for f in self.deleted]
        if deleted and file_keys is not None and fits(deleted):
            one = OneBitmap.of(deleted, file_keys, storage)
            scan = one.beside(scan)
            if flag is None:
                scan = scan.where(~one.is_deleted())
            else:
                flags.append(one.is_deleted())
        elif deleted:
            bits = bitmaps.bitmaps(scan.sparkSession, deleted, storage)
            if flag is None:
                scan = bitmaps.without_deleted(scan, bits)
            else:
                scan = bitmaps.joined(scan, bits)
                flags.append(bitmaps.is_deleted())
        if self.relations:
            assert columns is not None
            keys = Keys(columns.schema, storage, mapping)
            fields = {f.field_id: f for f in columns.fields}
            required = frozenset(n for n, f in fields.items() if f.required)
            values = {n: comparable(value(f), f.field_type, columns.schema.by_id[n].field_type) for n, f in fields.items()}
            for n, relation in enumerate(null_safe_only(r, required, storage) for r in self.relations):
                if flag is None:
                    scan = without_deleted(scan, relation, keys, values.__getitem__)
                else:
                    scan = with_flag(scan, relation, keys, values.__getitem__, f"{flag}_{n}")
                    flags.append(F.col(f"{flag}_{n}"))
        if flag is None:
            return scan
        found = F.lit(False)
        for f in flags:
            found = found | f
        return scan.withColumn(flag, found)


def _deleted(parts: Sequence[tuple[PlannedFiles, Sequence[int]]], rows: Numbers, index: DeleteIndex) -> Iterator[bitmaps.Deleted]:
    places = ((planned, place) for planned, chosen in parts for place in chosen)
    for at, ((planned, place), row) in enumerate(zip(places, rows.tolist(), strict=True)):
        deletes = tuple(index.file(int(n)) for n in index.numbers_of(row, equality=False))
        if deletes:
            yield bitmaps.Deleted(_bare(planned.entry(place)[0].data_file), at, deletes)


def _bare(file: Any) -> Any:
    """A data file without statistics: it travels to tasks."""
    return replace(
        file, column_sizes=None, value_counts=None, null_value_counts=None, nan_value_counts=None, lower_bounds=None, upper_bounds=None
    )
