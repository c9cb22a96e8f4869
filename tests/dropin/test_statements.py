"""SQL statements about Frazil's tables are refused with the call that does the same, whatever kind of statement; Spark's own are Spark's."""

import logging
import re

import pyarrow as pa
import pytest
from pyspark.logger import PySparkLogger

import frazil
from frazil.dropin.statements import statement_of
from frazil.errors import NoSuchTableError, Unsupported
from frazil.expr.tokens import without_comments
from frazil.spark.host.quiet import REPORTS
from frazil.table.catalog import Catalog
from frazil.table.maintenance import MaintenanceTable

STATEMENTS = {  # text -> what the error says to call; {t} the table opened, {c} its catalog opened, {n} its whole name, {r} the rest of it
    "INSERT INTO {n} VALUES (1, 'a')": "{t}.append(frame)",
    "INSERT INTO TABLE {n} SELECT 1, 'a'": "writeTo({n!r}).append()",
    "INSERT OVERWRITE {n} SELECT 1, 'a'": "writeTo({n!r}).overwritePartitions()",
    "INSERT INTO {n} REPLACE WHERE id = 1 SELECT 1, 'a'": "{t}.overwrite(frame, overwrite_filter=",
    "WITH x AS (SELECT 1 id, 'a' s) INSERT INTO {n} SELECT * FROM x": "{t}.append(frame)",
    "-- some rows go\nDELETE FROM {n} WHERE id = 1": "{t}.delete(where=",
    "UPDATE {n} SET s = 'b' WHERE id = 1": "{t}.update(set=",
    "MERGE INTO {n} t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DELETE": "{t}.merge(frame",
    "TRUNCATE TABLE {n}": "{t}.delete()",
    "DROP TABLE {n}": "{c}.drop_table({r!r})",
    "DROP TABLE IF EXISTS {n}": "{c}.drop_table({r!r})",
    "-- it's gone\nDROP TABLE IF EXISTS {n}": "{c}.drop_table({r!r})",
    "DROP TABLE {n} PURGE": "{c}.purge_table({r!r})",
    "CREATE TABLE {n}2 (id INT) USING iceberg": "{c}.create_table('{r}2'",
    "CREATE TABLE {n}2 (id INT)": "{c}.create_table('{r}2'",
    "CREATE TABLE {n}2 USING iceberg AS SELECT 1 id": "writeTo('{n}2').using(\"iceberg\").create()",
    "CREATE OR REPLACE TABLE {n} USING iceberg AS SELECT 1 id": "createOrReplace()",
    "CREATE VIEW {n}v AS SELECT 1 id": "createOrReplaceTempView",
    "ALTER TABLE {n} ADD COLUMN x INT": "update.add_column(",
    "ALTER TABLE {n} ADD COLUMNS (x INT)": "update.add_column(",
    "ALTER TABLE {n} DROP COLUMN s": "update.delete_column(",
    "ALTER TABLE {n} RENAME COLUMN s TO u": "update.rename_column(",
    "ALTER TABLE {n} ALTER COLUMN s DROP NOT NULL": "make_column_optional(",
    "ALTER TABLE {n} RENAME TO {n}9": "{c}.rename_table({r!r}",
    "ALTER TABLE {n} SET TBLPROPERTIES ('a' = 'b')": "{t}.set_properties(",
    "ALTER TABLE {n} UNSET TBLPROPERTIES ('a')": "{t}.remove_properties(",
    "ALTER TABLE {n} ADD PARTITION FIELD bucket(4, id)": "update.add_field(",
    "ALTER TABLE {n} DROP PARTITION FIELD id": "update.remove_field(",
    "ALTER TABLE {n} WRITE ORDERED BY id": "update_sort_order()",
    "ALTER TABLE {n} SET IDENTIFIER FIELDS id": "set_identifier_fields(",
    "ALTER TABLE {n} CREATE BRANCH b": "create_branch(",
    "ALTER TABLE {n} CREATE OR REPLACE TAG b": "create_tag(",
    "ALTER TABLE {n} DROP BRANCH b": "remove_branch(",
    "DESCRIBE {n}": "{t}.schema()",
    "DESCRIBE TABLE EXTENDED {n}": "{t}.schema()",
    "SHOW CREATE TABLE {n}": "print({t})",
    "SHOW TBLPROPERTIES {n}": "{t}.properties",
    "SHOW COLUMNS IN {n}": "{t}.columns",
    "SHOW PARTITIONS {n}": "{t}.inspect.partitions()",
    "SHOW TABLES IN {ns}": "{c}.list_tables('db')",
    "DROP NAMESPACE {ns}": "{c}.drop_namespace('db')",
    "DESCRIBE NAMESPACE {ns}": "{c}.load_namespace_properties('db')",
    "COMMENT ON TABLE {n} IS 'x'": "{t}.set_properties(",
    "ANALYZE TABLE {n} COMPUTE STATISTICS": "{t}.count()",
    "REFRESH TABLE {n}": "spark.catalog.refreshTable({n!r})",
    "CACHE TABLE {n}": "spark.table({n!r}).createOrReplaceTempView",
    "CALL {cat}.system.rollback_to_snapshot('db.r', 1)": "manage.rollback_to_snapshot(",
    "CALL {cat}.system.expire_snapshots(table => 'db.r')": ").maintenance.expire_snapshots(",
    "CALL {cat}.system.add_files(table => 'db.r', source_table => '`parquet`.`/x`')": "add_files([",
    "EXPLAIN FORMATTED DELETE FROM {n}": "{t}.delete(where=",
    "SELECT * FROM {n}": "spark.table({n!r}).createOrReplaceTempView",
    "EXPLAIN SELECT * FROM {n}": "spark.table({n!r}).createOrReplaceTempView",
    "SELECT * -- it's /* the \"rows\nFROM {n} /* `all` /* of */ them */": "spark.table({n!r}).createOrReplaceTempView",
    "TABLE {n}": "spark.table({n!r}).createOrReplaceTempView",
}  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch, spark):
    """The default catalog and a catalog `prod` of the session, each with a table db.r."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAZIL_HOME", str(tmp_path / "home"))
    settings = {"spark.sql.catalog.prod.type": "path", "spark.sql.catalog.prod.warehouse": str(tmp_path / "prod")}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        with frazil.load_catalog() as catalog, frazil.load_catalog("prod", type="path", warehouse=str(tmp_path / "prod")) as prod:
            for one in (catalog, prod):
                one.create_namespace("db")
                one.create_table("db.r", "id bigint, s string").append(pa.table({"id": [1], "s": ["a"]}))
            yield {"": catalog, "prod": prod}
    finally:
        for key in settings:
            spark.conf.unset(key)


def fill(text, name, catalog):
    rest = name.removeprefix("prod.")
    opened = f"frazil.load_catalog({catalog!r})" if catalog else "frazil.load_catalog()"
    found = {"{n}": name, "{n!r}": repr(name), "{r}": rest, "{r!r}": repr(rest), "{t}": f"frazil.load_table({name!r})", "{c}": opened}
    found |= {"{ns}": name.removesuffix(".r"), "{cat}": catalog or "default"}
    return re.sub(r"\{[a-z]+(?:!r)?\}", lambda m: found[m[0]], text)


@pytest.mark.spark
@pytest.mark.parametrize(("name", "catalog"), [("db.r", ""), ("prod.db.r", "prod")])
def test_each_statement_is_refused_with_the_call_that_does_it(spark, home, caplog, name, catalog):
    reports = [PySparkLogger.getLogger(r) for r in REPORTS]
    for logger in reports:
        logger.addHandler(caplog.handler)
    wrong = {}
    try:
        for text, call in STATEMENTS.items():
            asked, wanted = fill(text, name, catalog), fill(call, name, catalog)
            try:
                spark.sql(asked)
            except Unsupported as refusal:
                if wanted not in refusal.hint or ("createOrReplaceTempView" in refusal.hint) != ("createOrReplaceTempView" in wanted):
                    wrong[asked] = f"{refusal} (wanted {wanted})"
            except Exception as error:
                wrong[asked] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            else:
                wrong[asked] = "done by Spark"
    finally:
        for logger in reports:
            logger.removeHandler(caplog.handler)
    assert wrong == {}
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert home[catalog].load_table("db.r").to_arrow().to_pylist() == [{"id": 1, "s": "a"}]


@pytest.mark.spark
def test_statements_about_tables_of_spark_are_sparks_and_so_are_their_errors_and_reports(spark, home, caplog):
    spark.range(3).createOrReplaceTempView("plain")
    assert spark.sql("SELECT * FROM plain").count() == 3 and spark.sql("EXPLAIN SELECT * FROM plain").count() == 1
    spark.sql("DROP TABLE IF EXISTS elsewhere.t")
    reports = [PySparkLogger.getLogger(r) for r in REPORTS]
    for logger in reports:
        logger.addHandler(caplog.handler)
    try:
        for text in ("DELETE FROM nowhere.t", "SELECT * FROM nowhere.t", "SELECT nope FROM plain", "ALTER TABLE nowhere.t ADD COLUMN x INT"):
            with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|UNRESOLVED_COLUMN"):
                spark.sql(text)
        assert len(caplog.records) >= 4
        with pytest.raises(Unsupported, match=r"over table db\.r .*createOrReplaceTempView"):
            spark.sql("CREATE TEMPORARY VIEW mine AS SELECT * FROM db.r")
    finally:
        for logger in reports:
            logger.removeHandler(caplog.handler)
        spark.catalog.dropTempView("plain")


@pytest.mark.spark
def test_a_writer_without_using_says_what_makes_an_iceberg_table(spark, home):
    frame = spark.range(3)
    for write, call in (
        (lambda: frame.writeTo("db.new").create(), 'df.writeTo(\'db.new\').using("iceberg").create()'),
        (lambda: frame.writeTo("db.new").createOrReplace(), 'df.writeTo(\'db.new\').using("iceberg").createOrReplace()'),
        (lambda: frame.writeTo("db.new").append(), 'using("iceberg").create()'),
        (lambda: frame.write.saveAsTable("db.new"), 'df.write.format("iceberg").saveAsTable(\'db.new\')'),
        (lambda: frame.write.insertInto("db.new"), 'df.write.format("iceberg").saveAsTable(\'db.new\')'),
    ):
        with pytest.raises(NoSuchTableError) as caught:
            write()
        assert call in caught.value.hint
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND") as caught:
        frame.writeTo("nowhere.new").create()
    assert any('using("iceberg").create()' in note for note in caught.value.__notes__)
    frame.writeTo("db.new").using("iceberg").create()
    assert spark.table("db.new").count() == 3


def test_a_statement_is_known_by_its_words_not_by_what_its_texts_and_comments_say():
    assert statement_of("SELECT 'delete from db.t'") is None and statement_of("select * from db.t where s = '-- x'") is None
    assert statement_of(without_comments("/* insert into a.b */ drop table `db` . `t u`")).name == "`db`.`t u`"
    assert statement_of("explain extended update c.db.t set x = 1").kind == "UPDATE"
    assert statement_of("CREATE TEMPORARY VIEW v AS SELECT * FROM db.t") is None


@pytest.mark.parametrize(
    "procedure",
    ["expire_snapshots", "remove_orphan_files", "rewrite_data_files", "rewrite_manifests", "rewrite_position_delete_files",
     "compute_table_stats", "compute_partition_stats", "rewrite_table_path", "publish_changes", "ancestors_of"],
)  # fmt: skip
def test_a_procedure_leads_to_the_method_of_its_name(procedure):
    hint = statement_of(f"CALL prod.system.{procedure}(table => 'db.t')").call("prod", ("db", "t"))
    assert hint.startswith(f"frazil.load_table('prod.db.t').maintenance.{procedure}(") and hasattr(MaintenanceTable, procedure)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CALL prod.system.expire_snapshots('db.t')", "prod.db.t"),
        ("CALL prod.system.expire_snapshots('prod.db.t')", "prod.db.t"),
        ("CALL `my.cat`.system.expire_snapshots('db.t')", "`my.cat`.db.t"),
        ("CALL `my.cat` . `system` . `expire_snapshots`(table => 'db.`a.b`')", "`my.cat`.db.`a.b`"),
        ("CALL prod.system.expire_snapshots('`prod`.db.t')", "`prod`.db.t"),
        ("CALL system.expire_snapshots('db.`a.b`')", "db.`a.b`"),
        ("CALL prod.system.expire_snapshots('no identifier.')", "no identifier."),
    ],
)  # fmt: skip
def test_the_table_of_a_procedure_is_named_with_its_catalog(text, name):
    assert statement_of(text).name == name


def test_a_name_keeps_its_back_quotes_in_the_call_to_use_instead():
    statement = statement_of("DROP TABLE prod . db . `a . b.c`")
    assert statement.name == "prod.db.`a . b.c`"
    assert statement.call("prod", ("db", "a . b.c")) == "frazil.load_catalog('prod').drop_table('db.`a . b.c`')."
    assert statement_of("UPDATE db . `a``b . c` SET id = 1").name == "db.`a``b . c`"
    assert statement_of("CALL prod . `system` . expire_snapshots('db.`a``b . c`')").name == "prod.db.`a``b . c`"


@pytest.mark.spark
def test_a_query_over_a_table_is_refused_with_its_name_whatever_stands_in_back_quotes(spark, home):
    home[""].create_table("db.`a``b . c`", "id bigint")
    for name in ("db . `a``b . c`", "default. db .`a``b . c`"):
        with pytest.raises(Unsupported, match=r"over table .*db\.`a``b \. c` is not") as refused:
            spark.sql(f"""SELECT 'db.r', "it's db.r" FROM {name} WHERE id = 1""")
        assert "db.`a``b . c`').createOrReplaceTempView" in refused.value.hint


def test_a_procedure_is_known_by_the_last_part_of_its_name_not_by_a_dot_within_a_part():
    assert statement_of("CALL prod.`x.system.expire_snapshots`('db.t')") is None


@pytest.mark.parametrize("procedure", ["snapshot", "migrate"])
def test_a_procedure_that_makes_a_table_leads_to_the_method_of_the_catalog(procedure):
    hint = statement_of(f"CALL prod.system.{procedure}('db.t')").call("prod", ("db", "t"))
    assert f".{procedure}(" in hint and hasattr(Catalog, procedure)


@pytest.mark.parametrize(
    ("text", "methods"), [("OPTIMIZE db.t", ["rewrite_data_files"]), ("VACUUM db.t", ["expire_snapshots", "remove_orphan_files"])]
)
def test_maintenance_of_delta_leads_to_procedures(text, methods):
    hint = statement_of(text).call(None, ("db", "t"))
    assert re.findall(r"maintenance\.(\w+)\(", hint) == methods and all(hasattr(MaintenanceTable, m) for m in methods)
