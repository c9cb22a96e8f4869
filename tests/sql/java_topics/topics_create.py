"""Creating, replacing and dropping tables."""

import os
from pathlib import Path

from tests.sql.java_topics.harness import Place, case

ID_AND_DATA = ["1 id long not null", "2 data string"]


@case("TestCreateTable.testCreateTable", on=("sql", "path", "session"))
def a_table_has_its_columns_and_nothing_else(p: Place) -> None:
    p.sql("CREATE TABLE $t (id BIGINT NOT NULL, data STRING) USING iceberg")
    assert p.columns() == ID_AND_DATA
    assert p.spec() == []
    assert "write.format.default" not in p.properties()


@case("TestCreateTable.testCreateTablePartitionedByUUID")
def uuids_are_text_and_partition_a_table(p: Place) -> None:
    column = {"id": 1, "name": "u", "type": "uuid", "required": False}
    p.register([column], partitions=((1, "bucket[16]", "u_bucket"),))
    text = "6f0d3a3e-8f7e-4a2b-9d0c-3f3f8f4e5b6a"
    p.sql(f"INSERT INTO $t VALUES ('{text}')")
    p.rows("SELECT u FROM $t", (text,))
    p.rows(f"SELECT count(*) FROM $t WHERE u = '{text}'", (1,))


@case(
    "TestCreateTable.testCreateTableInRootNamespace",
    on=("path",),
    differs="a table has a namespace; that of Java's Hadoop catalogs may be empty",
)
def a_table_needs_no_namespace(p: Place) -> None:
    p.sql("CREATE TABLE $c.$db (id bigint) USING iceberg")
    p.rows("SELECT * FROM $c.$db")
    p.sql("DROP TABLE $c.$db")


@case("TestCreateTable.testCreateTableComment")
def a_table_keeps_its_comment(p: Place) -> None:
    p.sql("CREATE TABLE $t (id BIGINT NOT NULL, data STRING) USING iceberg COMMENT 'what it holds'")
    assert p.columns() == ID_AND_DATA
    assert p.properties()["comment"] == "what it holds"


@case("TestCreateTable.testCreateTableLocation", on=("sql", "session"))
def a_table_is_where_it_is_told(p: Place) -> None:
    if p.catalog == "spark_catalog":  # of type `hadoop` here, which knows where its tables are
        return
    p.sql(
        "CREATE TABLE $t (id BIGINT NOT NULL, data STRING) USING iceberg LOCATION 'file:$dir/there'"
    )
    assert p.metadata()["location"] == f"file:{p.directory}/there"
    p.sql("INSERT INTO $t VALUES (1, 'a')")
    assert (p.directory / "there" / "data").is_dir()


@case("TestCreateTable.testCreateTableProperties")
def values_of_properties_are_text(p: Place) -> None:
    p.sql("CREATE TABLE $t (id BIGINT) USING iceberg TBLPROPERTIES (p1 = 2, p2 = 'x')")
    assert {"p1": "2", "p2": "x"}.items() <= p.properties().items()


@case("TestCreateTable.testCreateTableCommitProperties")
def properties_of_commits_are_whole_numbers(p: Place) -> None:
    text = "CREATE TABLE $t (id BIGINT) USING iceberg TBLPROPERTIES "
    p.fails(text + "('commit.retry.num-retries' = 'x')", "commit.retry.num-retries must")
    p.fails(text + "('commit.retry.max-wait-ms' = '-1')", "commit.retry.max-wait-ms must")
    p.sql(text + "('commit.retry.num-retries' = '1', 'commit.retry.max-wait-ms' = '3000')")
    wanted = {"commit.retry.num-retries": "1", "commit.retry.max-wait-ms": "3000"}
    assert wanted.items() <= p.properties().items()


@case(
    "TestCreateTable.testCreateTableWithFormatV2ThroughTableProperty",
    "TestCreateTable.testUpgradeTableWithFormatV2ThroughTableProperty",
    "TestCreateTable.testDowngradeTableToFormatV1ThroughTablePropertyFails",
)
def the_version_of_the_format_is_a_property_that_only_rises(p: Place) -> None:
    p.sql("CREATE TABLE $ns.two (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    assert p.metadata("$ns.two")["format-version"] == 2
    p.sql("CREATE TABLE $t (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '1')")
    assert p.metadata()["format-version"] == 1
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('format-version' = '2')")
    assert p.metadata()["format-version"] == 2
    for table in ("$t", "$ns.two"):
        p.fails(
            f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '1')",
            "cannot downgrade v2 table to v1",
        )


PARTS = "CASE WHEN id % 2 = 0 THEN 'even' ELSE 'odd' END AS part"
FIVE = [(n, "abcde"[n - 1]) for n in range(1, 6)]
OPTIONAL = ["1 id long", "2 data string"]
WITH_PART = [*OPTIONAL, "3 part string"]


def source(p: Place) -> None:
    p.sql(
        "CREATE TABLE $ns.source (id bigint NOT NULL, data string) USING iceberg PARTITIONED BY (truncate(id, 3))",
        "INSERT INTO $ns.source VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')",
    )


def parts(times: int = 1) -> list[tuple[int, str, str]]:
    return [(times * n, s, "odd" if times * n % 2 else "even") for n, s in FIVE]


def spec_id(p: Place) -> int:
    return int(p.metadata()["default-spec-id"])


@case("TestCreateTableAsSelect.testRTAS", on=("sql", "path", "session"))
def a_replaced_table_keeps_history_and_properties(p: Place) -> None:
    source(p)
    p.sql("""CREATE TABLE $t USING iceberg TBLPROPERTIES ('prop1' = 'val1', 'prop2' = 'val2')
             AS SELECT * FROM $ns.source""")
    p.rows("SELECT * FROM $t ORDER BY id", *FIVE)
    p.sql(f"""REPLACE TABLE $t USING iceberg PARTITIONED BY (part)
              TBLPROPERTIES ('prop1' = 'newval1', 'prop3' = 'val3')
              AS SELECT id, data, {PARTS} FROM $ns.source ORDER BY 3, 1""")
    assert p.columns() == WITH_PART
    assert (spec_id(p), p.spec()) == (1, [("part", "identity", "part")])
    p.rows("SELECT * FROM $t ORDER BY id", *parts())
    assert len(p.snapshots()) == 2
    wanted = {"prop1": "newval1", "prop2": "val2", "prop3": "val3"}
    assert wanted.items() <= p.properties().items()


@case("TestCreateTableAsSelect.testCreateRTAS", on=("sql", "path", "session"))
def a_table_is_created_or_replaced_under_an_equal_spec(p: Place) -> None:
    source(p)
    text = "CREATE OR REPLACE TABLE $t USING iceberg PARTITIONED BY (part) AS SELECT "
    p.sql(text + f"id, data, {PARTS} FROM $ns.source ORDER BY 3, 1")
    p.rows("SELECT * FROM $t ORDER BY id", *parts())
    p.sql(text + f"*, {PARTS} FROM (SELECT 2 * id AS id, data FROM $ns.source) ORDER BY 3, 1")
    assert p.columns() == WITH_PART
    assert (spec_id(p), p.spec()) == (0, [("part", "identity", "part")])
    p.rows("SELECT * FROM $t ORDER BY id", *parts(2))
    assert len(p.snapshots()) == 2


@case("TestCreateTableAsSelect.testCreateRTASWithPartitionSpecChanging")
def a_replaced_table_gets_a_spec_of_its_own(p: Place) -> None:
    source(p)
    p.sql(f"""CREATE OR REPLACE TABLE $t USING iceberg PARTITIONED BY (part)
              AS SELECT id, data, {PARTS} FROM $ns.source ORDER BY 3, 1""")
    p.sql("ALTER TABLE $t DROP PARTITION FIELD part")
    p.sql(f"""CREATE OR REPLACE TABLE $t USING iceberg PARTITIONED BY (part, id)
              AS SELECT *, {PARTS} FROM (SELECT 2 * id AS id, data FROM $ns.source) ORDER BY 3, 1""")
    assert p.columns() == WITH_PART
    both = [("part", "identity", "part"), ("id", "identity", "id")]
    assert (spec_id(p), p.spec()) == (2, both)
    p.rows("SELECT * FROM $t ORDER BY id", *parts(2))
    assert len(p.snapshots()) == 2


def frame_with_parts(p: Place, times: int = 1) -> object:
    return p.spark.sql(
        p.text(f"SELECT *, {PARTS} FROM (SELECT {times} * id AS id, data FROM $ns.source)")
    ).orderBy("part", "id")


@case("TestCreateTableAsSelect.testDataFrameV2Create")
def a_frame_creates_a_table(p: Place) -> None:
    source(p)
    p.spark.table(p.text("$ns.source")).writeTo(p.text("$t")).using("iceberg").create()
    assert p.columns() == OPTIONAL
    assert p.spec() == []
    p.rows("SELECT * FROM $t ORDER BY id", *FIVE)


@case("TestCreateTableAsSelect.testDataFrameV2Replace")
def a_frame_replaces_a_table(p: Place) -> None:
    source(p)
    p.spark.table(p.text("$ns.source")).writeTo(p.text("$t")).using("iceberg").create()
    frame_with_parts(p).writeTo(p.text("$t")).partitionedBy("part").using("iceberg").replace()
    assert p.columns() == WITH_PART
    assert (spec_id(p), p.spec()) == (1, [("part", "identity", "part")])
    p.rows("SELECT * FROM $t ORDER BY id", *parts())
    assert len(p.snapshots()) == 2


@case("TestCreateTableAsSelect.testDataFrameV2CreateOrReplace")
def a_frame_creates_or_replaces_a_table(p: Place) -> None:
    source(p)
    for times in (1, 2):
        writer = frame_with_parts(p, times).writeTo(p.text("$t"))
        writer.partitionedBy("part").using("iceberg").createOrReplace()
        p.rows("SELECT * FROM $t ORDER BY id", *parts(times))
    assert p.columns() == WITH_PART
    assert (spec_id(p), p.spec()) == (0, [("part", "identity", "part")])
    assert len(p.snapshots()) == 2


def one_row(p: Place, *properties: str) -> list[Path]:
    """Make a table of one row, and return its data file and its manifest."""
    p.sql(
        "CREATE TABLE $t (id INT, name STRING) USING iceberg", "INSERT INTO $t VALUES (1, 'test')"
    )
    for text in properties:
        p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ({text})")
    p.rows("SELECT * FROM $t", (1, "test"))
    files = p.sql("SELECT file_path FROM $t.files UNION ALL SELECT path FROM $t.manifests")
    paths = [Path("/" + path.removeprefix("file:").lstrip("/")) for (path,) in files]
    assert len(paths) == 2 and all(path.exists() for path in paths)
    return paths


@case(
    "TestDropTable.testDropTable",
    "TestDropTable.testDropTableGCDisabled",
    on=("sql", "path"),
    each=("true", "false"),
)
def a_dropped_table_leaves_its_files_but_in_a_hadoop_catalog(p: Place) -> None:
    paths = one_row(p, f"gc.enabled = {p.each}")
    p.sql("DROP TABLE $t")
    p.rows("SHOW TABLES IN $ns")
    assert {path.exists() for path in paths} == {p.catalog == "topics_sql"}


@case("TestDropTable.testPurgeTable", on=("sql", "path"))
def a_purged_table_leaves_no_files(p: Place) -> None:
    paths = one_row(p)
    p.sql("DROP TABLE $t PURGE")
    p.rows("SHOW TABLES IN $ns")
    assert not any(path.exists() for path in paths)


@case("TestDropTable.testPurgeTableGCDisabled", on=("sql", "path"))
def a_table_without_garbage_collection_is_not_purged(p: Place) -> None:
    paths = one_row(p, "gc.enabled = false")
    p.fails("DROP TABLE $t PURGE", "cannot purge table.*GC is disabled")
    p.rows("SELECT * FROM $t", (1, "test"))
    assert all(path.exists() for path in paths)


def rename(p: Place, catalog: str) -> None:
    """Make two tables, the first of them renamed."""
    p.sql(
        f"CREATE TABLE {catalog}.$db.t (id BIGINT NOT NULL, data STRING) USING iceberg",
        f"INSERT INTO {catalog}.$db.t VALUES (0, 'old')",
        f"ALTER TABLE {catalog}.$db.t RENAME TO $db.t_2",
        f"CREATE TABLE {catalog}.$db.t (id BIGINT NOT NULL, data STRING) USING iceberg",
        f"INSERT INTO {catalog}.$db.t VALUES (1, 'new')",
    )


def locations(p: Place, catalog: str) -> list[str]:
    return [p.metadata(f"{catalog}.$db.{name}")["location"] for name in ("t_2", "t")]


@case("TestUniqueTableLocation.noCollisionAfterRename")
def a_table_under_the_old_name_of_another_lies_elsewhere(p: Place) -> None:
    with p.another(unique_table_location="true") as catalog:
        rename(p, catalog)
        old, new = locations(p, catalog)
        assert old != new


@case("TestUniqueTableLocation.orphanCleanupDoesntCorruptTable")
def no_file_of_a_renamed_table_is_an_orphan_of_its_successor(p: Place) -> None:
    with p.another(unique_table_location="true") as catalog:
        rename(p, catalog)
        for location in locations(p, catalog):
            for path in Path(location.removeprefix("file:")).rglob("*"):
                os.utime(path, (1_700_000_000, 1_700_000_000))  # old enough to be removed
        p.rows(f"CALL {catalog}.system.remove_orphan_files('$db.t')")
        p.rows(f"SELECT * FROM {catalog}.$db.t_2", (0, "old"))
        p.rows(f"SELECT * FROM {catalog}.$db.t", (1, "new"))
