"""The query of an Iceberg view on Spark: its names are the view's, its tables Frazil's, its columns
those of the view's schema.
"""

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, NoSuchTableError, SchemaMismatch, Unsupported
from tests.builders.spark_frames import ids

pytestmark = [pytest.mark.spark, pytest.mark.versions]


@pytest.fixture
def catalog(tmp_path):
    made = frazil.load_catalog(
        f"v{tmp_path.name[-20:]}",
        type="sql",
        uri=f"sqlite:///{tmp_path}/c.db",
        warehouse=str(tmp_path / "wh"),
    )
    made.create_namespace("db")
    yield made
    made.close()


@pytest.fixture
def table(catalog):
    t = catalog.create_table("db.events", "id bigint, s string")
    t.append(pa.table({"id": [1, 2, 3, 4], "s": ["a", "b", "a", "c"]}))
    return t


def rows(frame):
    return sorted(tuple(r) for r in frame.collect())


def test_a_view_reads_the_tables_of_its_namespace_and_has_the_columns_of_its_schema(
    session, catalog, table
):
    view = catalog.create_view(
        "db.counts", "letter string, n bigint", sql="SELECT s, count(*) FROM events e GROUP BY s"
    )
    frame = view.to_spark(session)
    assert frame.columns == ["letter", "n"] and rows(frame) == [("a", 2), ("b", 1), ("c", 1)]
    table.append(pa.table({"id": [5], "s": ["c"]}))
    assert rows(catalog.load_view("db.counts").to_spark(session)) == [("a", 2), ("b", 1), ("c", 2)]
    assert not [v.name for v in session.catalog.listTables() if v.name.startswith("frazil_view")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT events.id FROM events WHERE s = 'a'",
        "SELECT id FROM db.events WHERE s IN (SELECT s FROM events WHERE id = 1)",
        "SELECT id FROM `db` . `events` /* events */ WHERE s = 'a' -- FROM events",
        "WITH w AS (SELECT * FROM events), events AS (SELECT * FROM w WHERE s = 'a') SELECT id FROM events",
        "SELECT '😀' AS s2, id FROM events AS `é` JOIN (SELECT DISTINCT s FROM Events) x USING (s) WHERE `é`.s = 'a'",
        "SELECT id FROM {cat}.db.events WHERE EXISTS (SELECT 1 FROM events i WHERE i.s = 'a' AND i.id = events.id)",
        "SELECT id FROM events WHERE s = 'a' UNION SELECT id FROM events WHERE s = 'a' AND id > (SELECT min(id) FROM events)",
    ],
)
def test_names_are_found_wherever_they_stand_in_the_query(session, catalog, table, query):
    catalog.create_table("db.Events", "id bigint, s string").append(
        pa.table({"id": [9], "s": ["a"]})
    )
    columns = "e string, id bigint" if "😀" in query else "id bigint"
    view = catalog.create_view("db.v", columns, sql=query.format(cat=catalog.name))
    assert ids(view.to_spark(session)) == [1, 3]


def test_a_table_is_found_whose_name_holds_blanks_dots_and_back_quotes(session, catalog):
    catalog.create_table("db.`a``b . c`", "id bigint").append(pa.table({"id": [1, 2]}))
    view = catalog.create_view(
        "db.v",
        "id bigint",
        sql="SELECT `a``b . c`.id FROM db . `a``b . c` WHERE `a``b . c`.id IN (SELECT id FROM `a``b . c`)",
    )
    assert ids(view.to_spark(session)) == [1, 2]


def test_views_over_views_are_read_and_circles_refused(session, catalog, table):
    catalog.create_view("db.a", "id bigint, s string", sql="SELECT * FROM events WHERE s = 'a'")
    b = catalog.create_view("db.b", "id bigint", sql="SELECT id FROM a WHERE id > 1")
    assert ids(b.to_spark(session)) == [3]
    catalog.replace_view("db.a", sql="SELECT id, 'x' AS s FROM b")
    with pytest.raises(Unsupported, match="reads itself"):
        catalog.load_view("db.b").to_spark(session)


def test_names_are_those_of_the_views_default_namespace(session, catalog, table):
    catalog.create_namespace("other")
    view = catalog.create_view(
        "other.v",
        "id bigint",
        sql="SELECT id FROM events",
        default_namespace="db",
        default_catalog=catalog.name,
    )
    assert ids(view.to_spark(session)) == [1, 2, 3, 4]
    with pytest.raises(NoSuchTableError, match="events"):
        catalog.create_view("other.w", "id bigint", sql="SELECT id FROM events").to_spark(session)
    with pytest.raises(NoSuchTableError, match="'prod', which is not configured"):
        catalog.create_view(
            "other.x", "id bigint", sql="SELECT id FROM events", default_catalog="prod"
        ).to_spark(session)


def test_columns_that_fit_no_longer_are_told(session, catalog, table):
    view = catalog.create_view("db.v", "id bigint, s string", sql="SELECT * FROM events")
    with table.update_schema() as u:
        u.add_column("more", "int")
    with pytest.raises(SchemaMismatch, match="3 columns"):
        view.to_spark(session)
    kept = catalog.replace_view(
        "db.v",
        properties={"spark.query-column-names": "s,id"},
        schema="t string, n decimal(20,0)",
        sql="SELECT * FROM events",
    )
    frame = kept.to_spark(session)
    assert (
        frame.columns == ["t", "n"] and frame.schema["n"].dataType.simpleString() == "decimal(20,0)"
    )
    assert sorted(r.t for r in frame.collect()) == ["a", "a", "b", "c"]
    with pytest.raises(SchemaMismatch, match="int, but its query gives bigint"):
        catalog.create_view("db.w", "id int", sql="SELECT id FROM events").to_spark(session)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE events",
        "SET spark.x.y=1",
        "INSERT INTO events VALUES (1, 'x')",
        "SELECT FROM WHERE",
        "SELECT nothing FROM events",
    ],
)
def test_nothing_but_a_query_is_run(session, catalog, table, statement):
    view = catalog.create_view("db.v", "id bigint", sql=statement)
    with pytest.raises(InvalidInput, match=r"refuses the query of view .*db\.v"):
        view.to_spark(session)
    assert catalog.table_exists("db.events") and session.conf.get("spark.x.y", "unset") == "unset"


def test_other_dialects_are_told_by_name(session, catalog):
    view = catalog.create_view("db.v", "id bigint", sql={"trino": "SELECT 1", "Presto": "SELECT 1"})
    with pytest.raises(Unsupported, match="presto, trino, not for Spark"):
        view.to_spark(session)


def test_columns_of_one_name_count_by_position(session, catalog, table):
    view = catalog.create_view(
        "db.pairs",
        "a bigint, b bigint",
        sql="SELECT x.id, y.id FROM events x JOIN events y ON y.id = x.id + 1",
        properties={"spark.query-column-names": "id,id"},
    )
    assert rows(view.to_spark(session)) == [(1, 2), (2, 3), (3, 4)]
