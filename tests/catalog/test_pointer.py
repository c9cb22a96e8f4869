"""The swap of a pointer to a metadata file: what each way to fail means for the outcome and for the
files.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from frazil.catalog import Committed, Conflict, LoadedTable, Outcome, Unknown, metadata_files
from frazil.catalog.base import Unclear
from frazil.catalog.pointer.commit import create_pointed, load_pointed, outcome_of, swap_pointed
from frazil.errors import (
    CommitFailedException,
    InvalidInput,
    NoSuchFileError,
    NoSuchTableError,
    StorageError,
    WaitingForLockException,
)
from frazil.storage.memory import MemoryStorage
from tests.catalog.conftest import changed, new_metadata

Move = Callable[[LoadedTable], bool]
Check = Callable[[tuple[str, ...], str], None]
decode = metadata_files.decode


@dataclass
class Pointer:
    """A catalog's pointer, as a Hive table's parameter is one; `fail` is raised by the next move,
    after it when `late`.
    """

    fail: Exception | None = None
    late: bool = False
    lost_sight: bool = False
    location: str | None = None
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    moves: list[str] = field(default_factory=list)

    def move(self, expected: str | None) -> Callable[[LoadedTable], bool]:
        def to(table: LoadedTable) -> bool:
            assert self.storage.exists(table.metadata_location), (
                "the pointer moves to a file that is there"
            )
            self.moves.append(table.metadata_location)
            if self.fail is not None and not self.late:
                raise self.fail
            if self.location != expected:
                return False
            self.location = table.metadata_location
            if self.fail is not None:
                raise self.fail
            return True

        return to

    def load(self) -> LoadedTable:
        if self.lost_sight:
            raise StorageError("The metastore does not answer.")
        found = load_pointed(lambda: self.location, lambda _: self.storage, "db.t", decode)
        if found is None:
            raise NoSuchTableError("Table does not exist: db.t.")
        return LoadedTable(("db", "t"), *found)

    def create(self, staged: LoadedTable) -> Outcome:
        return outcome_of(create_pointed(staged, self.storage, self.move(None), self.load))

    def swap(self, base: LoadedTable, **properties: str) -> Outcome:
        return self.swap_by(self.move(base.metadata_location), base, **properties)

    def swap_by(
        self, move: Move, base: LoadedTable, check: Check | None = None, **properties: str
    ) -> Outcome:
        metadata = changed(base, **properties)
        return outcome_of(swap_pointed(base, metadata, self.storage, move, self.load, check))

    def files(self, table: LoadedTable) -> set[str]:
        return {i.location for i in self.storage.list(table.metadata.location)}


@pytest.fixture
def pointer() -> Pointer:
    return Pointer()


def staged(pointer: Pointer) -> LoadedTable:
    return LoadedTable(
        ("db", "t"), "", new_metadata(f"memory://pointer/{uuid.uuid4().hex}"), pointer.storage
    )


def created(pointer: Pointer) -> LoadedTable:
    outcome = pointer.create(staged(pointer))
    assert isinstance(outcome, Committed)
    return outcome.table


@pytest.fixture
def base(pointer: Pointer) -> LoadedTable:
    return created(pointer)


def test_a_table_is_created_and_swapped_and_its_log_goes_on(pointer: Pointer) -> None:
    first = created(pointer)
    outcome = pointer.swap(first, a="1")
    assert isinstance(outcome, Committed) and pointer.load() == outcome.table
    assert [e.metadata_file for e in outcome.table.metadata.metadata_log] == [
        first.metadata_location
    ]
    assert pointer.files(first) == {first.metadata_location, outcome.table.metadata_location}


def test_a_pointer_that_has_moved_on_is_a_conflict_and_the_new_file_goes(
    pointer: Pointer, base: LoadedTable
) -> None:
    won = pointer.swap(base, who="one")
    before = pointer.files(base)
    lost = pointer.swap(base, who="two")
    assert (
        isinstance(won, Committed)
        and isinstance(lost, Conflict)
        and base.metadata_location in lost.reason
    )
    assert pointer.load() == won.table and pointer.files(base) == before and len(pointer.moves) == 3
    assert (
        isinstance(pointer.create(replace(base, metadata_location="")), Conflict)
        and pointer.files(base) == before
    )


@pytest.mark.parametrize(
    "error", [CommitFailedException("busy"), WaitingForLockException("held by another")]
)
def test_a_lock_that_others_hold_is_a_conflict_and_the_new_file_goes(
    pointer: Pointer, error: Exception, base: LoadedTable
) -> None:
    pointer.fail = error
    outcome = pointer.swap(base, a="1")
    assert outcome == Conflict(str(error)) and pointer.files(base) == {base.metadata_location}


def test_an_error_that_is_certain_is_raised_and_the_new_file_goes(
    pointer: Pointer, base: LoadedTable
) -> None:
    pointer.fail = StorageError("No permission.")
    with pytest.raises(StorageError, match="No permission"):
        pointer.swap(base, a="1")
    assert pointer.files(base) == {base.metadata_location} and pointer.load() == base


@pytest.mark.parametrize("what", ["create", "swap"])
def test_an_answer_that_was_lost_after_the_move_is_found_out(pointer: Pointer, what: str) -> None:
    base = created(pointer) if what == "swap" else staged(pointer)
    pointer.fail, pointer.late = Unclear("connection reset"), True
    outcome = pointer.swap(base, a="1") if what == "swap" else pointer.create(base)
    assert (
        isinstance(outcome, Committed)
        and outcome.table.metadata_location == pointer.location == pointer.moves[-1]
    )


def test_a_move_whose_answer_was_lost_is_found_in_the_log_of_later_commits(
    pointer: Pointer, base: LoadedTable
) -> None:

    def overtaken(table: LoadedTable) -> bool:
        assert pointer.move(base.metadata_location)(table)
        assert isinstance(pointer.swap(pointer.load(), later="1"), Committed)
        raise Unclear("connection reset")

    outcome = pointer.swap_by(overtaken, base, a="1")
    assert isinstance(outcome, Committed) and outcome.table.metadata_location != pointer.location
    assert pointer.load().metadata.properties == {"a": "1", "later": "1"}


@pytest.mark.parametrize("sight", [True, False])
def test_what_cannot_be_told_is_unknown_and_every_file_stays(
    pointer: Pointer, sight: bool, base: LoadedTable
) -> None:
    pointer.fail, pointer.lost_sight = Unclear("connection reset"), not sight
    outcome = pointer.swap(base, a="1")
    assert isinstance(outcome, Unknown) and outcome.cause is pointer.fail
    assert (
        pointer.files(base) == {base.metadata_location, pointer.moves[-1]}
        and len(pointer.files(base)) == 2
    )


def test_a_location_that_the_catalog_cannot_hold_is_refused_before_anything_is_written(
    pointer: Pointer,
) -> None:
    def refuse(identifier: tuple[str, ...], location: str) -> None:
        raise InvalidInput(f"too long: {location}")

    base = created(pointer)
    with pytest.raises(InvalidInput, match="too long"):
        pointer.swap_by(pointer.move(base.metadata_location), base, refuse, a="1")
    assert pointer.files(base) == {base.metadata_location} and len(pointer.moves) == 1


def test_a_file_that_is_removed_between_two_looks_is_followed_to_the_newer_one(
    pointer: Pointer, base: LoadedTable
) -> None:
    newer = pointer.swap(base, a="1")
    assert isinstance(newer, Committed)
    metadata_files.discard(pointer.storage, base.metadata_location)
    looks = iter([base.metadata_location, newer.table.metadata_location])
    found = load_pointed(lambda: next(looks), lambda _: pointer.storage, "db.t", decode)
    assert found is not None and found[0] == newer.table.metadata_location
    with pytest.raises(NoSuchFileError, match=r"metadata file of table db\.t is missing"):
        load_pointed(lambda: base.metadata_location, lambda _: pointer.storage, "db.t", decode)
