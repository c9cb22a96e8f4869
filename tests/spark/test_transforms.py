"""Catalyst's partition transforms give what the specification says, at the ends of every type too."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import frazil
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.values.transforms import apply_arrow
from frazil.errors import InvalidInput
from frazil.spark.write.catalyst_transforms import transformed
from frazil.spec import transforms as t
from frazil.spec import types as i
from frazil.spec.schema import Schema
from frazil.spec.transform_values import apply
from frazil.spec.types import NestedField

pytestmark = pytest.mark.spark

HOUR, DAY = 3_600_000_000, 86_400_000_000
# the last ones whose hours are 32-bit numbers
HOURS = [
    0,
    -1,
    1,
    -HOUR,
    -HOUR - 1,
    2**31 * HOUR - 1,
    -(2**31) * HOUR,
]
BEYOND = [2**31 * HOUR, -(2**31) * HOUR - 1, 2**63 - 1, -(2**63)]
TIMES = [*HOURS, *BEYOND, -DAY, -DAY - 1, -(2**63) + 1]
DATES = [0, -1, 31, 365, -366, 106_751_991, -106_751_992, 2**31 - 1, -(2**31)]
ORDINALS = [t.YearTransform(), t.MonthTransform(), t.DayTransform(), t.BucketTransform(7)]
WHOLE = [
    t.TruncateTransform(1),
    t.TruncateTransform(10),
    t.TruncateTransform(2**31 - 1),
    t.BucketTransform(7),
]
DECIMAL = [
    t.TruncateTransform(1),
    t.TruncateTransform(50),
    t.TruncateTransform(7),
    t.BucketTransform(7),
]


def whole(bits: int) -> list[int]:
    return [0, -1, 7, -7, 2**bits - 1, -(2**bits), -(2**bits) + 1]


def decimals(precision: int, scale: int) -> list[Decimal]:
    most = 10**precision - 1
    return [
        Decimal(f"{n}e-{scale}")
        for n in (0, 7, -7, most, most - 1, -most + 99 if precision == 38 else -most)
    ]


CASES: list[tuple[i.IcebergType, list[Any], list[t.Transform]]] = [
    (i.TimestamptzType(), TIMES, ORDINALS), (i.TimestampType(), TIMES, ORDINALS), (i.DateType(), DATES, ORDINALS),
    (i.TimestamptzType(), HOURS, [t.HourTransform()]), (i.TimestampType(), HOURS, [t.HourTransform()]),
    (i.IntegerType(), whole(31), WHOLE), (i.LongType(), whole(63), WHOLE),
    *((i.DecimalType(p, s), decimals(p, s), DECIMAL) for p, s in ((4, 2), (9, 0), (18, 4), (37, 37), (38, 0), (38, 10), (38, 38))),
]  # fmt: skip


def column(type_: i.IcebergType, values: list[Any]) -> pa.Array:
    kind = to_arrow_schema(Schema(NestedField(1, "c", type_))).field("c").type
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if pa.types.is_date32(kind) else pa.int64()).view(kind)
    return pa.array(values, kind)


def spark_type(type_: i.IcebergType) -> str:
    return {"timestamptz": "timestamp", "timestamp": "timestamp_ntz", "long": "bigint"}.get(
        str(type_), str(type_)
    )


def session(plain_spark: Any, ansi: str) -> Any:
    spark = plain_spark.newSession()
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    return spark


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("type_", "values", "transforms"), CASES, ids=[f"{k} {len(v)}" for k, v, _ in CASES]
)
def test_catalyst_and_arrow_give_the_values_of_the_specification(
    plain_spark: Any,
    ansi: str,
    type_: i.IcebergType,
    values: list[Any],
    transforms: list[t.Transform],
) -> None:
    rows = pa.table({"n": pa.array(range(len(values) + 1)), "c": column(type_, [*values, None])})
    frame = session(plain_spark, ansi).createDataFrame(rows, f"n bigint, c {spark_type(type_)}")
    columns = [
        transformed(transform, type_, F.col("c")).alias(f"v{k}")
        for k, transform in enumerate(transforms)
    ]
    found = sorted(frame.select("n", *columns).collect())
    for k, transform in enumerate(transforms):
        expected = [apply(transform, type_, v) for v in [*values, None]]
        assert [r[f"v{k}"] for r in found] == expected, transform
        assert apply_arrow(transform, type_, rows["c"]).to_pylist() == expected, transform


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_hours_that_are_no_ints_are_refused_at_every_door(
    plain_spark: Any, tmp_path: Path, ansi: str, kind: str
) -> None:
    catalog = frazil.load_catalog("hours", type="path", warehouse=str(tmp_path))
    table = catalog.create_table("db.t", f"id int, ts {kind}", partition_by=["hour(ts)"])
    type_ = i.TimestamptzType() if kind == "timestamp" else i.TimestampType()
    spark = session(plain_spark, ansi)
    for value in BEYOND:
        rows = pa.table({"id": pa.array([1, 2], pa.int32()), "ts": column(type_, [0, value])})
        for frame in (rows, spark.createDataFrame(rows, f"id int, ts {kind}")):
            with pytest.raises(
                InvalidInput,
                match=r"The transform hour takes times of the years -243,014 to 246,953 only: -?\d+ hours",
            ):
                table.append(frame)
    assert table.scan().count() == 0 and not list(tmp_path.rglob("*.parquet"))
    rows = pa.table({"id": pa.array(range(len(HOURS)), pa.int32()), "ts": column(type_, HOURS)})
    table.append(spark.createDataFrame(rows, f"id int, ts {kind}"))
    for n, value in enumerate(HOURS):
        where = frazil.expressions.EqualTo("ts", frazil.expressions.Literal(value, type_))
        assert table.scan(row_filter=where).to_arrow()["id"].to_pylist() == [n]
