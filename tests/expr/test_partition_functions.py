"""Iceberg's partition transforms as functions of expressions: the values of the transforms, and the
files that partitions let them skip.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import FrazilError, InvalidInput, ValidationError
from frazil.expr.parse import parse
from frazil.spec.transform_values import apply
from frazil.spec.transforms import parse_transform
from frazil.spec.types import TimestampType
from frazil.table.table import Table

UTC = dt.UTC
ROWS = pa.table(
    {
        "id": pa.array([*range(-5, 14), None], pa.int64()),
        "i": pa.array([*range(-5, 14), None], pa.int32()),
        "s": [*(f"text {n}" for n in range(19)), None],
        "b": pa.array([*(bytes([n, 1, 2]) for n in range(19)), None], pa.binary()),
        "m": pa.array([*(Decimal(n) / 4 for n in range(-5, 14)), None], pa.decimal128(9, 2)),
        "d": pa.array([*(dt.date(1969, 12, 20) + n * dt.timedelta(3) for n in range(19)), None]),
        "ts": pa.array(
            [
                *(dt.datetime(1969, 12, 20, 5, tzinfo=UTC) + n * dt.timedelta(3) for n in range(19)),
                None,
            ],
            pa.timestamp("us", "UTC"),
        ),
    }
)  # fmt: skip
CALLS = {
    "bucket[4]": ("bucket(4, {})", ("id", "i", "s", "b", "m", "d", "ts")),
    "truncate[3]": ("truncate(3, {})", ("id", "i", "s", "b", "m")),
    "year": ("years({})", ("d", "ts")),
    "month": ("months({})", ("d", "ts")),
    "day": ("days({})", ("d", "ts")),
    "hour": ("hours({})", ("ts",)),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return frazil.load_catalog("lake", type="path", warehouse=str(tmp_path / "wh"))


def made(catalog: Any, *partition_by: str) -> Table:
    catalog.create_namespace_if_not_exists("db")
    table: Table = catalog.create_table("db.t", ROWS.schema, partition_by=partition_by)
    table.append(ROWS)
    return table


@pytest.mark.parametrize("transform", CALLS)
def test_a_function_gives_what_the_transform_gives(catalog: Any, transform: str) -> None:
    call, columns = CALLS[transform]
    table = made(catalog)
    for column in columns:
        named = table.schema().find_field(column)
        rows = table.scan(selected_fields=("id", column)).to_arrow()
        stored = {
            row["id"]: apply(parse_transform(transform), named.field_type, internal)
            for row, internal in zip(rows.to_pylist(), internals(rows[column]), strict=True)
        }
        for prefix in ("lake.system.", "System.", "`a.b`.SYSTEM."):
            term = prefix + call.format(column)
            for value in {v for v in stored.values() if v is not None}:
                where = f"{term} = {literal(value, transform, column)}"
                ids = table.scan(row_filter=where).to_arrow()["id"].to_pylist()
                assert sorted(ids) == sorted(k for k, v in stored.items() if v == value), where
            nulls = table.scan(row_filter=f"{term} IS NULL").to_arrow()["id"].to_pylist()
            assert nulls == [None]


def internals(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    return (
        column.cast(pa.int64()).to_pylist()
        if pa.types.is_timestamp(column.type)
        else column.to_pylist()
    )


def literal(value: Any, transform: str, column: str) -> str:
    if transform == "day":
        return f"date '{dt.date(1970, 1, 1) + dt.timedelta(value)}'"
    if column == "b" and transform.startswith("truncate"):
        return f"X'{value.hex()}'"
    return repr(value) if isinstance(value, str) else str(value)


@pytest.mark.parametrize(
    ("partition", "where", "files"),
    [
        ("bucket(4, id)", "lake.system.bucket(4, id) = 1", 1),
        ("bucket(4, id)", "lake.system.bucket(4, id) IN (0, 3)", 2),
        ("bucket(4, id)", "lake.system.bucket(4, id) > 1", 2),
        ("bucket(4, id)", "lake.system.bucket(4, id) IS NULL", 1),
        ("bucket(4, id)", "lake.system.bucket(8, id) = 1", 4),
        ("months(ts)", "lake.system.months(ts) < 0", 1),
        ("months(ts)", "lake.system.days(ts) >= date '1970-02-01'", 1),
        ("d", "lake.system.years(d) = 0", 15),
    ],
)
def test_files_are_skipped_by_partitions(
    catalog: Any, partition: str, where: str, files: int
) -> None:
    table = made(catalog, partition)
    assert len(list(table.scan(row_filter=where).plan_files())) == files
    kept = table.scan(row_filter=where).to_arrow()["id"].to_pylist()
    catalog.drop_table("db.t")
    assert sorted(kept, key=str) == sorted(
        made(catalog).scan(row_filter=where).to_arrow()["id"].to_pylist(), key=str
    )


def test_names_are_kept_as_they_are_and_others_are_refused(catalog: Any) -> None:
    for text in ("(Lake.system.bucket(4, id) = 2)", "(`a.b`.system.days(ts) = 1)"):
        assert str(parse(text)) == text and parse(str(parse(text))) == parse(text)
    table = made(catalog)
    for call in (
        "bucket('a', id)", "bucket(0, id)", "bucket(id)", "hours(d)", "years(id)", "truncate(2, ts)", "nope(id)",
    ):  # fmt: skip
        with pytest.raises(FrazilError):
            table.scan(row_filter=f"lake.system.{call} = 1").to_arrow()
    for call in ("bucket(4, id)", "lake.other.bucket(4, id)"):
        with pytest.raises(InvalidInput):
            table.scan(row_filter=f"{call} = 1").to_arrow()


@pytest.mark.parametrize("term", ["day", "bucket(4, day)"])
def test_dates_of_older_specs_stay_dates_while_files_are_partitioned_by_them(
    catalog: Any, term: str
) -> None:
    """As timestamps they have other partition values, by which filters would skip their files."""
    rows = pa.table({"id": range(4), "day": [dt.date(2020, 1, n) for n in range(1, 5)]})
    catalog.create_namespace("db")
    version = {"format-version": "3"}
    t = catalog.create_table("db.t", rows.schema, partition_by=[term], properties=version)
    t.append(rows)
    with t.update_spec() as spec:
        spec.remove_field(t.spec().fields[0].name)
    with pytest.raises(ValidationError, match="would change its values.*expire_snapshots"):
        t.update_schema().update_column("day", TimestampType()).commit()
    t.delete()
    t.append(rows)
    t.maintenance.expire_snapshots(dt.datetime.now(dt.UTC), clean_expired_metadata=True)
    t.refresh().update_schema().update_column("day", TimestampType()).commit()
    for where in ("day >= timestamp '2020-01-03'", "lake.system.days(day) >= date '2020-01-03'"):
        assert sorted(t.scan(row_filter=where).to_arrow()["id"].to_pylist()) == [2, 3]
