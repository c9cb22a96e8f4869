"""Statements of Spark Connect sessions, parsed by sqlglot: the nodes that they become. The session
is a stand-in that keeps what it is asked.
"""

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.rows.clauses import Do, When
from frazil.sql.connect import ConnectStatements
from frazil.sql.run import delete_from, update_set

TABLE = ("lake", "db", "t")


class Session:
    """Keep the texts that are asked."""

    def __init__(self):
        self.texts = []

    def sql(self, text):
        self.texts.append(text)
        return self

    def createOrReplaceTempView(self, name):
        self.texts.append(f"view {name}")


class OfLake:
    """Know the tables of the catalog `lake`, and keep what was read of them."""

    def __init__(self):
        self.read = []

    def frame(self, name):
        self.read.append(name)
        return Session()

    def is_ours(self, name):
        return name[0] == "lake"


@pytest.fixture
def statements():
    return ConnectStatements(Session(), OfLake())


def node(statements, text, evolves=False):
    return statements._node(statements._glot.parse_one(text, dialect="spark"), evolves)


def test_delete_and_update_call_columns_without_the_alias(statements):
    text = "DELETE FROM lake.db.t AS x WHERE x.id = 1 AND s LIKE 'a%'"
    assert node(statements, text) == delete_from(TABLE, "id = 1 AND s LIKE 'a%'", "x")
    members = "DELETE FROM lake.db.t AS x WHERE x.st.a = 1 AND X.st.b.c.d.e > 2 AND st.x = 3"
    assert node(statements, members) == delete_from(
        TABLE, "st.a = 1 AND st.b.c.d.e > 2 AND st.x = 3", "x"
    )
    assert node(statements, "TRUNCATE TABLE lake.db.t") == delete_from(TABLE)
    update = node(
        statements,
        "UPDATE lake.db.t SET t.v = t.v + 1, st.a = t.st.a + 1, t.st.b = 2, `odd name` = DEFAULT WHERE t.id IN (3)",
    )
    assert update == update_set(
        TABLE,
        (("v", "v + 1"), ("st.a", "st.a + 1"), ("st.b", "2"), ("`odd name`", "DEFAULT")),
        "id IN (3)",
        "t",
    )


def test_merge_has_all_kinds_of_clauses_and_a_source_that_the_session_reads(statements):
    merge = node(
        statements,
        """WITH w AS (SELECT 1 AS id) MERGE INTO lake.db.t AS t USING (SELECT * FROM w) AS s ON t.id = s.id
        WHEN MATCHED AND s.v > 1 THEN UPDATE SET t.v = s.v WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND s.v > 2 THEN INSERT (id, v) VALUES (s.id, DEFAULT) WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0""",
        evolves=True,
    )
    assert statements.spark.texts == [
        "SELECT 1 AS id",
        "view `w`",
        "SELECT * FROM (SELECT * FROM w)",
    ]
    assert [(c.when, c.do, c.condition, c.assignments) for c in merge.change.merge.clauses] == [
        (When.MATCHED, Do.UPDATE, "s.v > 1", (("v", "s.v"),)),
        (When.MATCHED, Do.DELETE, None, ()),
        (When.NOT_MATCHED, Do.INSERT, "s.v > 2", (("id", "s.id"), ("v", "DEFAULT"))),
        (When.NOT_MATCHED, Do.INSERT_ALL, None, ()),
        (When.NOT_MATCHED_BY_SOURCE, Do.UPDATE, None, (("v", "0"),)),
    ]
    assert (
        merge.change.merge.target_alias,
        merge.change.merge.source_alias,
        merge.change.merge.merge_schema,
    ) == (
        "t",
        "s",
        True,
    )


def test_queries_read_states_and_metadata_tables(statements):
    statements.run("SELECT x.id FROM lake.db.t.tag_a x JOIN lake.db.t.files USING (id)")
    assert statements.names.read == [(*TABLE, "tag_a"), (*TABLE, "files")]
    (text,) = statements.spark.texts
    assert "lake_db_t_tag_a AS x" in text and "lake_db_t_files AS `files`" in text


def test_update_all_is_told_from_an_update_of_columns(statements):
    merge = node(
        statements,
        "MERGE INTO lake.db.t t USING lake2.u s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    )
    assert [c.do for c in merge.change.merge.clauses] == [Do.UPDATE_ALL]


def test_other_statements_about_our_tables_are_refused_and_those_about_others_are_left(statements):
    for text in (
        "INSERT INTO lake.db.t VALUES (1)",
        "CREATE TABLE lake.db.n (id INT) USING iceberg",
        "DROP TABLE lake.db.t",
    ):
        with pytest.raises(Unsupported, match="not supported through Spark Connect"):
            statements.run(text)
    with pytest.raises(Unsupported, match="Time travel"):
        statements.run("SELECT * FROM lake.db.t VERSION AS OF 3")
    assert statements.run("DELETE FROM other.t WHERE id = 1") is None
    assert statements.run("this is no SQL (") is None


def test_parameters_become_constants(statements):
    tree = statements._glot.parse_one(
        "DELETE FROM lake.db.t WHERE id = :x AND s = :y", dialect="spark"
    )
    assert (
        statements._node(
            statements._with_arguments(tree, {"x": 7, "y": "it's"}), False
        ).change.where
        == "id = 7 AND s = 'it\\'s'"
    )
    tree = statements._glot.parse_one(
        "DELETE FROM lake.db.t WHERE id = ? AND v = ?", dialect="spark"
    )
    assert (
        statements._node(statements._with_arguments(tree, [1, None]), False).change.where
        == "id = 1 AND v = NULL"
    )
    with pytest.raises(InvalidInput, match="has no value"):
        statements._with_arguments(tree, [1])
