"""Equality deletes as anti joins of Spark: key columns, null-safe where nulls can meet, with the sequence number where it decides.

Keys are compared in the widest type that a column ever had. Floats are compared as text, which tells -0.0 from 0.0 and knows one NaN.
Delete files in Parquet are read by Spark's own scan under names that no file has, so that nothing is pushed into them by name; others by
Arrow in tasks. Small ones are broadcast, large ones joined by sorting, which spills.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.deletes.delete_files import keys_of
from frazil.scan.equality_relations import EqualityRelation
from frazil.spark.host.workers import check_workers
from frazil.spark.scan.file_keys import counted
from frazil.spark.scan.lookup import with_facts
from frazil.spark.scan.parquet_scan import ScannedFiles, open_files
from frazil.spark.scan.paths import is_hidden, jvm_can_open
from frazil.spark.scan.presence import file_schemas, without_nulls
from frazil.spark.scan.shape import ID, read_type
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.types.arrow_types import arrow_schema
from frazil.spark.types.fitted import fitted
from frazil.spark.types.logical import from_file
from frazil.spark.types.spark_types import spark_type
from frazil.spec import types as i
from frazil.spec.data_file import DataFile
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.storage import Storage

COMPARABLE = (
    i.BooleanType, i.IntegerType, i.LongType, i.FloatType, i.DoubleType, i.DecimalType, i.DateType, i.TimestampType, i.TimestamptzType,
    i.StringType, i.UUIDType, i.BinaryType, i.FixedType,
)  # fmt: skip
SEQUENCE, SCOPE = "__frazil_sequence_number", "__frazil_scope"
_AGE, _PLACE = "__frazil_delete_sequence", "__frazil_delete_scope"
BROADCAST = 64 * 1024 * 1024  # bytes of keys, as a hash table holds them, that are broadcast
SORTED = 512 * 1024 * 1024  # above it Spark may not choose a broadcast by the size of the files
_PACK = 4 * 1024 * 1024
_FOOTERS = 64  # delete files whose footers are asked at most


@dataclass(frozen=True)
class Keys:
    """What is needed to read delete files: `schema` as `arrow.deletes.key_schema` gives it, of top-level columns."""

    schema: Schema
    storage: Storage
    mapping: NameMapping | None


def comparable(value: Column, have: i.IcebergType, wanted: i.IcebergType) -> Column:
    """A key column of the data, of the type it has in this read, in the words of `wanted`, the widest type it ever had."""
    if isinstance(wanted, i.FloatType | i.DoubleType):
        return value.cast("double").cast("string")
    return value if have == wanted else value.cast(spark_type(wanted))


def null_safe_only(relation: EqualityRelation, required: frozenset[int], storage: Storage) -> EqualityRelation:
    """The relation with `nulls` only where nulls can meet: not in columns that are required, nor in keys whose footers count no null. A
    null-safe comparison costs Spark its fast table of longs."""
    nulls = relation.nulls - required
    if nulls and len(relation.deletes) <= _FOOTERS and all(d.file_format == "parquet" and not d.key_metadata for d in relation.deletes):
        nulls = frozenset(n for n in nulls if not all(n in without_nulls(d.file_path, nulls, storage) for d in relation.deletes))
    return replace(relation, nulls=nulls)


def without_deleted(scan: DataFrame, relation: EqualityRelation, keys: Keys, values: Callable[[int], Column]) -> DataFrame:
    """The rows of a scan that no delete of the relation reaches. `values`: the comparable key column of an id."""
    deletes = _key_frame(scan.sparkSession, relation, keys)
    return scan.join(_hinted(deletes, relation), _condition(relation, values), "left_anti")


def with_flag(scan: DataFrame, relation: EqualityRelation, keys: Keys, values: Callable[[int], Column], flag: str) -> DataFrame:
    """All rows, and whether one of the deletes reaches them, as column `flag`."""
    deletes = _key_frame(scan.sparkSession, relation, keys)
    names = [_key(n) for n in relation.ids] + ([_PLACE] if relation.scopes is not None else [])
    newest = deletes.groupBy(*names).agg(F.max(_AGE if relation.sequences is not None else F.lit(0)).alias(flag))
    columns = [F.col(n).alias(f"{flag}_{n}") for n in names]
    condition = _condition(relation, values, lambda n: f"{flag}_{n}", age=None)
    beside = scan.join(_hinted(newest.select(*columns, F.col(flag)), relation), condition, "left").drop(*(f"{flag}_{n}" for n in names))
    found = F.col(flag).isNotNull() if relation.sequences is None else F.coalesce(F.col(SEQUENCE) < F.col(flag), F.lit(False))
    return beside.withColumn(flag, found)


def _condition(
    relation: EqualityRelation, values: Callable[[int], Column], name: Callable[[str], str] = str, age: str | None = _AGE
) -> Column:
    tests = []
    for field_id in relation.ids:
        ours, theirs = values(field_id), F.col(name(_key(field_id)))
        tests.append(ours.eqNullSafe(theirs) if field_id in relation.nulls else ours == theirs)
    if relation.scopes is not None:
        tests.append(F.col(SCOPE) == F.col(name(_PLACE)))
    if relation.sequences is not None and age is not None:
        tests.append(F.col(SEQUENCE) < F.col(age))
    return functools.reduce(lambda a, b: a & b, tests)


def _hinted(deletes: DataFrame, relation: EqualityRelation) -> DataFrame:
    size = max(relation.rows * (32 + 16 * len(relation.ids)), 4 * sum(d.size for d in relation.deletes))
    return F.broadcast(deletes) if size <= BROADCAST else deletes.hint("merge") if size > SORTED else deletes


def _key(field_id: int) -> str:
    return f"__frazil_key_{field_id}"


# Delete files --------------------------------------------------------------------------------------------------------------------------


def _key_frame(spark: Any, relation: EqualityRelation, keys: Keys) -> DataFrame:
    """The keys of a relation's delete files; beside them the sequence number and the scope of their file, where these decide."""
    schemes: dict[str, bool] = {}
    whole: list[int] = []
    rest: list[int] = []
    seen: set[str] = set()
    for n, d in enumerate(relation.deletes):
        usable = d.file_format == "parquet" and not d.key_metadata and not is_hidden(d.file_path) and d.file_path not in seen
        native = usable and jvm_can_open(spark, d.file_path, schemes, keys.storage) and _has_keys(d, relation.ids, keys)
        (whole if native else rest).append(n)
        seen.add(d.file_path)
    frames = []
    if whole:
        if (frame := _by_scan(spark, relation, whole, keys)) is not None:
            frames.append(frame)
        else:
            rest = [*whole, *rest]
    if rest:
        frames.append(_by_arrow(spark, relation, rest, keys))
    return functools.reduce(DataFrame.unionAll, frames)


def _has_keys(delete: DataFile, ids: Sequence[int], keys: Keys) -> bool:
    """Whether Spark's scan finds the keys by id. A file that lacks one is for Arrow, which reports it."""
    if keys.mapping is None and set(ids) <= set(delete.value_counts or ()):
        return True
    held = {n.field_id for n in file_schemas([delete.file_path], keys.storage)[delete.file_path].children}
    return set(ids) <= held


def _by_scan(spark: Any, relation: EqualityRelation, chosen: Sequence[int], keys: Keys) -> DataFrame | None:
    deletes = [relation.deletes[n] for n in chosen]
    types = {n: keys.schema.by_id[n].field_type for n in relation.ids}
    schema = s.StructType([s.StructField(_key(n), read_type(t, False, _key(n)), True, {ID: n}) for n, t in types.items()])
    extra = {_AGE: relation.sequences, _PLACE: relation.scopes}
    facts = {name: (pa.array(numbers[chosen]), i.LongType()) for name, numbers in extra.items() if numbers is not None}
    paths, sizes = [d.file_path for d in deletes], [d.file_size_in_bytes for d in deletes]
    opened = open_files(spark, schema, ScannedFiles(paths[0].rpartition("/")[0], paths, sizes, counted(len(paths)) if facts else None))
    scan = opened.frame
    columns = [comparable(from_file(F.col(_key(n)), t), t, t).alias(_key(n)) for n, t in types.items()]
    if facts:
        if (file_keys := opened.keys()) is None:
            return None
        scan = with_facts(file_keys.added(scan), file_keys.numbers, facts)
    return scan.select(*columns, *facts)


def _by_arrow(spark: Any, relation: EqualityRelation, chosen: Sequence[int], keys: Keys) -> DataFrame:
    check_workers(spark)
    types = {n: keys.schema.by_id[n].field_type for n in relation.ids}
    schema = s.StructType([s.StructField(_key(n), spark_type(t)) for n, t in types.items()])
    extra = {_AGE: relation.sequences, _PLACE: relation.scopes}
    numbers = {k: v[chosen] for k, v in extra.items() if v is not None}
    for name in numbers:
        schema = schema.add(name, s.LongType())
    packs: list[list[tuple[DataFile, list[int]]]] = []
    size = _PACK
    for at, n in enumerate(chosen):
        if size >= _PACK:
            packs.append([])
            size = 0
        packs[-1].append((relation.deletes[n], [int(v[at]) for v in numbers.values()]))
        size += relation.deletes[n].size
    frame = over_groups(spark, packs, schema, __name__, "read_keys", keys, relation.ids, arrow_schema(schema))
    columns = [comparable(F.col(_key(n)), t, t).alias(_key(n)) for n, t in types.items()]
    made: DataFrame = frame.select(*columns, *numbers)
    return made


def read_keys(
    _: int, deletes: Sequence[tuple[DataFile, list[int]]], keys: Keys, ids: Sequence[int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The worker's side: the keys of some delete files, each beside its file's facts."""
    fields = keys.schema.project(ids).fields
    for delete, facts in deletes:
        for columns in keys_of(delete, ids, fields, keys.storage, keys.mapping):
            count = len(columns[0])
            arrays = [*columns, *(pa.repeat(pa.scalar(v, pa.int64()), count) for v in facts)]
            yield fitted(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)
