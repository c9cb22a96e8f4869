"""Files that a snapshot lists twice are found, cheaply, under whatever spelling."""

from __future__ import annotations

import time
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.scan.listing import listed_twice
from frazil.scan.listing.listed_twice import rows_of_a_repeated_path
from frazil.storage import normalise

BEGINNINGS = [
    "/w/t/",
    "file:/w/t/",
    "file:///w/t/",
    "/w//t/",
    "/",
    "s3://b/t/",
    "s3a://b/t/",
    "s3://b//t/",
    "memory:t/",
    "gs://b/",
    "/w/./t/",
    "s3://b/./t/",
]
NAMES = st.sampled_from(
    [
        "a",
        "part-0.parquet",
        "d=1/part-0.parquet",
        "d=2/part-0.parquet",
        "d=2//part-0.parquet",
        "d=2/./part-0.parquet",
        "x" * 70,
        "y" + "x" * 69,
    ]
)
PATHS = st.lists(st.builds("".join, st.tuples(st.sampled_from(BEGINNINGS), NAMES)), max_size=8)


@pytest.mark.parametrize("few", [0, 2000])
@given(paths=PATHS, before=PATHS)
def test_a_path_is_repeated_when_two_normalise_to_one(
    few: int, paths: list[str], before: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listed_twice, "_FEW", few)
        rows = rows_of_a_repeated_path(pa.array([*before, *paths], pa.string()).slice(len(before)))
    plain = [normalise(p) for p in paths]
    assert (len(rows) > 1) == (len(set(plain)) < len(plain))
    if len(rows):
        (path,) = {plain[n] for n in rows}
        assert [n for n, p in enumerate(plain) if p == path] == rows.tolist()


@pytest.mark.parametrize(
    "beginning",
    ["s3://bucket/warehouse/db/t/data/", "file:/warehouse/db/t/data/", "/warehouse/db/t/data/"],
)
def test_a_hundred_thousand_paths_are_told_apart_in_a_moment(beginning: str) -> None:
    paths = pa.array(
        [
            f"{beginning}day=2026-01-{n % 28:02d}/00000-{n}-{uuid.uuid4()}-00001.parquet"
            for n in range(100_000)
        ]
    )
    times = []
    for _ in range(5):
        begun = time.process_time()
        assert not len(rows_of_a_repeated_path(paths))
        times.append(time.process_time() - begun)
    assert min(times) < 0.06, times
    assert rows_of_a_repeated_path(pa.concat_arrays([paths, paths[777:778]])).tolist() == [
        777,
        100_000,
    ]
    other = (
        pa.array(["file://" + paths[5].as_py().removeprefix("file:")])
        if beginning[0] in "f/"
        else pa.array(["s3a" + paths[5].as_py()[2:]])
    )
    assert rows_of_a_repeated_path(pa.concat_arrays([paths, other])).tolist() == [5, 100_000]
