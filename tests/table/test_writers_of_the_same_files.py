"""Writers that change rows of the same files beside each other, and a counter that all raise: at
default properties none is refused, and the rows are those of the same changes in a row. Where
FRAZIL_TEST_S3, _POSTGRES and _REST name servers, also there.

FRAZIL_SOAK=1: 2 and 8 processes with every kind of change, also with a compaction beside them, and
their time against that of the same changes in a row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.commit import queue
from frazil.errors import ValidationException
from frazil.maintain.compact.commit import GroupsGone
from frazil.table.table import Table
from tests.builders.files_on_disk import leftovers
from tests.forked import started
from tests.table.test_writers_beside import KINDS, SOAK, catalog_of, name_of

pytestmark = [pytest.mark.disk, *([pytest.mark.soak] if SOAK else [])]
ROUNDS = 20 if SOAK else 4
COUNTER = 1_000_000
LAYOUTS = [(v, m) for v in (2, 3) for m in ("merge-on-read", "copy-on-write")]
Change = Callable[[Table, int, int], object]


def raised(table: Table, key: int, turn: int) -> object:
    return table.update({"v": "v + 1"}, f"id = {COUNTER}")


def upserted(table: Table, key: int, turn: int) -> object:
    rows = pa.table({"id": [key, key + 500_000], "v": [turn, turn]})
    return table.upsert(rows, join_cols=["id"])


def merged(table: Table, key: int, turn: int) -> object:
    merge = table.merge(pa.table({"id": [key], "by": [turn]}), "target.id = source.id")
    return merge.when_matched_update({"v": "target.v + source.by"}).execute()


CHANGES: dict[str, Change] = {
    "delete": lambda table, key, turn: table.delete(f"id = {key}"),
    "update": lambda table, key, turn: table.update({"v": f"v + {turn}"}, f"id = {key}"),
    "merge": merged,
    "upsert": upserted,
    "counter": raised,
}
VERBS = pytest.mark.parametrize("verb", CHANGES)


def new_table(
    kind: str, place: Path, writers: int, version: int, mode: str, rounds: int = ROUNDS
) -> Table:
    """A table of one file that holds the keys of all writers."""
    place.mkdir(parents=True, exist_ok=True)
    catalog, name = catalog_of(kind, place), name_of(place)
    catalog.create_namespace(name[:1])
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = catalog.create_table(
        name, "id bigint, v bigint", format_version=version, properties=modes
    )
    keys = [*range(writers * rounds), COUNTER]
    table.append(pa.table({"id": keys, "v": [0] * len(keys)}))
    return table


def changed(table: Table, verb: str, writer: int, writers: int, rounds: int = ROUNDS) -> list[int]:
    """How often each change was planned anew."""
    keys = range(writer, writers * rounds, writers)
    results = [CHANGES[verb](table, key, turn) for turn, key in enumerate(keys, 1)]
    return [r.planned_anew for r in results]  # type: ignore[attr-defined]


def process(kind: str, place: Path, verb: str, writer: int, writers: int) -> None:
    table = catalog_of(kind, place).load_table(name_of(place))
    (place / f"ready-{writer}").touch()
    while not (place / "go").exists():
        time.sleep(0.005)
    print(*changed(table, verb, writer, writers))


def by_processes(kind: str, place: Path, verb: str, writers: int) -> tuple[list[int], float]:
    running = [started(process, kind, place, verb, n, writers, place=place) for n in range(writers)]
    while len(list(place.glob("ready-*"))) < writers:
        assert all(p.wait(0) is None for p in running), [p.problems() for p in running]
        time.sleep(0.02)
    begun = time.monotonic()
    (place / "go").touch()
    codes = [p.wait(600) for p in running]
    seconds = time.monotonic() - begun
    assert codes == [0] * writers, [p.problems() for p in running]
    return [int(n) for p in running for n in p.printed().split()], seconds


def by_threads(kind: str, place: Path, verb: str, writers: int) -> tuple[list[int], float]:
    anew: list[int] = []

    def writer(number: int, table: Table) -> None:
        anew.extend(changed(table, verb, number, writers))

    tables = [catalog_of(kind, place).load_table(name_of(place)) for _ in range(writers)]
    threads = [threading.Thread(target=writer, args=(n, table)) for n, table in enumerate(tables)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return anew, time.monotonic() - begun


def expected(verb: str, writers: int) -> dict[int, int]:
    """The rows after the changes of all writers, in whatever order."""
    rows = dict.fromkeys((*range(writers * ROUNDS), COUNTER), 0)
    for key in range(writers * ROUNDS):
        turn = key // writers + 1
        if verb == "delete":
            del rows[key]
        elif verb == "counter":
            rows[COUNTER] += 1
        else:
            rows[key] = turn
            rows |= {key + 500_000: turn} if verb == "upsert" else {}
    return rows


def rows_of(table: Table) -> dict[int, int]:
    rows = table.refresh().scan().to_arrow()
    assert len(set(rows["id"].to_pylist())) == len(rows), "no row is there twice"
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


@KINDS
@VERBS
@pytest.mark.parametrize(("version", "mode"), LAYOUTS)
@pytest.mark.parametrize("writers", [2, 8] if SOAK else [3])
def test_changes_of_the_same_files_all_get_through(
    kind: str, verb: str, version: int, mode: str, writers: int, tmp_path: Path
) -> None:
    by = by_processes if SOAK or (kind, mode) == ("sql", "merge-on-read") else by_threads
    table = new_table(kind, tmp_path, writers, version, mode)
    anew, _ = by(kind, tmp_path, verb, writers)
    assert rows_of(table) == expected(verb, writers)
    assert len(anew) == writers * ROUNDS
    if table.location().startswith("/"):
        assert leftovers(table) == []


@KINDS
@pytest.mark.parametrize(("version", "mode"), LAYOUTS if SOAK else LAYOUTS[2:])
def test_nobody_is_lost_beside_a_compaction_that_never_rests(
    kind: str, version: int, mode: str, tmp_path: Path
) -> None:
    table, other = new_table(kind, tmp_path, 2, version, mode), catalog_of(kind, tmp_path)
    ends, errors = threading.Event(), list[BaseException]()

    def compacts() -> None:
        while not ends.wait(0.1):
            try:
                compacted = other.load_table(name_of(tmp_path)).maintenance
                compacted.rewrite_data_files(options={"rewrite-all": "true"}, runner="in-process")
            except GroupsGone:  # the writers had rewritten all its files: it comes again
                continue
            except BaseException as error:
                errors.append(error)

    compaction = threading.Thread(target=compacts)
    compaction.start()
    try:
        by_threads(kind, tmp_path, "upsert", 2)
    finally:
        ends.set()
        compaction.join(120)
    assert errors == [] and rows_of(table) == expected("upsert", 2)


@pytest.mark.parametrize("version", [2, 3])
def test_who_lost_once_takes_its_turn_before_it_reads(version: int, tmp_path: Path) -> None:
    one = new_table("sql", tmp_path, 2, version, "merge-on-read")
    other = catalog_of("sql", tmp_path).load_table(name_of(tmp_path))
    tables = [one, other, one, other, other, one]
    anew = [raised(table, 0, 0).planned_anew for table in tables]  # type: ignore[attr-defined]
    assert anew == [0, 1, 0, 0, 0, 0]
    assert rows_of(one)[COUNTER] == len(tables)
    one.transaction().set_properties(
        {"commit.retry.plan-anew.enabled": "false"}
    ).commit_transaction()
    other.refresh()
    raised(one, 0, 0)
    with pytest.raises(ValidationException):
        raised(other, 0, 0)
    assert not any(line.is_first(threading.get_ident()) for line in queue._lines.values())


if SOAK:

    @KINDS
    @VERBS
    @pytest.mark.parametrize(("version", "mode"), LAYOUTS)
    def test_eight_writers_take_at_most_twice_as_long_as_the_same_changes_in_a_row(
        kind: str, verb: str, version: int, mode: str, tmp_path: Path
    ) -> None:
        ratios = []
        for turn in range(3):  # the best of three: the machine has other things to do as well
            place = tmp_path / str(turn)
            alone = new_table(kind, place / "row", 8, version, mode)
            begun = time.monotonic()
            for writer in range(8):
                changed(alone, verb, writer, 8)
            in_a_row = time.monotonic() - begun
            new_table(kind, place, 8, version, mode)
            _, seconds = by_processes(kind, place, verb, 8)
            ratios.append(seconds / in_a_row)
        print("ratios", kind, verb, version, mode, ratios)
        assert min(ratios) <= 2, ratios
