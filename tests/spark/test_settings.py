"""Settings of the session that Java's users make: they lie under the caller's options, and none is
ignored.
"""

import ast
import importlib
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, Unsupported

pytestmark = pytest.mark.spark


@pytest.fixture
def settings(spark):
    """Sets session settings and takes them back."""
    made = []

    def put(**given):
        for key, value in given.items():
            name = key.replace("__", "-").replace("_", ".")
            made.append(name)
            spark.conf.set(name, value)

    yield put
    for name in made:
        spark.conf.unset(name)


@pytest.fixture
def table(tmp_path):
    return frazil.load_catalog("c", type="path", warehouse=str(tmp_path)).create_table(
        "db.t", "id bigint"
    )


def test_write_settings_of_the_session_lie_under_the_options(spark, table, settings):
    settings(
        spark_sql_iceberg_merge__schema="true", spark_sql_iceberg_snapshot__property_k="session"
    )
    table.append(spark.range(2).selectExpr("id", "'x' as extra"))
    assert [f.name for f in table.schema().fields] == [
        "id",
        "extra",
    ] and table.current_snapshot().summary["k"] == "session"
    table.append(
        spark.range(1).selectExpr("id", "'y' as extra"), **{"snapshot-property.k": "caller"}
    )
    assert table.current_snapshot().summary["k"] == "caller"
    settings(spark_sql_iceberg_shred__variants="true")
    with pytest.raises(Unsupported, match="shred-variants"):
        table.append(spark.range(1).selectExpr("id", "'z' as extra"))


def test_a_session_under_audit_reads_the_branch_it_writes(spark, table, settings):
    table.append(spark.range(1))
    table.set_properties(**{"write.wap.enabled": True})
    settings(spark_wap_branch="audit")
    assert table.to_spark(spark).count() == 1  # the branch is not there yet
    table.append(spark.range(5, 7))
    assert (
        table.to_spark(spark).count() == 3
        and spark.read.format("iceberg").load(table.location()).count() == 3
    )
    assert table.scan(branch="main").to_spark(spark).count() == 1


def test_an_arrow_write_asks_no_session_that_it_was_not_given(spark, table, session, monkeypatch):
    """`session` is active, and in write-audit-publish: its settings are those of its own frames and
    of verbs that it works on.
    """
    table.append(pa.table({"id": [1, 2]}))
    table.set_properties(**{"write.wap.enabled": True})
    session.conf.set("spark.wap.branch", "audit")
    with monkeypatch.context() as patched:
        patched.setattr(
            "frazil.table.engines.active_session",
            lambda: pytest.fail("an Arrow write asked for the active session"),
        )
        assert table.append(pa.table({"id": [3]})).summary["engine-name"] == "frazil"
        table.overwrite(pa.table({"id": [4]}), "id = 3")
        table.dynamic_partition_overwrite(pa.table({"id": [5, 6]}))
        with pytest.raises(Unsupported, match="levenshtein"):
            table.overwrite(pa.table({"id": [7]}), "levenshtein(string(id), '5') = 0")
    assert "audit" not in table.refs() and sorted(table.to_arrow()["id"].to_pylist()) == [5, 6]
    table.overwrite(session.createDataFrame([(7,)], "id long"), "levenshtein(string(id), '5') = 0")
    assert sorted(table.scan(branch="audit").to_arrow()["id"].to_pylist()) == [6, 7]
    table.delete("id = 6")  # takes no frame: the active session's audit is not passed by
    assert table.scan(branch="audit").to_arrow()["id"].to_pylist() == [7] and sorted(
        table.to_arrow()["id"].to_pylist()
    ) == [5, 6]


def test_arrow_rows_are_upserted_and_merged_under_the_settings_of_a_session_that_the_call_names(
    table, session
):
    table.append(pa.table({"id": [1, 2]}))
    table.set_properties(**{"write.wap.enabled": True})
    session.conf.set("spark.wap.branch", "audit")
    session.conf.set("spark.sql.iceberg.snapshot-property.k", "session")
    more = pa.table({"id": [2, 3]})
    assert table.upsert(more, ["id"]).summary["engine-name"] == "frazil"
    table.merge(more, "target.id = source.id").when_matched_delete().execute()
    assert (
        "audit" not in table.refs()
        and table.to_arrow()["id"].to_pylist() == [1]
        and "k" not in table.current_snapshot().summary
    )
    table.upsert(more, ["id"], spark=session)
    table.merge(
        pa.table({"id": [2]}), "target.id = source.id", spark=session
    ).when_matched_delete().execute()
    assert sorted(table.scan(branch="audit").to_arrow()["id"].to_pylist()) == [
        1,
        3,
    ] and table.to_arrow()["id"].to_pylist() == [1]
    assert table.snapshot_by_name("audit").summary["k"] == "session"
    # a Spark frame names its session
    table.upsert(session.createDataFrame([(4,)], "id long"), ["id"])
    assert sorted(table.scan(branch="audit").to_arrow()["id"].to_pylist()) == [1, 3, 4]


def test_case_sensitive_at_spark_entry_points_is_the_callers_then_the_sessions(
    spark, table, settings
):
    table.append(spark.range(5))
    scans = (
        lambda **k: table.scan("ID > 2", **k),
        lambda **k: table.changes(row_filter="ID > 2", **k),
    )
    for scan in scans:
        assert (
            scan().to_spark(spark).count()
            == scan(case_sensitive=False).to_spark(spark).count()
            == 2
        )
        with pytest.raises(Exception, match="ID"):
            scan(case_sensitive=True).to_spark(spark)
    settings(spark_sql_caseSensitive="true")
    for scan in scans:
        assert scan(case_sensitive=False).to_spark(spark).count() == 2
        with pytest.raises(Exception, match="ID"):
            scan().to_spark(spark)
    assert spark.conf.get("spark.sql.caseSensitive") == "true"


def test_a_bad_setting_is_told_by_its_name_and_one_that_means_nothing_bends(spark, table, settings):
    settings(spark_sql_iceberg_compression__level="banana")
    with pytest.raises(InvalidInput, match=r"spark.sql.iceberg.compression-level.*'banana'"):
        table.append(spark.range(1))
    settings(
        spark_sql_iceberg_compression__level="3",
        spark_sql_iceberg_compression__strategy="speed",
        spark_sql_iceberg_merge__schema="true",
    )
    table.append(spark.range(3))
    assert table.delete("id = 1", spark=spark).rows_deleted == 1


def test_columns_that_differ_only_in_case_are_written_by_arrow(spark, tmp_path):
    t = frazil.load_catalog("c", type="path", warehouse=str(tmp_path)).create_table(
        "db.t", "id bigint, ID bigint"
    )
    t.append(spark.sql("select 1L id, 2L ID"))
    assert t.scan().to_arrow().to_pylist() == [{"id": 1, "ID": 2}]


def test_without_ansi_filters_and_changes_mean_what_spark_means(session, catalog):
    """There what fails is null: files whose rows may fail must be read, and Spark decides the rows."""
    session.conf.set("spark.sql.ansi.enabled", "false")
    for where in ("int(s) is null", "int(s) + 1 = 6", "id / 0 is null", "not (id / n = 1)"):
        table = catalog.create_table(f"db.t{abs(hash(where))}", "id bigint, s string, n int")
        table.append(pa.table({"id": [1, 2], "s": ["ABC", "5"], "n": pa.array([0, 1], pa.int32())}))
        table.append(
            pa.table(
                {"id": [3], "s": pa.array([None], pa.string()), "n": pa.array([3], pa.int32())}
            )
        )
        want = sorted(
            r["id"]
            for r in session.createDataFrame(
                [(1, "ABC", 0), (2, "5", 1), (3, None, 3)], "id bigint, s string, n int"
            )
            .where(where)
            .collect()
        )
        assert sorted(r["id"] for r in table.scan(where).to_spark(session).collect()) == want
        assert sorted(r["id"] for r in table.to_spark(session).where(where).collect()) == want
        assert table.update(set={"s": "int(s)"}, where=where, spark=session).rows_updated == len(
            want
        )
        assert table.delete(f"not coalesce({where}, false)", spark=session).rows_deleted == 3 - len(
            want
        )
    plain = catalog.create_table("db.plain", "id bigint, s string")
    plain.append(pa.table({"id": [1, 2], "s": ["ABC", "5"]}))
    # comparisons mean the same everywhere
    assert plain.scan("s = 'none' or id > 5").explain().report.skipped_data_files == 1


def called(call: ast.Call) -> str:
    name = ast.unparse(call.func)
    return "conf.get" if name.endswith("conf.get") else name


def asked_with_default():
    """(module, line, key, default) of each setting that the code asks a session for with a default."""
    for path in sorted(Path(frazil.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text())
        calls = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Call)
            and len(n.args) == {"conf.get": 2, "setting": 3}.get(called(n))
        ]
        if not calls:
            continue
        name = ".".join(path.relative_to(Path(frazil.__file__).parents[1]).with_suffix("").parts)
        module = importlib.import_module(name)
        for call in calls:
            try:
                key, default = (eval(ast.unparse(a), vars(module)) for a in call.args[-2:])
            except NameError:
                # a variable of the function: the key is that of a loop, or of the caller
                continue
            yield name, call.lineno, key, default


def test_a_session_that_sets_nothing_answers_each_setting_with_the_default_that_the_code_gives(
    plain_spark,
):
    bare, asked = plain_spark.newSession(), list(asked_with_default())
    for _, _, key, _ in asked:
        if bare.conf.isModifiable(key):
            bare.conf.unset(key)
    for module, line, key, default in asked:
        try:
            bare.conf.get(key, default)
        except Exception as e:
            pytest.fail(
                f"{module}:{line} asks for {key} with a default that Spark refuses, {default!r}: {e}"
            )
    assert {"spark.app.name", "spark.speculation", "spark.sql.autoBroadcastJoinThreshold"} <= {
        key for _, _, key, _ in asked
    }
