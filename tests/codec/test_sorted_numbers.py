from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.codec.sorted_numbers import distinct, union, union_of

numbers = st.lists(st.integers(0, 40), max_size=30)
sets = st.lists(st.integers(0, 2**62), max_size=20, unique=True).map(sorted) | st.lists(
    st.integers(0, 25), unique=True
).map(sorted)


@given(numbers, st.sampled_from(["int64", "uint64", "int32"]))
def test_distinct_numbers_ascend_each_once(values: list[int], dtype: str) -> None:
    found = distinct(np.array(values, dtype))
    assert found.tolist() == sorted(set(values)) and found.dtype == dtype


@given(st.lists(sets, max_size=4))
def test_a_union_holds_the_positions_of_all_sets_each_once(parts: list[list[int]]) -> None:
    arrays = [np.array(part, np.int64) for part in parts]
    before = [a.tolist() for a in arrays]
    assert union_of(arrays).tolist() == sorted(set().union(*parts))
    assert [a.tolist() for a in arrays] == before, "a set that others hold, too, was changed"


@given(sets, sets)
def test_a_union_of_two_is_the_same_in_either_order(a: list[int], b: list[int]) -> None:
    one, other = np.array(a, np.int64), np.array(b, np.int64)
    assert union(one, other).tolist() == union(other, one).tolist() == sorted({*a, *b})
