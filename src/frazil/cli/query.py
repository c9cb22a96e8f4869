"""Run a SQL query from the command line: by Spark, or without it by DuckDB or DataFusion over
Frazil's scans.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
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

_BY_SPARK = "--engine spark runs it, where PySpark is installed."
_ENGINES = {"spark": "pyspark", "duckdb": "duckdb", "datafusion": "datafusion"}


def sql(query: str, engine: str, limit: int) -> None:
    """Run a query and print its first rows. Raises NotInstalledError where no engine is there."""
    present = [e for e, m in _ENGINES.items() if importlib.util.find_spec(m) is not None]
    chosen = (present or [""])[0] if engine == "auto" else engine
    if chosen not in present:
        raise NotInstalledError(
            f"frazil sql needs {chosen or 'Spark, DuckDB or DataFusion'}.",
            hint=f"pip install 'frazil[{chosen or 'duckdb'}]'",
        )
    if engine == "auto" and chosen == "spark" and "duckdb" in present and means_the_same(query):
        chosen = "duckdb"
    run = {"spark": _by_spark, "duckdb": _by_duckdb, "datafusion": _by_datafusion}
    show_arrow(run[chosen](query, limit), "no rows")


_SAME = {
    "SELECT_NODE", "ORDER_MODIFIER", "LIMIT_MODIFIER", "DISTINCT_MODIFIER", "BASE_TABLE", "JOIN",
    "COLUMN_REF", "VALUE_CONSTANT", "STAR", "FUNCTION", "CONJUNCTION_AND", "CONJUNCTION_OR", "COMPARE_EQUAL", "COMPARE_NOTEQUAL",
    "COMPARE_LESSTHAN", "COMPARE_GREATERTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_BETWEEN",
    "COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "ASCENDING", "DESCENDING",
    "ORDER_DEFAULT", "EMPTY",
}  # fmt: skip
_SAME_FUNCTIONS = {"count_star", "count", "sum", "min", "max", "~~", "!~~"}
"""What a query may hold that DuckDB and Spark answer alike; `~~` is LIKE."""


_ALIKE: tuple[set[str], ...] = (
    {"whole", "double"}, {"double", "fraction"}, {"string", "day"}, {"date", "day"}, {"timestamp", "day"},
)  # fmt: skip
"""Kinds of operands that both compare alike."""


def means_the_same(query: str) -> bool:
    """Tell whether DuckDB answers a query as Spark does: it parses there, names tables of Frazil's
    that DuckDB can be handed, and has only nodes and functions of `_SAME`. Backslashes, double
    quotes and comments mean other things in the two dialects.
    """
    import duckdb

    if re.search(r'[\\"`]|/\*|--', query):
        return False
    try:
        with duckdb.connect() as connection:
            text = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
            names = connection.get_table_names(query, qualified=True)
        parts = [_unquoted(name) for name in names]
        tree = json.loads(text[0]) if text else {"error": True}
        if tree.get("error") or not parts or not all(2 <= len(p) <= 3 for p in parts):
            return False
        kinds: dict[str, set[str]] = {}
        for table in map(load_table, parts):
            if not isinstance(table, Table):
                return False
            for column in table.schema().fields:
                kinds.setdefault(column.name.lower(), set()).add(_kind(str(column.field_type)))
        return _is_same(tree, kinds)
    except (duckdb.Error, FrazilError):  # Spark says what is wrong, or knows a view of the name
        return False


def _kind(type_: str) -> str:
    """Return a name that types have in common which the two compare alike."""
    return {"int": "whole", "long": "whole", "timestamptz": "timestamp"}.get(type_, type_)


def _is_same(node: Any, kinds: Mapping[str, set[str]]) -> bool:
    if isinstance(node, list):
        return all(_is_same(n, kinds) for n in node)
    if not isinstance(node, dict):
        return True
    kind = node.get("type")
    if isinstance(kind, str) and kind not in _SAME:
        return False
    name = node["function_name"] if kind == "FUNCTION" else None
    if name is not None and (name not in _SAME_FUNCTIONS or node["filter"]):
        return False
    if node.get("at_clause") or node.get("sample") or node.get("qualify"):
        return False
    if str(kind).startswith("COMPARE_") or name in ("~~", "!~~"):
        compared = set().union(*(_kinds_of(n, kinds) for n in _operands(node)))
        alike = [{"string", "day"}] if name else _ALIKE
        if not any(compared <= kinds_alike for kinds_alike in alike):
            return False
    if kind == "JOIN" and (node["ref_type"] not in ("REGULAR", "CROSS") or node["using_columns"]):
        return False
    return all(_is_same(n, kinds) for n in node.values())


def _operands(node: Mapping[str, Any]) -> list[Any]:
    values = [node.get(k) for k in ("left", "right", "input", "lower", "upper")]
    values += [*node.get("children", ()), *(a["expression"] for a in node.get("arguments", ()))]
    return [v for v in values if v is not None]


_DAY = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?")


def _kinds_of(node: Mapping[str, Any], kinds: Mapping[str, set[str]]) -> set[str]:
    """Return what kinds an operand may have: `day` is a text that is a date; "" is unknown."""
    match node:
        case {"type": "COLUMN_REF", "column_names": [*_, name]}:
            return kinds.get(name.lower(), {""})
        case {"type": "VALUE_CONSTANT", "literal": {"kind": "INTEGER"}}:
            return {"whole"}
        case {"type": "VALUE_CONSTANT", "literal": {"kind": "NUMERIC"}}:
            return {"fraction"}
        case {"type": "VALUE_CONSTANT", "literal": {"kind": "STRING", "text": text}}:
            return {"day" if _DAY.fullmatch(text) else "string"}
        case {"type": "FUNCTION", "function_name": "count" | "count_star"}:
            return {"whole"}
    return {""}


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
        shown = frame.limit(limit) if limit else frame
        plans = importlib.import_module("frazil.spark.host.jvm_plans")
        rows: pa.Table = plans.taking_nulls(shown).toArrow()
        return rows.rename_columns(frame.columns)
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
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as in Spark
    try:
        kinds = [statement.type.name for statement in connection.extract_statements(query)]
        if changes := [k for k in kinds if k not in ("SELECT", "EXPLAIN")]:
            raise InvalidInput(
                f"DuckDB answers queries only here, and cannot run {changes[0].replace('_', ' ')}.",
                hint=_BY_SPARK,
            )
        names = connection.get_table_names(query, qualified=True)
    except duckdb.Error as e:
        hint = 'Words of SQL are quoted as names in "default".db.t. With PySpark installed, --engine spark takes Spark SQL.'
        raise InvalidInput(f"DuckDB cannot parse the query: {e}", hint=hint) from e
    for number, parts in enumerate(sorted(set(map(_unquoted, names)))):
        _define(connection, parts, f"__frazil_{number}")
    try:
        relation = connection.sql(query)
        rows = (relation.limit(limit) if limit else relation).to_arrow_table()
        for place, kind in enumerate(relation.types):
            if str(kind) == "HUGEINT":  # a sum of whole numbers, which Spark shows as one
                with contextlib.suppress(pa.ArrowInvalid):
                    rows = rows.set_column(
                        place, rows.column_names[place], rows.column(place).cast(pa.int64())
                    )
        return rows
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
                if "not supported" in str(e):  # DDL, DML, statements
                    hint = f"DataFusion answers queries only here. {_BY_SPARK}"
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
