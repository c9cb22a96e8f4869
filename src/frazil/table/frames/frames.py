"""Convert an Arrow table to pandas, polars or DuckDB. The other library is imported only when it is
needed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from frazil.errors import NotInstalledError
from frazil.expr.sql_text import double_quoted

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


def polars_module() -> Any:
    """Import polars. Raises NotInstalledError."""
    try:
        import polars
    except ModuleNotFoundError as e:
        raise NotInstalledError(
            "to_polars needs polars.", hint="pip install 'frazil[polars]'"
        ) from e
    return polars


def polars_of(table: pa.Table) -> pl.DataFrame:
    """Convert an Arrow table to a polars DataFrame. Raises NotInstalledError."""
    return polars_module().from_arrow(table)


def polars_makes_a_frame() -> bool:
    """Tell whether it is polars that asks for an Arrow stream, to make a DataFrame of all rows.
    Where polars comes to do so in another module, it gets Arrow's stream, with the same rows."""
    frame = sys._getframe()
    while _module(frame).startswith("frazil.") and frame.f_back is not None:
        frame = frame.f_back
    return _module(frame) == "polars._utils.pycapsule"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def in_duckdb(
    rows: pa.Table | ds.Dataset,
    name: str,
    connection: DuckDBPyConnection | None = None,
    files: Sequence[str] | None = None,
) -> DuckDBPyConnection:
    """Register an Arrow table or dataset by a name in a DuckDB connection (None: a new one, in
    memory), and return the connection. `files`: Parquet files that hold its rows as they are, which
    DuckDB reads itself where it may. Raises NotInstalledError."""
    try:
        import duckdb
    except ModuleNotFoundError as e:
        raise NotInstalledError(
            "to_duckdb needs duckdb.", hint="pip install 'frazil[duckdb]'"
        ) from e
    connection = connection or duckdb.connect(database=":memory:")
    if files is not None and _reads_files(connection):
        paths = ", ".join("'{}'".format(path.replace("'", "''")) for path in files)
        columns = ", ".join(map(double_quoted, rows.schema.names))
        # the statistics of Parquet know no NaN, which DuckDB orders above all numbers
        options = "hive_partitioning = false, can_have_nan = true"
        rows = connection.sql(f"SELECT {columns} FROM read_parquet([{paths}], {options})")
    connection.register(name, rows)
    return connection


def _reads_files(connection: DuckDBPyConnection) -> bool:
    """Tell whether a connection may read files. It is asked, since an error would end its
    transaction.
    """
    allowed = connection.sql("SELECT current_setting('enable_external_access')").fetchall()
    return bool(allowed[0][0])
