"""Tables of thousands of columns: what a write takes grows with the columns, not with their square."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from frazil.catalog import Catalog
from frazil.table.table import Table

TYPES = (pa.int64(), pa.string(), pa.float64())
VALUES = (7, "text", 1.5)


def frame_of(columns: int, *ids: int) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), *((f"C{n}", TYPES[n % 3]) for n in range(columns))])
    return pa.Table.from_pylist(
        [{"id": i, **{f"C{n}": VALUES[n % 3] for n in range(columns)}} for i in ids], schema=schema
    )


def merge(table: Table, columns: int) -> None:
    merging = table.merge(frame_of(columns, 1, 9), "target.id = source.id", case_sensitive=False)
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def merge_named(table: Table, columns: int) -> None:
    values = {f"c{n}": f"source.c{n}" for n in range(columns)}
    table.merge(
        frame_of(columns, 1), "target.id = source.id", case_sensitive=False
    ).when_matched_update(values).execute()


WRITES: dict[str, Callable[[Table, int], object]] = {
    "append": lambda t, n: t.append(frame_of(n, 3)),
    "append without case": lambda t, n: t.append(
        frame_of(n, 3).rename_columns(["ID", *(f"c{i}" for i in range(n))]), case_sensitive=False
    ),
    "upsert": lambda t, n: t.upsert(frame_of(n, 1, 9), join_cols=["id"]),
    "merge": merge,
    "merge of named columns": merge_named,
    "update": lambda t, n: t.update({"C1": "'new'"}, "id = 1"),
}


@pytest.mark.parametrize("name", WRITES)
def test_four_times_the_columns_take_much_less_than_sixteen_times_as_long(
    name: str, catalog: Catalog
) -> None:
    def seconds(columns: int) -> float:
        table = catalog.create_table(f"db.t{columns}", frame_of(columns).schema)
        table.append(frame_of(columns, 1, 2))
        took = []
        for _ in range(2):
            gc.collect()  # a collection of what earlier tests hold is not this write's
            begun = time.process_time()
            WRITES[name](table, columns)
            took.append(time.process_time() - begun)
        return min(took)

    few, many = seconds(400), seconds(1600)
    assert many < 9 * few, (few, many)
