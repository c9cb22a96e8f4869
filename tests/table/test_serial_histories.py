"""Random histories of overlapping serializable writers: some serial order of those that committed
explains the rows.

The order also keeps what one could see: who had committed before another began comes before it.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import ValidationException
from tests.builders.frames import IdPV, frame_of, id_p_v
from tests.model import steps as s
from tests.model.merge import ModelClause, ModelMerge
from tests.model.play import PRELUDE
from tests.model.sql import column, compare, literal, of
from tests.model.state import rows_after
from tests.model.values import Column, ddl

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
EXAMPLES = 400 if SOAK else 12
pytestmark = [pytest.mark.soak] if SOAK else []
COLUMNS = (Column(1, "id", "long"), Column(2, "p", "string"), Column(3, "v", "long"))
SAME_ID = compare(column("id", "target"), "=", column("id", "source"))
START = [(i, "abc"[i % 3], i % 4) for i in range(12)]
NAMES = itertools.count()


@dataclass(frozen=True)
class Writer:
    """One writer's operation. `where`: column and value of its condition, `n`: the value that it
    writes.
    """

    kind: str
    column: str
    value: Any
    n: int

    def key(self) -> int:
        return self.value if self.column == "id" else self.n % 12

    def rows(self, *keys: int, v: int) -> s.Rows:
        return tuple({"id": k, "p": "abc"[k % 3], "v": v} for k in keys)

    def step(self) -> Any:
        """The operation as a step of the model."""
        where = compare(
            column(self.column),
            "=",
            literal(self.value, "string" if self.column == "p" else "long"),
        )
        new, serializable = self.rows(self.key(), v=self.n), {"isolation": "serializable"}
        match self.kind:
            case "append":
                return s.Append(new)
            case "delete":
                return s.Delete(where, **serializable)
            case "update":
                return s.Update((("v", literal(self.n % 4, "long")),), where, **serializable)
            case "add":
                return s.Update(
                    (("v", of(f"v + {self.n}", lambda v: v + self.n, column("v"))),),
                    where,
                    **serializable,
                )
            case "upsert":
                return s.Upsert(new, ("id",), **serializable)
            case "overwrite":
                return s.Overwrite(new, where, **serializable)
            case "absent":  # rows that others' conditions may meet
                two = self.rows(self.key(), (self.key() + 5) % 14, v=self.n % 4)
                return ModelMerge(
                    two,
                    ("id", "p", "v"),
                    SAME_ID,
                    (ModelClause("not_matched_insert_all"),),
                    **serializable,
                )
        v = of(
            "target.v + source.v", lambda t, s: t + s, column("v", "target"), column("v", "source")
        )
        gone = ModelClause(
            "matched_delete", compare(column("v", "target"), "=", literal(1, "long"))
        )
        clauses = (
            gone,
            ModelClause("matched_update", None, (("v", v),)),
            ModelClause("not_matched_insert_all"),
        )
        return ModelMerge(new, ("id", "p", "v"), SAME_ID, clauses, **serializable)


def serial(writers: list[Writer]) -> list[IdPV]:
    """The rows after one writer at a time."""
    rows = rows_after(
        COLUMNS,
        [dict(zip(("id", "p", "v"), row, strict=True)) for row in START],
        (w.step() for w in writers),
    )
    return sorted((row["id"], row["p"], row["v"]) for row in rows)


CONDITIONS = st.one_of(
    st.tuples(st.just("id"), st.integers(0, 13)),
    st.tuples(st.just("p"), st.sampled_from("abc")),
    st.tuples(st.just("v"), st.integers(0, 4)),
)
WRITERS = st.builds(
    lambda kind, where, n: Writer(kind, *where, n),
    st.sampled_from(
        ["append", "delete", "update", "add", "upsert", "merge", "absent", "overwrite"]
    ),
    CONDITIONS,
    st.integers(100, 115),
)
# Three writers, each beginning and committing at some point: a shuffle of 0 0 1 1 2 2.
SCHEDULES = st.permutations([0, 0, 1, 1, 2, 2])


@pytest.fixture(scope="module")
def catalog() -> Any:
    found = frazil.load_catalog("histories", type="memory")
    found.create_namespace("db")
    return found


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize(
    ("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)]
)
def test_some_serial_order_explains_what_is_there(
    catalog: Any, mode: str, version: int, partitioned: bool
) -> None:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")} | {
        "commit.retry.min-wait-ms": "1"
    }
    base = catalog.create_table(
        f"db.base{next(NAMES)}",
        ddl(COLUMNS),
        partition_by=["p"] if partitioned else [],
        properties=properties,
        format_version=version,
    )
    for rows in (START[:5], START[5:]):
        base.append(frame_of(rows))

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(WRITERS, min_size=3, max_size=3), SCHEDULES, st.booleans())
    def run(writers: list[Writer], schedule: list[int], anew: bool) -> None:
        check(catalog, base.metadata_location, writers, schedule, anew)

    run()


def check(catalog: Any, base: str, writers: list[Writer], schedule: list[int], anew: bool) -> None:
    name = f"db.t{next(NAMES)}"
    catalog.register_table(name, base)
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    running: dict[int, Any] = {}
    begun: dict[int, int] = {}
    committed: dict[int, int] = {}
    for time, writer in enumerate(schedule):
        if writer not in begun:
            begun[writer] = time
            running[writer] = catalog.load_table(name).transaction()
            running[writer]._operation.plans_anew = anew  # as for one change alone
            exec(writers[writer].step().code("tx"), {**names, "tx": running[writer]})
        else:
            try:
                running[writer].commit_transaction()
                committed[writer] = time
            except ValidationException:
                pass
    assert len(committed) == 3 or not anew, (writers, schedule, committed)
    rows = id_p_v(catalog.load_table(name))
    orders = [
        o
        for o in itertools.permutations(committed)
        if all(not committed[b] < begun[a] for a, b in itertools.combinations(o, 2))
    ]
    assert rows in [serial([writers[n] for n in order]) for order in orders], (
        writers,
        schedule,
        committed,
    )
