"""Take part in Spark's parser, from Python: a session parses by an object of this process, which
asks Spark's own parser first.

The plan of a statement that Spark cannot run is exchanged for a CALL of a procedure of this
process, whose argument is that plan, or the statement's text. So statements of SQL scripts, of
EXECUTE IMMEDIATE, of Scala and of JDBC take the same way as those of Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from py4j.java_gateway import JavaObject

from frazil.ops.session import Session
from frazil.spark.host.interruptible import ended_with_caller
from frazil.spark.host.jvm import (
    CATALYST,
    SPARK,
    classic_jvm,
    each,
    implementing,
    is_instance,
    listen,
    scala_seq,
    session_of,
    settings_held,
    some,
)
from frazil.spark.host.jvm_classes import make
from frazil.spark.host.jvm_errors import let_errors_pass, thrown, unchecked
from frazil.spark.host.jvm_plans import kind_of
from frazil.spark.host.jvm_sources import Read, source_asked
from frazil.spark.host.quiet import quietly

_CONNECTOR = SPARK + "sql.connector.catalog."
_FUNCTION = "java.util.function.Function"
_SCRIPT, _STATEMENT, _EXPLAIN, _PREPARED = (
    "CompoundBody",
    "SingleStatement",
    "ExplainCommand",
    "frazil",
)
_STRATEGIES = ("PartitionOverwrites", "StreamWrites")
_PARTS = frozenset((
    _SCRIPT, "IfElseStatement", "WhileStatement", "RepeatStatement", "LoopStatement", "SearchedCaseStatement", "SimpleCaseStatement",
    "ForStatement", "ExceptionHandler",
))  # fmt: skip
"""The classes of a script's parts that hold other parts."""


class Statements(Protocol):
    """Decide which statements are taken from Spark."""

    def may_take(self, text: str) -> bool:
        """Tell by the beginning of a text, at once, whether its plan is of interest."""

    def holds_others(self, text: str) -> bool:
        """Tell by the beginning of a text whether its plan holds those of other statements."""

    def adapted(self, text: str, plan: JavaObject, in_script: bool = False) -> Any:
        """Return the plan of a statement with what Spark needs to know of Frazil's tables.
        `in_script`: as in `takes`.
        """

    def takes_refused(self, text: str) -> bool:
        """Tell whether a text that Spark's parser refuses is taken. Raises ParseError for one that
        is meant for it and wrong.
        """

    def readable(self, text: str) -> str | None:
        """Return a script that Spark's parser refuses in a form that it takes; None: there is none.
        Raises ParseError.
        """

    def takes(self, plan: JavaObject, in_script: bool) -> bool:
        """Tell whether a parsed statement is taken. `in_script`: it runs later, where other names
        may be current.
        """

    def run(self, statement: JavaObject | str) -> None:
        """Run a statement that was taken: a plan, or a text."""


P = ParamSpec("P")
R = TypeVar("R")


def _throwing(method: Callable[P, R]) -> Callable[P, R]:
    """Make a method that Spark calls, of an object with the attribute `spark`, throw its errors in
    the JVM.
    """

    @wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        answer, error = _attempt(lambda: method(*arguments, **named))
        if error is not None:
            raise unchecked(arguments[0].spark, error) from error  # type: ignore[attr-defined]
        return cast(R, answer)

    return call


def _attempt(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return the result of a call, or the error that it ends with, which PySpark then reports once:
    where it leaves Spark.
    """
    with quietly(), settings_held():
        try:
            return call(), None
        except Exception as error:
            return None, error


def refusal(spark: Session, error: Exception) -> Exception:
    """Return the exception that ends a call of the parser: its methods declare ParseException, and
    no other checked exception.
    """
    if type(error).__name__ == "ParseException":
        return thrown(classic_jvm(spark), error)
    return unchecked(spark, error)


class SessionParser:
    """Implement Spark's ParserInterface: parse by the parser that the session had, and exchange the
    plans of statements that are taken.
    """

    Java = implementing(CATALYST + "parser.ParserInterface")

    def __init__(self, spark: Session, own: JavaObject, statements: Statements):
        self.spark, self.own, self.statements = spark, own, statements
        self._procedure = StatementProcedure(spark, statements.run)

    def parsePlan(self, text: str) -> Any:
        return self._parsed(text, self.own.parsePlan)

    def parsePlanWithParameters(self, text: str, parameters: JavaObject) -> Any:
        return self._parsed(
            text, lambda script: self.own.parsePlanWithParameters(script, parameters)
        )

    def _parsed(self, text: str, parse: Callable[[str], Any]) -> Any:
        plan, error = _attempt(partial(parse, text))
        if error is not None and (script := self._readable(text)) is not None:
            plan, error = _attempt(partial(parse, script))
        if error is not None:
            if self._takes_refused(text):
                return self._procedure.call_of(text)
            raise refusal(self.spark, error) from error
        return self._exchanged(text, plan)

    @_throwing
    def _takes_refused(self, text: str) -> bool:
        return self.statements.takes_refused(text)

    @_throwing
    def _readable(self, text: str) -> str | None:
        return self.statements.readable(text)

    @_throwing
    def _exchanged(self, text: str, plan: JavaObject) -> Any:
        """Return the plan of a text with what Spark needs to be told of Frazil's tables, in which
        statements that are taken are exchanged for calls, those within EXPLAIN and a script too."""
        if not self.statements.holds_others(text):
            return self._statement(text, plan)
        kind = kind_of(plan)
        if kind == _SCRIPT:
            return self._script(text, plan)
        if kind != _EXPLAIN:
            return plan
        return plan.copy(self._statement(text, plan.logicalPlan(), execute=False), plan.mode())

    def _statement(
        self, text: str, plan: JavaObject, *, in_script: bool = False, execute: bool = True
    ) -> Any:
        """Return the plan of one statement of a text with what Spark needs to be told, exchanged
        for a call where it is taken."""
        taken = self.statements.may_take(text) and self.statements.takes(plan, in_script)
        plan = self.statements.adapted(text, plan, in_script)
        return self._procedure.call_of(plan, execute=execute) if taken else plan

    def _script(self, text: str, node: JavaObject) -> Any:
        """Return a part of a script in which statements are exchanged; the part itself where none
        is.
        """
        kind = kind_of(node)
        if kind == _STATEMENT:
            plan = node.parsedPlan()
            exchanged = self._statement(text, plan, in_script=True)
            return node if exchanged is plan else self._at_same_place(node, exchanged)
        if kind not in _PARTS:
            return node
        fields = [node.productElement(n) for n in range(node.productArity())]
        parts = [self._within(text, f) for f in fields]
        return (
            node if all(a is b for a, b in zip(fields, parts, strict=True)) else node.copy(*parts)
        )

    def _at_same_place(self, statement: JavaObject, plan: JavaObject) -> Any:
        """Return a statement of a script with another plan, and with its place in the script's
        text, which a node takes as it is made.
        """
        places = getattr(self.spark._jvm, CATALYST + "trees.CurrentOrigin")
        before = places.get()
        places.set(statement.origin())
        try:
            return statement.copy(plan)
        finally:
            places.set(before)

    def _within(self, text: str, field: Any) -> Any:
        """Return a field of a script's part, which may be a part, or an option or sequence of
        parts, with statements exchanged.
        """
        if not hasattr(field, "getClass"):
            return field
        if is_instance(self.spark, "scala.Option", field):
            return some(self.spark, self._within(text, field.get())) if field.isDefined() else field
        if is_instance(self.spark, "scala.collection.Seq", field):
            parts = list(each(field))
            exchanged = [self._within(text, part) for part in parts]
            return (
                field
                if all(a is b for a, b in zip(parts, exchanged, strict=True))
                else scala_seq(self.spark, exchanged)
            )
        return self._script(text, field)

    def __getattr__(self, name: str) -> Any:
        """Pass every other method on to the parser that the session had."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_Passing(self.spark, self.own), name)

    def hashCode(self) -> int:
        return 1

    def equals(self, other: object) -> bool:
        return False

    def toString(self) -> str:
        return f"frazil: {self.own.toString()}"


def parse_by(spark: Session, statements: Statements) -> SessionParser | None:
    """Make a classic session parse by a SessionParser; None where it does so already. Raises one of
    NOT_AS_KNOWN, or Py4JJavaError, where this Spark is built otherwise."""
    listen(spark)
    let_errors_pass(spark)
    state = spark._jsparkSession.sessionState()
    own = state.sqlParser()
    if str(own.toString()).startswith(_PREPARED + ": "):
        return None
    field = state.getClass().getDeclaredField("sqlParser")
    field.setAccessible(True)
    parser = SessionParser(spark, own, statements)
    field.set(state, parser)
    return parser


# Sessions that the JVM makes
# --------------------------------------------------------------------------------------------------


class NewSessionParsers:
    """Implement the function by which Spark makes the parser of each new session: a Thrift server
    has one for each connection, of which this process does not hear otherwise.
    """

    Java = implementing("scala.Function2")

    def __init__(
        self,
        spark: Session,
        is_prepared: Callable[[Any], bool],
        prepare: Callable[[Session], Statements],
        before: Callable[[Session, str], None],
        read: Read,
    ):
        self.spark, self.is_prepared = spark, is_prepared
        self.prepare, self.before, self.read = prepare, before, read

    def apply(self, session: JavaObject, own: JavaObject) -> Any:
        """Return the parser of a session, whose state does not exist yet."""
        return NewSessionParser(self, session, own)

    def hashCode(self) -> int:
        return 1

    def equals(self, other: object) -> bool:
        return False

    def toString(self) -> str:
        return _PREPARED


class NewSessionParser:
    """Parse for a session that the JVM made: its first statement prepares it. Sessions that this
    process prepares parse by a `SessionParser` around this one, which then has nothing to do."""

    Java = implementing(CATALYST + "parser.ParserInterface")

    def __init__(self, parsers: NewSessionParsers, session: JavaObject, own: JavaObject):
        self._parsers, self._session, self._own = parsers, session, own
        self._statements: SessionParser | None = None
        self._lock = threading.Lock()
        self.spark = parsers.spark

    def parsePlan(self, text: str) -> Any:
        return self._parser(text).parsePlan(text)

    def parsePlanWithParameters(self, text: str, parameters: JavaObject) -> Any:
        return self._parser(text).parsePlanWithParameters(text, parameters)

    @_throwing
    def _parser(self, text: str) -> Any:
        if self._parsers.is_prepared(self._session):
            return _Passing(self.spark, self._own)
        with self._lock:
            if self._statements is None:
                spark = session_of(self.spark, self._session)
                statements = self._parsers.prepare(spark)
                self._statements = SessionParser(spark, self._own, statements)
        self._parsers.before(self._statements.spark, text)
        return self._statements

    def __getattr__(self, name: str) -> Any:
        """Pass every other method on to Spark's own parser."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_Passing(self.spark, self._own), name)

    def hashCode(self) -> int:
        return 1

    def equals(self, other: object) -> bool:
        return False

    def toString(self) -> str:
        return str(self._own.toString())


class _Passing:
    """Pass all methods on to a parser, and its errors on to the JVM."""

    def __init__(self, spark: Session, own: JavaObject):
        self._spark, self._own = spark, own

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._own, name)

        def call(*arguments: object) -> Any:
            answer, error = _attempt(lambda: method(*arguments))
            if error is not None:
                raise refusal(self._spark, error) from error
            return answer

        return call


def parse_new_sessions_by(spark: Session, parsers: NewSessionParsers) -> None:
    """Make the sessions that the JVM makes of a session (`newSession`) parse by the parsers given.
    Raises one of NOT_AS_KNOWN, or Py4JJavaError, where this Spark is built otherwise."""
    listen(spark)
    let_errors_pass(spark)
    spark._jsparkSession.extensions().injectParser(parsers)


# The call that stands in place of a statement
# --------------------------------------------------------------------------------------------------


class _Proxy:
    """Implement what Java asks of every object."""

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return other is self or (
            hasattr(other, "_target_id") and int(other.hashCode()) == self.hashCode()
        )

    def toString(self) -> str:
        return _PREPARED


class _Catalog(_Proxy):
    """Implement the catalog that the procedure is in; no session knows it by name."""

    Java = implementing(_CONNECTOR + "ProcedureCatalog")

    def name(self) -> str:
        return _PREPARED


class StatementProcedure(_Proxy):
    """Implement a procedure with one argument: the statement to run. It is bound already, so that
    Spark's analyser leaves its calls as they are: it compares a plan that it has changed with the
    former one by calls of these objects."""

    Java = implementing(_CONNECTOR + "procedures.BoundProcedure")

    def __init__(self, spark: Session, run: Callable[[Any], None]):
        self.spark, self._run = spark, run
        view, gateway = spark._jvm, spark.sparkContext._gateway
        loader = view.java.lang.Thread.currentThread().getContextClassLoader()
        self._type = getattr(view, SPARK + "sql.types.ObjectType")(
            view.java.lang.Class.forName("java.lang.Object", True, loader)
        )
        parameter = getattr(view, _CONNECTOR + "procedures.ProcedureParameter")
        self._parameters = gateway.new_array(parameter, 1)
        self._parameters[0] = getattr(parameter, "in")("statement", self._type).build()
        namespace = gateway.new_array(view.java.lang.String, 1)
        namespace[0] = "system"
        identifier = getattr(view, _CONNECTOR + "Identifier").of(namespace, "run")
        self._resolved = getattr(view, CATALYST + "analysis.ResolvedProcedure")(
            _Catalog(), identifier, self
        )
        self._call = getattr(view, CATALYST + "plans.logical.Call")
        self._literal = getattr(view, CATALYST + "expressions.Literal")
        self._nothing = view.java.util.Collections.emptyIterator()

    def call_of(self, statement: JavaObject | str, execute: bool = True) -> Any:
        """Return the plan of a CALL that runs a statement: a plan, or a text."""
        return self._call(
            self._resolved, scala_seq(self.spark, [self._literal(statement, self._type)]), execute
        )

    def name(self) -> str:
        return "run"

    def description(self) -> str:
        return "Run a statement that Spark cannot plan."

    def isDeterministic(self) -> bool:
        return False

    def parameters(self) -> Any:
        return self._parameters

    @_throwing
    def call(self, arguments: JavaObject) -> Any:
        """Run the statement in the row of arguments."""
        with ended_with_caller(self.spark):
            self._run(arguments.get(0, self._type))
        return self._nothing


# Changes of rows for which no text is parsed
# --------------------------------------------------------------------------------------------------


class SessionChanges(_Proxy):
    """Run a session's DELETE, UPDATE and MERGE, and read what it names to no text, as its analyser
    shows them (`spark/jvm/RowChanges.java`).
    """

    Java = implementing(_FUNCTION)

    def __init__(self, spark: Session, statements: Statements, read: Read):
        self.spark, self._statements, self._read = spark, statements, read

    @_throwing
    def apply(self, plan: JavaObject) -> Any:
        """Run a change, and return the command that is left to do, which does nothing: Spark
        Connect waits for a command. Of a read, return the plan of its rows. None where Spark is to
        do it."""
        if (asked := source_asked(self.spark, plan)) is not None:
            frame = self._read(self.spark, asked)
            return None if frame is None else frame._jdf.queryExecution().analyzed()
        if not self._statements.takes(plan, False):
            return None
        with ended_with_caller(self.spark):
            self._statements.run(plan)
        nothing = classic_jvm(self.spark).java_class(f"{CATALYST}plans.logical.NoopCommand")
        return nothing(kind_of(plan), scala_seq(self.spark, [_PREPARED]))


class ChangesOfSessions(_Proxy):
    """Make the SessionChanges of a session. `parsers`: prepares sessions that the JVM made;
    `statements`: those of the one session that it is asked of, None: of any.
    """

    Java = implementing(_FUNCTION)

    def __init__(self, parsers: NewSessionParsers, statements: Statements | None = None):
        self.spark, self._parsers, self._statements = parsers.spark, parsers, statements

    @_throwing
    def apply(self, session: JavaObject) -> Any:
        """Return the SessionChanges of a session; one that is not prepared comes to know the
        catalogs.
        """
        if self._statements is not None:
            return SessionChanges(self.spark, self._statements, self._parsers.read)
        spark = session_of(self.spark, session)
        statements = self._parsers.prepare(spark)
        if not self._parsers.is_prepared(session):
            self._parsers.before(spark, "")
        return SessionChanges(spark, statements, self._parsers.read)


def take_changes(spark: Session, parsers: NewSessionParsers, statements: Statements) -> None:
    """Let a classic session show changes of rows for which no text is parsed. Raises Unsupported
    where the classes do not compile on this Spark, one of NOT_AS_KNOWN, or Py4JJavaError."""
    of_session = ChangesOfSessions(parsers, statements)
    make(spark, "RowChanges", spark._jsparkSession, of_session).add()
    for strategy in _STRATEGIES:
        make(spark, strategy, spark._jsparkSession).add()


def take_changes_of_new_sessions(spark: Session, parsers: NewSessionParsers) -> None:
    """Let the sessions that the JVM makes of a session do so, too; raises as `take_changes`."""
    session = spark._jsparkSession
    make(spark, "RowChanges", session, ChangesOfSessions(parsers)).addToNewSessions()
    for strategy in _STRATEGIES:
        make(spark, strategy, session).addToNewSessions()
