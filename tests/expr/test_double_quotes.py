"""A column in double quotes is a text in Spark SQL and a column in PyIceberg's filters: it is
refused, and both readings are named.
"""

from __future__ import annotations

import re

import pytest

from frazil.errors import InvalidInput
from frazil.expr.bind import bind, bind_term
from frazil.expr.double_quotes import columns_of, refuse_columns
from frazil.expr.nodes import names
from frazil.expr.parse import parse
from frazil.rows.sides import Side, sides_of
from frazil.spec.ddl import parse_schema

SCHEMA = parse_schema(
    "s string, a struct<b: string, c: struct<d: int>>, `x.y` string, `é` string, l array<string>, d date, n int"
)
COLUMNS = [
    """ "s" = 'a' """, """ 'a' = "s" """, """ "s" <> "n" """, """ s = "n" """, """ "a.b" = 'x' """, """ "a.c.d" = 1 """, """ "x.y" = 'q' """,
    """ "é" = '' """, """ "s" IN ('a', 'b') """, """ s IN ('a', "n", 'b') """, """ s NOT IN ("s") """, """ "s" LIKE 'a%' """,
    """ s LIKE "n" """, """ s ILIKE "s" """, """ "s" IS NULL """, """ upper("s") = 'A' """, """ s = concat('a', "n") """,
    """ startswith("s", 'a') """, """ s BETWEEN 'a' AND "s" """, """ CAST("n" AS int) > 3 """, """ "n"::int > 3 """,
    """ CASE WHEN n = 1 THEN "s" ELSE 'b' END = 'b' """, """ NOT ("s" <=> 'a') """, """ n = 1 OR (n = 2 AND "s" = 'a') """,
    """ ("s") = 'a' """, """ nullif("s", 'a') IS NULL """, """ isnull("s") """, """ "l.element" = 'a' """, """ "a" IS NOT NULL """,
    """ "S" = 'a' """, """ "S" <> 'a' """, """ s = "S" """, """ "A.B" = 'x' """, """ "É" = '' """, """ "N" = 1 OR s = 'a' """,
]  # fmt: skip
TEXTS = [
    """ s = "a " """, """ s = 'S' """, """ s = 's' """, """ 's' = 'n' """, """ s = "t" """, """ s IN ("t", 'n') """, """ s LIKE "n%" """,
    """ s = "s" 's' """, """ s = 's' "s" """, """ d = DATE"2026-01-01" """, """ s = r"s" """, """ s = "a.x" """, """ `s` = 'n' """, """ s = "" """,
    """ s = '"s"' """, """ s LIKE '"n"' """, """ s = 'a' -- "s" """,
]  # fmt: skip


@pytest.mark.parametrize("text", COLUMNS)
def test_a_column_in_double_quotes_is_refused_and_both_readings_are_named(text: str) -> None:
    with pytest.raises(
        InvalidInput,
        match=r"in double quotes is a text in Spark SQL, and there is a column of that name",
    ) as refused:
        bind(parse(text), SCHEMA)
    name = refused.value.facts["column"]
    quoted = "`x.y`" if name == "x.y" else ".".join(f"`{part}`" for part in name.lower().split("."))
    assert (
        refused.value.hint
        == f"Write {quoted} for the column, '{name}' in single quotes for the text."
    )
    with pytest.raises(InvalidInput, match="double quotes"):
        # as Spark's doors ask, of text that need not be of the grammar
        refuse_columns(text + " OR exists(l, x -> x & 1 = 2)", columns_of(SCHEMA))
    with pytest.raises(InvalidInput, match="double quotes"):
        refuse_columns(parse(text), columns_of(SCHEMA))


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_in_double_quotes_are_constants_as_in_spark(text: str) -> None:
    bind(parse(text), SCHEMA)
    refuse_columns(text, columns_of(SCHEMA))
    refuse_columns(parse(text), columns_of(SCHEMA))
    unquoted = re.sub(r"--.*|r?\"[^\"]*\"|'[^']*'", "", text)
    assert names(parse(text)) == set(re.findall(r"\b[sd]\b", unquoted)), (
        "what stands in quotes is no column"
    )


def test_the_case_of_a_name_does_not_save_it() -> None:
    for case_sensitive in (True, False):
        for text, column in ((""" "S" <> 'a' """, "`s`"), (""" "A.B" = 'x' """, "`a`.`b`")):
            with pytest.raises(
                InvalidInput,
                match=f"a column of that name but for its case, {column}: either may be meant",
            ):
                bind(parse(text), SCHEMA, case_sensitive=case_sensitive)
    both = parse_schema("s string, S string")
    with pytest.raises(InvalidInput, match="double quotes"):
        bind(parse("""`S` = "s" """), both)
    with pytest.raises(InvalidInput, match="double quotes"):
        bind(parse("""'a' = "s" """), both, case_sensitive=False)


def test_what_is_written_out_again_stays_what_it_was() -> None:
    predicate = parse("""s = "t" """)
    assert str(predicate) == "(s = 't')" and parse(str(predicate)) == predicate
    assert str(bind(parse("s = 's'"), SCHEMA)) == "(s = 's')"


def test_values_and_merge_conditions_are_held_to_it() -> None:
    with pytest.raises(InvalidInput, match="double quotes"):
        bind_term(parse('upper("s")'), SCHEMA)
    sides = sides_of(
        SCHEMA, parse_schema("k int, v struct<w: string>"), target_alias="t", source_alias="source"
    )
    for text in (
        """ "t.s" = 'a' """,
        """ "s" = 'a' """,
        """ source.k = "k" """,
        """ "v.w" = 'a' """,
        """ "source.v.w" = 'a' """,
    ):
        with pytest.raises(InvalidInput, match="double quotes"):
            sides.condition(text)
    with pytest.raises(InvalidInput, match="but for its case"):
        sides.condition(""" "SOURCE.V.W" = 'a' """)
    for text in (
        """ t.s = "source" """,
        """ t.s = "t" """,
        """ t.s = "u.s" """,
        """ t.s = "source.s" """,
    ):
        assert sides.side_of(sides.condition(text)) is Side.TARGET, (
            "the text is no column of the source"
        )
