"""Changelogs of tables that other engines wrote: applied to the state where they start, they give
the state where they end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import frazil
from frazil.arrow.read.read_tasks import ReadContext, read
from frazil.scan.changelog import CHANGELOG_FIELDS
from frazil.scan.plan import plan
from frazil.spec.snapshot import Snapshot
from tests.builders.examples import sampled
from tests.golden import Golden, names

CHANGES = [f.name for f in CHANGELOG_FIELDS]
GOES = {"DELETE": -1, "UPDATE_BEFORE": -1, "INSERT": 1, "UPDATE_AFTER": 1}


def state(table: Any, snapshot: Snapshot | None) -> Counter[str]:
    """The rows of a snapshot with the table's current schema."""
    found = plan(table.metadata, table.io, snapshot=snapshot, schema=table.schema())
    return counted(
        read(found.tasks(), ReadContext.of(found, table.schema(), table.io)).read_all().to_pylist()
    )


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr({k: v for k, v in r.items() if k not in CHANGES}) for r in rows)


def by_snapshot(rows: list[dict[str, Any]]) -> dict[int, tuple[Counter[str], Counter[str]]]:
    """What went and what came in each snapshot."""
    held: dict[int, tuple[list[Any], list[Any]]] = {}
    for r in rows:
        held.setdefault(r["_commit_snapshot_id"], ([], []))[GOES[r["_change_type"]] > 0].append(r)
    return {i: (counted(gone), counted(come)) for i, (gone, come) in held.items()}


def line(table: Any) -> list[Snapshot]:
    """Ancestors of the current snapshot, oldest first."""
    return (
        list(table.metadata.ancestors(table.current_snapshot()))[::-1]
        if table.current_snapshot()
        else []
    )


@pytest.mark.parametrize("name", sampled(names(deletes=None), 2))
def test_changes_lead_from_each_snapshot_to_the_next(golden: Golden, name: str) -> None:
    table = frazil.load_table(golden[name].metadata_file)
    snapshots = line(table)
    scan = table.changes()
    rows = scan.to_arrow().to_pylist()
    assert scan.count() == len(rows)
    changes = by_snapshot(rows)
    none: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    states = [state(table, s) for s in snapshots]
    for n, snapshot in enumerate(snapshots):
        gone, come = changes.get(snapshot.snapshot_id, none)
        assert not gone & come, "rows went and came again the same"
        if n or snapshot.parent_snapshot_id is None:
            before = states[n - 1] if n else Counter[str]()
            assert not gone - before, "rows went that were not there"
            assert before - gone + come == states[n]
    order = [s.snapshot_id for s in snapshots if s.operation != "replace"]
    assert {(r["_commit_snapshot_id"], r["_change_ordinal"]) for r in rows} <= {
        (i, n) for n, i in enumerate(order)
    }
    check_ranges(table, snapshots, states, changes)


def check_ranges(
    table: Any, snapshots: list[Snapshot], states: list[Counter[str]], changes: dict[int, Any]
) -> None:
    """Between two snapshots: the changes of those between, and net the difference of the two
    states.
    """
    last = len(snapshots) - 1
    for begin, end in {(0, last), (0, last // 2), (last // 2, last)}:
        if begin >= end:
            continue
        asked = {
            "start_snapshot_id": snapshots[begin].snapshot_id,
            "end_snapshot_id": snapshots[end].snapshot_id,
        }
        between = {s.snapshot_id for s in snapshots[begin + 1 : end + 1]}
        assert by_snapshot(table.changes(**asked).to_arrow().to_pylist()) == {
            i: c for i, c in changes.items() if i in between
        }
        net = table.changes(**asked, net=True)
        rows = net.to_arrow().to_pylist()
        assert net.count() == len(rows)
        gone, come = (
            counted([r for r in rows if GOES[r["_change_type"]] == step]) for step in (-1, 1)
        )
        assert (gone, come) == (states[begin] - states[end], states[end] - states[begin])


def told(rows: Any) -> list[str]:
    return sorted(repr(r) for r in rows)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("changelog_cow", "plain"),
        ("changelog_cow", "net"),
        ("changelog_cow", "range"),
        ("incremental", "plain"),
        ("incremental", "net"),
    ],
)
def test_changes_are_those_of_javas_changelog_view(golden: Golden, name: str, label: str) -> None:
    table = golden[name]
    asked: dict[str, Any] = {"net": label == "net"}
    if label == "range":
        asked |= {"start_snapshot_id": 7670488552468248917, "end_snapshot_id": 8559623965999811480}
    want = table.parquet(f"changelog_{label}")
    got = frazil.load_table(table.metadata_file).changes(**asked).to_arrow()
    assert told(got.select(want.column_names).to_pylist()) == told(want.to_pylist())


def test_changes_of_a_merge_on_read_history_that_java_refuses(golden: Golden) -> None:
    table = golden["changelog_mor"]
    got = frazil.load_table(table.metadata_file).changes().to_arrow().to_pylist()
    named = {
        "_change_type": "change_type",
        "_change_ordinal": "ordinal",
        "_commit_snapshot_id": "snapshot_id",
    }
    want = table.expected["changelog_model"]
    assert told(
        {named.get(k, k): v for k, v in sorted(r.items(), key=lambda x: named.get(x[0], x[0]))}
        for r in got
    ) == told(dict(sorted(r.items())) for r in want)


def test_updates_are_told_by_keys_also_where_a_key_occurs_twice(golden: Golden) -> None:
    table = frazil.load_table(golden["changelog_cow"].metadata_file)
    rows = table.changes(identifier_columns=["id"]).to_arrow().to_pylist()
    by_type = Counter(r["_change_type"] for r in rows)
    plain = table.changes().to_arrow().to_pylist()
    assert counted(rows) == counted(plain)
    assert by_type["UPDATE_BEFORE"] == by_type["UPDATE_AFTER"] == 2
    pairs = {(r["_change_ordinal"], r["id"]) for r in rows if r["_change_type"] == "UPDATE_BEFORE"}
    assert pairs == {(1, 1), (3, 3)}
