"""One operation from its first staged write to its end: commit, nothing to commit, done before,
given up.
"""

from __future__ import annotations

import pytest

from frazil.catalog import LoadedTable
from frazil.commit.done_once import Txn
from frazil.errors import CommitStateUnknownException, InvalidInput, ValidationError
from frazil.ops import metadata_changes, row_changes
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import TableOperation, commit_operations
from frazil.ops.target import WriteArguments
from frazil.tasks.runner import InProcess
from frazil.testing import FlakyBackend
from tests.ops.support import Place, appended


def rows_of(place: Place) -> int:
    head = place.load().metadata.current_snapshot()
    return 0 if head is None else int(head.summary["total-records"])


def test_what_a_block_stages_is_one_commit_at_its_end(place: Place) -> None:
    states: list[LoadedTable] = []
    with place.operation(on_commit=states.append) as operation:
        operation.run(appended(1, 2))
        operation.stage(metadata_changes.set_properties({"k": "v"}))
        assert (
            operation.metadata.properties["k"] == "v"
            and "k" not in place.load().metadata.properties
        )
        operation.run(appended(3))
    metadata = place.load().metadata
    assert (
        rows_of(place) == 3 and metadata.properties["k"] == "v" and len(metadata.metadata_log) == 1
    )
    assert [state.metadata for state in states] == [metadata]
    assert (operation.result.rows_inserted, operation.result.attempts) == (3, 1)


def test_an_operation_without_changes_commits_nothing(place: Place) -> None:
    before = place.load().metadata_location
    with place.operation() as operation:
        pass
    assert (
        place.load().metadata_location,
        operation.result.snapshot_id,
        operation.result.attempts,
    ) == (before, None, 0)


def test_after_an_error_nothing_is_committed_and_the_files_are_removed(place: Place) -> None:
    before, held = place.load().metadata_location, place.files()
    with pytest.raises(ZeroDivisionError), place.operation() as operation:
        operation.run(appended(1))
        assert set(operation.written) <= place.files() and operation.written
        _ = 1 // 0
    assert (place.load().metadata_location, place.files()) == (before, held)


def test_files_stay_where_it_is_not_known_whether_a_commit_was_applied(place: Place) -> None:
    operation = place.operation()
    operation.run(appended(1))
    operation.abandon(CommitStateUnknownException("no answer"))
    assert operation.written and set(operation.written) <= place.files()


def test_an_error_names_the_table(place: Place) -> None:
    with (
        pytest.raises(InvalidInput, match=r"^Table mem\.db\.t: branch is empty"),
        place.operation() as operation,
    ):
        operation.run(appended(1, branch=""))


@pytest.mark.parametrize("end", ["commit", "abandon"])
def test_an_operation_that_has_ended_takes_nothing_more(place: Place, end: str) -> None:
    operation = place.operation()
    operation.commit() if end == "commit" else operation.abandon(ValueError())
    for again in (
        operation.commit,
        lambda: operation.run(appended(1)),
        lambda: operation.stage(metadata_changes.set_location("memory://x")),
    ):
        with pytest.raises(InvalidInput, match="has been committed or has failed already"):
            again()
    assert rows_of(place) == 0


def test_a_table_that_was_opened_from_a_metadata_file_is_not_written(place: Place) -> None:
    held = place.files()
    with (
        pytest.raises(ValidationError, match="is read-only"),
        TableOperation(None, place.load(), "t") as operation,
    ):
        operation.run(appended(1))
    assert place.files() == held


def test_close_tells_whether_there_is_anything_to_commit(place: Place) -> None:
    nothing, something, marked = (
        place.operation(),
        place.operation(),
        place.operation(txn=Txn("app", 1)),
    )
    something.run(appended(1))
    assert (nothing.close(), something.close(), marked.close()) == (False, True, True)
    something.abandon(ValueError())  # has no effect after the end
    assert set(something.written) <= place.files()


def test_a_txn_that_was_committed_writes_nothing_the_second_time(place: Place) -> None:
    with place.operation(txn=Txn("app", 1)) as first:
        first.run(appended(1))
    held = place.files()
    with place.operation(txn=Txn("app", 1)) as again:
        again.run(appended(1))
        assert again.is_done and again.written == []
    assert again.result.skipped and again.result.done_in == first.result.snapshot_id
    assert (rows_of(place), place.files()) == (1, held)


def test_files_of_a_txn_that_another_writer_commits_meanwhile_are_removed(place: Place) -> None:
    late = place.operation(txn=Txn("app", 1))
    late.run(appended(1))
    with place.operation(txn=Txn("app", 1)) as first:
        first.run(appended(1))
    result = late.commit()
    assert result.skipped and result.done_in == first.result.snapshot_id and rows_of(place) == 1
    assert late.written and not set(late.written) & place.files()


def test_a_step_reads_what_was_staged_before_it_and_its_preview_leaves_no_files(
    place: Place,
) -> None:
    with place.operation() as operation:
        operation.run(appended(1, 2, 3))
        step = operation.step(WriteArguments("delete"), IN_PROCESS, InProcess())
        assert step.head is not None and step.head.snapshot_id in step.staged
        operation.add(row_changes.delete(step, "id = 2", None))
    assert rows_of(place) == 2 and operation.result.rows_deleted == 1
    metadata, storage = place.load().metadata, place.load().storage
    lists = {s.manifest_list for s in metadata.snapshots}
    assert {f for f in place.files() if "/snap-" in f} == lists and all(
        storage.exists(path) for path in lists if path
    )


def test_operations_on_several_tables_are_committed_as_one_or_not_at_all(place: Place) -> None:
    flaky = FlakyBackend(place.backend, ["raise"], error=ValidationError("refused"))
    operation, idle = place.operation(), place.operation()
    operation.run(appended(1))
    with pytest.raises(ValidationError, match="refused"):
        commit_operations(flaky, [operation, idle])
    assert flaky.fired == ["raise"] and rows_of(place) == 0

    operation = place.operation()
    operation.run(appended(1))
    commit_operations(place.backend, [operation])
    assert rows_of(place) == 1 and operation.result.rows_inserted == 1
