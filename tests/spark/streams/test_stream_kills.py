"""Drivers of streams that die at any moment: every batch is there once, whatever the way of writing
(`make soak`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.spark.streams.runs import killed_at_random, put_kind
from tests.stream.sink.streams import held, known_files
from tests.stream.sink.test_many_tables import catalog_at
from tests.stream.sink.test_soak import BATCHES, KINDS, Compactor, expected, rolled_back, tables_of

pytestmark = [pytest.mark.spark, pytest.mark.disk, pytest.mark.soak]
FAULTS = max(1, BATCHES // 50)
"""So often at least each stream dies inside a batch, and its table is rolled back."""


def test_no_row_is_lost_or_doubled_while_drivers_die_at_random_and_others_compact_and_roll_back(
    tmp_path: Path,
) -> None:
    """Batches are done at any time of Spark's: the driver dies while it plans, writes, commits, and
    writes its own logs.
    """
    catalog, tables, rollbacks = (
        catalog_at(tmp_path),
        {kind: tables_of(kind) for kind in KINDS},
        Counter[str](),
    )
    catalog.create_namespace("db")
    for kind in KINDS:
        put_kind(tmp_path, catalog, kind, BATCHES)
    compactor = Compactor(
        catalog_at(tmp_path), [name for names in tables.values() for name in names], rest=1
    )

    def roll_back(kind: str) -> None:
        for name in tables[kind]:
            if catalog.table_exists(name):
                # a compaction between the two commits would be rolled back as well, or keep the row
                with compactor.pause:
                    rollbacks[kind] += rolled_back(catalog.load_table(name))

    with compactor:
        died_inside = killed_at_random(tmp_path, tuple(KINDS), 12, roll_back)
    assert all(compactor.done.values()) and all(
        min(died_inside[kind], rollbacks[kind]) >= FAULTS for kind in KINDS
    ), "the faults fired"
    for kind in KINDS:
        for name, rows in expected(kind).items():
            table = catalog.load_table(name)
            assert held(table) == rows, name
            assert all(Path(f).exists() for f in known_files(table))
