"""Maintenance of delete files by tasks of a Spark session: the same numbers and rows as in this
process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import frazil
from tests.builders.files_on_disk import leftovers
from tests.maintain.deletes import by_keys, by_position, delete_files, filled, made, rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.versions)])
def test_tasks_of_spark_give_the_numbers_and_rows_of_this_process(
    version: int, tmp_path: Path, plain_spark: Any
) -> None:
    t = filled(made(tmp_path, version, ("p",), write__delete__granularity="partition"))
    by_keys(t, range(0, 120, 6), partition=("a",))
    for n in range(2):
        by_position(t, [3 * n + 1, 3 * n + 2], "partition")
    before = rows(t)
    here = t.maintenance.convert_equality_deletes(dry_run=True, runner="in-process")
    dry = t.maintenance.convert_equality_deletes(dry_run=True, spark=plain_spark)
    real = t.maintenance.convert_equality_deletes(spark=plain_spark)
    for found in (dry, real):
        assert found.to_arrow() == here.to_arrow()
    assert rows(t) == before and "equality" not in delete_files(t) and not leftovers(t)
    kinds, again = delete_files(t), frazil.load_table(t.location())
    result = again.maintenance.rewrite_position_delete_files(
        options={"rewrite-all": True}, spark=plain_spark
    )
    assert (
        rows(again) == before
        and not leftovers(again)
        and again.to_spark(spark=plain_spark).count() == len(before)
    )
    if version == 3:
        assert result.rewritten_delete_files_count == 0 and delete_files(again) == kinds
    else:
        assert result.rewritten_delete_files_count == kinds["position"] and delete_files(again) == {
            "position": 3
        }
