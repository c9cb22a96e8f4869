"""Two writers who read the same state: every pair of operations, on the same row, on the same file, on different partitions.

The first to begin commits last. What is allowed leaves the rows of some serial order; what is refused changes nothing and leaves no file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.commit.actions import RewriteFiles
from frazil.errors import ValidationException
from frazil.spec.types import StringType

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
Row = tuple[int, str, int]
START: list[Row] = [(i, "ab"[i // 10], 0) for i in range(20)]
NAMES = itertools.count()


def frame(*rows: Row) -> pa.Table:
    ids, p, v = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(p), "v": pa.array(v, pa.int64())})


def part(k: int) -> str:
    return "ab"[k // 10]


# What an operation does in a transaction, at the row k; its own value n tells who wrote.


def append(tx: Any, k: int, n: int, **options: Any) -> None:
    tx.append(frame((k, part(k), n)))


def delete(tx: Any, k: int, n: int, **options: Any) -> None:
    tx.delete(f"id = {k}", **options)


def update(tx: Any, k: int, n: int, **options: Any) -> None:
    tx.update(set={"v": f"v + {n}"}, where=f"id = {k}", **options)


def merge(tx: Any, k: int, n: int, **options: Any) -> None:
    mode = options.pop("mode")
    described = tx.merge(frame((k, part(k), n)), on="target.id = source.id", **options)
    described.when_matched_update(set={"v": "target.v + source.v"}).when_not_matched_insert_all().execute(mode)


def upsert(tx: Any, k: int, n: int, **options: Any) -> None:
    tx.upsert(frame((k, part(k), n)), join_cols=["id"], **options)


def overwrite(tx: Any, k: int, n: int, **options: Any) -> None:
    options.pop("mode", None)
    tx.overwrite(frame((k, part(k), n)), f"p = '{part(k)}'", **options)


def rewrite(tx: Any, k: int, n: int, **options: Any) -> None:
    """As compaction does it: the rows of one file, with those deleted left out, in another."""
    t = tx.table
    task = next(x for x in t.scan(f"p = '{part(k)}'").plan_files() if x.file.partition == (part(k),))
    from frazil.arrow.write.conform import conform
    from frazil.arrow.write.write_rows import WriteContext, write

    rows = t.scan(f"p = '{part(k)}'").to_arrow()
    made = write(conform(rows, t.schema()), WriteContext.of(t.metadata, t.io))
    tx._pending.written += [f.file_path for f in made]
    tx._stage(RewriteFiles(removed=[task.file], added=made, starting_snapshot_id=t.current_snapshot().snapshot_id))


def schema(tx: Any, k: int, n: int, **options: Any) -> None:
    tx.update_schema().add_column(f"c{n}", StringType()).commit()


OPERATIONS: dict[str, Callable[..., None]] = {
    "append": append, "delete": delete, "update": update, "merge": merge, "upsert": upsert, "overwrite": overwrite, "rewrite": rewrite, "schema": schema,
}  # fmt: skip
ROW_LEVEL = ("delete", "update", "merge", "upsert")


def after(rows: list[Row], kind: str, k: int, n: int) -> list[Row]:
    """The rows after an operation, in a plain model."""
    match kind:
        case "append":
            return [*rows, (k, part(k), n)]
        case "delete":
            return [r for r in rows if r[0] != k]
        case "update":
            return [(i, p, v + n) if i == k else (i, p, v) for i, p, v in rows]
        case "merge":
            found = [(i, p, v + n) if i == k else (i, p, v) for i, p, v in rows]
            return found if any(r[0] == k for r in rows) else [*found, (k, part(k), n)]
        case "upsert":
            found = [(i, p, n) if i == k else (i, p, v) for i, p, v in rows]
            return found if any(r[0] == k for r in rows) else [*found, (k, part(k), n)]
        case "overwrite":
            return [*(r for r in rows if r[1] != part(k)), (k, part(k), n)]
    return rows


def refused(late: str, early: str, where: str, level: str, mode: str, version: int) -> bool:
    """The table of expected outcomes. `where`: "row" (the same), "file" (another row of the same file), "partition" (another)."""
    if late in ("append", "schema") or early == "schema" or where == "partition":
        return False
    if late == "rewrite":
        return early != "append"
    if early == "append":  # serializable: nobody may add rows that the other would have seen
        return level == "serializable" and (where == "row" or late == "overwrite")
    if late == "overwrite" or early in ("overwrite", "rewrite"):
        return True
    if (
        mode == "copy-on-write" or version >= 3 or late != "delete"
    ):  # one file is rewritten, or has one vector, or its deletes are in the read set
        return True
    return early != "delete" and where == "row"  # position deletes: both deleted, or other rows


def outcome(catalog: Any, base: str, late: str, early: str, where: str, level: str, mode: str) -> tuple[bool, list[Row], list[list[Row]]]:
    """Whether the late one was refused, the rows then, and the rows of the serial orders."""
    name = f"db.t{next(NAMES)}"
    first = catalog.register_table(name, base)
    second = catalog.load_table(name)
    k, other = 3, {"row": 3, "file": 5, "partition": 15}[where]
    options = {"isolation_level": level, "mode": mode}
    was_refused = False
    try:
        with first.transaction() as tx:
            OPERATIONS[late](tx, k, 100, **options)
            with second.transaction() as faster:
                OPERATIONS[early](faster, other, 1000, **options)
    except ValidationException:
        was_refused = True
    now = catalog.load_table(name).scan(selected_fields=("id", "p", "v")).to_arrow()
    rows = sorted(zip(*(c.to_pylist() for c in now.columns), strict=True))
    alone = after(START, early, other, 1000)
    orders = [alone] if was_refused else [after(alone, late, k, 100), after(after(START, late, k, 100), early, other, 1000)]
    return was_refused, rows, [sorted(o) for o in orders]


@pytest.fixture(scope="module")
def catalog() -> Any:
    found = frazil.load_catalog("interleaved", type="memory")
    found.create_namespace("db")
    return found


MODES = [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3), *([("copy-on-write", 1), ("copy-on-write", 3)] if SOAK else [])]


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize(("mode", "version"), MODES)
def test_every_pair_of_operations_has_its_expected_outcome(catalog: Any, mode: str, version: int, level: str) -> None:
    t = catalog.create_table(
        f"db.base_{mode}_{version}_{level}", "id bigint, p string, v bigint", partition_by=["p"], format_version=version
    )
    t.append(frame(*START))
    wrong = []
    lates = [o for o in OPERATIONS if SOAK or o not in ("append", "schema")]
    for late, early, where in itertools.product(lates, OPERATIONS, ("row", "file", "partition")):
        was_refused, rows, orders = outcome(catalog, t.metadata_location, late, early, where, level, mode)
        expected = refused(late, early, where, level, mode, version)
        if was_refused != expected or rows not in orders:
            wrong.append((late, early, where, "refused" if was_refused else "allowed", "rows differ" if rows not in orders else ""))
    assert wrong == []
