"""Apply equality deletes as anti joins of Spark: on the key columns, null-safe where both sides may
hold nulls, and by sequence number where a delete may be older than some of the rows.

Keys are compared in the widest type that a column ever had. Floats are compared as text, which
tells -0.0 from 0.0 and has a single NaN. Parquet delete files are read by Spark's own scan, under
column names that no file has, so that Spark pushes no filter into them by name; other files are
read by Arrow in tasks. Small delete files are broadcast, large ones joined by a sort-merge join,
which spills to disk. Data files that Spark's scan cannot read get the same deletes in
`frazil.arrow.deletes.apply_deletes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.deletes.delete_files import keys_of
from frazil.ops.session import Session
from frazil.scan.equality_relations import EqualityRelation
from frazil.spark.host.workers import check_workers
from frazil.spark.scan.file_columns import file_schemas, in_brotli, without_nulls
from frazil.spark.scan.file_keys import counted, with_facts
from frazil.spark.scan.parquet_scan import ScannedFiles, open_files
from frazil.spark.scan.paths import Answers, hadoop_options, is_hidden, jvm_can_open
from frazil.spark.scan.read_schema import ID, read_type
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.spark.types.logical import from_file
from frazil.spark.types.spark_types import spark_type
from frazil.spec import types as i
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.storage import Storage

COMPARABLE = (
    i.BooleanType, i.IntegerType, i.LongType, i.FloatType, i.DoubleType, i.DecimalType, i.DateType, i.TimestampType, i.TimestamptzType,
    i.StringType, i.UUIDType, i.BinaryType, i.FixedType,
)  # fmt: skip
"""Types of key columns that Spark can compare."""
# columns of data rows: the sequence number and partition of their file
SEQUENCE, SCOPE = (
    "__frazil_sequence_number",
    "__frazil_scope",
)
# columns of deleted keys: those of their delete file
_DELETE_SEQUENCE, _DELETE_SCOPE = (
    "__frazil_delete_sequence",
    "__frazil_delete_scope",
)
# bytes of keys, as a hash table holds them, that are broadcast at most
BROADCAST = 64 * 1024 * 1024
# above these bytes a sort-merge join is asked for, as Spark might choose a broadcast by the size of
# the files
SORTED = 512 * 1024 * 1024
_PACK = 4 * 1024 * 1024  # bytes of delete files per task
_FOOTERS = 64  # delete files whose footers are read for null counts, at most


@dataclass(frozen=True)
class EqualityKeys:
    """Hold what reading delete files needs. `schema`: top-level key columns, as
    `arrow.deletes.apply_deletes.key_schema` gives them; `may_be_brotli`: the files may be
    compressed by a codec that Spark lacks.
    """

    schema: Schema
    storage: Storage
    mapping: NameMapping | None
    may_be_brotli: bool = False


def comparable(value: Column, have: i.IcebergType, target: i.IcebergType) -> Column:
    """Convert a key column from its type in this read to the form in which keys are compared: its
    widest type ever, floats as text.
    """
    if isinstance(target, i.FloatType | i.DoubleType):
        return value.cast("double").cast("string")
    return value if have == target else value.cast(spark_type(target))


def null_safe_only(
    relation: EqualityRelation, required: frozenset[int], storage: Storage
) -> EqualityRelation:
    """Return the relation with `nulls` only for columns in which a null may equal a null: those
    that are not required, and that the footers of the delete files do not all count as free of
    nulls.

    Spark's fast hash table of longs takes plain equality only, so a null-safe comparison that is
    not needed slows the join down.
    """
    nulls = relation.nulls - required
    if (
        nulls
        and len(relation.deletes) <= _FOOTERS
        and all(d.file_format == "parquet" and not d.key_metadata for d in relation.deletes)
    ):
        nulls = frozenset(
            n
            for n in nulls
            if not all(n in without_nulls(d.file_path, nulls, storage) for d in relation.deletes)
        )
    return replace(relation, nulls=nulls)


def without_deleted(
    scan: DataFrame, relation: EqualityRelation, keys: EqualityKeys, values: Callable[[int], Column]
) -> DataFrame:
    """Drop the rows of a scan that the relation deletes. `values`: the comparable key column of a
    field id.
    """
    deletes = _key_frame(scan.sparkSession, relation, keys)
    return scan.join(_hinted(deletes, relation), _condition(relation, values), "left_anti")


def with_flag(
    scan: DataFrame,
    relation: EqualityRelation,
    keys: EqualityKeys,
    values: Callable[[int], Column],
    flag: str,
) -> DataFrame:
    """Keep all rows of a scan and add a column `flag` that tells whether the relation deletes the
    row.
    """
    deletes = _key_frame(scan.sparkSession, relation, keys)
    names = [_key(n) for n in relation.ids] + (
        [_DELETE_SCOPE] if relation.scopes is not None else []
    )
    newest = deletes.groupBy(*names).agg(
        F.max(_DELETE_SEQUENCE if relation.sequences is not None else F.lit(0)).alias(flag)
    )
    columns = [F.col(n).alias(f"{flag}_{n}") for n in names]
    condition = _condition(relation, values, lambda n: f"{flag}_{n}", age=None)
    joined = scan.join(
        _hinted(newest.select(*columns, F.col(flag)), relation), condition, "left"
    ).drop(*(f"{flag}_{n}" for n in names))
    deleted = (
        F.col(flag).isNotNull()
        if relation.sequences is None
        else F.coalesce(F.col(SEQUENCE) < F.col(flag), F.lit(False))
    )
    return joined.withColumn(flag, deleted)


def _condition(
    relation: EqualityRelation,
    values: Callable[[int], Column],
    name: Callable[[str], str] = str,
    age: str | None = _DELETE_SEQUENCE,
) -> Column:
    """Return the condition under which a delete of the relation applies to a row. `name`: renames
    columns of the deletes; `age`: the column of their sequence number, None where the newest delete
    of a key is compared afterwards."""
    tests = []
    for field_id in relation.ids:
        of_data, of_delete = values(field_id), F.col(name(_key(field_id)))
        tests.append(
            of_data.eqNullSafe(of_delete) if field_id in relation.nulls else of_data == of_delete
        )
    if relation.scopes is not None:
        tests.append(F.col(SCOPE) == F.col(name(_DELETE_SCOPE)))
    if relation.sequences is not None and age is not None:
        tests.append(F.col(SEQUENCE) < F.col(age))
    return functools.reduce(lambda a, b: a & b, tests)


def _hinted(deletes: DataFrame, relation: EqualityRelation) -> DataFrame:
    """Ask for a broadcast of few deletes and for a sort-merge join of very many; in between Spark
    chooses.
    """
    size = max(
        relation.rows * (32 + 16 * len(relation.ids)), 4 * sum(d.size for d in relation.deletes)
    )
    return (
        F.broadcast(deletes)
        if size <= BROADCAST
        else deletes.hint("merge")
        if size > SORTED
        else deletes
    )


def _key(field_id: int) -> str:
    """Return the name of the column of a key."""
    return f"__frazil_key_{field_id}"


# Delete files
# --------------------------------------------------------------------------------------------------


def _key_frame(spark: Session, relation: EqualityRelation, keys: EqualityKeys) -> DataFrame:
    """Return the keys of a relation's delete files, with the sequence number and the scope of their
    file where these decide.
    """
    answers: Answers = {}
    by_spark: list[int] = []
    by_arrow: list[int] = []
    seen: set[str] = set()
    for n, d in enumerate(relation.deletes):
        usable = (
            d.file_format == "parquet"
            and not d.key_metadata
            and not is_hidden(d.file_path)
            and d.file_path not in seen
        )
        native = (
            usable
            and jvm_can_open(spark, d.file_path, answers, keys.storage)
            and _has_keys(d, relation.ids, keys)
            and not (keys.may_be_brotli and in_brotli([d.file_path], keys.storage))
        )
        (by_spark if native else by_arrow).append(n)
        seen.add(d.file_path)
    frames = []
    if by_spark:
        if (frame := _by_scan(spark, relation, by_spark, keys)) is not None:
            frames.append(frame)
        else:
            by_arrow = [*by_spark, *by_arrow]
    if by_arrow:
        frames.append(_by_arrow(spark, relation, by_arrow, keys))
    return functools.reduce(DataFrame.unionAll, frames)


def _has_keys(delete: DataFile, ids: Sequence[int], keys: EqualityKeys) -> bool:
    """Return whether Spark's scan finds all keys by field id. A file that lacks one is left to
    Arrow, which takes it for null.
    """
    if keys.mapping is None and set(ids) <= set(delete.value_counts or ()):
        return True
    ids_in_file = {
        n.field_id
        for n in file_schemas([delete.file_path], keys.storage)[delete.file_path].children
    }
    return set(ids) <= ids_in_file


def _by_scan(
    spark: Session, relation: EqualityRelation, chosen: Sequence[int], keys: EqualityKeys
) -> DataFrame | None:
    """Read the keys of the chosen delete files by Spark's scan; None where it cannot name the
    file of a row, of which the sequence number is needed.
    """
    deletes = [relation.deletes[n] for n in chosen]
    types = {n: keys.schema.by_id[n].field_type for n in relation.ids}
    schema = s.StructType(
        [
            s.StructField(_key(n), read_type(t, False, _key(n)), True, {ID: n})
            for n, t in types.items()
        ]
    )
    extra = {_DELETE_SEQUENCE: relation.sequences, _DELETE_SCOPE: relation.scopes}
    facts = {
        name: (pa.array(numbers[chosen]), i.LongType())
        for name, numbers in extra.items()
        if numbers is not None
    }
    paths, sizes = [d.file_path for d in deletes], [d.file_size_in_bytes for d in deletes]
    rows = [d.record_count for d in deletes]
    numbers, store = (
        counted(len(paths)) if facts else None,
        hadoop_options(spark, paths, keys.storage),
    )
    opened = open_files(
        spark,
        schema,
        ScannedFiles(paths[0].rpartition("/")[0], paths, sizes, rows, numbers, hadoop=store),
    )
    scan = opened.frame
    columns = [
        comparable(from_file(F.col(_key(n)), t), t, t).alias(_key(n)) for n, t in types.items()
    ]
    if facts:
        if (file_keys := opened.keys()) is None:
            return None
        scan = with_facts(file_keys.added(scan), file_keys.numbers, facts)
    return scan.select(*columns, *facts)


def _by_arrow(
    spark: Session, relation: EqualityRelation, chosen: Sequence[int], keys: EqualityKeys
) -> DataFrame:
    """Read the keys of the chosen delete files by Arrow in tasks."""
    check_workers(spark)
    types = {field_id: keys.schema.by_id[field_id].field_type for field_id in relation.ids}
    schema = s.StructType(
        [s.StructField(_key(field_id), spark_type(t)) for field_id, t in types.items()]
    )
    extra = {_DELETE_SEQUENCE: relation.sequences, _DELETE_SCOPE: relation.scopes}
    numbers = {k: v[chosen] for k, v in extra.items() if v is not None}
    for name in numbers:
        schema = schema.add(name, s.LongType())
    packs: list[list[tuple[DataFile, list[int]]]] = []
    size = _PACK
    for place, number in enumerate(chosen):
        if size >= _PACK:
            packs.append([])
            size = 0
        packs[-1].append((relation.deletes[number], [int(v[place]) for v in numbers.values()]))
        size += relation.deletes[number].size
    frame = over_groups(
        spark, packs, schema, __name__, "read_keys", keys, relation.ids, arrow_schema(schema)
    )
    columns = [
        comparable(F.col(_key(field_id)), t, t).alias(_key(field_id))
        for field_id, t in types.items()
    ]
    selected: DataFrame = frame.select(*columns, *numbers)
    return selected


def read_keys(
    _: int,
    deletes: Sequence[tuple[DataFile, list[int]]],
    keys: EqualityKeys,
    ids: Sequence[int],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield in a worker the keys of some delete files, each row with the facts of its file
    (sequence number, scope).
    """
    fields = keys.schema.project(ids).fields
    for delete, facts in deletes:
        for columns in keys_of(delete, ids, fields, keys.storage, keys.mapping):
            count = len(columns[0])
            arrays = [*columns, *(pa.repeat(pa.scalar(v, pa.int64()), count) for v in facts)]
            yield fitted(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)
