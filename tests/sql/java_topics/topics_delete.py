"""DELETE FROM."""

from tests.sql.java_topics.harness import Place, case
from tests.sql.java_topics.rows_changed import (
    AQE,
    FILE_BY_FILE,
    MODES,
    NOTHING,
    SMALL_PIECES,
    begin,
    branch,
    head,
    isolated,
    one_mode,
    put,
    told,
    written_together,
)

PAIR = "id INT, dep STRING"
HR, HARD, NONE = (1, "hr"), (2, "hardware"), (None, "hr")
THREE = "(1, 'hr'), (2, 'hardware'), (null, 'hr')"


def spread(p: Place, partitioned: str, mode: str) -> None:
    """Four files of a hundred rows each."""
    begin(p, PAIR, "", partitioned)
    for _ in range(4):
        p.sql("INSERT INTO $t SELECT /*+ COALESCE(1) */ int(id), 'hr' FROM range(100)")
    p.sql(
        "ALTER TABLE $t SET TBLPROPERTIES ('read.split.open-file-cost' '2147483647',"
        f" 'write.delete.distribution-mode' '{mode}', 'write.update.distribution-mode' '{mode}',"
        " 'write.delete.granularity' 'partition')"
    )
    branch(p)


@case("TestDelete.testCoalesceDelete", each=MODES[:1], differs=FILE_BY_FILE)
def small_pieces_are_written_together(p: Place) -> None:
    spread(p, "", "range")
    with p.conf(AQE | SMALL_PIECES):
        p.sql("DELETE FROM $o WHERE mod(id, 2) = 0")
    written_together(p)
    p.rows("SELECT count(*) FROM $o", (200,))


@case("TestDelete.testDeleteWithoutScanningTable", each=MODES)
def whole_partitions_are_deleted_by_metadata(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    for path in p.sql("SELECT file_path FROM $o.files" if p.each == MODES[0] else "SELECT 1"):
        assert path
    p.sql("DELETE FROM $o WHERE dep = 'hr'")
    summary = head(p)["summary"]
    assert (summary["operation"], summary["deleted-data-files"]) == ("delete", "1")
    p.rows("SELECT * FROM $o", (1, "hardware"), (2, "hardware"))


@case(
    "TestDelete.testDeleteFromEmptyTable",
    each=one_mode("testDeleteFromEmptyTable"),
    differs=NOTHING,
)
def nothing_is_deleted_from_an_empty_table(p: Place) -> None:
    begin(p, PAIR)
    p.sql("DELETE FROM $t WHERE id IN (1)", "DELETE FROM $t WHERE dep = 'hr'")
    assert len(p.snapshots()) == 2
    p.rows("SELECT * FROM $t")


@case("TestDelete.testDeleteNonExistingRecords", each=MODES, differs=NOTHING)
def deletes_of_no_rows_are_commits_without_changes(p: Place) -> None:
    begin(p, PAIR, THREE, "dep")
    p.sql("DELETE FROM $o AS t WHERE t.id > 10")
    assert len(p.snapshots()) == 2
    assert head(p)["summary"]["operation"] == "delete"
    told(p, 0, (None, None), (None, None))
    p.rows("SELECT * FROM $o", HR, HARD, NONE)


isolated("TestDelete.testDelete", "delete", "DELETE FROM $o WHERE id IN (SELECT * FROM slow)")
