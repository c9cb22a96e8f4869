"""Row-level changes made by hand: files written, found again, and committed by the actions, for
tests that need no verbs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import frazil
from frazil.arrow.deletes.write_deletes import (
    FileDeletes,
    write_equality_deletes,
    write_position_deletes,
    write_vectors,
)
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import WriteContext, write
from frazil.catalog import CatalogBackend, LoadedTable
from frazil.scan.plan import plan
from frazil.spec.manifest import DataFile

Rows = Sequence[tuple[int, str]]


def frame(rows: Rows) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([i for i, _ in rows], pa.int64()),
            "p": pa.array([p for _, p in rows], pa.string()),
        }
    )


def context_of(base: LoadedTable, **options: Any) -> WriteContext:
    return WriteContext.of(base.metadata, base.storage, write_options(options))


def data_files(base: LoadedTable, rows: Rows, **options: Any) -> list[DataFile]:
    """New rows, written."""
    return write(conform(frame(rows), base.metadata.schema()), context_of(base, **options))


def rows_by_file(base: LoadedTable) -> list[tuple[DataFile, list[int], tuple[DataFile, ...]]]:
    """Live files in the order of their least id, the ids in them by position (deleted ones too),
    and the deletes that apply.
    """
    found = []
    for task in plan(
        base.metadata,
        base.storage,
        snapshot=base.metadata.current_snapshot(),
        schema=base.metadata.schema(),
    ).tasks():
        ids = pa.parquet.read_table(task.file.file_path.removeprefix("file://"))["id"].to_pylist()
        found.append((task.file, ids, task.delete_files))
    return sorted(found, key=lambda f: f[1])


def deletes_of(
    base: LoadedTable, ids: Iterable[int], granularity: str = "file", **options: Any
) -> tuple[list[DataFile], list[DataFile], set[str]]:
    """Delete files (v2) or vectors (v3) for the rows with these ids: (new ones, those they replace,
    paths of the data files).
    """
    wanted = set(ids)
    deletes, replaced = [], []
    for file, here, old in rows_by_file(base):
        positions = {n for n, i in enumerate(here) if i in wanted}
        if not positions:
            continue
        if base.metadata.format_version >= 3:
            for d in old:
                if d.content == 1:
                    positions |= set(_positions(base, file, d))
                    replaced += [d] if d.is_dv else []
        deletes.append(FileDeletes(file, np.array(sorted(positions), np.int64)))
    context = context_of(base, **options)
    if base.metadata.format_version >= 3:
        made = write_vectors(deletes, context)
    else:
        made = write_position_deletes(deletes, context, granularity=granularity)
    return made, replaced, {d.file.file_path for d in deletes}


def _positions(base: LoadedTable, file: DataFile, delete: DataFile) -> list[int]:
    from frazil.arrow.deletes.delete_files import DeleteCache, positions_of

    return positions_of(file, [delete], base.storage, DeleteCache(1 << 20)).tolist()


def key_deletes(
    base: LoadedTable, rows: Rows, field_ids: Sequence[int] = (1,), **options: Any
) -> list[DataFile]:
    return write_equality_deletes(
        conform(frame(rows), base.metadata.schema()), context_of(base, **options), field_ids
    )


def visible(backend: CatalogBackend, location: str) -> list[tuple[int, str]]:
    """Rows that a reader sees, sorted."""
    found = frazil.load_table(location).scan().to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["p"].to_pylist(), strict=True))
