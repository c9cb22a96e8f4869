"""Iceberg's extension statements: what texts mean. What they do to a table is said by cases
(`tests/cases/layout.test`, `refs.test`). No Spark here.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ParseError
from frazil.sql import nodes as n
from frazil.sql.grammar import FORMS, parse_extension
from frazil.sql.nodes import OrderTerm, Term
from frazil.sql.run import RUN

DAY = 86_400_000


def test_every_form_has_a_node_that_runs():
    nodes = {getattr(node, "func", node) for node in FORMS.values()}
    assert nodes < set(RUN)


@pytest.mark.parametrize(
    "text, term, name",
    [
        ("ADD PARTITION FIELD category", Term(("category",)), None),
        ("add partition field bucket(16, id) as shard", Term(("id",), "bucket[16]"), "shard"),
        ("ADD PARTITION FIELD bucket(id, 16)", Term(("id",), "bucket[16]"), None),
        ("ADD PARTITION FIELD truncate(4, a.b)", Term(("a", "b"), "truncate[4]"), None),
        ("ADD PARTITION FIELD `odd name`", Term(("odd name",)), None),
        *(
            (f"ADD PARTITION FIELD {f}(ts)", Term(("ts",), u), None)
            for f, u in {
                "years": "year",
                "year": "year",
                "months": "month",
                "month": "month",
                "days": "day",
                "day": "day",
                "date": "day",
                "hours": "hour",
                "hour": "hour",
                "date_hour": "hour",
            }.items()
        ),
    ],
)
def test_a_partition_field_is_a_column_or_a_transform_of_one(text, term, name):
    assert parse_extension(f"ALTER TABLE c.db.t {text};") == n.AddPartitionField(
        ("c", "db", "t"), term, name
    )


@pytest.mark.parametrize(
    "clauses, order, mode",
    [
        ("ORDERED BY id", ["id"], "range"),
        ("ORDERED BY (category, id DESC NULLS FIRST)", ["category", "-id nulls first"], "range"),
        ("LOCALLY ORDERED BY id ASC NULLS LAST", ["id nulls last"], None),
        ("DISTRIBUTED BY PARTITION", [], "hash"),
        ("DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id", ["id"], "hash"),
        ("LOCALLY ORDERED BY id DISTRIBUTED BY PARTITION", ["id"], "hash"),
        ("DISTRIBUTED BY PARTITION ORDERED BY id", ["id"], "hash"),
        ("UNORDERED", [], "none"),
        ("DISTRIBUTED BY PARTITION UNORDERED", [], "hash"),
        ("UNORDERED DISTRIBUTED BY PARTITION", [], "hash"),
    ],
)
def test_write_clauses_come_in_any_order_and_choose_the_distribution(clauses, order, mode):
    def term(text):
        nulls = {"nulls first": True, "nulls last": False}.get(text.partition(" ")[2])
        return OrderTerm(Term((text.lstrip("-").split()[0],)), text.startswith("-"), nulls)

    assert parse_extension(f"ALTER TABLE t WRITE {clauses}") == n.WriteOrder(
        ("t",), tuple(map(term, order)), mode
    )


def test_a_branch_takes_a_version_a_retention_and_a_retention_of_snapshots():
    text = "ALTER TABLE t CREATE BRANCH IF NOT EXISTS b AS OF VERSION 7 RETAIN 3 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 5 HOURS"
    assert parse_extension(text) == n.SetRef(
        ("t",), "b", "branch", True, False, True, 7, 3 * DAY, 2, 5 * 3_600_000
    )
    assert (
        parse_extension(
            "ALTER TABLE t REPLACE BRANCH b WITH SNAPSHOT RETENTION 9 MINUTES"
        ).max_snapshot_age_ms
        == 9 * 60_000
    )
    tag = parse_extension("ALTER TABLE t CREATE OR REPLACE TAG `v-1` AS OF VERSION 7 RETAIN 1 DAYS")
    assert tag == n.SetRef(("t",), "v-1", "tag", True, True, False, 7, DAY)


@pytest.mark.parametrize(
    "text, near",
    [
        ("ADD PARTITION FIELD", "end of the statement"),
        ("ADD PARTITION FIELD bucket(16, id", "end of the statement"),
        ("ADD PARTITION FIELD foo(id)", "'foo'"),
        ("REPLACE PARTITION FIELD a WIT b", "'WIT'"),
        ("WRITE", "end of the statement"),
        ("WRITE ORDERED BY id ORDERED BY id", "'ORDERED'"),
        ("WRITE ORDERED BY zorder(a, b)", "'zorder'"),
        ("WRITE ORDERED BY id NULLS", "end of the statement"),
        ("SET IDENTIFIER FIELDS", "end of the statement"),
        ("CREATE BRANCH 123", "'123'"),
        ("CREATE BRANCH b RETAIN 5 SECONDS", "'SECONDS'"),
        ("CREATE BRANCH b RETAIN", "end of the statement"),
        ("CREATE BRANCH b WITH SNAPSHOT RETENTION", "end of the statement"),
        ("CREATE TAG t WITH SNAPSHOT RETENTION 2 SNAPSHOTS", "'WITH'"),
        ("CREATE TAG t AS OF VERSION 99999999999999999999", "'99999999999999999999'"),
        ("DROP BRANCH b c", "'c'"),
    ],
)
def test_a_text_that_begins_as_one_of_them_and_goes_on_otherwise_is_an_error_with_its_place(
    text, near
):
    with pytest.raises(ParseError, match=re.escape(f"Syntax error at or near {near}")):
        parse_extension(f"ALTER TABLE t {text}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "ALTER TABLE t ADD COLUMN x int",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE",
        "ALTER TABLE t",
        "",
        ";",
        "ALTER VIEW v AS SELECT 1",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE t ADD PARTITION (p = 1)",
        "ALTER TABLE t REPLACE COLUMNS (a int)",
    ],
)
def test_other_texts_are_not_taken(text):
    assert parse_extension(text) is None


_BLANKS = st.sampled_from(
    [" ", "\n", "\t", " /* a `comment' ; */ ", " -- one\n", "/* one /* in */ another */", "\r\n "]
)
_WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
_PARTS = st.one_of(
    _WORDS,
    st.text(
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=8
    ),
)


def quoted(part, plain):
    return (
        part
        if plain and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part)
        else "`" + part.replace("`", "``") + "`"
    )


@given(
    st.lists(_PARTS, min_size=1, max_size=3),
    st.lists(_PARTS, min_size=1, max_size=3),
    _PARTS,
    st.lists(_BLANKS, min_size=12, max_size=12),
    st.booleans(),
    st.integers(1, 10**6),
)
def test_names_survive_quotes_keywords_and_comments(parts, column, name, blanks, plain, width):
    between = iter(blanks)

    def spaced(*words):
        return "".join(w + next(between) for w in words)

    table = ".".join(quoted(p, plain) for p in parts)
    source = ".".join(quoted(p, plain) for p in column)
    text = (
        spaced("", "aLtEr", "tABLE", table, "ADD", "partition", "FIELD")
        + f"bucket({width},{source})"
        + spaced(" AS", quoted(name, plain))
        + ";"
    )
    assert parse_extension(text) == n.AddPartitionField(
        tuple(parts), Term(tuple(column), f"bucket[{width}]"), name
    )


@given(st.text(max_size=40))
def test_no_text_ends_in_anything_but_a_statement_none_or_a_parse_error(text):
    for head in ("", "ALTER TABLE t ", "ALTER TABLE t WRITE ", "ALTER TABLE t CREATE BRANCH b "):
        try:
            parse_extension(head + text)
        except ParseError as error:
            assert "Syntax error" in str(error)
