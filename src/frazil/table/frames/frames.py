"""Convert an Arrow table to pandas, polars or DuckDB. The other library is imported only when it is
needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.errors import NotInstalledError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    from duckdb import DuckDBPyConnection


def pandas_of(table: pa.Table, **kwargs: object) -> pd.DataFrame:
    """Convert an Arrow table to a pandas DataFrame. Raises NotInstalledError."""
    try:
        return table.to_pandas(**kwargs)
    except ModuleNotFoundError as e:
        if e.name != "pandas":
            raise
        raise NotInstalledError(
            "to_pandas needs pandas.", hint="pip install 'frazil[pandas]', or use to_arrow()."
        ) from e


def polars_of(table: pa.Table) -> pl.DataFrame:
    """Convert an Arrow table to a polars DataFrame. Raises NotInstalledError."""
    try:
        import polars
    except ModuleNotFoundError as e:
        raise NotInstalledError(
            "to_polars needs polars.", hint="pip install 'frazil[polars]'"
        ) from e
    return polars.from_arrow(table)


def in_duckdb(
    rows: pa.Table | ds.Dataset,
    name: str,
    connection: DuckDBPyConnection | None = None,
    files: Sequence[str] | None = None,
) -> DuckDBPyConnection:
    """Register an Arrow table or dataset by a name in a DuckDB connection (None: a new one, in memory), and return
    the connection. `files`: Parquet files that hold its rows as they are, which DuckDB reads itself
    where it may. Raises NotInstalledError."""
    try:
        import duckdb
    except ModuleNotFoundError as e:
        raise NotInstalledError(
            "to_duckdb needs duckdb.", hint="pip install 'frazil[duckdb]'"
        ) from e
    connection = connection or duckdb.connect(database=":memory:")
    connection.register(name, rows)
    if files is not None:
        paths = ", ".join("'{}'".format(path.replace("'", "''")) for path in files)
        columns = ", ".join(map(_quoted, rows.schema.names))
        with contextlib.suppress(duckdb.Error):  # the connection may forbid files
            connection.execute(
                f"CREATE OR REPLACE TEMPORARY VIEW {_quoted(name)} AS SELECT {columns} "
                f"FROM read_parquet([{paths}], hive_partitioning = false)"
            )
    return connection


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
