"""Micro-batches: limits, restarts, and what happens when the history is not what a stream left it."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import CorruptData, InvalidInput, StorageError, ValidationError
from frazil.scan.options import SplitOptions, default_workers
from frazil.scan.plan import clear_caches
from frazil.stream.source.options import Limits
from frazil.stream.source.plan_batch import packed
from frazil.stream.source.source import Clock, StreamSource
from tests.stream.source.story import Story, as_stored, batches, drained, ids_of, rows_of

EARLIEST = {"starting_strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
SCAN = {"starting_strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
FILES, ROWS, BYTES = (
    f"streaming_max_{what}_per_micro_batch" for what in ("files", "rows", "bytes")
)


def sizes(story: Story, **options: Any) -> list[int]:
    return [len(ids_of(plan)) for _, plan in batches(story.source(**options))]


# --- limits


@pytest.mark.parametrize("start", [EARLIEST, SCAN])
@pytest.mark.parametrize(
    ("limit", "expected"), [(1, [1] * 12), (2, [2] * 6), (5, [5, 5, 2]), (100, [12])]
)
def test_a_batch_has_at_most_so_many_files(
    start: dict[str, str], limit: int, expected: list[int]
) -> None:
    story = Story("aaaa", parts=3)
    assert sizes(story, **start, **{FILES: limit}) == expected


@pytest.mark.parametrize("start", [EARLIEST, SCAN])
def test_a_batch_has_at_most_so_many_rows_unless_one_file_has_more(start: dict[str, str]) -> None:
    story = Story("aa", parts=3)
    story.table.append(pa.table({"id": range(100, 110), "p": pa.array([7] * 10, pa.int32())}))
    found = sizes(story, **start, **{ROWS: 4})
    assert sum(found) == 16 and 10 in found and all(n <= 4 for n in found if n != 10)


@pytest.mark.parametrize("start", [EARLIEST, SCAN])
def test_a_batch_has_at_most_so_many_bytes_unless_one_file_has_more(start: dict[str, str]) -> None:
    story = Story("aaa", parts=3)
    one = max(t.file.file_size_in_bytes for t in story.table.scan().plan_files())
    assert sizes(story, **start, **{BYTES: 2 * one + 1}) == (
        [2, 1, 2, 1, 2, 1]
        if sizes(story, **start, **{BYTES: 2 * one + 1})[1] == 1
        else [2, 2, 2, 2, 1]
    )
    assert sizes(story, **start, **{BYTES: 1}) == [1] * 9


@pytest.mark.parametrize(
    "limit", [{FILES: 1}, {ROWS: 1}, {BYTES: 1}, {FILES: 1, ROWS: 2, BYTES: 10}, {}]
)
def test_an_append_without_files_is_passed_whatever_the_limits(limit: dict[str, int]) -> None:
    # Flink's sink commits such snapshots to keep its position while a stream is idle.
    story = Story("a")
    story.table.append(story.rows(5).slice(0, 0))
    assert len(story.table.snapshots()) == 2
    story.do("a")
    assert sum(sizes(story, **EARLIEST, **limit)) == 2 * story.parts


def test_the_tightest_of_several_limits_counts() -> None:
    story = Story("aaaa", parts=3)
    assert sizes(story, **EARLIEST, **{FILES: 5, ROWS: 4}) == [4, 4, 4]
    assert sizes(story, **EARLIEST, **{FILES: 5, ROWS: 4}, max_planning_snapshot_count=1) == [
        3,
        3,
        3,
        3,
    ]
    assert [
        len(ids_of(p)) for _, p in batches(story.source(**EARLIEST, **{FILES: 5}), limits=Limits())
    ] == [12], "trigger once ignores limits"


def test_snapshots_are_counted_whatever_they_did() -> None:
    story = Story("arara")
    found = [ids_of(p) for _, p in batches(story.source(**EARLIEST, max_planning_snapshot_count=2))]
    assert [len(f) for f in found] == [2, 2, 2]


def test_a_limit_of_files_opens_no_manifest_beyond_those_of_its_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story("a" * 12)
    frazil.clear_caches()
    opened: list[str] = []
    storage = type(story.table._loaded.storage)
    read = storage.read
    monkeypatch.setattr(
        storage, "read", lambda self, location: opened.append(location) or read(self, location)
    )
    source = story.source(**EARLIEST, **{FILES: 4})
    start = source.initial_offset()
    end = source.latest_offset(start)
    source.plan(start, end)
    assert len([f for f in opened if "-m" in f.rpartition("/")[2]]) == 2, opened
    assert len([f for f in opened if "/snap-" in f]) == 1, "one manifest list tells of all"


# --- restarts


@settings(max_examples=15)
@given(
    ops=st.text("aaaor", min_size=1, max_size=8),
    files=st.none() | st.integers(1, 5),
    rows=st.none() | st.integers(1, 6),
    count=st.none() | st.integers(1, 3),
    scan=st.booleans(),
    breaks=st.integers(0, 2**16),
)
def test_following_offsets_reads_each_row_once_in_order_also_with_restarts(
    ops: str, files: int | None, rows: int | None, count: int | None, scan: bool, breaks: int
) -> None:
    story = Story(ops, parts=3)
    options = {
        **(SCAN if scan else EARLIEST),
        "on_non_append": "skip",
        FILES: files,
        ROWS: rows,
        "max_planning_snapshot_count": count,
    }
    expected = (
        sorted(story.table.scan().to_arrow()["id"].to_pylist())
        if scan
        else story.appended_between(None, None)
    )
    source, found = story.source(**options), []
    at = as_stored(source.initial_offset())
    for n in range(200):
        if breaks >> n & 1:  # a restart: another process, which knows the checkpoint only
            source = story.source(**options)
        end = as_stored(source.latest_offset(at))
        if json.dumps(end) == json.dumps(at):
            break
        plan = source.plan(at, end)
        again = ids_of(story.source(**options).plan(at, end))
        got = ids_of(plan)
        assert got == again
        if files is not None:
            assert plan.files <= files
        found += got
        at = end
        if n == 3:
            expected = expected + story.rows_added(story.do("a"))
    assert (sorted(found) if scan else found) == (sorted(expected) if scan else expected)


def test_the_same_offsets_give_the_same_tasks_to_another_process() -> None:
    story = Story("aaaaaa", parts=3)
    source = story.source(**EARLIEST, **{FILES: 7})
    start = source.initial_offset()
    end = source.latest_offset(start)

    def tasks(of: StreamSource) -> list[list[str]]:
        plan = of.plan(start, end)
        groups = packed(plan.rows[0].tasks, replace(plan.options.split, open_file_cost=4 << 20), 4)
        return [[t.file.file_path for t in pickle.loads(pickle.dumps(g))] for g in groups]

    first = tasks(source)
    story.do("o")
    frazil.clear_caches()
    assert tasks(story.source(**EARLIEST)) == first and sum(map(len, first)) == 7


def test_a_batch_that_was_logged_is_read_although_the_branch_was_rolled_back_since() -> None:
    story = Story("aa")
    source = story.source(**EARLIEST)
    start = source.initial_offset()
    end = source.latest_offset(start)
    story.roll_back(story.snapshot_of[0])
    assert ids_of(story.source(**EARLIEST).plan(start, end)) == [0, 1, 10, 11]


def test_large_files_are_cut_and_small_ones_joined_in_their_order() -> None:
    story = Story("aaaa", parts=2)
    plan = next(plan for _, plan in batches(story.source(**EARLIEST)))
    tasks = plan.rows[0].tasks
    for parallelism in (1, 2, 3, 8):
        groups = packed(tasks, SplitOptions(), parallelism)
        assert [t.file.file_path for g in groups for t in g] == [
            t.file.file_path for t in tasks
        ] and len(groups) <= max(parallelism, 8)
    assert (
        len(packed(tasks, SplitOptions(), 2)) == 2 and len(packed(tasks, SplitOptions(), 100)) == 8
    )
    small = packed(tasks[:1], SplitOptions(split_size=100, open_file_cost=0, adaptive=False), 1)
    assert small[0][0].start == 0 and sum(t.length for g in small for t in g) == tasks[0].length


def test_page_by_page_a_scan_applies_deletes() -> None:
    story = Story(
        "aaa", parts=3, properties={"write.delete.mode": "merge-on-read", "format-version": "2"}
    )
    story.table.append(pa.table({"id": [100, 101], "p": pa.array([9, 9], pa.int32())}))
    story.table.delete("id = 100 or id = 11")
    found, _ = drained(story.source(**SCAN, **{FILES: 2}))
    assert sorted(found) == [0, 1, 2, 10, 12, 20, 21, 22, 101]


def test_available_now_ends_at_what_was_there_at_its_start() -> None:
    story = Story("aaa")
    source = story.source(**EARLIEST, **{FILES: 2})
    source.freeze()
    found = []
    for _, plan in batches(source):
        found += ids_of(plan)
        story.do("a")
    assert found == [0, 1, 10, 11, 20, 21]


def test_without_a_start_as_on_pyspark_41_the_first_batch_goes_to_the_head() -> None:
    story = Story("aaa")
    for options, first in ((EARLIEST, 6), ({}, 2), (SCAN, 10)):
        source = story.source(**options, **{FILES: 1})
        end = source.latest_offset()
        assert source.latest_offset() == end
        assert len(ids_of(source.plan(source.initial_offset(), end))) == first
        later = story.do("a")
        assert ids_of(source.plan(end, source.latest_offset())) == story.rows_added(later)[:1]
        assert story.source(**options).latest_offset()["snapshot_id"] == later, "a restarted query"


# --- snapshots that are no appends


def test_rows_before_a_refused_snapshot_are_delivered_first() -> None:
    story = Story("aaoa")
    source, found = story.source(**EARLIEST), []
    with pytest.raises(
        ValidationError,
        match=rf"Cannot process overwrite snapshot: {story.snapshot_of[2]} .*skip-overwrite",
    ):
        for _, plan in batches(source):
            found += ids_of(plan)
    assert found == [0, 1, 10, 11]
    story = Story("aad")
    with pytest.raises(
        ValidationError, match="Cannot process delete snapshot.*on-non-append=skip-delete"
    ):
        drained(story.source(**EARLIEST, on_non_append="skip-overwrite"))
    assert drained(story.source(**EARLIEST, streaming_skip_delete_snapshots=True))[0] == [
        0,
        1,
        10,
        11,
    ]
    assert drained(Story("arar").source(**EARLIEST))[0] == [0, 1, 20, 21], (
        "compaction is always passed over"
    )


def test_changes_come_with_what_became_of_the_rows_in_one_batch_or_in_many() -> None:
    story = Story("aaoadra", parts=2)
    rows = {}
    for limit in (None, 1, 3):
        source = story.source(**EARLIEST, on_non_append="changes", **{FILES: limit})
        rows[limit] = [r for _, plan in batches(source) for r in rows_of(plan)]
    assert rows[None] == rows[1] == rows[3]
    expected = story.table.changes().to_arrow().to_pylist()
    key = lambda r: (r["_change_ordinal"], r["_change_type"], r["id"])
    assert sorted(rows[None], key=key) == sorted(expected, key=key)
    assert {r["_change_type"] for r in rows[None]} == {"INSERT", "DELETE"}


def test_changes_after_an_initial_scan_go_on_with_the_ordinals() -> None:
    story = Story("aa")
    source = story.source(**SCAN, on_non_append="changes", **{FILES: 1})
    found, at = [], source.initial_offset()
    for end, plan in batches(source):
        found, at = [*found, *rows_of(plan)], end
    assert {(r["_change_type"], r["_change_ordinal"], r["_commit_snapshot_id"]) for r in found} == {
        ("INSERT", 0, story.snapshot_of[1])
    }
    assert sorted(r["id"] for r in found) == [0, 1, 10, 11]
    story.do("d")
    story.do("a")
    later = [r for _, plan in batches(source, at) for r in rows_of(plan)]
    assert [
        (r["id"], r["_change_type"], r["_change_ordinal"])
        for r in sorted(later, key=lambda r: r["id"])
    ] == [
        (10, "DELETE", 1),
        (11, "DELETE", 1),
        (30, "INSERT", 2),
        (31, "INSERT", 2),
    ]


def test_updates_are_told_by_identifier_fields() -> None:
    story = Story(columns="id bigint not null, p int")
    with story.table.update_schema() as update:
        update.set_identifier_fields("id")
    story.table.append(
        pa.table(
            {"id": pa.array([1, 2]), "p": pa.array([0, 0], pa.int32())},
            pa.schema([pa.field("id", pa.int64(), False), ("p", pa.int32())]),
        )
    )
    story.table.update(set={"p": "5"}, where="id = 2")
    found = [
        r
        for _, plan in batches(story.source(**EARLIEST, on_non_append="changes"))
        for r in rows_of(plan)
    ]
    assert sorted((r["id"], r["p"], r["_change_type"]) for r in found) == [
        (1, 0, "INSERT"),
        (2, 0, "INSERT"),
        (2, 0, "UPDATE_BEFORE"),
        (2, 5, "UPDATE_AFTER"),
    ]


# --- evolution


def test_columns_are_those_the_query_started_with() -> None:
    story = Story("a", columns="id bigint, p int, v string")
    source = story.source(**EARLIEST)
    _, at = drained(source)
    with story.table.update_schema() as update:
        update.add_column("extra", frazil.StringType())
        update.rename_column("v", "w")
    story.table.append(
        pa.table({"id": [7], "p": pa.array([0], pa.int32()), "w": ["x"], "extra": ["y"]})
    )
    (end, plan), *rest = batches(source, at)
    assert not rest and rows_of(plan) == [{"id": 7, "p": 0, "v": "x"}]
    with story.table.update_schema() as update:
        update.delete_column("w")
    story.table.append(pa.table({"id": [8], "p": pa.array([0], pa.int32()), "extra": ["y"]}))
    ((end, plan),) = batches(source, end)
    assert rows_of(plan) == [{"id": 8, "p": 0, "v": None}]
    story.table.append(pa.table({"id": [9], "p": pa.array([0], pa.int32()), "extra": ["z"]}))
    ((_, plan),) = batches(story.source(), end)
    assert rows_of(plan) == [{"id": 9, "p": 0, "extra": "z"}], (
        "a restarted query has the new columns"
    )


def test_a_column_that_was_widened_asks_for_a_restart() -> None:
    story = Story("a")
    source = story.source(**EARLIEST)
    _, at = drained(source)
    with story.table.update_schema() as update:
        update.update_column("p", frazil.LongType())
    with pytest.raises(
        ValidationError, match=r"Column p .* was int .* is long now.*Restart the query"
    ):
        source.latest_offset(at)
    assert story.source().latest_offset(at) == at


# --- columns, filters and order


def test_columns_and_files_are_pruned() -> None:
    story = Story("aaa", parts=3)
    ((_, plan),) = batches(
        story.source(**EARLIEST, selected_fields="id", row_filter="p = 1 and id > 5")
    )
    assert rows_of(plan) == [{"id": 11}, {"id": 21}] and plan.files == 2
    ((_, plan),) = batches(
        story.source(
            **EARLIEST, selected_fields="ID,_file", row_filter="P = 1", case_sensitive=False
        )
    )
    assert [r["id"] for r in rows_of(plan)] == [1, 11, 21] and all(
        r["_file"] for r in rows_of(plan)
    )
    changes = [
        r
        for _, p in batches(
            story.source(
                **EARLIEST, on_non_append="changes", row_filter="p = 2", selected_fields="id"
            )
        )
        for r in rows_of(p)
    ]
    assert [(r["id"], r["_change_type"]) for r in changes] == [
        (2, "INSERT"),
        (12, "INSERT"),
        (22, "INSERT"),
    ]


def test_files_are_ordered_by_sequence_number_page_by_page() -> None:
    story = Story("aaaa", parts=2)
    found, _ = drained(story.source(**SCAN, order_by="sequence", **{FILES: 3}))
    assert [i // 10 for i in found] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_files_are_ordered_by_the_watermark_column() -> None:
    story = Story(columns="id bigint, p int, at timestamp", parts=1)
    for k, hour in enumerate((5, 3, 9, 1)):
        times = pa.array([hour * 3_600_000_000], pa.timestamp("us", "UTC"))
        story.table.append(pa.table({"id": [k], "p": pa.array([0], pa.int32()), "at": times}))
    assert drained(story.source(**EARLIEST, watermark_column="at"))[0] == [3, 1, 0, 2]
    found, at = [], story.source().initial_offset()
    for end, plan in batches(story.source(**SCAN, watermark_column="at", **{FILES: 1})):
        found, at = [*found, *ids_of(plan)], end
    assert found == [3, 1, 0, 2] and at["phase"] == "after"
    with pytest.raises(InvalidInput, match="must be a long or a timestamp"):
        story.source(watermark_column="p")
    bare = Story(
        "a", columns="id bigint, p int", properties={"write.metadata.metrics.default": "none"}
    )
    with pytest.raises(CorruptData, match="no lower bound of watermark column 'id'"):
        drained(bare.source(**EARLIEST, watermark_column="id"))


# --- the catalog


class Hands:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds, self.waited = 0.0, 0.0

    def clock(self) -> Clock:
        return Clock(lambda: self.seconds, self.wait)

    def wait(self, seconds: float) -> None:
        self.waited += seconds


def test_the_catalog_is_asked_once_per_monitor_interval() -> None:
    story, hands = Story("a"), Hands()
    source = story.source(hands.clock(), **EARLIEST, monitor_interval="10s")
    _, at = drained(source)
    story.do("a")
    for _ in range(50):
        assert source.latest_offset(at) == at
    assert story.loads == 1
    hands.seconds = 10
    assert source.latest_offset(at) != at and story.loads == 2


def failing(story: Story, times: int) -> Any:
    left = [times]

    def load() -> Any:
        if left[0]:
            left[0] -= 1
            raise StorageError("the store is away")
        return story.load()

    return load


def test_so_many_planning_failures_in_a_row_are_passed_over() -> None:
    story, hands = Story("a"), Hands()
    start = story.source().initial_offset()
    source = story.source(hands.clock(), failing(story, 3), **EARLIEST, monitor_interval="10s")
    for _ in range(3):
        assert source.latest_offset(start) == start and source.latest_offset(start) == start
        hands.seconds += 10
    assert source.latest_offset(start) != start
    source = story.source(hands.clock(), failing(story, 4), **EARLIEST, monitor_interval="10s")
    with pytest.raises(StorageError, match="away"):
        for _ in range(4):
            source.latest_offset(start)
            hands.seconds += 10
    source = story.source(
        hands.clock(),
        failing(story, 50),
        **EARLIEST,
        monitor_interval="1s",
        max_allowed_planning_failures=-1,
    )
    for _ in range(50):
        assert source.latest_offset(start) == start
        hands.seconds += 1
    assert source.latest_offset(start) != start


def test_available_now_and_planned_batches_wait_out_failures() -> None:
    """There "nothing new" would end the query before its time."""
    story, hands = Story("a"), Hands()
    source = story.source(hands.clock(), failing(story, 3), **EARLIEST)
    source.freeze()
    assert hands.waited > 0 and drained(source)[0] == [0, 1]
    with pytest.raises(StorageError, match="away"):
        story.source(hands.clock(), failing(story, 4), **EARLIEST).freeze()


def test_what_is_pending_is_reported() -> None:
    story = Story("aaar", parts=2)
    source = story.source(**EARLIEST, **{FILES: 3})
    assert source.report() is None
    reports = []
    for _ in batches(source):
        reports.append(source.report())
    assert [
        (r["pending_snapshots"], r["pending_files"], r["pending_rows"]) for r in reports if r
    ] == [(3, 3, 3), (0, 0, 0)]
    assert all(
        r and r["snapshot_id"] == story.snapshot_of[3] and r["lag_seconds"] >= 0 for r in reports
    )
    story = Story("aaa", parts=2)
    source = story.source(**SCAN, **{FILES: 1})
    next(batches(source))
    report = source.report()
    assert report is not None and (report["pending_files"], report["pending_rows"]) == (5, 5)


def test_the_pool_that_reads_manifests_has_the_size_that_flinks_option_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes_of_pools: list[int] = []

    class Recorded(ThreadPoolExecutor):
        def __init__(self, max_workers: int, **more: Any):
            sizes_of_pools.append(max_workers)
            super().__init__(max_workers, **more)

    monkeypatch.setattr("frazil.scan.manifests.ThreadPoolExecutor", Recorded)
    # small manifests are read together, by one thread
    monkeypatch.setattr("frazil.scan.plan.are_small", lambda _: False)
    story = Story("a" * 12, properties={"commit.manifest.min-count-to-merge": "1000"})
    pool = "table.exec.iceberg.worker-pool-size"
    for wanted, expected in (
        ({pool: 3}, {3}),
        ({pool: 7}, {7}),
        ({pool: 1}, set()),
        ({}, {default_workers()}),
    ):
        clear_caches()
        sizes_of_pools.clear()
        assert len(drained(story.source(**SCAN, **wanted))[0]) == 24
        assert set(sizes_of_pools) == expected
    with pytest.raises(InvalidInput, match="worker-pool-size"):
        story.source(**{pool: 0})
