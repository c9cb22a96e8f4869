"""MERGE against a plain Python model: random tables, sources, ON conditions and clauses, every mode and format version."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInput
from frazil.rows.clauses import Clause, Do, Merge, When

Row = dict[str, Any]
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("v", pa.int32())])
_names = itertools.count()


def eq(a: Any, b: Any) -> bool | None:
    """Spark's `=`."""
    if a is None or b is None:
        return None
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b)


def lt(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else bool(a < b)


def both(*parts: bool | None) -> bool | None:
    return False if False in parts else None if None in parts else True


Test = Callable[[Row, Row], Any]
ON: list[tuple[str, Test]] = [
    ("target.id = source.id", lambda t, s: eq(t["id"], s["id"])),
    ("source.id <=> target.id", lambda t, s: t["id"] == s["id"]),
    ("target.x = source.x", lambda t, s: eq(t["x"], s["x"])),
    ("target.k = source.k and target.id = source.id", lambda t, s: both(eq(t["k"], s["k"]), eq(t["id"], s["id"]))),
    ("target.id = source.id + 1", lambda t, s: eq(t["id"], None if s["id"] is None else s["id"] + 1)),
    ("target.id = source.id and target.v < source.v", lambda t, s: both(eq(t["id"], s["id"]), lt(t["v"], s["v"]))),
    ("target.id = source.id and target.k = 'a'", lambda t, s: both(eq(t["id"], s["id"]), eq(t["k"], "a"))),
    ("target.id = source.id and source.v > 1", lambda t, s: both(eq(t["id"], s["id"]), lt(1, s["v"]))),
    ("target.v < source.v", lambda t, s: lt(t["v"], s["v"])),
    ("target.k = source.k or target.id = source.id", lambda t, s: True if True in (eq(t["k"], s["k"]), eq(t["id"], s["id"])) else None),
    ("cast(target.v as bigint) = source.id", lambda t, s: eq(t["v"], s["id"])),
    ("false", lambda t, s: False),
]
BOTH: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("source.v > target.v", lambda t, s: lt(t["v"], s["v"])),
    ("source.k = 'b'", lambda t, s: eq(s["k"], "b")),
    ("target.k is null", lambda t, s: t["k"] is None),
]
SOURCE: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("source.v > 1", lambda t, s: lt(1, s["v"])),
    ("k = 'b'", lambda t, s: eq(s["k"], "b")),
]
TARGET: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("target.v > 1", lambda t, s: lt(1, t["v"])),
    ("k is not null", lambda t, s: t["k"] is not None),
]
SETS: list[tuple[dict[str, Any], Callable[[Row, Row], Row]]] = [
    ({"v": "source.v"}, lambda t, s: {"v": s["v"]}),
    ({"k": "source.k", "x": "target.x"}, lambda t, s: {"k": s["k"]}),
    (
        {"id": "target.id + 1", "k": "coalesce(target.k, source.k)"},
        lambda t, s: {"id": _plus(t["id"]), "k": t["k"] if t["k"] is not None else s["k"]},
    ),
    ({"v": 7, "target.x": None}, lambda t, s: {"v": 7, "x": None}),
]
OWN_SETS: list[tuple[dict[str, Any], Callable[[Row, Row], Row]]] = [
    ({"v": "v + 1"}, lambda t, s: {"v": _plus(t["v"])}),
    ({"k": "'gone'", "x": "target.x"}, lambda t, s: {"k": "gone"}),
]
INSERTS: list[tuple[dict[str, Any], Callable[[Row, Row], Row]]] = [
    ({"id": "source.id", "v": "v"}, lambda t, s: {"id": s["id"], "v": s["v"]}),
    ({"id": "id", "k": "'new'", "x": "source.x"}, lambda t, s: {"id": s["id"], "k": "new", "x": s["x"]}),
]


def _plus(value: int | None) -> int | None:
    return None if value is None else value + 1


@dataclass(frozen=True)
class Acting:
    """A clause, and what it means to the model."""

    clause: Clause
    test: Test = field(compare=False)
    new: Callable[[Row, Row], Row] | None = field(default=None, compare=False)


@st.composite
def acting(draw: st.DrawFn, when: When) -> Acting:
    tests = {When.MATCHED: BOTH, When.NOT_MATCHED: SOURCE, When.NOT_MATCHED_BY_SOURCE: TARGET}[when]
    text, test = draw(st.sampled_from(tests))
    do = draw(
        st.sampled_from(
            {
                When.MATCHED: [Do.UPDATE, Do.UPDATE_ALL, Do.DELETE],
                When.NOT_MATCHED: [Do.INSERT, Do.INSERT_ALL],
                When.NOT_MATCHED_BY_SOURCE: [Do.UPDATE, Do.DELETE],
            }[when]
        )
    )
    if do in (Do.UPDATE_ALL, Do.INSERT_ALL):
        return Acting(Clause(when, do, text), test, lambda t, s: dict(s))
    if do is Do.DELETE:
        return Acting(Clause(when, do, text), test)
    given_, new = draw(st.sampled_from({When.MATCHED: SETS, When.NOT_MATCHED: INSERTS, When.NOT_MATCHED_BY_SOURCE: OWN_SETS}[when]))
    return Acting(Clause(when, do, text, tuple(given_.items())), test, new)


@st.composite
def clauses(draw: st.DrawFn) -> list[Acting]:
    found: list[Acting] = []
    for when in When:
        some = draw(st.lists(acting(when), max_size=2))
        found += [a for a in some[:-1] if a.clause.condition is not None] + some[-1:]
    return draw(st.permutations(found)) if len({a.clause.when for a in found}) == len(found) else found


rows = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.integers(0, 6)),
        "k": st.sampled_from([None, "a", "b"]),
        "x": st.sampled_from([None, 0.0, -0.0, 1.5, math.nan]),
        "v": st.one_of(st.none(), st.integers(0, 3)),
    }
)


class Ambiguous(Exception):
    pass


def merged(t: Any, source: list[dict[str, Any]], merge: Merge, mode: str) -> Any:
    with t.transaction() as tx:
        tx.do_merge(pa.Table.from_pylist(source, schema=SCHEMA), merge, mode=mode, runner="in-process")
    return tx.result


def modelled(target: list[Row], source: list[Row], on: Test, acts: list[Acting]) -> list[Row]:
    def first(when: When, t: Row, s: Row) -> Acting | None:
        return next((a for a in acts if a.clause.when is when and a.test(t, s) is True), None)

    matched = [a for a in acts if a.clause.when is When.MATCHED]
    lone = len(matched) == 1 and matched[0].clause.do is Do.DELETE and matched[0].clause.condition is None
    result, hit = [], set()
    for t in target:
        partners = [i for i, s in enumerate(source) if on(t, s) is True]
        hit.update(partners)
        chosen = [(a, source[i]) for i in partners if (a := first(When.MATCHED, t, source[i]))]
        if not partners and (a := first(When.NOT_MATCHED_BY_SOURCE, t, {})):
            chosen = [(a, {})]
        if len(chosen) > 1 and not lone:
            raise Ambiguous
        if not chosen:
            result.append(t)
        elif (new := chosen[0][0].new) is not None:
            result.append({**t, **new(t, chosen[0][1])})
    empty = dict.fromkeys(SCHEMA.names)
    for i, s in enumerate(source):
        if i not in hit and (a := first(When.NOT_MATCHED, {}, s)) and a.new is not None:
            result.append({**empty, **a.new({}, s)})
    return result


def shown(found: list[Row]) -> list[str]:
    return sorted(repr(["nan" if isinstance(v, float) and math.isnan(v) else v for v in (r[n] for n in SCHEMA.names)]) for r in found)


@pytest.fixture(scope="module")
def catalog() -> Any:
    made = frazil.load_catalog("merge", type="memory")
    made.create_namespace("db")
    return made


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    target=st.lists(rows, max_size=9), source=st.lists(rows, max_size=6), on=st.sampled_from(ON), acts=clauses(),
    version=st.sampled_from([2, 3]), mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
    spec=st.sampled_from([[], ["k"], ["bucket(2, id)"]]), deleted=st.sampled_from([None, "v = 0", "id = 2"]),
)  # fmt: skip
def test_a_merge_does_what_a_plain_loop_over_both_sides_does(
    catalog: Any,
    target: list[Row],
    source: list[Row],
    on: tuple[str, Test],
    acts: list[Acting],
    version: int,
    mode: str,
    spec: list[str],
    deleted: str | None,
) -> None:
    if not acts:
        return
    t = catalog.create_table(f"db.t{next(_names)}", SCHEMA, partition_by=spec, format_version=version)
    half = len(target) // 2
    for part in (target[:half], target[half:]):
        t.append(pa.Table.from_pylist(part, schema=SCHEMA))
    if deleted:
        t.delete(deleted, mode="merge-on-read", runner="in-process")
        target = [r for r in target if (r["v"] != 0 if deleted == "v = 0" else r["id"] != 2)]
    ids = {r["_row_id"] for r in t.scan(selected_fields=("_row_id",)).to_arrow().to_pylist()}
    merge = Merge(on[0], tuple(a.clause for a in acts))
    try:
        wanted = modelled(target, source, on[1], acts)
    except Ambiguous:
        with pytest.raises(InvalidInput, match="ambiguous"):
            merged(t, source, merge, mode)
        assert shown(t.to_arrow().to_pylist()) == shown(target)
        return
    result = merged(t, source, merge, mode)
    assert shown(t.to_arrow().to_pylist()) == shown(wanted)
    assert len(wanted) == len(target) + result.rows_inserted - result.rows_deleted
    if version == 3:
        after = [r["_row_id"] for r in t.scan(selected_fields=("_row_id",)).to_arrow().to_pylist()]
        assert len(set(after)) == len(after), "row ids are unique"
        assert len(set(after) & ids) == len(target) - result.rows_deleted, "rows that stay keep their ids"
