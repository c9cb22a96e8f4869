"""Run a SQL query from the command line: by Spark, or without it by DuckDB or DataFusion over
Frazil's scans.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.catalog.names import full_name, identifier_parts
from frazil.cli.output import show_arrow
from frazil.errors import FrazilError, InvalidInput, NotInstalledError
from frazil.expr.sql_text import back_quoted, double_quoted
from frazil.table.load import load_table
from frazil.table.metadata_table import MetadataTable
from frazil.table.table import Table

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
    try:
        frame = spark.sql(query)
        if not frame.columns:
            return pa.table({})
        return (frame.limit(limit) if limit else frame).toArrow()
    except FrazilError:  # in a prepared session one of Spark's as well
        raise
    except importlib.import_module("pyspark.errors").PySparkException as e:
        message, _, _ = str(e).strip().partition(";\n")  # behind it is the plan
        raise InvalidInput(f"Spark cannot run the query: {message}") from e


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
    """Run the query by DataFusion, in its dialect. It cannot wait for a table to be opened while it
    plans, so a query is planned again with the tables that it has asked for.
    """
    import datafusion

    names = _TablesByName()
    unnamed = datafusion.SessionConfig().with_default_catalog_and_schema("", "")
    context = datafusion.SessionContext(unnamed)
    context.register_catalog_provider_list(names)
    queries_only = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False)
    while True:
        try:
            frame = context.sql_with_options(query, queries_only)
            return (frame.limit(limit) if limit else frame).to_arrow_table()
        except Exception as e:  # of several kinds, ValueError among them
            if not names.asked:
                hint = "Names with capital letters and words of SQL are put in double quotes."
                raise InvalidInput(f"DataFusion cannot run the query: {e}", hint=hint) from e
        names.open()


@dataclass(frozen=True)
class _TablesByName:
    """Give DataFusion the tables of its catalogs and schemas, which `parts` name: those that are
    open. The names of others are kept in `asked`. What a query leaves out of a name is empty."""

    parts: tuple[str, ...] = ()
    tables: dict[tuple[str, ...], Any] = field(default_factory=dict)
    asked: set[tuple[str, ...]] = field(default_factory=set)

    def open(self) -> None:
        """Open the tables that were asked for. Raises NoSuchTableError."""
        import datafusion

        for name in tuple(self.asked):
            table = load_table(name)
            rows = (
                table
                if isinstance(table, Table)
                else datafusion.SessionContext().from_arrow(table.to_arrow())
            )
            self.tables[name] = datafusion.catalog.Table(rows)
            self.asked.remove(name)

    def catalog_names(self) -> set[str]:
        return set()

    schema_names = table_names = catalog_names

    def catalog(self, name: str) -> _TablesByName:
        return replace(self, parts=(*self.parts, name) if name else self.parts)

    schema = catalog

    def table(self, name: str) -> Any:
        table = self.tables.get((*self.parts, name))
        if table is None:
            self.asked.add((*self.parts, name))
        return table

    def table_exist(self, name: str) -> bool:
        return True
