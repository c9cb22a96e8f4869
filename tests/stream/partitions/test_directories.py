"""Plain folders of Parquet files: every batch is published once, whatever dies in between, and
partitions are committed as in tables.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from frazil.errors import CorruptData, InvalidInput, SchemaMismatch, Unsupported
from frazil.storage.local import LocalStorage
from frazil.stream.partitions.directories import announce, folder, merge_files, publish
from frazil.stream.partitions.extractor import UnparsablePartition
from frazil.stream.partitions.options import partition_commit_options
from frazil.stream.partitions.zones import zone_of
from tests.stream.partitions.support import DELAY, KIND, TRIGGER, Clock, Killed, ms

JAN1 = ms("2026-01-01")
BY_TIME = {KIND: "success-file", TRIGGER: "partition-time"}


@dataclass
class FileStream:
    """A query that writes batches into a folder; files are staged by pyarrow in place of Spark."""

    path: Any
    options: dict[str, Any] = field(default_factory=dict)
    policies: tuple[Any, ...] = ()
    query_id: str = "q-1"
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.folder = folder.folder_at(self.path, ("dt",))
        self.chosen = partition_commit_options(self.options, self.policies)
        self.commit = announce.FolderCommit(self.folder, self.chosen, self.clock)
        self.commit.check()

    def batch(
        self,
        number: int,
        rows: dict[str, Any] | None,
        watermark: int | None = None,
        last: bool = False,
    ) -> Any:
        if rows is not None and not publish.is_published(self.folder, self.query_id, number):
            staging = publish.staging_of(self.folder, self.query_id, number)
            stage(rows, staging)
            publish.publish(
                self.folder,
                publish.StagedBatch(self.query_id, number, staging, watermark),
                self.chosen,
                self.clock,
            )
        newest = self.commit.newest_batches().get(self.query_id)
        return self.commit.commit_due(
            watermark, announce.LastBatch(self.query_id, newest) if last else None
        )

    def again(self, **changed: Any) -> FileStream:
        given = {k: getattr(self, k) for k in ("path", "options", "policies", "query_id", "clock")}
        return FileStream(**{**given, **changed})

    @property
    def pending(self) -> set[str | None]:
        return {p.values[0] for p in folder.read_state(self.folder).partitions.pending}

    @property
    def ids(self) -> list[int]:
        """The ids that a reader of the folder sees."""
        found = ds.dataset(str(self.path), format="parquet", partitioning="hive")
        return sorted(found.to_table()["id"].to_pylist()) if "id" in found.schema.names else []

    def times(self, value: str | None) -> int:
        found = folder.done_mark(self.folder, folder.Partition(0, (value,)))
        return 0 if found is None else found.times


def stage(rows: dict[str, Any], staging: str) -> None:
    """Write as Spark does: a folder for each value, and a success file that is no data."""
    for n, value in enumerate(dict.fromkeys(rows["dt"])):
        place = Path(staging) / f"dt={folder.HIVE_NULL if value is None else folder.escaped(value)}"
        place.mkdir(parents=True)
        mine = [i for i, v in enumerate(rows["dt"]) if v == value]
        table = pa.table({k: [v[i] for i in mine] for k, v in rows.items() if k != "dt"})
        pq.write_table(table, place / f"part-{n:05d}-abc.c000.snappy.parquet")
    Path(staging).mkdir(parents=True, exist_ok=True)
    (Path(staging) / "_SUCCESS").write_text("")


def rows(ids, dt):
    return {
        "id": list(ids),
        "dt": [dt] * len(list(ids)) if dt is None or isinstance(dt, str) else list(dt),
    }


def files(path):
    return sorted(
        str(p.relative_to(path)) for p in Path(path).rglob("*.parquet") if "_frazil" not in p.parts
    )


@pytest.fixture
def s(tmp_path):
    return FileStream(tmp_path)


def test_a_batch_is_published_under_names_that_carry_query_and_batch(tmp_path, s):
    s.batch(7, rows([1, 2], ["a", "b"]))
    assert files(tmp_path) == [
        "dt=a/part-00000-q-1-7.c000.snappy.parquet",
        "dt=b/part-00001-q-1-7.c000.snappy.parquet",
    ]
    assert s.ids == [1, 2] and os.listdir(tmp_path / "_frazil" / "staging") == [] == os.listdir(
        tmp_path / "_frazil" / "batches"
    )


def test_a_replay_writes_nothing_and_another_query_or_batch_does(s):
    s.batch(0, rows([1], "a"))
    s.again().batch(0, rows([1], "a"))
    assert s.ids == [1]
    staging = publish.staging_of(s.folder, "q-1", 0)
    stage(rows([1], "a"), staging)
    assert publish.publish(
        s.folder, publish.StagedBatch("q-1", 0, staging), s.chosen, s.clock
    ) is False and not os.path.exists(staging)
    s.batch(1, rows([2], "a"))
    s.again(query_id="q-2").batch(0, rows([3], "a"))
    assert s.ids == [1, 2, 3]


def test_an_empty_batch_leaves_nothing(tmp_path, s):
    s.batch(0, rows([], []))
    assert files(tmp_path) == [] and os.listdir(tmp_path / "_frazil" / "staging") == []


STEPS = ("intent", "rename-1", "rename-2", "renames", "state", "removal")


def die_at(step, monkeypatch):
    """Let the process die before a step of a publication; answers with the list of what fired."""
    fired, renames = [], []

    def dies(name):
        fired.append(name)
        raise Killed(name)

    real_rename, real_write, real_state, real_delete = (
        publish._rename,
        LocalStorage.write,
        publish.write_state,
        LocalStorage.delete,
    )

    def rename(staged, final):
        renames.append(final)
        if step == f"rename-{len(renames)}":
            dies(step)
        return real_rename(staged, final)

    def write(self, location, data, overwrite=False, **more):
        if step == "intent" and "/batches/" in location:
            dies(step)
        return real_write(self, location, data, overwrite, **more)

    def state(*arguments):
        if step == "renames":
            dies(step)
        real_state(*arguments)
        if step == "state":
            dies(step)

    def delete(self, location):
        if step == "removal" and "/batches/" in location:
            dies(step)
        return real_delete(self, location)

    monkeypatch.setattr(publish, "_rename", rename)
    monkeypatch.setattr(publish, "write_state", state)
    monkeypatch.setattr(LocalStorage, "write", write)
    monkeypatch.setattr(LocalStorage, "delete", delete)
    return fired


@pytest.mark.parametrize("who", ["replay", "other query"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_of_a_publication_ends_with_every_row_once(
    tmp_path, monkeypatch, step, who
):
    s = FileStream(tmp_path, {KIND: "success-file", TRIGGER: "idle", DELAY: "1 h"})
    s.batch(0, rows([0], "a"))
    fired = die_at(step, monkeypatch)
    with pytest.raises(Killed):
        s.batch(1, rows([1, 2, 3], ["a", "b", "c"]))
    assert fired == [step]
    assert max(Counter(s.ids).values()) == 1  # at no moment is a row there twice
    monkeypatch.undo()
    if who == "other query":
        s.again(query_id="q-2").batch(0, rows([9], "a"))
    s = s.again()
    s.batch(1, rows([1, 2, 3], ["a", "b", "c"]))
    assert s.ids == [0, 1, 2, 3] + [9] * (who == "other query")
    assert s.pending == {"a", "b", "c"}
    state = folder.read_state(s.folder).partitions
    assert (
        state.pending[(0, ("a",))].commits == 2 + (who == "other query")
        and state.pending[(0, ("b",))].commits == 1
    )
    assert (
        os.listdir(tmp_path / "_frazil" / "staging")
        == []
        == os.listdir(tmp_path / "_frazil" / "batches")
    )


def test_what_a_killed_attempt_was_writing_is_removed_with_the_next_batch(s):
    torn = Path(publish.staging_of(s.folder, "q-1", 0)) / "dt=a"
    torn.mkdir(parents=True)
    (torn / "part-0.parquet").write_bytes(b"half a fi")
    other = Path(publish.staging_of(s.folder, "q-12", 0))
    other.mkdir(parents=True)
    s.batch(0, rows([1], "a"))
    assert not torn.exists() and other.exists() and s.ids == [1]


def test_a_lost_file_of_a_publication_is_told_and_never_passed_over(tmp_path, monkeypatch, s):
    fired = die_at("rename-1", monkeypatch)
    with pytest.raises(Killed):
        s.batch(0, rows([1], "a"))
    monkeypatch.undo()
    for staged in (tmp_path / "_frazil" / "staging").rglob("*.parquet"):
        staged.unlink()
    with pytest.raises(CorruptData, match="is gone"):
        s.again().batch(0, rows([1], "a"))
    assert fired == ["rename-1"]


# --- partitions


def test_partitions_of_a_folder_are_committed_by_the_same_triggers(tmp_path):
    s = FileStream(tmp_path, {**BY_TIME, DELAY: "1 d"})
    s.batch(0, rows([1, 2], ["2026-01-01", "2026-01-02"]), JAN1)
    s.batch(1, None, JAN1 + 86_400_000)
    assert s.times("2026-01-01") == 0
    s.again().batch(2, None, JAN1 + 86_400_001)
    assert s.times("2026-01-01") == 1 and s.pending == {"2026-01-02"}
    body = json.loads((tmp_path / "dt=2026-01-01" / "_SUCCESS").read_text())
    assert (
        body["watermark"] == JAN1 + 86_400_001
        and not (tmp_path / "dt=2026-01-02" / "_SUCCESS").exists()
    )


def test_late_data_in_a_folder_is_told_and_counted(tmp_path):
    told = []
    s = FileStream(tmp_path, {}, (lambda c: told.append((c.partition_values, c.late, c.path)),))
    s.batch(0, rows([1], "a b"))
    s.batch(1, rows([2], None))
    s.again().batch(2, rows([3], "a b"))
    assert [(v, late) for v, late, _ in told] == [
        (("a b",), False),
        (("__DEFAULT_PARTITION__",), False),
        (("a b",), True),
    ]
    assert (
        told[0][2] == str(tmp_path / "dt=a b")
        and s.times("a b") == 2
        and s.times(None) == 1
        and s.pending == set()
    )


def test_end_of_input_and_idle_commit_the_last_partitions(tmp_path):
    s = FileStream(tmp_path, {**BY_TIME, "sink.partition-commit.end-input": "true"})
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    assert s.pending == {"2026-01-01"}
    s.batch(1, None, None, last=True)
    assert s.pending == set()
    idle = FileStream(tmp_path / "idle", {KIND: "success-file", TRIGGER: "idle", DELAY: "1 h"})
    idle.batch(0, rows([1], "a"))
    idle.clock.now += 3_600_001
    idle.batch(1, None)
    assert idle.times("a") == 1


def test_a_failing_policy_is_tried_again_and_a_kill_before_the_mark_counts_once(
    tmp_path, monkeypatch
):
    down = [True]

    def sometimes(context):
        if down[0]:
            raise OSError("no route")

    s = FileStream(tmp_path, {KIND: "custom,success-file"}, (sometimes,))
    (failure,) = s.batch(0, rows([1], "a"))
    assert failure.policy == "custom" and s.pending == {"a"}
    down[0], fired = False, []

    def dies(*_):
        fired.append(1)
        raise Killed

    monkeypatch.setattr(announce, "write_state", dies)
    with pytest.raises(Killed):
        s.batch(1, None)
    monkeypatch.undo()
    assert fired and s.times("a") == 1 and s.pending == {"a"}
    s.again().batch(1, None)
    assert s.times("a") == 1 and s.pending == set()


def test_a_partition_of_a_folder_without_a_time_stops_the_batch_or_is_left_out(tmp_path):
    s = FileStream(tmp_path, BY_TIME)
    with pytest.raises(UnparsablePartition, match="DEFAULT"):
        s.batch(0, rows([1, 2], ["2026-01-01", None]), JAN1)
    assert s.ids == []
    s.again(options={**BY_TIME, "partition.time-extractor.on-unparsable": "warn"}).batch(
        0, rows([1, 2], ["2026-01-01", None]), JAN1
    )
    assert s.ids == [1, 2] and s.pending == {"2026-01-01"}


@pytest.mark.parametrize(
    ("how", "error"),
    [("fail", UnparsablePartition), ("warn", UnparsablePartition), ("warn", KeyError)],
)
def test_a_pending_partition_of_a_folder_without_a_time_stays_pending_and_stops_nothing(
    tmp_path, monkeypatch, how, error
):
    s = FileStream(
        tmp_path, {**BY_TIME, DELAY: "1 d", "partition.time-extractor.on-unparsable": how}
    )
    s.batch(0, rows([1, 2], ["2026-01-01", "2026-01-02"]), JAN1)
    extract, fired = announce.TimeExtractor.time_ms, []

    def without_one(self, partition, fields):
        if partition.values == ("2026-01-01",):
            fired.append(partition)
            raise error("no time")
        return extract(self, partition, fields)

    monkeypatch.setattr("frazil.stream.partitions.extractor.TimeExtractor.time_ms", without_one)
    failures = s.batch(1, rows([3], ["2026-01-05"]), ms("2026-01-05"))
    assert (
        fired
        and s.ids == [1, 2, 3]
        and s.times("2026-01-02") == 1
        and s.pending == {"2026-01-01", "2026-01-05"}
    )
    told = [(f.partition, type(f.error)) for f in failures]
    assert told == (
        [] if (how, error) == ("warn", UnparsablePartition) else [("dt=2026-01-01", error)]
    )


@pytest.mark.parametrize("kind", ["tag", "property"])
def test_policies_of_tables_are_refused_for_folders(tmp_path, kind):
    with pytest.raises(Unsupported, match=f"policy {kind} is for Iceberg"):
        FileStream(tmp_path, {KIND: kind})


def test_a_success_file_that_readers_would_take_for_data_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must begin with _"):
        FileStream(
            tmp_path, {KIND: "success-file", "sink.partition-commit.success-file.name": "DONE"}
        )


@pytest.mark.parametrize("path", ["s3://bucket/x", "hdfs://nn/x"])
def test_only_disks_are_taken(path):
    with pytest.raises(Unsupported, match="local and mounted disks"):
        folder.folder_at(path, ("dt",))


def test_the_names_of_folders_are_those_of_spark_and_are_read_back():
    for value in ("a b", "a/b", "100%", "x=y", "ü:*?", None, ""):
        path = f"dt={folder.HIVE_NULL if value is None else folder.escaped(value)}"
        assert folder.partition_at(path, ("dt",)).values == (value,)
    assert folder.escaped("a/b:c=d") == "a%2Fb%3Ac%3Dd"
    with pytest.raises(CorruptData):
        folder.partition_at("hr=1", ("dt",))


def test_the_watermark_of_a_folder_can_come_from_a_column_of_the_files(tmp_path):
    at = [ms("2026-01-01 05:00") * 1000, ms("2026-01-01 04:00") * 1000]
    (tmp_path / "dt=a").mkdir()
    (tmp_path / "_SUCCESS").touch()
    for zone, name in (("UTC", "tz"), (None, "local")):
        table = pa.table(
            {
                "ts": pa.array([*at, None], pa.int64()).cast(pa.timestamp("us", zone)),
                "id": [1, 2, 3],
            }
        )
        pq.write_table(table, tmp_path / "dt=a" / f"{name}.parquet")
    pq.write_table(
        pa.table({"ts": pa.nulls(1, pa.timestamp("us", "UTC")), "id": [1]}),
        tmp_path / "dt=a" / "null.parquet",
    )
    assert publish.newest_value_ms(str(tmp_path), "ts", zone_of("UTC")) == ms("2026-01-01 05:00")
    (tmp_path / "dt=a" / "tz.parquet").unlink()
    assert publish.newest_value_ms(str(tmp_path), "ts", zone_of("+01:00")) == ms("2026-01-01 04:00")
    with pytest.raises(InvalidInput, match="no column when"):
        publish.newest_value_ms(str(tmp_path), "when", zone_of("UTC"))
    with pytest.raises(InvalidInput, match="no statistics of timestamps"):
        publish.newest_value_ms(str(tmp_path), "id", zone_of("UTC"))


# --- merge


def test_merge_makes_one_file_of_a_folder_and_keeps_rows_marks_and_others_files(tmp_path):
    s = FileStream(tmp_path, {KIND: "merge,success-file"})
    idle = s.again(options={KIND: "merge", TRIGGER: "idle", DELAY: "9 d"})
    for number in range(4):
        idle.batch(number, rows([number, 10 + number], ["a", "b"]))
    (tmp_path / "dt=a" / "_notes").write_text("kept")
    s.batch(4, rows([4], "a"))
    assert s.ids == [0, 1, 2, 3, 4, 10, 11, 12, 13]
    assert [f.split("/")[0] for f in files(tmp_path)] == ["dt=a", "dt=b"]
    assert (tmp_path / "dt=a" / "_notes").read_text() == "kept" and (
        tmp_path / "dt=a" / "_SUCCESS"
    ).exists()
    assert os.listdir(tmp_path / "_frazil" / "merges") == []
    s.batch(5, rows([5], "a"))
    assert (
        s.ids == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13]
        and s.times("a") == 2
        and len(files(tmp_path)) == 2
    )


def test_merge_honours_the_schemas_of_all_files(tmp_path):
    s = FileStream(tmp_path, {KIND: "merge"})
    place = tmp_path / "dt=a"
    place.mkdir()
    pq.write_table(
        pa.table({"id": pa.array([1], pa.int32()), "s": ["x"]}), place / "part-1.parquet"
    )
    pq.write_table(
        pa.table({"s": ["y"], "id": pa.array([2**40], pa.int64()), "more": [[1, 2]]}),
        place / "part-2.parquet",
    )
    s.batch(0, {"id": [3], "s": [None], "dt": ["a"]})
    (file,) = files(tmp_path)
    found = pq.ParquetFile(tmp_path / file).read().sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "s": "x", "more": None},
        {"id": 3, "s": None, "more": None},
        {"id": 2**40, "s": "y", "more": [1, 2]},
    ]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_around_the_exchange_of_folders_neither_loses_nor_doubles_a_row(
    tmp_path, monkeypatch, moment
):
    s = FileStream(tmp_path, {KIND: "merge", TRIGGER: "idle", DELAY: "1 h"})
    for number in range(3):
        s.batch(number, rows([number], "a"))
    fired, real = [], merge_files.exchange

    def exchange(first, second):
        if moment == "after":
            real(first, second)
        fired.append(moment)
        raise Killed

    monkeypatch.setattr(merge_files, "exchange", exchange)
    s.clock.now += 9_000_000
    with pytest.raises(Killed):
        s.batch(3, None)
    monkeypatch.undo()
    assert fired == [moment] and s.ids == [0, 1, 2]
    if moment == "after":
        # a file that another writer put there while the old folder was still in its place
        (old,) = (tmp_path / "_frazil" / "merges").glob("*/folder")
        pq.write_table(pa.table({"id": [77]}), old / "stranger.parquet")
    s = s.again()
    s.batch(3, None)
    assert (
        s.ids == [0, 1, 2] + [77] * (moment == "after")
        and s.pending == set()
        and os.listdir(tmp_path / "_frazil" / "merges") == []
    )


def test_at_no_moment_of_a_merge_does_a_listing_show_a_row_twice_or_not_at_all(
    tmp_path, monkeypatch
):
    s = FileStream(tmp_path, {KIND: "merge", TRIGGER: "idle", DELAY: "1 h"})
    for number in range(3):
        s.batch(number, rows([number], "a"))
    seen, real = [], LocalStorage.write

    def write(self, *arguments, **more):
        seen.append(s.ids)
        return real(self, *arguments, **more)

    def looked(first, second):
        seen.append(s.ids)
        real_exchange(first, second)
        seen.append(s.ids)

    real_exchange = merge_files.exchange
    monkeypatch.setattr(LocalStorage, "write", write)
    monkeypatch.setattr(merge_files, "exchange", looked)
    s.clock.now += 9_000_000
    s.batch(3, None)
    assert len(seen) > 3 and all(ids == [0, 1, 2] for ids in seen) and len(files(tmp_path)) == 1


def test_merge_refuses_int96_and_nested_folders_and_leaves_them_as_they_are(tmp_path):
    s = FileStream(tmp_path, {KIND: "merge"})
    table = pa.table({"id": [1], "ts": pa.array([1], pa.timestamp("us"))})
    (tmp_path / "dt=a").mkdir()
    for n in range(2):
        pq.write_table(
            table, tmp_path / "dt=a" / f"part-{n}.parquet", use_deprecated_int96_timestamps=True
        )
    (failure,) = s.batch(0, rows([3], "a"))
    assert "INT96" in str(failure.error) and len(files(tmp_path)) == 3 and s.pending == {"a"}


def test_merge_tells_columns_without_a_common_type_and_leaves_the_folder(tmp_path):
    s = FileStream(tmp_path, {KIND: "merge"})
    place = tmp_path / "dt=a"
    place.mkdir()
    for n, (at, x) in enumerate([(["noon"], [1]), ([dt.date(2026, 1, 1)], [2]), (["one"], [[3]])]):
        pq.write_table(pa.table({"id": [n], "at": at, "x": x}), place / f"part-{n}.parquet")
    (failure,) = s.batch(0, rows([3], "a"))
    assert isinstance(failure.error, SchemaMismatch)
    assert failure.error.facts["columns"] == ("at", "x")
    for text in (
        f"{place} cannot be merged: at is string in part-0.parquet and date32[day] in part-1.parquet; ",
        "x is int64 in part-0.parquet and list<element: int64> in part-2.parquet.",
        "leave merge out of sink.partition-commit.policy.kind",
    ):
        assert text in str(failure.error)
    assert len(files(tmp_path)) == 4 and s.pending == {"a"}


def test_merge_tells_the_column_whose_values_the_common_type_cannot_hold(tmp_path):
    s = FileStream(tmp_path, {KIND: "merge"})
    place = tmp_path / "dt=a"
    place.mkdir()
    for n, x in enumerate([[0.5], [2**62 + 1]]):
        pq.write_table(pa.table({"id": [n], "x": x}), place / f"part-{n}.parquet")
    (failure,) = s.batch(0, rows([3], "a"))
    assert isinstance(failure.error, SchemaMismatch)
    assert f"Column x of {place}/part-1.parquet is int64, and becomes double" in str(failure.error)
    assert len(files(tmp_path)) == 3 and s.pending == {"a"}


def test_a_damaged_state_is_told_with_its_file(tmp_path, s):
    s.batch(0, rows([1], "a"))
    (tmp_path / "_frazil" / "state.json").write_text('{"batches": 1}')
    with pytest.raises(CorruptData, match="state.json"):
        s.batch(1, rows([2], "a"))


def test_the_folder_of_a_column_with_special_characters_is_the_one_that_spark_makes(
    tmp_path: Path,
) -> None:
    place = folder.folder_at(tmp_path, ("a:b", "dt"))
    partition = folder.partition_at("a%3Ab=1/dt=2026-01-01", place.columns)
    assert place.partition_path(partition) == str(tmp_path / "a%3Ab=1" / "dt=2026-01-01")
