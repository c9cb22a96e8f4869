"""MERGE against the model: random tables, sources, ON conditions and clauses, every mode and format
version; no column tells rows apart.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.errors import InvalidInput
from frazil.spec.ddl import parse_schema
from tests.builders.examples import examples
from tests.model import sql
from tests.model.merge import BY_SOURCE, MATCHED, NOT_MATCHED, ModelClause, ModelMerge
from tests.model.play import PRELUDE
from tests.model.sql import Expr, both, column, compare, literal, of
from tests.model.state import Refused, begun
from tests.model.values import Column, as_set, ddl

COLUMNS = (
    Column(1, "id", "long"),
    Column(2, "k", "string"),
    Column(3, "x", "double"),
    Column(4, "v", "int"),
)
NAMES = tuple(c.name for c in COLUMNS)
SCHEMA = to_arrow_schema(parse_schema(ddl(COLUMNS)))
_names = itertools.count()

T_ID, T_K, T_X, T_V = (column(name, "target") for name in NAMES)
S_ID, S_K, S_X, S_V = (column(name, "source") for name in NAMES)
SAME_ID, SAME_K = compare(T_ID, "=", S_ID), compare(T_K, "=", S_K)
ON: list[Expr] = [
    SAME_ID,
    compare(S_ID, "<=>", T_ID),
    compare(T_X, "=", S_X),
    both(SAME_K, SAME_ID),
    of("target.id = source.id + 1", lambda t, s: t == s + 1, T_ID, S_ID),
    both(SAME_ID, compare(T_V, "<", S_V)),
    both(SAME_ID, compare(T_K, "=", literal("a", "string"))),
    both(SAME_ID, of("source.v > 1", lambda v: v > 1, S_V)),
    compare(T_V, "<", S_V),
    sql.either(SAME_K, SAME_ID),
    of("cast(target.v as bigint) = source.id", lambda v, i: v == i, T_V, S_ID),
    of("false", lambda: False),
]
CONDITIONS: dict[tuple[str, ...], list[Expr | None]] = {
    MATCHED: [
        None,
        of("source.v > target.v", lambda s, t: s > t, S_V, T_V),
        compare(S_K, "=", literal("b", "string")),
        sql.is_null(T_K),
    ],
    NOT_MATCHED: [
        None,
        of("source.v > 1", lambda v: v > 1, S_V),
        of("k = 'b'", lambda k: k == "b", S_K),
    ],
    BY_SOURCE: [
        None,
        of("target.v > 1", lambda v: v > 1, T_V),
        of("k is not null", lambda k: k is not None, T_K, nulls=True),
    ],
}
Sets = tuple[tuple[str, Expr], ...]
SETS: dict[tuple[str, ...], list[Sets]] = {
    MATCHED: [
        (("v", S_V),),
        (("k", S_K), ("x", T_X)),
        (("id", of("target.id + 1", lambda i: i + 1, T_ID)), ("k", sql.coalesce(T_K, S_K))),
        (("v", sql.given(7)), ("target.x", sql.given(None))),
    ],
    NOT_MATCHED: [
        (("id", S_ID), ("v", of("v", lambda v: v, S_V))),
        (("id", of("id", lambda i: i, S_ID)), ("k", literal("new", "string")), ("x", S_X)),
    ],
    BY_SOURCE: [
        (("v", of("v + 1", lambda v: v + 1, T_V)),),
        (("k", literal("gone", "string")), ("x", T_X)),
    ],
}


@st.composite
def clause(draw: st.DrawFn, kinds: tuple[str, ...]) -> ModelClause:
    condition, kind = draw(st.sampled_from(CONDITIONS[kinds])), draw(st.sampled_from(kinds))
    return ModelClause(
        kind,
        condition,
        () if kind.endswith(("_all", "delete")) else draw(st.sampled_from(SETS[kinds])),
    )


@st.composite
def clauses(draw: st.DrawFn) -> list[ModelClause]:
    found: list[ModelClause] = []
    lone = True
    for kinds in (MATCHED, NOT_MATCHED, BY_SOURCE):
        some = draw(st.lists(clause(kinds), max_size=2))
        some = [c for c in some[:-1] if c.condition is not None] + some[-1:]
        lone, found = lone and len(some) < 2, found + some
    return draw(st.permutations(found)) if lone else found


rows = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.integers(0, 6)),
        "k": st.sampled_from([None, "a", "b"]),
        "x": st.sampled_from([None, 0.0, -0.0, 1.5, math.nan]),
        "v": st.one_of(st.none(), st.integers(0, 3)),
    }
)


@pytest.fixture(scope="module")
def catalog() -> Any:
    made = frazil.load_catalog("merge", type="memory")
    made.create_namespace("db")
    return made


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    target=st.lists(rows, max_size=9),
    source=st.lists(rows, max_size=6).map(tuple),
    on=st.sampled_from(ON),
    some=clauses(),
    version=st.sampled_from([2, 3]),
    mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
    spec=st.sampled_from([[], ["k"], ["bucket(2, id)"]]),
    deleted=st.sampled_from([None, "v = 0", "id = 2"]),
)
def test_a_merge_does_what_a_plain_loop_over_both_sides_does(
    catalog: Any,
    target: list[dict[str, Any]],
    source: tuple[dict[str, Any], ...],
    on: Expr,
    some: list[ModelClause],
    version: int,
    mode: str,
    spec: list[str],
    deleted: str | None,
) -> None:
    if not some:
        return
    t = catalog.create_table(
        f"db.t{next(_names)}", SCHEMA, partition_by=spec, format_version=version
    )
    half = len(target) // 2
    for part in (target[:half], target[half:]):
        t.append(pa.Table.from_pylist(part, schema=SCHEMA))
    if deleted:
        t.delete(deleted, mode="merge-on-read", runner="in-process")
        target = [r for r in target if (r["v"] != 0 if deleted == "v = 0" else r["id"] != 2)]
    ids = {r["_row_id"] for r in t.scan(selected_fields=("_row_id",)).to_arrow().to_pylist()}
    merge, model = ModelMerge(source, NAMES, on, tuple(some), mode=mode), begun(COLUMNS, target)
    names: dict[str, Any] = {"t": t}
    exec(PRELUDE, names)
    try:
        merge.apply(model)
    except Refused:
        with pytest.raises(InvalidInput, match="ambiguous"):
            exec(merge.code(), names)
        assert as_set(t.to_arrow().to_pylist()) == as_set(target)
        return
    exec(merge.code(), names)
    result = names["result"]
    assert as_set(t.to_arrow().to_pylist()) == as_set(model.named())
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (
        model.inserted,
        model.updated,
        model.deleted,
    )
    if version == 3:
        after = [r["_row_id"] for r in t.scan(selected_fields=("_row_id",)).to_arrow().to_pylist()]
        assert len(set(after)) == len(after), "row ids are unique"
        assert len(set(after) & ids) == len(target) - result.rows_deleted, (
            "rows that stay keep their ids"
        )
