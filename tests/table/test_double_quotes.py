"""`"s" = 'a'` compares two texts in Spark SQL and a column with a text in PyIceberg: refused at
every door, nothing is changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", "b", "s"], "p": [{"q": "x"}, {"q": "y"}, None]})


@pytest.fixture
def table(tmp_path: Path) -> Any:
    catalog = frazil.load_catalog("quotes", type="path", warehouse=str(tmp_path))
    made = catalog.create_table(
        "db.t", "id bigint, s string, p struct<q: string>", partition_by=["s"]
    )
    made.append(ROWS)
    return made


@pytest.mark.parametrize(
    "where",
    [
        """ "s" = 'a' """,
        """ "p.q" = 'x' """,
        """ id = 1 AND "s" IN ('a') """,
        """ "s" LIKE 'a%' """,
        """ id = length("s") """,
    ],
)
def test_no_door_takes_a_column_in_double_quotes(table: Any, where: str) -> None:
    source = pa.table({"id": [1], "k": ["s"]})
    on = "target.id = source.id"
    both = f"{on} AND {where}".replace(" id ", " target.id ")
    doors = [
        lambda: table.scan(row_filter=where).to_arrow(),
        lambda: table.scan(row_filter=where).count(),
        lambda: table.scan(row_filter=where).plan_files(),
        lambda: table.scan(row_filter=where).explain(),
        lambda: table.changes(row_filter=where).to_arrow(),
        lambda: table.incremental_append_scan(row_filter=where).to_arrow(),
        lambda: table.delete(where),
        lambda: table.update(set={"id": "9"}, where=where),
        lambda: table.overwrite(ROWS, where),
        lambda: table.inspect.partitions(row_filter=where),
        lambda: table.delete(frazil.expressions.parse(where)),
        lambda: table.merge(source, on=both).when_matched_delete().execute(),
        lambda: (
            table.merge(source, on=on)
            .when_matched_delete(where.replace(" id ", " target.id "))
            .execute()
        ),
        lambda: table.merge(source, on=on).when_matched_update({"s": 'upper("k")'}).execute(),
        lambda: table.update(set={"s": f"CASE WHEN {where} THEN 'x' ELSE s END"}),
    ]
    before = table.metadata_location
    for n, door in enumerate(doors):
        with pytest.raises(
            InvalidInput,
            match=r"in double quotes is a text in Spark SQL, and there is a column of that name.* for the column, ",
        ):
            door()
            raise AssertionError(f"door {n}")
    assert table.refresh().metadata_location == before


def test_back_quotes_and_single_quotes_say_which_is_meant(table: Any) -> None:
    def ids(where: str) -> list[int]:
        return sorted(table.scan(row_filter=where).to_arrow()["id"].to_pylist())

    assert (
        ids("`s` = 'a'") == [1]
        and ids("s = 's'") == [3]
        and ids("'s' = 'a'") == []
        and ids("`p`.`q` = 'x'") == [1]
    )
    assert ids('s = "b"') == [2]  # no column: a text, as in Spark
    table.delete('s IN ("b", "a ")')
    assert ids("TRUE") == [1, 3]
