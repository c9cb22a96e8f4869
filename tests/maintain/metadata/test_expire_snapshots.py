"""Expiry of snapshots: which snapshots and files are removed, and that no file is deleted that a
kept snapshot or another table needs.
"""

from __future__ import annotations

import datetime as dt
import errno
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import (
    CommitStateUnknownException,
    InvalidInput,
    NoSuchSnapshotError,
    ValidationException,
)
from frazil.maintain.snapshots import expire_snapshots as procedure
from frazil.maintain.snapshots.expired_files import FileSearch
from frazil.maintain.snapshots.retention import RetentionRequest
from frazil.scan.manifests import clear_caches
from tests.builders.frames import frame_of, ids
from tests.maintain.support import LATER, add, files_of, named_files, numbers, states, table_in

COLUMNS = [
    "deleted_data_files_count", "deleted_position_delete_files_count", "deleted_equality_delete_files_count",
    "deleted_manifest_files_count", "deleted_manifest_lists_count", "deleted_statistics_files_count",
]  # fmt: skip


def overwritten(place: Path, times: int = 3, kind: str = "sql", **more: Any) -> Any:
    """A table whose one file was replaced several times."""
    t = table_in(place, kind, **more)
    for i in range(times):
        t.overwrite(frame_of([(i, "a", i)]))
    return t


@pytest.fixture
def t(tmp_path: Path) -> Any:
    return table_in(tmp_path)


@pytest.mark.parametrize("kind", ["sql", "path", "memory"])
def test_files_that_only_expired_snapshots_reach_are_deleted(tmp_path: Path, kind: str) -> None:
    t = overwritten(tmp_path, 3, kind)
    last = t.current_snapshot().snapshot_id
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert result.to_arrow().column_names == COLUMNS
    assert (result.deleted_data_files_count, result.deleted_manifest_lists_count) == (
        2,
        len(result.snapshot_ids),
    )
    assert list(states(t)) == [last] and ids(t) == [2]
    if kind != "memory":
        assert files_of(t) == named_files(t)


def test_a_dry_run_changes_nothing_and_counts_the_same(tmp_path: Path) -> None:
    t = overwritten(tmp_path)
    before, location = files_of(t), t.metadata_location
    planned = t.maintenance.expire_snapshots(older_than=LATER, dry_run=True)
    assert planned.dry_run and files_of(t) == before and t.refresh().metadata_location == location
    assert numbers(t.maintenance.expire_snapshots(older_than=LATER)) == numbers(planned)


def test_nothing_to_expire_commits_nothing(tmp_path: Path) -> None:
    t = overwritten(tmp_path)
    location = t.metadata_location
    # all snapshots are younger than five days
    result = t.maintenance.expire_snapshots(retain_last=1)
    assert (
        result.snapshot_ids == ()
        and t.refresh().metadata_location == location
        and len(t.snapshots()) >= 3
    )


def test_the_last_snapshots_of_a_branch_are_retained_whatever_their_age(t: Any) -> None:
    made = [add(t, i) for i in range(5)]
    t.maintenance.expire_snapshots(older_than=LATER, retain_last=2)
    assert list(states(t)) == made[-2:] and ids(t) == [0, 1, 2, 3, 4]


def test_table_properties_say_what_is_retained_by_default(tmp_path: Path) -> None:
    properties = {
        "history.expire.max-snapshot-age-ms": "0",
        "history.expire.min-snapshots-to-keep": "3",
    }
    t = table_in(tmp_path, properties=properties)
    made = [add(t, i) for i in range(5)]
    t.maintenance.expire_snapshots().commit()
    assert list(states(t)) == made[-3:]


def test_branches_and_tags_keep_their_snapshots_and_those_that_their_own_retention_says(
    t: Any,
) -> None:
    made = [add(t, i) for i in range(6)]
    with t.manage_snapshots() as ms:
        ms.create_tag(made[0], "first").create_branch(made[3], "audit", min_snapshots_to_keep=2)
    before = states(t)
    t.maintenance.expire_snapshots(older_than=LATER)
    assert list(states(t)) == [made[0], made[2], made[3], made[5]]
    assert states(t) == {i: before[i] for i in states(t)} and files_of(t) == named_files(t)


def test_refs_expire_by_their_own_age_with_their_snapshots_and_marks(t: Any) -> None:
    first = add(t, 1)
    with t.manage_snapshots() as ms:
        ms.create_tag(first, "old", max_ref_age_ms=1).create_branch(
            first, "b", max_ref_age_ms=1
        ).create_tag(first, "kept")
    t.append(frame_of([(2, "a", 0)]), branch="b", txn=("job", 1))
    head = add(t, 3)
    far = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    now_ms = int(far.timestamp() * 1000)
    plan = procedure.plan(
        t.maintenance._table("in-process"),
        RetentionRequest(older_than_ms=now_ms),
        now_ms,
        False,
        FileSearch(t._loaded.storage),
    )
    assert plan.expired.refs == ("old", "b") and set(plan.after.refs) == {"main", "kept"}
    assert [s.snapshot_id for s in plan.after.snapshots] == [first, head]
    assert any("@b" in name for name in plan.before.properties) and not any(
        "@b" in name for name in plan.after.properties
    )


def test_a_snapshot_that_a_ref_names_is_not_expired_by_its_id(t: Any) -> None:
    first, _ = add(t, 1), add(t, 2)
    with t.manage_snapshots() as ms:
        ms.create_tag(first, "v1")
    with pytest.raises(
        ValidationException, match=rf"Cannot expire {first}. Still referenced by refs: \['v1'\]"
    ):
        t.maintenance.expire_snapshots(snapshot_ids=[first])
    with pytest.raises(NoSuchSnapshotError, match="Cannot expire snapshot 5"):
        t.maintenance.expire_snapshots(snapshot_ids=[5])
    assert len(t.refresh().snapshots()) == 2


def test_ids_are_expired_whatever_their_age(t: Any) -> None:
    made = [add(t, i) for i in range(4)]
    result = t.maintenance.expire_snapshots(snapshot_ids=[made[1]])
    assert result.snapshot_ids == (made[1],) and list(states(t)) == [made[0], *made[2:]]


@pytest.mark.parametrize("properties", [{"gc.enabled": "false"}])
def test_tables_that_share_files_are_refused(tmp_path: Path, properties: dict[str, str]) -> None:
    t = overwritten(tmp_path, properties=properties)
    with pytest.raises(
        ValidationException,
        match=r"Cannot expire snapshots: GC is disabled \(deleting files may corrupt other tables\)",
    ):
        t.maintenance.expire_snapshots(older_than=LATER)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retain_last": 0}, "Number of snapshots to retain must be at least 1, cannot be: 0"),
        ({"max_concurrent_deletes": 0}, "max_concurrent_deletes should have value > 0, value: 0"),
        ({"older_than": "yesterday"}, "not a point in time"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    t = overwritten(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        t.maintenance.expire_snapshots(**arguments)


# --- PyIceberg's chain


def test_without_arguments_nothing_expires_before_the_commit(
    t: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = [add(t, i) for i in range(4)]
    chain = t.maintenance.expire_snapshots().by_id(made[0])
    assert len(t.refresh().snapshots()) == 4 and "nothing expired yet" in repr(chain)
    result = chain.by_ids([made[1]]).commit()
    assert result.snapshot_ids == tuple(made[:2]) and list(states(t)) == made[2:]
    assert t.maintenance.expire_snapshots().older_than(
        dt.datetime(2099, 1, 1)
    ).commit().snapshot_ids == (made[2],)
    assert caplog.records == []


def test_a_chain_expires_the_snapshots_by_id_only(tmp_path: Path) -> None:
    t = table_in(tmp_path, properties={"history.expire.max-snapshot-age-ms": "0"})
    made = [add(t, i) for i in range(4)]
    with t.maintenance.expire_snapshots() as chain:
        chain.by_id(made[1])
    assert list(states(t.refresh())) == [made[0], *made[2:]]


def test_a_chain_that_is_dropped_says_that_it_did_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = overwritten(tmp_path)
    with caplog.at_level(logging.WARNING, "frazil"):
        t.maintenance.expire_snapshots()
    assert [r.message[:38] for r in caplog.records] == ["expire_snapshots() without arguments b"]
    with pytest.raises(AttributeError, match="For Java's procedure, call .commit"):
        _ = t.maintenance.expire_snapshots().deleted_data_files_count


# --- files


def test_files_of_every_kind_are_counted_by_kind(t: Any) -> None:
    add(t, *range(10))
    t.delete("id = 1", mode="merge-on-read")
    t.overwrite(frame_of([(100, "b", 0)]))
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert result.to_arrow().to_pylist() == [dict(zip(COLUMNS, (1, 1, 0, 2, 2, 0), strict=True))]
    assert files_of(t) == named_files(t) and ids(t) == [100]


def test_statistics_go_with_their_snapshots(t: Any) -> None:
    first, last = add(t, 1), add(t, 2)
    for snapshot in (first, last):
        path = f"{t.location()}/metadata/{snapshot}.stats"
        with t.io.new_output(path).create() as sink:
            sink.write(b"x")
        with t.update_statistics() as update:
            update.set_statistics(
                {
                    "snapshot-id": snapshot,
                    "statistics-path": path,
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                }
            )
    assert t.maintenance.expire_snapshots(older_than=LATER).deleted_statistics_files_count == 1
    assert [s["snapshot-id"] for s in t.metadata.statistics] == [last] and files_of(
        t
    ) == named_files(t)


def test_a_file_that_was_removed_and_added_again_stays(t: Any) -> None:
    add(t, 1)
    path = t.inspect.files()["file_path"][0].as_py()
    t.delete("id = 1")
    t.add_files([path])
    t.maintenance.expire_snapshots(older_than=LATER)
    assert len(t.snapshots()) == 1 and ids(t) == [1]


@pytest.mark.parametrize(("first", "then"), [("real", "link"), ("link", "real")])
def test_a_file_that_was_added_again_through_a_symbolic_link_stays(
    tmp_path: Path, first: str, then: str
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    t = table_in(tmp_path / first)
    add(t, 1)
    path = t.inspect.files()["file_path"][0].as_py()
    t.delete("id = 1")
    t.add_files([path.replace(f"/{first}/", f"/{then}/")])
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert len(result.snapshot_ids) == 2 and result.deleted_data_files_count == 0 and ids(t) == [1]


def test_a_rollback_leaves_nothing_of_the_snapshots_that_expire_with_it(t: Any) -> None:
    first = add(t, 1)
    add(t, 2)
    t.maintenance.rollback_to_snapshot(first)
    add(t, 3)
    t.maintenance.expire_snapshots(older_than=LATER)
    assert ids(t) == [1, 3] and files_of(t) == named_files(t)


def test_a_staged_snapshot_is_kept_while_it_is_young_and_its_files_go_with_it(t: Any) -> None:
    add(t, 1)
    staged = add(t, 2, branch=None)
    assert t.maintenance.expire_snapshots(retain_last=1).snapshot_ids == ()
    assert staged in t.maintenance.expire_snapshots(older_than=LATER).snapshot_ids
    assert files_of(t) == named_files(t) and ids(t) == [1]


def test_what_an_expired_snapshot_needs_and_nobody_can_read_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = overwritten(tmp_path)
    first = t.snapshots()[0]
    Path(first.manifest_list.removeprefix("file://")).write_bytes(b"no manifest list")
    clear_caches()
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert first.snapshot_id in result.snapshot_ids and ids(t) == [2]
    assert any("cannot be read" in r.message for r in caplog.records)
    assert files_of(t) > named_files(t)


def test_a_kept_snapshot_that_cannot_be_read_stops_the_expiry_before_the_commit(
    tmp_path: Path,
) -> None:
    t = overwritten(tmp_path)
    before = files_of(t)
    Path(t.current_snapshot().manifest_list.removeprefix("file://")).write_bytes(
        b"no manifest list"
    )
    clear_caches()
    with pytest.raises(Exception, match="snap-"):
        t.maintenance.expire_snapshots(older_than=LATER)
    assert files_of(t) == before and len(t.refresh().snapshots()) > 1


def test_expired_metadata_is_cleaned_when_asked_for(t: Any) -> None:
    add(t, 1)
    with t.update_schema() as update:
        update.add_column("w", "int")
    with t.update_spec() as spec:
        spec.add_field("id", "bucket[4]")
    for _ in range(2):
        # the first one still lists a manifest of the old spec, which says what was removed
        t.overwrite(pa.table({"id": [1], "p": ["a"], "v": [1], "w": pa.array([1], pa.int32())}))
    assert len(t.schemas()) == 2 and len(t.specs()) == 2
    planned = t.maintenance.expire_snapshots(
        older_than=LATER, clean_expired_metadata=True, dry_run=True
    )
    assert numbers(
        t.maintenance.expire_snapshots(older_than=LATER, clean_expired_metadata=True)
    ) == numbers(planned)
    assert len(t.schemas()) == 1 and len(t.specs()) == 1 and ids(t) == [1]


def test_a_spec_that_a_kept_snapshot_uses_keeps_the_schema_of_its_dropped_column(t: Any) -> None:
    add(t, 1)
    with t.update_spec() as spec:
        spec.remove_field("p")
    with t.update_schema() as update:
        update.delete_column("p")
    with t.update_schema() as update:
        update.add_column("w", "int")
    t.append(pa.table({"id": [2], "v": [1], "w": pa.array([1], pa.int32())}))
    t.maintenance.expire_snapshots(older_than=LATER, clean_expired_metadata=True)
    assert len(t.specs()) == 2 and ids(t) == [1, 2]
    assert any(
        s.find_field("p", case_sensitive=True)
        for s in t.schemas().values()
        if "p" in s.column_names
    )


# --- marks of streams


def test_the_last_marks_of_javas_streams_stay_as_long_as_they_are_young(t: Any) -> None:
    marks = [
        add(
            t,
            i,
            snapshot_properties={
                "spark.sql.streaming.queryId": q,
                "spark.sql.streaming.epochId": str(i),
            },
        )
        for i, q in enumerate("aab")
    ]
    flink = add(
        t, 7, snapshot_properties={"flink.job-id": "j", "flink.max-committed-checkpoint-id": "9"}
    )
    head = add(t, 8)
    t.maintenance.expire_snapshots(older_than=LATER)
    assert list(states(t)) == [marks[1], marks[2], flink, head]
    with t.update_properties() as update:
        update.set("history.expire.max-snapshot-age-ms", 0)
    t.maintenance.expire_snapshots(older_than=LATER)
    assert list(states(t)) == [head]


def test_marks_of_our_own_writes_are_properties_and_survive(t: Any) -> None:
    t.append(frame_of([(1, "a", 0)]), txn=("job", 7))
    add(t, 2)
    t.maintenance.expire_snapshots(older_than=LATER)
    assert t.append(frame_of([(1, "a", 0)]), txn=("job", 7)).skipped and ids(t) == [1, 2]


# --- beside writers


def test_a_commit_between_plan_and_commit_is_taken_into_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = overwritten(tmp_path)
    other = catalog_table(tmp_path)
    real = procedure._committed

    def late(*arguments: Any) -> Any:
        add(other, 50, p="z")
        with other.manage_snapshots() as ms:
            ms.create_tag(other.snapshots()[0].snapshot_id, "kept")
        return real(*arguments)

    monkeypatch.setattr(procedure, "_committed", late)
    before = states(t)
    result = t.maintenance.expire_snapshots(older_than=LATER)
    kept = states(t.refresh())
    assert other.refresh().refs()["kept"].snapshot_id in kept and result.refs == ()
    assert {i: rows for i, rows in kept.items() if i in before} == {
        i: before[i] for i in kept if i in before
    }
    assert files_of(t) == named_files(t) and 50 in ids(t)


def test_a_commit_between_commit_and_deletion_keeps_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, t: Any
) -> None:
    add(t, 1)
    path = t.inspect.files()["file_path"][0].as_py()
    t.delete("id = 1")
    other = catalog_table(tmp_path)
    real = FileSearch.without_kept
    calls: list[Any] = []

    def late(self: FileSearch, files: Any, now: Any) -> Any:
        calls.append(now)
        if len(calls) == 2:  # the first call belongs to the plan
            other.refresh()
            other.add_files([path])
            now = other.metadata
        return real(self, files, now)

    monkeypatch.setattr(FileSearch, "without_kept", late)
    t.maintenance.expire_snapshots(older_than=LATER)
    assert len(calls) == 2 and ids(t.refresh()) == [1]


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_table_that_shares_its_files_from_now_on_loses_none(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = overwritten(tmp_path)
    before, other = files_of(t), catalog_table(tmp_path)
    name = "_committed" if moment == "before the commit" else "_delete"
    real, real_commit = getattr(procedure, name), procedure.MaintainedTable.begin

    def early(*arguments: Any) -> Any:
        other.refresh().set_properties({"gc.enabled": "false"})
        return real(*arguments)

    def begin(self: Any, *arguments: Any) -> Any:
        operation = real_commit(self, *arguments)
        commit = operation.commit
        operation.commit = lambda: (
            commit(),
            other.refresh().set_properties({"gc.enabled": "false"}),
        )
        return operation

    if moment == "before the commit":
        monkeypatch.setattr(procedure, name, early)
        with pytest.raises(ValidationException, match="GC is disabled"):
            t.maintenance.expire_snapshots(older_than=LATER)
    else:
        monkeypatch.setattr(procedure.MaintainedTable, "begin", begin)
        result = t.maintenance.expire_snapshots(older_than=LATER)
        assert result.snapshot_ids and result.deleted_manifest_lists_count == 0
    assert other.refresh().properties["gc.enabled"] == "false" and before <= files_of(t)


def test_after_an_unknown_outcome_every_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = overwritten(tmp_path)
    before = files_of(t)
    backend = t._backend
    real = backend.swap

    def unclear(*arguments: Any, **more: Any) -> Any:
        real(*arguments, **more)
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(backend, "swap", unclear)
    monkeypatch.setattr("frazil.commit.table_commit.TableCommit.landed", lambda *_: False)
    with pytest.raises(CommitStateUnknownException):
        t.maintenance.expire_snapshots(older_than=LATER)
    assert files_of(t) == before


def test_a_file_that_cannot_be_deleted_is_told_and_the_rest_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = overwritten(tmp_path, 4)
    real = os.unlink

    def unlink(path: str) -> None:
        if path.endswith(".parquet"):
            raise PermissionError(errno.EACCES, "no", path)
        real(path)

    monkeypatch.setattr("frazil.storage.local.os.unlink", unlink)
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert (
        result.deleted_data_files_count == 0
        and result.files_not_deleted == 3
        and result.deleted_manifest_files_count > 0
    )
    assert len([r for r in caplog.records if "Could not delete" in r.message]) == 3 and ids(t) == [
        3
    ]


def test_a_table_that_was_created_again_is_left_alone(tmp_path: Path) -> None:
    t = overwritten(tmp_path)
    catalog = catalog_of_place(tmp_path)
    catalog.drop_table("db.t")
    catalog.create_table("db.t", "id bigint", location=str(tmp_path / "elsewhere"))
    before = files_of(t)
    with pytest.raises(Exception, match="was dropped and created again"):
        t.maintenance.expire_snapshots(older_than=LATER)
    assert files_of(t) == before


def test_a_table_of_one_metadata_file_takes_dry_runs_only(tmp_path: Path) -> None:
    from frazil.table import StaticTable

    t = overwritten(tmp_path)
    static = StaticTable.from_metadata(t.metadata_location)
    assert (
        static.maintenance.expire_snapshots(older_than=LATER, dry_run=True).deleted_data_files_count
        == 2
    )
    with pytest.raises(Exception, match="read-only"):
        static.maintenance.expire_snapshots(older_than=LATER)


def test_no_manifest_is_read_twice_and_shared_ones_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = table_in(tmp_path, properties={"commit.manifest-merge.enabled": "false"})
    for i in range(6):
        add(t, i)
    read: list[str] = []
    from frazil.maintain.snapshots import expired_files

    real = expired_files.read_in_parts
    monkeypatch.setattr(
        expired_files,
        "read_in_parts",
        lambda s, m, *a, **k: (read.append(m.manifest_path), real(s, m, *a, **k))[1],
    )
    result = t.maintenance.expire_snapshots(older_than=LATER)
    # the head lists every manifest of the expired ones
    assert len(result.snapshot_ids) == 5 and read == []
    t.overwrite(frame_of([(9, "b", 9)]))
    t.maintenance.expire_snapshots(older_than=LATER)
    assert len(read) == len(set(read)) > 0


def test_the_result_shows_how_many_snapshots_expired(tmp_path: Path) -> None:
    t = overwritten(tmp_path)
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert "snapshots" in repr(result) and repr(result).startswith("ExpireSnapshotsResult(done: ")
    assert replace(result, seconds=0.0).to_dict()["snapshot_ids"] == result.snapshot_ids


def catalog_of_place(place: Path) -> Any:
    import frazil

    return frazil.load_catalog(
        "test", type="sql", warehouse=str(place / "wh"), uri=f"sqlite:///{place}/catalog.db"
    )


def catalog_table(place: Path) -> Any:
    return catalog_of_place(place).load_table("db.t")
