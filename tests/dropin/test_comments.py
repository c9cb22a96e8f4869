"""Comments of a SQL statement never change what it is taken for: the table that it names, its kind,
what it uses.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.expr.parse import parse
from frazil.expr.tokens import without_comments
from frazil.sql.grammar import parse_extension
from frazil.sql.statements import SessionStatements

SPOKEN = [
    "it's", '"', "`", "db.r", "prod.db.r", "drop table if exists db.r", "using iceberg", "\\", "--", "r'", "''", "*", "/", " ", "\n", "é",
]  # fmt: skip
STATEMENTS = [
    ["SELECT", "*", "FROM", "db.r"],
    ["SELECT", "'db.q'", ",", "r'a\\'", ",", "\"it's -- db.r\"", "FROM", "db", ".", "`a``b . c`", "WHERE", "s", "=", "'/* db.r */'"],
    ["SELECT", "`-- x`", "FROM", "elsewhere.q", "JOIN", "prod.db.r"],
    ["SELECT", "1", "FROM", "elsewhere.q"],
    ["DROP", "TABLE", "IF", "EXISTS", "db.r"],
    ["DELETE", "FROM", "db.r", "WHERE", "s", "=", "'it''s'"],
    ["CREATE", "TABLE", "db.new", "(id INT COMMENT 'not using iceberg')", "USING", "parquet"],
    ["CREATE", "TABLE", "db.new", "(id INT)", "USING", "`iceberg`"],
    ["EXPLAIN", "UPDATE", "prod.db.r", "SET", "id", "=", "1"],
    ["ALTER", "TABLE", "prod.db.r", "WRITE", "ORDERED", "BY", "`a``b . c`", "DESC", ",", "id"],
]  # fmt: skip


@st.composite
def comments(draw: st.DrawFn, depth: int = 2) -> str:
    """A comment to the end of a line, or one in brackets that may hold others."""
    words = "".join(draw(st.lists(st.sampled_from(SPOKEN), max_size=6)))
    if draw(st.booleans()):
        return f"--{words.replace(chr(10), ' ').rstrip(chr(92))}{draw(st.sampled_from([chr(10), chr(13), chr(13) + chr(10)]))}"
    inner = draw(comments(depth - 1)) if depth and draw(st.booleans()) else ""
    closed = words.replace("/", "").replace("*", "") + (inner if inner.startswith("/*") else "")
    return f"/* {closed} */"


@given(st.sampled_from(STATEMENTS), st.lists(comments(), min_size=16, max_size=16))
@settings(max_examples=150, deadline=None)
def test_comments_change_nothing_of_what_a_statement_is_taken_for(
    words: list[str], between: list[str]
) -> None:
    commented = (
        "".join(f"{comment} {word} " for comment, word in zip(between, words, strict=False))
        + between[-1]
    )
    taken = SessionStatements(None, None).may_take
    assert taken(commented) == taken(" ".join(words)) == (words[0] in ("DELETE", "EXPLAIN"))
    assert parse_extension(commented) == parse_extension(" ".join(words))


WITHOUT = {  # a statement -> the same without its comments and hints
    "select 1 /* /* a */ */ + 2": "select 1 + 2", "select /*+ broadcast(a) /* y */ */ 1": "select 1",
    "select 1 -- a \\\n + 2": "select 1", "select 1 -- a \r + 2": "select 1 + 2", "select r'a\\' /* b */": "select r'a\\'",
    "select 1 /* ' */ + 3 -- \"\n + 4": "select 1 + 3 + 4", "select 'a''b' /* x */": "select 'a''b'",
    "select `a``/*b` from x": "select `a``/*b` from x", "select '/* a' /* b' */": "select '/* a'",
    "select 1 /*/ 2 */ + 3": "select 1 + 3", "select 1 /**/ + 3": "select 1 + 3",
    "select a.b -- x\n.c from d /*x*/.e": "select a.b .c from d .e", "select 1 /* a *//* b */ + 1": "select 1 + 1",
    "select 1 --/* a \n + 2 -- */": "select 1 + 2", "select 1 /* /**/ */ + 2": "select 1 + 2", "select 1 /* \\*/ + 2": "select 1 + 2",
    "select 1 - - 2 --+ 4\n+1": "select 1 - - 2 +1", "select '\\'/*' /* x' */": "select '\\'/*'",
    'select "--", 1 -- "': 'select "--", 1', "select 1 /* a **/ + 1 /***/": "select 1 + 1",
}  # fmt: skip


@pytest.mark.spark
def test_a_statement_without_its_comments_is_the_same_to_sparks_parser(spark):
    parser = spark._jsparkSession.sessionState().sqlParser()
    for text, without in WITHOUT.items():
        assert without_comments(text).split() == without.split()
        plan = (
            parser.parsePlan(text).toString().removeprefix("'UnresolvedHint broadcast, ['a]\n+- ")
        )
        assert parser.parsePlan(without).toString().split() == plan.split()


@pytest.mark.parametrize(
    "comment", ["/* /* a */ or true */", "-- or true", "-- \\\n or true", "/* /*+ a */"]
)
def test_comments_of_predicates_are_those_of_spark(comment: str) -> None:
    assert parse(f"id = 1 {comment}") == parse("id = 1")
    assert parse("id = 1 -- one \r or id = 2") == parse("id = 1 or id = 2")
