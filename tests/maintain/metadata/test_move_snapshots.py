"""Java's procedures that move branches between snapshots, with their output columns and dry runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import (
    InvalidInput,
    NoSuchRefError,
    NoSuchSnapshotError,
    ValidationError,
    ValidationException,
)
from frazil.table import Table
from tests.builders.frames import ids
from tests.maintain.support import add, files_of, named_files, table_in


def grown(place: Path, **more: Any) -> tuple[Table, list[int]]:
    t = table_in(place, **more)
    made = []
    for i in range(3):
        made.append(add(t, i))
        time.sleep(0.002)
    return t, made


def once(t: Table, verb: str, *arguments: Any, **more: Any) -> dict[str, Any]:
    """The row of a procedure, after a dry run that said the same and changed nothing."""
    location, call = t.refresh().metadata_location, getattr(t.maintenance, verb)
    planned = call(*arguments, **more, dry_run=True).to_arrow().to_pylist()
    assert t.refresh().metadata_location == location
    result = call(*arguments, **more)
    assert not result.dry_run and planned == result.to_arrow().to_pylist()
    return dict(planned[0])


def test_roll_back_to_a_snapshot(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    assert once(t, "rollback_to_snapshot", made[0]) == {
        "previous_snapshot_id": made[2],
        "current_snapshot_id": made[0],
    }
    assert ids(t) == [0]
    with pytest.raises(ValidationError, match="not an ancestor of the current state"):
        t.maintenance.rollback_to_snapshot(made[2])
    with pytest.raises(NoSuchSnapshotError):
        t.maintenance.rollback_to_snapshot(1, dry_run=True)


def test_roll_back_to_a_time(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    when = t.snapshots()[1].timestamp_ms
    assert once(t, "rollback_to_timestamp", when) == {
        "previous_snapshot_id": made[2],
        "current_snapshot_id": made[0],
    }
    with pytest.raises(ValidationError, match="no valid snapshot older than"):
        t.maintenance.rollback_to_timestamp("2000-01-01")


def test_set_the_current_snapshot_by_id_or_ref(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    with t.manage_snapshots() as ms:
        ms.create_tag(made[1], "v1")
    assert once(t, "set_current_snapshot", made[0])["current_snapshot_id"] == made[0]
    assert once(t, "set_current_snapshot", ref="v1") == {
        "previous_snapshot_id": made[0],
        "current_snapshot_id": made[1],
    }
    assert once(t, "set_current_snapshot", made[1]) == {
        "previous_snapshot_id": made[1],
        "current_snapshot_id": made[1],
    }
    for wrong in ({}, {"snapshot_id": made[0], "ref": "v1"}):
        with pytest.raises(
            InvalidInput, match="Either snapshot_id or ref must be provided, not both"
        ):
            t.maintenance.set_current_snapshot(**wrong)
    with pytest.raises(NoSuchRefError):
        t.maintenance.set_current_snapshot(ref="nowhere")


def test_cherry_pick_a_staged_snapshot(tmp_path: Path) -> None:
    t, _ = grown(tmp_path)
    staged = add(t, 10, branch=None)
    add(t, 11)
    planned = t.maintenance.cherrypick_snapshot(staged, dry_run=True)
    # it has no id yet
    assert planned.to_arrow().to_pylist() == [
        {"source_snapshot_id": staged, "current_snapshot_id": None}
    ]
    assert 10 not in ids(t.refresh()) and files_of(t) == named_files(t)
    result = t.maintenance.cherrypick_snapshot(staged)
    assert (
        result.source_snapshot_id == staged
        and result.current_snapshot_id == t.current_snapshot().snapshot_id != staged
    )
    assert 10 in ids(t)
    with pytest.raises(ValidationException, match="already picked"):
        t.maintenance.cherrypick_snapshot(staged)


def test_a_snapshot_is_not_picked_again_after_the_pick_has_expired(tmp_path: Path) -> None:
    t, _ = grown(tmp_path)
    staged = add(t, 10, branch=None)
    with t.manage_snapshots() as ms:
        ms.create_tag(staged, "staged")
    add(t, 11)
    t.maintenance.cherrypick_snapshot(staged)
    add(t, 12)
    t.maintenance.expire_snapshots(older_than="2099-01-01")
    with pytest.raises(ValidationException, match="already referenced by table"):
        t.maintenance.cherrypick_snapshot(staged)
    assert ids(t) == [0, 1, 2, 10, 11, 12]


def test_a_cherry_pick_that_is_a_fast_forward_says_so_in_the_dry_run(tmp_path: Path) -> None:
    t, _ = grown(tmp_path)
    staged = add(t, 10, branch=None)
    assert once(t, "cherrypick_snapshot", staged) == {
        "source_snapshot_id": staged,
        "current_snapshot_id": staged,
    }


def test_publish_changes_by_their_wap_id(tmp_path: Path) -> None:
    t, _ = grown(tmp_path)
    staged = add(t, 10, branch=None, snapshot_properties={"wap.id": "w1"})
    add(t, 11)
    assert t.maintenance.publish_changes("w1", dry_run=True).source_snapshot_id == staged
    result = t.maintenance.publish_changes("w1")
    assert (
        result.source_snapshot_id == staged
        and t.current_snapshot().summary["published-wap-id"] == "w1"
    )
    assert ids(t) == [0, 1, 2, 10, 11]
    with pytest.raises(ValidationException, match="Cannot apply unknown WAP ID 'w2'"):
        t.maintenance.publish_changes("w2")


def test_fast_forward_a_branch(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    with t.manage_snapshots() as ms:
        ms.create_branch(made[2], "audit")
    ahead = add(t, 5, branch="audit")
    assert once(t, "fast_forward", "main", "audit") == {
        "branch_updated": "main",
        "previous_ref": made[2],
        "updated_ref": ahead,
    }
    assert once(t, "fast_forward", "new", "audit") == {
        "branch_updated": "new",
        "previous_ref": None,
        "updated_ref": ahead,
    }
    add(t, 6)
    add(t, 7, branch="audit")
    with pytest.raises(ValidationError, match="main is not an ancestor of audit"):
        t.maintenance.fast_forward("main", "audit", dry_run=True)


def test_ancestors_are_listed_newest_first(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    found = t.maintenance.ancestors_of().to_arrow().to_pylist()
    assert [r["snapshot_id"] for r in found] == made[::-1]
    assert [r["timestamp"] for r in found] == [s.timestamp_ms for s in reversed(t.snapshots())]
    assert [
        r["snapshot_id"] for r in t.maintenance.ancestors_of(made[1]).to_arrow().to_pylist()
    ] == made[1::-1]
    assert len(table_in(tmp_path, "memory").maintenance.ancestors_of().to_arrow()) == 0


def test_what_others_committed_since_the_table_was_loaded_counts(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    other = type(t)(t._backend, t._loaded, t._name)
    newer = add(other, 9)
    result = t.maintenance.rollback_to_snapshot(made[0])
    assert result.previous_snapshot_id == newer and ids(t) == [0]


def test_results_show_ids_as_they_are_typed(tmp_path: Path) -> None:
    t, made = grown(tmp_path)
    assert f"current_snapshot_id={made[0]}" in repr(
        t.maintenance.rollback_to_snapshot(made[0], dry_run=True)
    )
    shown = repr(t.maintenance.ancestors_of()).splitlines()
    assert shown[0] == "AncestorsResult(3 snapshots, newest first)"
    assert [line.split()[0] for line in shown[1:]] == [str(i) for i in reversed(made)] and all(
        line.endswith("UTC") for line in shown[1:]
    )
    for n in range(20):
        add(t, n)
    assert repr(t.maintenance.ancestors_of()).endswith("and 3 older ones")
    assert repr(t.maintenance.rewrite_manifests(dry_run=True, spec_id=0)).startswith(
        "RewriteManifestsResult(dry run: "
    )
    t.maintenance.rewrite_manifests()
    assert repr(t.maintenance.rewrite_manifests()).startswith(
        "RewriteManifestsResult(done: nothing to do, "
    )


JAVA = """
import json
picked, staged, first, second, millis = map(int, sys.argv[3:])
told, steps = {}, {}
def call(name, arguments):
    made = [r.asDict() for r in spark.sql(f"CALL j.system.{name}('db.t'{arguments})").collect()]
    steps[name] = [made, sorted(r[0] for r in spark.sql("SELECT id FROM j.db.t").collect())]
call("ancestors_of", "")
call("cherrypick_snapshot", f", {picked}")
call("publish_changes", ", 'ours'")
call("fast_forward", ", 'behind', 'main'")
steps["behind"] = sorted(r[0] for r in spark.sql("SELECT id FROM j.db.t VERSION AS OF 'behind'").collect())
call("rollback_to_snapshot", f", {second}")
call("rollback_to_timestamp", f", timestamp_millis({millis})")
call("set_current_snapshot", ", ref => 'ours'")
spark.sql("ALTER TABLE j.db.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
for wap, value in (("javas", 300), ("javas too", 301)):
    spark.conf.set("spark.wap.id", wap)
    spark.sql(f"INSERT INTO j.db.t VALUES ({value}, 'a', 0)")
spark.conf.unset("spark.wap.id")
spark.sql("ALTER TABLE j.db.t CREATE BRANCH ahead")
spark.sql("INSERT INTO j.db.t.branch_ahead VALUES (400, 'a', 0)")
spark.sql("ALTER TABLE j.db.t CREATE TAG javas")
print(json.dumps(steps))
"""


@pytest.mark.java
@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_moves_branches_after_us_and_we_after_java(
    tmp_path: Path, java_check: Any, version: int
) -> None:
    t = table_in(tmp_path, "path", format_version=version)
    first, second = add(t, 0), add(t, 1)
    picked, staged = (
        add(t, 100, branch=None),
        add(t, 101, branch=None, snapshot_properties={"wap.id": "ours"}),
    )
    third = add(t, 2)
    with t.manage_snapshots() as ms:
        ms.create_branch(second, "behind").create_tag(third, "ours")
    assert once(t, "rollback_to_snapshot", first)["current_snapshot_id"] == first
    assert once(t, "set_current_snapshot", third)["current_snapshot_id"] == third
    ancestors = t.maintenance.ancestors_of().to_arrow().to_pylist()
    millis = t.metadata.snapshot_by_id(second).timestamp_ms
    said = java_check.run(JAVA, tmp_path / "wh", *map(str, (picked, staged, first, second, millis)))
    java = json.loads(said.strip().splitlines()[-1])
    names = {
        "ancestors_of": [0, 1, 2],
        "cherrypick_snapshot": [0, 1, 2, 100],
        "publish_changes": [0, 1, 2, 100, 101],
        "fast_forward": [0, 1, 2, 100, 101],
    }
    names |= {
        "rollback_to_snapshot": [0, 1],
        "rollback_to_timestamp": [0],
        "set_current_snapshot": [0, 1, 2],
    }
    assert {name: step[1] for name, step in java.items() if name != "behind"} == names and java[
        "behind"
    ] == [0, 1, 2, 100, 101]
    assert java["ancestors_of"][0] == ancestors
    assert ids(t.refresh()) == [0, 1, 2] and sorted(
        t.scan(branch="behind").to_arrow()["id"].to_pylist()
    ) == [0, 1, 2, 100, 101]

    by_wap = {s.summary["wap.id"]: s.snapshot_id for s in t.snapshots() if "wap.id" in s.summary}
    assert once(t, "fast_forward", "main", "ahead")["updated_ref"] == t.metadata.refs[
        "ahead"
    ].snapshot_id and ids(t) == [0, 1, 2, 400]
    published = t.maintenance.publish_changes("javas")
    assert published.source_snapshot_id == by_wap["javas"] and ids(t) == [0, 1, 2, 300, 400]
    assert (
        t.maintenance.cherrypick_snapshot(by_wap["javas too"]).source_snapshot_id
        == by_wap["javas too"]
    )
    assert ids(t) == [0, 1, 2, 300, 301, 400]
    assert once(t, "set_current_snapshot", ref="javas")["current_snapshot_id"] == third and ids(
        t
    ) == [0, 1, 2]
    assert once(t, "rollback_to_timestamp", millis)["current_snapshot_id"] == first and ids(t) == [
        0
    ]
    for verb, known in (("publish_changes", "ours"), ("cherrypick_snapshot", staged)):
        # Java has published it there
        t.maintenance.set_current_snapshot(t.metadata.refs["behind"].snapshot_id)
        with pytest.raises(ValidationException, match="already"):
            getattr(t.maintenance, verb)(known)
