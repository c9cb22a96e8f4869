"""Filters, conditions and values as text mean the same on Spark as without it: columns in double
quotes, numbers beyond a long.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput
from frazil.spark.host.expression_text import null_safe
from tests.builders.frames import ids

pytestmark = pytest.mark.spark

BEYOND = "99999999999999999999"
ROWS = {"id": [1, 2, 3, 4], "s": ["a", "b", "s", None], "y": [1, None, 3, None]}
# beyond Frazil's grammar: Spark decides; {0}: the side of a MERGE
SQL = " AND exists(array({0}id), x -> x > 0)"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    catalog = frazil.load_catalog("texts", type="path", warehouse=str(tmp_path))

    def table(**arguments: Any) -> Any:
        found = catalog.create_table(
            f"db.t{len(list(tmp_path.glob('db/*')))}", "id bigint, s string, y bigint", **arguments
        )
        found.append(pa.table(ROWS))
        return found

    return table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"y < {BEYOND}", f"y < CAST({BEYOND} AS decimal(20, 0))"),
        (f"y > -{BEYOND}.5", f"y > -CAST({BEYOND}.5 AS decimal(21, 1))"),
        (
            f"y<{BEYOND}BD and y > 1e30BD",
            f"y<CAST({BEYOND}BD AS decimal(20, 0)) and y > CAST(1e30BD AS decimal(31, 0))",
        ),
        ("y >= 9223372036854775808", "y >= CAST(9223372036854775808 AS decimal(19, 0))"),
        *(
            (same, same)
            for same in (
                "y > -9223372036854775808 and y < 9223372036854775807",
                "y < 1e30",
                f"s = '{BEYOND}'",
                f"`{BEYOND}` = 1",
                "y < 1",
                "s = 'a'",
                f"y < {BEYOND}{BEYOND}",
                "y < 00000000000000000000001",
                f"transform(l, x -> x || '{BEYOND}')",
            )
        ),
    ],
)
def test_numbers_beyond_a_long_become_casts(text: str, expected: str) -> None:
    assert null_safe(text) == expected


@pytest.mark.parametrize("partition_by", [[], ["y"], ["bucket(2, y)"], ["id"]], ids=str)
def test_a_number_beyond_a_long_answers_no_row_with_null(
    plain_spark: Any, make: Callable[..., Any], partition_by: list[str]
) -> None:
    table = make(partition_by=partition_by)
    for where, expected in (
        (f"y < {BEYOND}", [1, 3]),
        (f"NOT y > {BEYOND}", [1, 3]),
        (f"y >= -{BEYOND}", [1, 3]),
        (f"y > {BEYOND}", []),
        (f"{BEYOND} > y", [1, 3]),
        (f"y BETWEEN 2 AND {BEYOND}.5", [3]),
        (f"y <> {BEYOND}", [1, 3]),
        (f"(y < {BEYOND}) IS NULL", [2, 4]),
        (f"y NOT IN ({BEYOND})", [1, 3]),
        (f"y < {BEYOND} OR s IS NULL", [1, 3, 4]),
        ("y <= 9223372036854775807.5", [1, 3]),
    ):
        assert sorted(table.scan(row_filter=where).to_arrow()["id"].to_pylist()) == expected, where
        assert table.scan(row_filter=where).count() == len(expected), where
        for given in (where, frazil.expressions.parse(where), f"({where}){SQL.format('')}"):
            frame = table.scan(row_filter=given).to_spark(plain_spark)
            assert sorted(r.id for r in frame.collect()) == expected, given


@pytest.mark.parametrize("sql", ["", SQL])
def test_changes_by_a_number_beyond_a_long_leave_rows_with_null_alone(
    plain_spark: Any, make: Callable[..., Any], sql: str
) -> None:
    table, more, of_both = make(), sql.format(""), sql.format("target.")
    table.update(set={"s": "'new'"}, where=f"y < {BEYOND}{more}", spark=plain_spark)
    new = {r["id"]: r["s"] for r in table.scan().to_arrow().to_pylist()}
    assert new == {1: "new", 2: "b", 3: "new", 4: None}
    table.delete(f"y < {BEYOND}{more}", spark=plain_spark)
    assert ids(table) == [2, 4]
    source = pa.table(
        {"id": [2, 4], "y": [None, 7]}, schema=pa.schema([("id", pa.int64()), ("y", pa.int64())])
    )
    merge = table.merge(source, on="target.id = source.id", spark=plain_spark)
    merge.when_matched_delete(f"source.y < {BEYOND}{of_both}").execute()
    assert ids(table) == [2]


@pytest.mark.parametrize("sql", ["", SQL])
def test_a_column_in_double_quotes_is_refused_at_every_door_of_spark(
    plain_spark: Any, make: Callable[..., Any], sql: str
) -> None:
    table, more, of_both = make(), sql.format(""), sql.format("target.")
    where = f""" "s" = 'a'{more} """
    from_source = pa.table({"id": [1], "k": ["s"]})

    def merge(
        on: str = "target.id = source.id", condition: str | None = None, value: str = "source.k"
    ) -> Any:
        return (
            table.merge(from_source, on=on, spark=plain_spark)
            .when_matched_update({"s": value}, condition)
            .execute()
        )

    doors: list[Callable[[], Any]] = [
        lambda: table.scan(row_filter=where).to_spark(plain_spark),
        lambda: table.delete(where, spark=plain_spark),
        lambda: table.scan(row_filter=frazil.expressions.parse(""" "s" = 'a' """)).to_spark(
            plain_spark
        ),
        lambda: table.update(set={"id": "9"}, where=where, spark=plain_spark),
        lambda: table.changes(row_filter=where).to_spark(plain_spark),
        lambda: table.update(
            set={"s": f"""CASE WHEN true{more} THEN "s" END"""}, spark=plain_spark
        ),
        lambda: merge(condition=f""" "s" = 'a'{of_both} """),
        lambda: merge(on=f"""target.id = source.id AND "k" = 's'{of_both}"""),
        lambda: merge(on=f"""target.id = source.id AND "target.s" = 's'{of_both}"""),
        lambda: merge(value=f"""CASE WHEN true{of_both} THEN "k" END"""),
        lambda: table.overwrite(plain_spark.createDataFrame(pa.table(ROWS)), where),
    ]
    before = table.current_snapshot().snapshot_id
    for n, door in enumerate(doors):
        with pytest.raises(
            InvalidInput,
            match=r"in double quotes is a text in Spark SQL, and there is a column of that name",
        ):
            door()
            raise AssertionError(f"door {n}")
    assert table.refresh().current_snapshot().snapshot_id == before
    assert [
        r.id for r in table.scan(row_filter=f"""s = "b"{more}""").to_spark(plain_spark).collect()
    ] == [2]
    assert [
        r.id for r in table.scan(row_filter=f"""s = 's'{more}""").to_spark(plain_spark).collect()
    ] == [3]
    table.delete(f"""s = "b"{more}""", spark=plain_spark)
    assert ids(table) == [1, 3, 4]


def test_spark_compares_names_in_double_quotes_without_case(
    plain_spark: Any, make: Callable[..., Any]
) -> None:
    table = make()
    for case_sensitive in (
        False,
        True,
    ):
        # a text that is a column's name but for its case may be meant either way
        with pytest.raises(InvalidInput, match="double quotes"):
            table.scan(row_filter=""" "S" = 'a' """, case_sensitive=case_sensitive).to_spark(
                plain_spark
            )
