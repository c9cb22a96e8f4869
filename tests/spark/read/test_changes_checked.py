"""What DELETE, UPDATE and MERGE refuse on Spark before anything is read, and in which words."""

from functools import partial

import pyarrow as pa
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F

from frazil.errors import FrazilError, InvalidInput, ParseError, SchemaMismatch, ValidationError
from frazil.spark.dml import merge_by_sql
from frazil.spark.engine import engine
from frazil.spark.host.quiet import REPORTS
from tests.builders.files_on_disk import leftovers

pytestmark = pytest.mark.spark

STRUCT = pa.struct([("n1", pa.int32()), ("n2", pa.int32())])
PARTIAL = pa.struct([("n1", pa.int32())])
ON = "target.id = source.id"
BEYOND = f"{ON} and levenshtein('a', 'b') = 1"  # no function of Frazil's grammar


@pytest.fixture
def table(catalog):
    catalog.create_namespace_if_not_exists("db")
    schema = "id bigint, z string, s struct<n1: int, n2: int>, l array<struct<n1: int, n2: int>>, m map<string, struct<n1: int, n2: int>>"
    t = catalog.create_table("db.t", schema)
    t.append(nested(STRUCT, {"n1": 1, "n2": 2}))
    return t


@pytest.fixture
def source(session):
    return session.createDataFrame(
        [(1, "b", [5]), (2, "c", [6])], "id long, z string, a array<int>"
    )


def nested(kind, value, id_=1):
    """One row with a struct as it is, in a list and in a map."""
    return pa.table(
        {
            "id": pa.array([id_], pa.int64()),
            "z": ["a"],
            "s": pa.array([value], kind),
            "l": pa.array([[value]], pa.list_(kind)),
            "m": pa.array([[("k", value)]], pa.map_(pa.string(), kind)),
        }
    )


def refused(change, kind=FrazilError):
    with pytest.raises(kind) as caught:
        change()
    assert "__frazil" not in str(caught.value) and "Py4J" not in str(caught.value)
    return caught.value


def unchanged(t, snapshots=1):
    return len(t.refresh().snapshots()) == snapshots and leftovers(t) == []


# --- texts


@pytest.mark.versions
@pytest.mark.parametrize(
    "text",
    [
        "id oops",
        "id as oops",
        "hello world",
        "hello world there",
        "id = 1 oops",
        "1 2",
        "id, z",
        "",
        "levenshtein(z, 'a') oops",
        "'it''s",
    ],
)
def test_a_word_too_many_has_the_same_message_with_and_without_spark(table, session, text):
    for change in (
        lambda **where: table.update({"z": text}, **where),
        lambda **where: table.update({"z": "'q'"}, where=text, **where),
        lambda **where: table.delete(text, **where),
    ):
        errors = [
            refused(partial(change, **on), ParseError)
            for on in ({"spark": session}, {"runner": "in-process"})
        ]
        assert str(errors[0]) == str(errors[1])
    assert unchanged(table)


@pytest.mark.parametrize("text", ["source.z oops", "hello world"])
def test_texts_of_a_merge_have_the_same_messages_with_and_without_spark(
    table, source, session, text
):
    frames = {
        "spark": (source, {"spark": session}),
        "arrow": (source.toArrow(), {"runner": "in-process"}),
    }
    for clause in (
        lambda m: m(ON).when_matched_update({"z": text}),
        lambda m: m(ON).when_matched_delete(text),
        lambda m: m(ON).when_not_matched_insert({"id": "source.id", "z": text}),
        lambda m: m(text).when_matched_delete(),
    ):
        errors = [
            refused(clause(lambda on: table.merge(frame, on, **where)).execute, ParseError)  # noqa: B023
            for frame, where in frames.values()
        ]
        assert str(errors[0]) == str(errors[1])
    assert unchanged(table)


def test_an_alias_after_an_expression_that_only_spark_knows_is_pointed_at(table, session):
    error = refused(lambda: table.update({"z": "z rlike 'a' oops"}, spark=session), ParseError)
    assert (
        "Column z: " in str(error) and error.facts["position"] == 12 and "got 'oops'" in str(error)
    )
    error = refused(lambda: table.delete("z rlike 'a' and 5 5", spark=session), ParseError)
    assert error.facts["position"] == 18 and "Syntax error at or near '5'" in str(error)
    error = refused(lambda: table.update({"z": "z rlike hello"}, spark=session), ValidationError)
    assert "Column z: Cannot find column 'hello'" in str(error)
    assert unchanged(table)


@pytest.mark.parametrize("text", ["id = 1 oops", "hello world", "id, z"])
def test_a_scan_refuses_a_word_too_many_in_its_filter(table, session, text):
    for scan in (table.scan(text), table.changes(row_filter=text)):
        errors = [
            refused(partial(read, scan), ParseError)
            for read in (lambda s: s.to_spark(session), lambda s: s.to_arrow())
        ]
        assert str(errors[0]) == str(errors[1])
    assert table.scan("z rlike 'a'").to_spark(session).count() == 1
    assert table.changes(row_filter="z rlike 'a'").to_spark(session).count() == 1


def test_names_of_frazils_own_columns_are_no_names(table, session):
    for text in ("__frazil_c_pos rlike 'a'", "__frazil_c_file rlike 'a'"):
        with pytest.raises(ValidationError):
            table.update({"z": text}, spark=session)
    assert unchanged(table)


def test_sparks_own_report_of_an_error_does_not_come_before_frazils(table, source, session, caplog):
    reports = [PySparkLogger.getLogger(name) for name in REPORTS]
    for logger in reports:
        logger.addHandler(caplog.handler)
    try:
        refused(lambda: table.update({"z": "max(z)"}, spark=session))
        refused(lambda: table.delete("z rlike hello", spark=session))
        refused(lambda: table.update({"z": "id oops"}, spark=session))
        refused(table.merge(source, f"{ON} and rand() < 2").when_matched_delete().execute)
        for text in ("id = 1 oops", "z rlike", "nope("):
            refused(lambda: table.scan(text).to_spark(session), ParseError)  # noqa: B023
            refused(lambda: table.changes(row_filter=text).to_spark(session), ParseError)  # noqa: B023
        assert caplog.records == []
        with pytest.raises(Exception, match="nope"):
            # an error of Spark's own: its report follows it
            table.scan("nope rlike 'a'").to_spark(session)
        assert len(caplog.records) == 1
        with pytest.raises(Exception, match="hello"):
            session.range(1).select("hello")
        assert caplog.records != []
    finally:
        for logger in reports:
            logger.removeHandler(caplog.handler)


# --- functions of many rows


@pytest.mark.versions
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("max(id)", "aggregate"),
        ("concat(z, count(*))", "aggregate"),
        ("row_number() over (order by id)", "window"),
        ("max(id) over ()", "window"),
        ("explode(array(1))", "generator"),
        ("explode(array(1)) + 1", "generator"),
    ],
)
def test_functions_of_many_rows_are_refused_by_name(table, session, text, kind):
    error = refused(lambda: table.update({"z": text}, spark=session), InvalidInput)
    assert f"Column z: {kind} functions are not allowed" in str(error) and text in str(error)
    for change in (
        lambda: table.delete(f"({text}) > 0", spark=session),
        lambda: table.update({"z": "'q'"}, f"({text}) > 0", spark=session),
    ):
        assert f"The condition: {kind} functions are not allowed" in str(
            refused(change, InvalidInput)
        )
    assert unchanged(table)


def test_a_condition_of_columns_is_checked_as_well(table, session):
    assert "aggregate" in str(
        refused(lambda: table.delete(F.max("id") > 0, spark=session), InvalidInput)
    )
    assert "Column z: aggregate" in str(
        refused(lambda: table.update({"z": F.max("z")}, spark=session), InvalidInput)
    )


REFUSED = {
    "aggregate functions": ("max(source.id) > 0", "max(source.z)"),
    "window functions": (
        "row_number() over (order by source.id) = 1",
        "row_number() over (order by source.id)",
    ),
    "generator functions": ("explode(source.a) = 1", "explode(source.a)"),
    "non-deterministic functions": ("rand() < 2", None),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("matches", [True, False])
def test_a_merge_is_checked_before_its_source_is_evaluated(table, source, session, what, matches):
    condition, value = REFUSED[what]
    broken = F.udf(lambda x: 1 / 0, "string")
    source = source.withColumn("z", broken("z"))
    on = ON if matches else f"{ON} and source.id > 100"
    wrong = [
        table.merge(source, f"{on} and {condition}").when_matched_delete(),
        table.merge(source, on).when_matched_delete(condition),
        table.merge(source, on)
        .when_matched_delete("source.id = 1")
        .when_matched_update({"z": "'x'"}, condition),
        table.merge(source, on).when_not_matched_insert({"id": "source.id"}, condition),
    ]
    if value is not None:
        wrong.append(table.merge(source, on).when_matched_update({"id": "1", "z": value}))
        wrong.append(
            table.merge(source, on).when_not_matched_insert({"id": "source.id", "z": value})
        )
    for merging in wrong:
        assert f"{what} are not allowed" in str(refused(merging.execute, InvalidInput))
    condition = condition.replace("source.a", "array(1)").replace("source.", "target.")
    by_source = table.merge(source, on).when_not_matched_by_source_delete(condition)
    assert "WHEN NOT MATCHED BY SOURCE: " + what in str(refused(by_source.execute, InvalidInput))
    assert unchanged(table)


@pytest.mark.versions
def test_a_merge_into_an_empty_table_is_checked(catalog, source, session):
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table("db.empty", "id bigint, z string")
    for merging in (
        t.merge(source, ON).when_matched_update({"z": "max(source.z)"}),
        t.merge(source, BEYOND).when_matched_update({"z": "source.a"}),
        t.merge(source, BEYOND).when_matched_update({"z": "nothing rlike 'a'"}),
        t.merge(source, BEYOND).when_matched_update({"nothing": "source.z"}),
    ):
        refused(merging.execute, InvalidInput)
    assert len(t.refresh().snapshots()) == 0


@pytest.mark.parametrize("name", ["l[0]", "m['k']", "target.l[0]", "l[0].n1"])
def test_elements_of_lists_and_maps_cannot_be_assigned(table, source, session, name):
    for on in (ON, BEYOND, f"{ON} and exists(select 1)"):
        for merging in (
            table.merge(source, on).when_matched_update({name: "null"}),
            table.merge(source, on + " and false").when_matched_update({name: "null"}),
        ):
            error = refused(merging.execute, InvalidInput)
            assert "elements of lists and maps cannot be assigned" in str(
                error
            ) and name.removeprefix("target.") in str(error)
    assert unchanged(table)


def test_merges_of_columns_are_checked(table, source, session):
    merging = table.merge(
        source, (F.col("target.id") == F.col("source.id")) & (F.rand() < 2)
    ).when_matched_delete()
    assert "MERGE: ON: non-deterministic functions" in str(refused(merging.execute, InvalidInput))
    merging = table.merge(source, ON).when_matched_update({"z": F.max("source.z")})
    assert "Column z: aggregate functions" in str(refused(merging.execute, InvalidInput))


def test_a_source_that_aggregates_lends_its_groups_to_nobody(table, source, session):
    groups = source.groupBy("id").agg(F.max("z").alias("z"))
    merging = table.merge(groups, ON).when_not_matched_insert(
        {"id": "source.id", "z": "source.z"}, "count(source.z) > 0"
    )
    assert "aggregate functions are not allowed" in str(refused(merging.execute, InvalidInput))
    assert (
        table.merge(groups, ON)
        .when_not_matched_insert({"id": "source.id", "z": "source.z"})
        .execute()
        .rows_inserted
        == 1
    )


def test_random_values_and_sub_queries_stay_allowed(table, source, session):
    source.createOrReplaceTempView("others")
    assert table.update({"z": "cast(rand() < 2 as string)"}, spark=session).rows_updated == 1
    merging = table.merge(source, f"{ON} and source.id in (select id from others)")
    done = merging.when_matched_update(
        {"z": "(select max(z) from others where others.id = target.id)"},
        "exists(select 1 from others)",
    ).execute()
    assert done.rows_updated == 1 and table.refresh().to_arrow()["z"].to_pylist() == ["b"]


# --- structs that lack members


@pytest.mark.parametrize(
    ("column", "value", "lacking"),
    [
        ("s", "named_struct('n1', 5)", "s.n2"),
        ("l", "array(named_struct('n1', 5))", "l.element.n2"),
        ("m", "map('k', named_struct('n1', 5))", "m.value.n2"),
        ("l", "array(named_struct('n1', null))", "l.element.n2"),
    ],
)
def test_an_assigned_struct_must_be_whole(table, source, session, column, value, lacking):
    for change in (
        lambda: table.update({column: value}, spark=session),
        lambda: table.update({column: value}, where="levenshtein('a', 'b') = 7", spark=session),
        lambda: table.merge(source, ON).when_matched_update({column: value}).execute(),
        lambda: (
            table.merge(source, ON + " and false").when_matched_update({column: value}).execute()
        ),
        lambda: (
            table.merge(source, ON)
            .when_not_matched_insert({"id": "source.id", column: value})
            .execute()
        ),
    ):
        assert f"cannot find data for the output column {lacking}" in str(
            refused(change, SchemaMismatch)
        )
    assert unchanged(table)


@pytest.mark.parametrize("column", ["s", "l", "m"])
@pytest.mark.parametrize("on", [ON, BEYOND])
@pytest.mark.parametrize("kind", ["spark", "arrow"])
def test_a_struct_of_the_source_must_be_whole(table, session, column, on, kind):
    source = nested(PARTIAL, {"n1": 5})
    source = session.createDataFrame(source) if kind == "spark" else source
    for merging in (
        table.merge(source, on).when_matched_update({column: f"source.{column}"}),
        table.merge(source, f"{on} and source.id > 9").when_not_matched_insert(
            {"id": "source.id", column: f"source.{column}"}
        ),
    ):
        assert f"cannot find data for the output column {column}" in str(
            refused(merging.execute, SchemaMismatch)
        )
    for merging in (
        table.merge(source, on).when_matched_update_all(),
        table.merge(source, on).when_not_matched_insert_all(),
    ):
        assert "s.n2" in str(refused(merging.execute, InvalidInput))
    assert unchanged(table)


@pytest.mark.parametrize("on", [ON, BEYOND])
def test_members_that_the_source_lacks_stay_with_evolution(table, session, on, rows):
    source = session.sql("select 1L id, 'x' z, named_struct('n1', 5) s")
    table.merge(source, on).with_schema_evolution().when_matched_update_all().execute()
    assert [(r["z"], r["s"]) for r in table.refresh().to_arrow().to_pylist()] == [
        ("x", {"n1": 5, "n2": 2})
    ]
    new = session.sql("select 2L id, 'y' z, named_struct('n1', 6) s")
    table.merge(new, on).with_schema_evolution().when_not_matched_insert_all().execute()
    assert [r["s"] for r in table.refresh().scan("id = 2").to_arrow().to_pylist()] == [
        {"n1": 6, "n2": None}
    ]
    lists = session.createDataFrame(nested(PARTIAL, {"n1": 5}))
    merging = table.merge(lists, on).with_schema_evolution().when_matched_update_all()
    assert "l.element.n2" in str(refused(merging.execute, SchemaMismatch))


@pytest.mark.versions
def test_a_whole_struct_may_come_in_any_order_and_with_nulls(table, session):
    table.update(
        {
            "s": "named_struct('n2', cast(null as int), 'n1', 7)",
            "l": "array(named_struct('N1', 1, 'n2', 1))",
        },
        spark=session,
    )
    assert [(r["s"], r["l"]) for r in table.refresh().to_arrow().to_pylist()] == [
        ({"n1": 7, "n2": None}, [{"n1": 1, "n2": 1}])
    ]
    table.update({"s": "null"}, spark=session)
    table.update(
        {"s": "if(levenshtein('a', 'a') = 0, null, named_struct('n1', 1, 'n2', 2))"}, spark=session
    )
    assert table.refresh().to_arrow()["s"].to_pylist() == [None]


@pytest.mark.parametrize("kind", ["spark", "arrow"])
def test_an_appended_frame_may_lack_optional_members_at_any_depth(table, session, kind):
    frame = nested(PARTIAL, {"n1": 5}, id_=2)
    table.append(session.createDataFrame(frame) if kind == "spark" else frame)
    (row,) = table.refresh().scan("id = 2").to_arrow().to_pylist()
    assert (row["s"], row["l"], row["m"]) == (
        {"n1": 5, "n2": None},
        [{"n1": 5, "n2": None}],
        [("k", {"n1": 5, "n2": None})],
    )


# --- where the check stands


def test_a_merge_within_the_grammar_is_not_asked_of_spark(table, source, session, monkeypatch):
    asked = []
    monkeypatch.setattr(merge_by_sql, "check", lambda *_, **__: asked.append(1))
    table.merge(source, ON).when_matched_update({"z": "source.z"}).execute()
    assert asked == []


def test_a_merge_beyond_the_grammar_is_checked_once(table, source, session, monkeypatch):
    own, order = merge_by_sql.check, []
    stage = engine.stage_by_spark
    monkeypatch.setattr(
        merge_by_sql, "check", lambda *a, **k: (order.append("check"), own(*a, **k))[1]
    )
    monkeypatch.setattr(
        engine, "stage_by_spark", lambda *a, **k: (order.append("stage"), stage(*a, **k))[1]
    )
    table.merge(source, BEYOND).when_matched_update({"z": "source.z"}).execute()
    assert order == ["check", "stage"] and table.refresh().to_arrow()["z"].to_pylist() == ["b"]
