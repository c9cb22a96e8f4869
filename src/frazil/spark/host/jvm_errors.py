"""Let errors of this process pass through the JVM: an error that an object of this process raises
becomes an exception of Java, which Spark and every caller in the JVM understand, and where it comes
back to this process it is the error that was raised."""

from __future__ import annotations

import importlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from frazil.errors import (
    FrazilError,
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ParseError,
    SchemaMismatch,
    TableAlreadyExistsError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import CATALYST, NOT_AS_KNOWN, SPARK, Jvm, classic_jvm, is_instance

_RAISED: OrderedDict[str, BaseException] = OrderedDict()
_MOST = 64
_ANALYSIS = CATALYST + "analysis."
_PATCHED = "_frazil_errors"


CONDITIONS: dict[type[FrazilError], str] = {
    NoSuchTableError: "TABLE_OR_VIEW_NOT_FOUND",
    NoSuchViewError: "VIEW_NOT_FOUND",
    NoSuchNamespaceError: "SCHEMA_NOT_FOUND",
    TableAlreadyExistsError: "TABLE_OR_VIEW_ALREADY_EXISTS",
    ViewAlreadyExistsError: "VIEW_ALREADY_EXISTS",
    NamespaceAlreadyExistsError: "SCHEMA_ALREADY_EXISTS",
    NamespaceNotEmptyError: "SCHEMA_NOT_EMPTY",
    SchemaMismatch: "INCOMPATIBLE_DATA_FOR_TABLE",
    ParseError: "PARSE_SYNTAX_ERROR",
}
"""Spark's conditions, by the errors of Frazil that they are for."""


_OTHERS = "USER_RAISED_EXCEPTION"
"""The condition in the JVM of errors that Spark has none for: a script looks for its handlers by the
condition, and fails itself where there is none."""


class Thrown(Py4JJavaError):  # type: ignore[misc]
    """Carry an exception of Java that a call from the JVM ends with."""

    def __init__(self, java_exception: JavaObject):
        super().__init__("An object of Frazil throws", java_exception)


class _Quiet(logging.Filter):
    """Keep py4j from printing errors that are passed on."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], Thrown))


def let_errors_pass(spark: Session) -> None:
    """Let exceptions pass from this process to the JVM and back. Where PySpark has changed, errors
    come back as PySpark shows them.
    """
    spark.sparkContext._gateway.python_parameters.propagate_java_exceptions = True
    logger = logging.getLogger("py4j.clientserver")
    if not any(isinstance(f, _Quiet) for f in logger.filters):
        logger.addFilter(_Quiet())
    try:
        captured: Any = importlib.import_module("pyspark.errors.exceptions.captured")
        convert = captured.convert_exception
        if not hasattr(convert, _PATCHED):

            def converted(error: JavaObject) -> Any:
                return _raised_here(error) or convert(error)

            setattr(converted, _PATCHED, True)
            captured.convert_exception = converted
    except (ImportError, AttributeError) as error:
        fall_back(
            "The conversion of errors", error, "Errors of tables are shown as those of Spark."
        )


def _raised_here(error: JavaObject | None) -> BaseException | None:
    """Return the error of this process that an exception of Java, or what caused it, stands for."""
    for _ in range(8):
        if error is None or not _RAISED:
            return None
        message = error.getMessage()
        if message is not None and (raised := _RAISED.get(str(message))) is not None:
            return raised.with_traceback(None) if isinstance(raised, FrazilError) else raised
        error = error.getCause()
    return None


def thrown(jvm: Jvm, error: BaseException) -> Thrown:
    """Return the exception that ends a call from the JVM with an error of this process."""
    if isinstance(error, Thrown):
        return error
    if isinstance(error, Py4JJavaError):
        return Thrown(error.java_exception)
    if (origin := getattr(error, "_origin", None)) is not None:
        # an error of Spark's that PySpark has converted
        return Thrown(origin)
    message = str(error) if isinstance(error, FrazilError) else f"{type(error).__name__}: {error}"
    condition = condition_of(error)
    if condition is not None and condition not in message:
        message = f"[{condition}] {message}"
    _remember(message, error)
    java = jvm.view.java.lang
    if condition is not None:
        return Thrown(_spark_error(jvm, message, condition))
    if isinstance(error, Unsupported):
        return Thrown(java.UnsupportedOperationException(message))
    if isinstance(error, InvalidInput):
        return Thrown(java.IllegalArgumentException(message))
    return Thrown(_spark_error(jvm, message, _OTHERS))


def condition_of(error: BaseException) -> str | None:
    """Return Spark's condition for an error of Frazil's: that of its facts, else that of its class;
    None where Spark has none.
    """
    if not isinstance(error, FrazilError):
        return None
    condition = error.facts.get("condition")
    if condition is None:
        condition = next((CONDITIONS[k] for k in type(error).__mro__ if k in CONDITIONS), None)
    return None if condition is None else str(condition)


def _spark_error(jvm: Jvm, message: str, condition: str) -> JavaObject:
    """Make a SparkRuntimeException with words of Frazil's: the constructor that takes a text as it
    is, which Spark keeps to itself. A client of Spark Connect gets an error of a class that it knows.
    Where this Spark is built otherwise it is a RuntimeException."""
    lang, option = jvm.view.java.lang, getattr(jvm.view, "scala.Option")
    try:
        loader = lang.Thread.currentThread().getContextClassLoader()
        kind = lang.Class.forName(SPARK + "SparkRuntimeException", True, loader)
        for constructor in kind.getDeclaredConstructors():
            types = [str(t.getSimpleName()) for t in constructor.getParameterTypes()]
            if types[:4] != ["String", "Option", "Option", "Map"]:
                continue
            constructor.setAccessible(True)
            place = lang.reflect.Array
            contexts = place.newInstance(
                lang.Class.forName(SPARK + "QueryContext", True, loader), 0
            )
            values = [message, option.empty(), option.apply(condition)]
            values += [jvm.view.PythonUtils.toScalaMap({}), contexts]
            values += [option.empty()] * (len(types) - len(values))
            arguments = place.newInstance(lang.Class.forName("java.lang.Object"), len(values))
            for number, value in enumerate(values):
                place.set(arguments, number, value)
            return constructor.newInstance(arguments)
    except NOT_AS_KNOWN as error:
        fall_back(
            "The errors of Spark", error, "Clients of a server get errors without a condition."
        )
    return lang.RuntimeException(message)


def unchecked(spark: Session, error: BaseException) -> Thrown:
    """Return the exception that ends a call from the JVM whose method declares none: a checked one,
    as Spark's AnalysisException is, would be hidden in an UndeclaredThrowableException, so it
    becomes a SparkRuntimeException of the same condition. Callers in this process get the error
    itself."""
    jvm = classic_jvm(spark)
    ending = thrown(jvm, error)
    java, view = ending.java_exception, jvm.view
    is_checked = not is_instance(spark, "java.lang.RuntimeException", java) and is_instance(
        spark, SPARK + "SparkThrowable", java
    )
    if not is_checked or java.getCondition() is None:
        return ending
    facts = view.PythonUtils.toScalaMap(java.getMessageParameters())
    runtime = getattr(view, SPARK + "SparkRuntimeException")(
        java.getCondition(), facts, java, java.getQueryContext(), ""
    )
    _remember(str(runtime.getMessage()), error)
    return Thrown(runtime)


def _remember(message: str, error: BaseException) -> None:
    """Keep the latest errors that pass through the JVM, by the message of their exception there."""
    _RAISED[message] = error
    _RAISED.move_to_end(message)
    while len(_RAISED) > _MOST:
        _RAISED.popitem(last=False)


def no_such_table(jvm: Jvm, identifier: JavaObject) -> Thrown:
    """Return Spark's NoSuchTableException, for which Spark shows its own error with the place in
    the text.
    """
    return Thrown(getattr(jvm.view, _ANALYSIS + "NoSuchTableException")(identifier))


def table_exists(jvm: Jvm, identifier: JavaObject) -> Thrown:
    """Return Spark's TableAlreadyExistsException."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "TableAlreadyExistsException")(identifier))


def no_such_namespace(jvm: Jvm, namespace: JavaObject) -> Thrown:
    """Return Spark's NoSuchNamespaceException. `namespace`: an array of strings."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "NoSuchNamespaceException")(namespace))


def namespace_exists(jvm: Jvm, namespace: JavaObject) -> Thrown:
    """Return Spark's NamespaceAlreadyExistsException."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "NamespaceAlreadyExistsException")(namespace))


def namespace_not_empty(jvm: Jvm, namespace: JavaObject) -> Thrown:
    """Return Spark's NonEmptyNamespaceException."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "NonEmptyNamespaceException")(namespace))


def no_such_view(jvm: Jvm, identifier: JavaObject) -> Thrown:
    """Return Spark's NoSuchViewException."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "NoSuchViewException")(identifier))


def view_exists(jvm: Jvm, identifier: JavaObject) -> Thrown:
    """Return Spark's ViewAlreadyExistsException."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "ViewAlreadyExistsException")(identifier))


def no_such_function(jvm: Jvm, identifier: JavaObject) -> Thrown:
    """Return Spark's NoSuchFunctionException."""
    return Thrown(getattr(jvm.view, _ANALYSIS + "NoSuchFunctionException")(identifier))


def unsupported(jvm: Jvm, message: str) -> Thrown:
    """Return Java's UnsupportedOperationException, for which Spark shows its own error, as of
    arguments that a function does not take.
    """
    return Thrown(jvm.view.java.lang.UnsupportedOperationException(message))


__all__: Sequence[str] = [
    "CONDITIONS", "Thrown", "condition_of", "let_errors_pass", "namespace_exists", "namespace_not_empty", "no_such_function",
    "no_such_namespace", "no_such_table", "no_such_view", "table_exists", "thrown", "unchecked", "unsupported", "view_exists",
]  # fmt: skip
