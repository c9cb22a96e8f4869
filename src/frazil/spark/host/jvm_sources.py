"""Take part in Spark's sources from Python: reads of `format("iceberg")` and of streams as a
session's analyser shows them, writes of a server's clients, and the batches of their streams.

A client of Spark Connect, and Scala, know nothing of Frazil: what PySpark's own classes are routed
to in a prepared session, Spark asks here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from frazil.ops.session import Session
from frazil.spark.host.interruptible import ended_with_caller
from frazil.spark.host.jvm import classic_jvm, each, implementing, session_of, text_pairs
from frazil.spark.host.jvm_classes import make
from frazil.spark.host.jvm_errors import unchecked
from frazil.spark.host.jvm_plans import kind_of, session_frame
from frazil.spark.host.quiet import quietly

_BI_FUNCTION = "java.util.function.BiFunction"
_NAMED, _RELATION, _SOURCE = "NamedStreamingRelation", "UnresolvedRelation", "UnresolvedDataSource"
_GIVEN = "UserProvided("

TakeBatch = Callable[[DataFrame, int], object]
"""Write a batch of a stream, given its rows and its number."""


@dataclass(frozen=True)
class SourceAsked:
    """Describe a read for which no text was parsed. `table`: the parts of the table's name, None
    where a source is asked (`format("iceberg")`) for `paths`, unless the options have the path;
    `streams`: whether rows are read as a stream; `name`: that which the caller gives the stream's
    source; `has_schema`: whether the caller gives columns."""

    table: tuple[str, ...] | None
    options: Mapping[str, str]
    streams: bool
    name: str = ""
    paths: tuple[str, ...] = ()
    has_schema: bool = False


Read = Callable[[Session, SourceAsked], DataFrame | None]
"""Return the rows of a read; None where it is Spark's."""


def source_asked(spark: Session, plan: JavaObject) -> SourceAsked | None:
    """Return what a plan reads, None for a plan of another kind."""
    kind, name = kind_of(plan), ""
    if kind == _NAMED:
        shown = str(plan.sourceIdentifyingName().toString())
        name = shown.removeprefix(_GIVEN).removesuffix(")") if shown.startswith(_GIVEN) else ""
        plan = plan.child()
        kind = kind_of(plan)
    view = classic_jvm(spark).view
    if kind == _RELATION:
        parts = tuple(map(str, each(plan.multipartIdentifier())))
        options = text_pairs(view, plan.options().asCaseSensitiveMap())
        return SourceAsked(parts, options, bool(plan.isStreaming()), name)
    if kind != _SOURCE:
        return None
    convert = view.scala.jdk.javaapi.CollectionConverters.asJava
    options = text_pairs(view, convert(plan.options().originalMap()))
    paths = tuple(str(path) for path in each(plan.paths()))
    has_schema = bool(plan.userSpecifiedSchema().isDefined())
    return SourceAsked(None, options, bool(plan.isStreaming()), name, paths, has_schema)


class _BiFunction:
    """Implement what Java asks of every object."""

    Java = implementing(_BI_FUNCTION)

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return other is self

    def toString(self) -> str:
        return "frazil"


class StreamBatches(_BiFunction):
    """Write the batches of a stream, which Spark gives in the stream's own session."""

    def __init__(self, spark: Session, take: TakeBatch):
        self._spark, self._take = spark, take

    def apply(self, number: int, rows: JavaObject) -> None:
        with _thrown(self._spark):
            session = session_of(self._spark, rows.sparkSession())
            self._take(session_frame(session, rows), int(number))


@dataclass(frozen=True)
class SourceWrites:
    """Hold what a server's clients write to `format("iceberg")` by. `save`: writes rows by a save
    mode and options; `stream`: returns what writes the batches of a stream, by its output mode and
    options."""

    save: Callable[[DataFrame, str, dict[str, str]], None]
    stream: Callable[[Session, str, dict[str, str]], TakeBatch]


class _Sources(_BiFunction):
    """Answer Spark's calls of the source `iceberg` (`spark/jvm/DefaultSource.java`)."""

    def __init__(self, spark: Session, writes: SourceWrites):
        self._spark, self._writes = spark, writes

    def apply(self, task: str, given: JavaObject) -> Any:
        with _thrown(self._spark):
            java_session, options, rows = given[0], given[1], given[2]
            spark = session_of(self._spark, java_session)
            options = text_pairs(classic_jvm(spark).view, options)
            kind, _, output = task.partition(" ")
            if kind == "stream":
                return StreamBatches(self._spark, self._writes.stream(spark, output, options))
            with ended_with_caller(self._spark):
                self._writes.save(session_frame(spark, rows), task, options)
            return None


@contextlib.contextmanager
def _thrown(spark: Session) -> Iterator[None]:
    """Turn the errors of a block into exceptions of the JVM."""
    error: Exception | None = None
    with quietly():
        try:
            yield
        except Exception as raised:
            error = raised
    if error is not None:
        raise unchecked(spark, error) from error


def serve_sources(spark: Session, writes: SourceWrites) -> None:
    """Let `format("iceberg")` of the JVM's writers write to tables by names of their sessions.
    Raises Unsupported where the class does not compile on this Spark."""
    make(spark, "DefaultSource").answerBy(_Sources(spark, writes))


def stream_write(spark: Session, take: TakeBatch) -> Any:
    """Return Spark's StreamingWrite that hands each batch of a stream over. Raises Unsupported as
    `serve_sources` does."""
    return make(spark, "StreamWrites$Batches", StreamBatches(spark, take))
