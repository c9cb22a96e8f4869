"""Aggregates and filters, whose rows are the same whatever of them the scan can answer itself.

How much of an aggregate or a filter a scan takes over shows in plans only, which are each
engine's own; these cases say what the queries answer, from files whose bounds, partitions and
metrics mislead one who relies on them too much.
"""

from datetime import date, datetime
from decimal import Decimal

from tests.sql.java_topics.harness import Place, case

SIX = "(1, 1111), (1, 2222), (2, 3333), (2, 4444), (3, 5555), (3, 6666)"
NAN = "float('nan')"


def filled(p: Place, columns: str, values: str, partitions: str = "") -> None:
    p.sql(f"CREATE TABLE $t ({columns}) USING iceberg {partitions}")
    p.sql(f"INSERT INTO $t VALUES {values}")


def aggregates(*columns: str) -> str:
    return ", ".join(f"max({c}), min({c}), count({c})" for c in columns)


@case(
    "TestAggregatePushDown.testDifferentDataTypesAggregatePushDownInPartitionedTable",
    "TestAggregatePushDown.testDifferentDataTypesAggregatePushDownInNonPartitionedTable",
    each=("PARTITIONED BY (id)", ""),
)
def values_of_many_types_are_aggregated(p: Place) -> None:
    filled(
        p,
        "id LONG, i INT, b BOOLEAN, f FLOAT, d DOUBLE, n DECIMAL(14, 2), x BINARY",
        """(1, null, false, null, null, 11.11, X'1111'), (1, null, true, 2.25, 2.2, 22.22, X'2222'),
           (2, 33, false, 3.25, 3.3, 33.33, X'3333'), (2, 44, true, null, 4.4, 44.44, X'4444'),
           (3, 55, false, 5.25, 5.5, 55.55, X'5555'), (3, null, true, null, 6.6, 66.66, null)""",
        p.each,
    )
    p.rows(
        f"SELECT count(*), {aggregates('id', 'i', 'b', 'f', 'd', 'n')} FROM $t",
        (6, 3, 1, 6, 55, 33, 3, True, False, 6, 5.25, 2.25, 3, 6.6, 2.2, 5, Decimal("66.66"), Decimal("11.11"), 6),
    )  # fmt: skip


@case("TestAggregatePushDown.testDateAndTimestampWithPartition")
def days_and_times_are_aggregated(p: Place) -> None:
    day, time = "date '2021-11-1{}'".format, "timestamp '2021-11-1{} 22:22:22'".format
    filled(
        p,
        "id bigint, data string, d date, ts timestamp",
        f"""(1, '1', {day(0)}, null), (1, '2', {day(1)}, {time(1)}), (2, '3', {day(2)}, {time(2)}),
            (2, '4', {day(3)}, {time(3)}), (3, '5', null, {time(4)}), (3, '6', {day(4)}, null)""",
        "PARTITIONED BY (id)",
    )
    p.rows(
        f"SELECT {aggregates('d', 'ts')} FROM $t",
        (date(2021, 11, 14), date(2021, 11, 10), 5, datetime(2021, 11, 14, 22, 22, 22), datetime(2021, 11, 11, 22, 22, 22), 4),
    )  # fmt: skip


@case("TestAggregatePushDown.testAggregateNotPushDownIfOneCantPushDown")
def a_sum_stands_beside_a_count(p: Place) -> None:
    filled(p, "id LONG, data DOUBLE", SIX)
    p.rows("SELECT count(data), sum(data) FROM $t", (6, 23331.0))


@case("TestAggregatePushDown.testAggregatePushDownWithMetricsMode")
def aggregates_need_no_metrics(p: Place) -> None:
    p.sql("""CREATE TABLE $t (id LONG, data DOUBLE) USING iceberg TBLPROPERTIES (
             'write.metadata.metrics.default' = 'none', 'write.metadata.metrics.column.id' = 'counts',
             'write.metadata.metrics.column.data' = 'none')""")
    p.sql(f"INSERT INTO $t VALUES {SIX}")
    p.rows("SELECT count(data) FROM $t", (6,))
    p.rows("SELECT count(id), max(id) FROM $t", (6, 3))


@case(
    "TestAggregatePushDown.testAggregateNotPushDownForStringType",
    "TestAggregatePushDown.testAggregateNotPushDownForBinaryType",
    each=("string", "binary"),
)
def bounds_that_were_cut_are_not_taken_for_values(p: Place) -> None:
    p.sql(f"""CREATE TABLE $t (id LONG, data {p.each}) USING iceberg
              TBLPROPERTIES ('write.metadata.metrics.default' = 'truncate(5)')""")
    data = ["1111111", "2222", "3333", "4444", "5555", "6666666"]
    values = (f"({n // 2 + 1}, cast('{text}' AS {p.each}))" for n, text in enumerate(data))
    p.sql(f"INSERT INTO $t VALUES {', '.join(values)}")
    kind = str if p.each == "string" else str.encode
    p.rows("SELECT max(id), max(data), min(data) FROM $t", (3, kind(data[-1]), kind(data[0])))
    p.rows("SELECT count(data) FROM $t", (6,))
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('write.metadata.metrics.default' = 'full')")
    p.rows("SELECT count(data), max(data), min(data) FROM $t", (6, kind(data[-1]), kind(data[0])))


@case(
    "TestAggregatePushDown.testAggregatePushDownWithDataFilter",
    "TestAggregatePushDown.testAggregatePushDownWithPartitionFilter",
    each=("", "PARTITIONED BY (id)"),
)
def an_aggregate_is_of_the_rows_of_a_condition(p: Place) -> None:
    filled(p, "id LONG, data INT", "(1, 11), (1, 22), (2, 33), (2, 44), (3, 55), (3, 66)", p.each)
    p.rows("SELECT min(data) FROM $t WHERE id > 1", (33,))


@case("TestAggregatePushDown.testAggregateWithComplexType")
def structs_are_counted(p: Place) -> None:
    filled(
        p,
        "id INT, s STRUCT<c1: INT, c2: STRING>",
        "(1, named_struct('c1', 3, 'c2', 'v1')), (2, named_struct('c1', 2, 'c2', 'v2')), (3, null)",
    )
    p.rows("SELECT count(s), count(id) FROM $t", (2, 3))
    p.rows("SELECT max(s).c1 FROM $t", (3,))


@case(
    "TestAggregatePushDown.testAggregationPushdownStructInteger",
    "TestAggregatePushDown.testAggregationPushdownNestedStruct",
    "TestAggregatePushDown.testAggregationPushdownStructTimestamp",
    each=("1 BIGINT", "4 BIGINT", "1 TIMESTAMP"),
)
def fields_of_structs_are_aggregated(p: Place) -> None:
    depth, kind = int(p.each[0]), p.each[2:]
    column, value, path = kind, "{}", "s"
    for n in range(depth, 0, -1):
        column, value = f"STRUCT<c{n}: {column}>", f"named_struct('c{n}', {value})"
    path += "".join(f".c{n + 1}" for n in range(depth))
    p.sql(f"CREATE TABLE $t (id BIGINT, s {column}) USING iceberg")
    one = "{}" if kind == "BIGINT" else "timestamp '2023-01-30 22:22:{}'"
    for n, text in enumerate(("NULL", one.format(22), one.format(33)), 1):
        p.sql(f"INSERT INTO $t VALUES ({n}, {value.format(text)})")
    low, high = (n if kind == "BIGINT" else datetime(2023, 1, 30, 22, 22, n) for n in (22, 33))
    p.rows(f"SELECT count({path}), max({path}), min({path}) FROM $t", (2, high, low))


@case("TestAggregatePushDown.testAggregationPushdownOnBucketedColumn")
def the_column_of_a_bucket_is_aggregated(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id BIGINT, s STRUCT<c1: INT>) USING iceberg PARTITIONED BY (bucket(8, id))"
    )
    for one, two in (("1", "NULL"), ("null", "2"), ("2", "3")):
        p.sql(f"INSERT INTO $t VALUES ({one}, named_struct('c1', {two}))")
    p.rows("SELECT count(id), max(id), min(id) FROM $t", (2, 2, 1))


@case("TestAggregatePushDown.testAggregatePushDownInDeleteCopyOnWrite")
def deleted_rows_are_not_aggregated(p: Place) -> None:
    filled(p, "id LONG, data INT", SIX)
    p.sql("DELETE FROM $t WHERE data = 1111")
    p.rows("SELECT max(data), min(data), count(data) FROM $t", (6666, 2222, 5))


@case("TestAggregatePushDown.testAggregatePushDownForTimeTravel")
def an_aggregate_is_of_the_snapshot_that_is_read(p: Place) -> None:
    filled(p, "id LONG, data INT", SIX)
    p.sql("INSERT INTO $t VALUES (4, 7777), (5, 8888)")
    p.rows(f"SELECT count(id), max(data) FROM $t VERSION AS OF {p.snapshots()[0]}", (6, 6666))
    p.rows("SELECT count(id), max(data) FROM $t", (8, 8888))


@case("TestAggregatePushDown.testAllNull")
def a_column_of_nulls_has_no_bounds(p: Place) -> None:
    filled(
        p,
        "id int, data int",
        ", ".join(f"({n}, null)" for n in (1, 1, 2, 2, 3, 3)),
        "PARTITIONED BY (id)",
    )
    p.rows("SELECT count(*), max(data), min(data), count(data) FROM $t", (6, None, None, 0))


NANS = {
    "testAllNaN": ("NaN", f"(1, {NAN}), (1, {NAN}), (2, {NAN}), (2, {NAN}), (3, {NAN}), (3, {NAN})"),
    "testNaN": ("1.0", f"(1, {NAN}), (1, {NAN}), (2, 2), (2, {NAN}), (3, {NAN}), (3, 1)"),
    "testNanWithLowerAndUpperBoundMetrics": (
        "1.0", f"(1, {NAN}), (1, 10.0), (2, 2), (2, {NAN}), (3, {NAN}), (3, 1)",
    ),
}  # fmt: skip


def of_nan(method: str, least: str, values: str) -> None:
    metrics = "Metrics" in method

    @case(
        f"TestAggregatePushDown.{method}",
        differs="Spark's own Parquet writer tells neither bounds nor NaN of a column that holds one"
        if metrics
        else "",
    )
    def nan_is_above_all_numbers(p: Place) -> None:
        filled(p, "id int, data float", values, "PARTITIONED BY (id)")
        query = "SELECT count(*), string(max(data)), string(min(data)), count(data) FROM $t"
        p.rows(query, (6, "NaN", least, 6))
        if metrics:
            query = """SELECT DISTINCT readable_metrics.data.nan_value_count > 0,
                       readable_metrics.data.lower_bound IS NULL FROM $t.files"""
            p.rows(query, (True, False))


for _method, (_least, _values) in NANS.items():
    of_nan(_method, _least, _values)


@case("TestAggregatePushDown.testInfinity")
def infinities_are_values(p: Place) -> None:
    low, high = "double('-infinity')", "double('infinity')"
    rows = (f"(1, float('-infinity'), {high}, {n})" for n in (1.23, -1.23, high, 2.23, low, -2.23))
    filled(p, "id int, a float, b double, c double", ", ".join(rows), "PARTITIONED BY (id)")
    inf = float("inf")
    p.rows(
        f"SELECT count(*), {aggregates('a', 'b', 'c')} FROM $t",
        (6, -inf, -inf, 6, inf, inf, 6, inf, -inf, 6),
    )


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


@case("TestFilterPushDown.testFilterPushdownWithDecimalValues")
def decimals_are_filtered(p: Place) -> None:
    filled(
        p, "id INT, salary DECIMAL(10, 2), dep STRING", "(1, 100.01, 'd1')", "PARTITIONED BY (dep)"
    )
    p.sql("INSERT INTO $t VALUES (2, 100.05, 'd1')")
    found(p, "dep = 'd1' AND salary > 100.03", 2)


@case("TestFilterPushDown.testFilterPushdownWithIdentityTransform")
def partitions_of_a_column_are_filtered(p: Place) -> None:
    filled(
        p,
        "id INT, salary INT, dep STRING",
        "(1, 100, 'd1'), (2, 200, 'd2'), (3, 300, 'd3'), (4, 400, 'd4'), (5, 500, 'd5'), (6, 600, null)",
        "PARTITIONED BY (dep)",
    )
    for condition, *ids in (
        ("dep IS NULL", 6), ("dep IS NOT NULL", 1, 2, 3, 4, 5), ("dep = 'd3'", 3), ("dep > 'd3'", 4, 5),
        ("dep >= 'd5'", 5), ("dep < 'd2'", 1), ("dep <= 'd2'", 1, 2), ("dep <=> 'd3'", 3), ("dep <=> null", 6),
        ("dep IN (null, 'd1')", 1), ("dep NOT IN ('d2', 'd4')", 1, 3, 5), ("dep = 'd1' AND dep IS NOT NULL", 1),
        ("dep = 'd1' OR dep = 'd2' OR dep = 'd3'", 1, 2, 3), ("dep = 'd1' AND id = 1", 1), ("dep = 'd2' OR id = 1", 1, 2),
        ("dep LIKE 'd1%' AND id = 1", 1), ("dep NOT LIKE 'd5%' AND (id = 1 OR id = 5)", 1),
        ("dep LIKE '%d5' AND id IN (1, 5)", 5), ("dep NOT IN (null, 'd1')",), ("NOT (dep = 'd1')", 2, 3, 4, 5),
    ):  # fmt: skip
        found(p, condition, *ids)


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


@case("TestFilterPushDown.testFilterPushdownWithBucketTransform")
def buckets_are_filtered_with_columns(p: Place) -> None:
    filled(
        p,
        "id INT, salary INT, dep STRING",
        "(1, 100, 'd1'), (2, 200, 'd2')",
        "PARTITIONED BY (dep, bucket(8, id))",
    )
    found(p, "dep = 'd1' AND id = 1", 1)


@case("TestFilterPushDown.testFilterPushdownWithTruncateTransform")
def truncated_text_is_filtered_by_its_start(p: Place) -> None:
    filled(
        p,
        "id INT, dep STRING",
        "(1, 'd1'), (2, 'd2'), (3, 'a3')",
        "PARTITIONED BY (truncate(1, dep))",
    )
    found(p, "dep LIKE 'd%'", 1, 2)
    found(p, "dep = 'd1'", 1)


@case("TestFilterPushDown.testFilterPushdownWithSpecEvolutionAndIdentityTransforms")
def files_of_several_specs_are_filtered(p: Place) -> None:
    filled(p, "id INT, dep STRING, sub STRING", "(1, 'd1', 's1')", "PARTITIONED BY (dep)")
    found(p, "dep = 'd1'", 1)
    p.sql("ALTER TABLE $t ADD PARTITION FIELD sub", "INSERT INTO $t VALUES (2, 'd2', 's2')")
    found(p, "dep = 'd1'", 1)
    p.sql("ALTER TABLE $t DROP PARTITION FIELD sub", "ALTER TABLE $t DROP PARTITION FIELD dep")
    p.sql("INSERT INTO $t VALUES (3, 'd3', 's3'), (4, 'd1', 's3')")
    found(p, "dep = 'd1'", 1, 4)


@case("TestFilterPushDown.testFilterPushdownWithSpecEvolutionAndTruncateTransform")
def files_of_several_widths_are_filtered(p: Place) -> None:
    filled(p, "id INT, dep STRING", "(1, 'd1')", "PARTITIONED BY (truncate(2, dep))")
    found(p, "dep LIKE 'd1%'", 1)
    p.sql("ALTER TABLE $t DROP PARTITION FIELD truncate(2, dep)")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD truncate(1, dep)", "INSERT INTO $t VALUES (2, 'd2')")
    found(p, "dep LIKE 'd%'", 1, 2)
    found(p, "dep LIKE 'd1%' AND id = 1", 1)
    found(p, "dep LIKE 'd1%'", 1)


@case("TestFilterPushDown.testFilterPushdownWithSpecEvolutionAndTimeTransforms")
def files_of_hours_and_of_months_are_filtered(p: Place) -> None:
    filled(
        p,
        "id INT, t TIMESTAMP",
        "(1, timestamp '2021-06-30 01:00:00')",
        "PARTITIONED BY (hours(t))",
    )
    p.sql("ALTER TABLE $t REPLACE PARTITION FIELD hours(t) WITH months(t)")
    p.sql("INSERT INTO $t VALUES (2, timestamp '2021-05-30 01:00:00')")
    found(p, "t < timestamp '2021-07-01 00:00:00'", 1, 2)
    found(p, "t < timestamp '2021-06-01 00:00:00'", 2)


@case("TestFilterPushDown.testFilterPushdownWithSpecialFloatingPointPartitionValues")
def partitions_of_nan_and_infinities_are_filtered(p: Place) -> None:
    special = ("100.5", "double('NaN')", "double('infinity')", "double('-infinity')")
    rows = ", ".join(f"({n}, {value})" for n, value in enumerate(special, 1))
    filled(p, "id INT, salary DOUBLE", rows, "PARTITIONED BY (salary)")
    for n, value in enumerate(special, 1):
        found(p, f"salary = {value}", n)
    found(p, "salary != double('NaN')", 1, 3, 4)
    found(p, "salary > 100.5", 2, 3)


@case("TestFilterPushDown.testVariantExtractFiltering")
def fields_of_variants_are_filtered(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id BIGINT, data VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')"
    )
    one = """parse_json('{"field": "f", "num": %s}')"""
    p.sql(f"INSERT INTO $t VALUES (1, {one % 25}), (2, {one % 30}), (3, {one % 35}), (4, null)")
    num = "try_variant_get(data, '$$.num', 'int')"
    for condition, *ids in (
        ("IS NOT NULL", 1, 2, 3), ("IS NULL", 4), ("> 30", 3), ("= 30", 2), ("IN (25, 35)", 1, 3), ("!= 25", 2, 3),
    ):  # fmt: skip
        found(p, f"{num} {condition}", *ids)


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
