"""The index over a source's keys against a loop: in memory and on disk, duplicates, nulls, NaN,
several columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.deletes import key_set
from frazil.rows import key_index
from frazil.rows.key_index import KeyIndex, comparable_key, every_pair
from frazil.rows.key_index import index_on_disk as on_disk
from tests.builders.examples import examples

values = {
    pa.int64(): st.one_of(
        st.none(), st.integers(-3, 3), st.sampled_from([2**62, -(2**63), 2**63 - 1])
    ),
    pa.int32(): st.one_of(st.none(), st.integers(-2, 2), st.sampled_from([-(2**31), 2**31 - 1])),
    pa.string(): st.sampled_from([None, "", "a", "b", "ab"]),
    pa.float64(): st.sampled_from([None, 0.0, -0.0, math.nan, 1.5, math.inf]),
    pa.decimal128(20, 2): st.one_of(st.none(), st.decimals(-3, 3, places=2)),
    pa.bool_(): st.sampled_from([None, True, False]),
}


def same(a: Any, b: Any, null_safe: bool) -> bool:
    if a is None or b is None:
        return null_safe and a is b
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


@st.composite
def sides(draw: st.DrawFn) -> Any:
    types = draw(st.lists(st.sampled_from(list(values)), min_size=1, max_size=2))
    columns = lambda: [draw(st.lists(values[t], min_size=size, max_size=size)) for t in types]
    size = draw(st.integers(0, 12))
    source = columns()
    size = draw(st.integers(0, 12))
    return (
        types,
        source,
        columns(),
        draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types))),
    )


@settings(max_examples=examples(300), deadline=None)
@given(sides(), st.booleans())
def test_it_finds_the_pairs_that_a_loop_finds(given_: Any, in_memory: bool) -> None:
    types, source, target, safe = given_
    keys = [comparable_key(pa.array(c, t)) for c, t in zip(source, types, strict=True)]
    asked = [comparable_key(pa.array(c, t)) for c, t in zip(target, types, strict=True)]
    if in_memory:
        index = KeyIndex.of(keys, safe)
    else:
        parts = [[k.slice(0, 5) for k in keys], [k.slice(5) for k in keys]]
        index = on_disk(parts, safe, lambda rows: [k.take(pa.array(rows)) for k in keys])
    found = sorted(
        (int(a), int(b)) for at, rows in index.pairs(asked) for a, b in zip(at, rows, strict=True)
    )
    wanted = sorted(
        (i, j)
        for i in range(len(target[0]))
        for j in range(len(source[0]))
        if all(same(t[i], s[j], n) for t, s, n in zip(target, source, safe, strict=True))
    )
    assert found == wanted


def test_hashes_that_meet_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (key_index, key_set):
        monkeypatch.setattr(
            module, "hash_columns", lambda columns: np.full(len(columns[0]), 7, np.uint64)
        )
    keys, asked = [pa.array(["a", "b", "a"])], [pa.array(["b", "x", "a"])]
    for index in (
        KeyIndex.of(keys, [False]),
        on_disk([keys], [False], lambda rows: [keys[0].take(pa.array(rows))]),
    ):
        found = [
            (a, b)
            for at, rows in index.pairs(asked)
            for a, b in zip(at.tolist(), rows.tolist(), strict=True)
        ]
        assert sorted(found) == [(0, 1), (2, 0), (2, 2)]


def test_one_key_in_every_row_comes_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "PAIRS", 100)
    index = KeyIndex.of([pa.array([1] * 50)], [False])
    sizes = [len(at) for at, _ in index.pairs([pa.array([1, 2, 1, 1, 1])])]
    assert sizes == [100, 100]


def test_every_pair_comes_once_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "PAIRS", 6)
    found = [
        (a, b)
        for at, rows in every_pair([0, 2, 5], 4)
        for a, b in zip(at.tolist(), rows.tolist(), strict=True)
    ]
    assert sorted(found) == [(a, b) for a in (0, 2, 5) for b in range(4)]
    assert list(every_pair([], 4)) == [] == list(every_pair([1], 0))
