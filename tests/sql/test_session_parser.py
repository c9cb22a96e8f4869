"""The parser of a prepared session: Spark's own, asked through an object of Python."""

import logging
import types

import pytest
from pyspark.errors import ParseException

import frazil
from frazil.spark.host import fall_back
from frazil.spark.host.jvm_parser import parse_by
from frazil.sql.statements import SessionStatements
from tests.sql.statements_on_spark import lake_of

pytestmark = [pytest.mark.spark, pytest.mark.versions]
TEXTS = {
    "parsePlan": "SELECT 1", "parseQuery": "SELECT 1", "parseExpression": "a + 1", "parseTableIdentifier": "a.b", "parseFunctionIdentifier": "f",
    "parseMultipartIdentifier": "a.`b.c`.d", "parseTableSchema": "a INT, b STRING", "parseDataType": "map<int, string>",
    "parseRoutineParam": "a INT", "splitStatements": "SELECT 1; SELECT 2", "parseTemporalTableIdentifier": "a.b",
}  # fmt: skip


def parser_of(session):
    return session._jsparkSession.sessionState().sqlParser()


def test_every_method_of_the_interface_answers_as_spark_s_parser_does(spark, plain_spark):
    view = spark._jvm
    interface = view.java.lang.Class.forName("org.apache.spark.sql.catalyst.parser.ParserInterface")
    names = {m.getName() for m in interface.getMethods() if "$" not in m.getName()} - {
        "parsePlanWithParameters"
    }
    assert names <= set(TEXTS)
    for name in names:
        own, through = getattr(parser_of(plain_spark), name), getattr(parser_of(spark), name)
        assert str(through(TEXTS[name])) == str(own(TEXTS[name])), name
        assert outcome(through, "((") == outcome(own, "(("), name


def outcome(method, text):
    """What a method returns, or the kind of error that it ends with."""
    try:
        return str(method(text))
    except Exception as error:
        return type(error).__name__


def test_errors_of_the_parser_are_spark_s_with_their_place(spark):
    with pytest.raises(ParseException, match=r"PARSE_SYNTAX_ERROR.*'SELEC'(?s:.*)line 1, pos 0"):
        spark.sql("SELEC 1")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        spark.sql("ALTER TABLE spark_catalog.default.nope ADD PARTITION FIELD x")


def test_a_session_is_prepared_once_and_others_are_left_alone(spark, plain_spark):
    assert parser_of(spark).toString().startswith("frazil: ")
    assert parse_by(spark, types.SimpleNamespace()) is None
    assert not parser_of(plain_spark.newSession()).toString().startswith("frazil: ")


def test_statements_that_are_not_ours_cost_no_look_at_their_plan(spark, monkeypatch):
    looked = []
    monkeypatch.setattr(SessionStatements, "takes", lambda self, plan, _: looked.append(plan))
    spark.sql("SELECT 1 AS deleted").collect()
    spark.sql("WITH a AS (SELECT 1) SELECT * FROM a").collect()
    spark.sql("SHOW TABLES").collect()
    assert looked == []


@pytest.mark.parametrize(
    "statement",
    [
        "ADD PARTITION FIELD id",
        "DROP PARTITION FIELD id",
        "REPLACE PARTITION FIELD id WITH bucket(4, id)",
        "WRITE ORDERED BY id",
        "WRITE LOCALLY ORDERED BY id",
        "WRITE DISTRIBUTED BY PARTITION",
        "WRITE UNORDERED",
        "SET IDENTIFIER FIELDS id",
        "DROP IDENTIFIER FIELDS id",
        "CREATE BRANCH b",
        "CREATE OR REPLACE BRANCH b",
        "REPLACE BRANCH b",
        "DROP BRANCH b",
        "CREATE TAG v",
        "REPLACE TAG v",
        "DROP TAG v",
    ],
)
def test_spark_s_parser_refuses_the_extension_statements(plain_spark, statement):
    """If a Spark takes one, it never reaches Frazil's grammar: then the catalog has to answer it."""
    with pytest.raises(ParseException):
        parser_of(plain_spark).parsePlan(f"ALTER TABLE c.db.t {statement}")


def test_where_spark_is_built_otherwise_spark_sql_asks_and_a_warning_says_what_is_lost(
    plain_spark, tmp_path, monkeypatch, caplog
):
    from frazil.dropin import sql

    def changed(*_):
        raise AttributeError("sqlParser")

    monkeypatch.setattr(sql, "parse_by", changed)
    monkeypatch.setattr(fall_back, "_WARNED", set())
    with caplog.at_level(logging.WARNING, "frazil"):
        session = frazil.install(plain_spark.newSession())
    assert [r for r in caplog.records if "DELETE, UPDATE, MERGE" in r.getMessage()]
    with lake_of(session, tmp_path) as lake:
        lake.table()
        lake.sql("DELETE FROM lake.db.t WHERE id = 1")
        lake.sql("ALTER TABLE lake.db.t CREATE TAG v1")
        assert lake.sql("SELECT count(*) FROM lake.db.t").first()[0] == 3
        assert "v1" in lake.catalog.load_table("db.t").refs()
        with pytest.raises(ParseException):
            lake.sql("SELEC 1")
