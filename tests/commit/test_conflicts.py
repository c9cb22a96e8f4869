"""Conflicts with commits of other writers since an operation began, by isolation level, partition
and file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import (
    Append,
    DeleteFiles,
    MetadataChange,
    OverwriteFiles,
    ReplacePartitions,
    RewriteFiles,
    RowDelta,
)
from frazil.errors import InvalidInput, NoSuchFileError, ValidationException
from frazil.expr.nodes import AlwaysTrue, EqualTo, GreaterThan, LessThan, Reference
from frazil.scan.manifests import clear_caches
from frazil.spec import updates as u
from tests.builders.data_files import data_file, keys, vector
from tests.commit.support import (
    append,
    backend_of,
    do,
    entries,
    live,
    make_table,
    name_in,
    nothing_left_over,
    start,
    stored,
)

ID, P = Reference("id"), Reference("p")
LEVELS = pytest.mark.parametrize("level", ["serializable", "snapshot", None])


def vectors_of(table: LoadedTable) -> list[tuple[str, str]]:
    """Data files that have a deletion vector, with the file it lies in."""
    return sorted(
        (e["referenced_data_file"], e["file_path"])
        for e in entries(table)
        if e["status"] != 2 and e["content"] == 1
    )


@pytest.fixture
def begun(memory: CatalogBackend) -> int:
    return start(memory, data_file(1, 0, 9))


@LEVELS
def test_an_overwrite_by_filter_meets_a_matching_append(
    memory: CatalogBackend, level: str | None, begun: int
) -> None:
    do(memory, Append([data_file(2, 5, 6)]))
    action = OverwriteFiles(
        row_filter=LessThan(ID, 10),
        added=[data_file(3, 0, 9)],
        starting_snapshot_id=begun,
        isolation=level,
    )
    if level == "serializable":
        with pytest.raises(
            ValidationException,
            match=r"Found conflicting files that can contain records matching .*: \[/data/f00002.parquet\]",
        ):
            do(memory, action)
        assert live(memory.load(name_in(memory))) == ["1", "2"] and nothing_left_over(
            memory.load(name_in(memory))
        )
    else:
        assert live(do(memory, action).table) == ["3"]


@LEVELS
def test_an_append_that_cannot_match_is_no_conflict(
    memory: CatalogBackend, level: str | None, begun: int
) -> None:
    do(memory, Append([data_file(2, 50, 60)]))
    action = OverwriteFiles(
        row_filter=LessThan(ID, 10),
        added=[data_file(3, 0, 9)],
        starting_snapshot_id=begun,
        isolation=level,
    )
    assert live(do(memory, action).table) == ["2", "3"]


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_an_overwrite_by_filter_meets_a_delete_of_matching_files(
    memory: CatalogBackend, level: str
) -> None:
    begun = start(memory, data_file(1, 0, 9), data_file(2, 0, 9))
    do(memory, DeleteFiles(paths=[data_file(2).file_path]))
    with pytest.raises(
        ValidationException,
        match="Found conflicting deleted files that can contain records matching",
    ):
        do(
            memory,
            OverwriteFiles(
                row_filter=LessThan(ID, 10),
                added=[data_file(3)],
                starting_snapshot_id=begun,
                isolation=level,
            ),
        )
    fine = OverwriteFiles(
        row_filter=LessThan(ID, 10),
        conflict_filter=GreaterThan(ID, 100),
        added=[data_file(3)],
        starting_snapshot_id=begun,
        isolation=level,
    )
    assert live(do(memory, fine).table) == ["3"]


@pytest.mark.parametrize(("level", "conflict"), [("serializable", True), ("snapshot", False)])
def test_copy_on_write_of_named_files_looks_at_its_scan_filter(
    memory: CatalogBackend, level: str, conflict: bool, begun: int
) -> None:
    do(memory, Append([data_file(2, 20, 29)]))
    narrow = OverwriteFiles(
        removed=[data_file(1)],
        added=[data_file(3, rows=9)],
        starting_snapshot_id=begun,
        isolation=level,
        conflict_filter=LessThan(ID, 10),
    )
    wide = replace(narrow, conflict_filter=GreaterThan(ID, 5))
    if conflict:
        with pytest.raises(ValidationException, match="Found conflicting files"):
            do(memory, wide)
        assert live(memory.load(name_in(memory))) == ["1", "2"]
    assert live(do(memory, narrow if conflict else wide).table) == ["2", "3"]


def test_compaction_between_is_no_conflict_but_takes_the_named_files(
    memory: CatalogBackend,
) -> None:
    begun = start(memory, data_file(1), data_file(2))
    do(memory, RewriteFiles(removed=[data_file(1), data_file(2)], added=[data_file(3, rows=20)]))
    with pytest.raises(ValidationException, match="missing data files: .*committed by snapshot"):
        do(
            memory,
            OverwriteFiles(
                removed=[data_file(1)],
                added=[data_file(4)],
                starting_snapshot_id=begun,
                isolation="serializable",
            ),
        )


@LEVELS
@pytest.mark.parametrize("meanwhile", ["same", "other", "delete", "none"])
def test_replace_partitions_conflicts_only_within_its_partitions(
    memory: CatalogBackend, level: str | None, meanwhile: str
) -> None:
    begun = start(memory, data_file(1, p="a"), data_file(2, p="b"), partition_by=("p",))
    match meanwhile:
        case "same":
            do(memory, append(5, p="a"))
        case "other":
            do(memory, append(5, p="b"))
        case "delete":
            do(memory, DeleteFiles(paths=[data_file(1).file_path]))
    before = live(memory.load(name_in(memory)))
    action = ReplacePartitions([data_file(3, p="a")], starting_snapshot_id=begun, isolation=level)
    refused = (meanwhile == "same" and level == "serializable") or (
        meanwhile == "delete" and level is not None
    )
    if refused:
        with pytest.raises(ValidationException, match=r"Found conflicting (deleted )?files .*p=a"):
            do(memory, action)
        assert live(memory.load(name_in(memory))) == before
    else:
        assert live(do(memory, action).table) == [
            "2",
            "3",
            *(["5"] if meanwhile == "other" else []),
        ]


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize("meanwhile", ["append", "delete", "none"])
def test_replacing_an_unpartitioned_table_meets_any_change(
    memory: CatalogBackend, level: str, meanwhile: str
) -> None:
    begun = start(memory, data_file(1))
    match meanwhile:
        case "append":
            do(memory, append(2))
        case "delete":
            do(memory, DeleteFiles(paths=[data_file(1).file_path]))
    before = live(memory.load(name_in(memory)))
    action = ReplacePartitions([data_file(3)], starting_snapshot_id=begun, isolation=level)
    if meanwhile == "delete" or (meanwhile, level) == ("append", "serializable"):
        with pytest.raises(ValidationException, match=r"Found conflicting (deleted )?files"):
            do(memory, action)
        assert live(memory.load(name_in(memory))) == before
    else:
        assert live(do(memory, action).table) == ["3"]


def test_null_partitions_are_partitions(memory: CatalogBackend) -> None:
    begun = start(memory, data_file(1, p=(None,)), data_file(2, p="b"), partition_by=("p",))
    do(memory, append(5, p=(None,)))
    with pytest.raises(ValidationException, match="p=None"):
        do(
            memory,
            ReplacePartitions(
                [data_file(3, p=(None,))], starting_snapshot_id=begun, isolation="serializable"
            ),
        )


def test_a_writer_that_began_on_an_empty_table_still_looks_at_all_that_came(
    memory: CatalogBackend,
) -> None:
    make_table(memory)
    do(memory, append(1))
    with pytest.raises(ValidationException, match="Found conflicting files"):
        do(
            memory,
            OverwriteFiles(
                row_filter=AlwaysTrue(),
                added=[data_file(2)],
                starting_snapshot_id=None,
                isolation="serializable",
            ),
        )


def test_a_start_that_expired_is_no_silent_pass(memory: CatalogBackend) -> None:
    begun = start(memory, data_file(1))
    do(memory, append(2))
    do(memory, append(3))
    do(memory, MetadataChange(lambda md: [u.RemoveSnapshots(tuple(md.snapshots.ids[:-1]))]))
    with pytest.raises(
        ValidationException, match=f"Cannot determine history between starting snapshot {begun}"
    ):
        do(
            memory,
            OverwriteFiles(
                row_filter=LessThan(ID, 0),
                added=[data_file(4)],
                starting_snapshot_id=begun,
                isolation="serializable",
            ),
        )


@pytest.mark.parametrize("kind", ["memory", "sqlite", "path"])
def test_a_commit_begins_again_where_the_state_that_it_knows_has_expired(
    tmp_path: Path, kind: str
) -> None:
    backend = backend_of(kind, tmp_path)
    make_table(backend)
    do(backend, append(1))
    known = do(backend, append(2)).table
    do(backend, append(3))
    do(backend, MetadataChange(lambda md: [u.RemoveSnapshots(tuple(md.snapshots.ids[:-1]))]))
    for expired in known.metadata.snapshots:
        known.storage.delete(str(expired.manifest_list))
    clear_caches()
    done = do(backend, append(4), base=known)
    assert (
        done.attempts == 2
        and live(done.table) == ["1", "2", "3", "4"]
        and nothing_left_over(done.table)
    )


def test_a_file_that_the_newest_state_lacks_is_an_error_at_once(memory: CatalogBackend) -> None:
    start(memory, data_file(1))
    table = memory.load(name_in(memory))
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None and snapshot.manifest_list is not None
    table.storage.delete(snapshot.manifest_list)
    clear_caches()
    before = stored(table)
    with pytest.raises(NoSuchFileError, match="There is no file"):
        do(memory, append(2))
    assert stored(table) == before


def test_a_delete_that_found_nothing_when_planned_is_validated_all_the_same(
    memory: CatalogBackend, begun: int
) -> None:
    do(memory, append(2, low=50, high=59))
    with pytest.raises(ValidationException, match="Found conflicting files"):
        do(
            memory,
            OverwriteFiles(
                row_filter=GreaterThan(ID, 40), starting_snapshot_id=begun, isolation="serializable"
            ),
        )


def test_an_isolation_level_that_iceberg_lacks_is_refused(memory: CatalogBackend) -> None:
    begun = start(memory, data_file(1))
    with pytest.raises(InvalidInput, match="Invalid isolation level"):
        do(
            memory,
            OverwriteFiles(row_filter=AlwaysTrue(), starting_snapshot_id=begun, isolation="strict"),
        )


@pytest.mark.parametrize("keeps", [True, False])
def test_a_rewrite_meets_new_deletes_for_its_files(memory: CatalogBackend, keeps: bool) -> None:
    begun = start(memory, data_file(1), data_file(2), version=3)
    do(memory, RowDelta(added_deletes=[vector(2)]))
    sequence = 1 if keeps else None
    with pytest.raises(
        ValidationException,
        match="Cannot commit, found new (position )?delete for replaced data file: /data/f00002",
    ):
        do(
            memory,
            RewriteFiles(
                removed=[data_file(2)],
                added=[data_file(3)],
                starting_snapshot_id=begun,
                sequence_number=sequence,
            ),
        )
    assert live(
        do(
            memory,
            RewriteFiles(removed=[data_file(1)], added=[data_file(3)], starting_snapshot_id=begun),
        ).table
    ) == ["2", "3"]


def test_equality_deletes_do_not_stop_a_rewrite_that_keeps_its_sequence_number(
    memory: CatalogBackend,
) -> None:
    begun = start(memory, data_file(1))
    do(memory, RowDelta(added_deletes=[keys(0, 9)]))
    with pytest.raises(ValidationException, match="found new delete for replaced data file"):
        do(
            memory,
            RewriteFiles(removed=[data_file(1)], added=[data_file(3)], starting_snapshot_id=begun),
        )
    assert live(
        do(
            memory,
            RewriteFiles(
                removed=[data_file(1)],
                added=[data_file(3)],
                starting_snapshot_id=begun,
                sequence_number=1,
            ),
        ).table
    ) == ["3"]


def test_two_vectors_for_one_file_let_the_second_conflict(memory: CatalogBackend) -> None:
    begun = start(memory, data_file(1), data_file(2), version=3)
    do(memory, RowDelta(added_deletes=[vector(1)], starting_snapshot_id=begun))
    with pytest.raises(ValidationException, match="Found concurrently added DV for /data/f00001"):
        do(memory, RowDelta(added_deletes=[vector(1, "/w.puffin")], starting_snapshot_id=begun))
    table = do(
        memory, RowDelta(added_deletes=[vector(2, "/w.puffin")], starting_snapshot_id=begun)
    ).table
    assert vectors_of(table) == [
        ("/data/f00001.parquet", "/v.puffin"),
        ("/data/f00002.parquet", "/w.puffin"),
    ]


@pytest.mark.parametrize(
    ("meanwhile", "checked", "refused"),
    [("delete", False, False), ("delete", True, True), ("overwrite", False, True)],
)
def test_a_row_delta_needs_the_files_it_names(
    memory: CatalogBackend, meanwhile: str, checked: bool, refused: bool
) -> None:
    begun = start(memory, data_file(1), data_file(2), version=3)
    gone = [data_file(1)]
    do(
        memory,
        DeleteFiles(files=gone)
        if meanwhile == "delete"
        else OverwriteFiles(removed=gone, added=[data_file(8)]),
    )
    action = RowDelta(
        added_deletes=[vector(1)],
        referenced=[data_file(1).file_path],
        starting_snapshot_id=begun,
        check_deleted_files=checked,
    )
    if refused:
        with pytest.raises(
            ValidationException,
            match=r"Cannot commit, missing data files: \[/data/f00001.parquet\]",
        ):
            do(memory, action)
    else:
        table = do(memory, action).table
        assert live(table) == ["2"] and vectors_of(table) == [], (
            "deletes for a file that is gone are left out"
        )


def test_a_row_delta_cannot_remove_what_it_deletes_rows_of_nor_start_elsewhere(
    memory: CatalogBackend,
) -> None:
    start(memory, data_file(1), version=3)
    path = data_file(1).file_path
    with pytest.raises(ValidationException, match="that are referenced by new delete files"):
        do(memory, RowDelta(added_deletes=[vector(1)], removed=[data_file(1)], referenced=[path]))
    with pytest.raises(ValidationException, match="Snapshot 77 is not an ancestor of"):
        do(memory, RowDelta(added_deletes=[vector(1)], referenced=[path], starting_snapshot_id=77))


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "delete", "replace"]), st.sampled_from("abc"), st.booleans()
        ),
        min_size=1,
        max_size=8,
    )
)
def test_serializable_dynamic_overwrites_conflict_exactly_when_their_partition_changed(
    tmp_path: Path, steps: list[tuple[str, str, bool]]
) -> None:
    """A model: partitions hold sets of files; a writer starts at the beginning or at the current
    state.
    """
    backend = backend_of("memory", tmp_path)
    first = {p: {n} for n, p in enumerate("abc")}
    begun = start(backend, *(data_file(n, p=p) for n, p in enumerate("abc")), partition_by=("p",))
    model, changed, n = {p: set(f) for p, f in first.items()}, set[str](), 10
    for kind, p, fresh in steps:
        n += 1
        head = backend.load(name_in(backend)).metadata.current_snapshot_id
        if kind == "append":
            do(backend, append(n, p=p))
            model[p].add(n)
            changed.add(p)
        elif kind == "delete" and model[p]:
            do(backend, DeleteFiles(row_filter=EqualTo(P, p)))
            model[p], _ = set(), changed.add(p)
        elif kind == "replace":
            action = ReplacePartitions(
                [data_file(n, p=p)],
                starting_snapshot_id=head if fresh else begun,
                isolation="serializable",
            )
            if not fresh and p in changed:
                with pytest.raises(ValidationException):
                    do(backend, action)
            else:
                do(backend, action)
                model[p], _ = {n}, changed.add(p)
    table = backend.load(name_in(backend))
    assert live(table) == sorted(
        str(f) for files in model.values() for f in files
    ) and nothing_left_over(table)
