"""No cure is advised that would do nothing; what a cure leaves needs no other one; dangling deletes
and files far too large are found.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.commit.actions import RowDelta
from frazil.spec.manifest import DataFile
from frazil.transforms import IdentityTransform
from tests.builders.data_files import positions
from tests.maintain.deletes import append, by_keys, by_position, delete_files, filled, ids, made

KIB = 1 << 10


def sizes(t: Any) -> list[int]:
    return sorted(f["file_size_in_bytes"] for f in t.refresh().inspect.data_files().to_pylist())


def settled(t: Any) -> tuple[str, ...]:
    """What `auto` does, after which it has nothing to do."""
    done = t.refresh().maintenance.auto()
    assert not done.failed and t.refresh().maintenance.auto().steps == (), (
        done,
        t.maintenance.recommend(),
    )
    return tuple(step.kind for step in done.steps)


@pytest.mark.parametrize(
    ("granularity", "kinds"), [("file", ()), ("partition", ("position_delete_files",))]
)
def test_position_deletes_that_are_each_a_data_files_own_are_left_at_file_granularity(
    granularity: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    t = made(
        tmp_path,
        2,
        write__delete__granularity=granularity,
        write__target_file_size_bytes="3000",
        commit__manifest__min_count_to_merge="2",
    )
    for n in range(12):
        append(t, range(1000 * n, 1000 * n + 500))
    for n in range(12):
        by_position(t, [1000 * n])
    assert delete_files(t) == {"position": 12}
    assert t.refresh().maintenance.recommend().kinds == kinds and settled(t) == kinds
    assert delete_files(t) == {"position": 12 if not kinds else 1} and len(ids(t)) == 12 * 499


def test_a_data_file_with_several_position_deletes_gets_one_at_file_granularity(
    tmp_path: Path,
) -> None:
    t = filled(made(tmp_path, 2, write__delete__granularity="file"), 1, 100)
    for n in range(6):
        by_position(t, [n])
    assert t.refresh().maintenance.recommend().kinds == ("position_delete_files",)
    assert settled(t) == ("position_delete_files",) and delete_files(t) == {"position": 1}


@pytest.mark.parametrize("version", [2, 3])
def test_dangling_deletes_are_found_and_removed(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2), 2, 100)
    by_position(t, [3, 103])
    with t._begin() as operation:
        operation.stage(
            RowDelta(added_deletes=[positions(98, "/p.parquet"), positions(99, "/q.parquet")])
        )
    if version == 3:
        t.refresh().upgrade(3)
        t.refresh().maintenance.rewrite_position_delete_files()
        assert delete_files(t) == {"vector": 2}
        vector = replace(
            positions(97, "/v.puffin"),
            file_format="puffin",
            content_offset=4,
            content_size_in_bytes=46,
        )
        with t.refresh()._begin() as operation:
            operation.stage(RowDelta(added_deletes=[vector]))
    before = ids(t)
    (found,) = t.refresh().maintenance.recommend()
    assert (
        found.kind == "dangling_deletes"
        and "no data file any more" in found.text
        and found.cost_bytes == 0
    )
    told, done = (
        t.refresh().maintenance.rewrite_data_files(**{**found.cure.arguments, "dry_run": dry})
        for dry in (True, False)
    )
    assert (
        told.removed_delete_files_count
        == done.removed_delete_files_count
        == found.numbers["delete_files"]
    )
    assert done.rewritten_data_files_count == 0 and settled(t) == () and ids(t) == before


def test_files_far_above_the_target_are_divided(tmp_path: Path) -> None:
    t = made(tmp_path, 2)
    numbers = random.Random(0).sample(range(1 << 60), 200_000)
    t.append(
        pa.table(
            {
                "id": pa.array(numbers),
                "p": ["a"] * 200_000,
                "n": pa.array([0] * 200_000, pa.int32()),
            }
        )
    )
    assert t.maintenance.recommend().kinds == ()
    t.transaction().set_properties(
        {"write.target-file-size-bytes": str(100 * KIB)}
    ).commit_transaction()
    (large,) = sizes(t)
    assert large > 500 * KIB
    (found,) = t.refresh().maintenance.recommend()
    assert (found.kind, found.numbers["files"], found.cost_bytes) == ("large_files", 1, 2 * large)
    assert (
        settled(t) == ("large_files",)
        and len(sizes(t)) >= 4
        and max(sizes(t)) < 200 * KIB
        and ids(t) == sorted(numbers)
    )


@pytest.mark.parametrize("sort", [False, True])
def test_small_files_become_as_few_as_they_fill_in_one_go(sort: bool, tmp_path: Path) -> None:
    """A file of few rows is mostly footer: counted by their old bytes, sixty became twenty, and
    those three.
    """
    t = made(tmp_path, 2, write__target_file_size_bytes=str(8 * KIB))
    if sort:
        t.update_sort_order().asc("id", IdentityTransform()).commit()
    for n in range(60):
        append(t, range(n, 6000, 60))
    old = sizes(t)
    expected = ids(t)
    done = settled(t)
    assert len(done) == 1 and done[0] in ("small_files", "unsorted"), (
        "one cure, not a second compaction of what it left"
    )
    new = sizes(t)
    assert sum(old) > 4 * sum(new) and len(new) <= 1 + sum(new) // (6 * KIB) and ids(t) == expected


@pytest.mark.parametrize("kind", ["vectors", "positions", "keys", "positions without bounds"])
def test_a_dry_run_tells_which_deletes_go_with_the_last_row(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = filled(made(tmp_path, 3 if kind == "vectors" else 2), 3, 40)
    if kind == "keys":
        by_keys(t, range(120))
    else:
        if kind == "positions without bounds":
            # as some writers leave them, so that they may be about any file of the partition
            monkeypatch.setattr("tests.spark.deleting.RowDelta", _without_bounds)
        by_position(t, range(120), "file" if kind == "vectors" else "partition")
    options = {"remove-dangling-deletes": "true", "delete-file-threshold": "1"}
    told, done = (
        t.refresh().maintenance.rewrite_data_files(options=options, dry_run=dry)
        for dry in (True, False)
    )
    names = (
        "rewritten_data_files_count",
        "rewritten_bytes_count",
        "removed_delete_files_count",
        "groups",
        "commits",
    )
    assert [getattr(told, n) for n in names] == [
        getattr(done, n) for n in names
    ] and done.removed_delete_files_count
    assert ids(t) == [] and delete_files(t) == {} and settled(t) == ()


def _without_bounds(added_deletes: list[DataFile], **more: Any) -> RowDelta:
    bare = [
        replace(d, lower_bounds={}, upper_bounds={}, referenced_data_file=None)
        for d in added_deletes
    ]
    return RowDelta(added_deletes=bare, **more)
