"""What Flink 2.1 (Iceberg 1.11) delivered when it was run on these histories: the same rows, with
Flink's way with snapshots that are no appends (`on-non-append=skip`). Where Flink is wrong
(branches, silence about lost rows) Frazil differs, and the tests say so."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.read.read_tasks import read_task
from frazil.errors import NoSuchSnapshotError, ValidationError
from frazil.stream.source.options import stream_options
from frazil.stream.source.source import StreamSource
from tests.golden import names
from tests.peers.rowsum import rowsum
from tests.stream.source.story import Story, batches, drained, rows_of

SCAN, LATEST, EXCLUSIVE, EARLIEST, BY_ID, BY_TIME = (
    "TABLE_SCAN_THEN_INCREMENTAL", "INCREMENTAL_FROM_LATEST_SNAPSHOT", "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE",
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT", "INCREMENTAL_FROM_SNAPSHOT_ID", "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP",
)  # fmt: skip


class Base(Story):
    """0 append 1,2 · 1 append 3 · 2 overwrite 3→4 · 3 append 5 · 4 delete 5 · 5 append 6 · 6
    replace · 7 append 7.
    """

    def __init__(self) -> None:
        super().__init__()
        for change in (
            lambda: self.append(1, 2),
            lambda: self.append(3),
            lambda: self.table.overwrite(self.frame(4), "id = 3"),
            lambda: self.append(5),
            lambda: self.table.delete("id = 5"),
            lambda: self.append(6),
            self.compact,
            lambda: self.append(7),
        ):
            time.sleep(0.003)  # times of snapshots differ
            change()
            snapshot = self.table.refresh().current_snapshot()
            assert snapshot is not None
            self.snapshot_of.append(snapshot.snapshot_id)
        assert [s.operation for s in self.table.snapshots()] == [
            "append",
            "append",
            "overwrite",
            "append",
            "delete",
            "append",
            "replace",
            "append",
        ]

    def frame(self, *ids: int) -> pa.Table:
        return pa.table({"id": ids, "p": pa.array([0] * len(ids), pa.int32())})

    def append(self, *ids: int) -> None:
        self.table.append(self.frame(*ids))

    def time(self, k: int) -> int:
        return self.table.metadata.snapshot_by_id(self.snapshot_of[k]).timestamp_ms


BY_NAME = [
    (None, [7]), (SCAN, [1, 2, 4, 6, 7]), (LATEST, [7]), (EXCLUSIVE, []), (EARLIEST, [1, 2, 3, 5, 6, 7]),
]  # fmt: skip
FROM_ID = [
    (0, [1, 2, 3, 5, 6, 7]),
    (1, [3, 5, 6, 7]),
    (2, [5, 6, 7]),
    (4, [6, 7]),
    (6, [7]),
    (7, [7]),
]
FROM_TIME = [(0, -1, [1, 2, 3, 5, 6, 7]), (0, 0, [1, 2, 3, 5, 6, 7]), (0, 1, [3, 5, 6, 7]), (2, 0, [5, 6, 7]), (2, 1, [5, 6, 7]),
             (3, 0, [5, 6, 7]), (6, 0, [7]), (7, 0, [7])]  # fmt: skip


def first_and_next(story: Base, **options: Any) -> tuple[list[int], list[int]]:
    source = story.source(on_non_append="skip", **options)
    first, at = drained(source)
    story.append(100)
    return sorted(first), drained(source, at)[0]


@pytest.fixture
def story() -> Base:
    return Base()


@pytest.mark.parametrize(("strategy", "expected"), BY_NAME)
def test_strategies_deliver_what_flink_delivered(strategy: str | None, expected: list[int]) -> None:
    assert first_and_next(Base(), starting_strategy=strategy) == (expected, [100])


@pytest.mark.parametrize(("snapshot", "expected"), FROM_ID)
def test_snapshot_ids_deliver_what_flink_delivered(
    snapshot: int, expected: list[int], story: Base
) -> None:
    found = first_and_next(
        story, starting_strategy=BY_ID, start_snapshot_id=story.snapshot_of[snapshot]
    )
    assert found == (expected, [100])


@pytest.mark.parametrize(("snapshot", "more", "expected"), FROM_TIME)
def test_times_deliver_what_flink_delivered(
    snapshot: int, more: int, expected: list[int], story: Base
) -> None:
    found = first_and_next(
        story, starting_strategy=BY_TIME, start_snapshot_timestamp=story.time(snapshot) + more
    )
    assert found == (expected, [100])


@pytest.mark.parametrize(
    ("options", "kept", "expected"),
    [
        ({"starting_strategy": EARLIEST}, 5, [6, 7]),
        ({"starting_strategy": EARLIEST}, 7, [7]),
        ({"starting_strategy": SCAN}, 5, [1, 2, 4, 6, 7]),
        ({"starting_strategy": LATEST}, 7, [7]),
    ],
)
def test_after_expiry_the_same_rows_as_flinks(
    options: dict[str, Any], kept: int, expected: list[int], story: Base
) -> None:
    story.expire(*story.snapshot_of[:kept])
    assert first_and_next(story, **options) == (expected, [100])


def test_expired_starts_fail_as_in_flink(story: Base) -> None:
    story.expire(*story.snapshot_of[:5])
    for gone in (1, 4):
        with pytest.raises(NoSuchSnapshotError, match="Start snapshot id not found in history"):
            first_and_next(
                story, starting_strategy=BY_ID, start_snapshot_id=story.snapshot_of[gone]
            )
    source = story.source(starting_strategy=BY_ID, start_snapshot_id=story.snapshot_of[5])
    assert drained(source)[0] == [6, 7]
    with pytest.raises(NoSuchSnapshotError, match="Cannot find a snapshot older than"):
        first_and_next(story, starting_strategy=BY_TIME, start_snapshot_timestamp=story.time(5) - 1)


def test_a_first_snapshot_that_is_an_overwrite_is_no_silent_loss() -> None:
    """Flink never delivers its row, and says nothing."""
    story = Story()
    source = story.source(starting_strategy=SCAN)
    _, at = drained(source)
    story.do("a")
    story.do("o")
    with pytest.raises(ValidationError, match="Cannot process overwrite snapshot"):
        drained(source, at)


# --- tables of other engines


def streamed(golden: Any, name: str, **options: Any) -> tuple[Any, pa.Table]:
    table = frazil.load_table(golden[name].metadata_file)
    source = StreamSource(lambda: table._loaded, stream_options(options), table.schema())
    read = [
        b
        for _, plan in batches(source)
        for part in plan.rows
        for task in part.tasks
        for b in read_task(task, part.context)
    ]
    return table, pa.Table.from_batches(read) if read else table.scan(limit=0).to_arrow()


@pytest.mark.parametrize("name", names(deletes=None))
def test_pages_of_the_initial_scan_of_a_golden_table_are_all_its_rows(
    golden: Any, name: str
) -> None:
    expected = golden[name].expected
    _, rows = streamed(golden, name, starting_strategy=SCAN, streaming_max_files_per_micro_batch=3)
    assert rows.num_rows == expected["rows"]
    if "checksum" in expected:
        assert rowsum(rows, expected["schema"]) == {
            "rows": expected["rows"],
            "sum": expected["checksum"],
        }


@pytest.mark.parametrize("name", names(deletes=None))
def test_increments_of_a_golden_table_are_those_of_the_batch_read(golden: Any, name: str) -> None:
    table, rows = streamed(
        golden,
        name,
        starting_strategy=EARLIEST,
        on_non_append="skip",
        max_planning_snapshot_count=1,
    )
    expected = table.incremental_append_scan().to_arrow()
    assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected.to_pylist()))


@pytest.mark.parametrize("name", names(deletes=None))
def test_changes_of_a_golden_table_snapshot_by_snapshot_are_those_of_its_changelog(
    golden: Any, name: str
) -> None:
    table = frazil.load_table(golden[name].metadata_file)
    options = stream_options(
        {
            "starting_strategy": EARLIEST,
            "on_non_append": "changes",
            "max_planning_snapshot_count": 1,
        }
    )
    source = StreamSource(lambda: table._loaded, options, table.schema())
    found = [row for _, plan in batches(source) for row in rows_of(plan)]
    expected = (
        table.changes(compute_updates=bool(table.schema().identifier_field_ids))
        .to_arrow()
        .to_pylist()
    )
    assert sorted(map(str, found)) == sorted(map(str, expected))
