"""Rows that went and came again: digests of rows of every type, and what stays of a history, held
against plain Python.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.changelog.changelog_match import Marks, Matcher
from frazil.arrow.values.row_digest import LONG, row_digests
from tests.builders.examples import examples

NAN = math.nan


def told(columns: list[pa.Array]) -> list[tuple[int, int]]:
    halves = row_digests(columns, len(columns[0]))
    return list(zip(halves[0].tolist(), halves[1].tolist(), strict=True))


def exact(value: Any) -> Any:
    """A value such that Python's equality is the one that is meant."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):  # a map
            return ("map", frozenset((exact(k), exact(v)) for k, v in value))
        return ("list", *(exact(v) for v in value))
    if isinstance(value, dict):
        return ("struct", *((k, exact(value[k])) for k in sorted(value)))
    return (type(value).__name__, value)


floats = st.sampled_from([0.0, -0.0, 1.5, NAN, math.inf, None])
texts = (
    st.none()
    | st.text(max_size=20)
    | st.sampled_from(["", "a", "ab", "abcdefgh", "abcdefghi", "x" * (LONG - 1), "x" * (LONG + 1)])
)
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.sampled_from([0, 1, -1, None])),
    (pa.int64(), st.sampled_from([0, 1, 2**62, None])),
    (pa.bool_(), st.booleans() | st.none()),
    (pa.float64(), floats),
    (
        pa.decimal128(20, 2),
        st.none()
        | st.sampled_from(
            [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("123456789012345678.99")]
        ),
    ),
    (pa.string(), texts),
    (pa.binary(2), st.none() | st.binary(min_size=2, max_size=2)),
    (pa.date32(), st.sampled_from([0, 1, -1, None])),
    (pa.list_(pa.string()), st.none() | st.lists(texts, max_size=3)),
    (
        pa.list_(pa.list_(pa.int32())),
        st.none()
        | st.lists(st.none() | st.lists(st.sampled_from([0, 1, None]), max_size=2), max_size=3),
    ),
    (
        pa.map_(pa.string(), pa.float64()),
        st.none()
        | st.dictionaries(st.sampled_from(["a", "b", "ab", ""]), floats, max_size=3).map(
            lambda d: list(d.items())
        ),
    ),
    (
        pa.struct([("u", pa.int32()), ("v", pa.list_(pa.string()))]),
        st.none()
        | st.fixed_dictionaries(
            {"u": st.sampled_from([0, 1, None]), "v": st.none() | st.lists(texts, max_size=2)}
        ),
    ),
]


@st.composite
def tables(draw: Any) -> tuple[list[pa.DataType], list[list[Any]]]:
    chosen = draw(st.lists(st.sampled_from(range(len(TYPES))), min_size=1, max_size=3))
    rows = draw(
        st.lists(st.tuples(*(TYPES[n][1] for n in chosen)).map(list), min_size=1, max_size=8)
    )
    return [TYPES[n][0] for n in chosen], rows


@settings(max_examples=examples(150), deadline=None)
@given(made=tables(), begin=st.integers(0, 3))
def test_digests_are_equal_exactly_when_rows_are(made: Any, begin: int) -> None:
    types, rows = made
    columns = [pa.array([r[n] for r in rows], t) for n, t in enumerate(types)]
    digests = told(columns)
    meant = [tuple(exact(v) if v is not None else None for v in r) for r in rows]
    for a in range(len(rows)):
        for b in range(a):
            assert (digests[a] == digests[b]) == (meant[a] == meant[b]), (rows[a], rows[b])
    assert told([c.slice(begin) for c in columns]) == digests[begin:]


def test_digests_never_change() -> None:
    """Tasks of one changelog may run in different processes, of different builds."""
    columns = [
        pa.array([1, None], pa.int64()),
        pa.array(["frazil", None]),
        pa.array([[1.5, None], None], pa.list_(pa.float64())),
    ]
    assert told(columns) == DIGESTS


DIGESTS: list[tuple[int, int]] = [
    (17781905179000829883, 13483588722139494483),
    (2879853308351417769, 10095655301765045435),
]


# Matching
# ------------------------------------------------------------------------------------------------------------------------------

# (order, inserted, row, key): a task's rows
steps = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=6),
    ),
    max_size=6,
)


def halves(numbers: list[int]) -> tuple[Any, Any]:
    rows = row_digests([pa.array(numbers, pa.int64())], len(numbers))
    return rows[0], rows[1]


def matched(
    tasks: list[Any], keyed: bool, budget: int
) -> tuple[Counter[Any], Counter[Any], Matcher]:
    """(task, row) that stay, and those told as updates."""
    with Matcher(
        [t[1] for t in tasks], [t[0] for t in tasks], [len(t[2]) for t in tasks], keyed, budget
    ) as matcher:
        for n, (_, _, rows) in enumerate(tasks):
            places = np.arange(len(rows))
            matcher.add(
                n,
                places,
                halves([10 * k + v for k, v in rows]),
                halves([k for k, _ in rows]) if keyed else None,
            )
        verdicts = matcher.verdicts()
    stays, updates = Counter[Any](), Counter[Any]()
    for n, (order, inserted, rows) in enumerate(tasks):
        kept, told_ = (
            verdicts[n].stays.get(np.arange(len(rows))),
            verdicts[n].updates.get(np.arange(len(rows))),
        )
        stays.update((order, inserted, r) for r, k in zip(rows, kept, strict=True) if k)
        updates.update((order, inserted, r) for r, k in zip(rows, told_, strict=True) if k)
    assert matcher.staying == stays.total()
    return stays, updates, matcher


@settings(max_examples=examples(150), deadline=None)
@given(tasks=steps, budget=st.sampled_from([1, 10_000_000]))
def test_rows_that_came_and_went_cancel_as_brackets_do(tasks: list[Any], budget: int) -> None:
    stays, _, matcher = matched(tasks, False, budget)
    open_: dict[Any, list[Any]] = {}
    for order, inserted, rows in sorted(tasks, key=lambda t: t[:2]):
        # of one snapshot those that go first
        for row in rows:
            stack = open_.setdefault(row, [])
            if stack and stack[-1][1] != inserted:
                stack.pop()
            else:
                stack.append((order, inserted, row))
    assert stays == Counter(x for stack in open_.values() for x in stack)
    assert (matcher.spilled > 0) == (budget == 1 and any(t[2] for t in tasks))


@settings(max_examples=examples(150), deadline=None)
@given(tasks=steps, budget=st.sampled_from([1, 10_000_000]))
def test_updates_are_pairs_of_one_key(tasks: list[Any], budget: int) -> None:
    tasks = [(0, inserted, rows) for _, inserted, rows in tasks]
    stays, updates, _ = matched(tasks, True, budget)
    assert not updates - stays
    for key in range(4):
        gone, come = (
            sum(c for (_, i, r), c in stays.items() if i == inserted and r[0] == key)
            for inserted in (False, True)
        )
        paired = [
            sum(c for (_, i, r), c in updates.items() if i == inserted and r[0] == key)
            for inserted in (False, True)
        ]
        assert paired == [min(gone, come)] * 2


def test_what_was_spilled_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    numbers = list(range(5000))
    with Matcher([False, True], [0, 0], [5000, 5000], budget=1000) as matcher:
        for task in (0, 1):
            matcher.add(task, np.arange(5000), halves([n + 7 * task for n in numbers]))
        found = matcher.verdicts()
        assert matcher.spilled == 10_000
        assert list(tmp_path.rglob("*"))
    assert matcher.staying == 14
    assert np.flatnonzero(found[0].stays.get(np.arange(5000))).tolist() == list(range(7))
    assert np.flatnonzero(found[1].stays.get(np.arange(5000))).tolist() == list(range(4993, 5000))
    assert not list(tmp_path.rglob("*"))


def test_marks_are_bits() -> None:
    marks = Marks(20)
    marks.set(np.array([0, 7, 8, 19]))
    assert np.flatnonzero(marks.get(np.arange(20))).tolist() == [0, 7, 8, 19]
