"""Convert an Arrow table to pandas, polars or DuckDB. The other library is imported only when it is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
        columns = ", ".join(map(_column, rows.schema))
        rows = connection.sql(
            f"SELECT {columns} FROM read_parquet([{paths}], hive_partitioning = false)"
        )
    connection.register(name, rows)
    return connection


def _reads_files(connection: DuckDBPyConnection) -> bool:
    """Tell whether a connection may read files. It is asked, since an error would end its
    transaction.
    """
    allowed = connection.sql("SELECT current_setting('enable_external_access')").fetchall()
    return bool(allowed[0][0])


def _column(field: pa.Field) -> str:
    """Return a column of a query over Parquet files. DuckDB skips row groups by their statistics,
    in which there is no NaN, which it orders above all numbers: so it gets no column of floating
    point as it is. (It sees through a product by one.)
    """
    name = double_quoted(field.name)
    kind = {"float": "FLOAT", "double": "DOUBLE"}.get(str(field.type))
    return name if kind is None else f"if(isnan({name}), 'nan'::{kind}, {name}) AS {name}"
