"""Random histories of overlapping serializable writers: some serial order of those that committed explains the rows.

The order also keeps what one could see: who had committed before another began comes before it.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import ValidationException

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
EXAMPLES = 400 if SOAK else 12
pytestmark = [pytest.mark.soak] if SOAK else []
Row = tuple[int, str, int]
START: list[Row] = [(i, "abc"[i % 3], i % 4) for i in range(12)]
NAMES = itertools.count()


def frame(*rows: Row) -> pa.Table:
    ids, p, v = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(p), "v": pa.array(v, pa.int64())})


@dataclass(frozen=True)
class Step:
    """One writer's operation. `where`: column and value of its condition, `n`: the value that it writes."""

    kind: str
    column: str
    value: Any
    n: int

    @property
    def condition(self) -> str:
        return f"{self.column} = {self.value!r}"

    def meets(self, row: Row) -> bool:
        return bool(row[("id", "p", "v").index(self.column)] == self.value)

    def key(self) -> int:
        return self.value if self.column == "id" else self.n % 12

    def stage(self, tx: Any) -> None:
        options = {"isolation_level": "serializable"}
        new = (self.key(), "abc"[self.key() % 3], self.n)
        match self.kind:
            case "append":
                tx.append(frame(new))
            case "delete":
                tx.delete(self.condition, **options)
            case "update":
                tx.update(set={"v": str(self.n % 4)}, where=self.condition, **options)
            case "add":
                tx.update(set={"v": f"v + {self.n}"}, where=self.condition, **options)
            case "upsert":
                tx.upsert(frame(new), join_cols=["id"], **options)
            case "merge":
                described = tx.merge(frame(new), on="target.id = source.id", **options)
                described.when_matched_delete(condition="target.v = 1").when_matched_update(
                    set={"v": "target.v + source.v"}
                ).when_not_matched_insert_all().execute()
            case "absent":
                tx.merge(frame(*self.two()), on="target.id = source.id", **options).when_not_matched_insert_all().execute()
            case "overwrite":
                tx.overwrite(frame(new), self.condition, **options)

    def two(self) -> list[Row]:
        """Rows that others' conditions may meet."""
        return [(k, "abc"[k % 3], self.n % 4) for k in (self.key(), (self.key() + 5) % 14)]

    def model(self, rows: list[Row]) -> list[Row]:
        k, new = self.key(), (self.key(), "abc"[self.key() % 3], self.n)
        absent = [] if any(r[0] == k for r in rows) else [new]
        match self.kind:
            case "append":
                return [*rows, new]
            case "delete":
                return [r for r in rows if not self.meets(r)]
            case "update":
                return [(*r[:2], self.n % 4) if self.meets(r) else r for r in rows]
            case "add":
                return [(*r[:2], r[2] + self.n) if self.meets(r) else r for r in rows]
            case "absent":
                return [*rows, *(new for new in self.two() if all(r[0] != new[0] for r in rows))]
            case "upsert":
                return [(k, new[1], self.n) if r[0] == k else r for r in rows] + absent
            case "merge":
                kept = [r for r in rows if not (r[0] == k and r[2] == 1)]
                return [(*r[:2], r[2] + self.n) if r[0] == k else r for r in kept] + absent
        return [*(r for r in rows if not self.meets(r)), new]


CONDITIONS = st.one_of(
    st.tuples(st.just("id"), st.integers(0, 13)),
    st.tuples(st.just("p"), st.sampled_from("abc")),
    st.tuples(st.just("v"), st.integers(0, 4)),
)
STEPS = st.builds(
    lambda kind, where, n: Step(kind, *where, n),
    st.sampled_from(["append", "delete", "update", "add", "upsert", "merge", "absent", "overwrite"]), CONDITIONS, st.integers(100, 115),
)  # fmt: skip
# Three writers, each beginning and committing at some point: a shuffle of 0 0 1 1 2 2.
SCHEDULES = st.permutations([0, 0, 1, 1, 2, 2])


@pytest.fixture(scope="module")
def catalog() -> Any:
    found = frazil.load_catalog("histories", type="memory")
    found.create_namespace("db")
    return found


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)])
def test_some_serial_order_explains_what_is_there(catalog: Any, mode: str, version: int, partitioned: bool) -> None:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")} | {"commit.retry.min-wait-ms": "1"}
    base = catalog.create_table(
        f"db.base{next(NAMES)}", "id bigint, p string, v bigint", partition_by=["p"] if partitioned else [], properties=properties, format_version=version
    )  # fmt: skip
    for rows in (START[:5], START[5:]):
        base.append(frame(*rows))

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(STEPS, min_size=3, max_size=3), SCHEDULES)
    def run(steps: list[Step], schedule: list[int]) -> None:
        check(catalog, base.metadata_location, steps, schedule)

    run()


def check(catalog: Any, base: str, steps: list[Step], schedule: list[int]) -> None:
    name = f"db.t{next(NAMES)}"
    catalog.register_table(name, base)
    running: dict[int, Any] = {}
    begun: dict[int, int] = {}
    committed: dict[int, int] = {}
    for time, writer in enumerate(schedule):
        if writer not in begun:
            begun[writer] = time
            running[writer] = catalog.load_table(name).transaction()
            try:
                steps[writer].stage(running[writer])
            except ValidationException:  # e.g. two rows of the table match one row to upsert
                running.pop(writer)
        elif writer in running:
            try:
                running[writer].commit_transaction()
                committed[writer] = time
            except ValidationException:
                pass
    found = catalog.load_table(name).scan().to_arrow()
    rows = sorted(zip(*(found[c].to_pylist() for c in ("id", "p", "v")), strict=True))
    orders = [o for o in itertools.permutations(committed) if all(not committed[b] < begun[a] for a, b in itertools.combinations(o, 2))]
    explained = []
    for order in orders:
        model = list(START)
        for writer in order:
            model = steps[writer].model(model)
        explained.append(sorted(model))
    assert rows in explained, (steps, schedule, committed)
