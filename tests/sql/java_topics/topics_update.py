"""UPDATE."""

from tests.sql.java_topics.harness import Place, case
from tests.sql.java_topics.rows_changed import (
    AQE,
    FILE_BY_FILE,
    LARGE_PIECES,
    MODES,
    NOTHING,
    SMALL_PIECES,
    begin,
    head,
    isolated,
    one_mode,
    put,
    told,
    views,
    written_apart,
    written_together,
)
from tests.sql.java_topics.topics_delete import (
    HARD,
    HR,
    NONE,
    PAIR,
    THREE,
    spread,
)

GONE = (-1, "hr")


@case("TestUpdate.testCoalesceUpdate", each=MODES[:1], differs=FILE_BY_FILE)
def small_pieces_are_written_together(p: Place) -> None:
    spread(p, "", "range")
    with p.conf(AQE | SMALL_PIECES):
        p.sql("UPDATE $o SET id = -1 WHERE mod(id, 2) = 0")
    written_together(p)
    p.rows("SELECT count(*) FROM $o WHERE id = -1", (200,))


@case("TestUpdate.testSkewUpdate", each=MODES[:1], differs=FILE_BY_FILE)
def large_pieces_are_written_apart(p: Place) -> None:
    spread(p, "dep", "hash")
    with p.conf(AQE | LARGE_PIECES | {"spark.sql.shuffle.partitions": 2}):
        p.sql("UPDATE $o SET id = -1 WHERE mod(id, 2) = 0")
    written_apart(p)
    p.rows("SELECT count(*) FROM $o WHERE id = -1", (200,))


@case("TestUpdate.testUpdateEmptyTable", each=one_mode("testUpdateEmptyTable"), differs=NOTHING)
def nothing_is_updated_in_an_empty_table(p: Place) -> None:
    begin(p, PAIR)
    p.sql("UPDATE $t SET dep = 'x' WHERE id IN (1)", "UPDATE $t SET id = -1 WHERE dep = 'hr'")
    assert len(p.snapshots()) == 2
    p.rows("SELECT * FROM $t")


APART = "known gap: rows that Spark's SQL computes are written into a file of their own"


@case(
    "TestUpdate.testUpdateWithInSubqueryAndDynamicFileFiltering",
    each=[(MODES[0], "IN (SELECT * FROM updated_id)")],
    differs=APART,
)
def only_files_with_matching_rows_are_changed(p: Place) -> None:
    p.each, condition = p.each
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    views(p, updated_id=[-1, 2])
    p.sql(f"UPDATE $o SET id = CAST('-1' AS INT) WHERE id {condition}")
    assert len(p.snapshots()) == 3
    told(p, 1, (1, 1), (1, 1))
    p.rows("SELECT * FROM $o", (-1, "hardware"), (1, "hardware"), HR, (3, "hr"))


@case("TestUpdate.testUpdateNonExistingRecords", each=MODES, differs=NOTHING)
def updates_of_no_rows_are_commits_without_changes(p: Place) -> None:
    begin(p, PAIR, THREE, "dep")
    p.sql("UPDATE $o SET id = -1 WHERE id > 10")
    assert len(p.snapshots()) == 2
    told(p, 0, (None, None), (None, None))
    p.rows("SELECT * FROM $o", HR, HARD, NONE)


@case("TestUpdate.testUpdateWithoutCondition", each=MODES[1:], differs=FILE_BY_FILE)
def all_rows_are_updated(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr')", "dep")
    p.sql("ALTER TABLE $t WRITE DISTRIBUTED BY PARTITION")
    put(p, "(2, 'hardware')")
    put(p, "(null, 'hr')")
    p.sql("UPDATE $o SET id = -1")
    summary = head(p)["summary"]
    assert summary["operation"] == "overwrite"
    assert summary["changed-partition-count"] == "2"
    key = "deleted-data-files" if p.each == "copy-on-write" else "added-delete-files"
    assert summary[key] == "3"
    assert summary["added-data-files"] in ("2", "3")
    p.rows("SELECT * FROM $o", (-1, "hardware"), GONE, GONE)


isolated(
    "TestUpdate.testUpdate", "update", "UPDATE $o SET id = -1 WHERE id IN (SELECT * FROM slow)"
)


@case(
    "TestUpdate.testUpdateWithStaticPredicatePushdown",
    each=one_mode("testUpdateWithStaticPredicatePushdown"),
)
def files_of_other_partitions_are_not_read(p: Place) -> None:
    begin(p, PAIR, "(1, 'software')", "dep")
    put(p, "(1, 'hr')")
    for path in (p.directory.parent.parent).glob(f"**/{p.namespace}/**/dep=hr/*.parquet"):
        path.unlink()
    p.sql("UPDATE $o SET id = -1 WHERE dep IN ('software') AND id == 1")
    assert head(p)["summary"]["total-records"] in ("2", "3")
