"""Arrow tables of few rows, and the rows of a table, for tests that ask which rows are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.spec.ddl import parse_schema

IdPV = tuple[int, str, int]
ID_P_V = "id bigint, p string, v bigint"


def frame_of(rows: Iterable[tuple[Any, ...]], ddl: str = ID_P_V) -> pa.Table:
    """Rows as tuples in the order of the columns."""
    schema = to_arrow_schema(parse_schema(ddl))
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )


def rows_in(t: Any, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table as sorted tuples."""
    found = t.scan(selected_fields=columns).to_arrow()
    return sorted(zip(*(found[c].to_pylist() for c in columns), strict=True))


def ids(found: Any, **asked: Any) -> list[int]:
    """The column `id` of a table (`asked` goes to its `scan`) or of a scan, sorted."""
    scan = found.scan(**asked) if hasattr(found, "scan") else found
    return sorted(scan.to_arrow()["id"].to_pylist())


def ids_of(catalog: Any, name: str) -> list[int]:
    """The column `id` of the newest state of a catalog's table, sorted."""
    return ids(catalog.load_table(name))


def id_p_v(t: Any) -> list[IdPV]:
    return rows_in(t, "id", "p", "v")  # type: ignore[return-value]
