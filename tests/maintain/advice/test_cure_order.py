"""Compaction comes before the conversion of deletes that it applies anyhow, and recommend() tells
what it leaves of the other findings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frazil.maintain.advice.auto import auto
from frazil.maintain.advice.finding import Finding, Findings, ProcedureCall
from frazil.table.table import Table
from tests.maintain.deletes import (
    append,
    by_bounded_keys,
    by_keys,
    by_position,
    delete_files,
    ids,
    made,
)

DATA = ("unsorted", "small_files", "deleted_rows", "equality_deletes", "position_delete_files")


def appended(t: Table, count: int, residue: int | None = None) -> None:
    """Append one file after another; `residue`: all rows in the partition of the ids with this rest
    modulo three.
    """
    for n in range(count):
        append(t, [i for i in range(30 * n, 30 * n + 30) if residue is None or i % 3 == residue])


def keys_of_one_partition(folder: Path, version: int) -> Table:
    t = made(folder, version)
    appended(t, 6)
    by_bounded_keys(t, range(0, 60, 7))
    return t


def keys_of_two_partitions(folder: Path, version: int) -> Table:
    """Partition a has six small files, b two, to which deletes apply as well; there is an older
    file of partition c.
    """
    t = made(folder, version, spec=["p"])
    appended(t, 1, 2)
    appended(t, 6, 0)
    appended(t, 2, 1)
    by_bounded_keys(t, [0, 3, 30, 1, 31])
    return t


def keys_that_apply_to_nothing(folder: Path, version: int) -> Table:
    t = made(folder, version, spec=["p"])
    by_bounded_keys(t, [0, 3])
    appended(t, 6, 0)
    return t


def keys_of_all_partitions(folder: Path, version: int) -> Table:
    """The deletes are of an unpartitioned spec, and apply to the older files of all."""
    t = made(folder, version)
    appended(t, 1)
    with t.update_spec() as update:
        update.add_identity("p")
    appended(t, 5, 0)
    appended(t, 1, 1)
    by_keys(t, [0, 3, 31], spec_id=0)
    appended(t, 1, 2)
    return t


def positions_of_all_files(folder: Path, version: int) -> Table:
    t = made(folder, version)
    appended(t, 6)
    by_position(t, range(0, 180, 5), "partition")
    return t


def positions_of_partitions(folder: Path, version: int) -> Table:
    """Format version 2 as another engine may leave it, then perhaps upgraded: position delete files
    by partition, and of single files.
    """
    t = made(folder, 2, spec=["p"])
    appended(t, 6, 0)
    appended(t, 1, 1)
    for n in range(0, 100, 20):
        by_position(t, range(n, n + 3), "partition")
    by_position(t, range(100, 140), "file")
    if version == 3:
        t.upgrade(3)
    return t


def unsorted_files(folder: Path, version: int) -> Table:
    t = made(folder, version)
    with t.update_sort_order() as update:
        update.asc("id")
    for n in range(6):
        append(t, range(n, 400, 6))
    by_position(t, range(100))
    by_bounded_keys(t, range(100, 120))
    return t


TABLES: list[Callable[[Path, int], Table]] = [
    keys_of_one_partition, keys_of_two_partitions, keys_that_apply_to_nothing, keys_of_all_partitions, positions_of_all_files,
    positions_of_partitions, unsorted_files,
]  # fmt: skip


def found(t: Table) -> dict[str, Finding]:
    return {f.kind: f for f in t.refresh().maintenance.recommend() if f.kind in DATA}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("filled", TABLES, ids=lambda f: f.__name__)
def test_what_is_told_to_be_left_after_a_cure_is_what_is_found_then(
    tmp_path: Path, filled: Callable[[Path, int], Table], version: int
) -> None:
    before = found(filled(tmp_path / "first", version))
    assert before
    for kind in {k for f in before.values() for k in f.left_after}:
        t = filled(tmp_path / kind, version)
        cure, rows = found(t)[kind].cure, ids(t)
        getattr(t.maintenance, cure.verb)(**cure.arguments, runner="in-process")
        after = found(t)
        assert ids(t) == rows and kind not in after
        for other in before.values():
            if kind in other.left_after:
                left = other.left_after[kind]
                assert (other.kind in after) == (left is not None), (kind, other, after)
                if left is not None and other.kind == "equality_deletes":
                    assert after[other.kind].numbers["files"] >= left.numbers["files"] > 0


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("filled", TABLES, ids=lambda f: f.__name__)
def test_auto_takes_the_steps_of_its_dry_run(
    tmp_path: Path, filled: Callable[[Path, int], Table], version: int
) -> None:
    t = filled(tmp_path, version)
    rows = ids(t)
    planned = [(s.kind, s.call) for s in t.maintenance.auto(dry_run=True).steps]
    done = t.maintenance.auto()
    assert not done.failed and [(s.kind, s.call) for s in done.steps] == planned
    assert ids(t) == rows and not found(t) and "equality" not in delete_files(t)
    if filled is keys_of_one_partition:
        assert [kind for kind, _ in planned] == ["small_files"], (
            "the compaction applies the deletes"
        )


def test_only_the_files_that_compaction_leaves_are_converted(tmp_path: Path) -> None:
    t = keys_of_two_partitions(tmp_path, 3)
    told = found(t)
    left = told["equality_deletes"].left_after["small_files"]
    assert (
        told["equality_deletes"].numbers["files"] == 8
        and left is not None
        and left.numbers["files"] == 2
    )
    assert "after the cure of small_files" in str(told["equality_deletes"])
    (converted,) = (s for s in t.maintenance.auto().steps if s.kind == "equality_deletes")
    assert (
        converted.cost_bytes == left.cost_bytes and converted.result.added_delete_files_count == 2
    )


def test_deletes_are_converted_where_compaction_is_over_the_budget(tmp_path: Path) -> None:
    t = keys_of_one_partition(tmp_path, 3)
    budget, rows = found(t)["equality_deletes"].cost_bytes, ids(t)
    for dry_run, outcome in ((True, "planned"), (False, "done")):
        steps = {
            s.kind: s.outcome
            for s in t.maintenance.auto(budget_bytes=budget, dry_run=dry_run).steps
        }
        assert steps == {"small_files": "over budget", "equality_deletes": outcome}
    assert ids(t) == rows and delete_files(t) == {"vector": 2}


def finding(kind: str, cost: int = 100, **more: Any) -> Finding:
    return Finding(
        kind, kind, {}, cost, cost / 100, "", 1.0, ProcedureCall("cure", {"x": kind}), **more
    )


@pytest.mark.parametrize(("added", "run"), [(10, ["a", "b"]), (100, ["a"])])
def test_a_cure_that_another_has_done_is_run_only_for_little_that_writers_have_added_meanwhile(
    added: int, run: list[str]
) -> None:
    """The first cure does the work of the second too; meanwhile writers leave a tenth of that work,
    or as much as before.
    """
    calls: list[str] = []

    def recommend() -> Findings:
        if not calls:
            return Findings([finding("a"), finding("b", left_after={"a": None})])
        return Findings([] if "b" in calls else [finding("b", added)])

    def cure(x: str, dry_run: bool) -> None:
        if not dry_run:
            calls.append(x)

    planned = auto(recommend, lambda _: cure, contextlib.nullcontext, dry_run=True)
    assert [s.kind for s in planned.steps] == ["a"] and not calls
    done = auto(recommend, lambda _: cure, contextlib.nullcontext)
    assert [s.kind for s in done.steps] == calls == run


def test_a_cure_is_run_where_the_one_that_was_to_settle_it_left_files_out() -> None:
    calls: list[str] = []

    class Partial:
        failed_data_files_count = 8

    def cure(x: str, dry_run: bool) -> Partial:
        calls.append(x)
        return Partial()

    def recommend() -> Findings:
        return Findings(
            [f for f in (finding("a"), finding("b", left_after={"a": None})) if f.kind not in calls]
        )

    assert [
        (s.kind, s.outcome) for s in auto(recommend, lambda _: cure, contextlib.nullcontext).steps
    ] == [("a", "done"), ("b", "done")]


def test_a_dry_run_leaves_out_what_the_second_of_two_cures_settles() -> None:
    partly = finding("c", 10)
    findings = Findings(
        [finding("a"), finding("b"), finding("c", left_after={"a": partly, "b": None})]
    )
    planned = auto(
        lambda: findings, lambda _: lambda x, dry_run: None, contextlib.nullcontext, dry_run=True
    )
    assert [s.kind for s in planned.steps] == ["a", "b"]
