"""What planning a micro-batch costs and leaves out: tasks, objects, manifests, row groups; and what
a trigger reads that has frozen the head.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.arrow.files.read_parquet import ParquetSource
from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.errors import NoSuchFileError, ValidationError
from frazil.scan import manifests, tasks
from frazil.scan.options import SplitOptions
from frazil.scan.plan import clear_caches
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile
from frazil.stream.source.plan_batch import RowTasks, packed
from tests.stream.source.story import Story, as_stored, batches, ids_of, rows_of

EARLIEST = {"starting_strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
SCAN = {"starting_strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
FILES = "streaming_max_files_per_micro_batch"


# --- tasks


@pytest.mark.parametrize("given", ["", "option", "property"])
def test_many_small_files_are_read_in_as_few_tasks_as_there_are_slots_unless_the_cost_of_a_file_is_given(
    given: str,
) -> None:
    story = Story(
        "a" * 10,
        parts=10,
        properties={"read.split.open-file-cost": "4194304"} if given == "property" else {},
    )
    options = {"file_open_cost": "4194304"} if given == "option" else {}
    plan = next(plan for _, plan in batches(story.source(**EARLIEST, **options)))
    groups = packed(plan.rows[0].tasks, plan.options.split, 2)
    assert sum(map(len, groups)) == 100 and len(groups) == (4 if given else 2)


def test_lookback_fills_tasks_that_have_room_left_and_without_it_files_keep_their_order() -> None:
    story = Story("a")
    first = next(plan for _, plan in batches(story.source(**EARLIEST))).rows[0].tasks[0]

    def weighing(size: int) -> FileScanTask:
        facts = replace(first.facts, file=replace(first.file, file_size_in_bytes=size))
        return FileScanTask(None, 0, first.residual, first.spec, facts, None, ())

    weighed = [weighing(size) for size in (60, 60, 40, 40, 60, 40)]
    split = SplitOptions(split_size=100, open_file_cost=1, adaptive=False)
    sizes = {
        n: [[t.length for t in group] for group in packed(weighed, split, 1, n)] for n in (1, 2)
    }
    assert sizes == {1: [[60], [60, 40], [40, 60], [40]], 2: [[60, 40], [60, 40], [60, 40]]}
    assert story.source(**EARLIEST, split_lookback=2)._options.lookback == 2


# --- an initial scan in an order


@pytest.mark.parametrize("order", [{"order_by": "sequence"}, {"watermark_column": "id"}])
def test_a_page_of_an_ordered_scan_makes_objects_of_its_own_files_only(
    order: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, made = Story("aaaaa", parts=4), list[int]()
    entries = tasks.entries_from_table

    def counted(table: pa.Table, spec: Any) -> Any:
        made.append(table.num_rows)
        return entries(table, spec)

    found = []
    monkeypatch.setattr(tasks, "entries_from_table", counted)
    for _, plan in batches(story.source(**SCAN, **order, **{FILES: 3})):
        assert sum(made) == plan.files <= 3
        found += ids_of(plan)
        made.clear()
    assert found == [10 * k + n for k in range(5) for n in range(4)]


@pytest.mark.soak
@pytest.mark.parametrize("order", [{"order_by": "sequence"}, {"watermark_column": "id"}])
def test_a_page_of_a_hundred_thousand_files_in_an_order_is_planned_within_a_second(
    order: dict[str, str],
) -> None:
    story = Story("", parts=1)
    lows = list(range(100_000))
    random.Random(1).shuffle(lows)
    for start in range(0, len(lows), 10_000):
        add_empty_files(story, lows[start : start + 10_000])
    source = story.source(**SCAN, **order, **{FILES: 5000})
    seconds, at = [], source.initial_offset()
    for n in range(6):
        begun = time.process_time()
        end = as_stored(source.latest_offset(at))
        plan = source.plan(at, end)
        seconds.append(time.process_time() - begun)
        lowest = [low_of(t.file) for t in plan.rows[0].tasks]
        assert plan.files == 5000 and (
            lowest == list(range(n * 5000, (n + 1) * 5000)) or "order_by" in order
        )
        at = end
    assert max(seconds[1:]) < 1, seconds


def add_empty_files(story: Story, lows: list[int]) -> None:
    """One commit of files that exist in the metadata only, each with a lowest id."""
    bounds = [n.to_bytes(8, "little") for n in lows]
    files = [
        DataFile(
            file_path=f"{story.table.location()}/data/{n}.parquet",
            file_format="parquet",
            partition=(0,),
            record_count=1,
            file_size_in_bytes=1000,
            lower_bounds={1: low},
            upper_bounds={1: low},
        )
        for n, low in zip(lows, bounds, strict=True)
    ]
    assert story.table._backend is not None
    commit(story.table._backend, story.table._loaded, [Append(files=files)])
    story.table.refresh()


def low_of(file: DataFile) -> int:
    return int(Path(file.file_path).stem)


# --- row groups and manifests


def one_large_file(groups: int = 6) -> Story:
    story = Story(
        properties={
            "write.parquet.row-group-size-bytes": "20000",
            "write.parquet.compression-codec": "uncompressed",
        }
    )
    ids = list(range(groups * 10_000))
    story.table.append(pa.table({"id": ids, "p": pa.array([0] * len(ids), pa.int32())}))
    return story


@pytest.mark.parametrize("start", [EARLIEST, SCAN])
def test_a_file_of_several_row_groups_is_cut_into_pieces_that_hold_each_row_once(
    start: dict[str, str],
) -> None:
    story = one_large_file()
    ((_, plan),) = batches(story.source(**start))
    (task,) = plan.rows[0].tasks
    assert len(task.file.split_offsets or ()) >= 4
    found = {n: packed([task], SplitOptions(split_size=task.length // n + 1), 1) for n in (1, 2, 3)}
    assert len(found[1]) == 1 and 2 <= len(found[2]) <= len(found[3])
    for groups in found.values():
        pieces = tuple(piece for group in groups for piece in group)
        assert sum(p.length for p in pieces) == task.length
        read = rows_of(type(plan)((RowTasks(pieces, plan.rows[0].context),)))
        assert [r["id"] for r in read] == list(range(60_000))


@pytest.mark.parametrize("start", [EARLIEST, SCAN])
def test_a_filter_leaves_row_groups_unread(
    start: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, read = one_large_file(), list[int]()
    original = ParquetSource.read
    monkeypatch.setattr(
        ParquetSource,
        "read",
        lambda self, piece, *more: read.append(piece.number) or original(self, piece, *more),
    )  # type: ignore[func-returns-value]
    ((_, plan),) = batches(story.source(**start, row_filter="id = 59999"))
    assert ids_of(plan) == [59_999] and read == [max(read)] and max(read) >= 3


@pytest.mark.parametrize("start", [EARLIEST, SCAN])
def test_a_filter_leaves_manifests_unread(
    start: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, opened = Story(), list[str]()
    for p in range(5):
        story.table.append(pa.table({"id": [p], "p": pa.array([p], pa.int32())}))
    decode = manifests.decode_manifest
    monkeypatch.setattr(
        manifests,
        "decode_manifest",
        lambda data, m, **more: opened.append(m.manifest_path) or decode(data, m, **more),
    )  # type: ignore[func-returns-value]
    for row_filter, count in (("p = 3", 1), ("p >= 2", 3), ("p >= 0", 5)):
        clear_caches()
        opened.clear()
        found = [
            i
            for _, plan in batches(story.source(**start, row_filter=row_filter))
            for i in ids_of(plan)
        ]
        assert len(set(opened)) == len(found) == count


# --- a frozen head


def test_available_now_ends_at_the_head_it_froze_although_that_is_rolled_back_or_expired_meanwhile() -> (
    None
):
    for gone in ("rolled back", "expired"):
        story = Story("aaa")
        source, found = story.source(**EARLIEST, **{FILES: 2}), list[int]()
        source.freeze()
        at = source.initial_offset()
        for n, (end, plan) in enumerate(batches(source)):
            found, at = [*found, *ids_of(plan)], end
            if n == 0 and gone == "rolled back":
                story.roll_back(story.snapshot_of[0])
            elif n == 0:
                story.do("a")
                story.do("a")
                story.expire(*story.snapshot_of[:4])
        assert found == [0, 1, 10, 11, 20, 21] and at["snapshot_id"] == story.snapshot_of[2], gone
        with pytest.raises(
            ValidationError,
            match=f"on-{'rollback' if gone == 'rolled back' else 'expired'}=earliest",
        ):
            next(batches(story.source(**EARLIEST), at))


def test_available_now_fails_and_does_not_wait_for_ever_when_the_files_of_its_head_are_gone() -> (
    None
):
    story = Story("aaa")
    source = story.source(**EARLIEST, **{FILES: 2})
    source.freeze()
    end, _ = next(batches(source))
    story.do("o")
    story.table.maintenance.expire_snapshots(older_than=time.time_ns() // 1_000_000, retain_last=1)
    clear_caches()
    with pytest.raises(NoSuchFileError, match="/metadata/"):
        list(batches(source, end))
    later = story.source(**EARLIEST, on_expired="latest")
    assert list(batches(later, end))[-1][0]["snapshot_id"] == story.snapshot_of[-1]
