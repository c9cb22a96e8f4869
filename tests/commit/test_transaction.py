"""The commit loop: lost races, lost answers, interrupts, clocks; rows and files are looked at after
each.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit import apply
from frazil.commit.actions import Append, DeleteFiles, MetadataChange, OverwriteFiles, RewriteFiles
from frazil.commit.apply import apply_updates
from frazil.commit.new_table import new_metadata
from frazil.commit.table_commit import CommitOutcome, commit, create
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    StorageError,
    ValidationException,
)
from frazil.spec import updates as u
from frazil.testing import FlakyBackend, FlakyStorage
from tests.builders.data_files import data_file
from tests.commit.support import (
    SCHEMA,
    append,
    avro_files,
    backend_of,
    do,
    live,
    make_table,
    name_in,
    needed,
    nothing_left_over,
    stored,
)

KINDS = pytest.mark.parametrize("kind", ["memory", "path", "sqlite"])


@pytest.fixture
def backend(kind: str, tmp_path: Path) -> CatalogBackend:
    found = backend_of(kind, tmp_path)
    make_table(
        found, properties={"commit.retry.num-retries": "3", "commit.status-check.num-retries": "2"}
    )
    do(found, append(1))
    return found


def current(backend: CatalogBackend) -> LoadedTable:
    return backend.load(name_in(backend))


@pytest.fixture
def base(backend: CatalogBackend) -> LoadedTable:
    return current(backend)


@KINDS
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_race_is_retried_on_fresh_metadata(backend: CatalogBackend, times: int) -> None:
    others = iter(range(100, 200))
    flaky = FlakyBackend(
        backend,
        before_swap=lambda turn: do(backend, append(next(others))) if turn <= times else None,
    )
    done = do(flaky, append(2))
    assert flaky.fired == ["ok"] * (times + 1) and done.attempts == times + 1
    assert live(done.table) == sorted(
        ["1", "2", *(str(n) for n in range(100, 100 + times))]
    ) and nothing_left_over(done.table)
    numbers = [s.sequence_number for s in done.table.metadata.snapshots]
    assert (
        numbers == sorted(set(numbers))
        and done.snapshot is not None
        and done.snapshot.summary["total-data-files"] == str(2 + times)
    )


@KINDS
def test_retries_keep_the_snapshot_id_and_the_manifests_and_redo_only_the_list(
    backend: CatalogBackend,
) -> None:
    flaky = FlakyBackend(backend, ["conflict", "conflict"])
    table = current(backend)
    seen = stored(table)
    done = do(flaky, append(2))
    new = avro_files(stored(table) - seen)
    assert flaky.fired == ["conflict", "conflict", "ok"] and done.snapshot is not None
    assert len([f for f in new if "/snap-" not in f]) == 1 and [
        f for f in new if "/snap-" in f
    ] == [done.snapshot.manifest_list]
    assert f"snap-{done.snapshot.snapshot_id}-3-" in str(done.snapshot.manifest_list)


@KINDS
def test_after_the_last_retry_it_fails_and_leaves_the_store_as_it_was(
    backend: CatalogBackend,
) -> None:
    table = current(backend)
    before = stored(table)
    table.storage.write(f"{table.metadata.location}/data/mine.parquet", b"x")
    flaky = FlakyBackend(backend, ["conflict"] * 9)
    with pytest.raises(CommitFailedException, match="after 4 attempts") as e:
        do(flaky, append(2), written=[f"{table.metadata.location}/data/mine.parquet"])
    assert flaky.fired == ["conflict"] * 4 and e.value.retryable and e.value.facts["attempts"] == 4
    assert stored(table) == before and not table.storage.exists(
        f"{table.metadata.location}/data/mine.parquet"
    )
    assert live(current(backend)) == ["1"]


@KINDS
@pytest.mark.parametrize("word", ["applied", "applied-conflict", "applied-raise"])
def test_a_commit_that_landed_without_an_answer_is_recognised(
    backend: CatalogBackend, word: str
) -> None:
    flaky = FlakyBackend(backend, [word])
    done = do(flaky, append(2), written=["/keep"])
    assert (
        flaky.fired == [word]
        and live(done.table) == ["1", "2"] == live(current(backend))
        and nothing_left_over(done.table)
    )
    assert done.snapshot == done.table.metadata.current_snapshot()


@KINDS
def test_a_landed_commit_is_found_below_what_others_put_on_top(backend: CatalogBackend) -> None:
    flaky = FlakyBackend(backend, ["applied"])
    real = flaky.load

    def load(identifier: tuple[str, ...]) -> LoadedTable:
        if flaky.fired:
            do(backend, append(3))
        return real(identifier)

    flaky.load = load  # type: ignore[method-assign]
    done = do(flaky, append(2), base=current(backend))
    assert (
        live(done.table) == ["1", "2", "3"]
        and done.snapshot is not None
        and done.snapshot.sequence_number == 2
    )


@KINDS
@pytest.mark.parametrize("word", ["lost", "raise"])
def test_when_nothing_tells_the_outcome_is_unknown_and_every_file_stays(
    backend: CatalogBackend, word: str
) -> None:
    table = current(backend)
    mine = f"{table.metadata.location}/data/mine.parquet"
    table.storage.write(mine, b"x")
    before = stored(table)
    flaky = FlakyBackend(backend, [word])
    with pytest.raises(CommitStateUnknownException) as e:
        do(flaky, append(2), written=[mine])
    assert flaky.fired == [word] and e.value.facts["snapshot_id"] and table.storage.exists(mine)
    assert len(avro_files(stored(table) - before)) == 2 and live(current(backend)) == ["1"]
    assert live(do(backend, append(3)).table) == ["1", "3"]


@KINDS
def test_an_unclear_commit_is_looked_up_again_while_the_catalog_is_away(
    backend: CatalogBackend,
) -> None:
    flaky = FlakyBackend(backend, ["applied"], unreachable_loads=2)
    assert (
        live(do(flaky, append(2), base=current(backend)).table) == ["1", "2"] and flaky.loads == 3
    )
    away = FlakyBackend(backend, ["applied"], unreachable_loads=9)
    with pytest.raises(CommitStateUnknownException):
        do(away, append(3), base=current(backend))
    assert live(current(backend)) == ["1", "2", "3"], (
        "it did land, and none of its files was taken away"
    )


@KINDS
def test_a_stale_answer_right_after_the_commit_does_no_harm(backend: CatalogBackend) -> None:
    flaky = FlakyBackend(backend, ["applied"], stale_loads=1)
    with pytest.raises(CommitStateUnknownException):
        do(flaky, append(2), base=current(backend))
    assert live(current(backend)) == ["1", "2"]


@KINDS
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("word", ["raise", "applied-raise"])
def test_an_interrupt_in_the_swap_deletes_nothing(
    backend: CatalogBackend, error: BaseException, word: str
) -> None:
    flaky = FlakyBackend(backend, [word], error=error)
    with pytest.raises(type(error)):
        do(flaky, append(2))
    after = current(backend)
    assert flaky.fired == [word] and live(after) == (
        ["1", "2"] if word == "applied-raise" else ["1"]
    )
    assert avro_files(stored(after)) >= needed(after.metadata, after)


@KINDS
def test_an_error_after_the_swap_took_effect_deletes_nothing(backend: CatalogBackend) -> None:
    flaky = FlakyBackend(backend, ["applied-raise"], error=MemoryError())
    done = do(flaky, append(2))
    assert live(done.table) == ["1", "2"] and nothing_left_over(done.table)


@KINDS
@pytest.mark.parametrize("word", ["ok", "applied", "conflict", "applied-conflict"])
def test_an_interrupt_after_the_swap_deletes_nothing_that_was_committed(
    backend: CatalogBackend, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of the look at the outcome, or out of the tidying after it."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for place, n in (("load", 2), ("remove", 3)):
        base, flaky = current(backend), FlakyBackend(backend, [word])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            if place == "load" and word != "ok":
                patch.setattr(flaky, "load", interrupted)
            else:
                patch.setattr("frazil.commit.table_commit.remove", interrupted)
            do(flaky, append(n), base=base)
        after = current(backend)
        assert flaky.fired[0] == word and avro_files(stored(after)) >= needed(after.metadata, after)
        landed = word != "conflict" or place == "remove"
        assert (str(n) in live(after)) == landed


@KINDS
def test_an_unknown_outcome_deletes_nothing_whatever_is_wrong_with_the_properties(
    backend: CatalogBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:  # as another writer may set it, who asks nobody
        patched.setattr(apply, "check_values", lambda _: None)
        do(
            backend,
            MetadataChange(
                lambda _: [u.SetProperties({"commit.status-check.num-retries": "many"})]
            ),
        )
    with pytest.raises(CommitStateUnknownException):
        do(FlakyBackend(backend, ["applied"]), append(2), base=current(backend))
    after = current(backend)
    assert live(after) == ["1", "2"] and avro_files(stored(after)) >= needed(after.metadata, after)


@KINDS
def test_a_conflict_that_cannot_be_looked_into_deletes_nothing(backend: CatalogBackend) -> None:
    flaky = FlakyBackend(backend, ["applied-conflict"], unreachable_loads=1)
    with pytest.raises(CommitStateUnknownException):
        do(flaky, append(2), base=current(backend))
    assert live(current(backend)) == ["1", "2"]


@KINDS
def test_an_interrupt_before_the_swap_takes_the_files_back(backend: CatalogBackend) -> None:
    before = stored(current(backend))

    def interrupted(md: object) -> list[u.Update]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do(backend, append(2), MetadataChange(interrupted))
    assert stored(current(backend)) == before


@KINDS
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_store_that_fails_at_any_write_leaves_the_table_and_its_files_as_they_were(
    backend: CatalogBackend, number: int, base: LoadedTable
) -> None:
    before, step = stored(base), 0
    while True:
        step += 1
        flaky = FlakyStorage(base.storage, fail_at=step, error=number)
        inner = backend.storage if hasattr(backend, "storage") else None
        if inner is not None:
            backend.storage = flaky  # type: ignore[attr-defined]
        try:
            done: CommitOutcome | None = do(backend, append(2), base=replace(base, storage=flaky))
        except (StorageError, CommitStateUnknownException) as e:
            done = None
            assert isinstance(e, StorageError) or inner is not None
        finally:
            if inner is not None:
                backend.storage = inner  # type: ignore[attr-defined]
        if done is not None:
            break
        assert flaky.fired and live(current(backend)) == ["1"] and stored(base) == before, (
            step,
            flaky.fired,
        )
    assert not flaky.fired or "version-hint" in flaky.fired[0][1], (
        "only the hint, written after the commit, may fail unnoticed"
    )
    assert (
        step > 2
        and done is not None
        and live(done.table) == ["1", "2"]
        and nothing_left_over(done.table)
    )


@KINDS
def test_files_that_cannot_be_removed_after_a_success_are_no_failure(
    backend: CatalogBackend, base: LoadedTable
) -> None:
    storage = FlakyStorage(base.storage, fail_at=1, operations=["delete_many"], lasting=True)
    flaky = FlakyBackend(backend, ["conflict"])
    done = do(
        flaky, DeleteFiles(paths=[data_file(1).file_path]), base=replace(base, storage=storage)
    )
    assert storage.fired and live(done.table) == []


@KINDS
def test_a_table_dropped_meanwhile_is_said_to_be_gone(
    backend: CatalogBackend, base: LoadedTable
) -> None:
    flaky = FlakyBackend(backend, before_swap=lambda turn: backend.drop_table(name_in(backend)))
    with pytest.raises(NoSuchTableError):
        do(flaky, append(2), base=base)
    assert not [f for f in stored(base) if "/snap-" in f and "-2-" in f]


@KINDS
def test_a_table_made_again_under_the_same_name_is_left_alone(
    backend: CatalogBackend, base: LoadedTable
) -> None:

    def again(turn: int) -> None:
        if turn == 1:
            backend.drop_table(name_in(backend))
            make_table(backend)

    with pytest.raises(ValidationException, match="Table UUID does not match"):
        do(FlakyBackend(backend, before_swap=again), append(2), base=base)
    assert live(current(backend)) == []


@KINDS
def test_a_metadata_change_that_landed_without_an_answer_is_recognised_by_its_effect(
    backend: CatalogBackend,
) -> None:
    done = do(
        FlakyBackend(backend, ["applied"]), MetadataChange(lambda md: [u.SetProperties({"a": "b"})])
    )
    assert done.table.metadata.properties["a"] == "b"
    with pytest.raises(CommitStateUnknownException):
        do(
            FlakyBackend(backend, ["lost"]),
            MetadataChange(lambda md: [u.SetProperties({"a": "c"})]),
        )
    assert current(backend).metadata.properties["a"] == "b"


@KINDS
def test_a_creation_that_landed_without_an_answer_is_recognised(
    backend: CatalogBackend, tmp_path: Path
) -> None:
    other = backend_of("path", tmp_path / "other") if name_in(backend) == () else backend
    name = () if name_in(backend) == () else ("db", "u")
    staged = other.stage_create(name, new_metadata(SCHEMA))
    done = create(FlakyBackend(other, ["applied"]), staged, [append(5)])
    assert live(done.table) == ["5"] and nothing_left_over(other.load(name))


@KINDS
def test_an_unclear_creation_keeps_every_file(backend: CatalogBackend, tmp_path: Path) -> None:
    other = backend_of("path", tmp_path / "other") if name_in(backend) == () else backend
    name = () if name_in(backend) == () else ("db", "u")
    staged = other.stage_create(name, new_metadata(SCHEMA))
    with pytest.raises(CommitStateUnknownException):
        create(FlakyBackend(other, ["lost"]), staged, [append(5)])
    assert len(list(current(backend).storage.list(f"{staged.metadata.location}/metadata"))) == 2


def test_filtered_and_merged_manifests_are_used_again_by_the_next_attempt(
    memory: CatalogBackend,
) -> None:
    make_table(memory, properties={"commit.manifest.min-count-to-merge": "3"})
    for n in range(1, 3):
        do(memory, append(n, n + 10))
    others = FlakyBackend(
        memory, before_swap=lambda turn: do(memory, append(50 + turn)) if turn < 3 else None
    )
    done = do(others, DeleteFiles(paths=[data_file(1).file_path]), append(9))
    assert (
        done.attempts == 3
        and live(done.table) == ["11", "12", "2", "51", "52", "9"]
        and nothing_left_over(done.table)
    )


def test_a_rewrite_whose_files_went_away_meanwhile_is_refused_and_leaves_nothing(
    memory: CatalogBackend,
) -> None:
    make_table(memory)
    do(memory, append(1, 2))
    other = FlakyBackend(
        memory,
        before_swap=lambda turn: (
            do(memory, DeleteFiles(paths=[data_file(1).file_path])) if turn == 1 else None
        ),
    )
    with pytest.raises(ValidationException, match="Missing required files to delete: /data/f00001"):
        do(other, RewriteFiles(removed=[data_file(1), data_file(2)], added=[data_file(3, rows=20)]))
    after = current(memory)
    assert live(after) == ["2"] and nothing_left_over(after)


def test_an_append_on_an_empty_table_survives_one_that_comes_first(memory: CatalogBackend) -> None:
    base = make_table(memory)
    do(memory, append(1))
    done = do(memory, append(2), base=base)
    assert done.attempts == 2 and live(done.table) == ["1", "2"]


def test_a_retry_in_v3_takes_a_new_range_of_row_ids(memory: CatalogBackend) -> None:
    base = make_table(memory, 3)
    do(memory, append(1))
    done = do(memory, append(2), base=base)
    assert (
        done.snapshot is not None
        and done.snapshot.first_row_id == 10
        and done.table.metadata.next_row_id == 20
    )


def test_a_format_upgrade_that_comes_first_is_written_for(memory: CatalogBackend) -> None:
    base = make_table(memory, 1)
    do(memory, append(1))
    do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)]))
    done = do(memory, append(2), base=base)
    assert (
        done.attempts == 2
        and live(done.table) == ["1", "2"]
        and done.table.metadata.next_row_id == 20
        and nothing_left_over(done.table)
    )


@pytest.mark.parametrize("skew", [-30_000, -600_000])
def test_a_clock_behind_the_last_writers_never_writes_times_that_go_back(
    memory: CatalogBackend, skew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(memory)
    first = do(memory, append(1)).table.metadata
    monkeypatch.setattr("frazil.commit.context.now_millis", lambda: first.last_updated_ms + skew)
    table = memory.load(name_in(memory))
    done = commit(memory, table, [Append([data_file(2)])])
    times = [e.timestamp_ms for e in done.table.metadata.snapshot_log]
    assert (
        times == sorted(times)
        and done.table.metadata.last_updated_ms >= times[-1] >= first.last_updated_ms
    )


def test_a_failed_commit_can_be_tried_again_with_the_same_actions(memory: CatalogBackend) -> None:
    make_table(memory, properties={"commit.retry.num-retries": "0"})
    action = append(1)
    with pytest.raises(CommitFailedException):
        do(FlakyBackend(memory, ["conflict"]), action)
    assert live(do(memory, action).table) == ["1"]


def test_a_v1_table_without_uuid_gets_one_at_its_first_commit(memory: CatalogBackend) -> None:
    base = make_table(memory, 1)
    bare = replace(base.metadata, table_uuid=None)
    updates = [u.AssignUUID("x")]
    assert apply_updates(bare, updates).table_uuid == "x"


def test_overwrites_of_the_same_file_by_two_writers_let_one_win(memory: CatalogBackend) -> None:
    make_table(memory)
    base = do(memory, append(1)).table
    start = base.metadata.current_snapshot_id
    do(
        memory,
        OverwriteFiles(
            removed=[data_file(1)],
            added=[data_file(2)],
            starting_snapshot_id=start,
            isolation="serializable",
        ),
        base=base,
    )
    with pytest.raises(ValidationException):
        do(
            memory,
            OverwriteFiles(
                removed=[data_file(1)],
                added=[data_file(3)],
                starting_snapshot_id=start,
                isolation="serializable",
            ),
            base=base,
        )
    assert live(current(memory)) == ["2"]
