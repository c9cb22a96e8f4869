"""Iceberg's extension statements: what texts mean, and what running them does to a table. No Spark
here.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import (
    InvalidInput,
    NoSuchRefError,
    NoSuchSnapshotError,
    ParseError,
    ValidationError,
)
from frazil.spec.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform
from frazil.sql import nodes as n
from frazil.sql.grammar import FORMS, parse_extension
from frazil.sql.nodes import OrderTerm, Term
from frazil.sql.run import RUN, Target, run

DAY = 86_400_000


@pytest.fixture
def table(home):
    t = home.create_table(
        "db.t",
        "id bigint not null, category string, ts timestamp, place struct<lon: double not null> not null",
    )
    t.append(t.schema().as_arrow().empty_table())
    return t


def does(table, text, case_sensitive=False):
    """Run a statement about the table."""
    return run(
        parse_extension(f"ALTER TABLE db.t {text}"), Target(table.refresh(), None, case_sensitive)
    )


def rows(table):
    """Append a row, and return the id of its snapshot."""
    schema = table.schema().as_arrow()
    return table.append(
        pa.Table.from_pylist([{"id": 1, "place": {"lon": 1.0}}], schema)
    ).snapshot_id


# Texts
# --------------------------------------------------------------------------------------------------------------------------------------


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


# Partition fields
# ---------------------------------------------------------------------------------------------------------------------------


def fields(table):
    return [(f.name, f.transform) for f in table.refresh().spec().fields]


def test_partition_fields_are_added_replaced_and_dropped_by_transform_or_name(table):
    does(table, "ADD PARTITION FIELD category")
    does(table, "ADD PARTITION FIELD days(TS)")
    does(table, "ADD PARTITION FIELD bucket(16, id) AS shard")
    assert fields(table) == [
        ("category", IdentityTransform()),
        ("ts_day", DayTransform()),
        ("shard", BucketTransform(16)),
    ]
    does(table, "REPLACE PARTITION FIELD days(ts) WITH hours(ts)")
    does(table, "REPLACE PARTITION FIELD shard WITH bucket(8, id) AS shard")
    does(table, "DROP PARTITION FIELD category")
    assert fields(table) == [("ts_hour", HourTransform()), ("shard", BucketTransform(8))]
    does(table, "DROP PARTITION FIELD ts_hour")
    does(table, "DROP PARTITION FIELD bucket(8, id)")
    assert fields(table) == []


def test_partition_fields_of_members_of_structs_keep_the_dots_of_the_column_in_their_names(home):
    nested = "s struct<a: int, b: string, `x.y`: int, u: struct<at: timestamp>>, `w.v` int"
    table = home.create_table("db.nested", nested, partition_by=["s.b"])
    for term in ("s.a", "bucket(4, s.a)", "truncate(s.b, 3)", "days(s.u.at)", "s.`x.y`", "`w.v`"):
        does(table, f"ADD PARTITION FIELD {term}")
    added = ["s.a", "s.a_bucket_4", "s.b_trunc_3", "s.u.at_day", "s.x.y", "w.v"]
    assert [name for name, _ in fields(table)] == ["s.b", *added]
    with table.update_spec() as update:
        update.add_field("s.u.at", "hour").add_field("w.v", "bucket[2]")
    assert [name for name, _ in fields(table)][-2:] == ["s.u.at_hour", "w.v_bucket_2"]
    does(table, "DROP PARTITION FIELD s.a")
    does(table, "DROP PARTITION FIELD `s.b_trunc_3`")
    does(table, "REPLACE PARTITION FIELD days(s.u.at) WITH months(s.u.at)")
    left = ["s.b", "s.a_bucket_4", "s.x.y", "w.v", "s.u.at_hour", "w.v_bucket_2", "s.u.at_month"]
    assert [name for name, _ in fields(table)] == left


def test_a_partition_field_is_dropped_by_its_column_or_its_own_name(table):
    for word in ("category", "kind"):
        does(table, "ADD PARTITION FIELD category AS kind")
        does(table, f"DROP PARTITION FIELD {word}")
        assert fields(table) == []


def test_a_partition_field_that_is_not_there_is_an_error_that_lists_those_that_are(table):
    does(table, "ADD PARTITION FIELD days(ts)")
    with pytest.raises(
        ValidationError,
        match=r"Cannot find partition field to remove: hour\(ts\); fields are: ts_day",
    ):
        does(table, "DROP PARTITION FIELD hours(ts)")
    with pytest.raises(ValidationError, match="nope"):
        does(table, "ADD PARTITION FIELD nope")


# Write order
# --------------------------------------------------------------------------------------------------------------------------------


def order(table):
    table.refresh()
    return str(table.sort_order()), table.properties.get("write.distribution-mode")


def test_the_write_order_sets_order_and_distribution_in_one_commit(table):
    versions = len(table.metadata.metadata_log)
    does(table, "WRITE ORDERED BY category DESC, bucket(16, id) NULLS LAST, place.lon")
    assert order(table) == (
        "[2 desc nulls last, bucket[16](1) asc nulls last, 5 asc nulls first]",
        "range",
    )
    assert len(table.metadata.metadata_log) == versions + 1
    does(table, "WRITE DISTRIBUTED BY PARTITION")
    assert order(table) == ("[]", "hash")
    does(table, "WRITE LOCALLY ORDERED BY ID")
    assert order(table) == ("[1 asc nulls first]", "hash")
    does(table, "WRITE UNORDERED")
    assert order(table) == ("[]", "none")


def test_names_of_columns_are_matched_as_the_session_says(table):
    with pytest.raises(ValidationError, match="CATEGORY"):
        does(table, "WRITE ORDERED BY CATEGORY", case_sensitive=True)
    does(table, "WRITE ORDERED BY CATEGORY")
    assert order(table)[0] == "[2 asc nulls first]"


# Identifier fields
# --------------------------------------------------------------------------------------------------------------------------


def test_identifier_fields_are_set_and_dropped(table):
    does(table, "SET IDENTIFIER FIELDS ID")
    assert table.refresh().schema().identifier_field_names() == {"id"}
    with pytest.raises(ValidationError, match="category is not an identifier field"):
        does(table, "DROP IDENTIFIER FIELDS category")
    with pytest.raises(ValidationError, match="nope"):
        does(table, "DROP IDENTIFIER FIELDS nope")
    with pytest.raises(ValidationError, match="category"):
        does(table, "SET IDENTIFIER FIELDS category")
    does(table, "DROP IDENTIFIER FIELDS id")
    assert table.refresh().schema().identifier_field_names() == set()


# Branches and tags
# --------------------------------------------------------------------------------------------------------------------------


def ref(table, name):
    r = table.refresh().metadata.refs[name]
    return r.type, r.snapshot_id, r.max_ref_age_ms, r.min_snapshots_to_keep, r.max_snapshot_age_ms


def test_branches_and_tags_are_created_replaced_and_dropped(table):
    first, second = rows(table), rows(table)
    does(
        table,
        f"CREATE BRANCH b AS OF VERSION {first} RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 1 DAYS",
    )
    assert ref(table, "b") == ("branch", first, 7 * DAY, 2, DAY)
    with pytest.raises(ValidationError, match="Ref b already exists"):
        does(table, "CREATE BRANCH b")
    assert does(table, "CREATE BRANCH IF NOT EXISTS b") is None
    does(table, "REPLACE BRANCH b")
    assert ref(table, "b") == ("branch", second, 7 * DAY, 2, DAY)
    does(
        table,
        f"CREATE OR REPLACE BRANCH b AS OF VERSION {first} WITH SNAPSHOT RETENTION 5 SNAPSHOTS",
    )
    assert ref(table, "b") == ("branch", first, 7 * DAY, 5, DAY)
    does(table, "CREATE OR REPLACE TAG v1 RETAIN 1 DAYS")
    does(table, f"CREATE OR REPLACE TAG v1 AS OF VERSION {first}")
    assert ref(table, "v1") == ("tag", first, DAY, None, None)
    does(table, "DROP TAG v1")
    does(table, "DROP BRANCH b")
    assert set(table.refresh().refs()) == {"main"}


def test_a_statement_for_branches_leaves_tags_alone(table):
    rows(table)
    does(table, "CREATE TAG v1")
    for text in (
        "REPLACE BRANCH v1",
        "DROP BRANCH v1",
        "DROP BRANCH IF EXISTS v1",
        "CREATE OR REPLACE BRANCH v1",
    ):
        with pytest.raises(ValidationError, match="Ref v1 is a tag not a branch"):
            does(table, text)


def test_what_is_missing_is_an_error_unless_the_statement_says_if_exists(table):
    rows(table)
    for text in ("DROP BRANCH b", "DROP TAG b", "REPLACE BRANCH b", "REPLACE TAG b"):
        with pytest.raises(NoSuchRefError, match="b"):
            does(table, text)
    assert does(table, "DROP BRANCH IF EXISTS b") is does(table, "DROP TAG IF EXISTS b") is None
    with pytest.raises(ValidationError, match="main"):
        does(table, "DROP BRANCH IF EXISTS main")
    with pytest.raises(NoSuchSnapshotError, match="12345"):
        does(table, "CREATE BRANCH c AS OF VERSION 12345")


def test_a_branch_of_a_table_without_rows_begins_with_an_empty_snapshot(home):
    t = home.create_table("db.t", "id bigint")
    does(t, "CREATE BRANCH b RETAIN 1 DAYS")
    kind, snapshot_id, age, _, _ = ref(t, "b")
    assert (kind, age) == ("branch", DAY)
    assert t.current_snapshot() is None and t.snapshot_by_id(snapshot_id) is not None
    for text in ("REPLACE BRANCH b", "CREATE TAG v", "CREATE OR REPLACE TAG v"):
        with pytest.raises(InvalidInput, match="main has no snapshot"):
            does(t, text)
