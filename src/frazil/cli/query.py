"""Run a SQL query from the command line: by Spark, or without it by DuckDB or DataFusion over
Frazil's scans.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.catalog.names import full_name, identifier_parts
from frazil.cli.output import show_arrow
from frazil.errors import InvalidInput, NotInstalledError
from frazil.expr.sql_text import back_quoted, double_quoted
from frazil.table.load import load_table
from frazil.table.metadata_table import MetadataTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ENGINES = {"spark": "pyspark", "duckdb": "duckdb", "datafusion": "datafusion"}


def sql(query: str, engine: str, limit: int) -> None:
    """Run a query and print its first rows. Raises NotInstalledError where no engine is there."""
    chosen = (
        engine
        if engine != "auto"
        else next((e for e, m in _ENGINES.items() if importlib.util.find_spec(m) is not None), None)
    )
    if chosen is None or importlib.util.find_spec(_ENGINES[chosen]) is None:
        wanted = "spark" if chosen is None else chosen
        raise NotInstalledError(
            f"frazil sql needs {'Spark, DuckDB or DataFusion' if chosen is None else chosen}.",
            hint=f"pip install 'frazil[{'duckdb' if chosen is None else wanted}]'",
        )
    rows = {"spark": _by_spark, "duckdb": _by_duckdb, "datafusion": _by_datafusion}[chosen](
        query, limit
    )
    show_arrow(rows, "no rows")


def _by_spark(query: str, limit: int) -> pa.Table:
    spark = importlib.import_module("frazil").spark_session(
        app_name="frazil sql",
        config={"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
    )
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.sql(query)
    if not frame.columns:
        return pa.table({})
    return (frame.limit(limit) if limit else frame).toArrow()


def _by_duckdb(query: str, limit: int) -> pa.Table:
    """Run the query by DuckDB, in its dialect, over the tables that it names; each is read when the
    query runs, only the needed columns.
    """
    import duckdb

    connection = duckdb.connect()
    try:
        names = connection.get_table_names(query, qualified=True)
    except duckdb.Error as e:
        hint = 'Words of SQL are quoted as names in "default".db.t. With PySpark installed, --engine spark takes Spark SQL.'
        raise InvalidInput(f"DuckDB cannot parse the query: {e}", hint=hint) from e
    for number, parts in enumerate(sorted(set(map(_unquoted, names)))):
        _define(connection, parts, f"__frazil_{number}")
    try:
        return (
            connection.sql(query).limit(limit).to_arrow_table()
            if limit
            else connection.sql(query).to_arrow_table()
        )
    except duckdb.Error as e:
        raise InvalidInput(f"DuckDB cannot run the query: {e}") from e


_ALIAS = re.compile(r'\s+AS\s+(?:\w+|"(?:[^"]|"")*").*$', re.DOTALL)


def _unquoted(name: str) -> tuple[str, ...]:
    """Return the parts of a name as DuckDB writes it: in double quotes where needed, with its alias
    from DuckDB 2.0 on.
    """
    name = _ALIAS.sub("", name)
    return identifier_parts(
        re.sub(r'"((?:[^"]|"")*)"', lambda m: back_quoted((m[1].replace('""', '"'),)), name)
    )


def _define(connection: DuckDBPyConnection, parts: Sequence[str], name: str) -> None:
    """Make a view of DuckDB by the name of a table, whose first parts become a database and a
    schema of DuckDB's.
    """
    if not 2 <= len(parts) <= 3:
        raise InvalidInput(
            f"DuckDB takes names of two or three parts, not {full_name(parts)}.",
            hint="Name a table as namespace.table or catalog.namespace.table; frazil inspect prints metadata tables.",
        )
    table = load_table(tuple(parts))
    if isinstance(table, MetadataTable):
        connection.register(name, table.to_arrow())
    else:
        table.to_duckdb(name, connection) if hasattr(table, "to_duckdb") else connection.register(
            name, table.to_arrow()
        )
    quoted = [double_quoted(p) for p in parts]
    if len(parts) == 3:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quoted[0]}")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(quoted[:-1])}")
    connection.execute(f"CREATE VIEW {'.'.join(quoted)} AS SELECT * FROM temp.main.{name}")


def _by_datafusion(query: str, limit: int) -> pa.Table:
    """Run the query by DataFusion, in its dialect. Its names have up to three parts as well."""
    import datafusion

    context = datafusion.SessionContext()
    names = sorted(
        set(
            re.findall(
                r'(?:from|join)\s+((?:\w+|"[^"]+")(?:\.(?:\w+|"[^"]+"))+)', query, re.IGNORECASE
            )
        )
    )
    for number, name in enumerate(names):
        table = load_table(_unquoted(name))
        context.register_table(f"frazil_{number}", table) if not isinstance(
            table, MetadataTable
        ) else context.from_arrow(table.to_arrow(), f"frazil_{number}")
        query = re.sub(rf"{re.escape(name)}(?![\w.])", f"frazil_{number}", query)
    frame = context.sql(query)
    return (frame.limit(limit) if limit else frame).to_arrow_table()
