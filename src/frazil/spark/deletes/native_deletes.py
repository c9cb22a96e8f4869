"""Apply row-level deletes to Spark's own Parquet scan: position deletes and deletion vectors as
bitmaps (in a sub-query when there are few, else in a broadcast join), equality deletes as anti
joins.

Files without deletes are scanned apart, without any of this, unless their rows are few
(`read.native_read`). Three cases are left to the Arrow reader: equality keys inside structs, keys
of types that Spark lacks, and more positions than a broadcast should hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

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
from frazil.spark.deletes.equality import (
    COMPARABLE,
    SCOPE,
    SEQUENCE,
    EqualityKeys,
    comparable,
    null_safe_only,
    with_flag,
    without_deleted,
)
from frazil.spark.deletes.one_bitmap import OneBitmap, fits
from frazil.spark.scan.file_columns import writes_brotli
from frazil.spark.scan.file_keys import FileKeys
from frazil.spec import types as i
from frazil.spec.manifest import without_statistics
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.storage import Storage

# the kinds of deletes that apply to a file; EQUALITY: equality deletes, with or without positions
NONE, POSITIONS, EQUALITY = range(3)
CHUNKS = 128 * 1024 * 1024 // bitmaps.BYTES  # bitmaps that one read broadcasts, at most
_PROMOTIONS = (
    (i.IntegerType, i.LongType),
    (i.FloatType, i.DoubleType),
    (i.DateType, i.TimestampType),
)
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyColumns:
    """Hold the columns that equality deletes compare: `fields` as the data is read, `schema` in the
    widest types they ever had. `may_be_brotli`: as for EqualityKeys.
    """

    fields: tuple[i.NestedField, ...]
    schema: Schema
    may_be_brotli: bool = False

    @property
    def dropped(self) -> bool:
        """Return whether some of the columns were dropped from the table."""
        return any(f.name.startswith("\0") for f in self.fields)


def key_columns(plan: Plan) -> KeyColumns | None:
    """Return the key columns of a plan's equality deletes; None where Spark cannot compare them."""
    keys = key_schema(plan.metadata.schemas, plan.schema)
    tops, current = (
        {f.field_id: f for f in keys.fields},
        {f.field_id: f for f in plan.schema.fields},
    )
    fields = []
    for field_id in plan.equality_ids:
        if (key := tops.get(field_id)) is None or not isinstance(key.field_type, COMPARABLE):
            return None
        field = current.get(field_id, key)
        if not _is_promoted(field.field_type, key.field_type):
            return None
        fields.append(field)
    return KeyColumns(tuple(fields), keys, writes_brotli(plan.metadata))


def _is_promoted(have: i.IcebergType, target: i.IcebergType) -> bool:
    """Tell whether a type is `target`, or Iceberg's type promotion leads from it to `target`."""
    if isinstance(have, i.DecimalType) and isinstance(target, i.DecimalType):
        return have.scale == target.scale and have.precision <= target.precision
    return have == target or any(
        isinstance(have, a) and isinstance(target, b) for a, b in _PROMOTIONS
    )


def kinds(planned: PlannedFiles) -> Numbers:
    """Return which deletes apply to each file: NONE, POSITIONS or EQUALITY; -1 where the file is
    left to the Arrow reader.
    """
    numbers, index = planned.delete_numbers, planned.deletes
    if not isinstance(index, DeleteIndex):
        return np.where(numbers < 0, NONE, -1).astype(np.int64)
    has_deletes = numbers >= 0
    equality = has_deletes & (index.equality_counts[numbers] > 0)
    # without sequence numbers, one anti join cannot tell which files a delete applies to
    kind = -1 if index.reach is None else EQUALITY
    by_file = np.where(equality, kind, np.where(has_deletes, POSITIONS, NONE))
    chunks = np.where(has_deletes, most_chunks(planned), 0)
    return np.where(np.cumsum(chunks) * has_deletes > CHUNKS, -1, by_file).astype(np.int64)


def most_chunks(planned: PlannedFiles) -> Numbers:
    """Return an upper bound of the number of bitmaps (chunks with deletes) of each file."""
    assert isinstance(planned.deletes, DeleteIndex)
    rows = planned.table.column("record_count").to_numpy()
    positions = planned.deletes.position_records[planned.delete_numbers]
    return np.asarray(np.minimum(positions, -(-rows // bitmaps.ROWS)), np.int64)


@dataclass(frozen=True, eq=False)
class ScanDeletes:
    """Hold the deletes that apply to the files of one scan. `deleted`: files with deleted
    positions, to which keys are assigned later.
    """

    index: DeleteIndex
    delete_numbers: Numbers  # per file, as in PlannedFiles
    deleted: tuple[bitmaps.Deleted, ...]
    relations: tuple[EqualityRelation, ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[PlannedFiles, Sequence[int]]], kind: int) -> ScanDeletes:
        """Collect the deletes of the chosen files of each part. Deletes of one kind apply to all
        files of the first part, and to those of the others the same kind or none."""
        index = parts[0][0].deletes
        assert isinstance(index, DeleteIndex)
        rows = np.concatenate([planned.delete_numbers[list(places)] for planned, places in parts])
        deleted = tuple(_deleted(parts, rows, index))
        return cls(
            index, rows, deleted, tuple(equality_relations(index, rows)) if kind == EQUALITY else ()
        )

    @property
    def facts(self) -> dict[str, tuple[pa.Array, i.IcebergType]]:
        """Return the facts of files that rows need beside them (`lookup.with_facts`): sequence
        number and scope, by column name.
        """
        facts, reach = {}, self.index.reach
        if reach is None:
            return {}
        if any(r.sequences is not None for r in self.relations):
            facts[SEQUENCE] = reach.data_sequences[self.delete_numbers]
        if any(r.scopes is not None for r in self.relations):
            facts[SCOPE] = reach.data_scopes[self.delete_numbers]
        return {name: (pa.array(numbers), i.LongType()) for name, numbers in facts.items()}

    @property
    def numbered(self) -> npt.NDArray[np.bool_]:
        """Return, for each file, whether positions are deleted from it, so that its rows must be
        numbered.
        """
        has_positions = np.zeros(len(self.delete_numbers), np.bool_)
        has_positions[[f.key for f in self.deleted]] = True
        return has_positions

    def apply_to(
        self,
        scan: DataFrame,
        file_keys: FileKeys | None,
        columns: KeyColumns | None,
        value: Callable[[i.NestedField], Column],
        flag: str | None,
        storage: Storage,
        mapping: NameMapping | None,
    ) -> DataFrame:
        """Drop the deleted rows of a scan; with a `flag`, keep all rows and add a column of that
        name that tells whether they are deleted.

        `value`: the column of the scan for a field. The scan has the columns that `numbered` and
        `facts` call for. File keys (None where nothing needs them) were added before, because Spark
        offers the metadata they come from only directly on a scan, not after a join.
        """
        flags = []
        deleted = (
            []
            if file_keys is None
            else [replace(f, key=int(file_keys.numbers[f.key])) for f in self.deleted]
        )
        if deleted and file_keys is not None and fits(deleted):
            bitmap = OneBitmap.of(deleted, file_keys, storage)
            scan = bitmap.beside(scan)
            if flag is None:
                scan = scan.where(~bitmap.is_deleted())
            else:
                flags.append(bitmap.is_deleted())
        elif deleted:
            bits = bitmaps.bitmaps(scan.sparkSession, deleted, storage)
            if flag is None:
                scan = bitmaps.without_deleted(scan, bits)
            else:
                scan = bitmaps.joined(scan, bits)
                flags.append(bitmaps.is_deleted())
        if self.relations:
            assert columns is not None
            keys = EqualityKeys(columns.schema, storage, mapping, columns.may_be_brotli)
            fields = {f.field_id: f for f in columns.fields}
            required = frozenset(field_id for field_id, f in fields.items() if f.required)
            types = {field_id: columns.schema.by_id[field_id].field_type for field_id in fields}
            values = {
                field_id: comparable(value(f), f.field_type, types[field_id])
                for field_id, f in fields.items()
            }
            for number, relation in enumerate(
                null_safe_only(r, required, storage) for r in self.relations
            ):
                if flag is None:
                    scan = without_deleted(scan, relation, keys, values.__getitem__)
                else:
                    scan = with_flag(scan, relation, keys, values.__getitem__, f"{flag}_{number}")
                    flags.append(F.col(f"{flag}_{number}"))
        if flag is None:
            return scan
        is_deleted = F.lit(False)
        for f in flags:
            is_deleted = is_deleted | f
        return scan.withColumn(flag, is_deleted)


def _deleted(
    parts: Sequence[tuple[PlannedFiles, Sequence[int]]], rows: Numbers, index: DeleteIndex
) -> Iterator[bitmaps.Deleted]:
    """Yield the files that have position deletes, with those."""
    places = ((planned, place) for planned, chosen in parts for place in chosen)
    for n, ((planned, place), row) in enumerate(zip(places, rows.tolist(), strict=True)):
        deletes = (
            tuple(index.file(int(d)) for d in index.numbers_of(row, equality=False))
            if row >= 0
            else ()
        )
        if deletes:
            # the file is pickled with tasks, which do not need its statistics
            data_file = without_statistics(planned.entry(place)[0].data_file)
            yield bitmaps.Deleted(data_file, n, deletes)
