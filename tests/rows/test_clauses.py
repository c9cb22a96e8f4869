"""The clauses of a MERGE, and the columns that schema evolution adds, by themselves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue
from frazil.expr.parse import parse
from frazil.rows.bound_merge import columns_to_add
from frazil.rows.clauses import (
    Clause,
    Do,
    Merge,
    When,
    matched_delete,
    matched_update,
    matched_update_all,
    not_matched_by_source_delete,
    not_matched_insert,
    not_matched_insert_all,
)
from frazil.rows.upsert import upsert_of
from frazil.spec.ddl import parse_schema
from frazil.spec.types import IcebergType

ON = "target.id = source.id"


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ((matched_delete(),), False),
        ((matched_delete("target.x > 1"),), True),
        ((matched_update_all(),), True),
        ((matched_delete("target.x > 1"), matched_delete()), True),
        ((not_matched_insert_all(), not_matched_by_source_delete()), False),
        ((), False),
    ],
)
def test_a_lone_delete_of_matched_rows_takes_any_number_of_source_rows(
    clauses: tuple[Clause, ...], expected: bool
) -> None:
    assert Merge(ON, clauses).checks_cardinality == expected


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ((matched_update_all("source.x > 1"),), True),
        ((matched_update_all("source.x > 1"), matched_delete()), False),
        ((matched_update_all(AlwaysTrue()),), False),
        ((not_matched_insert_all("source.x > 1"),), False),
    ],
)
def test_matched_rows_are_passed_over_where_each_clause_has_a_condition(
    clauses: tuple[Clause, ...], expected: bool
) -> None:
    assert Merge(ON, clauses).may_pass_over_matches == expected


@pytest.mark.parametrize(
    ("merge", "says"),
    [
        (Merge(ON), "at least one"),
        (Merge(["id"], (matched_delete(),)), "target.id = source.id"),
        (Merge(ON, (matched_delete(),), target_alias="T", source_alias="t"), "same alias"),
        (Merge(ON, (matched_delete(), matched_update_all())), "only the last"),
    ],
)
def test_what_spark_refuses_is_refused(merge: Merge, says: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        merge.check()
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("when", "do"), [(When.NOT_MATCHED, Do.DELETE), (When.MATCHED, Do.INSERT_ALL)]
)
def test_a_clause_does_only_what_its_rows_allow(when: When, do: Do) -> None:
    with pytest.raises(InvalidInput, match="cannot"):
        Clause(when, do)
    with pytest.raises(InvalidInput, match="at least one column"):
        Clause(When.MATCHED, Do.UPDATE)


@pytest.mark.parametrize(
    ("clauses", "sensitive", "added"),
    [
        ((matched_update_all(),), True, ["id", "x", "extra", "More"]),
        ((matched_update({"extra": "source.extra"}),), True, ["extra"]),
        ((not_matched_insert({"id": "source.id", "target.More": "source.More"}),), True, ["More"]),
        ((matched_update({"more": "source.MORE"}),), False, ["More"]),
        ((matched_update({"more": "source.MORE"}),), True, []),
        ((matched_update({"extra": "source.extra + 1", "x": "source.x"}),), True, []),
        ((matched_update({"extra": "beyond(the, grammar, of = Frazil"}),), True, []),
        ((matched_delete(),), True, []),
    ],
)
def test_schema_evolution_adds_the_columns_that_are_assigned_by_their_own_name(
    clauses: tuple[Clause, ...], sensitive: bool, added: list[str]
) -> None:
    target, source = (
        parse_schema("id int, x int"),
        parse_schema("id int, x int, extra int, More int"),
    )
    chosen = columns_to_add(Merge(ON, clauses), target, source, sensitive)
    assert [f.name for f in chosen.fields] == added


@pytest.mark.parametrize(
    ("assigned", "widened"),
    [
        ({"i": "source.i", "f": "source.f", "d": "source.d"}, "i bigint, f double, d decimal(7, 2)"),
        ({"i": "source.i + 1", "f": "CAST(source.f AS float)"}, ""),
        ({"f": "source.i", "far": "source.far", "text": "source.text"}, ""),
        ({"s": "source.s", "l": "source.l"}, "s struct<a: bigint, u: struct<b: double, z: int>>, l array<bigint>"),
        ({"s.a": "source.s.a"}, "s struct<a: bigint>"),
        ({"s.u.z": "source.s.u.z"}, "s struct<u: struct<z: int>>"),
    ],
)  # fmt: skip
def test_schema_evolution_widens_the_columns_that_are_assigned_by_their_own_name(
    assigned: dict[str, str], widened: str
) -> None:
    target = parse_schema(
        "i int, f float, d decimal(5, 2), far decimal(5, 2), text int, s struct<a: int, u: struct<b: float>>, l array<int>"
    )
    source = parse_schema(
        "i bigint, f double, d decimal(7, 2), far decimal(7, 3), text string, s struct<a: bigint, u: struct<b: double, z: int>>, l array<bigint>"
    )
    for clause in (matched_update(assigned), not_matched_insert(assigned)):
        chosen = columns_to_add(Merge(ON, (clause,)), target, source, True)
        assert [f"{f.name} {shown(f.field_type)}" for f in chosen.fields] == [
            f"{f.name} {shown(f.field_type)}" for f in parse_schema(widened).fields
        ]


def shown(type_: IcebergType) -> str:
    """A type without field ids."""
    return re.sub(r"\d+: ", "", str(type_))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None, True, True), "needs join_cols"),
        ((["nope"], True, True), "'nope', which is not a column"),
        ((["id"], False, False), "nothing to do"),
    ],
)
def test_an_upsert_without_key_or_work_is_refused(arguments: Any, says: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        upsert_of(parse_schema("id int, x int"), *arguments)
    assert says in str(raised.value)


def test_an_upsert_is_a_merge_by_its_key() -> None:
    merge, names = upsert_of(parse_schema("id int, s struct<a: int>"), ["id", "s.a"], True, True)
    assert names == ("id", "s.a")
    assert merge.on == parse("target.id = source.id AND target.s.a = source.s.a")
    assert [c.do for c in merge.clauses] == [Do.UPDATE_ALL, Do.INSERT_ALL]
