"""Writers that append in loops beside each other, as threads and as processes, at default
properties: all get through, and none tries often. Also on tables in S3, and of PostgreSQL, a REST
server and Hive Metastores, where FRAZIL_TEST_S3, _POSTGRES, _REST, _HMS2 and _HMS4 name servers.

FRAZIL_SOAK=1: 8 writers x 25 appends, held against the same 200 in a row.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.table.catalog import Catalog
from frazil.table.table import Table
from tests.forked import started
from tests.storage.conftest import s3_place

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.disk, *([pytest.mark.soak] if SOAK else [])]
WRITERS, APPENDS = (8, 25) if SOAK else (4, 6)
Beside = Callable[[str, Path], tuple[list[int], float]]  # attempts, seconds
SERVED = {
    kind: (type_, os.environ[variable])
    for kind, type_, variable in (
        ("postgres", "sql", "FRAZIL_TEST_POSTGRES"),
        ("rest", "rest", "FRAZIL_TEST_REST"),
        ("hive 2", "hive", "FRAZIL_TEST_HMS2"),
        ("hive 4", "hive", "FRAZIL_TEST_HMS4"),
    )
    if os.environ.get(variable)
}


def catalog_of(kind: str, place: Path) -> Catalog:
    type_, _, store = kind.partition(" in ")
    warehouse, properties = f"{place}/w", dict[str, str]()
    if store:
        _, properties = s3_place()
        warehouse = f"s3://frazil-test/{uuid.uuid5(uuid.NAMESPACE_URL, str(place))}"
    if kind in SERVED:
        type_, properties["uri"] = SERVED[kind]
        if type_ == "rest":
            return frazil.load_catalog("c", type=type_, **properties)
    elif type_ == "sql":
        properties["uri"] = f"sqlite:///{place}/c.db"
    return frazil.load_catalog("c", type=type_, warehouse=warehouse, **properties)


def name_of(place: Path) -> tuple[str, str]:
    """A table's name that no other place has, since servers are shared."""
    return f"w{uuid.uuid5(uuid.NAMESPACE_URL, str(place)).hex[:12]}", "t"


def new_table(kind: str, place: Path) -> Table:
    place.mkdir(parents=True, exist_ok=True)
    catalog, name = catalog_of(kind, place), name_of(place)
    catalog.create_namespace(name[:1])
    return catalog.create_table(name, "id bigint, writer bigint")


def appended(table: Table, writer: int, count: int) -> list[int]:
    """How many attempts each append took."""
    frames = [
        pa.table({"id": list(range(n * 10, n * 10 + 10)), "writer": [writer] * 10})
        for n in range(count)
    ]
    return [table.append(frame).attempts for frame in frames]


def by_threads(kind: str, place: Path) -> tuple[list[int], float]:
    attempts: list[int] = []

    def writer(number: int, table: Table) -> None:
        attempts.extend(appended(table, number, APPENDS))

    tables = [catalog_of(kind, place).load_table(name_of(place)) for _ in range(WRITERS)]
    threads = [threading.Thread(target=writer, args=(n, table)) for n, table in enumerate(tables)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return attempts, time.monotonic() - begun


def process(kind: str, place: Path, number: int) -> None:
    table = catalog_of(kind, place).load_table(name_of(place))
    appended(new_table(kind, place / f"warm-{number}"), number, 1)
    (place / f"ready-{number}").touch()
    while not (place / "go").exists():
        time.sleep(0.005)
    print(*appended(table, number, APPENDS))


def by_processes(kind: str, place: Path) -> tuple[list[int], float]:
    running = [started(process, kind, place, n, place=place) for n in range(WRITERS)]
    deadline = time.monotonic() + 120
    while len(list(place.glob("ready-*"))) < WRITERS:
        assert time.monotonic() < deadline and all(p.wait(0) is None for p in running), [
            p.problems() for p in running
        ]
        time.sleep(0.02)
    begun = time.monotonic()
    (place / "go").touch()
    codes = [p.wait(600) for p in running]
    seconds = time.monotonic() - begun
    assert codes == [0] * WRITERS, [p.problems() for p in running]
    return [int(n) for p in running for n in p.printed().split()], seconds


BESIDE = pytest.mark.parametrize("beside", [by_threads, by_processes])
S3 = ["sql in s3", "path in s3"] if os.environ.get("FRAZIL_TEST_S3") else []
KINDS = pytest.mark.parametrize("kind", ["sql", "path", *S3, *SERVED])


@KINDS
@BESIDE
def test_appends_beside_each_other_all_get_through_at_default_properties(
    kind: str, beside: Beside, tmp_path: Path
) -> None:
    table = new_table(kind, tmp_path)
    attempts, _ = beside(kind, tmp_path)
    table.refresh()
    snapshots = list(table.metadata.ancestors(table.metadata.current_snapshot()))
    assert len(attempts) == len(snapshots) == WRITERS * APPENDS
    assert max(attempts) <= 2, (
        "whoever's turn it is loses once at most: when the table was loaded long ago"
    )
    counts = table.scan().to_arrow().group_by("writer").aggregate([("id", "count")])
    assert sorted(counts["writer"].to_pylist()) == list(range(WRITERS)) and set(
        counts["id_count"].to_pylist()
    ) == {APPENDS * 10}


if SOAK:

    @KINDS
    @BESIDE
    def test_appends_beside_each_other_take_hardly_longer_than_the_same_in_a_row(
        kind: str, beside: Beside, tmp_path: Path
    ) -> None:
        ratios = []
        for turn in range(3):  # the best of three: the machine has other things to do as well
            place = tmp_path / str(turn)
            begun = time.monotonic()
            appended(table := new_table(kind, place / "row"), 0, WRITERS * APPENDS)
            in_a_row = time.monotonic() - begun
            new_table(kind, place)
            attempts, seconds = beside(kind, place)
            assert len(attempts) == WRITERS * APPENDS == len(table.metadata.snapshots)
            ratios.append(seconds / in_a_row)
        assert min(ratios) <= 1.5, ratios
