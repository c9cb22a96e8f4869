"""Partition fields, write order and distribution, identifier fields, and writes that follow them."""

from tests.sql.java_topics.harness import Place, case, not_sql

WIDE = "id bigint NOT NULL, category string, ts timestamp, data string"
VERSIONS = (1, 2)


def table(p: Place, columns: str = WIDE, partitioned: str = "") -> None:
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    p.sql(
        f"CREATE TABLE $t ({columns}) USING iceberg {clause}"
        f" TBLPROPERTIES ('format-version' = '{p.each or 2}')"
    )


TIMED = "id bigint NOT NULL, ts timestamp, data string"


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


# Write order and distribution
# --------------------------------------------------------------------------------------------------------------------------------------

ID = ("id", "identity", "asc", "nulls-first")
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
