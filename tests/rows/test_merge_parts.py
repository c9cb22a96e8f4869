"""The parts of a MERGE by themselves: what the source's keys reach, ON taken apart, rows compared,
sources by number.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.values.arrow_schema import from_arrow_schema
from frazil.expr.bind import bind
from frazil.expr.bound import TRUE
from frazil.expr.parse import parse
from frazil.rows import source as rows_source
from frazil.rows.bound_merge import bind_merge
from frazil.rows.clauses import (
    Merge,
    matched_delete,
    matched_update,
    matched_update_all,
    not_matched_by_source_delete,
)
from frazil.rows.merge import equal_rows
from frazil.rows.pairing import Pairing
from frazil.rows.reach import reach
from frazil.rows.sides import sides_of
from frazil.rows.source import MergeSource, SourceFiles, open_source, stage
from frazil.storage import storage_for

TARGET = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)


def bound(on: str, source: pa.Table, *clauses: Any) -> Any:
    sides = sides_of(from_arrow_schema(TARGET), from_arrow_schema(source.schema))
    return bind_merge(Merge(on, clauses or (matched_delete(),)), sides)


def reached(on: str, source: pa.Table, *clauses: Any) -> Any:
    merge = bound(on, source, *clauses)
    return of_table(merge.target_filter(reach(Pairing(merge, MergeSource(source)))))


def of_table(predicate: Any) -> Any:
    return bind(predicate, from_arrow_schema(TARGET))


@pytest.mark.parametrize(
    "on, ids, wanted",
    [
        ("target.id = source.id", [3, 1, None, 3], "id in (1, 3)"),
        ("target.id <=> source.id", [3, None], "id in (3) or id is null"),
        ("target.id = source.id", [None], "false"),
        ("target.id = source.id", [], "false"),
        ("target.id = source.id", list(range(0, 1000, 3)), "id >= 0 and id <= 999"),
        ("target.id = source.id and target.k = 'a'", [5], "id in (5) and k = 'a'"),
        ("target.id = source.id and source.id > 4", [1, 7], "id in (7)"),
        ("target.id + 1 = source.id", [1], "true"),
        ("target.s.a = source.id", [1], "s.a in (1)"),
        ("target.id = source.id or target.k = 'a'", [1], "true"),
        ("target.x = source.id", [1], "x in (1.0)"),
        ("false", [1], "false"),
    ],
)
def test_the_reach_of_the_source_is_what_its_keys_allow(
    on: str, ids: list[Any], wanted: str
) -> None:
    assert reached(on, pa.table({"id": pa.array(ids, pa.int64())})) == of_table(parse(wanted))


def test_not_a_number_among_the_keys_reaches_everything() -> None:
    assert reached("target.x = source.x", pa.table({"x": [1.0, math.nan]})) == TRUE


def test_rows_that_nothing_matches_widen_the_reach() -> None:
    source = pa.table({"id": [1]})
    assert reached(
        "target.id = source.id", source, matched_delete(), not_matched_by_source_delete("k = 'b'")
    ) == of_table(parse("id in (1) or k = 'b'"))
    assert reached("target.id = source.id", source, not_matched_by_source_delete()) == TRUE
    # it may fail where rows do match
    assert (
        reached("target.id = source.id", source, not_matched_by_source_delete("10 / id > 2"))
        == TRUE
    )


def test_on_is_taken_apart_by_side() -> None:
    source = pa.table({"id": [1], "y": ["a"]})
    on = bound(
        "source.id = target.id and k = y and target.x > 1 and y <> 'q' and (target.x < source.id or k is null)",
        source,
    ).on
    assert [str(k.target) for k in on.keys] == ["target.id", "target.k"]
    assert (
        "target.x" in str(on.of_target)
        and "source.y" in str(on.of_source)
        and "source.id" in str(on.rest)
    )


def test_columns_are_read_late_only_when_something_needs_them() -> None:
    source = pa.table({"id": [1], "k": ["a"], "x": [1.0], "s": [{"a": 1, "b": "x"}]}, TARGET)
    whole = bound("target.id = source.id", source, matched_update_all())
    assert whole.tested == {1} and whole.needed_to_update == set()
    part = bound(
        "target.id = source.id",
        source,
        matched_update({"s.a": "source.id", "k": "concat(target.k, 'x')"}),
    )
    names = {f.name for f in from_arrow_schema(TARGET).project(part.needed_to_update).fields}
    assert (
        names == {"id", "k", "x", "s"}
        and from_arrow_schema(TARGET).find_field("s.a").field_id not in part.needed_to_update
    )


values = st.recursive(
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, math.nan])),
    lambda inner: st.one_of(st.none(), st.lists(inner, max_size=3)),
    max_leaves=6,
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (
        isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    )


NESTED = pa.struct(
    [
        ("l", pa.list_(pa.list_(pa.float64()))),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("s", pa.struct([("d", pa.float64())])),
    ]
)
floats = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan])
row = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "l": st.one_of(
                st.none(), st.lists(st.one_of(st.none(), st.lists(floats, max_size=2)), max_size=2)
            ),
            "m": st.one_of(
                st.none(),
                st.lists(
                    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([None, 1])), max_size=2
                ),
            ),
            "s": st.one_of(st.none(), st.fixed_dictionaries({"d": floats})),
        }
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(row, row), max_size=8), st.integers(0, 3))
def test_rows_are_compared_whatever_their_type(pairs: list[Any], cut: int) -> None:
    left, right = (pa.array([p[i] for p in pairs], NESTED).slice(cut) for i in (0, 1))
    plain = [(a, b) for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)]
    assert equal_rows(left, right).tolist() == [same(_lists(a), _lists(b)) for a, b in plain]


def _lists(value: Any) -> Any:
    return (
        None
        if value is None
        else {**value, "m": None if value["m"] is None else [list(p) for p in value["m"]]}
    )


def test_rows_are_taken_by_number_over_many_files(tmp_path: Any) -> None:
    storage, locations = storage_for(str(tmp_path), {}), []
    for part in range(3):
        table = pa.table(
            {
                "n": range(part * 10, part * 10 + 10),
                "t": [f"t{i}" for i in range(part * 10, part * 10 + 10)],
            }
        )
        locations.append(f"{tmp_path}/{part}.arrow")
        with (
            storage.open_output(locations[-1]) as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=4)
    source = open_source(SourceFiles(tuple(locations), storage))
    rows = np.array([29, 0, 17, 0, 12])
    assert source.take(rows, ["t", "n"]).to_pydict() == {
        "t": ["t29", "t0", "t17", "t0", "t12"],
        "n": [29, 0, 17, 0, 12],
    }
    assert [v for b in source.batches(["n"], 8, 5) for v in b.column(0).to_pylist()] == [
        8,
        9,
        10,
        11,
        12,
    ]
    assert pickle.loads(pickle.dumps(source)) is source and source.num_rows == 30
    rows_source.forget(source)


def test_a_source_in_memory_is_opened_once_where_it_arrives() -> None:
    with stage(pa.table({"a": pa.chunked_array([[1], [2, 3]])})) as source:
        first, second = pickle.loads(pickle.dumps(source)), pickle.loads(pickle.dumps(source))
        assert first is second and first.num_rows == 3
        # not what it is cut from
        assert len(pickle.dumps(MergeSource(pa.table({"a": range(100_000)}).slice(5, 2)))) < 3000
        assert first.fact("x", lambda: [1]) is first.fact("x", lambda: [2])
