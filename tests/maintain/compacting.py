"""Helpers for tests of compaction: tables of many small files, their rows, and a runner that lets
another writer commit meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from frazil.table.table import Table
from frazil.tasks.runner import InProcess, Runner

G = TypeVar("G")
R = TypeVar("R")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), ("x", pa.float64()), ("s", pa.string())]
)
ALL = {"rewrite-all": True}
STRATEGIES: tuple[dict[str, Any], ...] = (
    {"strategy": "binpack"},
    {"strategy": "sort", "sort_order": "s DESC NULLS LAST, x"},
    {"strategy": "sort", "sort_order": "zorder(x, s)"},
    {"strategy": "hilbert", "sort_order": ["x", "id"]},
)


def rows_of_file(begin: int, count: int, seed: int = 0) -> pa.Table:
    """Rows with ids from `begin` on, few different texts, and nulls and NaN among the values."""
    chance = random.Random(begin * 31 + seed)
    values = [
        chance.choice([None, float("nan"), -0.0, chance.random() * 10, float(chance.randrange(5))])
        for _ in range(count)
    ]
    return pa.table(
        {
            "id": list(range(begin, begin + count)),
            "p": [f"p{i % 3}" for i in range(begin, begin + count)],
            "x": values,
            "s": [chance.choice([None, "", "ä", "b" * chance.randrange(12)]) for _ in range(count)],
        },
        schema=SCHEMA,
    )


def table_of(
    catalog: Any, name: str, version: int, files: int = 6, rows: int = 40, **arguments: Any
) -> Table:
    """A table of some small files, whose deletes are merge-on-read where the version has it."""
    mode = "merge-on-read" if version > 1 else "copy-on-write"
    properties = {
        "format-version": str(version),
        **{f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")},
    }
    table: Table = catalog.create_table(f"db.{name}", SCHEMA, properties=properties, **arguments)
    for n in range(files):
        table.append(rows_of_file(n * rows, rows))
    return table


def rows(table: Table, columns: tuple[str, ...] = ("*",)) -> list[tuple[Any, ...]]:
    """The rows by id, comparable: NaN as text."""
    found = table.scan(selected_fields=columns).to_arrow().to_pylist()
    return sorted(tuple("nan" if v != v else v for v in row.values()) for row in found)


LINEAGE = ("id", "_row_id", "_last_updated_sequence_number")


@dataclass
class Meanwhile:
    """A runner that lets others commit once its tasks are done, before the compaction commits, for
    the first `times` plans. `inner`: does the work.
    """

    then: Callable[[], object]
    inner: Runner = InProcess(2)
    times: int = 1
    runs: int = field(default=0, init=False)

    @property
    def parallelism(self) -> int:
        return 2

    @property
    def repeats(self) -> bool:
        return False

    @property
    def linger(self) -> float:
        return 0.0

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]:
        yield from list(self.inner.run(work, groups))
        self.runs += 1
        if self.runs <= self.times:
            self.then()
