"""Inserts, overwrites and deletes, of tables and their branches, by SQL and by DataFrames."""

import re

from tests.sql.java_topics.harness import Place, case

ABC = [(1, "a"), (2, "b"), (3, "c")]
DE = [(4, "d"), (5, "e")]
TARGETS = ("main", "branch")


def three_rows(p: Place, partitioned: str = "") -> tuple[str, str]:
    """Make a table of three rows; return what a statement writes to and what it reads."""
    p.sql(f"CREATE TABLE $t (id bigint, data string) USING iceberg {partitioned}")
    p.sql("INSERT INTO $t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    if p.each != "branch":
        return p.text("$t"), p.text("$t")
    p.sql("ALTER TABLE $t CREATE BRANCH test")
    return p.text("$t.branch_test"), p.text("$t VERSION AS OF 'test'")


def partitioned(p: Place) -> tuple[str, str]:
    return three_rows(p, "PARTITIONED BY (truncate(id, 3))")


def two(p: Place) -> object:
    return p.frame(DE, "id bigint, data string")


def holds(p: Place, selected: str, *expected: tuple[object, ...]) -> None:
    """Check the rows, and that a branch's writes are not main's."""
    p.rows(f"SELECT * FROM {selected} ORDER BY id", *expected)
    if p.each == "branch":
        p.rows("SELECT * FROM $t ORDER BY id", *ABC)


@case("UnpartitionedWritesTestBase.testDataFrameV2Append", each=TARGETS)
def a_frame_is_appended(p: Place) -> None:
    target, selected = three_rows(p)
    two(p).writeTo(target).append()
    holds(p, selected, *ABC, *DE)


@case("UnpartitionedWritesTestBase.testDataFrameV2DynamicOverwrite", each=TARGETS)
def a_frame_replaces_the_only_partition(p: Place) -> None:
    target, selected = three_rows(p)
    two(p).writeTo(target).overwritePartitions()
    holds(p, selected, *DE)


@case("UnpartitionedWritesTestBase.testDataFrameV2Overwrite", each=TARGETS)
def a_frame_replaces_the_rows_of_a_condition(p: Place) -> None:
    from pyspark.sql.functions import col

    target, selected = three_rows(p)
    two(p).writeTo(target).overwrite(col("id") <= 3)
    holds(p, selected, *DE)


@case("PartitionedWritesTestBase.testDataFrameV2Append", each=TARGETS)
def a_frame_is_appended_to_partitions(p: Place) -> None:
    target, selected = partitioned(p)
    two(p).writeTo(target).append()
    holds(p, selected, *ABC, *DE)


@case("PartitionedWritesTestBase.testDataFrameV2DynamicOverwrite", each=TARGETS)
def a_frame_replaces_the_partitions_of_its_rows(p: Place) -> None:
    target, selected = partitioned(p)
    two(p).writeTo(target).overwritePartitions()
    holds(p, selected, (1, "a"), (2, "b"), *DE)


@case("PartitionedWritesTestBase.testDataFrameV2Overwrite", each=TARGETS)
def a_frame_replaces_rows_that_are_whole_partitions(p: Place) -> None:
    from pyspark.sql.functions import col

    target, selected = partitioned(p)
    two(p).writeTo(target).overwrite(col("id") < 3)
    holds(p, selected, (3, "c"), *DE)


@case("PartitionedWritesTestBase.testViewsReturnRecentResults", each=TARGETS)
def a_temporary_view_of_a_frame_shows_later_rows(p: Place) -> None:
    target, _ = partitioned(p)
    p.spark.sql(f"SELECT * FROM {target} WHERE id = 1").createOrReplaceTempView("recent")
    p.rows("SELECT * FROM recent", (1, "a"))
    p.sql(f"INSERT INTO {target} VALUES (1, 'a')")
    p.rows("SELECT * FROM recent", (1, "a"), (1, "a"))


@case("PartitionedWritesTestBase.testWriteWithOutputSpec")
def rows_are_written_under_the_spec_that_an_option_names(p: Place) -> None:
    partitioned(p)
    p.sql("DELETE FROM $t", "ALTER TABLE $t ADD PARTITION FIELD data")
    first, second = 0, 1

    def write(rows: list[tuple[int, str]], **options: str) -> None:
        writer = p.frame(rows, "id bigint, data string").writeTo(p.text("$t"))
        for key, value in options.items():
            writer = writer.option(key.replace("_", "-"), value)
        writer.append()

    write([(10, "a")])
    write([(11, "b"), (12, "c")], output_spec_id=str(first))
    write([(13, "d")], output_spec_id=str(second))
    p.rows(
        "SELECT id, data, _spec_id FROM $t ORDER BY id",
        (10, "a", second), (11, "b", first), (12, "c", first), (13, "d", second),
    )  # fmt: skip
    p.rows(
        "SELECT spec_id, partition.id_trunc, partition.data FROM $t.partitions",
        (first, 9, None), (first, 12, None), (second, 9, "a"), (second, 12, "d"),
    )  # fmt: skip


def to_delete(p: Place, partitions: str = "", *properties: str) -> None:
    told = ", ".join((f"'format-version' = '{p.each}'", *properties))
    p.sql(
        f"CREATE TABLE $t (id bigint, data string) USING iceberg {partitions} TBLPROPERTIES ({told})"
    )
    p.frame(ABC, "id bigint, data string").coalesce(1).writeTo(p.text("$t")).append()


@case("TestDeleteFrom.truncateWithDVs", each=("3",))
def truncating_removes_deletion_vectors(p: Place) -> None:
    to_delete(p, "", "'write.delete.mode' = 'merge-on-read'")

    def summary(statement: str) -> dict[str, str]:
        p.sql(statement)
        known = p.snapshot()["summary"]
        return {k: v for k, v in known.items() if re.search("dvs|delete-files|position-deletes", k)}

    first = summary("DELETE FROM $t WHERE id = 1")
    assert {"added-dvs": "1", "added-position-deletes": "1"}.items() <= first.items()
    second = summary("DELETE FROM $t WHERE id = 2")
    wanted = {"added-dvs": "1", "removed-dvs": "1", "added-position-deletes": "2"}
    assert wanted.items() <= second.items()
    p.rows("SELECT * FROM $t", (3, "c"))
    third = summary("TRUNCATE TABLE $t")
    wanted = {"removed-dvs": "1", "removed-delete-files": "1", "removed-position-deletes": "2"}
    assert wanted.items() <= third.items()
    p.rows("SELECT * FROM $t")


@case("TestRefreshTable.testRefreshCommand", on=("sql", "session"))
def a_refreshed_table_shows_what_others_have_written(p: Place) -> None:
    p.sql("CREATE TABLE $t (k int, v int) USING iceberg", "INSERT INTO $t VALUES (1, 1)")
    p.rows("SELECT * FROM $t", (1, 1))
    other = p.spark.newSession()
    for key, value in p.spark.conf.getAll.items():
        if key.startswith(f"spark.sql.catalog.{p.catalog}"):
            other.conf.set(key, value)
    other.sql(p.text("DELETE FROM $t")).collect()
    p.sql("REFRESH TABLE $t")
    p.rows("SELECT * FROM $t")
