"""Deletes made by hand in a table of a test: positions or vectors, and keys, each a commit of its
own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from frazil.arrow.deletes.write_deletes import FileDeletes, write_position_deletes, write_vectors
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import WriteContext
from frazil.commit.actions import RowDelta
from frazil.commit.table_commit import commit
from frazil.spec.manifest import DataFile
from frazil.spec.schema import Schema

_numbers = itertools.count()


def take_positions(
    t: Any, gone: Callable[[dict[str, Any]], bool], granularity: str = "file"
) -> None:
    """Deletes the rows for which `gone` is true; v2 by position delete files, v3 by vectors."""
    t.refresh()
    found: dict[str, list[int]] = {}
    for r in t.scan(selected_fields=("*", "_file", "_pos")).to_arrow().to_pylist():
        if gone(r):
            found.setdefault(r["_file"], []).append(r["_pos"])
    context = WriteContext.of(t._loaded.metadata, t._loaded.storage, write_options({}))
    deletes, replaced = [], []
    for task in t.scan().plan_files():
        if positions := found.get(task.file.file_path):
            if t.format_version >= 3 and (old := [d for d in task.delete_files if d.is_dv]):
                shown = t.scan(selected_fields=("_file", "_pos", "_deleted")).to_arrow().to_pylist()
                positions += [
                    r["_pos"] for r in shown if r["_deleted"] and r["_file"] == task.file.file_path
                ]
                replaced += old
            deletes.append(FileDeletes(task.file, np.unique(np.array(positions, np.int64))))
    if deletes:
        made = (
            write_vectors(deletes, context)
            if t.format_version >= 3
            else write_position_deletes(deletes, context, granularity=granularity)
        )
        commit(
            t._writable(),
            t._loaded,
            [
                RowDelta(
                    added_deletes=made,
                    removed_deletes=replaced,
                    starting_snapshot_id=t.current_snapshot().snapshot_id,
                )
            ],
        )
    t.refresh()


def take_keys(
    t: Any,
    columns: Sequence[str],
    keys: Sequence[dict[str, Any]],
    *,
    kind: str = "parquet",
    spec_id: int | None = None,
    partition: tuple[Any, ...] = (),
    name: str | None = None,
) -> None:
    """Commits an equality delete file with these keys (by the names that the columns have now).
    Floats are taken, too.
    """
    t.refresh()
    own = t.schema()
    schema = Schema(*(own.get_field(c) for c in columns))
    arrow = to_arrow_schema(schema, field_ids=True)
    arrow = pa.schema([f.with_nullable(True) for f in arrow])
    table = pa.Table.from_pylist([{c: k.get(c) for c in columns} for k in keys], schema=arrow)
    path = Path(f"{t.location()}/data/{name or f'eq-{next(_numbers)}'}.{kind}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "orc":
        fields = [f.with_metadata({"iceberg.id": f.metadata[b"PARQUET:field_id"]}) for f in arrow]
        po.write_table(table.cast(pa.schema(fields)), str(path))
    else:
        pq.write_table(table, path)
    file = DataFile(
        content=2,
        file_path=str(path),
        file_format=kind,
        record_count=len(keys),
        file_size_in_bytes=path.stat().st_size,
        equality_ids=tuple(f.field_id for f in schema.fields),
        spec_id=t.spec().spec_id if spec_id is None else spec_id,
        partition=partition,
    )
    commit(t._writable(), t._loaded, [RowDelta(added_deletes=[file])])
    t.refresh()
