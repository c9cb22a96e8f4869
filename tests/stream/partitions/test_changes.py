"""Changes of a done partition by anybody: they are late, and the stream announces the partition
again.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from frazil.commit.actions import MetadataChange
from frazil.commit.done_once import mark_name
from frazil.scan.manifests import clear_caches
from frazil.spec.updates import RemoveSnapshots
from frazil.stream.partitions import changes
from frazil.stream.partitions.commit_hook import PartitionCommit
from frazil.stream.partitions.options import partition_commit_options
from frazil.stream.partitions.state import property_name, state_of
from frazil.stream.sink.batch import StreamSink, checked_options
from frazil.stream.sink.rows import ArrowRows
from tests.stream.partitions.support import KIND, Stream, rows, stream

A, B, C = "dt=a", "dt=b", "dt=c"


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture(params=[1, 2, 3])
def done(request: pytest.FixtureRequest, tmp_path: Any, told: list[Any]) -> Stream:
    """A stream into three partitions that are done."""
    tell = lambda c: told.append((c.partition_values[0], c.late))
    s = stream(tmp_path, {KIND: "custom"}, (tell,), format_version=request.param)
    s.batch(0, rows(range(6), ["a", "b", "c"] * 2))
    s.batch(1, rows([6], ["a"]))
    assert s.late == set() and s.times == {A: 2, B: 1, C: 1}
    told.clear()
    return s


def rolled_back(s: Stream, ids: int) -> None:
    with s.table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(s.table.snapshots()[ids].snapshot_id)


CHANGES: dict[str, tuple[Any, set[str]]] = {
    "append": (lambda s: s.table.append(rows([7, 8], ["a", "c"])), {A, C}),
    "append to a new partition": (lambda s: s.table.append(rows([7], ["new"])), set()),
    "delete of whole files": (lambda s: s.table.delete("dt = 'b'"), {B}),
    "delete of some rows": (lambda s: s.table.delete("id = 1"), {B}),
    "overwrite": (lambda s: s.table.overwrite(rows([1], ["b"]), overwrite_filter="dt = 'b'"), {B}),
    "dynamic overwrite": (lambda s: s.table.dynamic_partition_overwrite(rows([9], ["c"])), {C}),
    "update that moves rows": (lambda s: s.table.update({"dt": "'c'"}, "id = 1"), {B, C}),
    "rollback": (lambda s: rolled_back(s, 0), {A}),
    "a stream without partition commit": (lambda s: plain_stream(s), {B}),
    "two writers": (
        lambda s: (s.table.append(rows([7], ["a"])), s.table.delete("dt = 'c'")),
        {A, C},
    ),
    "compaction": (
        lambda s: s.table.maintenance.rewrite_data_files(options={"rewrite-all": "true"}),
        set(),
    ),
    "a tag and a property": (lambda s: s.table.set_properties(x="y"), set()),
}


def plain_stream(s: Stream) -> None:
    loaded = s.table._loaded
    StreamSink(s.table._backend, loaded, "db.t", "other", checked_options({}, loaded)).commit(
        0, ArrowRows(rows([5], ["b"]))
    )


@pytest.mark.parametrize("what", CHANGES)
def test_what_anybody_changes_is_late_and_is_announced_again(
    done: Stream, told: list[Any], what: str
) -> None:
    change, late = CHANGES[what]
    change(done)
    before = done.table.metadata_location
    assert done.late == late and done.pending == late
    assert done.table.metadata_location == before, "looking changes nothing"
    done.restarted().batch(2, None)
    assert sorted(told) == [(p.removeprefix("dt="), True) for p in sorted(late)]
    assert done.late == set() and done.pending == set()
    assert done.times == {A: 2 + (A in late), B: 1 + (B in late), C: 1 + (C in late)}
    told.clear()
    done.restarted().batch(2, rows([10], ["b"]))
    assert told == [("b", True)], "what was announced is not late again"


@pytest.mark.parametrize("what", CHANGES)
def test_changes_before_a_batch_of_the_stream_are_announced_with_it(
    done: Stream, told: list[Any], what: str
) -> None:
    change, late = CHANGES[what]
    change(done)
    done.restarted().batch(2, rows([10], ["b"]))
    assert (
        sorted(told) == sorted({("b", True), *((p.removeprefix("dt="), True) for p in late)})
        and done.late == set()
    )


@pytest.mark.parametrize("version", [2, 3])
def test_a_look_up_that_drops_a_file_with_its_last_row_makes_the_partition_late(
    tmp_path: Any, told: list[Any], version: int
) -> None:
    s = stream(
        tmp_path,
        {KIND: "custom"},
        (lambda c: told.append((c.partition_values[0], c.late)),),
        format_version=version,
    )
    hook = PartitionCommit(partition_commit_options(s.options, s.policies), s.clock)

    def batch(number: int, *changed: tuple[int, str, str]) -> None:
        table = pa.table(
            {n: pa.array([r[i] for r in changed]) for i, n in enumerate(("id", "dt", "op"))}
        )
        options = checked_options({"key_columns": "id"}, s.table._loaded, mode="cdc")
        StreamSink(s.table._backend, s.table._loaded, "db.t", "q", options, hooks=[hook]).commit(
            number, ArrowRows(table)
        )

    batch(0, (1, "a", "+I"), (2, "b", "+I"))
    assert told == [("a", False), ("b", False)]
    told.clear()
    batch(1, (1, "a", "-D"))
    snapshot = s.table.current_snapshot()
    assert (
        snapshot is not None
        and snapshot.summary["deleted-data-files"] == "1"
        and "added-delete-files" not in snapshot.summary
    )
    assert told == [("a", True)]
    batch(2, (2, "a", "+U"))  # the only row of b moves to a
    assert told == [("a", True), ("a", True), ("b", True)] and s.late == set()


def test_a_change_between_the_policies_and_their_record_is_late(
    done: Stream, told: list[Any]
) -> None:
    late_writer = lambda c: (
        done.table.append(rows([8], ["b"])) if c.partition_values[0] == "b" and not told else None
    )
    s = done.restarted(policies=(late_writer, *done.policies))
    s.batch(2, rows([7], ["b"]))
    assert told == [("b", True)] and s.late == {B} and s.pending == {B}
    s.batch(3, None)
    assert told == [("b", True)] * 2 and s.late == set()


def test_an_equality_delete_that_applies_everywhere_makes_every_done_partition_late(
    tmp_path: Any, told: list[Any]
) -> None:
    s = stream(tmp_path, {KIND: "custom"}, (lambda c: told.append(c.partition_values[0]),))
    s.batch(0, rows([1, 2], ["a", "b"]))
    told.clear()
    with s.table.update_spec() as spec:
        spec.remove_field("dt")
    options = checked_options(
        {"key_columns": "id,dt", "upsert-strategy": "equality-deletes"},
        s.table._loaded,
        mode="upsert",
    )
    StreamSink(s.table._backend, s.table._loaded, "db.t", "other", options).commit(
        0, ArrowRows(rows([3], ["c"]))
    )
    assert s.late == {A, B}


def expired(s: Stream, *numbers: int) -> None:
    ids = tuple(s.table.snapshots()[n].snapshot_id for n in numbers)
    s.table._change(lambda _: MetadataChange(lambda m: (RemoveSnapshots(ids),)))


def test_snapshots_that_expired_after_they_were_looked_at_change_nothing(done: Stream) -> None:
    expired(done, 0)
    assert done.late == set()
    done.table.append(rows([7], ["a"]))
    # the one up to which the stream has looked; the next one names it as its parent
    expired(done, 0)
    assert done.late == {A}


def test_where_snapshots_have_expired_unseen_every_done_partition_is_late(
    done: Stream, told: list[Any]
) -> None:
    done.table.append(rows([7], ["a"]))
    done.table.append(rows([8], ["a"]))
    expired(done, 0, 1, 2)
    assert done.late == {A, B, C}
    done.restarted().batch(2, None)
    assert sorted(told) == [("a", True), ("b", True), ("c", True)] and done.late == set()


def test_a_rollback_whose_snapshots_have_expired_is_one_that_nobody_can_tell(done: Stream) -> None:
    rolled_back(done, 0)
    expired(done, 1)
    assert done.late == {A, B, C}


def test_a_snapshot_that_cannot_be_read_may_have_changed_any_partition(done: Stream) -> None:
    done.table.append(rows([7], ["a"]))
    snapshot = done.table.current_snapshot()
    assert snapshot is not None and snapshot.manifest_list is not None
    done.table._loaded.storage.delete(snapshot.manifest_list)
    clear_caches()
    assert done.late == {A, B, C}


def test_the_cost_of_looking_follows_the_new_snapshots_and_not_the_history(
    done: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        done.table.append(rows([100 + n], ["a"]))
    done.restarted().batch(2, None)
    done.table.append(rows([7], ["c"]))
    read, own = [], changes.changes_in
    monkeypatch.setattr(
        changes,
        "changes_in",
        lambda snapshot, *more: read.append(snapshot.snapshot_id) or own(snapshot, *more),
    )
    head = done.table.current_snapshot()
    assert head is not None and done.late == {C} and read == [head.snapshot_id]
    again = done.restarted()
    for _ in range(3):
        again.batch(2, None)
    assert read.count(head.snapshot_id) <= 3 and set(read) == {head.snapshot_id}


def test_a_state_of_an_older_version_is_compared_from_its_announcements_on(
    done: Stream, told: list[Any]
) -> None:
    name = property_name("main")
    state = json.loads(done.table.properties[name])
    assert state.pop("looked-at") == state_of(done.table.metadata, "main").looked_at
    done.table.append(rows([7], ["b"]))
    done.table.set_properties(**{name: json.dumps(state)})
    assert done.late == {B}
    done.restarted().batch(2, None)
    assert told == [("b", True)] and done.late == set()


def test_marks_by_hand_are_compared_with_the_table_too(tmp_path: Any) -> None:
    s = stream(tmp_path, {})
    s.table.append(rows([1, 2], ["a", "b"]))
    s.table.mark_partition_done({"dt": "a"})
    s.table.append(rows([3], ["b"]))
    s.table.mark_partition_done({"dt": "b"})
    assert s.late == set() and s.times == {A: 1, B: 1}
    s.table.append(rows([4], ["a"]))
    assert s.late == {A}
    s.table.mark_partition_done({"dt": "a"})
    assert s.late == set() and s.times == {A: 2, B: 1}
    assert mark_name("q", "main") not in s.table.properties


def test_a_branch_is_compared_with_its_own_snapshots(done: Stream) -> None:
    with done.table.manage_snapshots() as manage:
        manage.create_branch(done.table.current_snapshot().snapshot_id, "audit")  # type: ignore[union-attr]
    done.table.append(rows([7], ["a"]), branch="audit")
    assert done.late == set()
    done.table.append(rows([7], ["b"]))
    assert done.late == {B}
