"""The index of deletes, held against the rules of the specification applied one pair at a time."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from frazil.errors import CorruptData, Unsupported
from frazil.scan import deletes as room
from frazil.scan.combine import combine
from frazil.scan.tasks import PlannedFiles
from frazil.spec.manifest import DataFile
from frazil.spec.schema import DELETE_FILE_PATH_ID
from tests.builders.examples import examples
from tests.scan.deleting import (
    NAN,
    PLAIN,
    SCHEMA,
    File,
    files,
    planned,
    really,
    spec_rules,
    vectors_of,
)
from tests.scan.made import MadeFile, data_file


@pytest.mark.parametrize("pairs", [room.PAIRS, 0])
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(made=files())
def test_deletes_reach_the_files_that_the_specification_says(
    monkeypatch: pytest.MonkeyPatch, pairs: int, made: Any
) -> None:
    data, deletes = made
    # 0: no pair is spelled out, ranges are tested when a task is looked at
    monkeypatch.setattr(room, "PAIRS", pairs)
    found = planned(data, deletes)
    by_path = {t.file.file_path: {d.file_path for d in t.delete_files} for t in found.tasks()}
    vectors = vectors_of(data, deletes)
    for file in data:
        allowed = {d.file.file_path for d in deletes if spec_rules(file, d, vectors)}
        needed = {
            d.file.file_path
            for d in deletes
            if d.file.file_path in allowed and (d.kind != "equality" or really(file, d))
        }
        assert needed <= by_path[file.file.file_path] <= allowed
    tasks = list(found.tasks())
    assert found.has_deletes or not any(t.delete_files for t in tasks)
    undecided = {t.file.file_path for t in found.undecided_tasks()}
    alone = {
        t.file.file_path: t.delete_files[0].record_count
        for t in tasks
        if len(t.delete_files) == 1 and t.delete_files[0].is_dv
    }
    # a lone vector tells how many rows it takes
    needed = {t.file.file_path for t in tasks if t.delete_files} - set(alone)
    assert needed == undecided if pairs else needed <= undecided
    known = {
        t.file.file_path: t.file.record_count for t in tasks if t.file.file_path not in undecided
    }
    assert found.matched_records == sum(n - alone.get(path, 0) for path, n in known.items())
    copies = pickle.loads(pickle.dumps(tasks))
    assert [repr(t.delete_files) for t in copies] == [repr(t.delete_files) for t in tasks]
    if pairs:
        assert found.report.result_delete_files == sum(len(t.delete_files) for t in tasks)
        assert found.report.applying_delete_files == len(
            {d for t in tasks for d in by_path[t.file.file_path]}
        )


def one(path: str = "/t/data/f.parquet", sequence: int = 1, **change: Any) -> File:
    made = data_file(path, MadeFile(({1: 1, 2: 1.5, 3: "a"},)), PLAIN, SCHEMA, ())
    return File(replace(made, **change), sequence, PLAIN)


def delete(sequence: int = 2, **change: Any) -> File:
    facts = {
        "content": 1,
        "file_path": "/t/x",
        "file_format": "parquet",
        "record_count": 1,
        "file_size_in_bytes": 9,
        **change,
    }
    return File(DataFile(**facts), sequence, PLAIN, (), "")


def reached(data: File, *deletes: File) -> list[str]:
    (task,) = planned([data], list(deletes)).tasks()
    return [d.file_path for d in task.delete_files]


@pytest.mark.parametrize("ours", ["/w/f", "file:/w/f", "file:///w/f"])
@pytest.mark.parametrize("theirs", ["/w/f", "file:/w/f", "file:///w/f"])
def test_a_file_is_the_same_however_its_path_is_written(ours: str, theirs: str) -> None:
    assert reached(one(ours), delete(referenced_data_file=theirs)) == ["/t/x"]
    bound = {DELETE_FILE_PATH_ID: theirs.encode()}
    assert reached(one(ours), delete(lower_bounds=bound, upper_bounds=bound)) == ["/t/x"]
    wide = delete(lower_bounds=bound, upper_bounds={DELETE_FILE_PATH_ID: theirs.encode() + b"x"})
    assert reached(one(ours), wide) == ["/t/x"]


def test_bounds_name_the_file_where_a_copy_still_refers_to_the_original() -> None:
    """As Java's `rewrite_table_path` leaves it. A reference to another file of the same place is
    right, whatever the bounds say.
    """
    bound = {DELETE_FILE_PATH_ID: b"/copy/data/f.parquet"}
    moved = delete(referenced_data_file="/t/data/f.parquet", lower_bounds=bound, upper_bounds=bound)
    assert (
        reached(one("/copy/data/f.parquet"), moved) == ["/t/x"]
        and reached(one("/t/data/f.parquet"), moved) == []
    )
    other = delete(
        referenced_data_file="/copy/data/g.parquet", lower_bounds=bound, upper_bounds=bound
    )
    assert (
        reached(one("/copy/data/g.parquet"), other) == ["/t/x"]
        and reached(one("/copy/data/f.parquet"), other) == []
    )


def test_paths_outside_the_bounds_of_a_position_delete_file_are_ruled_out() -> None:
    wide = delete(
        lower_bounds={DELETE_FILE_PATH_ID: b"/t/data/c"},
        upper_bounds={DELETE_FILE_PATH_ID: b"/t/data/g"},
    )
    assert reached(one("/t/data/f"), wide) == ["/t/x"]
    assert reached(one("/t/data/h"), wide) == []
    assert reached(one("/t/data/b"), wide) == []


def test_two_deletion_vectors_of_one_file_are_corrupt() -> None:
    vector = {
        "file_format": "puffin",
        "referenced_data_file": "/t/data/f.parquet",
        "content_offset": 4,
        "content_size_in_bytes": 40,
    }
    with pytest.raises(CorruptData, match=r"f\.parquet has 2 deletion vectors"):
        reached(one(), delete(**vector), delete(**{**vector, "file_path": "/t/y"}))


@pytest.mark.parametrize("name", ["/t/data/f.parquet", "file:/t/data/f.parquet"])
def test_a_deletion_vector_that_is_older_than_its_data_file_is_an_error_as_in_java(
    name: str,
) -> None:
    vector = delete(
        file_format="puffin", referenced_data_file=name, content_offset=4, content_size_in_bytes=40
    )
    assert reached(one(), replace(vector, sequence=1)) == ["/t/x"]
    old = r"DV data sequence number \(0\) must be greater than or equal to data file sequence number \(1\)"
    with pytest.raises(CorruptData, match=old) as refused:
        reached(one(), replace(vector, sequence=0))
    assert refused.value.facts == {"file": "/t/x", "data_file": "/t/data/f.parquet"}
    assert reached(one(), replace(delete(referenced_data_file=name), sequence=0)) == [], (
        "position delete files are passed over"
    )


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"content": 0}, CorruptData, "is not a delete file"),
        ({"content": 2}, CorruptData, "does not say which columns"),
        (
            {"content": 2, "equality_ids": (1,), "file_format": "puffin"},
            CorruptData,
            "is a puffin file",
        ),
        ({"file_format": "puffin"}, CorruptData, "has no referenced_data_file"),
        ({"key_metadata": b"k"}, Unsupported, "encrypted"),
    ],
)
def test_delete_files_that_make_no_sense_are_refused_by_name(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as refused:
        reached(one(), delete(**change))
    assert refused.value.facts["file"] == "/t/x"


def test_a_nan_or_null_key_is_never_ruled_out_by_bounds() -> None:
    for value in (NAN, None):
        rows = ({1: 1, 2: value, 3: "a"}, {1: 1, 2: 1.5, 3: "a"})
        ours = File(data_file("/t/data/f", MadeFile(rows), PLAIN, SCHEMA, ()), 1, PLAIN, rows)
        keys = data_file(
            "", MadeFile(({1: 1, 2: value, 3: "a"}, {1: 1, 2: 9.5, 3: "a"})), PLAIN, SCHEMA, ()
        )
        facts = {
            n: getattr(keys, n)
            for n in (
                "value_counts",
                "null_value_counts",
                "nan_value_counts",
                "lower_bounds",
                "upper_bounds",
            )
        }
        assert reached(ours, delete(content=2, equality_ids=(2,), record_count=2, **facts)) == [
            "/t/x"
        ]


def test_bounds_that_are_apart_rule_a_delete_file_out_also_when_they_are_older_and_narrower() -> (
    None
):
    for low, high, want in ((5, 9, []), (0, 9, ["/t/x"])):
        for width in ("<i4", "<i8"):
            bounds = [{1: np.array(v, width).tobytes()} for v in (low, high)]
            facts = {
                "lower_bounds": bounds[0],
                "upper_bounds": bounds[1],
                "value_counts": {1: 1},
                "null_value_counts": {1: 0},
            }
            assert reached(one(), delete(content=2, equality_ids=(1,), **facts)) == want


def test_bounds_that_cannot_be_rule_no_delete_file_out() -> None:
    """Lower above upper, of the delete file or of the data file."""
    low, high = ({1: np.array(v, "<i8").tobytes()} for v in (5, 9))
    counts = {"value_counts": {1: 1}, "null_value_counts": {1: 0}}
    by_key = {"content": 2, "equality_ids": (1,), **counts}
    assert reached(one(), delete(**by_key, lower_bounds=low, upper_bounds=high)) == []
    assert reached(one(), delete(**by_key, lower_bounds=high, upper_bounds=low)) == ["/t/x"]
    assert reached(
        one(lower_bounds=high, upper_bounds=low),
        delete(**by_key, lower_bounds=low, upper_bounds=low),
    ) == ["/t/x"]
    paths = [{DELETE_FILE_PATH_ID: p} for p in (b"/t/data/g", b"/t/data/c")]
    for path in ("/t/data/b", "/t/data/f", "/t/data/h"):
        assert reached(one(path), delete(lower_bounds=paths[0], upper_bounds=paths[1])) == ["/t/x"]


def test_deletes_weigh_in_when_tasks_are_packed() -> None:
    found = planned(
        [one(f"/t/data/{i}", file_size_in_bytes=100) for i in range(4)],
        [delete(file_size_in_bytes=350, content=2, equality_ids=(1,))],
    )
    assert [len(c) for c in combine(found.tasks(), split_size=1000, open_file_cost=1)] == [2, 2]
    assert all(t.size_bytes == 450 for t in found.tasks())


def test_planned_files_cannot_lose_their_deletes() -> None:
    (group,) = planned([one()], [delete()]).groups
    with pytest.raises(ValueError, match="need the delete index"):
        PlannedFiles(group.spec, group.table)
    assert [d.file_path for d in group.chosen([0]).delete_files(0)] == ["/t/x"]
