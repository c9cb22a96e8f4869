"""A model of upsert and CDC: random batches against a dict, with both strategies, on v2 and v3;
equal rows after every batch.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from frazil.table.table import Table
from tests.builders.examples import SOAK
from tests.stream.sink.streams import data_files, held, known_files, make_table, rows_of, sink_of

pytestmark = [pytest.mark.soak] if SOAK else []
KEYS = (None, 0, 1, 2, 3, 4)
KINDS = ("+I", "-U", "+U", "-D")
NAMES = ("id", "p", "v", "seq", "op")


def batch(rand: random.Random, number: int) -> list[tuple[Any, ...]]:
    """Duplicates, deletes of absent keys, null keys, rows that move to another partition, and rows
    that come late.
    """
    size = rand.choice((0, 1, 2, 5, 12))
    return [
        (
            rand.choice(KEYS),
            rand.choice("abc"),
            number * 100 + n,
            rand.randrange(4),
            rand.choice(KINDS),
        )
        for n in range(size)
    ]


def apply(
    model: dict[Any, tuple[Any, ...]],
    rows: list[tuple[Any, ...]],
    mode: str,
    ordered: bool,
    key_of: Any,
) -> None:
    """One row after the other, in the order that the options say."""
    for row in sorted(rows, key=lambda r: r[3]) if ordered else rows:
        if mode == "cdc" and row[4] in ("-D", "-U"):
            model.pop(key_of(row), None)
        else:
            model[key_of(row)] = row[:3]


def check(table: Table, seed: int, mode: str, keys: list[str], strategy: str) -> None:
    rand = random.Random(seed)
    ordered = rand.random() < 0.5
    options: dict[str, Any] = {"mode": mode, "key_columns": keys, "upsert_strategy": strategy}
    if ordered:
        options["order_column"] = "seq"
    model: dict[Any, tuple[Any, ...]] = {}
    sink = sink_of(table, **options)
    for number in range(8):
        rows = batch(rand, number)
        names = (*NAMES[: 4 if ordered else 3], *(("op",) if mode == "cdc" else ()))
        given = [tuple(r[NAMES.index(n)] for n in names) for r in rows]
        before = len(table.refresh().snapshots())
        result = sink.commit(number, rows_of(*given, names=names))
        apply(model, rows, mode, ordered, lambda r: tuple(r[NAMES.index(k)] for k in keys))
        wanted = sorted(model.values(), key=lambda r: tuple((v is not None, v) for v in r))
        assert held(table) == wanted, (seed, number, rows, result)
        assert len(table.snapshots()) <= before + 1
        if rand.random() < 0.3:  # the driver died: the batch comes again, to a new run
            sink = sink_of(table, **options)
            assert sink.commit(number, rows_of(*given, names=names)).skipped or not rows
            assert held(table) == wanted
    assert data_files(table) == known_files(table)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["upsert", "cdc"])
@pytest.mark.parametrize(
    ("strategy", "partition_by", "keys"),
    [
        ("lookup", [], ["id"]),
        ("lookup", ["p"], ["id"]),
        ("equality-deletes", [], ["id"]),
        ("equality-deletes", ["p"], ["id", "p"]),
        ("equality-deletes", ["bucket(2, id)"], ["id"]),
    ],
)
def test_random_batches_leave_the_rows_of_a_dict(
    version: int, mode: str, strategy: str, partition_by: list[str], keys: list[str], tmp_path: Path
) -> None:
    for seed in range(20 if SOAK else 1):
        table = make_table(tmp_path / str(seed), format_version=version, partition_by=partition_by)
        check(table, seed * 7 + version, mode, keys, strategy)
