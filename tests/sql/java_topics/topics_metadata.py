"""Metadata tables and metadata columns."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.sql.java_topics.harness import Place, case


def three_columns(p: Place, version: int = 2, **properties: str) -> None:
    told = {
        "format-version": str(version),
        **{k.replace("_", "."): v for k, v in properties.items()},
    }
    texts = ", ".join(f"'{k}' = '{v}'" for k, v in told.items())
    p.sql(
        f"CREATE TABLE $t (id bigint NOT NULL, category string, data string) USING iceberg TBLPROPERTIES ({texts})"
    )


FILES, ENTRIES, PARTITIONS = (
    ("files", "all_data_files"),
    ("entries", "all_entries"),
    ("partitions",),
)


ID = {"id": 1, "name": "id", "type": "long", "required": False}


@case(
    "TestMetadataTablesWithPartitionEvolution.testMetadataTablesWithUnknownTransforms",
    "TestSparkMetadataColumns.testPartitionMetadataColumnWithUnknownTransforms",
    differs="a table without files has no partition to show, whatever its transforms are",
)
def partitions_of_an_unknown_transform_are_not_shown(p: Place) -> None:
    p.register([ID], partitions=((1, "zero", "id_zero"),))
    for table in (*FILES, *ENTRIES):
        p.fails(f"SELECT * FROM $t.{table}", "zero")
    p.fails("SELECT _partition FROM $t", "zero")


@case(
    "TestSparkMetadataColumns.testConflictingColumns",
    differs="a column of the table is shown where it has the name of a metadata column",
)
def a_column_with_the_name_of_a_metadata_column_is_read_when_renamed(p: Place) -> None:
    p.register([
        {"id": n, "name": name, "type": kind, "required": False}
        for n, (name, kind) in enumerate({"id": "long", "_spec_id": "int", "_file": "string"}.items(), 1)
    ])  # fmt: skip
    p.sql("INSERT INTO $t VALUES (1, -1, 'path')")
    p.rows("SELECT id FROM $t", (1,))
    p.fails("SELECT * FROM $t", "conflict|reserved|_spec_id")
    p.sql(
        "ALTER TABLE $t RENAME COLUMN _spec_id TO renamed",
        "ALTER TABLE $t RENAME COLUMN _file TO path",
    )
    p.rows("SELECT _spec_id, _partition IS NULL, renamed FROM $t", (0, True, -1))


@case(
    "TestSparkMetadataColumns.testRowLineageColumnsResolvedInV3OrHigher",
    each=(1, 2),
    differs="ids of rows are null before version 3, where Java knows no such column",
)
def rows_have_no_ids_before_version_3(p: Place) -> None:
    three_columns(p, p.each)
    for column in ("_row_id", "_last_updated_sequence_number"):
        p.fails(f"SELECT {column} FROM $t", "UNRESOLVED_COLUMN|cannot be resolved", column)


@case(
    "TestSparkMetadataColumns.testPartitionMetadataColumnWithMapColumn",
    "TestSparkMetadataColumns.testPartitionMetadataColumnWithListColumn",
    each=("map<string, string>", "array<string>"),
)
def ids_of_nested_columns_are_no_ids_of_partition_fields(p: Place) -> None:
    p.sql(f"""CREATE TABLE $t (id bigint NOT NULL, ts bigint NOT NULL, tags {p.each}) USING iceberg
              PARTITIONED BY (bucket(1, id)) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')""")
    tags = "map('env', '{}')" if "map" in p.each else "array('{}')"
    p.sql(
        f"INSERT INTO $t VALUES (1, 1000, {tags.format('prod')}), (2, 9999999999999999, {tags.format('dev')})"
    )
    p.sql("DELETE FROM $t WHERE ts < 9999999999999999")
    p.rows("SELECT id, _partition.id_bucket FROM $t", (2, 0))


METRICS = (
    "column_size, value_count, null_value_count, nan_value_count, lower_bound, upper_bound".split(
        ", "
    )
)


@case(
    "TestMetadataTableReadableMetrics.testPrimitiveColumns",
    "TestMetadataTableReadableMetrics.testSelectPrimitiveValues",
)
def metrics_are_shown_as_values(p: Place) -> None:
    names = {
        "b": "boolean",
        "i": "int",
        "l": "long",
        "n": "decimal(10, 2)",
        "s": "string",
        "f": "fixed[3]",
        "x": "binary",
    }
    p.register([
        {"id": n, "name": name, "type": kind, "required": False}
        for n, (name, kind) in enumerate(names.items(), 1)
    ])  # fmt: skip
    p.sql("""INSERT INTO $t SELECT /*+ COALESCE(1) */ * FROM VALUES
             (false, 1, 1L, 1.00BD, '1', X'D75D75', X'D75D75'), (true, 2, 2L, 2.00BD, '2', X'DB6DB6', X'DB6DB6'),
             (false, 1, 1L, NULL, '1', NULL, NULL), (false, 2, 2L, 2.00BD, '2', NULL, NULL)""")
    low, high = b"\xd7\x5d\x75", b"\xdb\x6d\xb6"
    expected = {
        "b": (4, 0, False, True), "i": (4, 0, 1, 2), "l": (4, 0, 1, 2), "n": (4, 1, Decimal("1.00"), Decimal("2.00")),
        "s": (4, 0, "1", "2"), "f": (4, 2, low, high), "x": (4, 2, low, high),
    }  # fmt: skip
    for table in ("files", "entries"):
        for name, values in expected.items():
            chosen = [
                f"readable_metrics.{name}.{m}"
                for m in METRICS
                if m not in ("column_size", "nan_value_count")
            ]
            p.rows(f"SELECT {', '.join(chosen)} FROM $t.{table}", values)
        p.rows(
            f"SELECT readable_metrics.s.column_size > 0, readable_metrics.s.nan_value_count FROM $t.{table}",
            (True, None),
        )
        p.rows(
            f"SELECT readable_metrics.i.lower_bound, readable_metrics.b.upper_bound FROM $t.{table}",
            (1, True),
        )
    p.rows("SELECT content, readable_metrics.l.value_count FROM $t.files", (0, 4))
    p.rows("SELECT readable_metrics.l.value_count, status FROM $t.entries", (4, 1))


B = "TestIcebergSourceTablesBase"


def id_and_data(p: Place, partitioned: str = "") -> None:
    p.sql(f"CREATE TABLE $t (id int, data string) USING iceberg {partitioned}")


def appended(p: Place, *rows: tuple[object, ...]) -> None:
    for row in rows:
        frame = p.spark.createDataFrame([row], "id int, data string")
        frame.write.format("iceberg").mode("append").save(p.text("$t"))


def table(p: Place, name: str, **options: object) -> Any:
    reader = p.spark.read.format("iceberg")
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load(p.text(f"$t.{name}"))


@case(f"{B}.testTablesSupport")
def a_frame_is_appended_and_read(p: Place) -> None:
    id_and_data(p)
    appended(p, (1, "1"), (2, "2"), (3, "3"))
    rows = p.spark.read.format("iceberg").load(p.text("$t")).orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(1, "1"), (2, "2"), (3, "3")]


@case(
    f"{B}.testEntriesTable", f"{B}.testEntriesTablePartitionedPrune", f"{B}.testEntriesTableDataFilePrune",
    f"{B}.testEntriesTableDataFilePruneMulti", f"{B}.testFilesSelectMap", f"{B}.testCountEntriesTable",
    each=("", "PARTITIONED BY (id)"),
)  # fmt: skip
def entries_and_files_show_what_was_added(p: Place) -> None:
    id_and_data(p, p.each)
    appended(p, (1, "1"))
    (snapshot,) = p.snapshots()
    for name in ENTRIES:
        p.rows(
            f"SELECT status, snapshot_id, sequence_number, file_sequence_number FROM $t.{name}",
            (1, snapshot, 1, 1),
        )
        assert table(p, name).count() == 1
    columns = "file_path, value_counts, record_count, column_sizes"
    (files,) = p.sql(f"SELECT {columns} FROM $t.files")
    nested = ", ".join(f"data_file.{name}" for name in columns.split(", "))
    assert p.sql(f"SELECT {nested} FROM $t.entries") == [files]
    assert (files[1], files[2]) == ({1: 1, 2: 1}, 1) and set(files[3]) == {1, 2}
    assert p.one("SELECT input_file_name() FROM $t").endswith(files[0].rpartition("/")[2])


@case(f"{B}.testAllEntriesTable", f"{B}.testAllDataFilesTable", f"{B}.testFilesTable", f"{B}.testFilesUnpartitionedTable",
      each=("", "PARTITIONED BY (id)"))  # fmt: skip
def deleted_files_are_shown_by_the_tables_of_all_snapshots_only(p: Place) -> None:
    id_and_data(p, p.each)
    appended(p, (1, "a"))
    p.sql("DELETE FROM $t WHERE id = 1")
    appended(p, (2, "b"))
    one, two, three = p.snapshots()
    p.rows(
        "SELECT status, snapshot_id, sequence_number, file_sequence_number FROM $t.all_entries",
        (1, one, 1, 1), (2, two, 1, 1), (1, three, 3, 3),
    )  # fmt: skip
    p.rows("SELECT count(*) FROM $t.all_data_files", (2,))
    p.rows("SELECT readable_metrics.id.lower_bound, record_count, spec_id FROM $t.files", (2, 1, 0))


def imported(p: Place, version: int = 2) -> None:
    p.sql(f"""CREATE TABLE $t (id int, data string) USING iceberg PARTITIONED BY (id)
              TBLPROPERTIES ('format-version' = '{version}')""")
    frame = p.spark.createDataFrame([(1, "a"), (2, "b")], "id int, data string")
    frame.write.partitionBy("id").parquet(p.text("$dir/plain"))
    p.sql("CALL $c.system.add_files('$db.t', '`parquet`.`$dir/plain`')")


@case(
    f"{B}.testFilesTableWithSnapshotIdInheritance",
    f"{B}.testV1EntriesTableWithSnapshotIdInheritance",
    each=(1, 2),
)
def imported_files_have_the_snapshot_that_added_them(p: Place) -> None:
    imported(p, p.each)
    (snapshot,) = p.snapshots()
    number = 0 if p.each == 1 else 1
    p.rows(
        "SELECT sequence_number, snapshot_id FROM $t.entries",
        (number, snapshot),
        (number, snapshot),
    )
    p.rows("SELECT partition.id, record_count FROM $t.files ORDER BY 1", (1, 1), (2, 1))
    p.rows("SELECT * FROM $t ORDER BY id", (1, "a"), (2, "b"))


@case(f"{B}.testAllMetadataTablesWithStagedCommits")
def staged_commits_are_shown_by_the_tables_of_all_snapshots(p: Place) -> None:
    id_and_data(p, "PARTITIONED BY (id) TBLPROPERTIES ('write.wap.enabled' = 'true')")
    with p.conf({"spark.wap.id": "1234567"}):
        appended(p, (1, "a"), (2, "b"))
    assert len(p.snapshots()) == 2 and "main" not in p.refs()
    for name in ("all_data_files", "all_manifests", "all_entries"):
        assert table(p, name).count() == 2
    p.rows("SELECT * FROM $t")


@case(f"{B}.testHistoryTable")
def history_tells_what_was_rolled_back(p: Place) -> None:
    id_and_data(p)
    appended(p, (1, "1"), (1, "1"))
    one, two = p.snapshots()
    p.sql(f"CALL $c.system.rollback_to_snapshot('$db.t', {one})")
    appended(p, (1, "1"))
    three = p.snapshots()[-1]
    p.rows(
        "SELECT snapshot_id, parent_id, is_current_ancestor FROM $t.history",
        (one, None, True), (two, one, False), (one, None, True), (three, one, True),
    )  # fmt: skip
    times = [row[0] for row in p.sql("SELECT made_current_at FROM $t.history")]
    assert times == sorted(times)


@case(f"{B}.testSnapshotsTable", f"{B}.testPrunedSnapshotsTable")
def snapshots_tell_what_they_did(p: Place) -> None:
    id_and_data(p)
    appended(p, (1, "1"))
    p.sql("DELETE FROM $t")
    one, two = p.snapshots()
    p.sql(f"CALL $c.system.rollback_to_snapshot('$db.t', {one})")
    p.rows(
        "SELECT snapshot_id, parent_id, operation FROM $t.snapshots",
        (one, None, "append"),
        (two, one, "delete"),
    )
    summaries = dict(p.sql("SELECT operation, summary FROM $t.snapshots"))
    added = {"added-records": "1", "added-data-files": "1", "changed-partition-count": "1",
             "total-data-files": "1", "total-records": "1"}  # fmt: skip
    removed = {"deleted-records": "1", "deleted-data-files": "1", "changed-partition-count": "1",
               "total-records": "0", "total-data-files": "0"}  # fmt: skip
    assert added.items() <= summaries["append"].items()
    assert removed.items() <= summaries["delete"].items()
    lists = {s["snapshot-id"]: s["manifest-list"] for s in p.metadata()["snapshots"]}
    assert dict(p.sql("SELECT snapshot_id, manifest_list FROM $t.snapshots")) == lists


@case(
    f"{B}.testManifestsTable",
    f"{B}.testAllManifestsTable",
    f"{B}.testAllManifestTableSnapshotFiltering",
)
def manifests_are_summarised(p: Place) -> None:
    id_and_data(p, "PARTITIONED BY (id) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    p.spark.createDataFrame([(1, "a"), (1, "c"), (None, "b")], "id int, data string").coalesce(
        1
    ).write.format("iceberg").mode("append").save(p.text("$t"))
    p.sql("DELETE FROM $t WHERE data = 'a'")
    one, two = p.snapshots()
    counts = ", ".join(
        f"{verb}_{kind}_files_count"
        for kind in ("data", "delete")
        for verb in ("added", "existing", "deleted")
    )
    p.rows(
        f"SELECT content, added_snapshot_id, partition_spec_id, {counts} FROM $t.manifests",
        (0, one, 0, 2, 0, 0, 0, 0, 0), (1, two, 0, 0, 0, 0, 1, 0, 0),
    )  # fmt: skip
    query = "SELECT content, s.* FROM (SELECT content, explode(partition_summaries) s FROM $t.manifests)"
    p.rows(query, (0, True, False, "1", "1"), (1, False, False, "1", "1"))
    p.rows(
        "SELECT content, reference_snapshot_id FROM $t.all_manifests", (0, one), (0, two), (1, two)
    )
    p.rows(f"SELECT count(*) FROM $t.all_manifests WHERE reference_snapshot_id IN ({one})", (1,))
    p.sql("DELETE FROM $t")
    p.rows(
        f"SELECT count(*) FROM $t.all_manifests WHERE reference_snapshot_id IN ({one}, {two})", (3,)
    )
    p.rows("SELECT count(*) FROM $t.all_manifests", (5,))


@case(
    f"{B}.testPruneManifestsTable",
    differs="a field of the summaries is read alone, which Java's reader refuses",
)
def a_field_of_summaries_is_not_read_alone(p: Place) -> None:
    id_and_data(p, "PARTITIONED BY (id)")
    appended(p, (1, "a"))
    p.rows("SELECT partition_spec_id, size(partition_summaries) FROM $t.manifests", (0, 1))
    p.fails(
        "SELECT partition_spec_id, partition_summaries.contains_null FROM $t.manifests",
        "partial list element",
    )


COUNTS = """record_count, file_count, position_delete_record_count, position_delete_file_count,
            equality_delete_record_count, equality_delete_file_count, last_updated_snapshot_id"""


@case(f"{B}.testUnpartitionedPartitionsTable")
def a_table_without_partitions_has_one_row_of_them(p: Place) -> None:
    id_and_data(p)
    appended(p, (1, "a"))
    p.rows(f"SELECT {COUNTS} FROM $t.partitions", (1, 1, 0, 0, 0, 0, p.snapshots()[0]))
    assert [row[0] for row in p.sql("DESCRIBE $t.partitions")][:3] == [
        "record_count", "file_count", "total_data_file_size_in_bytes",
    ]  # fmt: skip
    size = p.one("SELECT file_size_in_bytes FROM $t.files")
    p.rows("SELECT total_data_file_size_in_bytes FROM $t.partitions", (size,))


@case(f"{B}.testPartitionsTable", f"{B}.testPartitionsTableDeleteStats")
def partitions_count_files_and_deletes_also_of_older_snapshots(p: Place) -> None:
    id_and_data(p, "PARTITIONED BY (id) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    for n in (1, 2):
        p.spark.createDataFrame([(n, s) for s in "abc"], "id int, data string").coalesce(
            1
        ).write.format("iceberg").mode("append").save(p.text("$t"))
    one, two = p.snapshots()
    query = f"SELECT partition.id, spec_id, {COUNTS} FROM $t.partitions"
    first, second = (1, 0, 3, 1, 0, 0, 0, 0, one), (2, 0, 3, 1, 0, 0, 0, 0, two)
    p.rows(f"{query} ORDER BY 1", first, second)
    assert [r.record_count for r in table(p, "partitions", versionAsOf=one).collect()] == [3]
    p.rows(f"{query} WHERE partition.id < 2", first)
    p.rows(f"{query} WHERE partition.id < 2 OR record_count = 3", first, second)
    p.sql("DELETE FROM $t WHERE id = 2 AND data = 'a'")
    three = p.snapshots()[-1]
    p.rows(f"{query} ORDER BY 1", first, (2, 0, 3, 1, 1, 1, 0, 0, three))


@case(
    f"{B}.testSnapshotReadAfterAddColumn",
    f"{B}.testSnapshotReadAfterDropColumn",
    f"{B}.testSnapshotReadAfterAddAndDropColumn",
)
def a_snapshot_is_read_with_its_own_columns(p: Place) -> None:
    id_and_data(p)
    appended(p, (1, "x"), (2, "y"))
    _, old = p.snapshots()
    p.sql("ALTER TABLE $t ADD COLUMN category string", "INSERT INTO $t VALUES (4, 'xy', 'B')")
    p.rows("SELECT * FROM $t ORDER BY id", (1, "x", None), (2, "y", None), (4, "xy", "B"))
    p.rows(f"SELECT * FROM $t VERSION AS OF {old} ORDER BY id", (1, "x"), (2, "y"))
    p.sql("ALTER TABLE $t DROP COLUMN data")
    p.rows("SELECT * FROM $t ORDER BY id", (1, None), (2, None), (4, "B"))
    year = lambda n: int(datetime(n, 1, 1, tzinfo=UTC).timestamp() * 1000)
    p.date_snapshots(year(2018), year(2019), year(2021))
    for name in (f"VERSION AS OF {old}", "TIMESTAMP AS OF '2020-01-01'"):
        p.rows(f"SELECT * FROM $t {name} ORDER BY id", (1, "x"), (2, "y"))
    p.rows(
        "SELECT * FROM $t TIMESTAMP AS OF '2022-01-01' ORDER BY id",
        (1, "x", None),
        (2, "y", None),
        (4, "xy", "B"),
    )


@case(f"{B}.testFilesTablePartitionId")
def files_tell_the_spec_that_they_were_written_under(p: Place) -> None:
    id_and_data(p, "PARTITIONED BY (id)")
    appended(p, (1, "a"))
    p.sql("ALTER TABLE $t DROP PARTITION FIELD id")
    appended(p, (2, "b"))
    p.rows("SELECT spec_id FROM $t.files ORDER BY spec_id", (0,), (1,))


@case(f"{B}.testTableWithInt96Timestamp")
def times_in_96_bits_are_imported_and_filtered(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint, ts timestamp) USING iceberg")
    with p.conf({"spark.sql.parquet.outputTimestampType": "INT96"}):
        query = "SELECT id, timestamp_seconds(id * 100 + 949276800) AS ts FROM range(500)"
        p.spark.sql(query).coalesce(1).write.parquet(p.text("$dir/plain"))
    p.sql("CALL $c.system.add_files('$db.t', '`parquet`.`$dir/plain`')")
    for sign in ("<", "<=", "=", ">", ">="):
        condition = f"ts {sign} to_timestamp('2000-01-31 08:30:00')"
        expected = p.one(f"SELECT count(*) FROM parquet.`$dir/plain` WHERE {condition}")
        p.rows(f"SELECT count(*) FROM $t WHERE {condition}", (expected,))
    p.rows("SELECT count(*) FROM $t WHERE ts = to_timestamp('2000-01-31 08:30:00')", (1,))


@case(
    f"{B}.testSessionConfigSupport",
    differs="settings of the session whose names begin with spark.datasource.iceberg have no effect",
)
def options_are_settings_of_the_session(p: Place) -> None:
    id_and_data(p, "PARTITIONED BY (id)")
    appended(p, (1, "a"))
    with p.conf({"spark.datasource.iceberg.snapshot-property.foo": "bar"}):
        appended(p, (2, "b"))
    assert p.snapshot()["summary"]["foo"] == "bar"
    with p.conf({"spark.datasource.iceberg.versionAsOf": p.snapshots()[0]}):
        assert p.spark.read.format("iceberg").load(p.text("$t")).collect() == [(1, "a")]


@case(
    f"{B}.testImportSparkTableWithMissingFilesFailure",
    f"{B}.testImportSparkTableWithIgnoreMissingFilesEnabled",
)
def an_imported_partition_without_files_adds_none(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg PARTITIONED BY (id)")
    source = f"spark_catalog.default.{p.namespace}_plain"
    p.sql(
        f"CREATE TABLE {source} (data string, id int) USING parquet PARTITIONED BY (id) LOCATION '$dir/plain'"
    )
    try:
        p.sql(
            f"INSERT INTO {source} VALUES ('a', 1), ('b', 2)",
            f"ALTER TABLE {source} ADD PARTITION (id = 1234)",
        )
        (p.directory / "plain" / "id=1234").rmdir()
        p.sql(f"CALL $c.system.add_files('$db.t', '{source}')")
    finally:
        p.sql(f"DROP TABLE {source}")
    p.rows("SELECT partition.id FROM $t.partitions", (1,), (2,))


@case(f"{B}.testRemoveOrphanFilesActionSupport")
def files_of_nobody_are_removed(p: Place) -> None:
    import os

    id_and_data(p)
    appended(p, (1, "1"))
    location = p.metadata()["location"].removeprefix("file:")
    p.spark.range(1).write.mode("append").parquet(f"{location}/data")
    for folder, _, names in os.walk(location):
        for name in names:
            os.utime(os.path.join(folder, name), (1_700_000_000, 1_700_000_000))
    p.rows(
        f"CALL $c.system.remove_orphan_files(table => '$db.t', location => '{location}/metadata')"
    )
    orphans = [path for (path,) in p.sql("CALL $c.system.remove_orphan_files('$db.t')")]
    assert any(path.endswith(".parquet") for path in orphans)
    p.rows("SELECT * FROM $t", (1, "1"))
