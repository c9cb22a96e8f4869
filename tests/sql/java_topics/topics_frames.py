"""DataFrames that are written, and options of reading."""

from datetime import datetime
from typing import Any

from tests.sql.java_topics.harness import Place, case, not_sql

AB, CD = [(1, "a"), (2, "b")], [(3, "c"), (4, "d")]
ABC, DEF = [*AB, (3, "c")], [(4, "d"), (5, "e"), (6, "f")]
ANY_SCHEMA = "'write.spark.accept-any-schema' = 'true'"


def any_schema(p: Place, columns: str = "id bigint, data string", rows: Any = AB) -> None:
    """Make a table that takes frames of any schema, with two rows."""
    p.sql(f"CREATE TABLE $t ({columns}) USING iceberg TBLPROPERTIES ({ANY_SCHEMA})")
    append(p, rows, columns)


def append(p: Place, rows: Any, schema: str, **options: str) -> None:
    writer = p.spark.createDataFrame(rows, schema).writeTo(p.text("$t"))
    for key, value in options.items():
        writer = writer.option(key.replace("_", "-"), value)
    writer.append()


THREE = "id bigint, data string, more float"
WITH_MORE = [(3, "c", 12.5), (4, "d", 14.5)]
ALL = [(1, "a", None), (2, "b", None), *WITH_MORE]


def refused(p: Place, *told: str, **options: str) -> None:
    try:
        append(p, WITH_MORE, THREE, **options)
    except Exception as error:
        assert any(text in str(error) for text in told), str(error)[:600]
    else:
        raise AssertionError("a column too many was written")


@case("TestDataFrameWriterV2.testMergeSchemaFailsWithoutWriterOption")
def a_column_too_many_is_refused_without_the_option(p: Place) -> None:
    any_schema(p)
    refused(p, "more")
    p.rows("SELECT * FROM $t ORDER BY id", *AB)


@case(
    "TestDataFrameWriterV2.testMergeSchemaWithoutAcceptAnySchema",
    differs="merge-schema adds columns to every table, not only to one that takes any schema",
)
def a_column_too_many_is_refused_by_a_table_that_takes_its_own_schema_only(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint, data string) USING iceberg")
    append(p, AB, "id bigint, data string")
    refused(p, "too many data columns", "INSERT_COLUMN_ARITY_MISMATCH", merge_schema="true")
    p.rows("SELECT * FROM $t ORDER BY id", *AB)


@case(
    "TestDataFrameWriterV2.testMergeSchemaSparkProperty",
    "TestDataFrameWriterV2.testMergeSchemaIcebergProperty",
    "TestDataFrameWriterV2.testMergeSchemaSparkConfiguration",
    each=("mergeSchema", "merge-schema", ""),
)
def a_column_too_many_is_added_where_asked_for(p: Place) -> None:
    any_schema(p)
    if p.each:
        append(p, WITH_MORE, THREE, **{p.each: "true"})
    else:
        with p.conf({"spark.sql.iceberg.merge-schema": "true"}):
            append(p, WITH_MORE, THREE)
    p.rows("SELECT * FROM $t ORDER BY id", *ALL)


@case("TestDataFrameWriterV2.testWriteWithCaseSensitiveOption")
def the_case_of_columns_counts_where_the_session_says_so(p: Place) -> None:
    any_schema(p)
    for sensitive, columns in (("false", 2), ("true", 4)):
        with p.conf({"spark.sql.caseSensitive": sensitive}):
            append(p, CD, "ID bigint, DaTa string", merge_schema="true", check_ordering="false")
        assert len(p.columns()) == columns


@case(
    "TestDataFrameWriterV2.testMergeSchemaIgnoreCastingLongToInt",
    "TestDataFrameWriterV2.testMergeSchemaIgnoreCastingDoubleToFloat",
    "TestDataFrameWriterV2.testMergeSchemaIgnoreCastingDecimalToDecimalWithNarrowerPrecision",
    each=(
        ("bigint", "int", "long"),
        ("double", "float", "double"),
        ("decimal(6,2)", "decimal(4,2)", "decimal(6, 2)"),
    ),
)
def a_narrower_column_leaves_the_tables_type(p: Place) -> None:
    wide, narrow, kind = p.each
    values = lambda rows: [(f"{n}.00" if "dec" in wide else n, s) for n, s in rows]
    p.sql(f"CREATE TABLE $t (id {wide}, data string) USING iceberg TBLPROPERTIES ({ANY_SCHEMA})")
    for rows, type_ in ((AB, wide), (CD, narrow)):
        frame = p.spark.createDataFrame(
            values(rows), f"id {'string' if 'dec' in wide else 'long'}, data string"
        )
        frame.selectExpr(f"cast(id as {type_}) as id", "data").writeTo(p.text("$t")).option(
            "merge-schema", "true"
        ).append()
    p.rows("SELECT int(id), data FROM $t ORDER BY id", *AB, *CD)
    assert p.columns()[0] == f"1 id {kind}"


@case("TestDataFrameWriterV2Coercion.testByteAndShortCoercion",
      each=tuple((f, t) for f in ("avro", "orc", "parquet") for t in ("byte", "short")))  # fmt: skip
def short_numbers_become_ints(p: Place) -> None:
    format_, kind = p.each
    frame = p.spark.createDataFrame(AB, f"id {kind}, data string")
    frame.writeTo(p.text("$t")).using("iceberg").option("write-format", format_).createOrReplace()
    p.rows("SELECT * FROM $t ORDER BY id", *AB)
    assert p.columns()[0] == "1 id int"
    p.rows("SELECT DISTINCT lower(file_format) FROM $t.files", (format_,))


SEVEN = [(1, None, "A"), *((n, "B" * 10, "AB"[n % 2 == 0]) for n in range(2, 8))]
COLUMNS = "c1 int, c2 string, c3 string"


def ordered(method: str, column: str, *statements: str) -> None:
    @case(f"source.TestRequiredDistributionAndOrdering.{method}")
    def unsorted_rows_are_written_to_their_partitions(p: Place) -> None:
        p.sql(
            f"CREATE TABLE $t (c1 INT, c2 STRING, {column} STRING) USING iceberg PARTITIONED BY ({column})"
        )
        p.sql(*statements)
        frame = p.spark.createDataFrame(SEVEN, COLUMNS).coalesce(1).sortWithinPartitions("c1")
        frame = frame.selectExpr("c1", "c2", f"c3 AS {column}")
        frame.writeTo(p.text("$t")).append()
        p.rows("SELECT * FROM $t ORDER BY c1", *SEVEN)
        p.rows(f"SELECT {column}, count(*) FROM $t GROUP BY 1 ORDER BY 1", ("A", 4), ("B", 3))


BY_RANGE = "ALTER TABLE $t WRITE ORDERED BY c1, c2"
BY_HASH = "ALTER TABLE $t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY c1, c2"
ordered("testDefaultLocalSort", "c3")
ordered("testPartitionColumnsArePrependedForRangeDistribution", "c3", BY_RANGE)
ordered("testSortOrderIncludesPartitionColumns", "c3", "ALTER TABLE $t WRITE ORDERED BY c3, c1, c2")
ordered("testHashDistribution", "c3", BY_HASH)
ordered("testRangeDistributionWithQuotedColumnsNames", "`c.3`", BY_RANGE)
ordered("testHashDistributionWithQuotedColumnsNames", "`c``3`", BY_HASH)


@case("source.TestRequiredDistributionAndOrdering.testSortBucketTransformsWithoutExtensions")
def rows_are_written_to_their_buckets(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (c1 INT, c2 STRING, c3 STRING) USING iceberg PARTITIONED BY (bucket(2, c1))"
    )
    frame = p.spark.createDataFrame(SEVEN[:4], COLUMNS).coalesce(1).sortWithinPartitions("c1")
    frame.writeTo(p.text("$t")).append()
    p.rows("SELECT * FROM $t ORDER BY c1", *SEVEN[:4])


@case(
    "source.TestRequiredDistributionAndOrdering.testDisabledDistributionAndOrdering",
    differs="rows that are not clustered are written all the same, where Java's writer fails",
)
def rows_that_are_not_clustered_are_refused_where_asked_for(p: Place) -> None:
    p.sql("CREATE TABLE $t (c1 INT, c2 STRING, c3 STRING) USING iceberg PARTITIONED BY (c3)")
    frame = p.spark.createDataFrame(SEVEN, COLUMNS).coalesce(1).sortWithinPartitions("c1")
    writer = frame.writeTo(p.text("$t")).option("use-table-distribution-and-ordering", "false")
    try:
        writer.option("fanout-enabled", "false").append()
    except Exception as error:
        assert "clustered" in str(error)
    else:
        raise AssertionError("rows that are not clustered were written")


LOGS = [
    (n, f"2020-02-0{2 + n // 4}", ("debug", "info", "warn")[n % 3], f"event {n}") for n in range(10)
]


@case(
    "TestIdentityPartitionData.testFullProjection",
    "TestIdentityPartitionData.testProjections",
    each=("parquet", "avro", "orc"),
)
def partition_columns_are_read_in_any_order(p: Place) -> None:
    p.sql(f"""CREATE TABLE $t (id INT, date STRING, level STRING, message STRING) USING iceberg
              PARTITIONED BY (date, level) TBLPROPERTIES ('write.format.default' = '{p.each}')""")
    names = ("id", "date", "level", "message")
    if p.each == "parquet":  # of Spark's own, whose files lack the columns of the partition
        frame = p.spark.createDataFrame(LOGS, "id int, date string, level string, message string")
        frame.write.partitionBy("date", "level").parquet(p.text("$dir/plain"))
        p.sql("CALL $c.system.add_files('$db.t', '`parquet`.`$dir/plain`')")
    else:
        p.sql(f"INSERT INTO $t VALUES {', '.join(map(str, LOGS))}")
    for chosen in (
        names, ("date",), ("level",), ("message",), ("date", "message"), ("level", "message"), ("message", "date"),
        ("level", "date"), ("date", "level", "message"), ("message", "level", "date"),
    ):  # fmt: skip
        columns = [names.index(name) for name in chosen]
        expected = [(row[0], *(row[n] for n in columns)) for row in LOGS]
        p.rows(f"SELECT id, {', '.join(chosen)} FROM $t ORDER BY id", *expected)


TIMES = [
    (0, datetime(2017, 12, 22, 9, 20, 44, 294658), "junction"),
    (1, datetime(2017, 12, 22, 7, 15, 34, 582910), "alligator"),
    (2, datetime(2017, 12, 21, 22, 20, 8, 935889), None),
]


@case(
    "source.TestTimestampWithoutZone.testUnpartitionedTimestampWithoutZone",
    "source.TestTimestampWithoutZone.testUnpartitionedTimestampWithoutZoneProjection",
    "source.TestTimestampWithoutZone.testUnpartitionedTimestampWithoutZoneAppend",
    each=("parquet", "avro"),
)
def times_without_zone_are_the_same_in_every_zone(p: Place) -> None:
    p.sql(f"""CREATE TABLE $t (id bigint NOT NULL, ts timestamp_ntz, data string) USING iceberg
              TBLPROPERTIES ('write.format.default' = '{p.each}')""")
    with p.conf({"spark.sql.session.timeZone": "Asia/Kolkata"}):
        p.spark.createDataFrame(TIMES, "id bigint, ts timestamp_ntz, data string").writeTo(
            p.text("$t")
        ).append()
    p.rows("SELECT * FROM $t ORDER BY id", *TIMES)
    p.rows("SELECT id, ts FROM $t ORDER BY id", *(row[:2] for row in TIMES))
    p.spark.read.format("iceberg").load(p.text("$t")).write.format("iceberg").mode("append").save(
        p.text("$t")
    )
    p.rows("SELECT * FROM $t ORDER BY id", *(row for row in TIMES for _ in (1, 2)))


def batches(p: Place) -> list[int]:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg")
    for rows in (ABC, DEF):
        p.spark.createDataFrame(rows, "id int, data string").write.format("iceberg").mode(
            "append"
        ).save(p.text("$t"))
    return p.snapshots()


def read(p: Place, **options: object) -> list[tuple[object, ...]]:
    reader = p.spark.read.format("iceberg")
    for key, value in options.items():
        reader = reader.option(key, value)
    return [tuple(r) for r in reader.load(p.text("$t")).orderBy("id").collect()]


def not_read(p: Place, *told: str, **options: object) -> None:
    try:
        rows = read(p, **options)
    except Exception as error:
        assert any(text in str(error).lower() for text in told), str(error)[:600]
    else:
        raise AssertionError(rows)


@case(
    "TestSnapshotSelection.testSnapshotSelectionById",
    "TestSnapshotSelection.testSnapshotSelectionByTimestamp",
)
def a_snapshot_is_read_by_id_or_time(p: Place) -> None:
    first, _ = batches(p)
    assert read(p) == [*ABC, *DEF]
    assert read(p, versionAsOf=first) == ABC
    p.date_snapshots(1_600_000_000_000, 1_700_000_000_000)
    assert read(p, timestampAsOf="2021-01-01 00:00:00.000") == ABC


@case(
    "TestSnapshotSelection.testSnapshotSelectionByInvalidSnapshotId",
    "TestSnapshotSelection.testSnapshotSelectionByInvalidTimestamp",
    "TestSnapshotSelection.testSnapshotSelectionBySnapshotIdAndTimestamp",
    "TestSnapshotSelection.testSnapshotSelectionByBranchAndTagFails",
    "TestSnapshotSelection.testSnapshotSelectionByTimestampAndBranchOrTagFails",
)
def one_state_that_is_there_is_read(p: Place) -> None:
    first, _ = batches(p)
    p.sql("ALTER TABLE $t CREATE BRANCH b", "ALTER TABLE $t CREATE TAG g")
    later = "2099-01-01 00:00:00.000"
    not_read(p, "-10", versionAsOf=-10)
    not_read(p, "older", "before", timestampAsOf="2000-01-01 00:00:00.000")
    not_read(p, "both version and timestamp", "together", versionAsOf=first, timestampAsOf=later)
    not_read(p, "travel in branch", "together", versionAsOf="g", branch="b")
    not_read(p, "travel in branch", "together", timestampAsOf=later, branch="b")
    not_read(p, "both version and timestamp", "together", timestampAsOf=later, versionAsOf="g")


@case(
    "TestSnapshotSelection.testSnapshotSelectionByTag",
    "TestSnapshotSelection.testSnapshotSelectionByBranch",
    "TestSnapshotSelection.testSnapshotSelectionByTagWithSchemaChange",
    "TestSnapshotSelection.testSnapshotSelectionByBranchWithSchemaChange",
    "TestSnapshotSelection.testWritingToBranchAfterSchemaChange",
)
def a_tag_keeps_its_columns_and_a_branch_takes_the_tables(p: Place) -> None:
    first, _ = batches(p)
    p.sql(
        f"ALTER TABLE $t CREATE TAG g AS OF VERSION {first}",
        f"ALTER TABLE $t CREATE BRANCH b AS OF VERSION {first}",
    )
    assert read(p, versionAsOf="g") == read(p, branch="b") == ABC
    p.sql("ALTER TABLE $t DROP COLUMN data")
    assert read(p, branch="b") == [(1,), (2,), (3,)]
    assert read(p, versionAsOf="g") == ABC
    p.sql("ALTER TABLE $t ADD COLUMN data string")
    nothing = [(n, None) for n in (1, 2, 3)]
    assert read(p, branch="b") == nothing
    p.sql("ALTER TABLE $t DROP COLUMN data", "ALTER TABLE $t ADD COLUMN zip int")
    added = [(4, 12345), (5, 54321)]
    frame = p.spark.createDataFrame(added, "id int, zip int").write.format("iceberg").mode("append")
    frame.option("branch", "b").save(p.text("$t"))
    assert read(p, branch="b") == [*nothing, *added]


@case("TestForwardCompatibility.testSparkWriteFailsUnknownTransform")
def a_table_with_a_transform_of_others_is_not_written(p: Place) -> None:
    p.register(
        [{"id": 1, "name": "id", "type": "long", "required": False}],
        partitions=((1, "zero", "id_zero"),),
    )
    p.fails("INSERT INTO $t VALUES (1)", "zero")


not_sql(
    "TestForwardCompatibility", "is about streams", "testSparkStreamingWriteFailsUnknownTransform"
)
not_sql("TestForwardCompatibility", "is disabled in Java", "testSparkCanReadUnknownTransform")
