"""Streams of batches for tests, without Spark: a sink over a table, and what it has made of the
rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import frazil
from frazil.spec.manifest import DataFileContent
from frazil.stream.sink.batch import StreamSink, checked_options
from frazil.stream.sink.rows import ArrowRows
from frazil.table.table import Table

QUERY = "0b6a4a53-7c55-4bb8-9d43-2b1f2b6a1d11"
SCHEMA = "id bigint, p string, v bigint"


def make_table(place: Path, schema: str = SCHEMA, **more: Any) -> Table:
    catalog = frazil.load_catalog("test", type="path", warehouse=str(place))
    if not catalog.namespace_exists("db"):
        catalog.create_namespace("db")
    return catalog.create_table("db.t", schema, **more)


def sink_of(table: Table, query: str = QUERY, backend: Any = None, **options: Any) -> StreamSink:
    """A new run of a query, as after a restart."""
    own = {k: options.pop(k) for k in ("hooks", "on_commit", "snapshot_properties") if k in options}
    table.refresh()
    return StreamSink(
        backend or table._backend,
        table._loaded,
        "db.t",
        query,
        checked_options(options, table._loaded),
        **own,
    )


def rows_of(*rows: tuple[Any, ...], names: tuple[str, ...] = ("id", "p", "v")) -> ArrowRows:
    types = {"id": pa.int64(), "v": pa.int64(), "seq": pa.int64()}
    return ArrowRows(
        pa.table(
            {
                n: pa.array([r[i] for r in rows], types.get(n, pa.string()))
                for i, n in enumerate(names)
            }
        )
    )


def held(table: Table, branch: str = "main") -> list[tuple[Any, ...]]:
    found = table.refresh().scan(branch=branch).to_arrow().to_pylist()
    return sorted(
        (tuple(r.values()) for r in found), key=lambda r: tuple((v is not None, v) for v in r)
    )


def data_files(table: Table) -> set[str]:
    return {str(f) for f in (Path(table.location()) / "data").rglob("*") if f.is_file()}


def known_files(table: Table) -> set[str]:
    """The files that any snapshot of the table refers to."""
    return {
        r["file_path"].removeprefix("file://")
        for r in table.refresh().inspect.all_files().to_pylist()
    }


def contents(table: Table) -> list[DataFileContent]:
    return [DataFileContent(r["content"]) for r in table.refresh().inspect.files().to_pylist()]
