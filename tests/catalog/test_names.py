"""One parser of identifiers: back-quotes as in Spark SQL, for every door."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.catalog import meanings
from frazil.catalog.names import IN_SQL, full_name, identifier_parts, without_blanks
from frazil.errors import InvalidInput
from frazil.expr.sql_text import back_quoted


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ("db", "t")),
        ("cat.db.`a.b`", ("cat", "db", "a.b")),
        ("`a``b`.c", ("a`b", "c")),
        ("`x`", ("x",)),
        ("my-cat.db.t 1", ("my-cat", "db", "t 1")),
    ],
)
def test_an_identifier_is_split_at_dots_outside_of_back_quotes(
    text: str, parts: tuple[str, ...]
) -> None:
    assert identifier_parts(text) == parts


@pytest.mark.parametrize(
    "text", ["", ".", "db.", ".t", "a..b", "db.`t", "db.t`", "a`b`", "`a`b.c", "db.``", "`a` .b"]
)
def test_empty_parts_and_stray_back_quotes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not an identifier"):
        identifier_parts(text)


@given(st.lists(st.text("ab.` -é", min_size=1, max_size=4), min_size=1, max_size=4))
def test_what_is_written_from_parts_is_read_as_these_parts(parts: list[str]) -> None:
    assert identifier_parts(full_name(parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t WHERE x.y = 1", ("db", "t")),
        ("db . t AS `a`", ("db", "t")),
        ("`db`\n.\t`a . b` x", ("db", "a . b")),
        ("`a``b . c`.`d` e", ("a`b . c", "d")),
        ("`a . ``b` . c", ("a . `b", "c")),
        ("`a``` . ```b`", ("a`", "`b")),
        ("é.t1(x)", ("é", "t1")),
        ("t", ("t",)),
    ],
)
def test_an_identifier_within_sql_may_have_blanks_around_its_dots_and_keeps_those_in_back_quotes(
    text: str, parts: tuple[str, ...]
) -> None:
    match = re.match(IN_SQL, text)
    assert match is not None and identifier_parts(without_blanks(match[0])) == parts


@given(
    st.lists(st.text("ab.` -é", min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from([".", " . ", "\n. "]),
)
def test_any_name_in_back_quotes_is_found_whole_within_sql(parts: list[str], dot: str) -> None:
    match = re.match(IN_SQL, dot.join(back_quoted((p,)) for p in parts) + " WHERE `x` = 1")
    assert match is not None and identifier_parts(without_blanks(match[0])) == tuple(parts)


def test_only_names_that_need_back_quotes_are_shown_with_them() -> None:
    assert (
        full_name(("my-cat", "db", "t")) == "my-cat.db.t" and full_name(("db", "a.b")) == "db.`a.b`"
    )


def test_a_name_means_its_parts_and_not_the_dots_inside_them() -> None:
    assert meanings("db.`a.b`", {}) == [(None, ("db", "a.b"))] == meanings(("db", "a.b"), {})
    assert meanings("default.db.`a.b`", {}) == [("default", ("db", "a.b"))]


def test_a_catalog_finds_a_table_whose_name_holds_a_dot_by_text_and_by_tuple() -> None:
    with frazil.load_catalog("dots", type="memory") as catalog:
        catalog.create_namespace("db")
        made = catalog.create_table("db.`a.b`", "id bigint")
        assert made.name() == ("db", "a.b") and catalog.list_tables("db") == [("db", "a.b")]
        assert (
            catalog.load_table(("db", "a.b")).metadata
            == catalog.load_table("dots.db.`a.b`").metadata
            == made.metadata
        )
        assert catalog.table_exists("db.`a.b`") and "dots.db.`a.b`" in repr(made) + str(made)
        assert not catalog.table_exists("db.`a.b`.files") and not catalog.namespace_exists(
            ("db", "a.b")
        )
        with pytest.raises(InvalidInput, match="cannot hold a dot"):
            catalog.create_namespace(("db", "a.b"))
