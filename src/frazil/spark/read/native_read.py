"""A plan as a DataFrame on Spark's own Parquet scan, with the Arrow path beside it for files that the scan cannot read."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.read.metadata_columns import UNSETTLED
from frazil.errors import FrazilError
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate, names
from frazil.expr.parse import parse
from frazil.expr.quoted import columns_of, refuse_columns
from frazil.scan.columns import metadata_columns
from frazil.scan.plan import Plan
from frazil.spark.deletes.native_deletes import EQUALITY, NONE, Applied, KeyColumns, key_columns
from frazil.spark.host.expression_text import check_text
from frazil.spark.host.settings import is_ansi, session_zone
from frazil.spark.host.sql_text import filtered
from frazil.spark.read.arrow_read import arrow_frame
from frazil.spark.read.groups import ScanGroup, mapping_of, split
from frazil.spark.scan import lookup
from frazil.spark.scan.canary import still_by_id
from frazil.spark.scan.file_keys import ROW_INDEX, by_rows
from frazil.spark.scan.narrowing import Narrowing
from frazil.spark.scan.parquet_scan import ScannedFiles, open_files
from frazil.spark.scan.quick_columns import shown_columns
from frazil.spark.scan.shape import Shape, read_type, shape_of, without_ids
from frazil.spark.types.logical import from_file, is_rebuilt, pruned
from frazil.spark.types.spark_types import contains, spark_type, time_enabled
from frazil.spec import types as i
from frazil.spec.schema import METADATA_COLUMNS, Schema
from frazil.spec.transforms import IdentityTransform
from frazil.storage import Storage
from frazil.storage.locations import scheme_of

_ROW_ID, _UPDATED, _POS, _FIRST, _SEQUENCE = "__frazil_row_id", "__frazil_updated", "__frazil_pos", "__frazil_first", "__frazil_sequence"
_FLOATS = (i.FloatType, i.DoubleType)
_FILE, _DELETED = "__frazil_file", "__frazil_deleted"


@dataclass(frozen=True)
class _Wanted:
    """What the scans must give: table columns (whole, when a filter may look inside), and metadata columns."""

    columns: tuple[i.NestedField, ...]
    extra: tuple[i.NestedField, ...]
    time: bool

    @property
    def names(self) -> frozenset[str]:
        return frozenset(f.name for f in self.extra)

    @property
    def schema(self) -> Schema:
        return Schema(*self.columns, *self.extra)


def read(
    spark: Any,
    plan: Plan,
    *,
    projection: Schema,
    storage: Storage,
    where: str | Column | Predicate | None = None,
    case_sensitive: bool | None = None,
    limit: int | None = None,
) -> DataFrame:
    """The rows of a plan, lazily. `projection`: columns that come out, metadata columns among them. `where`: the exact filter.

    Raises Unsupported for columns Spark has no type for. `case_sensitive` is the session's affair once the plan is made.
    """
    wanted = _wanted(spark, plan, projection, where)
    keys = key_columns(plan) if plan.equality_ids else None
    shapes = _shapes(plan, wanted, keys)
    groups, rest = split(spark, plan, shapes[NONE], storage, shapes.get(EQUALITY))
    frames, narrowing = [], Narrowing(plan)
    for merged in _merged(groups, wanted):
        shape = shapes.get(merged[0].deletes, shapes[NONE])
        if (frame := _scan(spark, plan, shape, merged, wanted, storage, keys, narrowing)) is not None:
            frames.append(frame)
        else:
            rest += [g.planned.chosen(g.rows) for g in merged]
    if rest:
        frames.append(arrow_frame(spark, plan, rest, wanted.schema, storage, wanted.time))
    if not frames:
        frames.append(spark.createDataFrame([], s.StructType([_shown(f, wanted.time) for f in wanted.schema.fields])))
    frame = functools.reduce(DataFrame.unionAll, frames)
    if where is not None and not isinstance(where, AlwaysTrue):
        frame = filtered(frame, where)
    frame = projected(frame, wanted.schema, projection)
    return frame if limit is None else frame.limit(limit)


def pruning_predicate(spark: Any, row_filter: Any, schema: Schema, case_sensitive: bool) -> Predicate:
    """The part of a filter that planning can use: the filter itself when Frazil's grammar has it, else AlwaysTrue.

    Raises InvalidInput for a text in double quotes that is the name of a column, ParseError for a text that is no expression.
    """
    refuse_columns(row_filter, columns_of(schema, case_sensitive))
    if (found := understood(spark, row_filter, schema, case_sensitive)) is not None:
        return found
    if isinstance(row_filter, str):
        check_text(spark, row_filter)
    return AlwaysTrue()


def understood(spark: Any, row_filter: Any, schema: Schema, case_sensitive: bool) -> Predicate | None:
    """A filter for planning, None for one that is beyond Frazil's grammar.

    Spark evaluates the filter anyway. A constant without zone against a column with one means the session's zone; where that is not UTC
    planning is not asked.
    """
    try:
        predicate = parse(row_filter) if isinstance(row_filter, str) else row_filter
        if not isinstance(predicate, Predicate):
            return None
        bind(predicate, schema, case_sensitive=case_sensitive, ansi=is_ansi(spark))
    except FrazilError:
        return None
    zoned = any((f := schema.get_field(n, case_sensitive)) and isinstance(f.field_type, i.TimestamptzType) for n in names(predicate))
    return AlwaysTrue() if zoned and session_zone(spark) not in ("UTC", "Etc/UTC", "Z") else predicate


def pruning(spark: Any, row_filter: Any, schema: Schema, case_sensitive: bool) -> tuple[Predicate, str]:
    """The part of a filter that planning can use, and the zone to plan in: the session's, where Frazil knows it. Raises InvalidInput for a
    text in double quotes that is the name of a column, ParseError for one that is no expression."""
    refuse_columns(row_filter, columns_of(schema, case_sensitive))
    zone = session_zone(spark)
    try:
        predicate = parse(row_filter) if isinstance(row_filter, str) else row_filter
        if not isinstance(predicate, Predicate):
            return AlwaysTrue(), "UTC"
        bind(predicate, schema, case_sensitive=case_sensitive, zone=zone, ansi=is_ansi(spark))
    except FrazilError:
        return pruning_predicate(spark, row_filter, schema, case_sensitive), "UTC"
    return predicate, zone


def _wanted(spark: Any, plan: Plan, projection: Schema, where: Any) -> _Wanted:
    time = time_enabled(spark)
    own = tuple(f for f in projection.fields if f.field_id not in METADATA_COLUMNS.values())
    extra = [f for f in projection.fields if f.field_id in METADATA_COLUMNS.values()]
    for f in projection.fields:
        spark_type(f.field_type, f.name, time=time)
    if where is None or isinstance(where, AlwaysTrue):
        return _Wanted(own, tuple(extra), time)
    text = str(where)
    chosen = {f.field_id for f in own}
    columns = tuple(f for f in plan.schema.fields if f.field_id in chosen or has_type(f, time))
    known = metadata_columns(plan.metadata)
    extra += [f for name, f in known.items() if _names(where, text, name) and f not in extra and plan.schema.get_field(name) is None]
    return _Wanted(columns, tuple(extra), time)


def _names(where: Any, text: str, name: str) -> bool:
    """Does a filter name a metadata column? Too many do no harm, but for `_deleted`: whoever names it is shown deleted rows."""
    if name != "_deleted":
        return name in text
    if isinstance(where, Column) or name not in text:
        return False  # the text of a Column does not tell names from strings; select the column to filter by it
    try:
        return name in names(parse(where) if isinstance(where, str) else where)
    except FrazilError:
        plain = re.sub(r"'(?:[^'\\\\]|\\\\.|'')*'|\"(?:[^\"\\\\]|\\\\.)*\"", "", text)
        return re.search(r"(?<![\w.`])`?_deleted\b", plain) is not None


def has_type(f: i.NestedField, time: bool) -> bool:
    """Whether Spark has a type for the column."""
    return not contains(f.field_type, i.TimestampNanoType, i.TimestamptzNanoType, i.GeometryType, i.GeographyType) and (
        time or not contains(f.field_type, i.TimeType)
    )


def _shown(f: i.NestedField, time: bool) -> s.StructField:
    return s.StructField(f.name, spark_type(f.field_type, f.name, time=time), True)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def projected(frame: DataFrame, held: Schema, projection: Schema) -> DataFrame:
    """A frame with the columns of `held`, cut to those of a projection."""
    if held.fields == projection.fields:
        return frame
    columns = []
    for f in projection.fields:
        whole = held.by_id[f.field_id]
        column = pruned(F.col(quoted(f.name)), whole.field_type, f.field_type)
        columns.append(column.alias(f.name, metadata={"comment": f.doc} if f.doc else {}))
    return frame.select(*columns)


def _merged(groups: Sequence[ScanGroup], wanted: _Wanted) -> list[list[ScanGroup]]:
    """Groups of different specs make one scan unless something of the spec is shown."""
    found: dict[Any, list[ScanGroup]] = {}
    for g in groups:
        by_spec = g.constants or wanted.names & {"_spec_id", "_partition"}
        found.setdefault((g.file_names, g.constants, g.planned.spec_id if by_spec else None, g.deletes), []).append(g)
    return list(found.values())


def _shapes(plan: Plan, wanted: _Wanted, keys: KeyColumns | None) -> dict[int, Shape]:
    """What is read of files by what applies to them: those with equality deletes are asked for the keys as well."""
    found = {NONE: shape_of(plan.metadata, wanted.columns)}
    if keys is not None:
        held = {f.field_id for f in wanted.columns}
        shape = shape_of(plan.metadata, (*wanted.columns, *(f for f in keys.fields if f.field_id not in held)))
        found[EQUALITY] = replace(shape, by_name_too=False) if keys.dropped else shape
    return found


def _scan(
    spark: Any, plan: Plan, shape: Shape, groups: list[ScanGroup], wanted: _Wanted, storage: Storage, keys: KeyColumns | None,
    narrowing: Narrowing,
) -> DataFrame | None:  # fmt: skip
    """None: something belongs to files by their names, and Spark does not call them as it should; or rows need numbers, and a column of the
    table has the name under which Spark gives these."""
    group = groups[0]
    table = pa.concat_tables([g.planned.table.take(g.rows) for g in groups], promote_options="permissive")
    schema, sources = _read_schema(shape, group, wanted)
    facts = _facts(plan, table, group, wanted)
    applied = None if group.deletes == NONE else Applied.of([(g.planned, g.rows) for g in groups], group.deletes)
    numbered = applied is not None and bool(applied.deleted)
    if (numbered or wanted.names & {"_pos", "_row_id"}) and _has_column(plan, ROW_INDEX):
        return None
    direct = numbered and not wanted.extra and not facts and _prunes_metadata(spark)
    paths, sizes = (table.column(name).to_pylist() for name in ("file_path", "file_size_in_bytes"))
    with_positions = np.zeros(len(paths), np.bool_) if applied is None else applied.numbered
    all_facts = facts if applied is None else facts | applied.facts
    needs_files = bool(all_facts) or numbered
    numbers = by_rows(table.column("record_count").to_numpy(), with_positions) if needs_files else None
    files = ScannedFiles(plan.metadata.location, paths, sizes, numbers, narrowing.kept(paths, sources))
    opened = open_files(spark, schema.add(ROW_INDEX, s.LongType()) if direct else schema, files, plan.options.split)
    scan, file_keys = opened.frame, None
    if needs_files:
        if (file_keys := opened.keys()) is None:
            return None
        scan = file_keys.added(scan, numbered, direct)
    if not opened.by_id and not shape.by_name_too and group.file_names is None:
        scan = still_by_id(scan, spark, opened.files.paths, storage)
    scan = _with_metadata(scan, facts, wanted)
    if all_facts and file_keys is not None:
        scan = lookup.with_facts(scan, file_keys.numbers, all_facts, wanted.time)

    def value(f: i.NestedField) -> Column:
        return _value(f, sources, group, shape, wanted.time)

    if applied is not None:
        scan = applied.finished(scan, file_keys, keys, value, _DELETED if "_deleted" in wanted.names else None, storage, mapping_of(plan))
    quick = shown_columns(spark)

    def column(f: i.NestedField) -> Column:
        if quick is None or f.doc or f.field_id not in sources or f.field_id in shape.opaque or is_rebuilt(f.field_type):
            return _column(f, value(f), group)
        return quick(quoted(sources[f.field_id]), f.name, _is_pushed_wrong(f, group))

    return scan.select(*map(column, wanted.columns), *(_metadata_column(f, group) for f in wanted.extra))


def _has_column(plan: Plan, name: str) -> bool:
    """Whether some schema of the table has it."""
    return any(f.name.lower() == name for schema in plan.metadata.schemas for f in schema.fields)


def _prunes_metadata(spark: Any) -> bool:
    """Whether Spark takes only what is used of `_metadata`; else it cannot be read beside `ROW_INDEX`."""
    return str(spark.conf.get("spark.sql.optimizer.nestedSchemaPruning.enabled", "true")).lower() == "true"


def _read_schema(shape: Shape, group: ScanGroup, wanted: _Wanted) -> tuple[s.StructType, dict[int, str]]:
    """The schema given to the scan, and the name in it of each column that the files hold."""
    by_name = None if group.file_names is None else dict(group.file_names)
    sources, fields = {}, []
    taken = {n.lower() for n in (by_name or {}).values()}
    for f, column in zip(
        (f for f in shape.fields if not isinstance(f.field_type, i.UnknownType)), shape.read_schema(wanted.time), strict=True
    ):
        if f.field_id in group.constants:
            continue
        name, metadata = column.name, dict(column.metadata)
        if by_name is not None:
            metadata.pop("parquet.field.id", None)
            name = by_name.get(f.field_id) or _free(f"_f{f.field_id}", taken)
        sources[f.field_id] = name
        fields.append(s.StructField(name, column.dataType, True, metadata))
    if by_name is None:
        fields += [
            s.StructField(name, s.LongType(), True, {"parquet.field.id": METADATA_COLUMNS[column]})
            for name, column in ((_ROW_ID, "_row_id"), (_UPDATED, "_last_updated_sequence_number"))
            if column in wanted.names
        ]
    return s.StructType(fields), sources


def _free(name: str, taken: Iterable[str]) -> str:
    while name.lower() in taken:
        name = "_" + name
    return name


def _value(f: i.NestedField, sources: dict[int, str], group: ScanGroup, shape: Shape, time: bool) -> Column:
    """A column of the scan, with the table's meaning."""
    if isinstance(f.field_type, i.UnknownType):
        return F.lit(None)
    if f.field_id in group.constants:
        return F.col(_constant(f.field_id))
    made = F.col(quoted(sources[f.field_id]))
    if f.field_id in shape.opaque:
        made = made.cast(without_ids(read_type(f.field_type, time, f.name)))
    return from_file(made, f.field_type)


def _column(f: i.NestedField, made: Column, group: ScanGroup) -> Column:
    made = F.nanvl(made, made) if _is_pushed_wrong(f, group) else made
    return made.alias(f.name, metadata={"comment": f.doc} if f.doc else {})


def _is_pushed_wrong(f: i.NestedField, group: ScanGroup) -> bool:
    """Spark pushes `d = 0` into Parquet, where -0.0 is another number: rows would be lost. nanvl(d, d) is d, and is not pushed. Floats that
    are found by id have names that no file has (`shape`), which does the same and costs nothing."""
    return isinstance(f.field_type, _FLOATS) and group.file_names is not None


def _constant(field_id: int) -> str:
    return f"__frazil_constant_{field_id}"


def _facts(plan: Plan, table: pa.Table, group: ScanGroup, wanted: _Wanted) -> dict[str, tuple[pa.Array, i.IcebergType]]:
    """What is asked for and rows do not hold themselves, of each file."""
    facts: dict[str, tuple[pa.Array, i.IcebergType]] = {}
    spec = group.planned.spec
    if group.constants:
        typed = {
            f.source_id: (f.field_id, plan.schema.by_id[f.source_id].field_type)
            for f in spec.fields
            if isinstance(f.transform, IdentityTransform)
        }
        values = lookup.partition_values(table, (typed[c] for c in group.constants))
        facts |= {_constant(c): (values[typed[c][0]], typed[c][1]) for c in group.constants}
    for f in wanted.extra:
        match f.name:
            case "_partition" if isinstance(f.field_type, i.StructType):
                values = lookup.partition_values(table, ((x.field_id, x.field_type) for x in f.field_type.fields))
                kinds = {x.field_id: x.field_type for x in f.field_type.fields}
                mine = {x.field_id for x in spec.fields}
                facts |= {_partition_value(k): (v, kinds[k]) for k, v in values.items() if k in mine}
            case "_row_id":
                facts[_FIRST] = (_settled(table.column("first_row_id")), i.LongType())
            case "_last_updated_sequence_number":
                facts[_FIRST] = (_settled(table.column("first_row_id")), i.LongType())
                facts[_SEQUENCE] = (table.column("sequence_number").combine_chunks(), i.LongType())
    if "_file" in wanted.names and (odd := _other_texts(table)) is not None:
        facts[_FILE] = (odd, i.StringType())
    return facts


def _with_metadata(scan: DataFrame, facts: Container[str], wanted: _Wanted) -> DataFrame:
    """What Spark itself knows of rows."""
    if wanted.names & {"_pos", "_row_id"}:
        scan = scan.withColumn(_POS, F.col("_metadata.row_index"))
    if "_file" in wanted.names and _FILE not in facts:
        scan = scan.withColumn(_FILE, _decoded(F.col("_metadata.file_path")))
    return scan


def _settled(first_row_ids: pa.ChunkedArray) -> pa.Array:
    """Null where a commit is still to give them: then only the lineage that files store counts."""
    ids = first_row_ids.combine_chunks()
    return pc.if_else(pc.equal(ids, UNSETTLED), pa.scalar(None, ids.type), ids)


def _partition_value(field_id: int) -> str:
    return f"__frazil_partition_{field_id}"


def _decoded(text: Column) -> Column:
    return F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))


def _other_texts(table: pa.Table) -> pa.Array | None:
    """The locations, when Spark tells some of them in other words than the manifests do (`/x`, `file:///x`, doubled slashes)."""
    paths = table.column("file_path").combine_chunks()
    as_told = all(not (p.startswith(("/", "file://")) or "//" in p.partition("://")[2]) and scheme_of(p) for p in paths.to_pylist())
    return None if as_told else paths


def _partition_field(f: i.NestedField, is_mine: bool) -> Column:
    return F.col(_partition_value(f.field_id)) if is_mine else F.lit(None).cast(spark_type(f.field_type, time=True))


def _metadata_column(f: i.NestedField, group: ScanGroup) -> Column:
    spec = group.planned.spec
    match f.name:
        case "_file":
            made = F.col(_FILE)
        case "_pos":
            made = F.col(_POS)
        case "_deleted":
            made = F.lit(False) if group.deletes == NONE else F.col(_DELETED)
        case "_spec_id":
            made = F.lit(spec.spec_id)
        case "_partition":
            assert isinstance(f.field_type, i.StructType)
            mine = {x.field_id for x in spec.fields}
            made = F.struct(*(_partition_field(x, x.field_id in mine).alias(x.name) for x in f.field_type.fields))
            made = made if f.field_type.fields else F.lit(None).cast("struct<>")
        case "_row_id":
            inherited = F.col(_FIRST) + F.col(_POS)
            made = F.coalesce(F.col(_ROW_ID), inherited) if group.file_names is None else inherited
        case _:
            inherited = F.when(F.col(_FIRST).isNotNull(), F.col(_SEQUENCE))
            made = F.coalesce(F.col(_UPDATED), inherited) if group.file_names is None else inherited
    return made.alias(f.name, metadata={})
