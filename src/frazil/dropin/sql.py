"""Route `spark.sql` of a prepared session: Spark runs the statement, asks Frazil's catalogs for
their tables, and hands over the statements that it cannot parse or plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from frazil.dropin.catalogs import forget_plans, register
from frazil.dropin.default_catalog import serve_default
from frazil.dropin.names import SessionNames, names_one_of
from frazil.dropin.sources import read_of
from frazil.dropin.spark_errors import known_to_spark
from frazil.errors import InvalidInput, Unsupported
from frazil.maintain.wording import in_sql
from frazil.ops.session import Session, SqlArguments
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, jvm_of, settings_held
from frazil.spark.host.jvm_catalog import SESSION_CATALOG
from frazil.spark.host.jvm_parser import (
    NewSessionParsers,
    parse_by,
    parse_new_sessions_by,
    take_changes,
    take_changes_of_new_sessions,
)
from frazil.spark.host.jvm_relations import HAS_VIEWS
from frazil.spark.host.quiet import quietly
from frazil.sql import view_statements
from frazil.sql.connect import ConnectStatements
from frazil.sql.statements import SessionStatements
from frazil.table.engines import active_session

_STATEMENTS: weakref.WeakKeyDictionary[Any, SessionStatements | None] = weakref.WeakKeyDictionary()
"""By session, what `spark.sql` has to ask; None where the session's parser asks it."""
_CONTEXTS: weakref.WeakSet[Any] = weakref.WeakSet()
MARK = "spark.frazil.installed"
"""The setting of a prepared session."""


@known_to_spark(in_sql)
def run(
    spark_sql: Callable[..., Any],
    spark: Session,
    sqlQuery: str,
    args: SqlArguments = None,
    **named: object,
) -> Any:
    """Run a statement, after the session's catalogs were looked over: settings may have changed,
    and the session of a streaming query's batch is a copy. On Spark Connect, whose server does not
    know Frazil's catalogs, statements about their tables are run from here."""
    if jvm_of(spark) is None:
        return _on_connect(spark_sql, spark, sqlQuery, args, named)
    with settings_held():
        register(spark)
        statements = take_statements(spark)
        serve_default(spark, sqlQuery)
    with quietly():
        if statements is not None and statements.run_text(sqlQuery):
            return spark.range(0).select()
        if (answer := _of_view(spark, sqlQuery, args, named)) is not None:
            return answer
        try:
            return spark_sql(sqlQuery, args, **named)
        finally:
            forget_plans(spark)


def _on_connect(
    spark_sql: Callable[..., Any],
    spark: Session,
    text: str,
    args: SqlArguments,
    named: Mapping[str, Any],
) -> Any:
    if not named and names_one_of(spark, text):
        answer = ConnectStatements(spark, SessionNames(spark)).run(text, args)
        if answer is not None:
            return answer
    return spark_sql(text, args, **named)


def _of_view(spark: Session, text: str, args: SqlArguments, named: Mapping[str, Any]) -> Any:
    """Run a statement about a view of Frazil's where Spark asks no catalog for views (4.1); None:
    it is none. The views of `spark_catalog` are Spark's own.
    """
    if HAS_VIEWS or args or named:
        return None
    catalogs = {n: served for n, served in register(spark).items() if n != SESSION_CATALOG}
    return view_statements.run(spark, text, catalogs)


def sql(
    sqlQuery: str, spark: Session | None = None, args: SqlArguments = None, **named: object
) -> Any:
    """Run Spark SQL over Frazil's catalogs and return the DataFrame, as `spark.sql` does in a
    session that `frazil.install` has prepared.

    `spark`: the session (None: the running one), which comes to know Frazil's catalogs by that;
    nothing else of it changes. `args` and keyword arguments: as those of `spark.sql`. Raises
    InvalidInput without a session.
    """
    session: Any = active_session() if spark is None else spark
    if session is None:
        raise InvalidInput(
            "frazil.sql needs a running SparkSession.", hint="frazil.spark_session() starts one."
        )
    register(session)
    take_statements(session)
    return run(session.sql, session, sqlQuery, args, **named)


class _Statements(SessionStatements):
    """Give errors of statements the conditions that Spark has, for callers in the JVM as well."""

    @known_to_spark()
    def run(self, statement: Any) -> None:
        """Run a statement."""
        super().run(statement)


def take_statements(spark: Session) -> SessionStatements | None:
    """Let a classic session hand over the statements that Spark cannot parse or plan, wherever they
    come from. Where Spark's inside has changed, a warning says so once, and the statements are
    returned: then `spark.sql` has to ask them."""
    if jvm_of(spark) is None:
        return None
    parsers = NewSessionParsers(spark, _is_prepared, _prepare, _before, read_of)
    _take_new_sessions(spark, parsers)
    if spark not in _STATEMENTS:
        statements = _Statements(spark, SessionNames(spark))
        _STATEMENTS[spark] = None
        try:
            parse_by(spark, statements)
        except (*NOT_AS_KNOWN, Py4JJavaError) as error:
            loss = "DELETE, UPDATE, MERGE and Iceberg's extension statements are taken from spark.sql without parameters only."
            fall_back("The parser of a session", error, loss)
            _STATEMENTS[spark] = statements
        _take(partial(take_changes, spark, parsers, statements))
    return _STATEMENTS[spark]


def _take_new_sessions(spark: Session, parsers: NewSessionParsers) -> None:
    """Let the sessions that the JVM makes of a prepared one (a Thrift server's, of which Python
    does not hear) know the catalogs, too, by the settings that they have. Once per SparkContext."""
    context = spark.sparkContext
    if context in _CONTEXTS:
        return
    _CONTEXTS.add(context)
    try:
        parse_new_sessions_by(spark, parsers)
    except (*NOT_AS_KNOWN, Py4JJavaError) as error:
        loss = "Sessions of a Thrift server do not know Frazil's catalogs."
        fall_back("The parser of new sessions", error, loss)
    _take(partial(take_changes_of_new_sessions, spark, parsers))


def _take(changes: Callable[[], None]) -> None:
    """Let sessions show changes of rows, where their analyser is as it is known to be."""
    try:
        changes()
    except Unsupported:  # the class did not compile, as was said then
        pass
    except (*NOT_AS_KNOWN, Py4JJavaError) as error:
        fall_back("The analyser of a session", error, "mergeInto outside Python is closed.")


def _is_prepared(java_session: JavaObject) -> bool:
    return str(java_session.conf().get(MARK, "false")) == "true"


def _prepare(spark: Session) -> SessionStatements:
    return SessionStatements(spark, SessionNames(spark))


def _before(spark: Session, text: str) -> None:
    """Look a session's catalogs over before a statement, as `run` does."""
    register(spark)
    serve_default(spark, text)
