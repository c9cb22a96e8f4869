"""What cases of DELETE, UPDATE and MERGE share: a table that is changed copy-on-write (format 2, by
its name) or merge-on-read (format 3, on a branch), and what the snapshot says.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Any

from tests.sql.java_topics.harness import Place, case

MODES = ("copy-on-write", "merge-on-read")


def one_mode(method: str) -> tuple[str, ...]:
    """Choose the mode in which a case runs that says the same of both: one or the other."""
    return (MODES[zlib.crc32(method.encode()) % 2],)


Rows = list[tuple[Any, ...]]
FILE_BY_FILE = (
    "a decision: tasks change one file after the other, and remove files of which no row stays"
)
NOTHING = "a decision: a statement that changes no row commits nothing"
AQE = {
    "spark.sql.shuffle.partitions": 20,
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
}
SMALL_PIECES = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "100",
    "spark.sql.iceberg.advisory-partition-size": str(256 << 20),
}
LARGE_PIECES = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "256MB",
    "spark.sql.iceberg.advisory-partition-size": "100",
}
"""What Spark takes for a good size of pieces, and what Iceberg's setting says instead."""


def begin(p: Place, columns: str, values: str = "", partitioned: str = "") -> None:
    """Make the table `$t`; `$o` stands for what is changed, the table or its branch `test`."""
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    version = 2 if p.each == "copy-on-write" else 3
    modes = ", ".join(f"'write.{verb}.mode' = '{p.each}'" for verb in ("delete", "update", "merge"))
    p.sql(
        f"CREATE TABLE $t ({columns}) USING iceberg {clause}"
        f" TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    p.names["o"] = p.text("$t")
    if values:
        put(p, values)
        branch(p)


def branch(p: Place) -> None:
    if p.each == "merge-on-read":
        p.sql("ALTER TABLE $t CREATE BRANCH test")
        p.names["o"] = p.text("$t.branch_test")


def put(p: Place, values: str, to: str = "$o") -> None:
    """Append rows as one file for each partition."""
    p.sql(f"INSERT INTO {to} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")


def views(p: Place, **lists: list[Any]) -> None:
    """Make temporary views of one column, `value`."""
    for name, values in lists.items():
        kind = "string" if any(isinstance(v, str) for v in values) else "int"
        p.frame([(v,) for v in values], f"value {kind}", name)


def head(p: Place) -> dict[str, Any]:
    return p.snapshot(ref="test" if "branch_test" in p.names["o"] else "main")


def written_together(p: Place) -> None:
    """Check that the newest snapshot has one new data file, or a vector for each of four files."""
    summary = head(p)["summary"]
    if p.each == "copy-on-write":
        assert summary["added-data-files"] == "1"
    else:
        assert (summary["added-delete-files"], summary["added-dvs"]) == ("4", "4")


def written_apart(p: Place) -> None:
    """Check that the newest snapshot has four new files."""
    key = "added-data-files" if p.each == "copy-on-write" else "added-delete-files"
    assert head(p)["summary"][key] == "4"


def told(
    p: Place,
    changed: int,
    rewritten: tuple[int | None, int | None],
    marked: tuple[int | None, int | None],
) -> None:
    """Check the newest snapshot: partitions changed; copy-on-write files deleted and added;
    merge-on-read delete files and data files added.
    """
    summary = head(p)["summary"]
    first, added = rewritten if p.each == "copy-on-write" else marked
    key = "deleted-data-files" if p.each == "copy-on-write" else "added-delete-files"
    expected = {"changed-partition-count": changed, key: first, "added-data-files": added}
    actual = {key: summary.get(key) for key in expected}
    assert actual == {k: v if v is None else str(v) for k, v in expected.items()}, actual
    assert summary["operation"] == ("delete" if added is None and first else summary["operation"])


def beside(p: Place, statement: str, other: Callable[[], None]) -> Exception | None:
    """Run a statement that reads the view `slow` (the number 1), and while it does, something
    else; return the statement's error.
    """
    started, go = str(p.directory / "started"), str(p.directory / "go")

    def wait(number: int) -> int:
        import pathlib
        import time

        pathlib.Path(started).touch()
        while not pathlib.Path(go).exists():
            time.sleep(0.02)
        return number

    p.spark.udf.register("waiting", wait, "int")
    p.sql(
        "CREATE OR REPLACE TEMPORARY VIEW slow AS SELECT waiting(1) AS value FROM range(1, 2, 1, 1)"
    )
    errors: list[Exception] = []

    def run() -> None:
        try:
            p.sql(statement)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(1200):
            if (p.directory / "started").exists() or not thread.is_alive():
                break
            thread.join(0.05)
        assert (p.directory / "started").exists(), errors
        other()
    finally:
        (p.directory / "go").touch()
        thread.join(120)
    return errors[0] if errors else None


def outside(p: Place, dep: str) -> None:
    """Append a row of the id 1 without Spark, whose cores the statement holds."""
    import pyarrow as pa

    rows = pa.table({"id": pa.array([1], pa.int32()), "dep": [dep]})
    branch = "test" if "branch_test" in p.names["o"] else "main"
    p.outside().load_table(f"{p.namespace}.t").append(rows, branch=branch)


def isolated(method: str, verb: str, statement: str) -> None:
    """Register the cases of both isolation levels: a row that the condition meets is appended
    while the statement runs.
    """

    @case(f"{method}WithSerializableIsolation", each=MODES)
    def a_conflict_is_told(p: Place) -> None:
        begin(p, "id INT, dep STRING", "(1, 'hr')")
        p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ('write.{verb}.isolation-level' 'serializable')")
        error = beside(p, statement, lambda: outside(p, "hr"))
        assert error is not None and "onflict" in str(error), error

    @case(f"{method}WithSnapshotIsolation", each=MODES)
    def rows_that_came_meanwhile_stay(p: Place) -> None:
        begin(p, "id INT, dep STRING", "(1, 'hr')")
        p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ('write.{verb}.isolation-level' 'snapshot')")
        error = beside(p, statement, lambda: outside(p, "late"))
        assert error is None, error
        p.rows("SELECT dep FROM $o WHERE id = 1", ("late",))
