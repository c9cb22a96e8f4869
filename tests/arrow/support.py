"""Schemas, rows and tasks for the tests of this room."""

from __future__ import annotations

import decimal
import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from frazil.arrow.read.read_tasks import ReadContext, read
from frazil.arrow.values.arrays import array_of
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_rows import WriteContext, write
from frazil.scan.tasks import FileScanTask, TaskFacts
from frazil.spec.manifest import DataFile
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)
from frazil.storage import storage_for

decimal.getcontext().prec = 60
STORAGE, MEMORY = storage_for("/tmp", {}), storage_for("memory://tests", {})
MOMENTS = (TimestampType(), TimestamptzType(), TimestampNanoType(), TimestamptzNanoType())
LEAVES: list[IcebergType] = [
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DateType(), TimeType(), *MOMENTS, StringType(), UUIDType(),
    BinaryType(), FixedType(5), DecimalType(9, 2), DecimalType(18, 0), DecimalType(38, 10),
]  # fmt: skip


def leaf_values(type_: IcebergType) -> st.SearchStrategy[Any]:
    """Internal values of a leaf type."""
    match type_:
        case BooleanType():
            return st.booleans()
        case IntegerType():
            return st.integers(-(2**31), 2**31 - 1)
        case DateType():
            return st.integers(-700_000, 2_900_000)
        case LongType():
            return st.integers(-(2**63), 2**63 - 1)
        case TimeType():
            return st.integers(0, 86_399_999_999)
        case FloatType():
            return st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan")])
        case DoubleType():
            return st.floats() | st.sampled_from([0.0, -0.0, float("nan")])
        case StringType():
            return st.text(max_size=40) | st.sampled_from(
                ["\U0010ffff" * 20, "z" * 5000, "é" * 17, "\ud7ff" * 17]
            )
        case UUIDType():
            return st.binary(min_size=16, max_size=16)
        case BinaryType():
            return st.binary(max_size=30) | st.just(b"\xff" * 20)
        case FixedType(length=n):
            return st.binary(min_size=n, max_size=n)
        case DecimalType(precision=p, scale=s):
            return st.integers(-(10**p) + 1, 10**p - 1).map(lambda n: decimal.Decimal(n).scaleb(-s))
        case VariantType():
            inner = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=80)
            return st.recursive(
                inner,
                lambda v: (
                    st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3)
                ),
            ).map(json.dumps)
    return st.integers(-9 * 10**15, 9 * 10**15)


def orc_values(type_: IcebergType) -> st.SearchStrategy[Any]:
    """Those that ORC takes: before 1970 whole seconds only."""
    second = 10**9 if isinstance(type_, TimestampNanoType | TimestamptzNanoType) else 10**6
    return st.integers(0, 9 * 10**15) | st.integers(-(10**9), 0).map(lambda n: n * second)


def values_of(type_: IcebergType, required: bool) -> st.SearchStrategy[Any]:
    """Internal values of any type, None too unless required."""
    match type_:
        case StructType():
            found = st.fixed_dictionaries(
                {f.field_id: values_of(f.field_type, f.required) for f in type_.fields}
            )
        case ListType():
            found = st.lists(values_of(type_.element_type, type_.element_required), max_size=3)
        case MapType():
            keys, items = (
                values_of(type_.key_type, True),
                values_of(type_.value_type, type_.value_required),
            )
            found = st.lists(st.tuples(keys, items), max_size=3, unique_by=lambda kv: repr(kv[0]))
        case _:
            found = leaf_values(type_)
    return found if required else st.none() | found


def types(
    ids: Any, leaves: Sequence[IcebergType], depth: int = 2
) -> st.SearchStrategy[IcebergType]:
    leaf = st.sampled_from(list(leaves))
    if depth == 0:
        return leaf
    inner = types(ids, leaves, depth - 1)
    keys = st.sampled_from([t for t in leaves if not isinstance(t, FloatType | DoubleType)])

    def struct(members: list[tuple[IcebergType, bool]]) -> IcebergType:
        return StructType(
            *(NestedField(next(ids), f"f{i}", t, r) for i, (t, r) in enumerate(members))
        )

    return st.one_of(
        leaf,
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(struct),
        st.tuples(inner, st.booleans()).map(lambda p: ListType(next(ids), p[0], p[1])),
        st.tuples(keys, inner, st.booleans()).map(
            lambda p: MapType(next(ids), p[0], next(ids), p[1], p[2])
        ),
    )


@st.composite
def tables(
    draw: Any, leaves: Sequence[IcebergType] = tuple(LEAVES), max_rows: int = 20
) -> tuple[Schema, list[dict[int, Any]]]:
    """A random schema, and rows of it as {field id: internal value}."""
    import itertools

    ids = itertools.count(1)
    members = draw(st.lists(st.tuples(types(ids, leaves), st.booleans()), min_size=1, max_size=4))
    schema = Schema(*(NestedField(next(ids), f"c{i}", t, r) for i, (t, r) in enumerate(members)))
    row = st.fixed_dictionaries(
        {f.field_id: values_of(f.field_type, f.required) for f in schema.fields}
    )
    return schema, draw(st.lists(row, max_size=max_rows))


def arrow_table(schema: Schema, rows: Sequence[dict[int, Any]]) -> pa.Table:
    columns = [array_of(f.field_type, [r[f.field_id] for r in rows]) for f in schema.fields]
    return pa.Table.from_arrays(columns, schema=to_arrow_schema(schema))


def written(
    frame: Any,
    schema: Schema,
    where: Path | str,
    *,
    spec: PartitionSpec | None = None,
    order: SortOrder = UNSORTED_SORT_ORDER,
    properties: dict[str, str] | None = None,
    **more: Any,
) -> list[DataFile]:
    storage = MEMORY if str(where).startswith("memory:") else STORAGE
    context = WriteContext(
        schema, spec or PartitionSpec(), order, storage, str(where), properties or {}, **more
    )
    return write(conform(frame, schema), context)


def somewhere() -> str:
    """A new place in memory: property tests write too many files for a disk."""
    return f"memory://tests/{uuid.uuid4()}"


def task_of(
    file: DataFile,
    spec: PartitionSpec | None = None,
    *,
    row_filter: Any = None,
    sequence_number: int | None = 1,
) -> FileScanTask:
    match = 7 if row_filter is not None else 1
    return FileScanTask(
        None,
        0,
        row_filter,
        spec or PartitionSpec(),
        TaskFacts(file, sequence_number, sequence_number, 1, match),
    )


def rows_of(
    files: Sequence[DataFile],
    schema: Schema,
    *,
    spec: PartitionSpec | None = None,
    table_schema: Schema | None = None,
    **more: Any,
) -> pa.Table:
    """What reading these files gives."""
    storage = MEMORY if files and files[0].file_path.startswith("memory:") else STORAGE
    context = ReadContext(schema, storage, table_schema or schema, **more)
    return read(
        [task_of(f, spec, row_filter=more.get("row_filter")) for f in files], context
    ).read_all()


def comparable(table: pa.Table) -> list[list[str]]:
    """Rows as texts that tell every value apart (NaN equals NaN, zeros differ), points in time as
    numbers.
    """
    return [
        list(map(repr, row))
        for row in zip(*(_plain(c.combine_chunks()) for c in table.columns), strict=True)
    ]


def _plain(array: Any) -> list[Any]:
    t = array.type
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], t)
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(t):
        inside = [_plain(array.field(i)) for i in range(t.num_fields)]
        return [tuple(c[i] for c in inside) if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_map(t):
        offsets, pairs = (
            array.offsets.to_pylist(),
            list(zip(_plain(array.keys), _plain(array.items), strict=True)),
        )
        return [
            sorted(pairs[offsets[i] : offsets[i + 1]], key=repr) if ok else None
            for i, ok in enumerate(valid)
        ]
    if pa.types.is_list(t):
        offsets, flat = array.offsets.to_pylist(), _plain(array.values)
        return [flat[offsets[i] : offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_timestamp(t) or pa.types.is_time(t):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_date(t):
        return array.view(pa.int32()).to_pylist()
    return array.to_pylist()
