"""Statements of Spark SQL over a catalog of Frazil's, each with the rows that it gives; statements
without rows are run for what follows.
"""

import logging

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil.spark.host.jvm import classic_jvm
from frazil.spark.host.jvm_views import SparkCache

pytestmark = pytest.mark.spark

READS = [
    ("CREATE TABLE lake.db.t (id BIGINT NOT NULL, s STRING, p INT) USING iceberg PARTITIONED BY (p)", None),
    ("INSERT INTO lake.db.t VALUES (1, 'a', 1), (2, 'b', 2)", None),
    ("ALTER TABLE lake.db.t CREATE TAG v1", None),
    ("ALTER TABLE lake.db.t CREATE BRANCH audit", None),
    ("INSERT INTO lake.db.t VALUES (3, 'c', 1)", None),
    ("SELECT * FROM lake.db.t ORDER BY id", [(1, "a", 1), (2, "b", 2), (3, "c", 1)]),
    ("SELECT lake.db.t.id, db.t.s, t.p FROM lake.db.t WHERE lake.db.t.id = 1", [(1, "a", 1)]),
    ("SELECT x.id FROM lake.db.t AS x WHERE x.p = 2", [(2,)]),
    ("SELECT count(*) FROM lake.db.t VERSION AS OF 'v1'", [(2,)]),
    ("SELECT count(*) FROM lake.db.t FOR SYSTEM_VERSION AS OF 'audit'", [(2,)]),
    ("SELECT count(*) FROM lake.db.t TIMESTAMP AS OF current_timestamp()", [(3,)]),
    ("SELECT count(*) FROM lake.db.t.tag_v1", [(2,)]),
    ("SELECT count(*) FROM lake.db.t.branch_audit", [(2,)]),
    ("SELECT count(*) FROM lake.db.t WITH ('branch' = 'audit')", [(2,)]),
    ("SELECT a.id, b.id FROM lake.db.t a LEFT JOIN lake.db.t VERSION AS OF 'v1' b ON a.id = b.id ORDER BY 1", [(1, 1), (2, 2), (3, None)]),
    ("SELECT a.id FROM lake.db.t a JOIN lake.db.t b USING (id) ORDER BY 1", [(1,), (2,), (3,)]),
    ("WITH c AS (SELECT * FROM lake.db.t) SELECT count(*) FROM c WHERE EXISTS (SELECT 1 FROM lake.db.t t WHERE t.id = c.id AND p = 1)", [(2,)]),
    ("SELECT /*+ BROADCAST(a) */ count(*) FROM lake.db.t a JOIN lake.db.t b ON a.id = b.id", [(3,)]),
    ("SELECT _pos, _partition.p, _spec_id, _deleted, _file LIKE '%.parquet' FROM lake.db.t WHERE id = 2", [(0, 2, 0, False, True)]),
    ("SELECT count(*) FROM lake.db.t.files", [(3,)]),
    ("SELECT operation FROM lake.db.t.snapshots", [("append",), ("append",)]),
    ("SELECT name, type FROM lake.db.t.refs ORDER BY 1", [("audit", "BRANCH"), ("main", "BRANCH"), ("v1", "TAG")]),
    ("SELECT count(*) FROM lake.db.t.history h JOIN lake.db.t.snapshots s ON h.snapshot_id = s.snapshot_id", [(2,)]),
    ("CREATE OR REPLACE TEMPORARY VIEW of_t AS SELECT count(*) AS n FROM lake.db.t", None),
    ("CREATE OR REPLACE VIEW spark_catalog.default.always AS SELECT count(*) AS n FROM lake.db.t", None),
    ("INSERT INTO lake.db.t SELECT id + 10, s, p FROM lake.db.t", None),
    ("SELECT n FROM of_t", [(6,)]),
    ("SELECT n FROM spark_catalog.default.always", [(6,)]),
    ("DROP VIEW spark_catalog.default.always", None),
    ("DROP VIEW of_t", None),
    ("CACHE TABLE lake.db.t", None),
    ("INSERT INTO lake.db.t VALUES (50, 'x', 1)", None),
    ("SELECT count(*) FROM lake.db.t", [(7,)]),
    ("REFRESH TABLE lake.db.t", []),
    ("UNCACHE TABLE lake.db.t", []),
    ("SELECT count(*) FROM lake.db.t", [(7,)]),
    ("EXECUTE IMMEDIATE 'SELECT max(id) FROM lake.db.t'", [(50,)]),
    ("USE lake.db", []),
    ("SELECT count(*) FROM t", [(7,)]),
    ("SELECT current_database()", [("db",)]),
    ("SHOW TABLES", [("db", "t", False)]),
    ("SELECT max(t.id) FROM db.t AS t", [(50,)]),
]  # fmt: skip
WRITES = [
    ("CREATE TABLE lake.db.t (id BIGINT, s STRING, p INT) USING iceberg PARTITIONED BY (p)", None),
    ("INSERT INTO lake.db.t VALUES (1, 'a', 1)", None),
    ("INSERT INTO lake.db.t (p, id) VALUES (1, 2)", None),
    ("INSERT INTO lake.db.t BY NAME SELECT 2 AS p, 3L AS id, 'c' AS s", None),
    ("INSERT INTO lake.db.t PARTITION (p = 3) VALUES (4, 'd')", None),
    ("INSERT INTO TABLE lake.db.t SELECT * FROM lake.db.t WHERE false", None),
    ("SELECT * FROM lake.db.t ORDER BY id", [(1, "a", 1), (2, None, 1), (3, "c", 2), (4, "d", 3)]),
    ("INSERT OVERWRITE lake.db.t PARTITION (p = 1) VALUES (5, 'e')", None),
    ("SELECT id, p FROM lake.db.t ORDER BY id", [(3, 2), (4, 3), (5, 1)]),
    ("INSERT INTO lake.db.t REPLACE WHERE p = 3 AND s = 'd' VALUES (6, 'd', 3)", None),
    ("SELECT id FROM lake.db.t WHERE p = 3", [(6,)]),
    ("SET spark.sql.sources.partitionOverwriteMode = dynamic", None),
    ("INSERT OVERWRITE lake.db.t VALUES (7, 'g', 3)", None),
    ("INSERT OVERWRITE TABLE lake.db.t PARTITION (p) SELECT 8L, 'h', 2", None),
    ("SELECT id, p FROM lake.db.t ORDER BY id", [(5, 1), (7, 3), (8, 2)]),
    ("INSERT OVERWRITE lake.db.t PARTITION (p = 1) VALUES (9, 'i')", None),
    ("SELECT id, p FROM lake.db.t ORDER BY id", [(7, 3), (8, 2), (9, 1)]),
    ("RESET spark.sql.sources.partitionOverwriteMode", None),
    ("INSERT OVERWRITE lake.db.t VALUES (10, 'j', 1)", None),
    ("SELECT * FROM lake.db.t", [(10, "j", 1)]),
    ("ALTER TABLE lake.db.t CREATE BRANCH audit", None),
    ("INSERT INTO lake.db.t.branch_audit VALUES (11, 'k', 1)", None),
    ("SELECT count(*) FROM lake.db.t.branch_audit", [(2,)]),
    ("SELECT count(*) FROM lake.db.t", [(1,)]),
    ("CREATE TABLE lake.db.c USING iceberg PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ('k' = 'v') AS SELECT id, s FROM lake.db.t", None),
    ("SELECT * FROM lake.db.c", [(10, "j")]),
    ("SELECT count(*) FROM lake.db.c.snapshots", [(1,)]),
    ("CREATE OR REPLACE TABLE lake.db.c USING iceberg AS SELECT 1 AS one UNION ALL SELECT 2", None),
    ("SELECT * FROM lake.db.c ORDER BY 1", [(1,), (2,)]),
    ("SELECT count(*) FROM lake.db.c.snapshots", [(2,)]),
    ("REPLACE TABLE lake.db.c (a INT, b STRING) USING iceberg", None),
    ("SELECT * FROM lake.db.c", []),
    ("CREATE TABLE IF NOT EXISTS lake.db.c (z INT) USING iceberg", None),
    ("CREATE TABLE lake.db.n USING iceberg AS SELECT named_struct('x', array(1, 2)) AS s, map('k', 1.5D) AS m, DATE '2026-01-01' AS d", None),
    ("SELECT s.x[1], m['k'], d = DATE '2026-01-01' FROM lake.db.n", [(2, 1.5, True)]),
    ("DROP TABLE lake.db.c", None),
    ("DROP TABLE IF EXISTS lake.db.c", None),
    ("SHOW TABLES IN lake.db", [("db", "n", False), ("db", "t", False)]),
    ("BEGIN DECLARE n BIGINT; SET n = (SELECT count(*) FROM lake.db.t); INSERT INTO lake.db.t VALUES (n, 'n', 9); SELECT id FROM lake.db.t WHERE p = 9; END", [(1,)]),
    ("FROM lake.db.t INSERT INTO lake.db.t SELECT id + 20, s, p INSERT INTO lake.db.t SELECT id + 40, s, p WHERE id = 10", None),
    ("SELECT id FROM lake.db.t WHERE id < 40 ORDER BY id", [(1,), (10,), (21,), (30,)]),
    ("SELECT max(id) >= 50 FROM lake.db.t", [(True,)]),
    ("CREATE TABLE lake.db.q (id INT, `My Col` INT, `c.d` INT, s STRUCT<`ü`: INT>) PARTITIONED BY (`My Col`, bucket(4, `c.d`), truncate(10, s.`ü`))", None),
    ("INSERT INTO lake.db.q PARTITION (`My Col` = 7) SELECT 1, 2, named_struct('ü', 3)", None),
    ("INSERT OVERWRITE lake.db.q SELECT id + 1, `My Col`, `c.d`, s FROM lake.db.q", None),
    ("SELECT id, `My Col`, `c.d`, s.`ü` FROM lake.db.q", [(2, 7, 2, 3)]),
    ("ALTER TABLE lake.db.q DROP PARTITION FIELD bucket(4, `c.d`)", None),
    ("SHOW COLUMNS IN lake.db.q", [("id",), ("My Col",), ("c.d",), ("s",)]),
]  # fmt: skip
ONE_FILE = "SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b') AS v(id, s)"
HIDDEN_COLUMNS = [
    ("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg", None),
    (f"INSERT INTO lake.db.t {ONE_FILE}", None),
    ("SELECT count(DISTINCT a._file) FROM lake.db.t a JOIN lake.db.t b ON a.id = b.id WHERE b._pos = 0", [(1,)]),
    ("SELECT a._pos, b._pos FROM lake.db.t a JOIN lake.db.t b ON a._file = b._file AND a._pos = b._pos ORDER BY 1", [(0, 0), (1, 1)]),
    ("SELECT id FROM lake.db.t WHERE (_file, _pos) IN (SELECT _file, _pos FROM lake.db.t WHERE id = 2)", [(2,)]),
    ("SELECT a.id FROM lake.db.t a LEFT ANTI JOIN lake.db.t b ON a._pos = b._pos + 1", [(1,)]),
    ("SELECT _pos FROM lake.db.t UNION ALL SELECT _pos FROM lake.db.t ORDER BY 1", [(0,), (0,), (1,), (1,)]),
    ("SELECT *, _pos FROM lake.db.t ORDER BY id", [(1, "a", 0), (2, "b", 1)]),
    ("SELECT t.*, t._spec_id, _file LIKE '%.parquet' FROM lake.db.t t ORDER BY id", [(1, "a", 0, True), (2, "b", 0, True)]),
    ("SELECT * FROM lake.db.t WHERE _pos = 1", [(2, "b")]),
    ("SELECT a.*, b._pos FROM lake.db.t a JOIN lake.db.t b ON a.id = b.id ORDER BY 1", [(1, "a", 0), (2, "b", 1)]),
    ("SELECT * FROM lake.db.t a JOIN lake.db.t b ON a._pos = b._pos ORDER BY 1", [(1, "a", 1, "a"), (2, "b", 2, "b")]),
    ("SELECT * FROM (SELECT id, _pos FROM lake.db.t) x JOIN lake.db.t y ON x.id = y.id ORDER BY 1", [(1, 0, 1, "a"), (2, 1, 2, "b")]),
    ("SELECT * FROM lake.db.t a JOIN VALUES (0) AS v(k) ON a._pos = v.k", [(1, "a", 0)]),
    ("WITH c AS (SELECT *, _pos AS p FROM lake.db.t) SELECT * FROM c ORDER BY id", [(1, "a", 0), (2, "b", 1)]),
    ("CREATE TEMPORARY VIEW with_places AS SELECT id, s, _pos AS p FROM lake.db.t", None),
    ("SELECT * FROM with_places ORDER BY id", [(1, "a", 0), (2, "b", 1)]),
    ("DROP VIEW with_places", None),
    ("USE lake.db", []),
    ("SELECT t.*, _pos FROM t WHERE _pos = 1", [(2, "b", 1)]),
    ("SELECT count(*) FROM t JOIN lake.db.t u ON t.id = u.id WHERE u._pos = 0", [(1,)]),
]  # fmt: skip
REPLACED = [
    ("CREATE TABLE lake.db.t (id BIGINT, d DATE, i INT) USING iceberg", None),
    ("INSERT INTO lake.db.t VALUES (1, DATE '2026-01-01', 1), (2, DATE '2026-01-02', 2)", None),
    ("INSERT INTO lake.db.t REPLACE WHERE d = CAST('2026-01-02' AS DATE) VALUES (3, DATE '2026-01-02', 3)", None),
    ("SELECT id FROM lake.db.t ORDER BY id", [(1,), (3,)]),
    ("INSERT INTO lake.db.t REPLACE WHERE CAST(i AS STRING) = '3' VALUES (4, DATE '2026-01-03', 3)", None),
    ("SELECT id FROM lake.db.t ORDER BY id", [(1,), (4,)]),
    ("INSERT INTO lake.db.t REPLACE WHERE CAST(i AS BIGINT) = id VALUES (5, NULL, 5)", None),
    ("SELECT id FROM lake.db.t ORDER BY id", [(4,), (5,)]),
    ("INSERT INTO lake.db.t REPLACE WHERE id > 4 VALUES (6, NULL, 6)", None),
    ("SELECT id FROM lake.db.t ORDER BY id", [(4,), (6,)]),
    ("CREATE TABLE lake.db.u (b TINYINT, s SMALLINT, f FLOAT, ts TIMESTAMP, n TIMESTAMP_NTZ) USING iceberg", None),
    ("INSERT INTO lake.db.u VALUES (1, 1, 1.5, TIMESTAMP '1970-01-01 00:10:00', TIMESTAMP_NTZ '1970-01-01 00:10:00')", None),
    *((f"INSERT INTO lake.db.u REPLACE WHERE {where} SELECT * FROM lake.db.u", None) for where in (
        "b IN (1, 2) AND s >= 1", "f < 2.0 OR f = 1.5", "ts = TIMESTAMP '1970-01-01 00:10:00'", "n = TIMESTAMP_NTZ '1970-01-01 00:10:00'",
    )),
    ("SELECT b, s, f, CAST(n AS STRING) FROM lake.db.u", [(1, 1, 1.5, "1970-01-01 00:10:00")]),
]  # fmt: skip
REFUSED = [
    ("SELECT * FROM lake.db.missing", "TABLE_OR_VIEW_NOT_FOUND"),
    ("SELECT * FROM lake.missing.t", "TABLE_OR_VIEW_NOT_FOUND"),
    ("SELECT * FROM lake.db.t.nope", "TABLE_OR_VIEW_NOT_FOUND"),
    ("SELECT nope FROM lake.db.t", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("INSERT INTO lake.db.t VALUES (1)", "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"),
    ("INSERT INTO lake.db.t VALUES (1, 'a', 1, 2)", "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"),
    ("INSERT INTO lake.db.t VALUES ('x', 'a', 1)", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"),
    ("INSERT INTO lake.db.t (id, nope) VALUES (1, 2)", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("INSERT INTO lake.db.t PARTITION (s = 'x') VALUES (1, 2)", "NON_PARTITION_COLUMN"),
    ("CREATE TABLE lake.db.t (id INT) USING iceberg", "TABLE_OR_VIEW_ALREADY_EXISTS"),
    ("CREATE TABLE lake.missing.t (id INT) USING iceberg", "SCHEMA_NOT_FOUND"),
    ("DROP TABLE lake.db.missing", "TABLE_OR_VIEW_NOT_FOUND"),
    ("SHOW TABLES IN lake.missing", "SCHEMA_NOT_FOUND"),
    ("USE lake.missing", "SCHEMA_NOT_FOUND"),
]  # fmt: skip


@pytest.mark.versions
@pytest.mark.parametrize(
    "statements",
    [READS, WRITES, HIDDEN_COLUMNS, REPLACED],
    ids=["reads", "writes", "hidden columns", "replaced"],
)
def test_statements_give_the_rows_that_the_table_says(run, statements):
    for text, rows in statements:
        answer = run(text)
        if rows is not None:
            assert answer == rows, text


@pytest.mark.versions
def test_what_spark_refuses_is_refused_in_sparks_own_words(run):
    run("CREATE TABLE lake.db.t (id BIGINT, s STRING, p INT) USING iceberg PARTITIONED BY (p)")
    for text, condition in REFUSED:
        with pytest.raises(AnalysisException) as refused:
            run(text)
        assert refused.value.getCondition() == condition, (text, str(refused.value)[:300])
        assert "py4j" not in str(refused.value) and "Traceback" not in str(refused.value)


def test_queries_are_read_by_sparks_own_scan_and_explain_names_table_and_snapshot(
    run, lake, table_of
):
    run("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a')")
    plan = run("EXPLAIN SELECT s FROM lake.db.t WHERE id = 1")[0][0]
    assert "ColumnarToRow" in plan and "PushedFilters: [IsNotNull(id), EqualTo(id,1)]" in plan
    assert f"{lake}.db.t snapshot {table_of('db.t').current_snapshot().snapshot_id}" in plan


def test_tables_are_read_and_dropped_where_sparks_cache_is_not_as_known(run, monkeypatch):
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    assert run("SELECT * FROM lake.db.t") == []
    unknown = property(lambda _: (_ for _ in ()).throw(AttributeError("isEmpty")))
    monkeypatch.setattr(SparkCache, "is_empty", unknown)
    monkeypatch.setattr("frazil.spark.host.fall_back._WARNED", set())
    run("INSERT INTO lake.db.t VALUES (1)")
    assert run("SELECT * FROM lake.db.t") == [(1,)]
    run("DROP TABLE lake.db.t")


@pytest.mark.versions
def test_what_is_cached_by_a_name_follows_the_table_and_leaves_with_it(
    run, spark, table_of, monkeypatch
):
    cache = SparkCache(spark, classic_jvm(spark))

    def names():
        return sorted(rows.name.split(".")[-1] for rows in cache.named())

    def is_read_from_cache(name):
        return "InMemoryRelation" in run(f"EXPLAIN SELECT * FROM {name}")[0][0]

    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1)")
    run("CREATE OR REPLACE TEMPORARY VIEW cached_text AS SELECT -id AS id FROM lake.db.t")
    run("CACHE TABLE lake.db.t OPTIONS ('storageLevel' 'MEMORY_ONLY')")
    run("CACHE TABLE cached_text")
    run("CACHE TABLE cached_query AS SELECT id + 1 AS id FROM lake.db.t")
    everything = {"lake.db.t", "cached_text", "cached_query"}
    frame = spark.sql("SELECT 7 AS seven").cache()  # is none of ours
    try:
        for count, write in enumerate(
            (
                lambda: table_of("db.t").append(pa.table({"id": [2]})),
                lambda: run("UPDATE lake.db.t SET id = 3 WHERE id = 2"),
                lambda: table_of("db.t").append(pa.table({"id": [4]})),
                lambda: run("CALL lake.system.rewrite_data_files('db.t')"),
            )
        ):
            if count == 2:  # as if another process wrote, and all after it
                monkeypatch.setattr("frazil.table.verbs.refresh_views", lambda loaded: None)
            write()
            expected = [(1,)] + [(3 if count else 2,)] + [(4,)] * (count > 1)
            assert sorted(run("SELECT * FROM lake.db.t")) == expected
            assert sorted(run("SELECT -id FROM cached_text")) == expected
            assert sorted(run("SELECT * FROM cached_query")) == [(n + 1,) for (n,) in expected]
            assert {name for name in everything if is_read_from_cache(name)} == everything
            assert names() == ["cached_query", "cached_text", "t"]
        (level,) = [rows.level for rows in cache.named() if rows.name.endswith(".t")]
        assert not level.useDisk()
        table_of("db.t").append(pa.table({"id": [5]}))
        run("UNCACHE TABLE cached_query")
        assert names() == ["cached_text", "t"]
        for statement in ("TRUNCATE TABLE lake.db.t", "REPLACE TABLE lake.db.t (id BIGINT)"):
            run(statement)
            assert run("SELECT * FROM lake.db.t") == run("SELECT * FROM cached_text") == []
            assert names() == ["cached_text", "t"]
        run("UNCACHE TABLE lake.db.t")  # which takes with it what is made of the table's rows
        assert names() == []
        run("CACHE TABLE lake.db.t")
        run("DROP TABLE lake.db.t")
        assert names() == [] and not cache.is_empty and frame.is_cached
    finally:
        spark.catalog.clearCache()
        for view in ("cached_text", "cached_query"):
            spark.catalog.dropTempView(view)


@pytest.mark.parametrize("by_sql", [True, False], ids=["SQL", "Python"])
def test_what_is_cached_is_renamed_with_the_table_and_leaves_with_it(run, spark, lake, by_sql):
    cache, catalog = SparkCache(spark, classic_jvm(spark)), frazil.load_catalog(lake)
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1)")
    other = spark.sql("SELECT 7 AS seven").cache()
    try:
        spark.table(f"{lake}.db.t").where("id > 0").cache().count()
        run("CACHE TABLE lake.db.t")
        if by_sql:
            run("ALTER TABLE lake.db.t RENAME TO lake.db.`a b`")
        else:
            catalog.rename_table("db.t", ("db", "a b"))
        assert [rows.name for rows in cache.named()] == [f"{lake}.db.a b"]
        assert "InMemoryRelation" in run("EXPLAIN SELECT * FROM lake.db.`a b`")[0][0]
        at = spark.sql(f"SELECT id + 1 FROM {lake}.db.`a b` VERSION AS OF 'main'")
        assert at.cache().count() == 1 and len(cache.entries()) == 4
        run("DROP TABLE lake.db.`a b`") if by_sql else catalog.drop_table(("db", "a b"))
        assert len(cache.entries()) == 1 and other.is_cached
    finally:
        spark.catalog.clearCache()


def test_a_cached_table_is_found_again_after_many_others_were_read(
    run, spark, table_of, monkeypatch
):
    monkeypatch.setattr("frazil.spark.catalog.relation._MOST_KEPT", 1)
    monkeypatch.setattr("frazil.table.verbs.refresh_views", lambda loaded: None)
    for name in ("t", "other"):
        run(f"CREATE TABLE lake.db.{name} (id BIGINT) USING iceberg")
    try:
        run("CACHE TABLE lake.db.t")
        run("SELECT * FROM lake.db.other")
        table_of("db.t").append(pa.table({"id": [1]}))  # as if another process wrote
        assert run("SELECT * FROM lake.db.t") == [(1,)]
        assert "InMemoryRelation" in run("EXPLAIN SELECT * FROM lake.db.t")[0][0]
        run("SELECT * FROM lake.db.other")
        monkeypatch.undo()
        table_of("db.t").append(pa.table({"id": [2]}))
        assert "InMemoryRelation" in run("EXPLAIN SELECT * FROM lake.db.t")[0][0]
        run("UNCACHE TABLE lake.db.t")
        assert SparkCache(spark, classic_jvm(spark)).named() == []
    finally:
        spark.catalog.clearCache()


def test_what_a_name_means_is_asked_of_the_session_that_cached_it(run, spark, lake, table_of):
    cache, other = SparkCache(spark, classic_jvm(spark)), spark.newSession()
    for key, value in spark.conf.getAll.items():
        if key.startswith(f"spark.sql.catalog.{lake}"):
            other.conf.set(key, value)
    reports = []
    handler = logging.Handler()
    handler.emit = reports.append
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    view = "CREATE OR REPLACE TEMP VIEW one_name AS SELECT {} * id AS id FROM {}.db.t"
    spark.sql(view.format(2, lake))
    other.sql(view.format(3, lake))

    def is_read_from_cache(session):
        return "InMemoryRelation" in session.sql("EXPLAIN SELECT * FROM one_name").first()[0]

    try:
        logging.getLogger("SQLQueryContextLogger").addHandler(handler)
        other.sql("CACHE TABLE one_name")
        for n in (1, 2):
            table_of("db.t").append(pa.table({"id": [n]}))
            assert sorted(run("SELECT * FROM one_name")) == [(2 * i,) for i in range(1, n + 1)]
            assert other.table("one_name").count() == n
            assert is_read_from_cache(other) and not is_read_from_cache(spark)
        other.sql("UNCACHE TABLE one_name")
        assert cache.named() == []
        run("USE lake.db")
        run("CACHE TABLE t")
        run("USE spark_catalog.default")
        table_of("db.t").append(pa.table({"id": [3]}))  # what t meant cannot be asked here
        assert cache.named() == [] and not reports
    finally:
        logging.getLogger("SQLQueryContextLogger").removeHandler(handler)
        spark.catalog.clearCache()
        for session in (spark, other):
            session.catalog.dropTempView("one_name")
