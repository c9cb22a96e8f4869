"""Every golden table through Spark: `to_spark`, `format("iceberg")` in a prepared session and in a
bare one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import frazil
from frazil.errors import FrazilError
from frazil.scan import narrow
from tests.contract import doors, questions
from tests.contract.doors import Ask
from tests.golden import Golden, GoldenTable, index, names

pytestmark = pytest.mark.spark

# every kind of delete in every format, mixed, partitioned, evolved; to_arrow reads them all
DELETING = [
    "dv_v3", "eq_evolved", "eq_multi_null", "eq_partitioned", "eq_pos_dv_mix", "pos_deletes_avro", "pos_deletes_rowgroups", "upgrade_v2_v3",
    "evolved_spec_v2", "mixed_keys_v2", "orc_v2", "upsert_bucket_v3",
]  # fmt: skip
CHOSEN = [*names(), *DELETING]
SHORT = {
    "plain_v1",
    "plain_v3",
    "schema_evolution",
    "nested",
    "spec_evolution_v2",
    "part_special",
    "types_all",
    "mixed_formats",
    "append_v2",
}
DOORS = ("to_spark", "prepared", "bare")


def by_door(everywhere: Iterable[str], *but: str) -> list[Any]:
    """List (door, table) as cases: each table is tried at one of the doors, in turns, those of
    `everywhere` at all of them. `make soak` tries all tables at all doors; the short form is that
    of the older Sparks."""
    cases = []
    for n, name in enumerate(
        n for n in [*CHOSEN, *(n for n in names(deletes=True) if n not in DELETING)] if n not in but
    ):
        for turn, door in enumerate(DOORS):
            tried = (
                name in SHORT
                or name in everywhere
                or (name in CHOSEN and (n + turn) % len(DOORS) == 0)
            )
            marks = [pytest.mark.versions] if name in SHORT else [] if tried else [pytest.mark.soak]
            cases.append(pytest.param(door, name, marks=marks))
    return cases


@pytest.fixture
def ask(request: pytest.FixtureRequest, plain_spark: Any) -> Any:
    """`ask[door]`: a function (table, ask) -> DataFrame. `to_spark` needs no prepared session."""
    return {
        "to_spark": lambda table, what: doors.to_spark(plain_spark, table, what),
        "prepared": lambda table, what: doors.data_source(
            request.getfixturevalue("spark"), table, what
        ),
        "bare": lambda table, what: doors.data_source(plain_spark, table, what),
    }


def answers(read: Any, table: GoldenTable, asked: list[questions.Question]) -> list[str]:
    """Questions that were answered wrongly; one job for all that share a schema."""
    wrong, frames = [], []
    for q in asked:
        try:
            frames.append((q, read(table, q.ask)))
        except Exception as e:
            wrong.append(f"{q.label}: {type(e).__name__}: {e}"[:500])
    for (q, _), rows in zip(frames, doors.collect_all([f for _, f in frames]), strict=True):
        got = doors.summed(rows, q.schema)
        if got != q.answer:
            wrong.append(f"{q.label}: {got} for {q.answer}")
    return wrong


def refusal_is_named(read: Any, table: GoldenTable, lacking: str) -> None:
    """A type that Spark lacks is either read rightly or refused by its name."""
    q = questions.current(table)
    try:
        rows = doors.collect(read(table, q.ask))
    except Exception as e:
        assert isinstance(e, FrazilError) or "Unsupported" in str(e), e
        assert lacking in str(e)
    else:
        assert doors.summed(rows, q.schema) == q.answer


@pytest.mark.parametrize(("door", "name"), by_door(DELETING))
def test_rows_and_filters_are_those_of_the_table(
    ask: Any, golden: Golden, door: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `prepared`: filters come after `load()`, and prune the smallest tables too
    monkeypatch.setattr(narrow, "FEW", 0)
    table = golden[name]
    if lacking := doors.spark_refuses(table.schema()):
        return refusal_is_named(ask[door], table, lacking)
    asked, tested = [questions.current(table)], list(questions.filters(table))
    # `bare` starts processes for each read: a few filters
    asked += tested if door != "bare" else tested[:: max(1, len(tested) // 2)][:3]
    assert answers(ask[door], table, asked) == []
    return None


@pytest.mark.parametrize(("door", "name"), by_door((), "geo_v3"))
def test_time_travel_and_refs_use_their_own_schema(
    ask: Any, golden: Golden, door: str, name: str
) -> None:
    table = golden[name]
    asked = [q for q in questions.travels(table) if not doors.spark_refuses(q.schema)]
    if door != "to_spark":
        asked = [
            *asked[:1],
            *asked[-1:],
            *(() if doors.spark_refuses(table.schema()) else list(questions.times(table))[-1:]),
        ]
    assert answers(ask[door], table, asked) == []


@pytest.mark.parametrize("name", ["dv_v3", "eq_partitioned", "eq_pos_dv_mix", "upsert_bucket_v3"])
def test_deleted_rows_are_shown_to_who_asks_for_them(
    plain_spark: Any, golden: Golden, name: str
) -> None:
    scan = frazil.load_table(golden[name].metadata_file).scan(
        selected_fields=("_file", "_pos", "_deleted")
    )
    want = scan.to_arrow().to_pylist()
    assert any(r["_deleted"] for r in want)
    key = lambda r: (r["_file"], r["_pos"])
    assert sorted(scan.to_spark(plain_spark).toArrow().to_pylist(), key=key) == sorted(
        want, key=key
    )
    gone = scan.select("_pos").filter("_deleted").to_spark(plain_spark).count()
    assert gone == sum(r["_deleted"] for r in want)
    assert (
        scan.select("_pos").filter("'_deleted' = '_deleted'").to_spark(plain_spark).count()
        == golden[name].expected["rows"]
    )


@pytest.mark.parametrize(
    "name", ["plain_v2", "part_special", "schema_evolution", "append_v2", "mixed_formats"]
)
@pytest.mark.parametrize("door", DOORS)
def test_columns_come_in_the_order_they_were_asked_for(
    ask: Any, golden: Golden, door: str, name: str
) -> None:
    table = golden[name]
    wanted = [f["name"] for f in table.schema()["fields"]][::-1][:2]
    frame = ask[door](table, Ask.of(select=wanted))
    if door != "to_spark":  # a scan keeps the schema's order, as PyIceberg's does
        assert frame.columns == wanted
    assert frame.count() == table.expected["rows"]


@pytest.mark.parametrize("door", DOORS[1:])
def test_incremental_appends_give_the_rows_added_between_two_snapshots(
    request: pytest.FixtureRequest, golden: Golden, door: str
) -> None:
    table, session = (
        golden["incremental"],
        request.getfixturevalue("spark" if door == "prepared" else "plain_spark"),
    )
    for r in table.expected["incremental_appends"]:
        options = {"start-snapshot-id": r["start_exclusive"], "end-snapshot-id": r["end_inclusive"]}
        rows = (
            session.read.format("iceberg")
            .options(**options)
            .load(table.metadata_file)
            .select("id")
            .toArrow()
        )
        assert sorted(rows["id"].to_pylist()) == sorted(r["ids"]), options


def test_the_index_has_every_table() -> None:
    assert len(index()) == len({x["name"] for x in index()}) == 100
