"""Sets of keys against Python's own."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.deletes import key_set
from frazil.arrow.deletes.key_set import (
    HashFilter,
    KeySet,
    SpilledKeys,
    canonical,
    hash_columns,
)
from frazil.arrow.values.arrays import array_of
from frazil.spec.types import IcebergType
from frazil.storage.base import temporary_folder
from tests.arrow.support import LEAVES, leaf_values


@st.composite
def keys(draw: Any) -> tuple[list[IcebergType], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Types of the columns, keys of the set, rows to look for (some of them keys)."""
    types = draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3))
    pool = st.tuples(
        *(
            st.none() | st.sampled_from(draw(st.lists(leaf_values(t), min_size=1, max_size=4)))
            for t in types
        )
    )
    return types, draw(st.lists(pool, max_size=12)), draw(st.lists(pool, max_size=12))


def columns(types: list[IcebergType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [canonical(array_of(t, [r[i] for r in rows])) for i, t in enumerate(types)]


def told_apart(types: list[IcebergType], rows: list[tuple[Any, ...]]) -> list[str]:
    """NaN equals NaN, zeros differ, floats as they are stored."""
    return [
        repr(r)
        for r in zip(
            *(array_of(t, [r[i] for r in rows]).to_pylist() for i, t in enumerate(types)),
            strict=True,
        )
    ]


@pytest.mark.parametrize("collide", [False, True])
@settings(max_examples=120, deadline=None)
@given(made=keys())
def test_a_set_has_its_keys_and_no_others(collide: bool, made: Any) -> None:
    types, held, asked = made
    hashed = key_set.hash_columns
    if collide:  # every key in one bucket: the hash decides nothing
        key_set.hash_columns = lambda c: np.zeros(len(c[0]), np.uint64)
    try:
        found = KeySet.of(columns(types, held)).has(columns(types, asked))
    finally:
        key_set.hash_columns = hashed
    want = set(told_apart(types, held)) if held else set()
    assert found.tolist() == [r in want for r in (told_apart(types, asked) if asked else [])]


@settings(max_examples=40, deadline=None)
@given(made=keys(), cut=st.integers(1, 5))
def test_a_set_on_disk_answers_as_one_in_memory(made: Any, cut: int) -> None:
    types, held, asked = made
    batches = [columns(types, held[at : at + cut]) for at in range(0, len(held), cut)]
    found = SpilledKeys.of(batches, 0).has(columns(types, asked))
    assert found.tolist() == KeySet.of(columns(types, held)).has(columns(types, asked)).tolist()


def test_folders_of_killed_processes_are_removed_and_those_of_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = tmp_path / "frazil-keys-killed"
    killed.mkdir()
    (killed / "lock").touch()
    with temporary_folder("sort") as own:
        SpilledKeys.of([[pa.array([1])]], 0)
        assert list(tmp_path.iterdir()) == [Path(own)] and not killed.exists()
    assert not list(tmp_path.iterdir())


def test_keys_that_repeat_are_held_once() -> None:
    found = KeySet.of([pa.array([7, 7, None, 7, None] * 1000)])
    assert len(found) == 2
    assert found.has([pa.array([None, 7, 8])]).tolist() == [True, True, False]


def test_a_slice_of_a_column_is_looked_up_as_what_it_shows() -> None:
    for values in (
        [Decimal(i) for i in range(100)],
        [str(i) for i in range(100)],
        [bytes([i]) for i in range(100)],
        list(range(100)),
    ):
        array = pa.array(values)
        assert (
            KeySet.of([array.slice(10, 5)]).has([array.slice(8, 9)]).tolist()
            == [False] * 2 + [True] * 5 + [False] * 2
        )


def test_many_keys_are_found_among_many_rows() -> None:
    held = KeySet.of(
        [pa.array(np.arange(0, 300_000, 3)), pa.array([str(i % 7) for i in range(0, 300_000, 3)])]
    )
    rows = np.arange(100_000)
    found = held.has([pa.array(rows), pa.array([str(i % 7) for i in rows])])
    assert found.tolist() == [i % 3 == 0 for i in rows]
    assert held.nbytes < 100_000 * (key_set.KEY_BYTES + 8 + 8)


@pytest.mark.parametrize("step", [1, 7, 1 << 40, (1 << 63) // 50_000])
def test_a_filter_passes_its_keys_and_few_others(step: int) -> None:
    values = np.arange(40_000) * step
    held = [pa.array(values[::2])]
    filter_ = HashFilter.for_keys(len(held[0]))
    filter_.add(held, hash_columns(held))
    rows, hashes = filter_.rows([pa.array(values)])
    assert set(range(0, 40_000, 2)) <= set(rows.tolist())
    assert len(rows) < 20_000 + 20_000 / 2
    assert (hashes == hash_columns([pa.array(values[rows])])).all()


def test_a_filter_passes_null_where_null_was_added() -> None:
    for columns in (
        [pa.array([None, 3], pa.int32())],
        [pa.array([None, 3]), pa.array(["a", None])],
    ):
        filter_ = HashFilter.for_keys(2)
        filter_.add(columns, hash_columns(columns))
        rows, _ = filter_.rows(columns)
        assert rows.tolist() == [0, 1]
