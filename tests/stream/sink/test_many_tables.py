"""A stream into many tables: each gets its rows once, is made and evolved as its rows demand, and
no row is dropped silently.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import (
    InvalidInput,
    NoSuchTableError,
    SchemaMismatch,
    Unsupported,
    ValidationError,
)
from frazil.stream.sink.many_tables import ManyTablesSink, many_options
from frazil.table.catalog import Catalog
from frazil.table.stream_tables import StreamTables, creation_arguments
from frazil.testing import FlakyBackend
from tests.forked import started
from tests.stream.sink.arrow_split import ArrowSplit
from tests.stream.sink.streams import QUERY, data_files, held, known_files

TYPES = {
    "topic": pa.string(),
    "id": pa.int64(),
    "v": pa.int64(),
    "extra": pa.string(),
    "op": pa.string(),
}
Row = tuple[Any, ...]


def catalog_at(place: Path) -> Catalog:
    return frazil.load_catalog("test", type="path", warehouse=str(place / "wh"))


def split(*rows: Row, names: tuple[str, ...] = ("topic", "id", "v")) -> ArrowSplit:
    return ArrowSplit(
        pa.table({n: pa.array([r[i] for r in rows], TYPES[n]) for i, n in enumerate(names)}), 0
    )


def sink_on(
    catalog: Catalog, backend: Any = None, mode: str | None = None, **given: Any
) -> ManyTablesSink:
    """Return a new run of a query, as after a restart."""
    create, evolve = given.pop("create", True), given.pop("evolve", True)
    bad, aside = given.pop("on_bad_table", "fail"), given.pop("set_aside_table", None)
    on_commit, namespace = given.pop("on_commit", None), given.pop("namespace", ())
    options = many_options(
        "topic",
        mode,
        given,
        create=create is not False,
        evolve=evolve,
        on_bad_table=bad,
        set_aside_table=aside,
    )
    own = Catalog(backend) if backend is not None else catalog
    places = StreamTables(own, namespace, creation_arguments(create))
    return ManyTablesSink(places, options, QUERY, on_commit=on_commit)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return catalog_at(tmp_path)


BOTH = split(("db.a", 1, 1), ("db.b", 2, 2), ("db.a", 3, 3))


def test_each_table_gets_its_rows_in_one_commit_and_a_replay_adds_nothing(catalog: Catalog) -> None:
    told: list[Any] = []
    result = sink_on(catalog, on_commit=lambda n, r: told.append((n, r))).commit(0, BOTH)
    assert (
        sorted(result.tables) == ["test.db.a", "test.db.b"]
        and told == [(0, result)]
        and not result.skipped
    )
    tables = [catalog.load_table(n) for n in ("db.a", "db.b")]
    files = [data_files(t) for t in tables]
    for _ in range(2):
        again = sink_on(catalog).commit(0, BOTH)
        assert [r.skipped for r in again.tables.values()] == [True, True]
    assert [held(t) for t in tables] == [[(1, 1), (3, 3)], [(2, 2)]]
    assert [len(t.snapshots()) for t in tables] == [1, 1] and [
        data_files(t) for t in tables
    ] == files


def test_names_that_mean_one_table_are_written_together(catalog: Catalog) -> None:
    rows = split(("db.a", 1, 1), ("test.db.a", 2, 2), ("a", 3, 3), ("`db`.a", 4, 4))
    result = sink_on(catalog, namespace=("db",)).commit(0, rows)
    assert list(result.tables) == ["test.db.a"]
    table = catalog.load_table("db.a")
    assert [r[0] for r in held(table)] == [1, 2, 3, 4] and len(table.snapshots()) == 1


def test_a_table_has_the_columns_that_its_rows_fill_and_gets_others_when_rows_fill_them(
    catalog: Catalog,
) -> None:
    names = ("topic", "id", "v", "extra")
    sink_on(catalog).commit(0, split(("db.a", 1, 1, None), ("db.b", 2, None, "x"), names=names))
    a, b = catalog.load_table("db.a"), catalog.load_table("db.b")
    assert (a.schema().column_names, b.schema().column_names) == (["id", "v"], ["id", "extra"])
    before = a.metadata_location
    sink_on(catalog).commit(1, split(("db.b", 3, None, "y"), names=names))
    assert a.refresh().metadata_location == before, (
        "a table without rows in the batch is not touched"
    )
    sink_on(catalog).commit(2, split(("db.a", 4, None, "z"), names=names))
    assert held(a) == [(1, 1, None), (4, None, "z")] and len(a.snapshots()) == 2


def test_without_evolve_a_new_table_has_all_columns_and_no_table_gets_more(
    catalog: Catalog,
) -> None:
    names = ("topic", "id", "v", "extra")
    sink_on(catalog, evolve=False).commit(0, split(("db.a", 1, None, None), names=names))
    assert catalog.load_table("db.a").schema().column_names == ["id", "v", "extra"]
    catalog.create_table("db.small", "id bigint")
    sink_on(catalog, evolve=False).commit(1, split(("db.small", 1, None, None), names=names))
    with pytest.raises(InvalidInput, match="v"):
        sink_on(catalog, evolve=False).commit(2, split(("db.small", 2, 7, None), names=names))
    assert held(catalog.load_table("db.small")) == [(1,)]


def test_new_tables_are_made_as_asked_also_where_no_row_fills_the_partition_column(
    catalog: Catalog,
) -> None:
    create = {
        "partition_by": ["bucket(2, id)", "extra"],
        "format_version": 3,
        "properties": {"owner": "me"},
    }
    names = ("topic", "id", "v", "extra")
    sink_on(catalog, create=create).commit(0, split(("db.a", 1, None, None), names=names))
    table = catalog.load_table("db.a")
    assert [f.name for f in table.spec().fields] == [
        "id_bucket",
        "extra",
    ] and table.schema().column_names == ["id", "extra"]
    assert (table.format_version, table.properties["owner"]) == (3, "me")
    with pytest.raises(InvalidInput, match="location"):
        creation_arguments({"location": "/x"})


@pytest.mark.parametrize("strategy", ["lookup", "equality-deletes"])
def test_cdc_goes_to_the_tables_by_key_and_stores_neither_name_nor_kind(
    strategy: str, catalog: Catalog
) -> None:
    names = ("topic", "id", "v", "op")
    options = {"mode": "cdc", "key_columns": ["id"], "upsert_strategy": strategy}
    sink_on(catalog, **options).commit(
        0, split(("db.a", 1, 1, "c"), ("db.b", 1, 5, "c"), ("db.a", 2, 2, "c"), names=names)
    )
    sink_on(catalog, **options).commit(
        1, split(("db.a", 1, None, "d"), ("db.b", 1, 6, "u"), names=names)
    )
    a, b = catalog.load_table("db.a"), catalog.load_table("db.b")
    assert (held(a), held(b)) == ([(2, 2)], [(1, 6)]) and a.schema().column_names == ["id", "v"]


def test_the_table_column_is_stored_where_the_table_has_it(catalog: Catalog) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.a", "topic string, id bigint")
    sink_on(catalog).commit(0, BOTH)
    assert held(catalog.load_table("db.a")) == [("db.a", 1, 1), ("db.a", 3, 3)]


# Tables that take no rows
# ----------------------------------------------------------------------------------------------------------------


BAD = split(
    ("db.a", 1, 1),
    (None, 2, 2),
    ("nonsense", 3, 3),
    ("db.missing", 4, 4),
    ("db.required", 5, None),
    ("db.aside", 6, 6),
)


def aside(catalog: Catalog, **more: Any) -> ManyTablesSink:
    return sink_on(
        catalog, create=False, on_bad_table="set-aside", set_aside_table="db.aside", **more
    )


def with_tables(catalog: Catalog) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.a", "id bigint, v bigint")
    catalog.create_table("db.required", "id bigint, v bigint not null")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((None, 2, 2), InvalidInput),
        (("nonsense", 3, 3), InvalidInput),
        (("db.missing", 4, 4), NoSuchTableError),
        (("db.required", 5, None), InvalidInput),
    ],
)
def test_a_bad_table_stops_the_query_and_the_error_says_what_can_be_done(
    row: Row, error: type, catalog: Catalog
) -> None:
    with_tables(catalog)
    with pytest.raises(error, match="set_aside_table"):
        sink_on(catalog, create=False).commit(0, split(row))
    assert not catalog.table_exists("db.missing")


def test_rows_that_no_table_takes_are_set_aside_with_the_reason_and_told(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    with_tables(catalog)
    with caplog.at_level(logging.WARNING, "frazil.stream"):
        result = aside(catalog).commit(0, BAD)
    assert (
        held(catalog.load_table("db.a")) == [(1, 1)]
        and held(catalog.load_table("db.required")) == []
    )
    assert {s.table_name: s.rows for s in result.set_aside} == {
        None: 1,
        "nonsense": 1,
        "db.missing": 1,
        "db.required": 1,
        "db.aside": 1,
    }
    kept = catalog.load_table("db.aside").scan().to_arrow().to_pylist()
    assert {r["table_name"]: json.loads(r["row"])["id"] for r in kept} == {
        None: 2,
        "nonsense": 3,
        "db.missing": 4,
        "db.required": 5,
        "db.aside": 6,
    }
    assert all(r["reason"] and (r["query_id"], r["batch_id"]) == (QUERY, 0) for r in kept)
    assert caplog.text.count("set aside") >= 5


@pytest.mark.parametrize("name", ["db.x/y", "db.`..`", "db.`a\x00b`"])
def test_rows_that_name_a_table_which_the_catalog_cannot_have_are_set_aside(
    name: str, catalog: Catalog
) -> None:
    rows = split((name, 1, 1), ("db.a", 2, 2))
    with pytest.raises(InvalidInput, match="set_aside_table"):
        sink_on(catalog).commit(0, split((name, 1, 1)))
    result = sink_on(catalog, on_bad_table="set-aside", set_aside_table="db.aside").commit(0, rows)
    assert [(s.table_name, s.rows) for s in result.set_aside] == [(name, 1)] and held(
        catalog.load_table("db.a")
    ) == [(2, 2)]


def test_a_replay_after_the_table_was_mended_does_not_write_what_was_set_aside(
    catalog: Catalog,
) -> None:
    with_tables(catalog)
    aside(catalog).commit(0, BAD)
    catalog.create_table("db.missing", "id bigint, v bigint")
    again = aside(catalog).commit(0, BAD)
    assert (
        again.skipped
        and held(catalog.load_table("db.missing")) == []
        and len(catalog.load_table("db.aside").scan().to_arrow()) == 5
    )
    aside(catalog).commit(1, split(("db.missing", 4, 4)))
    assert held(catalog.load_table("db.missing")) == [(4, 4)]


def test_a_batch_before_the_last_one_stops_the_query_and_is_not_set_aside(catalog: Catalog) -> None:
    with_tables(catalog)
    for number in range(3):
        aside(catalog).commit(number, split(("db.a", number, 0)))
    with pytest.raises(ValidationError, match="comes after batch 2"):
        aside(catalog).commit(1, split(("db.a", 1, 0)))
    assert not catalog.table_exists("db.aside") and len(held(catalog.load_table("db.a"))) == 3


def test_an_error_after_a_tables_commit_stops_the_query_and_sets_nothing_aside(
    catalog: Catalog,
) -> None:
    with_tables(catalog)
    sink = aside(catalog)

    def wrong(_: Any) -> None:
        raise InvalidInput("after the commit")

    sink.shown = wrong
    with pytest.raises(InvalidInput, match="after the commit"):
        sink.commit(0, split(("db.a", 1, 1)))
    assert held(catalog.load_table("db.a")) == [(1, 1)] and not catalog.table_exists("db.aside")


def test_a_key_that_no_table_can_have_makes_no_table(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput):
        sink_on(catalog, mode="upsert", key_columns=["nothing"]).commit(0, BOTH)
    assert not catalog.namespace_exists("db")


@pytest.mark.parametrize(
    ("given", "error", "word"),
    [
        ({"mode": "complete"}, Unsupported, "many tables"),
        ({"on_rewind": "rewrite"}, Unsupported, "on-rewind"),
        ({"merge_schema": True}, InvalidInput, "evolve"),
        ({"on_bad_table": "drop"}, InvalidInput, "set-aside"),
        ({"on_bad_table": "set-aside"}, InvalidInput, "set_aside_table"),
        ({"set_aside_table": "db.x"}, InvalidInput, "together"),
        ({"no-such": 1}, InvalidInput, "no-such"),
        ({"sink.partition-commit.trigger": "idle"}, Unsupported, "partition"),
    ],
)
def test_options_that_many_tables_have_not_are_refused(
    given: dict[str, Any], error: type, word: str, catalog: Catalog
) -> None:
    with pytest.raises(error, match=word):
        sink_on(catalog, **given)


# The driver dies between two tables' commits
# ----------------------------------------------------------------------------------------------


class Dying:
    """Kill the process before, or right after, the swap with this number."""

    def __init__(self, inner: Any, turn: int, applied: bool):
        self.inner, self.turn, self.applied, self.swaps = inner, turn, applied, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def swap(self, *arguments: Any, **named: Any) -> Any:
        self.swaps += 1
        if self.swaps < self.turn:
            return self.inner.swap(*arguments, **named)
        if self.applied:
            self.inner.swap(*arguments, **named)
        return os.kill(os.getpid(), signal.SIGKILL)


KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key_columns": ["id"]},
    "equality-deletes": {
        "mode": "upsert",
        "key_columns": ["id"],
        "upsert_strategy": "equality-deletes",
    },
}
THREE = split(("db.a", 1, 1), ("db.b", 2, 2), ("db.c", 3, 3), (None, 4, 4))
SET_ASIDE = {"on_bad_table": "set-aside", "set_aside_table": "db.aside"}


def die(place: str, kind: str, turn: int, applied: bool) -> None:
    catalog = catalog_at(Path(place))
    sink_on(catalog, Dying(catalog._backend, turn, applied), **KINDS[kind], **SET_ASIDE).commit(
        0, THREE
    )


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("turn", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_killed_at_any_tables_commit_leaves_every_row_once(
    kind: str, turn: int, applied: bool, tmp_path: Path
) -> None:
    child = started(die, str(tmp_path), kind, turn, applied, place=tmp_path)
    assert child.wait(60) == -signal.SIGKILL, child.problems()
    catalog = catalog_at(tmp_path)
    names = ["db.a", "db.b", "db.c", "db.aside"]
    rows = [
        len(catalog.load_table(n).scan().to_arrow()) if catalog.table_exists(n) else 0
        for n in names
    ]
    assert rows == [1] * (turn - 1 + applied) + [0] * (5 - turn - applied), (
        "the fault fired at this table"
    )
    again = sink_on(catalog, **KINDS[kind], **SET_ASIDE).commit(0, THREE)
    assert again.skipped == (turn == 4 and applied)
    if not again.skipped:
        assert [r.skipped for r in again.tables.values()] == [
            n < turn - 1 + applied for n in range(3)
        ]
    tables = [catalog.load_table(n) for n in names]
    assert [held(t) for t in tables[:3]] == [[(1, 1)], [(2, 2)], [(3, 3)]] and len(
        held(tables[3])
    ) == 1
    assert [len(t.snapshots()) for t in tables] == [1] * 4
    assert all(known_files(t) <= data_files(t) for t in tables)


def test_another_driver_that_makes_the_table_first_is_joined(catalog: Catalog) -> None:
    flaky = FlakyBackend(catalog._backend)

    def other(turn: int) -> None:
        if turn == 1:
            catalog.create_table("db.a", "id bigint, v bigint")

    flaky.before_swap = other
    sink_on(catalog, flaky).commit(0, split(("db.a", 1, 1)))
    assert flaky.fired and held(catalog.load_table("db.a")) == [(1, 1)]


def test_a_column_whose_type_no_table_of_that_name_can_take_is_a_bad_table(
    catalog: Catalog,
) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.a", "id bigint, v boolean")
    with pytest.raises((SchemaMismatch, InvalidInput)):
        sink_on(catalog).commit(0, BOTH)
    result = sink_on(catalog, **SET_ASIDE).commit(0, BOTH)
    assert [(s.table_name, s.rows) for s in result.set_aside] == [("db.a", 2)] and list(
        result.tables
    ) == ["test.db.b"]
