"""SET of UPDATE and VALUES of INSERT by themselves: which columns keep their values, get new ones or
their default, and what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.arrow.values.arrow_schema import to_arrow_field
from frazil.errors import EvaluationError, FrazilError, InvalidInput, SchemaMismatch
from frazil.expr.bind import bind_term
from frazil.rows.assign import bind_insert, bind_update, name_parts, typed_name
from frazil.spec.ddl import parse_schema
from frazil.spec.schema import Schema

_PARSED = parse_schema("id bigint not null, n int, s struct<a: int, b: string>, l array<int>")
SCHEMA = Schema(*(replace(f, write_default=7) if f.name == "n" else f for f in _PARSED.fields))
ROWS = pa.RecordBatch.from_pylist(
    [
        {"id": 1, "n": 10, "s": {"a": 1, "b": "x"}, "l": [1]},
        {"id": 2, "n": None, "s": None, "l": None},
    ],
    pa.schema([to_arrow_field(f) for f in SCHEMA.fields]),
)


def updated(values: Mapping[str, Any], schema: Schema = SCHEMA) -> list[dict[str, Any]]:
    assignments = bind_update(schema, values.items(), partial(bind_term, schema=schema))
    return list(assignments.apply(ROWS).to_pylist())


def inserted(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    assignments = bind_insert(SCHEMA, values.items(), partial(bind_term, schema=SCHEMA))
    return list(assignments.apply(ROWS).to_pylist())


def test_columns_that_are_not_assigned_keep_their_values() -> None:
    before = ROWS.to_pylist()
    assert updated({"n": "id * 2"}) == [{**before[0], "n": 2}, {**before[1], "n": 4}]
    assignments = bind_update(SCHEMA, [("n", "id")], partial(bind_term, schema=SCHEMA))
    by_name = {SCHEMA.find_column_name(i) for i in assignments.kept}
    assert "n" not in by_name and {"id", "s", "l"} <= by_name
    assert [r.name for r in assignments.read.values()] == ["id"]


def test_a_member_is_assigned_beside_the_others_of_its_struct() -> None:
    assert [r["s"] for r in updated({"s.a": "id + 5"})] == [
        {"a": 6, "b": "x"},
        {"a": 7, "b": None},
    ]


def test_all_assignments_see_the_old_values() -> None:
    swapped = updated({"n": "s.a", "s.a": "n"})
    assert (swapped[0]["n"], swapped[0]["s"]["a"]) == (1, 10)


def test_an_insert_gives_other_columns_their_default_or_null() -> None:
    assert inserted({"id": "id + 1"}) == [
        {"id": 2, "n": 7, "s": None, "l": None},
        {"id": 3, "n": 7, "s": None, "l": None},
    ]


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({"m": 1}, FrazilError, "m"),
        ({"n": "n + 2147483647"}, EvaluationError, "Column n"),
        ({"id": "n"}, FrazilError, "id"),
        ({"n": "new"}, FrazilError, "write a constant with quotes"),
        ({"n": "s.b"}, SchemaMismatch, "n"),
        ({"n": 1, "N": 2}, FrazilError, "N"),
        ({"s": None, "s.a": 1}, InvalidInput, "s"),
        ({"l[0]": 1}, FrazilError, "l"),
    ],
)
def test_what_cannot_be_assigned_is_refused_by_the_columns_name(
    values: Mapping[str, Any], error: type[FrazilError], says: str
) -> None:
    with pytest.raises(error) as raised:
        updated(values)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("values", "says"), [({"n": 1}, "id is required"), ({"id": 1, "s.a": 1}, "s.a")]
)
def test_an_insert_takes_whole_columns_and_all_that_are_required(
    values: Mapping[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        inserted(values)
    assert says in str(raised.value)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_typed_name_is_split_into_its_parts(parts: list[str]) -> None:
    assert name_parts(typed_name(parts)) == tuple(parts)
