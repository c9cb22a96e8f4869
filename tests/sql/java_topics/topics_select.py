"""Queries: filters, time travel, branches and tags."""

from datetime import UTC, datetime

from tests.sql.java_topics.harness import Place, case

NAN = float("nan")
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


@case("TestSelect.testSelect", on=("sql", "path", "session"))
def all_rows_come_back(p: Place) -> None:
    three_rows(p, "float('NaN')")
    rows = p.sql("SELECT * FROM $t ORDER BY id")
    assert str(rows) == str([*ABC[:2], (3, "c", NAN)])


@case("TestSelect.testSelectWithSpecifiedTargetSplitSize")
def a_split_has_a_size_above_zero(p: Place) -> None:
    three_rows(p)
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('read.split.target-size' = '1024')")
    p.rows("SELECT * FROM $t ORDER BY id", *ABC)
    for size in ("-1", "0"):
        p.change_properties({"read.split.target-size": size})
        p.fails("SELECT * FROM $t", f"split.*size.*{size}")


@case("TestSelect.testSelectRewrite")
def nan_equals_nan(p: Place) -> None:
    three_rows(p, "float('NaN')")
    p.rows("SELECT id FROM $t WHERE float = float('NaN')", (3,))


@case("TestSelect.selectWithLimit")
def a_limit_holds(p: Place) -> None:
    three_rows(p)
    for n in (1, 2, 3):
        p.rows(f"SELECT * FROM $t ORDER BY id LIMIT {n}", *ABC[:n])


@case("TestSelect.testProjection", "TestSelect.testExpressionPushdown")
def columns_and_conditions_are_chosen(p: Place) -> None:
    three_rows(p)
    p.rows("SELECT id FROM $t ORDER BY id", (1,), (2,), (3,))
    p.rows("SELECT data FROM $t WHERE id = 2", ("b",))


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


@case("TestSelect.testUseSnapshotIdForTagReferenceAsOf")
def a_number_is_a_snapshots_id_before_it_is_a_tags_name(p: Place) -> None:
    first = travelled(p)
    p.sql(f"ALTER TABLE $t CREATE TAG `{first}`")
    p.rows(f"SELECT * FROM $t VERSION AS OF '{first}' ORDER BY id", *ABC)
    p.rows(f"SELECT * FROM $t VERSION AS OF {first} ORDER BY id", *ABC)


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


@case("TestSelect.testUnknownReferenceAsOf")
def a_version_that_is_not_there_is_refused(p: Place) -> None:
    three_rows(p)
    p.fails("SELECT * FROM $t VERSION AS OF 'nope'", "cannot find .*nope")


@case(
    "TestSelect.testInvalidTimeTravelBasedOnBothAsOfAndTableIdentifier",
    "TestSelect.testInvalidTimeTravelAgainstBranchIdentifierWithAsOf",
)
def a_query_travels_once(p: Place) -> None:
    first = travelled(p)
    p.sql("ALTER TABLE $t CREATE BRANCH b1")
    for suffix in (f"snapshot_id_{first}", f"at_timestamp_{at(2099) * 1000}", "branch_b1"):
        for version in (f"VERSION AS OF {first}", f"TIMESTAMP AS OF {at(2099)}"):
            p.fails(
                f"SELECT * FROM $t.{suffix} {version}",
                "can't time travel|cannot use .* together with",
            )


@case("TestSelect.testSpecifySnapshotAndTimestamp")
def a_version_and_a_time_are_not_both_given(p: Place) -> None:
    first = travelled(p)
    told = refused(p, {"versionAsOf": first, "timestampAsOf": "2099-01-01 00:00:00.000"})
    assert "cannot specify both version and timestamp" in told.lower() or "together" in told, told


@case("TestSelect.testBinaryInFilter")
def bytes_are_compared(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint, binary binary) USING iceberg")
    p.sql("INSERT INTO $t VALUES (1, X''), (2, X'1111'), (3, X'11')")
    p.rows("SELECT * FROM $t WHERE binary > X'11'", (2, b"\x11\x11"))


@case("TestSelect.testFixedInFilter")
def bytes_of_a_fixed_length_are_compared(p: Place) -> None:
    p.register([
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "f", "type": "fixed[2]", "required": True},
    ])  # fmt: skip
    p.sql("INSERT INTO $t VALUES (1, X'0000'), (2, X'1111'), (3, X'0011')")
    p.rows("SELECT * FROM $t WHERE f > X'0011'", (2, b"\x11\x11"))


@case("TestSelect.testComplexTypeFilter")
def structs_are_compared(p: Place) -> None:
    p.sql("CREATE TABLE $t (id INT, s STRUCT<c1: INT, c2: STRING>) USING iceberg")
    for n in (1, 2):
        p.sql(f"INSERT INTO $t VALUES ({n}, named_struct('c1', {4 - n}, 'c2', 'v{n}'))")
    p.rows("SELECT id FROM $t WHERE s = named_struct('c1', 3, 'c2', 'v1')", (1,))


@case("TestSelect.testRequiredNestedFieldInOptionalStructFilter")
def a_required_field_of_a_struct_that_is_null_is_null(p: Place) -> None:
    p.sql("CREATE TABLE $t (id INT NOT NULL, a STRUCT<street: STRING NOT NULL>) USING iceberg")
    p.sql("INSERT INTO $t VALUES (0, NULL)", "INSERT INTO $t VALUES (1, STRUCT('Main St'))")
    p.rows("SELECT id FROM $t WHERE a.street IS NULL", (0,))


@case("TestSelect.simpleTypesInFilter")
def values_of_every_simple_type_are_compared(p: Place) -> None:
    p.sql("""CREATE TABLE $t (id bigint, boolean boolean, integer integer, long long, float float,
             double double, string string, date date, timestamp timestamp) USING iceberg""")
    p.sql(*(
        f"""INSERT INTO $t VALUES ({n}, {n != 2}, {n}, {n}L, {n}.{n}, {n}.{n + 2}, '{n}.5',
            date '202{n}-0{n}-0{n}', timestamp '202{n}-0{n}-0{n} 00:00:00')"""
        for n in (1, 2, 3)
    ))  # fmt: skip
    for condition, *ids in (
        ("id > 1", 2, 3), ("boolean = true", 1, 3), ("integer > 1", 2, 3), ("long > 1", 2, 3),
        ("float > 1.1f", 2, 3), ("double > 1.3", 2, 3), ("string > '1.5'", 2, 3),
        ("date > date '2021-01-01'", 2, 3), ("timestamp > to_timestamp('2021-01-01')", 2, 3),
        ("timestamp > to_timestamp('2022-02-02')", 3), ("float > 2.2f", 3),
    ):  # fmt: skip
        p.rows(f"SELECT id FROM $t WHERE {condition} ORDER BY id", *((n,) for n in ids))


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


@case("TestSelect.variantTypeInFilter", on=("sql", "path"))
def fields_of_variants_are_compared(p: Place) -> None:
    p.sql(
        """CREATE TABLE $t (id BIGINT, v1 VARIANT, v2 VARIANT) USING iceberg
           TBLPROPERTIES ('format-version' = '3')""",
        """INSERT INTO $t SELECT 1, parse_json('{"a": 5}'), parse_json('{"x": 15}')""",
        """INSERT INTO $t SELECT 2, parse_json('{"a": 10}'), parse_json('{"x": 20}')""",
    )
    a, x = "try_variant_get(v1, '$$.a', 'int')", "try_variant_get(v2, '$$.x', 'int')"
    p.rows(f"SELECT id, {a} FROM $t WHERE {a} > 5", (2, 10))
    p.rows(f"SELECT id, {x} FROM $t WHERE {x} < 100 ORDER BY id", (1, 15), (2, 20))


NTZ = "timestamp_ntz '2021-01-01 00:00:00'"
TZ = "timestamp '2021-02-01 00:00:00'"
MIDNIGHT = (datetime(2021, 1, 1), datetime(2021, 2, 1))


def two_times(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id bigint NOT NULL, ts timestamp_ntz NOT NULL, tsz timestamp NOT NULL) USING iceberg"
    )


@case(
    "TestTimestampWithoutZone.testAppendTimestampWithoutZone",
    "TestTimestampWithoutZone.testAppendTimestampWithZone",
    on=("sql", "session"),
)
def times_with_and_without_zone_are_cast_to_the_column(p: Place) -> None:
    two_times(p)
    jan, feb = "'2021-01-01 00:00:00'", "'2021-02-01 00:00:00'"
    p.sql(f"INSERT INTO $t VALUES (1, timestamp_ntz {jan}, timestamp_ntz {feb})")
    p.sql(f"INSERT INTO $t VALUES (2, timestamp {jan}, timestamp {feb})")
    p.rows("SELECT * FROM $t ORDER BY id", (1, *MIDNIGHT), (2, *MIDNIGHT))


@case(
    "TestTimestampWithoutZone.testCreateAsSelectWithTimestampWithoutZone",
    "TestTimestampWithoutZone.testCreateNewTableShouldHaveTimestampWithZoneIcebergType",
    "TestTimestampWithoutZone.testCreateNewTableShouldHaveTimestampWithoutZoneIcebergType",
    on=("sql", "session"),
)
def a_querys_times_keep_their_types(p: Place) -> None:
    two_times(p)
    p.sql(f"INSERT INTO $t VALUES (1, {NTZ}, {TZ}), (2, {NTZ}, {TZ}), (3, {NTZ}, {TZ})")
    p.sql("CREATE TABLE $ns.copy USING iceberg AS SELECT * FROM $t")
    p.rows("SELECT * FROM $ns.copy ORDER BY id", *((n, *MIDNIGHT) for n in (1, 2, 3)))
    assert p.columns("$ns.copy") == ["1 id long", "2 ts timestamp", "3 tsz timestamptz"]
