"""Queries: filters, time travel, branches and tags."""

from datetime import UTC, datetime

from tests.sql.java_topics.harness import Place, case

ABC = [(1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)]
MORE = "INSERT INTO $t VALUES (4, 'd', 4.0), (5, 'e', 5.0)"


def three_rows(p: Place, third: str = "3.0") -> None:
    p.sql("CREATE TABLE $t (id bigint, data string, float float) USING iceberg")
    p.sql(f"INSERT INTO $t VALUES (1, 'a', 1.0), (2, 'b', 2.0), (3, 'c', {third})")


def read(p: Place, **options: object) -> list[tuple[object, ...]]:
    """Read the table with options of DataFrameReader."""
    reader = p.spark.read.format("iceberg")
    for key, value in options.items():
        reader = reader.option(key.replace("_", "-"), value)
    return [tuple(r) for r in reader.load(p.text("$t")).orderBy("id").collect()]


def refused(p: Place, *options: dict[str, object]) -> str:
    try:
        read(p, **{k: v for o in options for k, v in o.items()})
    except Exception as error:
        return str(error)
    raise AssertionError("not refused")


@case("TestSelect.testSelectWithSpecifiedTargetSplitSize")
def a_split_has_a_size_above_zero(p: Place) -> None:
    three_rows(p)
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('read.split.target-size' = '1024')")
    p.rows("SELECT * FROM $t ORDER BY id", *ABC)
    for size in ("-1", "0"):
        p.change_properties({"read.split.target-size": size})
        p.fails("SELECT * FROM $t", f"split.*size.*{size}")


@case("TestSelect.testMetadataTables", on=("sql", "path", "session"))
def the_table_of_snapshots_has_one_for_each_commit(p: Place) -> None:
    three_rows(p)
    ((_, snapshot, parent, operation, _, summary),) = p.sql("SELECT * FROM $t.snapshots")
    assert ([snapshot], parent, operation) == (p.snapshots(), None, "append")
    assert summary["added-records"] == "3"


def travelled(p: Place) -> int:
    """Write a second snapshot; return the first one's id."""
    three_rows(p)
    p.sql(MORE)
    return p.snapshots()[0]


@case("TestSelect.testSnapshotInTableName", "TestSelect.testVersionAsOf", on=("sql", "path"))
def a_snapshot_is_read_by_its_id(p: Place) -> None:
    first = travelled(p)
    for name in (
        f"$t.snapshot_id_{first}",
        f"$t VERSION AS OF {first}",
        f"$t FOR SYSTEM_VERSION AS OF {first}",
    ):
        p.rows(f"SELECT * FROM {name} ORDER BY id", *ABC)
    assert read(p, versionAsOf=first) == ABC


def at(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@case("TestSelect.testTimestampInTableName", "TestSelect.testTimestampAsOf")
def the_snapshot_of_a_time_is_read(p: Place) -> None:
    travelled(p)
    p.date_snapshots(at(2020) * 1000, at(2022) * 1000)
    for name in (
        f"$t.at_timestamp_{at(2021) * 1000}",
        f"$t TIMESTAMP AS OF {at(2021)}",
        "$t TIMESTAMP AS OF '2021-01-01 00:00:00'",
        f"$t FOR SYSTEM_TIME AS OF {at(2021)}",
        "$t FOR SYSTEM_TIME AS OF '2021-01-01 00:00:00'",
    ):
        p.rows(f"SELECT * FROM {name} ORDER BY id", *ABC)
    assert read(p, timestampAsOf="2021-01-01 00:00:00.000") == ABC
    assert len(read(p, timestampAsOf="2023-01-01 00:00:00.000")) == 5


@case("TestSelect.testTagReference", on=("sql", "path"))
def a_tag_is_read(p: Place) -> None:
    three_rows(p)
    p.sql("ALTER TABLE $t CREATE TAG mark", MORE)
    for name in ("$t VERSION AS OF 'mark'", "$t FOR SYSTEM_VERSION AS OF 'mark'", "$t.tag_mark"):
        p.rows(f"SELECT * FROM {name} ORDER BY id", *ABC)
    assert read(p, versionAsOf="mark") == ABC


@case("TestSelect.testBranchReference", on=("sql", "path"))
def a_branch_is_read(p: Place) -> None:
    three_rows(p)
    p.sql("ALTER TABLE $t CREATE BRANCH side", MORE)
    for name in ("$t VERSION AS OF 'side'", "$t FOR SYSTEM_VERSION AS OF 'side'", "$t.branch_side"):
        p.rows(f"SELECT * FROM {name} ORDER BY id", *ABC)
    assert read(p, branch="side") == ABC


@case("TestSelect.readAndWriteWithBranchAfterSchemaChange", on=("sql", "path"))
def a_branch_has_the_tables_columns_and_a_snapshot_its_own(p: Place) -> None:
    three_rows(p)
    p.sql(
        "ALTER TABLE $t CREATE BRANCH side",
        "ALTER TABLE $t DROP COLUMN float",
        "ALTER TABLE $t ADD COLUMN day date",
        "INSERT INTO $t VALUES (4, 'd', date '2024-04-04'), (5, 'e', date '2024-05-05')",
    )
    p.rows(f"SELECT * FROM $t VERSION AS OF {p.snapshots()[0]} ORDER BY id", *ABC)
    without = [(n, s, None) for n, s, _ in ABC]
    p.rows("SELECT * FROM $t VERSION AS OF 'side' ORDER BY id", *without)
    p.rows("SELECT * FROM $t.branch_side ORDER BY id", *without)
    p.sql("INSERT INTO $t.branch_side VALUES (6L, 'f', date '2023-06-06')")
    day = datetime(2023, 6, 6, tzinfo=UTC).date()
    p.rows("SELECT * FROM $t VERSION AS OF 'side' ORDER BY id", *without, (6, "f", day))
    assert read(p, branch="side") == [*without, (6, "f", day)]


@case("TestSelect.testSpecifySnapshotAndTimestamp")
def a_version_and_a_time_are_not_both_given(p: Place) -> None:
    first = travelled(p)
    told = refused(p, {"versionAsOf": first, "timestampAsOf": "2099-01-01 00:00:00.000"})
    assert "cannot specify both version and timestamp" in told.lower() or "together" in told, told


@case("TestSelect.testFixedInFilter")
def bytes_of_a_fixed_length_are_compared(p: Place) -> None:
    p.register([
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "f", "type": "fixed[2]", "required": True},
    ])  # fmt: skip
    p.sql("INSERT INTO $t VALUES (1, X'0000'), (2, X'1111'), (3, X'0011')")
    p.rows("SELECT * FROM $t WHERE f > X'0011'", (2, b"\x11\x11"))


@case(
    "TestSelect.testTimeTravelFilterOnRenamedColumn",
    "TestSelect.testTimeTravelFilterOnRenamedColumnWithDeleteFiles",
    each=("", "PARTITIONED BY (col)"),
)
def a_snapshot_is_filtered_by_the_names_that_it_had(p: Place) -> None:
    p.sql(
        f"""CREATE TABLE $t (id BIGINT, col DOUBLE) USING iceberg {p.each}
            TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')""",
        "INSERT INTO $t VALUES (1, 100.0), (2, 200.0), (3, 0.0)",
    )
    if p.each:
        p.sql("DELETE FROM $t WHERE id = 3")
    old = p.snapshots()[-1]
    p.sql("ALTER TABLE $t RENAME COLUMN col TO value", "INSERT INTO $t VALUES (4, 400.0)")
    p.rows(
        f"SELECT * FROM $t VERSION AS OF {old} WHERE col > 0 ORDER BY id", (1, 100.0), (2, 200.0)
    )
    frame = p.spark.read.format("iceberg").option("versionAsOf", old).load(p.text("$t"))
    assert frame.columns == ["id", "col"]
    rows = frame.filter(frame["col"] > 0).orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(1, 100.0), (2, 200.0)]
