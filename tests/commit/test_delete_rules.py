"""Rules of delete files in commits: one vector a file, pointless ones go, versions, counters, row
ids, and what is left in the store.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
from frazil.errors import ValidationError, ValidationException
from frazil.expr.nodes import And, EqualTo, GreaterThan, LessThan, Predicate, Reference
from frazil.spec import updates as u
from frazil.spec.manifest import DataFile
from tests.builders.data_files import data_file, keys, positions, vector
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
)

ID, P = Reference("id"), Reference("p")


def deletes(backend: CatalogBackend) -> list[tuple[str, int | None]]:
    """Live delete files: (path, place in it)."""
    table = backend.load(name_in(backend))
    return sorted(
        (e["file_path"], e["content_offset"])
        for e in entries(table)
        if e["content"] != 0 and e["status"] != 2
    )


def summary(backend: CatalogBackend) -> dict[str, str]:
    found = backend.load(name_in(backend)).metadata.current_snapshot()
    assert found is not None
    return dict(found.summary)


# One vector a file
# ----------------------------------------------------------------------------------------------------------------------


def test_a_second_vector_for_a_file_is_refused_unless_it_replaces_the_first(
    memory: CatalogBackend,
) -> None:
    start(memory, data_file(1), data_file(2), version=3)
    head = do(
        memory, RowDelta(added_deletes=[vector(1), vector(2, offset=44)])
    ).table.metadata.current_snapshot_id
    new = vector(1, "/w.puffin", rows=3)
    with pytest.raises(
        ValidationException,
        match=r"Cannot add a deletion vector for /data/f00001.parquet, which has one already: /v.puffin",
    ):
        do(memory, RowDelta(added_deletes=[new], starting_snapshot_id=head))
    assert nothing_left_over(memory.load(name_in(memory)))
    do(
        memory,
        RowDelta(added_deletes=[new], removed_deletes=[vector(1)], starting_snapshot_id=head),
    )
    assert deletes(memory) == [("/v.puffin", 44), ("/w.puffin", 4)]
    found = summary(memory)
    assert (
        found["operation"],
        found["added-dvs"],
        found["removed-dvs"],
        found["added-position-deletes"],
        found["removed-position-deletes"],
    ) == ("delete", "1", "1", "3", "1")
    assert (
        found["total-delete-files"],
        found["total-position-deletes"],
        found["changed-partition-count"],
    ) == ("2", "4", "1")


def test_two_vectors_for_one_file_in_one_commit_are_refused(memory: CatalogBackend) -> None:
    start(memory, data_file(1), version=3)
    with pytest.raises(
        ValidationError, match="two deletion vectors for one data file: /data/f00001"
    ):
        do(memory, RowDelta(added_deletes=[vector(1), vector(1, offset=44)]))


def test_a_vector_takes_the_place_of_position_files_of_its_file_only(
    memory: CatalogBackend,
) -> None:
    start(memory, data_file(1), data_file(2))
    old = [
        positions(1, "/p1.parquet"),
        positions(2, "/p2.parquet", by_bounds=True),
        positions(None, "/both.parquet"),
    ]
    do(memory, RowDelta(added_deletes=old))
    do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)]))
    do(memory, RowDelta(added_deletes=[vector(2)]))
    assert deletes(memory) == [("/both.parquet", None), ("/p1.parquet", None), ("/v.puffin", 4)]
    found = summary(memory)
    assert (
        found["added-dvs"],
        found["removed-position-delete-files"],
        found["total-delete-files"],
    ) == ("1", "1", "3")


def test_a_missing_vector_is_told_from_another_in_the_same_file(memory: CatalogBackend) -> None:
    begun = start(memory, data_file(1), data_file(2), version=3)
    do(memory, RowDelta(added_deletes=[vector(1), vector(2, offset=44)]))
    gone = RowDelta(
        removed_deletes=[vector(1, offset=88)], starting_snapshot_id=begun, check_deleted_files=True
    )
    with pytest.raises(ValidationException, match=r"Missing required files to delete: /v.puffin"):
        do(memory, gone)
    do(memory, replace(gone, removed_deletes=[vector(2, offset=44)]))
    assert deletes(memory) == [("/v.puffin", 4)]


def delete_files_in(table: LoadedTable) -> list[str]:
    return sorted(e["file_path"] for e in entries(table) if e["status"] != 2 and e["content"] != 0)


# Versions
# -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "file", "text"),
    [
        (1, positions(1), "Deletes are supported in V2 and above"),
        (1, keys(0, 1), "Deletes are supported in V2 and above"),
        (2, vector(1), "Must not use DVs for position deletes in V2"),
        (3, positions(1), "Must use DVs for position deletes in V3"),
    ],
)
def test_versions_refuse_what_they_do_not_know(
    memory: CatalogBackend, version: int, file: DataFile, text: str
) -> None:
    start(memory, data_file(1), version=version)
    with pytest.raises(ValidationException, match=text):
        do(memory, RowDelta(added_deletes=[file]))
    if version > 1:
        assert delete_files_in(do(memory, RowDelta(added_deletes=[keys(0, 1)])).table) == [
            "/e.parquet"
        ]


def test_position_deletes_lose_against_an_upgrade_that_came_first(memory: CatalogBackend) -> None:
    start(memory, data_file(1))
    base = memory.load(name_in(memory))
    do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)]))
    with pytest.raises(ValidationException, match="Must use DVs for position deletes in V3"):
        do(memory, RowDelta(added_deletes=[positions(1)]), base=base)
    assert live(memory.load(name_in(memory))) == ["1"]


# Pointless delete files go
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_delete_files_about_a_removed_file_go_with_it(memory: CatalogBackend, version: int) -> None:
    start(memory, data_file(1), data_file(2), version=version)
    mine = (
        [vector(1), vector(2, offset=44)]
        if version == 3
        else [positions(1, "/p1.parquet", by_bounds=True), positions(2, "/p2.parquet")]
    )
    do(memory, RowDelta(added_deletes=[*mine, keys(3, 4)]))
    do(memory, OverwriteFiles(removed=[data_file(1)], added=[data_file(3)]))
    assert deletes(memory) == sorted(
        [(mine[1].file_path, mine[1].content_offset), ("/e.parquet", None)]
    )
    assert (
        summary(memory)["removed-dvs" if version == 3 else "removed-position-delete-files"] == "1"
    )


def test_delete_files_older_than_all_data_go_with_the_next_commit_but_not_a_fast_one(
    memory: CatalogBackend,
) -> None:
    start(memory, data_file(1))
    do(memory, RowDelta(added=[data_file(2)], added_deletes=[positions(None), keys(3, 4)]))
    do(memory, Append([data_file(3)]))
    do(memory, DeleteFiles(files=[data_file(1), data_file(2)], must_exist=True))
    assert deletes(memory) == []
    do(memory, RowDelta(added_deletes=[positions(None, "/q.parquet")]))
    do(
        memory,
        RewriteFiles(
            removed=[data_file(3)],
            added=[data_file(4)],
            starting_snapshot_id=memory.load(name_in(memory)).metadata.current_snapshot_id,
        ),
    )
    assert deletes(memory) == [("/q.parquet", None)]  # as old as the last sequence number then
    do(memory, Append([data_file(5)], fast=True))
    assert deletes(memory) == [("/q.parquet", None)]
    do(memory, Append([data_file(6)]))
    assert (
        deletes(memory) == []
        and summary(memory)["removed-position-delete-files"] == "1"
        and summary(memory)["operation"] == "append"
    )


def test_deletes_that_reach_files_with_an_older_sequence_number_stay(
    memory: CatalogBackend,
) -> None:
    """Compaction that keeps the number it started from, after a stream has deleted more."""
    begun = start(memory, data_file(1))
    do(memory, RowDelta(added_deletes=[keys(3, 4)]))
    do(memory, RowDelta(added_deletes=[keys(5, 6, "/e2.parquet")]))
    do(
        memory,
        RewriteFiles(
            removed=[data_file(1)],
            added=[data_file(2)],
            sequence_number=1,
            starting_snapshot_id=begun,
        ),
    )
    assert [d for d, _ in deletes(memory)] == ["/e.parquet", "/e2.parquet"]


def test_an_overwrite_by_filter_takes_the_deletes_of_its_partitions(memory: CatalogBackend) -> None:
    make_table(memory, 2, ["p"])
    do(memory, Append([data_file(1, p="a"), data_file(2, p="b")]))
    do(
        memory,
        RowDelta(
            added_deletes=[
                positions(None, "/a.parquet", "a"),
                positions(None, "/b.parquet", "b"),
                keys(0, 1, "/ea.parquet", "a"),
            ]
        ),
    )
    do(memory, OverwriteFiles(row_filter=EqualTo(P, "a"), added=[data_file(3, p="a")]))
    assert [d for d, _ in deletes(memory)] == ["/b.parquet"]
    do(memory, ReplacePartitions([data_file(4, p="b")]))
    assert deletes(memory) == []


def test_tidying_alone_makes_no_snapshot(memory: CatalogBackend) -> None:
    start(memory, data_file(1))
    do(memory, RowDelta(added_deletes=[positions(None)]))
    do(
        memory,
        RewriteFiles(
            removed=[data_file(1)],
            added=[data_file(2)],
            starting_snapshot_id=memory.load(name_in(memory)).metadata.current_snapshot_id,
        ),
    )
    do(memory, Append([data_file(3)], fast=True))
    done = do(memory, DeleteFiles(row_filter=LessThan(ID, -5)))
    assert (
        done.snapshot is None
        and done.attempts == 0
        and nothing_left_over(memory.load(name_in(memory)))
    )


# Row deltas
# -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "operation"),
    [
        (RowDelta(added=[data_file(8)]), "append"),
        (RowDelta(added_deletes=[keys(0, 1)]), "delete"),
        (RowDelta(removed=[data_file(1)]), "delete"),
        (RowDelta(added=[data_file(8)], added_deletes=[keys(0, 1)]), "overwrite"),
        (RowDelta(added=[data_file(8)], removed=[data_file(1)]), "overwrite"),
    ],
)
def test_the_operation_says_what_happened(
    memory: CatalogBackend, action: RowDelta, operation: str
) -> None:
    start(memory, data_file(1), data_file(2))
    assert do(memory, action).snapshot.operation == operation  # type: ignore[union-attr]


def test_a_removed_file_must_be_there(memory: CatalogBackend) -> None:
    start(memory, data_file(1), data_file(2))
    with pytest.raises(ValidationException, match="Missing required files to delete: /data/f00007"):
        do(memory, RowDelta(removed=[data_file(7)]))


def test_deletes_of_a_file_that_somebody_deleted_wholly_are_left_out(tmp_path: Path) -> None:
    backend = backend_of("sqlite", tmp_path)
    begun = start(backend, data_file(1), data_file(2), version=3)
    place = backend.load(name_in(backend)).metadata.location
    own, shared = f"{place}/data/own.puffin", f"{place}/data/shared.puffin"
    storage = backend.load(name_in(backend)).storage
    for path in (own, shared):
        storage.write(path, b"x")
    do(backend, DeleteFiles(files=[data_file(1)]))
    paths = {data_file(1).file_path, data_file(2).file_path}
    do(
        backend,
        RowDelta(
            added_deletes=[vector(1, shared), vector(2, shared, 44)],
            referenced=paths,
            starting_snapshot_id=begun,
        ),
    )
    assert deletes(backend) == [(shared, 44)] and storage.exists(shared)
    done = do(
        backend,
        RowDelta(
            added_deletes=[vector(1, own)],
            referenced=[data_file(1).file_path],
            starting_snapshot_id=begun,
        ),
        written=[own],
    )
    assert done.snapshot is None and not storage.exists(own) and deletes(backend) == [(shared, 44)]


def test_row_ids_of_all_kinds_of_commits_never_meet(memory: CatalogBackend) -> None:
    start(memory, data_file(1, rows=10), data_file(2, rows=10), version=2)
    do(memory, RowDelta(added_deletes=[positions(1)]))
    upgraded = do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)])).table.metadata
    assert upgraded.next_row_id == 0
    do(memory, RowDelta(added=[data_file(3, rows=5)], added_deletes=[vector(2)]))
    do(memory, OverwriteFiles(removed=[data_file(1)], added=[data_file(4, rows=9)]))
    do(memory, RowDelta(added_deletes=[vector(3, "/w.puffin")]))
    head = memory.load(name_in(memory)).metadata.current_snapshot_id
    table = do(
        memory,
        RewriteFiles(
            removed=[data_file(3), data_file(4)],
            added=[data_file(5, rows=14)],
            starting_snapshot_id=head,
        ),
    ).table
    md = table.metadata
    spans = sorted(
        (e["first_row_id"], e["first_row_id"] + e["record_count"])
        for e in entries(table)
        if e["content"] == 0 and e["status"] != 2
    )
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)) and spans[-1][1] <= (
        md.next_row_id or 0
    )
    numbered = [s for s in md.snapshots if s.first_row_id is not None]
    assert len(numbered) == 4 and [s.added_rows for s in numbered][2] == 0
    assert all(
        a.first_row_id + a.added_rows == b.first_row_id
        for a, b in zip(numbered, numbered[1:], strict=False)
    )  # type: ignore[operator]


def test_a_transactions_own_snapshots_are_no_conflict_but_those_of_others_are(
    memory: CatalogBackend,
) -> None:
    begun = start(memory, data_file(1, 0, 9))
    base = memory.load(name_in(memory))
    second = OverwriteFiles(
        removed=[data_file(2)],
        added=[data_file(3, 10, 19)],
        isolation="serializable",
        starting_snapshot_id=begun,
        conflict_filter=LessThan(ID, 20),
    )
    do(memory, append(5, low=50, high=59))  # so that the first attempt is lost
    done = do(memory, Append([data_file(2, 10, 19)]), second, base=base)
    assert (
        live(done.table) == ["1", "3", "5"] and done.attempts == 2 and nothing_left_over(done.table)
    )
    base = memory.load(name_in(memory))
    do(memory, append(6, low=11, high=12))
    with pytest.raises(ValidationException, match="f00006"):
        again = replace(
            second, removed=[data_file(7)], starting_snapshot_id=base.metadata.current_snapshot_id
        )
        do(memory, Append([data_file(7, 10, 19)]), again, base=base)


# Conflicts, as fine as can be told
# ------------------------------------------------------------------------------------------------------


def both(a: Predicate, b: Predicate) -> Predicate:
    return And(a, b)


LOW, HIGH = LessThan(ID, 10), GreaterThan(ID, 50)
NEW_DELETES = [
    # what another writer deletes, the rows we relied on, whether that is a conflict
    (2, positions(1), LOW, True), (2, positions(1), HIGH, False), (2, positions(1, by_bounds=True), HIGH, False), (2, positions(None), HIGH, True),
    (3, vector(1), LOW, True), (3, vector(1), HIGH, False), (3, vector(2), HIGH, True),
    (2, keys(60, 70), HIGH, True), (2, keys(60, 70), LOW, False), (2, keys(60, 70, ids=(2,)), LOW, True),
    (3, keys(0, 5), HIGH, False), (2, keys(0, 5), EqualTo(P, "x"), True),
]  # fmt: skip


@pytest.mark.parametrize(("version", "theirs", "where", "conflict"), NEW_DELETES)
def test_new_deletes_conflict_where_they_can_reach_the_rows_relied_on(
    memory: CatalogBackend, version: int, theirs: DataFile, where: Predicate, conflict: bool
) -> None:
    begun = start(memory, data_file(1, 0, 9), data_file(2, 60, 69), version=version)
    other = do(memory, RowDelta(added_deletes=[theirs])).snapshot
    action = RowDelta(
        added=[data_file(9)],
        check_new_deletes=True,
        conflict_filter=where,
        starting_snapshot_id=begun,
        isolation="snapshot",
    )
    if not conflict:
        table = do(memory, action).table
        assert live(table) == ["1", "2", "9"] and delete_files_in(table) == [theirs.file_path]
        return
    with pytest.raises(
        ValidationException,
        match="Found new conflicting delete files that can apply to records matching",
    ) as caught:
        do(memory, action)
    assert (
        other is not None
        and f"snapshot {other.snapshot_id}" in str(caught.value)
        and f"snapshot {begun}" in str(caught.value)
    )
    assert theirs.file_path in str(caught.value)


@pytest.mark.parametrize(("p", "conflict"), [("a", True), ("b", False)])
def test_new_deletes_of_another_partition_are_no_conflict(
    memory: CatalogBackend, p: str, conflict: bool
) -> None:
    begun = start(memory, data_file(1, p="a"), data_file(2, p="b"), partition_by=("p",))
    do(memory, RowDelta(added_deletes=[positions(None, p=p)]))
    action = RowDelta(
        added=[data_file(9, p="a")],
        check_new_deletes=True,
        conflict_filter=both(EqualTo(P, "a"), GreaterThan(ID, 3)),
        starting_snapshot_id=begun,
    )
    if conflict:
        with pytest.raises(ValidationException, match="Found new conflicting delete files"):
            do(memory, action)
    else:
        assert live(do(memory, action).table) == ["1", "2", "9"]


@pytest.mark.parametrize(
    ("theirs", "conflict"),
    [
        (positions(1), True),
        (positions(2), False),
        (positions(None), True),
        (keys(5, 6), True),
        (keys(60, 70), False),
        (keys(60, 70, ids=(2,)), True),
    ],
)
def test_a_rewritten_file_meets_just_the_deletes_that_apply_to_it(
    memory: CatalogBackend, theirs: DataFile, conflict: bool
) -> None:
    begun = start(memory, data_file(1, 0, 9), data_file(2, 60, 69))
    other = do(memory, RowDelta(added_deletes=[theirs])).snapshot
    # as a plan gives it
    bare = replace(
        data_file(1),
        lower_bounds=None,
        upper_bounds=None,
        value_counts=None,
        null_value_counts=None,
    )
    action = OverwriteFiles(
        removed=[bare], added=[data_file(9, 0, 9)], starting_snapshot_id=begun, isolation="snapshot"
    )
    if not conflict:
        assert live(do(memory, action).table) == ["2", "9"]
        return
    with pytest.raises(
        ValidationException,
        match="Cannot commit, found new delete for replaced data file: /data/f00001.parquet",
    ) as caught:
        do(memory, action)
    assert (
        other is not None
        and f"committed by snapshot {other.snapshot_id} after this operation read snapshot {begun}"
        in str(caught.value)
    )


def test_an_unpartitioned_equality_delete_reaches_replaced_partitions(
    memory: CatalogBackend,
) -> None:
    make_table(memory, 2)
    do(memory, MetadataChange(lambda md: [u.AddPartitionSpec(_by_p(md)), u.SetDefaultSpec()]))
    begun = do(memory, Append([data_file(1, p="a", spec_id=1)])).table.metadata.current_snapshot_id
    do(memory, RowDelta(added_deletes=[keys(0, 1)]))
    with pytest.raises(ValidationException, match="Found new conflicting delete files"):
        do(
            memory,
            ReplacePartitions(
                [data_file(2, p="a", spec_id=1)], starting_snapshot_id=begun, isolation="snapshot"
            ),
        )


def _by_p(md: Any) -> Any:
    from frazil.spec.partitioning import build_spec

    return build_spec(md.schema(), ["p"])
