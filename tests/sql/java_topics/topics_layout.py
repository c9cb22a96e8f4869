"""Partition fields, write order and distribution, identifier fields, and writes that follow them."""

from datetime import datetime

from tests.sql.java_topics.harness import Place, case, not_sql

WIDE = "id bigint NOT NULL, category string, ts timestamp, data string"
VERSIONS = (1, 2)


def table(p: Place, columns: str = WIDE, partitioned: str = "") -> None:
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    p.sql(
        f"CREATE TABLE $t ({columns}) USING iceberg {clause}"
        f" TBLPROPERTIES ('format-version' = '{p.each or 2}')"
    )


def added(method: str, term: str, *expected: str) -> None:
    @case(f"TestAlterTablePartitionFields.{method}", each=VERSIONS)
    def a_partition_field_is_added(p: Place) -> None:
        table(p)
        assert p.spec() == []
        p.sql(f"ALTER TABLE $t ADD PARTITION FIELD {term}")
        assert p.spec() == [expected]


added("testAddIdentityPartition", "category", "category", "identity", "category")
added("testAddBucketPartition", "bucket(16, id)", "id", "bucket[16]", "id_bucket_16")
added("testAddTruncatePartition", "truncate(data, 4)", "data", "truncate[4]", "data_trunc_4")
for unit in ("year", "month", "day", "hour"):
    added(f"testAdd{unit.title()}sPartition", f"{unit}s(ts)", "ts", unit, f"ts_{unit}")
    added(f"testAdd{unit.title()}Partition", f"{unit}(ts)", "ts", unit, f"ts_{unit}")
added("testAddNamedPartition", "bucket(16, id) AS shard", "id", "bucket[16]", "shard")


def dropped(p: Place, column: str, name: str) -> list[tuple[str, str, str]]:
    """What is left of a field that was dropped: a void one in format version 1."""
    return [(column, "void", name)] if p.each == 1 else []


def drops(method: str, columns: str, term: str, column: str, name: str) -> None:
    @case(f"TestAlterTablePartitionFields.{method}", each=VERSIONS)
    def a_partition_field_is_dropped(p: Place) -> None:
        table(p, columns, term)
        assert len(p.spec()) == 1
        p.sql(f"ALTER TABLE $t DROP PARTITION FIELD {term}")
        assert p.spec() == dropped(p, column, name)


SHORT = "id bigint NOT NULL, category string, data string"
TIMED = "id bigint NOT NULL, ts timestamp, data string"
drops("testDropIdentityPartition", SHORT, "category", "category", "category")
drops("testDropDaysPartition", TIMED, "days(ts)", "ts", "ts_day")
drops("testDropBucketPartition", SHORT, "bucket(16, id)", "id", "id_bucket")


@case("TestAlterTablePartitionFields.testDropPartitionByName", each=VERSIONS)
def a_field_is_dropped_by_its_name(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t ADD PARTITION FIELD bucket(16, id) AS shard")
    p.sql("ALTER TABLE $t DROP  PARTITION \n FIELD shard")
    assert p.spec() == dropped(p, "id", "shard")


def replaces(method: str, first: str, old: str, new: str, old_name: str, new_name: str) -> None:
    @case(f"TestAlterTablePartitionFields.{method}", each=VERSIONS)
    def a_field_is_replaced(p: Place) -> None:
        table(p)
        p.sql(f"ALTER TABLE $t ADD PARTITION FIELD {first}")
        assert p.spec() == [("ts", "day", old_name)]
        p.sql(f"ALTER TABLE $t REPLACE PARTITION FIELD {old} WITH {new}")
        assert p.spec() == [*dropped(p, "ts", old_name), ("ts", "hour", new_name)]


replaces("testReplacePartition", "days(ts)", "days(ts)", "hours(ts)", "ts_day", "ts_hour")
replaces(
    "testReplacePartitionAndRename",
    "days(ts)", "days(ts)", "hours(ts) AS hour_col", "ts_day", "hour_col",
)  # fmt: skip
replaces(
    "testReplaceNamedPartition",
    "days(ts) AS day_col", "day_col", "hours(ts)", "day_col", "ts_hour",
)  # fmt: skip
replaces(
    "testReplaceNamedPartitionAndRenameDifferently",
    "days(ts) AS day_col", "day_col", "hours(ts) AS hour_col", "day_col", "hour_col",
)  # fmt: skip


def partitioning(p: Place) -> list[str]:
    described = p.sql("DESCRIBE TABLE EXTENDED $t")
    return [row[1] for row in described if row[0].startswith("Part ")]


@case("TestAlterTablePartitionFields.testSparkTableAddDropPartitions", each=VERSIONS)
def spark_sees_the_fields_as_they_are(p: Place) -> None:
    table(p, TIMED)
    bucket, cut = "bucket(16, id)", "truncate(4, data)"
    for change, expected in (
        ("ADD PARTITION FIELD bucket(16, id) AS shard", [bucket]),
        ("ADD PARTITION FIELD truncate(data, 4)", [bucket, cut]),
        ("ADD PARTITION FIELD years(ts)", [bucket, cut, "years(ts)"]),
        ("DROP PARTITION FIELD years(ts)", [bucket, cut]),
        ("DROP PARTITION FIELD truncate(4, data)", [bucket]),
        ("DROP PARTITION FIELD shard", []),
    ):
        p.sql(f"ALTER TABLE $t {change}")
        assert partitioning(p) == expected, change


@case("TestAlterTablePartitionFields.testDropColumnOfOldPartitionFieldV1", each=(1,))
@case("TestAlterTablePartitionFields.testDropColumnOfOldPartitionFieldV2", each=(2,))
def a_column_of_an_old_field_can_be_dropped(p: Place) -> None:
    table(p, "id bigint NOT NULL, ts timestamp, day_of_ts date", "day_of_ts")
    p.sql("ALTER TABLE $t REPLACE PARTITION FIELD day_of_ts WITH days(ts)")
    p.sql("ALTER TABLE $t DROP COLUMN day_of_ts")
    assert list(p.fields().values()) == ["id", "ts"]


def evolved(p: Place, term: str, column: str) -> None:
    p.sql("DROP TABLE IF EXISTS $t")
    table(p, "col_int INTEGER, col_ts TIMESTAMP_NTZ, col_long BIGINT")
    row = "INSERT INTO $t VALUES ({0}000, CAST('2024-0{1}-01 19:25:00' AS TIMESTAMP), 2{0}00)"
    p.sql(row.format(1, 3), f"ALTER TABLE $t ADD PARTITION FIELD {term} AS col2_partition")
    p.sql(row.format(2, 4), "ALTER TABLE $t DROP PARTITION FIELD col2_partition")
    p.sql(row.format(3, 5), f"ALTER TABLE $t DROP COLUMN {column}")


@case("TestAlterTablePartitionFields.testDropPartitionAndSourceColumnLong", each=VERSIONS)
def rows_are_read_after_a_column_of_a_dropped_field_of_times_is_gone(p: Place) -> None:
    for term in ("col_ts", "year(col_ts)", "month(col_ts)", "day(col_ts)"):
        evolved(p, term, "col_ts")
        p.rows(
            "SELECT * FROM $t WHERE col_long >= 2200 ORDER BY col_int", (2000, 2200), (3000, 2300)
        )


@case("TestAlterTablePartitionFields.testDropPartitionAndSourceColumnTimestamp", each=VERSIONS)
def rows_are_read_after_a_column_of_a_dropped_field_of_numbers_is_gone(p: Place) -> None:
    for term in ("col_long", "truncate(2, col_long)", "bucket(16, col_long)"):
        evolved(p, term, "col_long")
        p.rows(
            "SELECT * FROM $t WHERE col_ts >= '2024-04-01 19:25:00' ORDER BY col_int",
            (2000, datetime(2024, 4, 1, 19, 25)),
            (3000, datetime(2024, 5, 1, 19, 25)),
        )


@case("TestAlterTablePartitionFields.deleteAfterDroppingPartitionAndSourceColumn", each=VERSIONS)
def rows_are_deleted_after_a_partition_column_is_gone(p: Place) -> None:
    table(p, "id INTEGER, data STRING")
    p.sql("INSERT INTO $t VALUES (1, 'data1')", "ALTER TABLE $t ADD PARTITION FIELD data")
    p.sql("INSERT INTO $t VALUES (2, 'data2')", "ALTER TABLE $t DROP PARTITION FIELD data")
    p.sql("INSERT INTO $t VALUES (3, 'data3')", "ALTER TABLE $t DROP COLUMN data")
    p.rows("SELECT * FROM $t WHERE id >= 1 ORDER BY id", (1,), (2,), (3,))
    p.sql("DELETE FROM $t WHERE id >= 1")
    p.rows("SELECT * FROM $t WHERE id >= 1")


@case("TestAlterTablePartitionFields.testReaddColumnAfterIdentityPartitionDrop", each=VERSIONS)
def a_column_comes_back_after_its_field_was_dropped(p: Place) -> None:
    table(p, SHORT, "category")
    p.sql("ALTER TABLE $t DROP PARTITION FIELD category", "ALTER TABLE $t DROP COLUMN category")
    p.sql("ALTER TABLE $t ADD COLUMN category string")
    p.sql("INSERT INTO $t (id, category, data) VALUES (1, 'books', 'a')")
    p.rows("SELECT id, category, data FROM $t", (1, "books", "a"))


# Write order and distribution
# --------------------------------------------------------------------------------------------------------------------------------------

ID = ("id", "identity", "asc", "nulls-first")
CATEGORY = ("category", "identity", "asc", "nulls-first")
LAST = ("category", "identity", "desc", "nulls-last")
SHARDED = [LAST, ("id", "bucket[16]", "asc", "nulls-first"), ID]


def ordered(
    method: str, text: str, mode: str | None, order: list[tuple[str, ...]], partitioned: str = ""
) -> None:
    @case(f"TestSetWriteDistributionAndOrdering.{method}")
    def a_table_is_told_how_to_write(p: Place) -> None:
        table(p, partitioned=partitioned)
        assert p.order() == []
        for statement in text.split(";"):
            p.sql(f"ALTER TABLE $t WRITE {statement}")
        assert p.properties().get("write.distribution-mode") == mode
        assert p.order() == order


ordered("testSetWriteOrderByColumn", "ORDERED BY category, id", "range", [CATEGORY, ID])
ordered(
    "testSetWriteOrderByColumnWithDirection",
    "ORDERED BY category ASC, id DESC",
    *("range", [CATEGORY, ("id", "identity", "desc", "nulls-last")]),
)
ordered(
    "testSetWriteOrderByColumnWithDirectionAndNullOrder",
    "ORDERED BY category ASC NULLS LAST, id DESC NULLS FIRST",
    "range",
    [
        ("category", "identity", "asc", "nulls-last"),
        ("id", "identity", "desc", "nulls-first"),
    ],
)
ordered(
    "testSetWriteOrderByTransform",
    "ORDERED BY category DESC, bucket(16, id), id",
    *("range", SHARDED),
)
ordered(
    "testSetWriteUnordered",
    "ORDERED BY category DESC, bucket(16, id), id;UNORDERED",
    *("none", []),
)
ordered(
    "testSetWriteLocallyOrdered",
    "LOCALLY ORDERED BY category DESC, bucket(16, id), id",
    *(None, SHARDED),
)
ordered(
    "testSetWriteLocallyOrderedToPartitionedTable",
    "LOCALLY ORDERED BY category DESC",
    *(None, [LAST], "id"),
)
ordered(
    "testSetWriteDistributedByWithSort",
    "DISTRIBUTED BY PARTITION ORDERED BY id",
    *("hash", [ID], "category"),
)
ordered(
    "testSetWriteDistributedByWithLocalSort",
    "DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id;LOCALLY ORDERED BY id",
    *("hash", [ID], "category"),
)
ordered(
    "testSetWriteDistributedByAndUnordered",
    "DISTRIBUTED BY PARTITION UNORDERED",
    *("hash", [], "category"),
)
ordered("testSetWriteDistributedByOnly", "DISTRIBUTED BY PARTITION", "hash", [], "category")
ordered(
    "testSetWriteDistributedAndUnorderedInverted",
    "UNORDERED DISTRIBUTED BY PARTITION",
    *("hash", [], "category"),
)
ordered(
    "testSetWriteDistributedAndLocallyOrderedInverted",
    "ORDERED BY id DISTRIBUTED BY PARTITION",
    *("hash", [ID], "category"),
)


@case("TestSetWriteDistributionAndOrdering.testSetWriteOrderWithCaseSensitiveColumnNames")
def the_order_finds_columns_as_the_session_spells_them(p: Place) -> None:
    table(p, "Id bigint NOT NULL, Category string, ts timestamp, data string")
    with p.conf({"spark.sql.caseSensitive": "true"}):
        p.fails("ALTER TABLE $t WRITE ORDERED BY category, id", "category")
    p.sql("ALTER TABLE $t WRITE ORDERED BY category, id")
    assert [(column, direction) for column, _, direction, _ in p.order()] == [
        ("Category", "asc"),
        ("Id", "asc"),
    ]


SEVEN = [(1, None, "A"), *((n, "BBBBBBBBBB", "AB"[n % 2 == 0]) for n in range(2, 8))]
REQUIRED = "TestRequiredDistributionAndOrdering.test"


def written(method: str, change: str = "", column: str = "c1") -> None:
    @case(f"{REQUIRED}{method}")
    def rows_that_are_not_sorted_by_bucket_are_written(p: Place) -> None:
        p.sql(
            f"CREATE TABLE $t ({column} INT, c2 STRING, c3 STRING) USING iceberg"
            f" PARTITIONED BY (bucket(2, {column}))"
        )
        if change:
            p.sql(f"ALTER TABLE $t WRITE {change}")
        frame = p.frame(SEVEN, "c1 int, c2 string, c3 string")
        frame = frame.selectExpr(f"c1 AS {column}", "c2", "c3").coalesce(1)
        frame.sortWithinPartitions(column).writeTo(p.text("$t")).append()
        p.rows("SELECT * FROM $t ORDER BY 1", *SEVEN)


written("DefaultLocalSortWithBucketTransforms")
written("PartitionColumnsArePrependedForRangeDistribution", "ORDERED BY c1, c2")
written("SortOrderIncludesPartitionColumns", "ORDERED BY bucket(2, c3), c1, c2")
written("HashDistributionOnBucketedColumn", "DISTRIBUTED BY PARTITION ORDERED BY c1, c2")
written("RangeDistributionWithQuotedColumnNames", "ORDERED BY `c.1`, c2", "`c.1`")


def sorted_by(method: str, kind: str, term: str, *values: str) -> None:
    @case(f"{REQUIRED}DefaultSortOn{method}Column")
    def rows_are_sorted_by_what_partitions_are_of(p: Place) -> None:
        p.sql(f"CREATE TABLE $t (c1 INT, c2 {kind}) USING iceberg PARTITIONED BY ({term}(2, c2))")
        rows = ", ".join(f"({n}, {value})" for n, value in enumerate(values))
        p.sql(f"INSERT INTO $t VALUES {rows}")
        expected = p.sql(f"SELECT c1, CAST(c2 AS {kind}) FROM VALUES {rows} AS v(c1, c2)")
        p.rows("SELECT * FROM $t", *expected)


sorted_by("DecimalBucketed", "DECIMAL(20, 2)", "bucket", "20.2", "40.2", "60.2")
sorted_by("StringBucketed", "STRING", "bucket", "'A'", "'B'")
sorted_by("BinaryBucketed", "BINARY", "bucket", "X'A1B1'", "X'A2B2'")
sorted_by("DecimalTruncated", "DECIMAL(20, 2)", "truncate", "20.2", "40.2")
sorted_by("LongTruncated", "BIGINT", "truncate", "22222222222222", "444444444444")


@case(
    "TestRequiredDistributionAndOrdering.testDisabledDistributionAndOrdering",
    "TestWriteAborts.testBatchAppend",
    differs="a decision: rows that are not clustered are fanned out whatever the options say",
)
def a_write_that_may_neither_sort_nor_fan_out_fails_and_leaves_no_files(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id INT, data STRING) USING iceberg PARTITIONED BY (data)"
        " TBLPROPERTIES ('write.data.path' = '$dir/data')"
    )
    frame = p.frame([(1, "a"), (2, "b"), (3, "a"), (4, "b")], "id int, data string").coalesce(1)
    writer = frame.sortWithinPartitions("id").writeTo(p.text("$t"))
    writer = writer.option("use-table-distribution-and-ordering", "false")
    try:
        writer.option("fanout-enabled", "false").append()
    except Exception as error:
        assert "cluster" in str(error) or "closed files" in str(error), str(error)[:500]
    else:
        raise AssertionError("rows that are not clustered were written")
    p.rows("SELECT * FROM $t")
    assert not list(p.directory.glob("data/**/*.parquet"))


# Identifier fields
# --------------------------------------------------------------------------------------------------------------------------------------

PLACED = "id bigint NOT NULL, data string NOT NULL, id2 bigint, location struct<lon: bigint NOT NULL, lat: bigint NOT NULL> NOT NULL"


def identifiers(p: Place) -> set[str]:
    known, names = p.metadata(), p.fields()
    (schema,) = [s for s in known["schemas"] if s["schema-id"] == known["current-schema-id"]]
    return {names[i] for i in schema.get("identifier-field-ids", [])}


def identified(method: str, *steps: tuple[str, set[str]]) -> None:
    @case(f"TestAlterTableSchema.{method}")
    def identifier_fields_are_set_and_dropped(p: Place) -> None:
        table(p, PLACED)
        assert identifiers(p) == set()
        for change, expected in steps:
            p.sql(f"ALTER TABLE $t {change}")
            assert identifiers(p) == expected, change


identified(
    "testSetIdentifierFields",
    ("SET IDENTIFIER FIELDS id", {"id"}),
    ("SET IDENTIFIER FIELDS id, location.lon", {"id", "location.lon"}),
    ("SET IDENTIFIER FIELDS location.lon", {"location.lon"}),
)
identified(
    "testDropIdentifierFields",
    ("SET IDENTIFIER FIELDS id, location.lon", {"id", "location.lon"}),
    ("DROP IDENTIFIER FIELDS id", {"location.lon"}),
    ("SET IDENTIFIER FIELDS id, location.lon", {"id", "location.lon"}),
    ("DROP IDENTIFIER FIELDS id, location.lon", set()),
)


@case("TestAlterTableSchema.testSetInvalidIdentifierFields")
def identifier_fields_exist_and_are_required(p: Place) -> None:
    table(p, PLACED)
    p.fails("ALTER TABLE $t SET IDENTIFIER FIELDS unknown", "unknown")
    p.fails("ALTER TABLE $t SET IDENTIFIER FIELDS id2", "id2", "required")


@case("TestAlterTableSchema.testDropInvalidIdentifierFields")
def only_identifier_fields_are_dropped(p: Place) -> None:
    table(p, PLACED)
    p.fails("ALTER TABLE $t DROP IDENTIFIER FIELDS unknown", "unknown")
    p.sql("ALTER TABLE $t SET IDENTIFIER FIELDS id")
    p.fails("ALTER TABLE $t DROP IDENTIFIER FIELDS data", "data.* (not an|no) identifier")
    p.fails("ALTER TABLE $t DROP IDENTIFIER FIELDS location.lon", "location.lon")


# Parameters of statements
# --------------------------------------------------------------------------------------------------------------------------------------


@case("TestExtendedParser.testParsePlanWithParametersBindsPositionalParameter")
@case("TestExtendedParser.testParsePlanWithParametersBindsNamedParameter")
def parameters_are_bound_beside_the_extensions(p: Place) -> None:
    assert [tuple(r) for r in p.spark.sql("SELECT ? AS id", [42]).collect()] == [(42,)]
    assert [tuple(r) for r in p.spark.sql("SELECT :id AS id", {"id": 42}).collect()] == [(42,)]


not_sql(
    "TestExtendedParser",
    "finds a Java parser among Spark's parsers by reflection",
    "testParsePlanWithParametersDelegatesForNonIcebergSql",
    "testParseSortOrderFindsExtendedParserInParentClassField",
    "testParseSortOrderFindsNestedExtendedParser",
    "testParseSortOrderThrowsWhenNoExtendedParserFound",
    "testParseSortOrderWithRealIcebergExtendedParser",
)
not_sql("TestRemoteScanPlanning", "properties of Java's FileIO in a scan", "fileIOIsPropagated")
not_sql(
    "TestMetaColumnProjectionWithStageScan",
    "tasks staged under an id in a Java cache",
    "testReadStageTableMeta",
)


@case("TestRegisterTableProcedure.testRegisterTable")
def a_metadata_file_becomes_a_table(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg")
    p.sql("INSERT INTO $t SELECT CAST(id AS int), CAST(id AS string) FROM range(0, 1000)")
    files, snapshot = p.one("SELECT count(*) FROM $t.files"), p.snapshots()[-1]
    file = p.sql("SELECT file FROM $t.metadata_log_entries ORDER BY timestamp DESC")[0][0]
    p.rows(f"CALL $c.system.register_table('$db.r', '{file}')", (snapshot, 1000, files))
    p.rows("SELECT count(*), sum(id) FROM $ns.r", (1000, 499500))
