"""A frame evaluated once, in Arrow files that Spark and Arrow tasks read again."""

import datetime
import os
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from frazil.errors import Unsupported
from frazil.spark.dml import staging
from frazil.spark.tasks.spark_runner import remove_folder
from frazil.storage import storage_for

pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "staged"), storage_for(str(tmp_path), {})


def test_rows_come_back_with_their_numbers_as_often_as_wanted(session, place):
    folder, storage = place
    frame = session.range(0, 1000, 1, 4).select(
        "id", F.rand().alias("r"), F.expr("if(id % 10 = 0, null, concat('x', id))").alias("t")
    )
    staged = staging.stage(frame, folder, storage)
    again = [staging.as_frame(session, staged, "n").orderBy("n").collect() for _ in range(2)]
    assert (
        again[0] == again[1]
        and [r["n"] for r in again[0]] == list(range(1000))
        and staged.rows == 1000
        and len(staged.files) == 4
    )
    held = pa.concat_tables([staging.open_file(staged, n) for n in range(4)])
    assert held.column("r").to_pylist() == [r["r"] for r in again[0]] and sorted(
        held.column("id").to_pylist()
    ) == list(range(1000))
    remove_folder(staged.storage, staged.folder)
    assert not os.path.exists(staged.folder)


def test_the_values_of_ordered_columns_are_told(session, place):
    frame = session.sql(
        "select id, id % 3 as few, cast(id as decimal(10,2)) as d, date'2020-01-01' + cast(id as int) as day, "
        "timestamp'2020-01-01 00:00:00' as ts, concat('k', id) as name, cast(id as double) as x, cast(null as int) as none from range(200)"
    )
    values = staging.stage(frame, *place).values
    assert (values[0].low, values[0].high, values[0].few) == (0, 199, None) and values[1].few == {
        0,
        1,
        2,
    }
    assert values[2].high == Decimal("199.00") and values[3].low == datetime.date(2020, 1, 1)
    assert (
        values[4].few == {datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)}
        and values[5].high == "k99"
    )
    assert 6 not in values and 7 not in values


def test_nested_values_and_names_that_repeat_are_kept(session, place):
    frame = session.sql(
        "select struct(1 as a, array(1, null) as b) as s, map('k', 1.5D) as m, 1 as x, 2 as x, parse_json('[1]') as v, null as n"
    )
    staged = staging.stage(frame, *place)
    back = staging.as_frame(session, staged)
    assert back.columns == ["s", "m", "x", "x_", "v", "n"]
    row = back.select("s", "m", "x", "x_", F.to_json("v").alias("v")).first().asDict(recursive=True)
    assert row == {"s": {"a": 1, "b": [1, None]}, "m": {"k": 1.5}, "x": 1, "x_": 2, "v": "[1]"}


def test_a_frame_without_rows_has_no_files(session, place):
    staged = staging.stage(session.range(0), *place)
    assert staged.files == () and staging.as_frame(session, staged, "n").count() == 0


def test_a_failed_evaluation_leaves_nothing(session, place):
    folder, storage = place
    frame = session.range(0, 100, 1, 4).select(
        F.expr("if(id = 99, raise_error('no'), id)").alias("x")
    )
    with pytest.raises(Exception, match="no"):
        staging.stage(frame, folder, storage)
    assert not os.path.exists(folder) or not os.listdir(folder)
    with pytest.raises(Unsupported, match="i of type interval"):
        staging.stage(session.sql("select make_interval(1) as i"), folder, storage)
    with pytest.raises(Unsupported, match="memory:"):
        staging.stage(session.range(1), "memory://x/y", storage)
