"""The driver dies between commit and policy, between policies and inside merge: no row is lost or
doubled, no partition forgotten.
"""

from dataclasses import replace

import pytest

from frazil.arrow.deletes.write_deletes import write_equality_deletes
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_rows import write
from frazil.commit.actions import RowDelta
from frazil.commit.table_commit import commit
from frazil.testing import FlakyBackend, FlakyStorage
from tests.commit.row_changes import context_of
from tests.stream.partitions.support import KIND, Killed, rows, stream

IDS = list(range(6))


class StorageBackend:
    """A catalog whose tables lie in another store."""

    def __init__(self, inner, storage):
        self.inner, self.storage = inner, storage

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def load(self, identifier):
        return replace(self.inner.load(identifier), storage=self.storage)


def killed(at, told=None):
    """A policy that dies for the partition, once."""
    done = []

    def policy(context):
        if told is not None:
            told.append(context.partition_values[0])
        if context.partition_values[0] == at and not done:
            done.append(at)
            raise Killed

    policy.fired = done
    return policy


def ended_well(s):
    table = s.table
    assert sorted(table.to_arrow()["id"].to_pylist()) == IDS
    assert s.pending == set() and set(s.times) == {"dt=a", "dt=b", "dt=c"}
    live = set(table.inspect.files()["file_path"].to_pylist())
    assert all(table.io.new_input(f).exists() for f in live)


def three(s):
    s.table.append(rows([0, 1, 2], ["a", "b", "c"]))
    return rows([3, 4, 5], ["a", "b", "c"])


@pytest.mark.parametrize("at", ["a", "b", "c"])
@pytest.mark.parametrize(
    "kinds",
    ["custom,merge,success-file,tag", "merge,custom,tag", "merge,success-file,tag,property,custom"],
)
def test_a_kill_between_policies_is_made_good_by_the_replay(tmp_path, at, kinds):
    policy = killed(at)
    s = stream(tmp_path, {KIND: kinds}, (policy,))
    given = three(s)
    with pytest.raises(Killed):
        s.batch(0, given)
    assert policy.fired == [at] and at in "".join(s.pending)
    s.restarted().batch(0, given)
    ended_well(s)
    assert set(s.times.values()) == {1}


def test_a_kill_between_the_commit_of_the_rows_and_the_first_policy_is_made_good_by_the_replay(
    tmp_path,
):
    s = stream(tmp_path, {KIND: "merge,tag"})
    given = three(s)
    hook = s.hook
    s.hook = type(
        "Dies",
        (),
        {
            "actions": hook.actions,
            "committed": staticmethod(lambda *_: (_ for _ in ()).throw(Killed())),
        },
    )()
    with pytest.raises(Killed):
        s.batch(0, given)
    assert len(s.pending) == 3 and s.table.count() == 6
    s.restarted().batch(0, given)
    ended_well(s)


@pytest.mark.parametrize("swap", range(1, 12))
@pytest.mark.parametrize("word", ["raise", "applied-raise", "applied", "lost"])
def test_a_kill_or_a_lost_answer_at_any_commit_of_the_batch_and_its_policies(tmp_path, swap, word):
    properties = {"commit.status-check.min-wait-ms": "1", "commit.retry.min-wait-ms": "1"}
    s = stream(tmp_path, {KIND: "merge,tag,property"}, properties=properties)
    given = three(s)
    error = Killed() if "raise" in word else ConnectionError("gone")
    backend = FlakyBackend(s.table._backend, ["ok"] * (swap - 1) + [word], error=error)
    try:
        s.restarted(backend=backend).batch(0, given)
        assert word in ("applied", "lost")
    except (Killed, Exception) as e:
        assert isinstance(e, Killed) or word == "lost"
    assert len(backend.fired) < swap or backend.fired[swap - 1] == word
    assert swap > 11 or word in backend.fired
    assert s.table.count() in (3, 6)
    s.restarted().batch(0, given)
    ended_well(s)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 30, 2))
def test_a_store_that_fails_inside_the_policies_neither_loses_nor_doubles_a_row(
    tmp_path, at, after
):
    """The store fails for good at each of its writes; the next batch, with a store that works,
    makes it good.
    """
    s = stream(tmp_path, {KIND: "merge,success-file"}, properties={"commit.retry.num-retries": "0"})
    given = three(s)
    s.restarted(
        options={
            KIND: "success-file",
            "sink.partition-commit.trigger": "idle",
            "sink.partition-commit.delay": "9 d",
        }
    ).batch(0, given)
    assert len(s.pending) == 3
    inner = s.table._backend
    storage = FlakyStorage(s.table._loaded.storage, at, lasting=True, after=after)
    flaky = s.restarted(backend=StorageBackend(inner, storage))
    try:
        flaky.batch(1, None)
    except Exception as e:
        assert storage.fired, e
    assert storage.fired or len(storage.calls) < at
    assert sorted(s.table.to_arrow()["id"].to_pylist()) == IDS
    s.restarted().batch(1, None)
    ended_well(s)


def test_a_merge_that_another_writer_deletes_under_is_given_up_and_done_with_the_next_batch(
    tmp_path,
):
    s = stream(tmp_path, {KIND: "merge"}, properties={"write.delete.mode": "merge-on-read"})
    given = three(s)

    def first(swap):
        if swap == 2:
            s.table.delete("id = 0")

    backend = FlakyBackend(s.table._backend, before_swap=first)
    racing = s.restarted(backend=backend)
    racing.batch(0, given)
    assert (
        len(backend.fired) >= 2
        and [f.partition for f in racing.hook.failures] == ["dt=a"]
        and s.pending == {"dt=a"}
    )
    assert sorted(s.table.to_arrow()["id"].to_pylist()) == IDS[1:]
    s.restarted().batch(1, None)
    assert s.pending == set() and sorted(s.table.to_arrow()["id"].to_pylist()) == IDS[1:]


@pytest.mark.parametrize("when", ["before the merge reads", "while it writes"])
def test_equality_deletes_of_another_stream_hold_after_a_merge_and_take_no_newer_rows(
    tmp_path, when
):
    s = stream(tmp_path, {KIND: "merge"})
    given = three(s)

    def upserted():
        """As Flink's sink commits an upsert of id 0: an equality delete, and the new row, in one
        snapshot.
        """
        table = s.table
        base = table._loaded
        deletes = write_equality_deletes(
            conform(rows([0], "a"), base.metadata.schema()), context_of(base), (1,)
        )
        added = write(conform(rows([0], "a"), base.metadata.schema()), context_of(base))
        commit(table._backend, base, [RowDelta(added=tuple(added), added_deletes=tuple(deletes))])

    fired = []

    def first(swap):
        if swap == (1 if when == "before the merge reads" else 2):
            fired.append(swap)
            upserted()

    s.restarted(backend=FlakyBackend(s.table._backend, before_swap=first)).batch(0, given)
    assert len(fired) == 1 and "replace" in [x.operation for x in s.table.snapshots()]
    assert s.pending == ({"dt=a"} if when == "while it writes" else set()), (
        "rows that came after the merge had read are late"
    )
    s.restarted().batch(1, rows([], []))
    ended_well(s)
    s.table.mark_partition_done({"dt": "a"}, sink_partition_commit_policy_kind="merge")
    ended_well(s)
    assert sum("dt=a" in f for f in s.table.inspect.data_files()["file_path"].to_pylist()) == 1


def test_what_a_killed_merge_has_written_is_an_orphan_and_in_no_table(tmp_path, monkeypatch):
    from frazil.stream.partitions.policies import merge_files

    s = stream(tmp_path, {KIND: "merge"})
    given = three(s)
    fired = []

    def dies(*arguments):
        fired.append(arguments)
        raise Killed

    monkeypatch.setattr(merge_files, "attempts_of", dies)
    with pytest.raises(Killed):
        s.batch(0, given)
    monkeypatch.undo()
    assert fired and s.table.count() == 6
    s.restarted().batch(0, given)
    ended_well(s)
