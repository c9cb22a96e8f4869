"""Random scripts of appends, deletes of every kind, compaction and both procedures agree with a
plain list of rows, in every snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.table.table import Table
from tests.builders.files_on_disk import leftovers
from tests.maintain.delete_files.test_deletes_beside_writers import compacted
from tests.maintain.deletes import (
    PARTS,
    append,
    by_bounded_keys,
    by_keys,
    by_position,
    delete_files,
    ids,
    made,
    while_committing,
)

STEPS = (
    "append",
    "positions",
    "keys",
    "bounded",
    "two columns",
    "convert",
    "convert some",
    "rewrite",
    "compact",
    "rewrite data",
    "delete",
    "update",
)


@dataclass
class Model:
    """The live ids, each as often as it is there, and what each snapshot held."""

    rng: random.Random
    live: list[int] = field(default_factory=list)
    next: int = 0
    history: dict[int, list[int]] = field(default_factory=dict)

    def some(self, most: int = 8) -> list[int]:
        return sorted(
            {self.rng.randrange(max(1, self.next)) for _ in range(self.rng.randint(1, most))}
        )

    def drop(self, gone: Iterable[int]) -> None:
        chosen = set(gone)
        self.live = [i for i in self.live if i not in chosen]


def step(name: str, t: Table, m: Model) -> None:
    granularity = m.rng.choice(["file", "partition"])
    match name:
        case "append":
            count = m.rng.randint(1, 30)
            new = [*range(m.next, m.next + count), *(i for i in m.some(3) if i not in m.live)]
            m.next += count
            append(t, new)
            m.live += new
        case "positions":
            by_position(t, gone := m.some(), granularity if t.format_version == 2 else "file")
            m.drop(gone)
        case "bounded":
            by_bounded_keys(t, gone := m.some(20))
            m.drop(gone)
        case "keys" | "two columns":
            part = m.rng.choice(PARTS)
            gone = [i for i in m.some(20) if PARTS[i % 3] == part] or [m.rng.choice([0, 1, 2])]
            columns = ("id",) if name == "keys" else ("n", "p")
            by_keys(
                t, gone, columns=columns, partition=(PARTS[gone[0] % 3],) if t.spec().fields else ()
            )
            if name == "keys":
                m.drop(i for i in gone if not t.spec().fields or PARTS[i % 3] == PARTS[gone[0] % 3])
            else:
                keys = {(i % 7, PARTS[i % 3]) for i in gone}
                m.live = [i for i in m.live if (i % 7, PARTS[i % 3]) not in keys]
        case "convert":
            t.refresh().maintenance.convert_equality_deletes(runner="in-process")
            assert "equality" not in delete_files(t)
        case "convert some":
            t.refresh().maintenance.convert_equality_deletes(
                f"id < {m.rng.randrange(60)}", runner="in-process"
            )
        case "rewrite":
            options = {
                "rewrite-all": "true",
                "max-file-group-size-bytes": m.rng.choice([2000, 10**9]),
            }
            t.refresh().maintenance.rewrite_position_delete_files(
                options=options, runner="in-process"
            )
        case "rewrite data":
            t.refresh().maintenance.rewrite_data_files(
                options={"rewrite-all": "true"}, runner="in-process"
            )
        case "compact":
            if t.refresh().current_snapshot() is not None and list(t.scan().plan_files()):
                compacted(t)(t)
        case "delete":
            t.refresh().delete(
                f"id in ({', '.join(map(str, gone := m.some()))})",
                mode="merge-on-read",
                runner="in-process",
            )
            m.drop(gone)
        case "update":
            t.refresh().update(
                {"n": "n"}, f"id < {m.rng.randrange(20)}", mode="merge-on-read", runner="in-process"
            )


def look(t: Table, m: Model, told: Any) -> None:
    assert ids(t) == sorted(m.live), told
    if (head := t.current_snapshot()) is not None:
        m.history[head.snapshot_id] = sorted(m.live)


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(n, marks=pytest.mark.soak) for n in range(5, 24))]
)
def test_rows_are_those_of_a_plain_list_after_every_step_and_in_every_snapshot(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    spec = [(), ("p",)][seed % 2]
    t = made(
        tmp_path,
        2 + seed // 2 % 2,
        spec,
        write__delete__granularity=rng.choice(["file", "partition"]),
    )
    m, done = Model(rng), []
    for name in ["append", *(rng.choice(STEPS) for _ in range(14)), "convert", "rewrite"]:
        done.append(name)
        if name in ("convert", "rewrite", "convert some") and rng.random() < 0.4:
            other = rng.choice(
                ["append", "delete", "bounded", "keys", "compact", "rewrite data", "update"]
            )
            done.append(f"({other})")
            while_committing(t, lambda same, other=other: step(other, same, m))  # type: ignore[misc]
            step_with(name, t, m)
            t = frazil.load_table(t.location())
        else:
            step(name, t, m)
        look(t, m, (seed, done))
    for snapshot_id, want in m.history.items():
        assert sorted(t.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist()) == want
    assert not leftovers(t)


def step_with(name: str, t: Table, m: Model) -> None:
    """A procedure into whose commit another step comes; equality deletes may have come after it
    looked.
    """
    match name:
        case "convert":
            t.refresh().maintenance.convert_equality_deletes(runner="in-process")
        case _:
            step(name, t, m)
