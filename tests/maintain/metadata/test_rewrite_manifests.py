"""Rewriting of manifests: fewer and sorted ones with the same entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.commit import rewrite_manifests as action
from frazil.errors import ValidationError
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.frames import frame_of, id_p_v, ids
from tests.maintain.support import LATER, add, files_of, named_files, numbers, states, table_in

APART = {"commit.manifest-merge.enabled": "false"}
ENTRY = ("snapshot_id", "sequence_number", "file_sequence_number", "data_file")


def entries(t: Table) -> list[dict[str, Any]]:
    """All live entries but their status, by path."""
    found = [
        {k: row[k] for k in ENTRY} for row in t.inspect.entries().to_pylist() if row["status"] != 2
    ]
    return sorted(
        found, key=lambda e: (e["data_file"]["file_path"], e["data_file"]["content_offset"] or 0)
    )


def scattered(place: Path, version: int = 2, kind: str = "sql", **properties: str) -> Table:
    """A table of eight data manifests and some of deletes, partitions out of order."""
    t = table_in(place, kind, format_version=version, properties={**APART, **properties})
    for i in range(8):
        add(t, i, i + 100, p="hcagbefd"[i])
    if version > 1:
        for i in range(3):
            t.delete(f"id = {i}", mode="merge-on-read")
    return t


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_are_rewritten_with_the_same_entries(tmp_path: Path, version: int) -> None:
    t = scattered(tmp_path, version)
    before, rows, snapshots = entries(t), id_p_v(t), states(t)
    planned = t.maintenance.rewrite_manifests(dry_run=True)
    assert len(t.refresh().snapshots()) == len(snapshots)
    result = t.maintenance.rewrite_manifests()
    deletes = 3 if version > 1 else 0
    assert result.to_arrow().to_pylist() == [
        {"rewritten_manifests_count": 8 + deletes, "added_manifests_count": 2 if deletes else 1}
    ]
    assert numbers(result) == numbers(planned)
    assert (
        entries(t) == before
        and id_p_v(t) == rows
        and {i: states(t)[i] for i in snapshots} == snapshots
    )
    assert {e["status"] for e in t.inspect.entries().to_pylist()} == {0}


def test_the_snapshot_says_what_was_done(tmp_path: Path) -> None:
    t = scattered(tmp_path)
    before = t.current_snapshot()
    t.maintenance.rewrite_manifests()
    summary = t.current_snapshot().summary
    assert {
        k: summary[k]
        for k in (
            "operation",
            "manifests-created",
            "manifests-kept",
            "manifests-replaced",
            "entries-processed",
        )
    } == {
        "operation": "replace",
        "manifests-created": "2",
        "manifests-kept": "0",
        "manifests-replaced": "11",
        "entries-processed": "11",
    }
    assert {k: v for k, v in summary.items() if k.startswith("total-")} == {
        k: v for k, v in before.summary.items() if k.startswith("total-")
    }
    assert t.current_snapshot().parent_snapshot_id == before.snapshot_id


def test_entries_are_sorted_by_partition_and_cut_to_the_target_size(tmp_path: Path) -> None:
    t = scattered(tmp_path, 1)
    size = sum(t.inspect.manifests()["length"].to_pylist())
    with t.update_properties() as update:
        update.set("commit.manifest.target-size-bytes", size // 4 + 1)
    assert t.maintenance.rewrite_manifests(dry_run=True).added_manifests_count == 4
    t.maintenance.rewrite_manifests()
    bounds = [m["partition_summaries"][0] for m in t.inspect.manifests().to_pylist()]
    assert [(b["lower_bound"], b["upper_bound"]) for b in bounds] == [
        ("a", "b"),
        ("c", "d"),
        ("e", "f"),
        ("g", "h"),
    ]


def test_nothing_to_do_makes_no_snapshot(tmp_path: Path) -> None:
    t = scattered(tmp_path)
    t.maintenance.rewrite_manifests()
    location = t.metadata_location
    assert t.maintenance.rewrite_manifests().rewritten_manifests_count == 0
    assert t.refresh().metadata_location == location
    assert table_in(tmp_path, "memory").maintenance.rewrite_manifests().added_manifests_count == 0


def test_manifests_of_one_spec_are_rewritten(tmp_path: Path) -> None:
    t = scattered(tmp_path, 1)
    with t.update_spec() as spec:
        spec.add_field("id", "bucket[4]")
    add(t, 50)
    add(t, 51)
    before = entries(t)
    assert t.maintenance.rewrite_manifests().rewritten_manifests_count == 2
    assert t.maintenance.rewrite_manifests(spec_id=0).rewritten_manifests_count == 8
    assert entries(t) == before and len(t.inspect.manifests()) == 2
    with pytest.raises(ValidationError, match="Partition spec 9"):
        t.maintenance.rewrite_manifests(spec_id=9)


def test_entries_can_be_sorted_by_chosen_partition_fields(tmp_path: Path) -> None:
    t = table_in(tmp_path, partition_by=["p", "v"], properties=APART)
    for i in range(4):
        t.append(frame_of([(i, "ab"[i % 2], 9 - i)]))
    t.maintenance.rewrite_manifests(sort_by=["v"])
    assert t.inspect.entries()["data_file"].to_pylist()[0]["partition"] == {"p": "b", "v": 6}
    with pytest.raises(ValidationError, match=r"specified field\(s\) \['x'\] were not found"):
        t.maintenance.rewrite_manifests(sort_by=["x"])


def test_row_ids_stay(tmp_path: Path) -> None:
    t = scattered(tmp_path, 3)
    columns = ("id", "_row_id", "_last_updated_sequence_number")
    before = sorted(map(repr, t.scan(selected_fields=columns).to_arrow().to_pylist()))
    t.maintenance.rewrite_manifests()
    assert sorted(map(repr, t.scan(selected_fields=columns).to_arrow().to_pylist())) == before
    add(t, 1000)
    found = t.scan(selected_fields=columns).to_arrow().to_pylist()
    assert len({r["_row_id"] for r in found}) == len(found)


def test_a_table_that_was_upgraded_gets_row_ids(tmp_path: Path) -> None:
    t = scattered(tmp_path, 2)
    t.upgrade(format_version=3)
    t.maintenance.rewrite_manifests()
    found = t.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
    assert (
        all(r["_row_id"] is not None for r in found)
        and len({r["_row_id"] for r in found}) == len(found) == 13
    )


def test_partitions_of_a_widened_column_are_written_in_its_new_type(tmp_path: Path) -> None:
    t = catalog_of("sql", tmp_path).create_table(
        "db.t", "id int, f float, x int", partition_by=["id", "f"], properties=APART
    )
    t.append(frame_of([(1, 0.5, 1), (None, -0.0, 1)], "id int, f float, x int"))
    with t.update_schema() as update:
        update.update_column("id", "bigint").update_column("f", "double")
    t.append(frame_of([(2**40, 0.1, 1)], "id bigint, f double, x int"))
    rows = sorted(map(repr, t.scan().to_arrow().to_pylist()))
    assert t.maintenance.rewrite_manifests().added_manifests_count == 1
    assert sorted(map(repr, t.scan().to_arrow().to_pylist())) == rows
    assert (
        t.scan("f = 0.5").count() == 1
        and t.scan("id is null").count() == 1
        and t.scan(f"id = {2**40}").count() == 1
    )
    summary = t.inspect.manifests().to_pylist()[0]["partition_summaries"][1]
    assert (summary["lower_bound"], summary["upper_bound"]) == ("-0.0", "0.5")


# --- beside writers


def raced(t: Table, monkeypatch: pytest.MonkeyPatch, work: Any) -> list[int]:
    """Let `work` commit each time before the first swap of the action; returns how often manifests
    were rewritten.
    """
    real, calls, done = action.RewriteManifests._rewrite, list[int](), list[int]()

    def rewrite(self: Any, *arguments: Any) -> None:
        calls.append(1)
        real(self, *arguments)
        if not done:
            done.append(1)
            work()

    monkeypatch.setattr(action.RewriteManifests, "_rewrite", rewrite)
    return calls


def another(t: Table) -> Table:
    return type(t)(t._backend, t._backend.load(t._loaded.identifier), t._name)


def test_a_concurrent_append_does_not_repeat_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = scattered(tmp_path, 1)
    calls = raced(t, monkeypatch, lambda: add(another(t), 500))
    t.maintenance.rewrite_manifests()
    assert calls == [1] and 500 in ids(t) and len(ids(t)) == 17
    assert len(t.inspect.manifests()) == 2 and t.current_snapshot().summary["manifests-kept"] == "1"


def test_manifests_that_are_gone_are_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = scattered(tmp_path, 2)
    rows = id_p_v(t)
    calls = raced(t, monkeypatch, lambda: another(t).delete("p = 'a'"))
    t.maintenance.rewrite_manifests()
    assert len(calls) > 2 and id_p_v(t) == [r for r in rows if r[1] != "a"]
    t.maintenance.expire_snapshots(older_than=LATER)
    assert files_of(t) == named_files(t)  # what the lost attempt wrote is gone


def test_an_expiry_beside_it_takes_nothing_that_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = scattered(tmp_path, 2)
    rows = id_p_v(t)
    raced(t, monkeypatch, lambda: another(t).maintenance.expire_snapshots(older_than=LATER))
    t.maintenance.rewrite_manifests()
    assert id_p_v(t) == rows
    t.maintenance.expire_snapshots(older_than=LATER)
    assert id_p_v(t) == rows and files_of(t) == named_files(t)
