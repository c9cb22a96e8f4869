"""Tables with deletes of every kind, and functions that inspect them, for tests of the maintenance
of delete files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import frazil
from frazil.arrow.deletes.write_deletes import write_equality_deletes
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_context import WriteContext
from frazil.codec.metadata_json import encode_metadata
from frazil.commit.actions import RowDelta
from frazil.commit.table_commit import commit
from frazil.table.table import Table
from frazil.testing import FlakyBackend
from tests.peers.rowsum import rowsum
from tests.spark.deleting import take_keys, take_positions

PARTS = ("a", "b", None)


def made(
    folder: Path, version: int = 2, spec: Sequence[str] = (), name: str = "t", **properties: str
) -> Table:
    """An empty table: id, p (in which the tests partition), n."""
    catalog = frazil.load_catalog("test", type="path", warehouse=str(folder / "wh"))
    catalog.create_namespace_if_not_exists("db")
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()}
    return catalog.create_table(
        f"db.{name}",
        "id bigint, p string, n int",
        partition_by=list(spec),
        format_version=version,
        properties=given,
    )


def filled(t: Table, count: int = 3, each: int = 40) -> Table:
    """`count` appends of `each` rows, with ids from 0 on."""
    for part in range(count):
        append(t, range(part * each, part * each + each))
    return t


def append(t: Table, ids: Iterable[int]) -> None:
    ids = list(ids)
    t.refresh().append(
        pa.table(
            {
                "id": ids,
                "p": pa.array([PARTS[i % 3] for i in ids]),
                "n": pa.array([i % 7 for i in ids], pa.int32()),
            }
        )
    )


def by_keys(t: Table, ids: Iterable[int], *, columns: Sequence[str] = ("id",), **more: Any) -> None:
    """An equality delete file by `columns` of the rows with these ids, as Flink writes it."""
    take_keys(t, columns, [{"id": i, "p": PARTS[i % 3], "n": i % 7} for i in ids], **more)


def by_bounded_keys(t: Table, ids: Iterable[int]) -> None:
    """Equality deletes by id as Frazil and Flink write them: by partition, with bounds, which tell
    what they cannot apply to.
    """
    t.refresh()
    found = list(ids)
    frame = pa.table(
        {
            "id": found,
            "p": pa.array([PARTS[i % 3] for i in found]),
            "n": pa.array([i % 7 for i in found], pa.int32()),
        }
    )
    context = WriteContext.of(t.metadata, t._loaded.storage)
    files = write_equality_deletes(conform(frame, t.schema()), context, [1])
    commit(t._writable(), t._loaded, [RowDelta(added_deletes=files)])
    t.refresh()


def by_position(t: Table, ids: Iterable[int], granularity: str = "file") -> None:
    """Position deletes, or vectors in a table of version 3, of the rows with these ids."""
    gone = set(ids)
    take_positions(t, lambda r: r["id"] in gone, granularity)


def rows(t: Table, *more: str) -> list[tuple[Any, ...]]:
    found = t.refresh().scan(selected_fields=("*", *more)).to_arrow().to_pylist()
    return sorted((tuple(r.values()) for r in found), key=repr)


def ids(t: Table) -> list[int]:
    return sorted(r[0] for r in rows(t))


def delete_files(t: Table) -> dict[str, int]:
    """How many live delete files there are of each kind, by the snapshot's manifests."""
    kinds = {1: "position", 2: "equality"}
    found = t.refresh().inspect.delete_files().to_pylist()
    return dict(
        Counter(
            "vector" if f["file_format"].lower() == "puffin" else kinds[f["content"]] for f in found
        )
    )


def applied(t: Table) -> int:
    """How many pairs of data file and delete file there are."""
    return sum(len(task.delete_files) for task in t.refresh().scan().plan_files())


def while_committing(t: Table, *others: Callable[[Table], object]) -> FlakyBackend:
    """Let others commit right before the table's own swaps: the first before the first swap, and so
    on.
    """
    inner = t._backend

    def before(turn: int) -> None:
        if turn <= len(others):
            other = frazil.load_table(t.location())
            others[turn - 1](other)

    flaky = FlakyBackend(inner, before_swap=before)  # type: ignore[arg-type]
    t._backend = flaky  # type: ignore[assignment]
    return flaky


def sum_of(t: Table) -> dict[str, Any]:
    """The checksum that Java's and PyIceberg's reads are compared with."""
    metadata = json.loads(encode_metadata(t.refresh().metadata))
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    return rowsum(t.scan().to_arrow(), schema)
