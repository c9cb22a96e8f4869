"""Aggregates and filters, whose rows are the same whatever of them the scan can answer itself.

How much of an aggregate or a filter a scan takes over shows in plans only, which are each
engine's own; these cases say what the queries answer, from files whose bounds, partitions and
metrics mislead one who relies on them too much.
"""

from datetime import datetime

from tests.sql.java_topics.harness import Place, case

SIX = "(1, 1111), (1, 2222), (2, 3333), (2, 4444), (3, 5555), (3, 6666)"
NAN = "float('nan')"


def filled(p: Place, columns: str, values: str, partitions: str = "") -> None:
    p.sql(f"CREATE TABLE $t ({columns}) USING iceberg {partitions}")
    p.sql(f"INSERT INTO $t VALUES {values}")


@case(
    "TestAggregatePushDown.testNanWithLowerAndUpperBoundMetrics",
    differs="Spark's own Parquet writer tells neither bounds nor NaN of a column that holds one",
)
def nan_is_above_all_numbers(p: Place) -> None:
    values = f"(1, {NAN}), (1, 10.0), (2, 2), (2, {NAN}), (3, {NAN}), (3, 1)"
    filled(p, "id int, data float", values, "PARTITIONED BY (id)")
    query = "SELECT count(*), string(max(data)), string(min(data)), count(data) FROM $t"
    p.rows(query, (6, "NaN", "1.0", 6))
    query = """SELECT DISTINCT readable_metrics.data.nan_value_count > 0,
               readable_metrics.data.lower_bound IS NULL FROM $t.files"""
    p.rows(query, (True, False))


@case("TestAggregatePushDown.testAggregatePushDownForIncrementalScan")
def the_rows_between_two_snapshots_are_aggregated(p: Place) -> None:
    filled(p, "id LONG, data INT", SIX)
    for values in ("(4, 7777), (5, 8888)", "(6, -7777), (7, 8888)", "(8, 7777), (9, 9999)"):
        p.sql(f"INSERT INTO $t VALUES {values}")
    one, two, three, _ = p.snapshots()
    for start, end, expected in ((two, three, (-7777, 8888, 2)), (one, None, (-7777, 9999, 6))):
        reader = p.spark.read.format("iceberg").option("start-snapshot-id", start)
        reader = reader.option("end-snapshot-id", end) if end else reader
        reader.load(p.text("$t")).createOrReplaceTempView("between")
        p.rows("SELECT min(data), max(data), count(data) FROM between", expected)


def found(p: Place, condition: str, *ids: int) -> None:
    p.rows(f"SELECT id FROM $t WHERE {condition} ORDER BY id", *((n,) for n in ids))


TIMES = {
    "hours": ("2021-06-30 01:00:00", "2021-06-30 02:00:00", "2021-06-30 03:00:00"),
    "days": ("2021-06-15 01:00:00", "2021-06-30 02:00:00", "2021-07-15 10:00:00"),
    "months": ("2021-06-30 01:00:00", "2021-06-30 02:00:00", "2021-07-15 10:00:00"),
    "years": ("2021-06-30 01:00:00", "2021-06-30 02:00:00", "2022-09-25 02:00:00"),
}


@case(
    "TestFilterPushDown.testFilterPushdownWithHoursTransform",
    "TestFilterPushDown.testFilterPushdownWithDaysTransform",
    "TestFilterPushDown.testFilterPushdownWithMonthsTransform",
    "TestFilterPushDown.testFilterPushdownWithYearsTransform",
    each=tuple(TIMES),
)
def partitions_of_times_are_filtered_at_their_edges_and_within(p: Place) -> None:
    times = TIMES[p.each]
    rows = [f"({n}, timestamp '{time}')" for n, time in enumerate(times, 1)]
    filled(
        p, "id INT, t TIMESTAMP", ", ".join([*rows, "(4, null)"]), f"PARTITIONED BY ({p.each}(t))"
    )
    found(p, "t IS NULL", 4)
    edges = (
        "2021-06-30 02:00:00",
        "2021-06-30 02:00:00.001",
        "2021-06-30 03:00:00",
        "2021-07-01 00:00:00",
        "2022-01-01 00:00:00",
    )
    for edge in (*times, *edges):
        for sign in ("<", "<=", "=", ">", ">="):
            kept = [n for n, time in enumerate(times, 1) if compared(time, sign, edge)]
            found(p, f"t {sign} timestamp '{edge}'", *kept)


def compared(time: str, sign: str, other: str) -> bool:
    one, two = datetime.fromisoformat(time), datetime.fromisoformat(other)
    results = {"<": one < two, "<=": one <= two, "=": one == two, ">": one > two, ">=": one >= two}
    return results[sign]


@case("TestFilterPushDown.testFilterPushdownOnInitialDefaultColumnAbsentFromFile")
def rows_without_a_column_are_filtered_by_its_default(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ('format-version' = '3')"
    )
    p.sql("INSERT INTO $t VALUES (1, 'Alice')")
    p.add_column("c", "string", default="US")
    p.sql("REFRESH TABLE $t", "INSERT INTO $t VALUES (2, 'Bob', 'US'), (3, 'Eve', 'CA')")
    for condition, *ids in (
        ("c = 'US'", 1, 2), ("upper(c) = 'US'", 1, 2), ("c IS NOT NULL", 1, 2, 3), ("c = 'CA'", 3), ("c IS NULL",),
    ):  # fmt: skip
        found(p, condition, *ids)


@case("TestFilterPushDown.testFilterPushdownOnNestedInitialDefaultColumnAbsentFromFile")
def structs_without_a_field_are_filtered_by_its_default(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id BIGINT, loc STRUCT<city: STRING>) USING iceberg TBLPROPERTIES ('format-version' = '3')"
    )
    p.sql("INSERT INTO $t VALUES (1, named_struct('city', 'Rome')), (2, NULL)")
    p.add_column("country", "string", default="US", inside="loc")
    p.sql("REFRESH TABLE $t")
    p.rows("SELECT id, loc.city, loc.country FROM $t WHERE loc.country = 'US'", (1, "Rome", "US"))
    p.sql("INSERT INTO $t VALUES (3, named_struct('city', 'Toronto', 'country', 'CA'))")
    found(p, "loc.country = 'CA'", 3)
    found(p, "loc.country IS NULL", 2)
