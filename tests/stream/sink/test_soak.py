"""Streams whose driver is killed at random, while others compact the table and roll it back: every
row is there once (`make soak`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationException,
)
from frazil.ops.operation import TableOperation
from frazil.stream.partitions.fields import Partition
from frazil.stream.partitions.policies import merge_files
from frazil.stream.partitions.policies.context import TableSite
from frazil.table.catalog import Catalog
from frazil.table.table import Table
from tests.forked import started
from tests.stream.sink.arrow_split import ArrowSplit
from tests.stream.sink.streams import held, known_files, rows_of, sink_of
from tests.stream.sink.test_many_tables import catalog_at, sink_on

pytestmark = pytest.mark.soak
BATCHES = 200 if os.environ.get("FRAZIL_SOAK") else 24
EVERY = 8
"""The driver is killed about once in so many batches."""
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "lookup": {"mode": "upsert", "key_columns": ["id"]},
    "equality-deletes": {
        "mode": "upsert",
        "key_columns": ["id"],
        "upsert_strategy": "equality-deletes",
    },
    "cdc": {"mode": "cdc", "key_columns": ["id"]},
    "many": {},
}
TABLES = {"many": ("db.a", "db.b", "db.c")}
JUNK = -1
"""The id of a row that is committed and rolled back, so that no table may hold it in the end."""


def batch(kind: str, number: int) -> list[tuple[Any, ...]]:
    """Make the rows of a batch, the same ones whenever it is sent."""
    rand = random.Random(f"{kind} {number}")
    if kind in ("append", "many"):
        return [(rand.choice("abc"), number * 10 + n, number) for n in range(5)]
    keys = rand.sample(range(30), 6)
    return [(rand.choice("+++-") if kind == "cdc" else "+", key, number) for key in keys]


def expected(kind: str, batches: int = BATCHES) -> dict[str, list[tuple[int, int]]]:
    """Return the rows of each table of a kind after so many batches."""
    found: dict[str, dict[int, int]] = {name: {} for name in tables_of(kind)}
    for number in range(batches):
        for what, id_, value in batch(kind, number):
            model = found[f"db.{what}" if kind == "many" else tables_of(kind)[0]]
            if what == "-":
                model.pop(id_, None)
            else:
                model[id_] = value
    return {name: sorted(model.items()) for name, model in found.items()}


def tables_of(kind: str) -> tuple[str, ...]:
    return TABLES.get(kind, (f"db.{kind}",))


def drive(place: str, kind: str) -> None:
    """Send the batches after the last one that is known to be done, as Spark does after a restart."""
    folder, catalog = Path(place), catalog_at(Path(place))
    many = sink_on(catalog) if kind == "many" else None
    one = None if many else sink_of(catalog.load_table(f"db.{kind}"), **KINDS[kind])
    for number in range(last_done(folder) + 1, BATCHES):
        rows = batch(kind, number)
        if many is not None:
            columns = list(zip(*((f"db.{t}", i, v) for t, i, v in rows), strict=True))
            many.commit(
                number,
                ArrowSplit(pa.table(dict(zip(("topic", "id", "v"), columns, strict=True))), 0),
            )
        elif one is not None:
            names = ("op", "id", "v")[kind != "cdc" :]
            one.commit(
                number,
                rows_of(
                    *(({"-": "d"}.get(t, "u"), i, v)[kind != "cdc" :] for t, i, v in rows),
                    names=names,
                ),
            )
        (folder / "done.new").write_text(str(number))
        (folder / "done.new").rename(folder / "done")


def last_done(folder: Path) -> int:
    return int((folder / "done").read_text()) if (folder / "done").exists() else -1


def compacted(table: Table) -> bool:
    """Rewrite the small files of a table as one `replace`; False where another writer was in the
    way.
    """
    table.refresh()
    if table.current_snapshot() is None:
        return False
    site = TableSite(table._backend, ("db", "t"), "db.t", "main", table._loaded.storage)
    try:
        with TableOperation(table._backend, table._loaded, "db.t") as operation:
            staged = merge_files._staged(operation, Partition(0, ()), site, None)
            if staged is not None:
                operation.add(staged)
        return staged is not None
    except (ValidationException, CommitFailedException):
        return False


def rolled_back(table: Table) -> bool:
    """Commit a row and roll it back, while the driver is dead; False where there is nothing to go
    back to.
    """
    before = table.refresh().current_snapshot()
    if before is None:
        return False
    table.append(rows_of((JUNK, 0), names=("id", "v")).frame)
    with table.refresh().manage_snapshots() as manage:
        manage.rollback_to_snapshot(before.snapshot_id)
    return True


class Compactor(threading.Thread):
    """Compact tables one after the other until the end of the block. `rest`: seconds before each.
    `done`: how often it changed each.
    """

    def __init__(self, catalog: Catalog, names: Sequence[str], rest: float = 0.3):
        super().__init__(daemon=True)
        self._catalog, self._names, self._rest = catalog, names, rest
        self._over, self.pause, self.done = (
            threading.Event(),
            threading.Lock(),
            Counter(dict.fromkeys(names, 0)),
        )

    def __enter__(self) -> Compactor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(60)

    def run(self) -> None:
        for name in itertools.cycle(self._names):
            if self._over.wait(self._rest):
                return
            with self.pause, contextlib.suppress(NoSuchTableError, NoSuchNamespaceError):
                self.done[name] += compacted(self._catalog.load_table(name))


@pytest.mark.disk
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_lost_or_doubled_while_the_driver_is_killed_and_others_compact_and_roll_back(
    kind: str, tmp_path: Path
) -> None:
    rand, catalog = random.Random(kind), catalog_at(tmp_path)
    catalog.create_namespace("db")
    if kind != "many":
        catalog.create_table(
            f"db.{kind}", "id bigint, v bigint", format_version=3 if kind == "lookup" else 2
        )
    killed = 0
    with Compactor(catalog_at(tmp_path), tables_of(kind)) as compactor:
        while last_done(tmp_path) < BATCHES - 1:
            child = started(drive, str(tmp_path), kind, place=tmp_path)
            wanted, end = last_done(tmp_path) + rand.randint(1, 2 * EVERY), time.monotonic() + 300
            while (
                last_done(tmp_path) < min(wanted, BATCHES - 1)
                and child.process.is_alive()
                and time.monotonic() < end
            ):
                time.sleep(0.01)
            time.sleep(rand.random() * 0.1)
            child.process.kill()
            code = child.wait(60)
            assert code in (0, -signal.SIGKILL), child.problems()
            killed += code == -signal.SIGKILL
            if rand.random() < 0.5:
                for name in tables_of(kind):
                    if catalog.table_exists(name):
                        # a compaction between the two commits would be rolled back as well, or keep
                        # the row
                        with compactor.pause:
                            rolled_back(catalog.load_table(name))
    assert killed >= max(1, BATCHES // (4 * EVERY)) and compactor.done.total() > 0, (
        "the faults fired"
    )
    for name, rows in expected(kind).items():
        table = catalog.load_table(name)
        assert held(table) == rows, name
        assert all(Path(f).exists() for f in known_files(table))
        assert "replace" in {str(s.operation) for s in table.snapshots()} or kind == "many"
