"""Cutting and packing of tasks."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInput
from frazil.scan.combine import combine, combine_for
from frazil.scan.options import ScanOptions, SplitOptions, adjusted_split_size, split_options
from frazil.scan.tasks import PlannedFiles, TaskSequence
from frazil.spec.partitioning import PartitionSpec

MB = 1024 * 1024


def tasks(*files, file_format="parquet"):
    """(size, split offsets) of each file."""
    table = pa.table(
        {
            "file_path": pa.array([f"f{i}" for i in range(len(files))], pa.string()),
            "file_format": pa.array([file_format] * len(files), pa.string()),
            "partition": pa.array([{}] * len(files), pa.struct([])),
            "record_count": pa.array([100] * len(files), pa.int64()),
            "file_size_in_bytes": pa.array([size for size, _ in files], pa.int64()),
            "split_offsets": pa.array([offsets for _, offsets in files], pa.list_(pa.int64())),
            "_match": pa.array([3] * len(files), pa.uint8()),
        }
    )
    return TaskSequence((PlannedFiles(PartitionSpec(), table),))


def spans(combined):
    return [[(t.file.file_path, t.start, t.start + t.length) for t in c.tasks] for c in combined]


def test_small_files_share_a_task_up_to_the_open_file_cost():
    assert [len(c) for c in combine(tasks(*[(10, [4])] * 70), 128 * MB)] == [32, 32, 6]


def test_a_file_is_cut_at_its_row_groups_and_neighbours_are_joined_again():
    found = combine(tasks((300, [4, 100, 200])), split_size=200, open_file_cost=0)
    assert spans(found) == [[("f0", 0, 200)], [("f0", 200, 300)]]


def test_a_file_without_sound_offsets_is_cut_by_size():
    for offsets in (None, [], [4, 4], [4, 900], [200, 100]):
        assert spans(combine(tasks((250, offsets)), 100, open_file_cost=0)) == [
            [("f0", 0, 100)],
            [("f0", 100, 200)],
            [("f0", 200, 250)],
        ]


def test_avro_files_are_not_cut():
    assert spans(combine(tasks((250, None), file_format="avro"), 100, open_file_cost=0)) == [
        [("f0", 0, 250)]
    ]


def test_a_whole_file_keeps_its_task():
    (only,) = combine(tasks((250, [4])), 1000)
    assert only.tasks[0].is_whole_file and only.estimated_rows == 100 and only.size_bytes == 250


def test_the_heaviest_bin_leaves_first_when_lookback_is_exceeded():
    found = combine(tasks((60, [4]), (90, [4]), (70, [4])), 100, lookback=2, open_file_cost=0)
    assert [c.size_bytes for c in found] == [90, 60, 70]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 500), st.lists(st.integers(0, 499), max_size=4, unique=True).map(sorted)
        ),
        max_size=25,
    ),
    st.integers(1, 600),
    st.integers(1, 12),
    st.integers(0, 50),
)
def test_every_byte_is_read_once(files, split_size, lookback, cost):
    found = spans(combine(tasks(*files), split_size, lookback, cost))
    covered = sorted(s for task in found for s in task)
    for i, (size, _) in enumerate(files):
        mine = [(a, b) for name, a, b in covered if name == f"f{i}"]
        mine.sort()
        assert (
            mine[0][0] == 0
            and mine[-1][1] == size
            and all(a[1] == b[0] for a, b in zip(mine, mine[1:], strict=False))
        )


def test_splits_shrink_to_use_all_slots_but_not_below_16_mb():
    assert adjusted_split_size(1000 * MB, 4, 128 * MB) == 128 * MB
    assert adjusted_split_size(200 * MB, 4, 128 * MB) == 50 * MB
    assert adjusted_split_size(20 * MB, 4, 128 * MB) == 16 * MB
    assert adjusted_split_size(20 * MB, 4, 8 * MB) == 8 * MB
    big = tasks((100 * MB, [4, 30 * MB, 60 * MB]))
    assert len(combine_for(big, SplitOptions(), parallelism=3)) == 3
    assert len(combine_for(big, SplitOptions(adaptive=False), parallelism=3)) == 1


def test_read_options_win_over_table_properties():
    properties = {
        "read.split.target-size": "1000",
        "read.split.planning-lookback": "3",
        "read.split.open-file-cost": "7",
    }
    assert split_options(properties) == SplitOptions(1000, 3, 7, True)
    assert split_options(properties, {"Split-Size": "5"}) == SplitOptions(5, 3, 7, False)
    assert not split_options({"read.split.adaptive-size.enabled": "false"}).adaptive


@pytest.mark.parametrize(
    "options",
    [{"split-size": "0"}, {"lookback": "0"}, {"file-open-cost": "-1"}, {"split-size": "x"}],
)
def test_sizes_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidInput):
        split_options({}, options)


def test_an_unknown_read_option_is_refused_by_name():
    with pytest.raises(InvalidInput, match="splitsize"):
        ScanOptions.of({"splitsize": "5"}, {})
    assert ScanOptions.of({"split_size": 5}, {}).split.split_size == 5


def test_a_task_survives_pickling_and_stays_small():
    part = tasks(*[(300, [4, 100])] * 2000)[1234].part(4, 96)
    data = pickle.dumps(part)
    assert len(data) < 2000 and pickle.loads(data) == part
    assert pickle.loads(data).start == 4
