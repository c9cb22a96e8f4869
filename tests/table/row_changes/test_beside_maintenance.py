"""Row-level changes that lose to a compaction committed between their plan and their commit: they
are planned anew, and nobody is refused.

Each deterministic test injects the compaction right before the swap, and looks that it was
committed there.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.errors import CommitFailedException, ValidationException
from frazil.expr.nodes import EqualTo
from frazil.table.table import Table
from frazil.testing import FlakyBackend
from tests.builders.frames import IdPV, frame_of, id_p_v

MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
VERSIONS = pytest.mark.parametrize("version", [2, 3])
START: list[IdPV] = [(i, "ab"[i % 2], 0) for i in range(8)]
Change = Callable[[Table], Any]


@pytest.fixture
def table(catalog: Catalog, mode: str, version: int) -> Table:
    """Two files in each of two partitions."""
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")} | {
        "commit.retry.max-wait-ms": "20"
    }
    table = catalog.create_table(
        "db.t",
        "id bigint, p string, v bigint",
        partition_by=["p"],
        format_version=version,
        properties=modes,
    )
    for part in (START[:4], START[4:]):
        table.append(frame_of(part))
    return table


def compact(table: Table) -> None:
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"}, runner="in-process")


def meanwhile(catalog: Catalog, *others: Change) -> tuple[Table, list[int]]:
    """The table in a handle whose n-th swap comes right after what the n-th other commits; and how
    many have committed.
    """
    table, committed = catalog.load_table("db.t"), list[int]()

    def before(_: object) -> None:
        if len(committed) < len(others):
            committed.append(1)  # first, since the others swap as well
            others[len(committed) - 1](catalog.load_table("db.t"))

    table._backend = FlakyBackend(table._backend, before_swap=before)  # type: ignore[arg-type]
    return table, committed


def operations(table: Table) -> list[str | None]:
    return [s.operation for s in table.snapshots()]


def nothing_is_left_over(table: Table, place: Path) -> None:
    """Every data and delete file in the table's folder is one of a snapshot."""
    there = {str(f) for f in place.rglob("*") if f.is_file() and "data" in f.parts}
    named = {f.removeprefix("file://") for f in table.inspect.all_files()["file_path"].to_pylist()}
    assert there == named


def merged(table: Table) -> Any:
    rows = frame_of([(1, "b", 7), (50, "a", 7)])
    return (
        table.merge(rows, "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def streamed(table: Table) -> Any:
    """An upsert of rows that can be read once."""
    return table.upsert(frame_of([(1, "b", 7), (50, "a", 7)]).to_reader(), join_cols=["id"])


def changed(*gone: int, **new: int) -> list[IdPV]:
    rows = {i: (i, p, v) for i, p, v in START if i not in gone}
    return sorted([(i, p, new.get(f"v{i}", v)) for i, p, v in rows.values()])


UPSERTED = sorted([*(r for r in START if r[0] != 1), (1, "b", 7), (50, "a", 7)])
CHANGES: dict[str, tuple[Change, list[IdPV], dict[str, int]]] = {
    "delete": (lambda t: t.delete("id in (1, 4)"), changed(1, 4), {"rows_deleted": 2}),
    "delete of whole files": (lambda t: t.delete("id < 4"), changed(0, 1, 2, 3), {"rows_deleted": 4}),
    "update": (lambda t: t.update({"v": "v + 9"}, "id = 1"), changed(v1=9), {"rows_updated": 1}),
    "merge": (merged, UPSERTED, {"rows_updated": 1, "rows_inserted": 1}),
    "upsert of a stream": (streamed, UPSERTED, {"rows_updated": 1, "rows_inserted": 1}),
    "overwrite": (lambda t: t.overwrite(frame_of([(1, "b", 7)]), "id = 1"), changed(v1=7), {"rows_inserted": 1, "rows_deleted": 1}),
    "overwrite of whole files": (
        lambda t: t.overwrite(frame_of([(1, "b", 7)]), "id < 4", isolation_level="serializable"),
        sorted([(1, "b", 7), *changed(0, 1, 2, 3)]), {"rows_inserted": 1, "rows_deleted": 4},
    ),
    "dynamic overwrite": (
        lambda t: t.dynamic_partition_overwrite(frame_of([(1, "b", 7)]), isolation_level="serializable"),
        sorted([(1, "b", 7), *(r for r in START if r[1] == "a")]), {"rows_inserted": 1},
    ),
}  # fmt: skip


@MODES
@VERSIONS
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_loses_to_a_compaction_is_planned_anew(
    name: str, mode: str, version: int, table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    change, rows, counts = CHANGES[name]
    changing, committed = meanwhile(catalog, compact)
    result = change(changing)
    assert committed == [1] and operations(changing)[-2] == "replace", (
        "the compaction was committed before the change"
    )
    assert result.snapshot_id == changing.current_snapshot().snapshot_id  # type: ignore[union-attr]
    assert {name: getattr(result, name) for name in counts} == counts
    assert id_p_v(catalog.load_table("db.t")) == rows
    nothing_is_left_over(changing, tmp_path)


@MODES
@VERSIONS
def test_a_change_is_planned_anew_as_often_as_there_are_retries(
    mode: str, version: int, table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    changing, committed = meanwhile(catalog, compact, compact, compact)
    changing.update({"v": "v + 9"}, "id = 1")
    assert len(committed) == 3 and operations(changing)[-4:-1] == ["replace"] * 3
    assert id_p_v(changing) == changed(v1=9)
    nothing_is_left_over(changing, tmp_path)
    changing, committed = meanwhile(catalog, *[compact] * 9)
    with pytest.raises(CommitFailedException, match="after 5 attempts"):
        changing.update({"v": "v + 9"}, "id = 1")
    assert len(committed) == 5 and id_p_v(catalog.load_table("db.t")) == changed(v1=9)
    nothing_is_left_over(changing.refresh(), tmp_path)


@MODES
@VERSIONS
def test_a_transaction_is_planned_anew_with_every_step_that_builds_on_another(
    mode: str, version: int, table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    """The update reads the row that the transaction itself has appended, and one in a file of which
    its delete has removed a row.
    """
    changing, committed = meanwhile(catalog, compact, compact)
    with changing.transaction() as tx:
        tx.delete("id = 1")
        tx.append(frame_of([(50, "a", 0)]))
        tx.update({"v": "v + 9"}, "id in (3, 50)")
        tx.upsert(frame_of([(50, "a", 20), (51, "b", 20)]), join_cols=["id"])
    assert committed == [1, 1]
    assert id_p_v(catalog.load_table("db.t")) == sorted(
        [*changed(1, v3=9), (50, "a", 20), (51, "b", 20)]
    )
    assert (tx.result.rows_deleted, tx.result.rows_updated) == (1, 3)
    nothing_is_left_over(changing, tmp_path)


@MODES
@VERSIONS
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize("other", ["update", "append"])
@pytest.mark.parametrize("anew", ["true", "false"])
def test_what_others_did_to_the_rows_is_seen_beside_a_compaction(
    anew: str,
    other: str,
    level: str,
    order: str,
    mode: str,
    version: int,
    table: Table,
    catalog: Catalog,
    tmp_path: Path,
) -> None:
    """A compaction before or after it hides no change of rows. Rows that others add are a conflict
    under serializable isolation alone. By default the change is planned anew, as if it had come
    later; where the table says so, it is refused.
    """
    table.set_properties({"commit.retry.plan-anew.enabled": anew})

    def both(t: Table) -> None:
        steps: list[Change] = [compact]
        conflicting: Change = lambda t: (
            t.update({"v": "5"}, "id = 1")
            if other == "update"
            else t.append(frame_of([(1, "b", 5)]))
        )
        steps.insert(0 if order == "before" else 1, conflicting)
        for step in steps:
            step(t.refresh())

    changing, committed = meanwhile(catalog, both)
    if anew == "false" and (other == "update" or level == "serializable"):
        with pytest.raises(ValidationException):
            changing.update({"v": "v + 9"}, "id = 1", isolation_level=level)
        expected = changed(v1=5) if other == "update" else sorted([*START, (1, "b", 5)])
    else:
        changing.update({"v": "v + 9"}, "id = 1", isolation_level=level)
        expected = changed(v1=14) if other == "update" else sorted([*changed(v1=9), (1, "b", 14)])
    assert committed == [1] and id_p_v(catalog.load_table("db.t")) == expected
    nothing_is_left_over(changing.refresh(), tmp_path)


def test_an_error_while_a_change_is_planned_anew_leaves_no_file(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", "id bigint, p string, v bigint", partition_by=["p"])
    table.append(frame_of(START[:4]))

    def renamed(t: Table) -> None:
        compact(t)
        with t.refresh().update_schema() as update:
            update.rename_column("v", "w")

    changing, committed = meanwhile(catalog, renamed)
    with pytest.raises(frazil.errors.ValidationError, match="v"):
        changing.update({"v": "v + 9"}, EqualTo("id", 1))
    assert committed == [1]
    nothing_is_left_over(changing.refresh(), tmp_path)


# A storm
# -------------------------------------------------------------------------------------------------------------------------------

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
COMMITS = 200 if SOAK else 16


@pytest.mark.disk
@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 3)])
def test_nobody_is_refused_beside_a_compaction_that_never_rests(
    mode: str, version: int, table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    """FRAZIL_SOAK=1: 200 commits. DuckDB reads the same rows from the files that the table names."""
    rows, ends, errors, runs = (
        {i: (p, v) for i, p, v in START},
        threading.Event(),
        list[BaseException](),
        list[int](),
    )
    # it would end the patience with the other's turn as well
    table.update_properties().remove("commit.retry.max-wait-ms").commit()
    other = catalog.load_table("db.t")

    def compacts() -> None:
        while not ends.wait(0.2 if SOAK else 0.02):
            try:
                runs.append(
                    other.maintenance.rewrite_data_files(
                        options={"rewrite-all": "true"}, runner="in-process"
                    ).commits
                )
            except BaseException as error:
                errors.append(error)

    thread = threading.Thread(target=compacts)
    thread.start()
    chosen = random.Random(7)
    try:
        for n in range(COMMITS):
            key, new = chosen.choice(sorted(rows)), 100 + n
            match n % 4:
                case 0 if len(rows) > 4:
                    table.delete(f"id = {key}")
                    del rows[key]
                case 1:
                    table.update({"v": "v + 1"}, f"id = {key}")
                    rows[key] = (rows[key][0], rows[key][1] + 1)
                case 2:
                    table.upsert(
                        frame_of([(key, rows[key][0], n), (new, "a", n)]), join_cols=["id"]
                    )
                    rows[key], rows[new] = (rows[key][0], n), ("a", n)
                case _:
                    source = frame_of([(key, rows[key][0], -n), (new, "b", n)])
                    table.merge(
                        source, "target.id = source.id"
                    ).when_matched_update_all().when_not_matched_insert_all().execute()
                    rows[key], rows[new] = (rows[key][0], -n), ("b", n)
        deadline = time.monotonic() + 60
        while not any(runs) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        ends.set()
        thread.join(120)
    assert errors == [] and any(runs), "the compaction was at work, and did not fail either"
    expected = sorted((i, p, v) for i, (p, v) in rows.items())
    table.refresh()
    assert id_p_v(table) == expected
    compact(table)  # so that no deletes are left, which DuckDB would have to be told of
    files = [
        f.removeprefix("file://")
        for f in table.refresh().inspect.data_files()["file_path"].to_pylist()
    ]
    read = duckdb.sql(f"SELECT id, p, v FROM read_parquet({files!r}) ORDER BY ALL").fetchall()
    assert read == expected
    nothing_is_left_over(table, tmp_path)
