"""Two writers who read the same state: every pair of operations, on the same row, on the same file,
on different partitions.

The first to begin commits last. What is allowed leaves the rows of some serial order; what is
refused changes nothing and leaves no file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest

import frazil
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_rows import WriteContext, write
from frazil.commit.actions import RewriteFiles
from frazil.errors import ValidationException
from frazil.spec.types import StringType
from tests.builders.frames import IdPV, frame_of, id_p_v
from tests.model import steps as s
from tests.model.merge import ModelClause, ModelMerge
from tests.model.play import PRELUDE
from tests.model.sql import column, compare, literal, of
from tests.model.state import rows_after
from tests.model.values import Column, ddl

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
COLUMNS = (Column(1, "id", "long"), Column(2, "p", "string"), Column(3, "v", "long"))
SAME_ID = compare(column("id", "target"), "=", column("id", "source"))
START = [(i, "ab"[i // 10], 0) for i in range(20)]
NAMES = itertools.count()


def part(k: int) -> str:
    return "ab"[k // 10]


def step(kind: str, k: int, n: int, isolation: str | None = None, mode: str | None = None) -> Any:
    """What an operation on rows does at the row k, as a step of the model; its own value n tells
    who wrote.
    """
    rows, how = ({"id": k, "p": part(k), "v": n},), {"isolation": isolation, "mode": mode}
    here = compare(column("id"), "=", literal(k, "long"))
    match kind:
        case "append":
            return s.Append(rows)
        case "delete":
            return s.Delete(here, **how)
        case "update":
            return s.Update((("v", of(f"v + {n}", lambda v: v + n, column("v"))),), here, **how)
        case "upsert":
            return s.Upsert(rows, ("id",), **how)
        case "overwrite":
            return s.Overwrite(
                rows, compare(column("p"), "=", literal(part(k), "string")), isolation=isolation
            )
    v = of("target.v + source.v", lambda t, s: t + s, column("v", "target"), column("v", "source"))
    return ModelMerge(
        rows,
        ("id", "p", "v"),
        SAME_ID,
        (ModelClause("matched_update", None, (("v", v),)), ModelClause("not_matched_insert_all")),
        **how,
    )


def rewrite(tx: Any, k: int, n: int) -> None:
    """As compaction does it: the rows of one file, with those deleted left out, in another."""
    t = tx.table
    task = next(
        x for x in t.scan(f"p = '{part(k)}'").plan_files() if x.file.partition == (part(k),)
    )
    rows = t.scan(f"p = '{part(k)}'").to_arrow()
    made = write(conform(rows, t.schema()), WriteContext.of(t.metadata, t.io))
    tx._operation.written += [f.file_path for f in made]
    tx._operation.stage(
        RewriteFiles(
            removed=[task.file], added=made, starting_snapshot_id=t.current_snapshot().snapshot_id
        )
    )


def schema(tx: Any, k: int, n: int) -> None:
    tx.update_schema().add_column(f"c{n}", StringType()).commit()


KEEP_ROWS: dict[str, Callable[..., None]] = {"rewrite": rewrite, "schema": schema}
OPERATIONS = ("append", "delete", "update", "merge", "upsert", "overwrite", *KEEP_ROWS)


def stage(tx: Any, kind: str, k: int, n: int, isolation: str, mode: str) -> None:
    """An operation in a transaction."""
    if kind in KEEP_ROWS:
        KEEP_ROWS[kind](tx, k, n)
        return
    names: dict[str, Any] = {"tx": tx}
    exec(PRELUDE, names)
    exec(step(kind, k, n, isolation, mode).code("tx"), names)


def after(*operations: tuple[str, int, int]) -> list[IdPV]:
    """The rows after some operations, one after the other."""
    steps = [step(*operation) for operation in operations if operation[0] not in KEEP_ROWS]
    rows = rows_after(
        COLUMNS, [dict(zip(("id", "p", "v"), row, strict=True)) for row in START], steps
    )
    return sorted((row["id"], row["p"], row["v"]) for row in rows)


def refused(late: str, early: str, where: str, level: str, mode: str, version: int) -> bool:
    """The table of expected outcomes. `where`: "row" (the same), "file" (another row of the same
    file), "partition" (another).
    """
    if late in ("append", "schema") or early == "schema" or where == "partition":
        return False
    if late == "rewrite":
        return early != "append"
    if early == "rewrite":  # no row was changed: the late one is planned anew
        return False
    if early == "append":  # serializable: nobody may add rows that the other would have seen
        return level == "serializable" and (where == "row" or late == "overwrite")
    if "overwrite" in (late, early):
        return True
    if mode == "copy-on-write" or version >= 3 or late != "delete":
        # one file is rewritten, or has one vector, or its deletes are in the read set
        return True
    return early != "delete" and where == "row"  # position deletes: both deleted, or other rows


def outcome(
    catalog: Any, base: str, late: str, early: str, where: str, level: str, mode: str, anew: bool
) -> tuple[bool, list[IdPV], list[list[IdPV]]]:
    """Whether the late one was refused, the rows then, and the rows of the serial orders."""
    name = f"db.t{next(NAMES)}"
    first = catalog.register_table(name, base)
    second = catalog.load_table(name)
    one, other = (late, 3, 100), (early, {"row": 3, "file": 5, "partition": 15}[where], 1000)
    was_refused = False
    try:
        with first.transaction() as tx:
            tx._operation.plans_anew = anew
            stage(tx, *one, level, mode)
            with second.transaction() as faster:
                stage(faster, *other, level, mode)
    except ValidationException:
        was_refused = True
    orders = [after(other)] if was_refused else [after(other, one), after(one, other)]
    return was_refused, id_p_v(catalog.load_table(name)), orders


@pytest.fixture(scope="module")
def catalog() -> Any:
    found = frazil.load_catalog("interleaved", type="memory")
    found.create_namespace("db")
    return found


CASES = [
    ("copy-on-write", 2, "serializable"),
    ("merge-on-read", 2, "snapshot"),
    ("merge-on-read", 3, "serializable"),
]
if SOAK:
    modes = [
        ("copy-on-write", 1),
        ("copy-on-write", 2),
        ("copy-on-write", 3),
        ("merge-on-read", 2),
        ("merge-on-read", 3),
    ]
    CASES = [(*mode, level) for mode in modes for level in ("serializable", "snapshot")]


@pytest.mark.parametrize(("mode", "version", "level"), CASES)
@pytest.mark.parametrize("anew", [True, False])
def test_every_pair_of_operations_has_its_expected_outcome(
    catalog: Any, mode: str, version: int, level: str, anew: bool
) -> None:
    """In a transaction the late one is refused; alone it is planned anew, as if it had come later."""
    t = catalog.create_table(
        f"db.base_{mode}_{version}_{level}_{anew}",
        ddl(COLUMNS),
        partition_by=["p"],
        format_version=version,
        properties={"commit.retry.min-wait-ms": "1"},
    )
    t.append(frame_of(START))
    wrong = []
    lates = [o for o in OPERATIONS if SOAK or o not in ("append", "schema")]
    for late, early, where in itertools.product(lates, OPERATIONS, ("row", "file", "partition")):
        was_refused, rows, orders = outcome(
            catalog, t.metadata_location, late, early, where, level, mode, anew
        )
        expected = (not anew or late == "rewrite") and refused(
            late, early, where, level, mode, version
        )
        if was_refused != expected or rows not in orders:
            wrong.append(
                (
                    late,
                    early,
                    where,
                    "refused" if was_refused else "allowed",
                    "rows differ" if rows not in orders else "",
                )
            )
    assert wrong == []
