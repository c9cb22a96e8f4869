"""CALL create_changelog_view, and the metadata table `changes`."""

import time

from tests.sql.java_topics.harness import Place, case

DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
VIEW = "TestCreateChangelogViewProcedure"


def at(p: Place) -> int:
    """A time after the newest snapshot, in milliseconds."""
    time.sleep(0.005)
    told = int(time.time() * 1000)
    time.sleep(0.005)
    return told


def three(p: Place) -> tuple[list[int], list[int]]:
    """Insert, insert, and replace the second row: the snapshots, and times around them."""
    p.sql("CREATE TABLE $t (id INT, data STRING) USING iceberg")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD data")
    times = [at(p)]
    with p.conf(DYNAMIC):
        for text in (
            "INTO $t VALUES (1, 'a')",
            "INTO $t VALUES (2, 'b')",
            "OVERWRITE $t VALUES (-2, 'b')",
        ):
            p.sql(f"INSERT {text}")
            times.append(at(p))
    return p.snapshots(), times


def viewed(p: Place, arguments: str) -> str:
    return str(p.one(f"CALL $c.system.create_changelog_view({arguments})"))


def ranged(method: str, options: str, first: int, last: int) -> None:
    @case(f"{VIEW}.{method}")
    def changes_of_a_range_are_seen(p: Place) -> None:
        (one, two, three_), times = three(p)
        changes = [
            (0, (1, "a", "INSERT"), one),
            (1, (2, "b", "INSERT"), two),
            (2, (-2, "b", "INSERT"), three_),
            (2, (2, "b", "DELETE"), three_),
        ]
        filled = options.format(
            *(), s0=one, s1=two, s2=three_, t0=times[0], t1=times[1], t2=times[2], t3=times[3]
        )
        told = f", options => map({filled})" if filled else ""
        name = viewed(p, f"table => '$t'{told}")
        p.rows(
            f"SELECT * FROM {name} ORDER BY _change_ordinal, id",
            *((*row, n - first, s) for n, row, s in changes if first <= n <= last),
        )


ranged("testNoSnapshotIdInput", "", 0, 2)
ranged("testOnlyStartSnapshotIdInput", "'start-snapshot-id', '{s0}'", 1, 2)
ranged("testOnlyEndTimestampIdInput", "'end-snapshot-id', '{s1}'", 0, 1)
ranged("testTimestampsBasedQuery", "'start-timestamp', '{t1}', 'end-timestamp', '{t3}'", 1, 2)
ranged("testOnlyStartTimestampInput", "'start-timestamp', '{t0}'", 0, 2)
ranged("testOnlyEndTimestampInput", "'end-timestamp', '{t2}'", 0, 1)
ranged(
    "testStartTimeStampEndSnapshotId", "'start-timestamp', '{t1}', 'end-snapshot-id', '{s2}'", 1, 2
)
ranged(
    "testStartSnapshotIdEndTimestamp", "'start-snapshot-id', '{s0}', 'end-timestamp', '{t2}'", 1, 1
)


@case(f"{VIEW}.testCustomizedViewName")
def the_view_may_be_named(p: Place) -> None:
    (_, two, three_), _ = three(p)
    options = f"map('start-snapshot-id', '{two}', 'end-snapshot-id', '{three_}')"
    name = viewed(p, f"table => '$t', options => {options}, changelog_view => 'cdc_view'")
    assert name.strip("`") == "cdc_view"
    p.rows("SELECT count(*) FROM cdc_view", (2,))


@case(f"{VIEW}.testNonStandardColumnNames")
def columns_may_have_odd_names(p: Place) -> None:
    p.sql("CREATE TABLE $t (`the id` INT, `the.data` STRING) USING iceberg")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD `the.data`")
    with p.conf(DYNAMIC):
        p.sql("INSERT INTO $t VALUES (2, 'b')", "INSERT OVERWRITE $t VALUES (-2, 'b')")
    first = p.snapshots()[0]
    viewed(
        p,
        f"table => '$t', options => map('start-snapshot-id', '{first}'), changelog_view => 'cdc_view'",
    )
    frame = p.spark.sql("SELECT * FROM cdc_view")
    assert frame.columns[:3] == ["the id", "the.data", "_change_type"]
    assert frame.columns[3:] == ["_change_ordinal", "_commit_snapshot_id"]
    assert frame.count() == 2


@case(f"{VIEW}.testNetChangesWithComputeUpdates")
def net_changes_have_no_images_of_updates(p: Place) -> None:
    three(p)
    p.fails(
        "CALL $c.system.create_changelog_view(table => '$t', identifier_columns => array('id'), net_changes => true)",
        "net.changes",
    )


@case(
    f"{VIEW}.testUpdateWithInComparableType",
    differs="a decision: rows with maps are compared, too",
)
def columns_that_have_no_order_need_identifier_columns(p: Place) -> None:
    p.sql("CREATE TABLE $t (id INT NOT NULL, data MAP<STRING, STRING>, age INT) USING iceberg")
    p.fails("CALL $c.system.create_changelog_view(table => '$t')", "data|identifier")


# The metadata table `changes`
# --------------------------------------------------------------------------------------------------------------------------------------

TABLE = "TestChangelogTable"
VERSIONS = (1, 2)


def letters(p: Place, number: int = 2) -> None:
    p.sql(
        "CREATE TABLE $t (id INT, data STRING) USING iceberg PARTITIONED BY (data)"
        f" TBLPROPERTIES ('format-version' = '{p.each or 2}')"
    )
    for n in range(1, number + 1):
        p.sql(f"INSERT INTO $t VALUES ({n}, '{' abcd'[n]}')")


def changes(p: Place, **options: object) -> list[tuple[object, ...]]:
    reader = p.spark.read
    for key, value in options.items():
        reader = reader.option(key.replace("_", "-"), str(value))
    rows = reader.table(p.text("$t.changes")).collect()
    return sorted((tuple(r) for r in rows), key=lambda r: (r[3], r[4], r[2], r[0]))


@case(f"{TABLE}.testOverwrites", each=VERSIONS)
def overwritten_rows_are_deleted_and_inserted(p: Place) -> None:
    letters(p)
    with p.conf(DYNAMIC):
        p.sql("INSERT OVERWRITE $t VALUES (-2, 'b')")
    _, second, third = p.snapshots()
    assert changes(p, start_snapshot_id=second, end_snapshot_id=third) == [
        (2, "b", "DELETE", 0, third),
        (-2, "b", "INSERT", 0, third),
    ]


@case(f"{TABLE}.testQueryWithTimeRange")
@case(f"{TABLE}.testTimeRangeValidation")
def changes_of_a_range_of_times(p: Place) -> None:
    (one, two, three_), (start, after1, after2, after3) = three(p)
    first, second = (1, "a", "INSERT"), (2, "b", "INSERT")
    replaced = [(2, "b", "DELETE"), (-2, "b", "INSERT")]
    at = {s["snapshot-id"]: s["timestamp-ms"] for s in p.metadata()["snapshots"]}
    only_third = [(*row, 0, three_) for row in replaced]
    both = [(*second, 0, two), *((*row, 1, three_) for row in replaced)]
    assert changes(p, start_timestamp=after2, end_timestamp=at[three_]) == only_third
    assert changes(p, start_timestamp=at[two], end_timestamp=at[three_]) == only_third
    assert changes(p, start_timestamp=after1, end_timestamp=at[three_]) == both
    assert changes(p, start_timestamp=after1) == both
    assert changes(p, start_timestamp=start)[0] == (*first, 0, one)
    assert changes(p, end_timestamp=at[one] - 1) == []
    assert changes(p, start_timestamp=after3) == []
    assert changes(p, start_timestamp=after2, end_timestamp=at[three_] - 1) == []
    try:
        changes(p, start_timestamp=at[three_], end_timestamp=at[two])
    except Exception as error:
        assert "start-timestamp" in str(error), str(error)[:500]
    else:
        raise AssertionError("a range that ends before it starts")


@case(f"{TABLE}.testMetadataDeletes", each=VERSIONS)
def whole_files_that_go_are_deletes(p: Place) -> None:
    letters(p)
    p.sql("DELETE FROM $t WHERE data = 'a'")
    _, second, third = p.snapshots()
    assert p.snapshot()["summary"]["operation"] == "delete"
    rows = changes(p, start_snapshot_id=second, end_snapshot_id=third)
    assert rows == [(1, "a", "DELETE", 0, third)]


@case(f"{TABLE}.testExistingEntriesInNewDataManifestsAreIgnored", each=VERSIONS)
def entries_that_were_there_are_no_changes(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id INT, data STRING) USING iceberg PARTITIONED BY (data) TBLPROPERTIES"
        f" ('format-version' = '{p.each}', 'commit.manifest.min-count-to-merge' = '1',"
        " 'commit.manifest-merge.enabled' = 'true')"
    )
    p.sql("INSERT INTO $t VALUES (1, 'a')", "INSERT INTO $t VALUES (2, 'b')")
    assert p.one("SELECT count(*) FROM $t.manifests") == 1
    first, second = p.snapshots()
    rows = changes(p, start_snapshot_id=first, end_snapshot_id=second)
    assert rows == [(2, "b", "INSERT", 0, second)]


@case(
    f"{TABLE}.testMetadataColumns",
    each=VERSIONS,
    differs="known gap: changelogs have no metadata columns",
)
def changes_have_metadata_columns(p: Place) -> None:
    letters(p)
    rows = p.sql(
        "SELECT id, _file, _pos, _deleted, _spec_id, _partition FROM $t.changes ORDER BY id"
    )
    assert [(r[0], *r[2:]) for r in rows] == [
        (1, 0, False, 0, ("a",)),
        (2, 0, False, 0, ("b",)),
    ]


@case(f"{TABLE}.testQueryWithRollback")
def changes_follow_the_branch_that_was_rolled_back(p: Place) -> None:
    letters(p, 1)
    first, after1 = p.snapshots()[0], at(p)
    p.sql("INSERT INTO $t VALUES (2, 'b')")
    second, after2 = p.snapshots()[-1], at(p)
    p.sql(f"CALL $c.system.rollback_to_snapshot('$db.t', {first})")
    with p.conf(DYNAMIC):
        p.sql("INSERT OVERWRITE $t VALUES (-2, 'a')")
    third, after3 = p.snapshots()[-1], at(p)
    inserted = (1, "a", "INSERT", 0, first)
    replaced = [(1, "a", "DELETE", 0, third), (-2, "a", "INSERT", 0, third)]
    assert changes(p, end_timestamp=after3) == [
        inserted,
        *((*row[:3], 1, third) for row in replaced),
    ]
    assert changes(p, end_timestamp=after2) == [inserted]
    assert changes(p, start_timestamp=after1, end_timestamp=after3) == replaced
    assert changes(p, start_timestamp=after2) == replaced
    p.sql(f"CALL $c.system.set_current_snapshot('$db.t', {second})")
    assert changes(p, start_timestamp=after1) == [(2, "b", "INSERT", 0, second)]


@case(f"{TABLE}.testChangelogViewOutsideTimeRange")
def a_view_of_a_time_without_changes_is_empty(p: Place) -> None:
    letters(p, 4)
    start = at(p)
    viewed(
        p,
        f"table => '$t', options => map('start-timestamp', '{start}', 'end-timestamp', '{start + 1000}'),"
        " changelog_view => 'nothing'",
    )
    p.rows("SELECT * FROM nothing")
