"""Joins and aggregates over tables with partitions, with Spark's storage-partitioned joins on and
off.

Java's scan tells Spark how its rows are partitioned, so that a plan needs fewer shuffles; the
plans are each engine's own. These cases say that the rows are those of the same join without it.
"""

from tests.sql.java_topics.harness import Place, case

ON = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
}
SPLITS = "'read.split.target-size' = '16777216', 'read.split.open-file-cost' = '16777216'"
KEYS = {  # from the number of a row, of which every fifth is null
    "TINYINT": "CAST(k AS TINYINT)",
    "SMALLINT": "CAST(k * 100 AS SMALLINT)",
    "INT": "CAST(k * 100003 AS INT)",
    "BIGINT": "k * 10000000019",
    "TIMESTAMP": "timestamp_micros(k * 1234567890123)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros(k * 1234567890123) AS TIMESTAMP_NTZ)",
    "DATE": "date_add(date '1969-11-20', CAST(k * 17 AS INT))",
    "DECIMAL(20, 2)": "CAST(k * 12345.67 AS DECIMAL(20, 2))",
    "BINARY": "CAST(concat('key ', k) AS BINARY)",
}


def same(p: Place, query: str, least: int = 1) -> None:
    """Check that a query gives the same rows, of which there are some, whatever Spark plans."""
    with p.conf(ON):
        joined = p.sql(query)
    with p.conf(ON | {"spark.sql.sources.v2.bucketing.enabled": "false"}):
        plain = p.sql(query)
    assert joined == plain
    assert len(joined) >= least


def joined(kind: str, transform: str, method: str) -> None:
    @case(f"TestStoragePartitionedJoins.{method}")
    def rows_are_joined_by_the_column_of_their_partition(p: Place) -> None:
        for table in ("$t", "$ns.other"):
            p.sql(f"""CREATE TABLE {table} (id BIGINT, salary INT, k {kind}) USING iceberg
                      PARTITIONED BY ({transform}) TBLPROPERTIES ({SPLITS})""")
            p.sql(f"""INSERT INTO {table} SELECT id, CAST(id % 7 AS INT), {KEYS[kind]} FROM
                      (SELECT id, IF(id % 5 = 0, NULL, id % 12 - 6) AS k FROM range(60))""")
        query = "SELECT a.id, a.salary, a.k FROM $t a JOIN $ns.other b ON a.id = b.id AND a.k = b.k"
        same(p, f"{query} ORDER BY a.id, a.k, a.salary", 48)


for _kind, _transform, _method in (
    ("TINYINT", "bucket(4, k)", "testJoinsWithBucketingOnByteColumn"),
    ("SMALLINT", "bucket(4, k)", "testJoinsWithBucketingOnShortColumn"),
    ("INT", "bucket(16, k)", "testJoinsWithBucketingOnIntColumn"),
    ("BIGINT", "bucket(16, k)", "testJoinsWithBucketingOnLongColumn"),
    ("TIMESTAMP", "bucket(16, k)", "testJoinsWithBucketingOnTimestampColumn"),
    ("TIMESTAMP_NTZ", "bucket(16, k)", "testJoinsWithBucketingOnTimestampNtzColumn"),
    ("DATE", "bucket(8, k)", "testJoinsWithBucketingOnDateColumn"),
    ("DECIMAL(20, 2)", "bucket(8, k)", "testJoinsWithBucketingOnDecimalColumn"),
    ("BINARY", "bucket(8, k)", "testJoinsWithBucketingOnBinaryColumn"),
    ("TIMESTAMP", "years(k)", "testJoinsWithYearsOnTimestampColumn"),
    ("TIMESTAMP_NTZ", "years(k)", "testJoinsWithYearsOnTimestampNtzColumn"),
    ("DATE", "years(k)", "testJoinsWithYearsOnDateColumn"),
    ("TIMESTAMP", "months(k)", "testJoinsWithMonthsOnTimestampColumn"),
    ("TIMESTAMP_NTZ", "months(k)", "testJoinsWithMonthsOnTimestampNtzColumn"),
    ("DATE", "months(k)", "testJoinsWithMonthsOnDateColumn"),
    ("TIMESTAMP", "days(k)", "testJoinsWithDaysOnTimestampColumn"),
    ("TIMESTAMP_NTZ", "days(k)", "testJoinsWithDaysOnTimestampNtzColumn"),
    ("DATE", "days(k)", "testJoinsWithDaysOnDateColumn"),
    ("TIMESTAMP", "hours(k)", "testJoinsWithHoursOnTimestampColumn"),
    ("TIMESTAMP_NTZ", "hours(k)", "testJoinsWithHoursOnTimestampNtzColumn"),
):  # fmt: skip
    joined(_kind, _transform, _method)


THREE = ((1, 100, "software"), (2, 200, "hr"), (3, 300, "software"))
COLUMNS = "id BIGINT, int_col INT, dep STRING"
BY_ALL = """SELECT * FROM $t a JOIN $ns.other b ON a.id = b.id AND a.int_col = b.int_col AND a.dep = b.dep
            ORDER BY a.id, a.int_col, a.dep"""
BY_ID = (
    "SELECT * FROM $t a JOIN $ns.other b ON a.id = b.id ORDER BY a.id, a.int_col, a.dep, b.int_col"
)


def table(p: Place, name: str, partitions: str, *rows: tuple[object, ...]) -> None:
    by = f"PARTITIONED BY ({partitions})" if partitions else ""
    p.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ({SPLITS})")
    for row in rows:
        p.sql(f"INSERT INTO {name} VALUES {row}")


@case("TestStoragePartitionedJoins.testJoinsWithMultipleTransformTypes")
def rows_are_joined_by_some_of_many_partition_fields(p: Place) -> None:
    for name, times in (("$t", 1), ("$ns.other", 2)):
        p.sql(f"""CREATE TABLE {name} (id BIGINT, int_col INT, d1 DATE, d2 DATE, d3 DATE, ts TIMESTAMP,
                  s STRING, dep STRING) USING iceberg PARTITIONED BY (
                  years(d1), months(d2), days(d3), hours(ts), bucket(8, int_col), dep)
                  TBLPROPERTIES ({SPLITS})""")
        for _ in range(times):
            p.sql(f"""INSERT INTO {name} SELECT id, CAST(id * 7 AS INT), date_add(date '2020-01-01', 300 * n),
                      date_add(date '2020-01-01', 20 * n), date_add(date '2020-01-01', n),
                      timestamp_seconds(id * 7200), concat('s', id), IF(n = 0, 'hr', 'it')
                      FROM (SELECT id, CAST(id % 2 AS INT) AS n FROM range(8))""")
    for keys in ("dep", "int_col, d1", "ts, s", "d1, d2, d3", "int_col, ts, dep"):
        conditions = " AND ".join(f"a.{key} = b.{key}" for key in ("id", *keys.split(", ")))
        chosen = ", ".join(f"a.{key}" for key in ("id", *keys.split(", ")))
        same(p, f"SELECT {chosen} FROM $t a JOIN $ns.other b ON {conditions} ORDER BY {chosen}", 16)


@case("TestStoragePartitionedJoins.testJoinsWithCompatibleSpecEvolution")
def rows_of_two_specs_are_joined(p: Place) -> None:
    table(p, "$t", "")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD dep", "INSERT INTO $t VALUES (1, 100, 'software')")
    p.sql(
        "ALTER TABLE $t ADD PARTITION FIELD bucket(8, int_col)",
        "INSERT INTO $t VALUES (2, 200, 'hr')",
    )
    table(p, "$ns.other", "dep", *THREE[:2])
    same(p, BY_ALL, 2)


@case("TestStoragePartitionedJoins.testJoinsWithIncompatibleSpecs")
def rows_of_unlike_partitions_are_joined(p: Place) -> None:
    table(p, "$t", "dep", *THREE)
    table(p, "$ns.other", "bucket(8, int_col)", *THREE)
    same(p, BY_ALL, 3)


@case("TestStoragePartitionedJoins.testJoinsWithUnpartitionedTables")
def rows_without_partitions_are_joined(p: Place) -> None:
    table(p, "$t", "", *THREE)
    table(p, "$ns.other", "", *THREE)
    same(p, BY_ALL, 3)


@case("TestStoragePartitionedJoins.testJoinsWithEmptyTable")
def an_empty_table_joins_to_nothing(p: Place) -> None:
    table(p, "$t", "dep")
    table(p, "$ns.other", "dep", *THREE)
    same(p, BY_ALL, 0)


@case("TestStoragePartitionedJoins.testJoinsWithOneSplitTables")
def tables_of_one_file_are_joined(p: Place) -> None:
    table(p, "$t", "dep", THREE[0])
    table(p, "$ns.other", "dep", THREE[0])
    same(p, BY_ALL, 1)


@case("TestStoragePartitionedJoins.testJoinsWithMismatchingPartitionKeys")
def partitions_that_one_side_lacks_are_joined(p: Place) -> None:
    table(p, "$t", "dep", *THREE[:2])
    table(p, "$ns.other", "dep", THREE[0], (3, 300, "hardware"))
    same(p, BY_ALL, 1)


@case(
    "TestStoragePartitionedJoins.testJoinsCompatibleBucketNumbers",
    "TestStoragePartitionedJoins.testJoinsWithBucketWithOneSideReducing",
    "TestStoragePartitionedJoins.testJoinsIncompatibleBucketNumbers",
    each=((4, 6), (4, 8), (3, 5)),
)
def rows_of_other_numbers_of_buckets_are_joined(p: Place) -> None:
    rows = [(n, 99 + n, f"dep {n}") for n in range(1, 7)]
    for name, buckets, kept in zip(
        ("$t", "$ns.other"), p.each, (rows, rows[:1] + rows[2:]), strict=True
    ):
        table(p, name, f"bucket({buckets}, id)")
        p.sql(f"INSERT INTO {name} VALUES {', '.join(map(str, kept))}")
    same(p, BY_ID, 5)


@case("TestStoragePartitionedJoins.testAggregates")
def groups_of_partitions_are_counted(p: Place) -> None:
    table(p, "$t", "dep, bucket(8, int_col)")
    p.sql("INSERT INTO $t SELECT id, CAST(id % 9 AS INT), concat('d', id % 4) FROM range(100)")
    for keys in ("dep, int_col", "dep"):
        same(
            p,
            f"SELECT {keys}, count(DISTINCT id) AS n FROM $t GROUP BY {keys} ORDER BY n, {keys}",
            4,
        )


@case("TestStoragePartitionedJoins.testJoinsHourToDays")
def partitions_of_hours_and_of_days_are_joined(p: Place) -> None:
    rows = [(1, "11 10"), (2, "10 09"), (3, "10 11"), (4, "10 10"), (5, "11 10"), (6, "10 10")]
    others = [rows[n] for n in (0, 2, 4, 4, 5)]
    for name, part, values in (("$t", "days", rows), ("$ns.other", "hours", others)):
        p.sql(f"""CREATE TABLE {name} (id BIGINT, ts TIMESTAMP) USING iceberg PARTITIONED BY ({part}(ts))
                  TBLPROPERTIES ({SPLITS})""")
        told = ", ".join(f"({n}, timestamp '2024-11-{time}:00:00')" for n, time in values)
        p.sql(f"INSERT INTO {name} VALUES {told}")
    same(p, "SELECT * FROM $t a JOIN $ns.other b ON a.id = b.id AND a.ts = b.ts ORDER BY a.id", 5)
