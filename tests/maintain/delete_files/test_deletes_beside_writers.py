"""Maintenance of delete files beside other writers: whatever they commit meanwhile, no row is lost
and none comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.commit.actions import RewriteFiles
from frazil.commit.table_commit import commit
from frazil.errors import CommitStateUnknownException, ValidationException
from frazil.maintain.position_deletes import convert_equality
from frazil.table.table import Table
from frazil.testing import FlakyBackend, FlakyStorage
from tests.builders.examples import sampled
from tests.builders.files_on_disk import leftovers
from tests.maintain.deletes import (
    append,
    by_keys,
    by_position,
    delete_files,
    filled,
    made,
    rows,
    while_committing,
)

VERSIONS = pytest.mark.parametrize("version", [2, 3])
Other = Callable[[Table], Any]


def compacted(t: Table) -> Callable[[Table], Any]:
    """Read a state of the table now, and commit its rows as one file later, under the sequence
    number of that state.
    """
    t.refresh()
    removed = [task.file for task in t.scan().plan_files()]
    context = WriteContext.of(t.metadata, t._loaded.storage)
    context = context.keeping_lineage() if t.format_version >= 3 else context
    added = write(conform(t.scan().to_arrow(), t.schema()), context)
    head = t.current_snapshot()
    action = RewriteFiles(
        removed=removed,
        added=added,
        starting_snapshot_id=head.snapshot_id,
        sequence_number=head.sequence_number,
    )
    written = [f.file_path for f in added]
    return lambda other: commit(
        other._writable(), other.refresh()._loaded, [action], written=written
    )


def mor(where: str) -> Other:
    return lambda t: t.delete(where, mode="merge-on-read", runner="in-process")


def upsert(t: Table) -> None:
    frame = pa.table(
        {"id": [4, 6, 900], "p": ["a", "b", "a"], "n": pa.array([9, 9, 9], pa.int32())}
    )
    t.upsert(frame, join_cols=["id"], runner="in-process")


def convert(t: Table, **more: Any) -> Any:
    return t.maintenance.convert_equality_deletes(runner="in-process", **more)


def rewrite(t: Table, **more: Any) -> Any:
    return t.maintenance.rewrite_position_delete_files(
        options={"rewrite-all": "true"}, runner="in-process", **more
    )


OTHERS: dict[str, Other] = {
    "append": lambda t: append(t, range(500, 510)),
    "merge-on-read in the same file": mor("id in (6, 7, 48)"),
    "merge-on-read of a whole file": mor("id < 40"),
    "copy-on-write": lambda t: t.delete("id in (6, 7)", mode="copy-on-write", runner="in-process"),
    "a whole table": lambda t: t.delete("true", runner="in-process"),
    "update": lambda t: t.update(
        {"n": "100"}, "id between 6 and 12", mode="merge-on-read", runner="in-process"
    ),
    "upsert": upsert,
    "equality deletes": lambda t: by_keys(t, [6, 50, 90]),
    "compaction": lambda t: compacted(t)(t),
    "rewrite_data_files": lambda t: t.maintenance.rewrite_data_files(
        options={"rewrite-all": True}, runner="in-process"
    ),
    "the same conversion": convert,
    "the same rewrite": rewrite,
    "a rollback": lambda t: (
        t.manage_snapshots().rollback_to_snapshot(t.snapshots()[-2].snapshot_id).commit()
    ),
    "upgrade": lambda t: t.upgrade(3) if t.format_version == 2 else None,
}


def with_deletes(folder: Path, version: int, granularity: str = "file") -> Table:
    t = filled(made(folder, version, write__delete__granularity=granularity), 3)
    by_keys(t, range(0, 120, 6))
    by_position(t, [1, 2, 41], granularity)
    by_position(t, [3, 44, 81], granularity)
    return t


@pytest.mark.parametrize(
    ("procedure", "version", "granularity"),
    [
        (convert, 2, "file"),
        (convert, 2, "partition"),
        (convert, 3, "file"),
        (rewrite, 2, "file"),
        (rewrite, 2, "partition"),
    ],
)
@pytest.mark.parametrize("name", sampled(OTHERS, 2))
def test_another_commit_in_between_neither_loses_nor_revives_a_row(
    procedure: Any, name: str, version: int, granularity: str, tmp_path: Path
) -> None:
    t = with_deletes(tmp_path, version, granularity)
    want: list[Any] = []

    def other(same: Table) -> None:
        OTHERS[name](same)
        want.append(rows(same))

    flaky = while_committing(t, other)
    procedure(t)
    assert flaky.fired and len(want) == 1 and rows(t) == want[0] and not leftovers(t)
    kinds = delete_files(t)
    if procedure is convert and name not in ("equality deletes", "a rollback"):
        assert "equality" not in kinds
    for task in t.scan().plan_files():
        assert sum(d.is_dv for d in task.delete_files) <= 1


@VERSIONS
def test_rows_that_an_older_compaction_moves_stay_deleted(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, version), 3)
    late = compacted(t)  # has read the table before the deletes
    by_keys(t, range(0, 120, 6))
    before = rows(t)
    flaky = while_committing(t, late)
    result = convert(t)
    assert len(flaky.fired) == 2 and rows(t) == before and "equality" not in delete_files(t)
    assert (
        result.deleted_rows_count == 20
        and result.added_delete_files_count == 1
        and not leftovers(t)
    )


@VERSIONS
def test_an_older_compaction_that_comes_later_is_refused(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, version), 3)
    late = compacted(t)
    by_keys(t, range(0, 120, 6))
    before = rows(t)
    convert(t)
    with pytest.raises(
        ValidationException, match="found new position delete for replaced data file"
    ):
        late(t)
    assert rows(t) == before and not leftovers(t)


@VERSIONS
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_rewrite_data_files_carries_over_what_a_conversion_and_a_rewrite_leave(
    version: int, granularity: str, tmp_path: Path
) -> None:
    t = filled(made(tmp_path, version, write__delete__granularity=granularity), 3)
    by_position(t, [2, 42], granularity)
    want: list[Any] = []

    def other(same: Table) -> None:
        by_keys(same, range(0, 120, 6))
        by_position(same, [3, 43, 83], granularity)
        convert(same.refresh())
        rewrite(same.refresh())
        want.append(rows(same))
        assert "equality" not in delete_files(same)

    flaky = while_committing(t, other)
    t.refresh().maintenance.rewrite_data_files(options={"rewrite-all": True}, runner="in-process")
    assert len(flaky.fired) == 2 and rows(t) == want[0] and not leftovers(t)


@VERSIONS
def test_an_older_compaction_of_rows_that_are_all_deleted_is_refused(
    version: int, tmp_path: Path
) -> None:
    t = filled(made(tmp_path, version), 2)
    late = compacted(t)
    by_keys(t, range(40))
    assert convert(t).removed_data_files_count == 1
    with pytest.raises(ValidationException):
        late(t)
    assert len(rows(t)) == 40


def test_what_was_found_is_not_looked_for_again_after_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = filled(made(tmp_path, 3), 4)
    by_keys(t, range(0, 160, 6))
    read: list[str] = []
    inner = convert_equality.read
    monkeypatch.setattr(
        convert_equality,
        "read",
        lambda tasks, context: read.append(tasks[0].file.file_path) or inner(tasks, context),
    )
    flaky = while_committing(t, mor("id = 7"), mor("id = 47"))
    convert(t)
    assert (
        len(flaky.fired) == 3
        and len(read) == len(set(read)) == 4
        and "equality" not in delete_files(t)
    )


def test_after_conflicts_without_end_the_error_is_raised_and_no_file_left(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 3, commit__retry__num_retries="2"), 3)
    by_keys(t, range(0, 120, 6))
    flaky = while_committing(t, *(mor(f"id = {i}") for i in (1, 2, 3, 4, 5)))
    with pytest.raises(ValidationException, match="Found concurrently added DV"):
        convert(t)
    assert len(flaky.fired) == 3 and not leftovers(t.refresh()) and delete_files(t)["equality"] == 1


@VERSIONS
@pytest.mark.parametrize("word", ["applied", "lost", "conflict", "applied-conflict"])
@pytest.mark.parametrize("procedure", [convert, rewrite])
def test_an_unclear_answer_of_the_catalog_loses_nothing(
    procedure: Any, word: str, version: int, tmp_path: Path
) -> None:
    t = with_deletes(tmp_path, version)
    before = rows(t)
    t._backend = FlakyBackend(t._backend, [word])  # type: ignore[arg-type, assignment]
    try:
        procedure(t)
    except CommitStateUnknownException:
        assert word == "lost"
    again = frazil.load_table(t.location())
    assert rows(again) == before
    procedure(again)
    assert rows(again) == before and "equality" not in delete_files(again) or procedure is rewrite


@VERSIONS
@pytest.mark.parametrize("procedure", [convert, rewrite])
def test_a_failing_disk_at_any_file_leaves_the_table_right(
    procedure: Any, version: int, tmp_path: Path
) -> None:
    if procedure is rewrite and version == 3:
        t = filled(made(tmp_path, 2), 3)
        by_position(t, [1, 2, 41], "partition")
        with t.transaction() as change:
            change.upgrade_table_version(3)
    else:
        t = with_deletes(tmp_path, version)
    before = rows(t)
    for at in range(1, 100):
        same = frazil.load_table(t.location())
        flaky = FlakyStorage(same._loaded.storage, fail_at=at)
        same._backend = _Through(same._backend, flaky)  # type: ignore[assignment]
        try:
            procedure(same)
        except Exception:
            assert flaky.fired
        assert rows(frazil.load_table(t.location())) == before
        if not flaky.fired:
            break
        assert not leftovers(frazil.load_table(t.location()))
    assert at > 4 and rows(t) == before and not leftovers(t)


class _Through:
    """A back end whose tables are read and written through another store."""

    def __init__(self, inner: Any, storage: Any):
        self.inner, self.storage = inner, storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def load(self, identifier: Any) -> Any:
        return replace(self.inner.load(identifier), storage=self.storage)
