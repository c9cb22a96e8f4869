"""How often the JVM is called for tables of many columns: a few times for each column, not by the
dozen, since a thousand calls take a tenth of a second.
"""

import contextlib

import pytest
from py4j.clientserver import ClientServerConnection

from frazil.expr.nodes import AlwaysTrue
from frazil.spark.read.native_read import _may_use, _names_in

pytestmark = pytest.mark.spark
FEW, MANY = 20, 70
BEYOND_THE_GRAMMAR = "crc32(cast(target.id as string)) > 0"


@contextlib.contextmanager
def counted(monkeypatch):
    """Collect the calls to the JVM, releases of its objects left out."""
    calls, send = [], ClientServerConnection.send_command

    def sent(self, command):
        if not command.startswith("m\nd\n"):
            calls.append(command)
        return send(self, command)

    with monkeypatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", sent)
        yield calls


def frame_of(session, columns):
    frame = session.range(3).selectExpr("id", *(f"id + {n} AS c{n}" for n in range(columns)))
    assert frame.schema
    return frame


def merge(table, frame):
    merging = table.merge(frame, f"target.id = source.id AND {BEYOND_THE_GRAMMAR}")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


WORK = {
    "append": (2, lambda t, frame: t.append(frame)),
    "read": (2, lambda t, frame: t.to_spark().schema),
    "read of some columns": (
        0,
        lambda t, frame: t.scan("c3 > 1", selected_fields=("id", "c2")).to_spark().schema,
    ),
    "changelog": (6, lambda t, frame: t.changes().to_spark().schema),
    "update": (
        16,
        lambda t, frame: t.update({"c1": "c1 + 1"}, BEYOND_THE_GRAMMAR.replace("target.", "")),
    ),
    "merge": (110, merge),
}


@pytest.mark.parametrize("name", WORK)
def test_a_column_more_takes_few_calls(name, catalog, session, monkeypatch):
    most, work = WORK[name]
    catalog.create_namespace("db")

    def calls(columns):
        more = "" if name in ("update", "merge") else " not null comment 'the doc'"
        ddl = ", ".join(["id bigint", *(f"c{n} bigint{more}" for n in range(columns))])
        table, frame = catalog.create_table(f"db.t{columns}", ddl), frame_of(session, columns)
        table.append(frame)
        work(table, frame)
        with counted(monkeypatch) as done:
            work(table.refresh(), frame)
        return len(done)

    few, many = calls(FEW), calls(MANY)
    assert few > 0 and many - few <= most * (MANY - FEW) + 20


def test_comments_and_nulls_in_required_columns_are_the_same_as_without_remembered_columns(
    catalog, session, rows
):
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint not null comment 'the key', `a.b` double")
    frame = session.createDataFrame([(1, 1.5), (None, 2.5)], "id long, `a.b` double")
    for _ in range(2):
        table.append(frame.where("id IS NOT NULL"))
        shown = table.refresh().to_spark()
        assert shown.schema["id"].metadata == {"comment": "the key"}
        assert shown.schema["a.b"].metadata == {}
        with pytest.raises(Exception, match="column id is required, and a row has null in it"):
            table.append(frame)
    assert rows(table.to_spark()) == [{"id": 1, "a.b": 1.5}] * 2


@pytest.mark.parametrize(
    ("where", "used", "unused"),
    [
        ("A > 1", ["a", "A"], ["b", "aa"]),
        ("s.a IS NULL", ["s", "a", "S"], ["t"]),
        ("`a.b` = 1 OR t.`c d` = 2", ["a.b", "c d", "t"], ["d"]),
        ("crc32(x) > 0", ["x"], ["y"]),
        ("exists(xs, x -> x > 1)", ["xs", "y"], []),
        (AlwaysTrue(), [], ["x"]),
    ],
)
def test_a_filter_uses_the_columns_that_it_may_mean(where, used, unused):
    names = _names_in(where)
    assert all(_may_use(names, name) for name in used)
    assert not any(_may_use(names, name) for name in unused)
