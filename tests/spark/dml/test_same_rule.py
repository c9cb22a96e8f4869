"""The rule for which values a column takes holds at Spark's doors as at any other, and a session
that merely runs changes nothing.
"""

import datetime as dt
import decimal
import zoneinfo

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, SchemaMismatch, ValidationError, ValueMismatch
from tests.builders.examples import sampled

pytestmark = pytest.mark.spark
NAIVE = dt.datetime(2024, 5, 6, 7, 8, 9)
UTC = zoneinfo.ZoneInfo("UTC")
BY_SPARK = (
    "target.id = source.id and levenshtein('a', 'a') = 0"  # beyond Frazil's grammar: Spark joins
)


@pytest.fixture
def table(catalog):
    catalog.create_namespace_if_not_exists("db")

    def make(columns, **more):
        made = catalog.create_table(
            f"db.t{len(catalog.list_tables('db'))}",
            f"id bigint, {columns}",
            format_version=3,
            **more,
        )
        made.append([{"id": 1}])
        return made

    return make


def merged(t, frame, on):
    t.merge(frame, on).when_matched_update_all().execute()


def assigned(t, frame, on):
    names = [n for n in t.schema().column_names if n in frame.columns and n != "id"]
    t.merge(frame, on).when_matched_update({n: f"source.{n}" for n in names}).execute()


DOORS = {
    "append": lambda t, f: t.append(f),
    "overwrite": lambda t, f: t.overwrite(f, "id = 1"),
    "upsert": lambda t, f: t.upsert(f, ["id"]),
    "merge in tasks": lambda t, f: merged(t, f, "target.id = source.id"),
    "merge by Spark": lambda t, f: merged(t, f, BY_SPARK),
    "assigned by Spark": lambda t, f: assigned(t, f, BY_SPARK),
    "format": lambda t, f: (
        f.write.format("iceberg").mode("append").save(t.location())
    ),  # the Python data source
}
TAKEN = {  # column: its type, an expression, what is held
    "a": ("int", "7L", 7),
    "b": ("double", "7L", 7.0),
    "c": ("double", "9007199254740992L * 4", 2.0**55),
    "d": ("decimal(6,2)", "7L", decimal.Decimal("7.00")),
    "e": ("decimal(6,2)", "1.5BD", decimal.Decimal("1.50")),
    "f": ("timestamp_ntz", "DATE '2024-05-06'", dt.datetime(2024, 5, 6)),
    "g": ("float", "16777216L", 2.0**24),
    "h": ("decimal(3,1)", "cast(1.5 as decimal(20,1))", decimal.Decimal("1.5")),
    "i": ("array<int>", "array(7L, null)", [7, None]),
    "j": ("struct<x: double>", "struct(7L as x)", {"x": 7.0}),
}
REFUSED = [
    ("timestamp", "TIMESTAMP_NTZ '2024-05-06 00:00:00'", "give them one"),
    ("timestamp", "DATE '2024-05-06'", "give them one"),
    ("timestamp_ntz", "TIMESTAMP '2024-05-06 00:00:00'", "choose one"),
    ("float", "1.5D", "rounds"),
    ("int", "1.0D", "Int64"),
    ("string", "1", "CAST|Cast"),
    ("struct<x: timestamp>", "struct(TIMESTAMP_NTZ '2024-05-06 00:00:00' as x)", "give them one"),
]
WRONG = [
    ("int", "3000000000L"),
    ("double", "9007199254740993L"),
    ("double", "9223372036854775807L"),
    ("decimal(6,2)", "10000L"),
]


@pytest.mark.parametrize("door", DOORS)
def test_values_with_an_equal_one_are_taken_at_every_door(table, session, door):
    # there Spark's own casts would give null, or wrap
    session.conf.set("spark.sql.ansi.enabled", "false")
    t = table(", ".join(f"{n} {type_}" for n, (type_, _, _) in TAKEN.items()))
    if door == "append":
        t.delete("id = 1")
    frame = session.range(1, 2).selectExpr(
        "id", *(f"{text} as {n}" for n, (_, text, _) in TAKEN.items())
    )
    if door == "format":
        frame = frame.withColumn("id", F.lit(2))
    DOORS[door](t, frame)
    rows = t.refresh().scan(f"id = {2 if door == 'format' else 1}").to_arrow().to_pylist()
    assert [{n: r[n] for n in TAKEN} for r in rows] == [
        {n: held for n, (_, _, held) in TAKEN.items()}
    ]


@pytest.mark.parametrize(("type_", "text", "advice"), REFUSED)
def test_types_that_are_not_taken_are_refused_at_every_door_with_what_to_do(
    table, session, type_, text, advice
):
    t = table(f"x {type_}")
    frame = session.range(1, 2).selectExpr("id", f"{text} as x")
    for door, write in DOORS.items():
        if door == "assigned by Spark" and type_ in ("float", "int", "string"):
            continue  # SQL assigns numbers, and text
        with pytest.raises(Exception, match=advice) as caught:
            write(t, frame)
        assert isinstance(caught.value, SchemaMismatch) or door == "format"
    assert t.refresh().to_arrow().to_pylist() == [{"id": 1, "x": None}]


@pytest.mark.parametrize(("type_", "text"), sampled(WRONG, 2))
def test_values_without_an_equal_one_are_refused_at_every_door(table, session, type_, text):
    session.conf.set("spark.sql.ansi.enabled", "false")
    t = table(f"x {type_}")
    frame = session.range(1, 2).selectExpr("id", f"{text} as x")
    for door, write in DOORS.items():
        if door == "assigned by Spark":
            continue
        with pytest.raises(Exception, match="olumn x.* does not fit") as caught:
            write(t, frame)
        assert isinstance(caught.value, ValueMismatch) or door == "format"
    assert t.refresh().to_arrow().to_pylist() == [{"id": 1, "x": None}]


@pytest.mark.parametrize("spreads", [False, True])
def test_python_values_are_taken_alike_where_spark_decides(table, session, spreads):
    t = table(
        "ts timestamp, d double, f float",
        properties={"write.update.distribution-mode": "hash"} if spreads else {},
    )
    for given in ({"ts": NAIVE}, {"d": 2**53 + 1}, {"f": decimal.Decimal("1.5")}):
        with pytest.raises(InvalidInput, match=next(iter(given))):
            t.update(given, spark=session)
    t.update({"ts": NAIVE.replace(tzinfo=UTC), "d": 7, "f": 0.1}, spark=session)
    assert t.to_arrow().to_pylist() == [
        {"id": 1, "ts": NAIVE.replace(tzinfo=UTC), "d": 7.0, "f": 0.10000000149011612}
    ]


@pytest.mark.parametrize("where", ["id = 1", "levenshtein(cast(id as string), '1') = 0"])
def test_a_session_that_merely_runs_changes_no_meaning(table, session, where):
    """Its zone, its failures that are null, its names without regard to case are of calls that name
    it.
    """
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "false")
    t = table("ts timestamp, s string, v int")
    at = lambda hour: dt.datetime(2024, 1, 1, hour, tzinfo=UTC)
    literal = "TIMESTAMP '2024-01-01 00:00:00'"
    t.update({"ts": literal, "s": "'x'"}, where)
    assert t.to_arrow()["ts"].to_pylist() == [at(0)]
    t.update({"ts": literal}, where, spark=session)
    assert t.to_arrow()["ts"].to_pylist() == [at(5)]
    t.merge(
        [{"id": 1}], f"target.id = source.id and {where.replace('id', 'target.id')}"
    ).when_matched_update({"ts": literal}).execute()
    assert t.refresh().to_arrow()["ts"].to_pylist() == [at(0)]
    for given in ({"V": "1"}, {"ts": "TIMESTAMP_NTZ '2024-01-01 00:00:00'", "v": "cast(s as int)"}):
        with pytest.raises((InvalidInput, ValidationError)):
            t.update(given, where)
    t.update({"V": "cast(s as int)"}, where, spark=session)
    assert t.to_arrow()["v"].to_pylist() == [None]
    assert t.delete(f"ts < TIMESTAMP '2024-01-01 03:00:00' and {where}").rows_deleted == 1
    assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"


def test_frames_of_this_process_are_read_alike_while_a_session_runs(table, session):
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    t = table("x timestamp, d double")
    frame = pa.table({"id": [1], "x": pa.array([NAIVE]), "d": [1]})
    for write in (
        t.append,
        lambda f: t.upsert(f, ["id"]),
        lambda f: merged(t, f, "target.id = source.id"),
        lambda f: merged(t, f, BY_SPARK),
    ):
        with pytest.raises(SchemaMismatch, match="give them one"):
            write(frame)
    t.upsert([{"id": 1, "d": 1, "x": NAIVE.replace(tzinfo=UTC)}], ["id"])
    assert t.to_arrow().to_pylist() == [{"id": 1, "d": 1.0, "x": NAIVE.replace(tzinfo=UTC)}]


def test_clock_times_of_frames_of_this_process_stay_clock_times_where_spark_joins(table, session):
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    # a clock in New York never shows the first
    skipped, shown = (
        dt.datetime(2024, 3, 10, 2, 30),
        dt.datetime(2024, 3, 10, 3, 30),
    )
    t = table("v timestamp_ntz, s struct<x: timestamp_ntz>, a array<timestamp_ntz>")
    rows = pa.table(
        {
            "id": [1, 2],
            "v": pa.array([skipped] * 2),
            "s": pa.array([{"x": skipped}] * 2),
            "a": pa.array([[skipped]] * 2),
        }
    )
    held = {"v": skipped, "s": {"x": skipped}, "a": [skipped]}
    t.merge(
        rows, BY_SPARK, spark=session
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert t.refresh().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, **held},
        {"id": 2, **held},
    ]
    t.merge(rows, BY_SPARK).when_matched_update({name: f"source.{name}" for name in held}).execute()
    assert t.refresh().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, **held},
        {"id": 2, **held},
    ]
    at_half_past_three = pa.table({"id": [9], "v": pa.array([shown])})
    by_time = t.merge(at_half_past_three, BY_SPARK.replace("id", "v"), spark=session)
    assert by_time.when_matched_delete().execute().rows_deleted == 0
