"""Every action on a table in memory: which files live afterwards, what the manifests and the
summary say.
"""

from __future__ import annotations

from typing import Any

import pytest

from frazil.catalog import CatalogBackend
from frazil.commit.actions import (
    AddStatistics,
    Append,
    DeleteFiles,
    MetadataChange,
    OverwriteFiles,
    ReplacePartitions,
    ReplaceTable,
    RewriteFiles,
    RowDelta,
)
from frazil.commit.new_table import new_metadata
from frazil.commit.table_commit import create
from frazil.errors import (
    NoSuchSnapshotError,
    StorageError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from frazil.expr.nodes import AlwaysTrue, EqualTo, GreaterThanOrEqual, LessThan, Reference
from frazil.spec import updates as u
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import SnapshotRef
from frazil.spec.types import LongType, NestedField
from tests.builders.data_files import data_file, keys, positions, vector
from tests.commit.support import (
    SCHEMA,
    append,
    do,
    entries,
    live,
    make_table,
    name_in,
    nothing_left_over,
)

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
ID, P = Reference("id"), Reference("p")


@pytest.fixture
def bare(memory: CatalogBackend) -> CatalogBackend:
    make_table(memory)
    return memory


@VERSIONS
def test_appends_add_up_and_number_their_entries(memory: CatalogBackend, version: int) -> None:
    make_table(memory, version)
    do(memory, append(1, 2))
    done = do(memory, append(3))
    assert live(done.table) == ["1", "2", "3"] and done.attempts == 1
    assert {e["snapshot_id"] for e in entries(done.table)} == {
        s.snapshot_id for s in done.table.metadata.snapshots
    }
    numbers = {
        int(e["file_path"][-9:-8]): (
            e["sequence_number"],
            e["file_sequence_number"],
            e["first_row_id"],
        )
        for e in entries(done.table)
    }
    rows = (0, 10, 20) if version == 3 else (None,) * 3
    seq = (0, 0, 0) if version == 1 else (1, 1, 2)
    assert [numbers[int(n)] for n in live(done.table)] == [
        (s, s, r) for s, r in zip(seq, rows, strict=True)
    ] or len(numbers) < 3
    assert done.snapshot is not None and done.snapshot.summary["total-data-files"] == "3"
    assert nothing_left_over(done.table)


def test_an_append_without_files_is_a_snapshot_that_can_carry_properties(
    bare: CatalogBackend,
) -> None:
    done = do(bare, Append([], snapshot_properties={"mark": "7"}))
    assert (
        done.snapshot is not None
        and done.snapshot.summary["mark"] == "7"
        and done.snapshot.summary["total-records"] == "0"
    )


def test_the_same_file_twice_in_one_append_is_one_entry(bare: CatalogBackend) -> None:
    done = do(bare, append(1, 1))
    assert (
        live(done.table) == ["1"]
        and done.snapshot is not None
        and done.snapshot.summary["added-data-files"] == "1"
    )


def test_the_environment_and_properties_are_in_the_summary(bare: CatalogBackend) -> None:
    done = do(
        bare,
        Append([data_file(1)], snapshot_properties={"who": "me", "operation": "x"}),
        environment={"engine-name": "spark", "spark.app.id": "a"},
    )
    assert done.snapshot is not None
    assert (
        done.snapshot.summary.items()
        >= {"who": "me", "operation": "append", "engine-name": "spark", "spark.app.id": "a"}.items()
    )


def test_an_append_waits_with_merging_for_the_minimum_count(memory: CatalogBackend) -> None:
    make_table(memory, properties={"commit.manifest.min-count-to-merge": "4"})
    made = []
    for n in range(1, 7):
        done = do(memory, append(n))
        assert done.snapshot is not None
        made.append(
            tuple(
                int(done.snapshot.summary[f"manifests-{k}"])
                for k in ("created", "kept", "replaced")
            )
        )
    assert made == [(1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 0, 3), (1, 1, 0), (1, 2, 0)]
    assert live(done.table) == ["1", "2", "3", "4", "5", "6"] and nothing_left_over(done.table)
    assert {e["status"] for e in entries(done.table)} == {0, 1}


def test_a_merged_table_of_v3_keeps_the_row_ids_of_all_rows(memory: CatalogBackend) -> None:
    make_table(memory, 3, properties={"commit.manifest.min-count-to-merge": "3"})
    before: dict[str, int] = {}
    for n in range(1, 8):
        done = do(memory, append(n, n + 100))
        firsts = {e["file_path"]: e["first_row_id"] for e in entries(done.table)}
        assert {k: firsts[k] for k in before} == before, "row ids of committed rows never change"
        before = firsts
        ranges = sorted((f, f + 10) for f in firsts.values())
        assert all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:], strict=False)) and ranges[-1][
            1
        ] <= (done.table.metadata.next_row_id or 0)


def test_merging_off_or_a_fast_append_keeps_every_manifest(memory: CatalogBackend) -> None:
    make_table(memory, properties={"commit.manifest.min-count-to-merge": "2"})
    do(memory, append(1))
    assert do(memory, Append([data_file(2)], fast=True)).snapshot.summary["manifests-kept"] == "1"  # type: ignore[union-attr]
    do(
        memory,
        MetadataChange(lambda md: [u.SetProperties({"commit.manifest-merge.enabled": "false"})]),
    )
    assert do(memory, append(3)).snapshot.summary["manifests-kept"] == "2"  # type: ignore[union-attr]


def test_large_appends_roll_into_manifests_of_the_target_size(memory: CatalogBackend) -> None:
    make_table(memory, properties={"commit.manifest.target-size-bytes": "8000"})
    done = do(memory, Append([data_file(n, n, n + 5) for n in range(2000)], fast=True))
    manifests = {e["manifest"] for e in entries(done.table)}
    assert len(manifests) > 2 and len(live(done.table)) == 2000


@VERSIONS
def test_files_are_deleted_by_path_and_listed_once_as_deleted(
    memory: CatalogBackend, version: int
) -> None:
    make_table(memory, version)
    do(memory, append(1, 2))
    done = do(memory, DeleteFiles(paths=[data_file(1).file_path]))
    assert (
        live(done.table) == ["2"]
        and done.snapshot is not None
        and done.snapshot.operation == "delete"
    )
    (gone,) = [e for e in entries(done.table) if e["status"] == 2]
    assert gone["snapshot_id"] == done.snapshot.snapshot_id and gone["sequence_number"] == (
        0 if version == 1 else 1
    )
    again = do(memory, append(3))
    assert live(again.table) == ["2", "3"] and all(
        e["status"] != 2 for e in entries(again.table) if short_of(e) == "2"
    )


def short_of(e: dict[str, object]) -> str:
    return str(e["file_path"])[-9:-8]


def test_a_delete_by_filter_takes_whole_files_and_refuses_halves(bare: CatalogBackend) -> None:
    do(bare, Append([data_file(1, 0, 9), data_file(2, 10, 19), data_file(3, 20, 29)]))
    with pytest.raises(
        ValidationException,
        match="Cannot delete file where some, but not all, rows match filter .*f00002",
    ):
        do(bare, DeleteFiles(row_filter=LessThan(ID, 15)))
    done = do(bare, DeleteFiles(row_filter=LessThan(ID, 10)))
    assert live(done.table) == ["2", "3"] and nothing_left_over(done.table)


def test_a_delete_that_matches_nothing_commits_nothing(bare: CatalogBackend) -> None:
    table = do(bare, append(1)).table
    done = do(bare, DeleteFiles(row_filter=LessThan(ID, -5), paths=["/nope"]))
    assert (
        done.snapshot is None
        and done.attempts == 0
        and done.table.metadata_location == table.metadata_location
    )
    with pytest.raises(ValidationException, match="Missing required files to delete: /nope"):
        do(bare, DeleteFiles(paths=["/nope"], must_exist=True))


def test_a_file_listed_twice_is_deleted_twice_and_counted_once(bare: CatalogBackend) -> None:
    do(bare, append(1), append(1))
    done = do(bare, DeleteFiles(paths=[data_file(1).file_path]))
    assert live(done.table) == [] and done.snapshot is not None


def test_an_overwrite_by_filter_replaces_the_files_it_covers(memory: CatalogBackend) -> None:
    make_table(memory, partition_by=["p"])
    do(memory, Append([data_file(1, p="a"), data_file(2, p="b")]))
    done = do(
        memory,
        OverwriteFiles(added=[data_file(3, p="a")], row_filter=EqualTo(P, "a"), check_added=True),
    )
    assert (
        live(done.table) == ["2", "3"]
        and done.snapshot is not None
        and done.snapshot.operation == "overwrite"
    )
    with pytest.raises(
        ValidationException, match="Cannot append file with rows that do not match filter"
    ):
        do(
            memory,
            OverwriteFiles(
                added=[data_file(4, p="b")], row_filter=EqualTo(P, "a"), check_added=True
            ),
        )


@pytest.mark.parametrize(
    ("added", "removed", "operation"),
    [([9], [], "append"), ([], [1], "delete"), ([9], [1], "overwrite")],
)
def test_an_overwrite_names_itself_by_what_it_does(
    bare: CatalogBackend, added: list[int], removed: list[int], operation: str
) -> None:
    do(bare, append(1, 2))
    done = do(
        bare,
        OverwriteFiles(
            added=[data_file(n) for n in added], removed=[data_file(n) for n in removed]
        ),
    )
    assert done.snapshot is not None and done.snapshot.operation == operation


def test_an_overwrite_of_a_file_that_is_gone_is_refused(bare: CatalogBackend) -> None:
    do(bare, append(1))
    with pytest.raises(ValidationException, match="Missing required files to delete"):
        do(bare, OverwriteFiles(added=[data_file(3)], removed=[data_file(2)]))
    assert nothing_left_over(bare.load(name_in(bare)))


def test_a_dynamic_overwrite_empties_the_partitions_of_its_files(memory: CatalogBackend) -> None:
    make_table(memory, partition_by=["p"])
    do(
        memory,
        Append(
            [data_file(1, p="a"), data_file(2, p="b"), data_file(3, p=(None,)), data_file(4, p="c")]
        ),
    )
    done = do(memory, ReplacePartitions([data_file(5, p="b"), data_file(6, p=(None,))]))
    assert live(done.table) == ["1", "4", "5", "6"] and done.snapshot is not None
    assert (
        done.snapshot.summary.items()
        >= {"operation": "overwrite", "replace-partitions": "true"}.items()
    )
    assert do(memory, ReplacePartitions([])).snapshot is None
    with pytest.raises(
        ValidationException, match="Cannot commit file that conflicts with existing partition"
    ):
        do(memory, ReplacePartitions([data_file(7, p="b")], append_only=True))
    assert live(do(memory, ReplacePartitions([data_file(7, p="z")], append_only=True)).table) == [
        "1",
        "4",
        "5",
        "6",
        "7",
    ]


def test_a_dynamic_overwrite_of_an_unpartitioned_table_replaces_all(bare: CatalogBackend) -> None:
    do(bare, append(1, 2))
    assert live(do(bare, ReplacePartitions([data_file(3)])).table) == ["3"]


@VERSIONS
def test_a_rewrite_replaces_files_and_may_keep_their_sequence_number(
    memory: CatalogBackend, version: int
) -> None:
    make_table(memory, version)
    table = do(memory, append(1, 2)).table
    sequence = table.metadata.last_sequence_number
    done = do(
        memory,
        RewriteFiles(
            removed=[data_file(1), data_file(2)],
            added=[data_file(3, rows=20)],
            sequence_number=sequence,
        ),
    )
    (new,) = [e for e in entries(done.table) if e["status"] == 1]
    assert (
        live(done.table) == ["3"]
        and new["sequence_number"] == sequence
        and new["file_sequence_number"] == (0 if version == 1 else 2)
    )
    assert done.snapshot is not None and done.snapshot.operation == "replace"


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (RewriteFiles(added=[data_file(3)]), "cannot be empty"),
        (RewriteFiles(removed=[data_file(9)], added=[data_file(3)]), "Missing required files"),
        (
            RewriteFiles(removed=[data_file(1)], added=[data_file(3, rows=11)]),
            "Invalid REPLACE operation: 11 added records > 10",
        ),
    ],
)
def test_a_rewrite_that_is_none_is_refused(
    bare: CatalogBackend, action: RewriteFiles, words: str
) -> None:
    do(bare, append(1, 2))
    with pytest.raises(ValidationException, match=words):
        do(bare, action)
    assert nothing_left_over(bare.load(name_in(bare)))


def test_branches_have_heads_of_their_own_and_a_new_one_starts_at_main(
    bare: CatalogBackend,
) -> None:
    do(bare, append(1))
    done = do(bare, Append([data_file(2)], branch="b"))
    md = done.table.metadata
    assert live(done.table) == ["1"] and live(done.table, md.ref_snapshot("b")) == ["1", "2"]
    assert md.ref_snapshot("b").summary["total-data-files"] == "2"  # type: ignore[union-attr]
    kept = MetadataChange(
        lambda m: [
            u.SetSnapshotRef("b", SnapshotRef(m.refs["b"].snapshot_id, min_snapshots_to_keep=3))
        ]
    )
    do(bare, kept)
    after = do(bare, Append([data_file(3)], branch="b")).table.metadata
    assert (
        after.refs["b"].min_snapshots_to_keep == 3
        and after.current_snapshot_id == md.current_snapshot_id
    )


def test_a_tag_is_no_target(bare: CatalogBackend) -> None:
    do(bare, append(1))
    do(
        bare,
        MetadataChange(
            lambda md: [u.SetSnapshotRef("v1", SnapshotRef(md.current_snapshot_id or 0, "tag"))]
        ),
    )
    with pytest.raises(ValidationError, match="v1 is a tag, not a branch"):
        do(bare, Append([data_file(2)], branch="v1"))


def test_a_file_of_an_unknown_spec_is_refused(bare: CatalogBackend) -> None:
    with pytest.raises(ValidationError, match="Cannot find partition spec 7"):
        do(bare, append(1, spec_id=7))


def test_old_specs_are_filtered_and_merged_apart_also_when_their_column_is_gone(
    memory: CatalogBackend,
) -> None:
    make_table(memory, partition_by=["p"])
    do(memory, Append([data_file(1, p="a"), data_file(2, p="b")]))
    do(
        memory,
        MetadataChange(
            lambda md: [u.AddPartitionSpec(build_spec(md.schema(), [])), u.SetDefaultSpec()]
        ),
    )
    do(
        memory,
        MetadataChange(
            lambda md: [u.AddSchema(Schema(*md.schema().fields[:1])), u.SetCurrentSchema()]
        ),
    )
    do(memory, Append([data_file(3, spec_id=1)]))
    done = do(memory, DeleteFiles(paths=[data_file(2).file_path]))
    assert live(done.table) == ["1", "3"]
    assert [
        e["partition"]["1000"]
        for e in entries(done.table)
        if e["status"] == 0 and e["spec_id"] == 0
    ] == ["a"]


def test_statistics_are_set_for_snapshots_that_are_there(bare: CatalogBackend) -> None:
    snapshot_id = do(bare, append(1)).table.metadata.current_snapshot_id
    done = do(
        bare,
        AddStatistics(
            [{"snapshot-id": snapshot_id, "statistics-path": "/p"}],
            [{"snapshot-id": snapshot_id, "statistics-path": "/q"}],
        ),
    )
    assert (
        done.table.metadata.statistics[0]["statistics-path"] == "/p"
        and done.table.metadata.partition_statistics[0]["statistics-path"] == "/q"
    )
    with pytest.raises(NoSuchSnapshotError):
        do(bare, AddStatistics([{"snapshot-id": 5, "statistics-path": "/p"}]))


def test_a_change_that_changes_nothing_commits_nothing(memory: CatalogBackend) -> None:
    table = make_table(memory, properties={"a": "b"})
    done = do(
        memory,
        MetadataChange(lambda md: [u.SetProperties({"a": "b"})]),
        MetadataChange(lambda md: []),
    )
    assert done.attempts == 0 and done.table.metadata_location == table.metadata_location


def test_several_actions_are_one_version_of_the_metadata(bare: CatalogBackend) -> None:
    done = do(
        bare,
        append(1),
        MetadataChange(lambda md: [u.SetProperties({"x": "y"})]),
        append(2),
        DeleteFiles(paths=[data_file(1).file_path]),
    )
    md = done.table.metadata
    assert (
        len(md.metadata_log) == 1
        and len(md.snapshots) == 3
        and [e.snapshot_id for e in md.snapshot_log] == [md.current_snapshot_id]
    )
    assert live(done.table) == ["2"] and md.properties["x"] == "y" and nothing_left_over(done.table)
    assert [s.sequence_number for s in md.snapshots] == [
        1,
        2,
        3,
    ] and done.snapshot == md.current_snapshot()


def test_a_transaction_with_one_bad_action_applies_none(bare: CatalogBackend) -> None:
    before = do(bare, append(1)).table
    with pytest.raises(ValidationException):
        do(bare, append(2), DeleteFiles(paths=["/nope"], must_exist=True))
    after = bare.load(name_in(bare))
    assert after.metadata_location == before.metadata_location and nothing_left_over(after)


def test_a_table_is_created_with_its_first_files_in_one_step(memory: CatalogBackend) -> None:
    staged = memory.stage_create(("db", "new"), new_metadata(SCHEMA))
    done = create(memory, staged, [append(1), append(2)])
    assert (
        live(done.table) == ["1", "2"]
        and done.table.metadata.metadata_log == ()
        and done.snapshot is not None
    )
    with pytest.raises(TableAlreadyExistsError):
        create(memory, staged, [append(3)])
    assert nothing_left_over(memory.load(("db", "new")))


@pytest.mark.parametrize("actions", [[], [append(1)]], ids=["empty", "with files"])
def test_a_creation_that_conflicts_with_itself_has_succeeded(
    memory: CatalogBackend, actions: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = memory.create
    made: list[object] = []

    def twice(*arguments: Any, **more: Any) -> Any:
        made.append(real(*arguments, **more))
        return real(*arguments, **more)

    monkeypatch.setattr(memory, "create", twice)
    done = create(memory, memory.stage_create(("db", "new"), new_metadata(SCHEMA)), actions)
    assert len(made) == 1 and live(memory.load(("db", "new"))) == live(done.table) == ["1"] * len(
        actions
    )
    assert len(done.snapshots) == len(actions)


def test_files_of_a_creation_that_conflicts_are_kept_where_the_table_cannot_be_looked_at(
    memory: CatalogBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (memory.stage_create(("db", "new"), new_metadata(SCHEMA)) for _ in range(2))
    create(memory, first, [append(1)])
    kept = {f.location for f in second.storage.list(second.metadata.location)}
    with monkeypatch.context() as blind:
        blind.setattr(memory, "load", failing)
        with pytest.raises(TableAlreadyExistsError):
            create(memory, second, [append(2)])
    assert {f.location for f in second.storage.list(second.metadata.location)} > kept
    kept = {f.location for f in second.storage.list(second.metadata.location)}
    with pytest.raises(TableAlreadyExistsError):
        create(memory, second, [append(3)])
    assert {f.location for f in second.storage.list(second.metadata.location)} == kept


def failing(*_: object) -> Any:
    raise StorageError("The catalog cannot be reached.")


def test_a_table_is_replaced_with_its_new_files_in_one_step(memory: CatalogBackend) -> None:
    make_table(memory, partition_by=["p"])
    old = do(memory, Append([data_file(1, p="a")])).table
    schema = Schema(NestedField(1, "id", LongType(), False))
    done = do(memory, ReplaceTable(schema=schema, properties={"k": "v"}), append(2, spec_id=1))
    md = done.table.metadata
    assert (
        live(done.table) == ["2"]
        and md.table_uuid == old.metadata.table_uuid
        and md.spec().is_unpartitioned
    )
    assert (
        done.snapshot is not None
        and done.snapshot.parent_snapshot_id is None
        and done.snapshot.summary["total-data-files"] == "1"
    )
    assert len(md.snapshots) == 2 and len(md.metadata_log) == len(old.metadata.metadata_log) + 1


def test_staged_snapshots_move_no_branch(memory: CatalogBackend) -> None:
    make_table(memory, properties={"write.wap.enabled": "true"})
    do(memory, append(1))
    done = do(memory, Append([data_file(2)], wap_id="w1"))
    assert (
        live(done.table) == ["1"]
        and done.snapshot is not None
        and done.snapshot.summary["wap.id"] == "w1"
    )
    assert live(done.table, done.snapshot) == ["1", "2"] and len(done.table.metadata.snapshots) == 2
    with pytest.raises(ValidationError, match="Cannot set both WAP ID and branch"):
        do(memory, Append([data_file(3)], wap_id="w2", branch="b"))


def test_a_wap_id_means_nothing_to_a_table_without_wap(bare: CatalogBackend) -> None:
    done = do(bare, Append([data_file(1)], wap_id="w1"))
    assert (
        live(done.table) == ["1"]
        and done.snapshot is not None
        and "wap.id" not in done.snapshot.summary
    )


def test_position_deletes_are_refused_by_version(memory: CatalogBackend) -> None:
    make_table(memory, 1)
    with pytest.raises(ValidationError, match="V2 and above"):
        do(memory, RowDelta(added_deletes=[positions(1)]))
    do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(2)]), append(1))
    with pytest.raises(ValidationError, match="Must not use DVs"):
        do(memory, RowDelta(added_deletes=[vector(1)]))
    done = do(memory, RowDelta(added_deletes=[positions(1)], referenced=["/data/f00001.parquet"]))
    assert (
        done.snapshot is not None
        and done.snapshot.operation == "delete"
        and done.snapshot.summary["total-delete-files"] == "1"
    )
    kept = do(memory, append(2))
    assert {e["content"] for e in entries(kept.table) if e["status"] != 2} == {0, 1}
    do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)]))
    with pytest.raises(ValidationError, match="Must use DVs"):
        do(memory, RowDelta(added_deletes=[positions(1)]))


def test_removing_a_data_file_removes_its_vector_in_the_same_commit(memory: CatalogBackend) -> None:
    make_table(memory, 3)
    do(memory, append(1, 2))
    do(memory, RowDelta(added_deletes=[vector(1)], referenced=[data_file(1).file_path]))
    done = do(memory, OverwriteFiles(removed=[data_file(1)], added=[data_file(3, rows=9)]))
    assert [
        e for e in entries(done.table) if e["content"] == 1 and e["status"] != 2
    ] == [] and done.snapshot is not None
    assert (
        done.snapshot.summary["removed-dvs"] == "1"
        and done.snapshot.summary["total-delete-files"] == "0"
    )


def test_overwriting_everything_takes_the_delete_files_along(bare: CatalogBackend) -> None:
    do(bare, append(1))
    do(bare, RowDelta(added_deletes=[keys(0, 9)]))
    done = do(bare, OverwriteFiles(added=[data_file(2)], row_filter=AlwaysTrue()))
    assert (
        live(done.table) == ["2"]
        and done.snapshot is not None
        and done.snapshot.summary["total-delete-files"] == "0"
    )


def test_upgrading_to_v3_gives_row_ids_to_the_files_that_are_there(memory: CatalogBackend) -> None:
    make_table(memory, 2)
    do(memory, append(1, 2))
    do(memory, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)]))
    done = do(memory, append(3))
    firsts = {short_of(e): e["first_row_id"] for e in entries(done.table)}
    assert (
        sorted(firsts.values()) == [0, 10, 20]
        and done.table.metadata.next_row_id == 30
        and done.snapshot is not None
    )
    assert done.snapshot.first_row_id == 0 and done.snapshot.added_rows == 30


def test_filters_on_ids_prune_whole_manifests_apart_from_the_rest(bare: CatalogBackend) -> None:
    for n in range(5):
        do(bare, append(n, low=n * 10, high=n * 10 + 9))
    done = do(bare, OverwriteFiles(row_filter=GreaterThanOrEqual(ID, 30)))
    assert (
        live(done.table) == ["0", "1", "2"]
        and done.snapshot is not None
        and done.snapshot.summary["manifests-replaced"] == "2"
    )
