"""Procedures that take tables and files of Spark's: add_files, snapshot, migrate."""

import shutil
from datetime import date

from tests.sql.java_topics.harness import Place, case
from tests.sql.java_topics.topics_history import missing

ADD, SNAPSHOT, MIGRATE = (
    "TestAddFilesProcedure",
    "TestSnapshotTableProcedure",
    "TestMigrateTableProcedure",
)
SOURCE = "spark_catalog.$db.source"
PEOPLE = [
    (1, "John Doe", "hr", "communications"),
    (2, "Jane Doe", "hr", "salary"),
    (3, "Matt Doe", "hr", "communications"),
    (4, "Will Doe", "facilities", "all"),
]
COLUMNS = "id Integer, name String, dept String, subdept String"
NAMES = "id, name, dept, subdept"


def database(p: Place) -> None:
    p.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.$db")


def twice(
    p: Place, columns: str = COLUMNS, partitioned: str = "", rows: list[tuple[object, ...]] = PEOPLE
) -> None:
    """Make a Parquet table of Spark's in a directory of the case, with all rows twice."""
    database(p)
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    p.sql(f"CREATE TABLE {SOURCE} ({columns}) USING parquet {clause} LOCATION '$dir/source'")
    p.frame(rows, columns).coalesce(1).createOrReplaceTempView("rows")
    names = [f.name for f in p.spark.table(p.text(SOURCE)).schema.fields]
    text = f"INSERT INTO {SOURCE} SELECT {', '.join(f'`{n}`' for n in names)} FROM rows"
    with p.conf({"hive.exec.dynamic.partition.mode": "nonstrict"}):
        p.sql(text, text)


def target(p: Place, columns: str = COLUMNS, partitioned: str = "", version: int = 2) -> None:
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    p.sql(
        f"CREATE TABLE $t ({columns}) USING iceberg {clause} TBLPROPERTIES ('format-version' = '{version}')"
    )


FILES = "`parquet`.`$dir/source`"


def call(p: Place, source: str, arguments: str = "") -> str:
    return f"CALL $c.system.add_files(table => '$t', source_table => '{source}'{arguments})"


def added(p: Place, text: str, files: int, partitions: int) -> None:
    ((told_files, told_partitions),) = p.sql(text)
    assert told_files == files
    assert told_partitions in (partitions, None)


def same(p: Place, where: str = "", names: str = NAMES) -> None:
    """Check that the table has the rows of the source."""
    clause = f"WHERE {where}" if where else ""
    expected = p.sql(f"SELECT {names} FROM {SOURCE} {clause}")
    assert expected
    p.rows(f"SELECT {names} FROM $t", *expected)


def adds(
    method: str,
    files: int,
    partitions: int,
    *,
    source: str = FILES,
    columns: str = COLUMNS,
    of: str = COLUMNS,
    by: str = "",
    into: str | None = None,
    rows: list[tuple[object, ...]] = PEOPLE,
    arguments: str = "",
    where: str = "",
    names: str = NAMES,
    differs: str = "",
    each: tuple[int, ...] = (2,),
) -> None:
    @case(f"{ADD}.{method}", differs=differs, each=each)
    def files_are_added(p: Place) -> None:
        twice(p, of, by, rows)
        target(p, columns, by if into is None else into, p.each)
        added(p, call(p, source, arguments), files, partitions)
        same(p, where, names)


ONE = ", partition_filter => map('id', 1)"
adds("addDataUnpartitioned", 2, 1, each=(1, 2))
adds("addDataUnpartitionedHive", 2, 1, source=SOURCE)
adds("addDataUnpartitionedExtraCol", 2, 1, columns=f"{COLUMNS}, foo string")
SHORT = "id Integer, name String, dept String"
EXTRA = "known gap: add_files refuses files with columns that the table lacks"
adds(
    "addDataUnpartitionedMissingCol",
    *(2, 1),
    columns=SHORT,
    names="id, name, dept",
    differs=EXTRA,
)
adds(
    "addDataPartitionedMissingCol",
    *(8, 4),
    columns=SHORT,
    by="id",
    names="id, name, dept",
    differs=EXTRA,
)
adds("addDataPartitioned", 8, 4, by="id", each=(1, 2))
adds("addDataPartitionedHive", 8, 4, source=SOURCE, by="id")
adds("addPartitionToPartitioned", 2, 1, by="id", arguments=ONE, where="id = 1")
adds(
    "addPartitionToPartitionedHive",
    *(2, 1),
    source=SOURCE,
    by="id",
    arguments=ONE,
    where="id = 1",
)
adds("testAddFilesWithParallelism", 2, 1, source=SOURCE, arguments=", parallelism => 2")
adds(
    "testAddFilesPartitionedWithParallelism",
    *(8, 4),
    source=SOURCE,
    by="id",
    arguments=", parallelism => 2",
)
adds("addFilteredPartitionsToPartitioned", 2, 1, by="id, dept", arguments=ONE, where="id = 1")
HR = ", partition_filter => map('dept', 'hr')"
adds("addFilteredPartitionsToPartitioned2", 6, 3, by="id, dept", arguments=HR, where="dept = 'hr'")
NULLS = [*PEOPLE, (None, None, None, None)]
adds(
    "addFilteredPartitionsToPartitionedWithNullValueFilteringOnId",
    *(2, 1),
    by="id, dept",
    rows=NULLS,
    arguments=ONE,
    where="id = 1",
)
adds(
    "addFilteredPartitionsToPartitionedWithNullValueFilteringOnDept",
    *(6, 3),
    by="id, dept",
    rows=NULLS,
    arguments=HR,
    where="dept = 'hr'",
)
adds("addAllPartitionsToPartitionedWithNullValue", 10, 5, by="id, dept", rows=NULLS)
adds("addAllPartitionsToNonStringPartitionedWithNullValue", 10, 5, by="id", rows=NULLS)
DATED = "id Integer, name String, date Date"
DAYS = [
    (n, f"{name} Doe", date(2021, 1, day))
    for n, name, day in ((1, "John", 1), (2, "Jane", 1), (3, "Matt", 2), (4, "Will", 2))
]
NEW_YEAR = ", partition_filter => map('date', '2021-01-01')"
adds(
    "addDataPartitionedByDateToPartitioned",
    *(2, 1),
    columns=DATED,
    of=DATED,
    by="date",
    rows=DAYS,
    arguments=NEW_YEAR,
    where="date = '2021-01-01'",
    names="id, name, date",
)
DEPT = f"{DATED}, dept String"
adds(
    "addDataPartitionedVerifyPartitionTypeInferredCorrectly",
    *(2, 1),
    columns=DEPT,
    of=DEPT,
    by="date, dept",
    rows=[(*row, f"0{row[2].day}") for row in DAYS],
    arguments=NEW_YEAR,
    where="date = '2021-01-01' AND dept = '01'",
    names="id, name, dept, date",
)
WEIRD = "id Integer, `naMe` String, dept String, subdept String"
adds(
    "addWeirdCaseHiveTable",
    *(2, 1),
    source=SOURCE,
    columns=WEIRD,
    of=WEIRD,
    by="`naMe`",
    arguments=", partition_filter => map('naMe', 'John Doe')",
    where="`naMe` = 'John Doe'",
    names="id, `naMe`, dept, subdept",
)


@case(f"{ADD}.addAvroFile", differs="known gap: add_files takes Parquet only")
def an_avro_file_is_added(p: Place) -> None:
    p.sql(
        "CREATE TABLE $ns.avro (id long, data string) USING iceberg TBLPROPERTIES ('write.format.default' = 'avro')"
    )
    p.sql("INSERT INTO $ns.avro SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b')")
    (path,) = {r[0] for r in p.sql("SELECT file_path FROM $ns.avro.files")}
    target(p, "id Long, data String")
    added(p, call(p, f"`avro`.`{path}`"), 1, 1)
    p.rows("SELECT * FROM $t ORDER BY id", (1, "a"), (2, "b"))
    p.rows("SELECT record_count FROM $t.files", (2,))


@case(f"{ADD}.deleteAndAddBackUnpartitioned", each=("",))
@case(f"{ADD}.deleteAndAddBackPartitioned", each=("id",))
def files_that_were_deleted_are_added_again(p: Place) -> None:
    twice(p, partitioned=p.each)
    target(p, partitioned=p.each)
    text = call(p, FILES, ONE if p.each else "")
    p.sql(text, f"DELETE FROM $t {'WHERE id = 1' if p.each else ''}")
    added(p, text, 2, 1)
    same(p, "id = 1" if p.each else "")


@case(f"{ADD}.addPartitionToPartitionedSnapshotIdInheritanceEnabledInTwoRuns", each=(FILES,))
@case(f"{ADD}.addPartitionsFromHiveSnapshotInheritanceEnabled", each=(SOURCE,))
@case(f"{ADD}.addTwice", each=(SOURCE,))
def partitions_are_added_one_by_one(p: Place) -> None:
    twice(p, partitioned="id")
    target(p, partitioned="id")
    p.sql(
        "ALTER TABLE $t SET TBLPROPERTIES ('compatibility.snapshot-id-inheritance.enabled' 'true')"
    )
    for number in (1, 2):
        added(p, call(p, p.each, f", partition_filter => map('id', {number})"), 2, 1)
    same(p, "id < 3")
    p.rows("SELECT DISTINCT partition_spec_id FROM $t.manifests", (0,))


@case(f"{ADD}.addPartitionsWithNullValueShouldAddFilesToNullPartition")
def rows_without_a_partition_go_to_the_null_partition(p: Place) -> None:
    twice(p, partitioned="dept", rows=NULLS)
    target(p, partitioned="dept")
    added(p, call(p, FILES), 6, 3)
    same(p)
    p.rows(
        "SELECT partition FROM $t.partitions ORDER BY partition",
        *(((None,),), (("facilities",),), (("hr",),)),
    )


OLD_SPEC = "known gap: add_files adds to the current partition spec only"


@case(f"{ADD}.addFileTableOldSpecDataAfterPartitionSpecEvolved", differs=OLD_SPEC)
def files_are_added_to_an_older_spec(p: Place) -> None:
    twice(p, partitioned="id")
    target(p, partitioned="id, dept, subdept")
    p.sql("ALTER TABLE $t DROP PARTITION FIELD dept", "ALTER TABLE $t DROP PARTITION FIELD subdept")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD subdept")
    added(p, call(p, FILES), 8, 4)
    same(p)
    p.rows("SELECT DISTINCT partition_spec_id FROM $t.manifests", (2,))


@case(f"{ADD}.testAddFilesToTableWithManySpecs")
def files_are_added_to_the_spec_that_fits(p: Place) -> None:
    twice(p, partitioned="id")
    target(p)
    for column in ("id", "name", "subdept"):
        p.sql(f"ALTER TABLE $t ADD PARTITION FIELD {column}")
    added(p, call(p, SOURCE, ONE), 2, 1)
    same(p, "id = 1")


def refuses(
    method: str, by: str, into: str, source: str, *calls: tuple[str, str], then: str = ""
) -> None:
    @case(f"{ADD}.{method}")
    def files_that_do_not_fit_are_refused(p: Place) -> None:
        twice(p, partitioned=by)
        target(p, partitioned=into)
        if then:
            p.sql(f"ALTER TABLE $t {then}")
        for arguments, pattern in calls:
            p.fails(call(p, source, arguments), pattern)
        p.rows("SELECT * FROM $t")


FIT = "partition"
refuses(
    "addFileTableNoCompatibleSpec",
    "id",
    "dept",
    FILES,
    ("", FIT),
    then="ADD PARTITION FIELD subdept",
)
refuses("invalidDataImport", "id", "", FILES, (ONE, FIT), ("", FIT))
refuses(
    "invalidDataImportPartitioned",
    *("", "id", FILES),
    (", partition_filter => map('x', '1', 'y', '2')", FIT),
    (", partition_filter => map('dept', '2')", FIT),
)
refuses(
    "partitionColumnCountMismatchInFilter",
    *("id", "id", SOURCE),
    (", partition_filter => map('id', '0', 'dept', '1')", "partition"),
)
refuses(
    "invalidPartitionColumnsInFilter",
    *("id", "id", SOURCE),
    (", partition_filter => map('dept', '1')", "dept"),
)
refuses(
    "testAddFilesWithInvalidParallelism",
    *("", "", SOURCE),
    (", parallelism => -1", "parallelism"),
)


@case(f"{ADD}.duplicateDataPartitioned", each=("id",))
@case(f"{ADD}.duplicateDataUnpartitioned", each=("",))
def files_are_not_added_again(p: Place) -> None:
    twice(p, partitioned=p.each)
    target(p, partitioned=p.each)
    text = call(p, SOURCE, ONE if p.each else "")
    p.sql(text)
    p.fails(text, "already|in the table")


@case(f"{ADD}.duplicateDataPartitionedAllowed", each=("id",))
@case(f"{ADD}.duplicateDataUnpartitionedAllowed", each=("",))
def files_are_added_again_if_that_is_allowed(p: Place) -> None:
    twice(p, partitioned=p.each)
    target(p, partitioned=p.each)
    text = call(p, SOURCE, (ONE if p.each else "") + ", check_duplicate_files => false")
    added(p, text, 2, 1)
    added(p, text, 2, 1)
    assert p.one("SELECT count(*) FROM $t") == (4 if p.each else 16)


@case(f"{ADD}.testEmptyImportDoesNotThrow")
def nothing_to_add_is_no_error(p: Place) -> None:
    target(p)
    (p.directory / "source").mkdir()
    added(p, call(p, FILES), 0, 0)
    database(p)
    p.sql(f"CREATE TABLE {SOURCE} ({COLUMNS}) USING parquet")
    added(p, call(p, SOURCE), 0, 0)
    p.rows("SELECT * FROM $t")


@case(
    f"{ADD}.testPartitionedImportFromEmptyPartitionDoesNotThrow",
    differs="a decision: a filter that no partition with files meets is refused",
)
def an_empty_partition_adds_nothing(p: Place) -> None:
    twice(p, partitioned="id")
    (p.directory / "source" / "id=999").mkdir()
    p.sql(f"ALTER TABLE {SOURCE} ADD PARTITION (id = '999')")
    target(p, partitioned="id")
    added(p, call(p, SOURCE, ", partition_filter => map('id', 999)"), 0, 0)
    p.rows("SELECT * FROM $t")


# snapshot
# --------------------------------------------------------------------------------------------------------------------------------------

PAIR = "id bigint NOT NULL, data string"


def source(
    p: Place, *inserts: str, partitioned: str = "", columns: str = PAIR, name: str = SOURCE
) -> None:
    database(p)
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    p.sql(f"CREATE TABLE {name} ({columns}) USING parquet {clause} LOCATION '$dir/source'")
    for text in inserts:
        p.sql(f"INSERT INTO {name} {text}")


A, B = "VALUES (1, 'a')", "VALUES (2, 'b')"
BOTH = "(id, data) VALUES (1, 'a'), (2, 'b')"


def snapshots(method: str, arguments: str = "", **properties: str) -> None:
    @case(f"{SNAPSHOT}.{method}")
    def a_snapshot_of_a_spark_table_is_written_apart(p: Place) -> None:
        source(p, A)
        told = p.one(
            f"CALL $c.system.snapshot(source_table => '{SOURCE}', table => '$t'{arguments})"
        )
        assert told == 1
        assert not p.metadata()["location"].endswith("/source")
        if "location" in arguments:
            assert p.metadata()["location"].endswith(f"{p.directory}/snapshot")
        known = p.properties()
        assert {key: known.get(key.replace("_", ".")) for key in properties} == properties
        p.sql("INSERT INTO $t VALUES (1, 'a')")
        p.rows("SELECT * FROM $t ORDER BY id", (1, "a"), (1, "a"))
        p.sql("DROP TABLE $t")
        p.rows(f"SELECT * FROM {SOURCE}", (1, "a"))


snapshots("testSnapshot")
snapshots("testDropTable")
snapshots("testSnapshotWithProperties", ", properties => map('foo', 'bar')", foo="bar")
snapshots("testSnapshotWithAlternateLocation", ", location => '$dir/snapshot'")
snapshots(
    "testSnapshotWithConflictingProps",
    ", properties => map('gc.enabled', 'true', 'snapshot', 'false')",
    snapshot="true",
    gc_enabled="false",
)


@case(f"{SNAPSHOT}.testSnapshotPartitionedWithParallelism", each=(", parallelism => 2",))
@case(f"{SNAPSHOT}.testSnapshotPartitioned", each=("",))
@case(f"{SNAPSHOT}.testSnapshotPartitionedV1", each=(", properties => map('format-version', '1')",))
def a_snapshot_keeps_partitions(p: Place) -> None:
    source(p, BOTH, partitioned="id")
    p.rows(f"CALL $c.system.snapshot(source_table => '{SOURCE}', table => '$t'{p.each})", (2,))
    p.rows("SELECT * FROM $t ORDER BY id", ("a", 1), ("b", 2))
    assert p.spec() == [("id", "identity", "id")]
    assert p.metadata()["format-version"] == (1 if "format" in p.each else 2)


def hole(p: Place, name: str) -> None:
    source(p, BOTH, partitioned="id", name=name)
    shutil.rmtree(p.directory / "source" / "id=1")


PASSED = (
    "a decision: a partition whose directory is missing is passed over, as Spark's own reads do"
)


@case(f"{SNAPSHOT}.testSnapshotMissingFilesFailByDefault", differs=PASSED)
def a_missing_directory_is_an_error_for_snapshot(p: Place) -> None:
    hole(p, SOURCE)
    p.fails(f"CALL $c.system.snapshot('{SOURCE}', '$t')", "FileNotFound|not exist|missing")


@case(f"{SNAPSHOT}.testSnapshotIgnoreMissingFiles")
def a_missing_directory_may_be_passed_over_by_snapshot(p: Place) -> None:
    hole(p, SOURCE)
    text = f"CALL $c.system.snapshot(source_table => '{SOURCE}', table => '$t', ignore_missing_files => true)"
    p.rows(text, (1,))
    p.rows("SELECT * FROM $t", ("b", 2))


# migrate
# --------------------------------------------------------------------------------------------------------------------------------------


def migrates(method: str, arguments: str = "", **properties: str) -> None:
    @case(f"{MIGRATE}.{method}", on=("session",))
    def a_spark_table_becomes_an_iceberg_table(p: Place) -> None:
        source(p, A, name="$t")
        assert p.one(f"CALL $c.system.migrate('$t'{arguments})") == 1
        assert p.metadata()["location"].endswith(f"{p.directory}/source")
        known = p.properties()
        assert {key: known.get(key) for key in properties} == properties
        p.sql("INSERT INTO $t VALUES (1, 'a')")
        p.rows("SELECT * FROM $t ORDER BY id", (1, "a"), (1, "a"))
        backup = "backup_table" if "backup_table_name" in arguments else "t_BACKUP_"
        exists = p.spark.catalog.tableExists(p.text(f"$db.{backup}"))
        assert exists == ("drop_backup" not in arguments)


migrates("testMigrate")
migrates("testMigrateWithOptions", ", map('foo', 'bar')", foo="bar")
migrates("testMigrateWithDropBackup", ", drop_backup => true")
migrates("testMigrateWithBackupTableName", ", backup_table_name => 'backup_table'")
migrates("testMigrateWithConflictingProps", ", map('migrated', 'false')", migrated="true")


@case(f"{MIGRATE}.testInvalidMigrateCases", on=("session", "sql"))
def wrong_arguments_of_migrate(p: Place) -> None:
    for arguments, pattern in (
        ("", missing("table")),
        ("map('foo', 'bar')", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ("''", "empty|identifier"),
    ):
        p.fails(f"CALL $c.system.migrate({arguments})", pattern)


@case(
    f"{MIGRATE}.testMigrateBucketedTable",
    on=("session",),
    differs="a decision: a bucketed table becomes one without buckets",
)
def a_bucketed_table_is_not_migrated(p: Place) -> None:
    database(p)
    p.sql(
        f"CREATE TABLE $t ({PAIR}) USING parquet CLUSTERED BY (id) INTO 4 BUCKETS LOCATION '$dir/s'"
    )
    p.sql("INSERT INTO $t VALUES (1, 'a')")
    p.fails("CALL $c.system.migrate('$t')", "bucket")


@case(f"{MIGRATE}.testMigrateMissingFilesFailByDefault", on=("session",), differs=PASSED)
def a_missing_directory_is_an_error_for_migrate(p: Place) -> None:
    hole(p, "$t")
    p.fails("CALL $c.system.migrate('$t')", "FileNotFound|not exist|missing")


@case(f"{MIGRATE}.testMigrateIgnoreMissingFiles", on=("session",))
def a_missing_directory_may_be_passed_over_by_migrate(p: Place) -> None:
    hole(p, "$t")
    p.rows("CALL $c.system.migrate(table => '$t', ignore_missing_files => true)", (1,))
    p.rows("SELECT * FROM $t", ("b", 2))
