"""Read what Spark asks of a changelog (4.2, 4.3), and hand the rows of a DataFrame over as a
relation of its first data source interface.

Spark takes no object of this process for such a relation, since it is a class, not an interface. So
its source stands here, and Spark's own compiler (Janino) makes a class of it once per JVM, which
the driver alone uses.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from frazil.ops.session import Session
from frazil.spark.host.jvm import Jvm, classic_jvm
from frazil.spark.host.jvm_plans import kind_of

_NAME = "frazil.rows.FrameRelation"
_SOURCE = """
package frazil.rows;
import org.apache.spark.sql.types.StructType;
public final class FrameRelation extends org.apache.spark.sql.sources.BaseRelation implements org.apache.spark.sql.sources.TableScan {
  private final org.apache.spark.sql.SQLContext context;
  private final StructType schema;
  private final org.apache.spark.rdd.RDD rows;
  public FrameRelation(org.apache.spark.sql.SQLContext context, StructType schema, org.apache.spark.rdd.RDD rows) {
    this.context = context; this.schema = schema; this.rows = rows;
  }
  public org.apache.spark.sql.SQLContext sqlContext() { return context; }
  public StructType schema() { return schema; }
  public boolean needConversion() { return false; }
  public org.apache.spark.rdd.RDD buildScan() { return rows; }
}
"""
_CONSTRUCTORS: weakref.WeakKeyDictionary[Jvm, Any] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class AskedChanges:
    """Hold what a statement asks of a changelog. `versions`, `micros`: start and end, None where
    the range has no end, or is not said that way; `with_start`, `with_end`: the bound belongs to
    the range; `net`: net changes; `updates`: updates are told apart from deletes and inserts."""

    versions: tuple[str, str | None] | None
    micros: tuple[int, int | None] | None
    with_start: bool
    with_end: bool
    net: bool
    updates: bool


def asked_changes(context: Any) -> AskedChanges:
    """Read Spark's ChangelogContext."""
    span = context.range()
    bounded = kind_of(span) != "UnboundedRange"
    versions = micros = None
    if kind_of(span) == "VersionRange":
        end = span.endingVersion()
        versions = str(span.startingVersion()), str(end.get()) if end.isPresent() else None
    elif kind_of(span) == "TimestampRange":
        end = span.endingTimestamp()
        micros = int(span.startingTimestamp()), int(end.get()) if end.isPresent() else None
    return AskedChanges(
        versions,
        micros,
        bounded and bool(span.startingBoundInclusive()),
        bounded and bool(span.endingBoundInclusive()),
        str(context.deduplicationMode().name()) == "NET_CHANGES",
        bool(context.computeUpdates()),
    )


def relation_of(spark: Session, frame: DataFrame, context: Any) -> Any:
    """Make the relation of a classic DataFrame's rows. `context`: Spark's SQLContext."""
    jvm = classic_jvm(spark)
    if (constructor := _CONSTRUCTORS.get(jvm)) is None:
        compiler = getattr(jvm.view, "org.codehaus.janino.SimpleCompiler")()
        loader = jvm.view.java.lang.Thread.currentThread().getContextClassLoader()
        compiler.setParentClassLoader(loader)
        compiler.cook(_SOURCE)
        relation = compiler.getClassLoader().loadClass(_NAME)
        constructor = _CONSTRUCTORS[jvm] = relation.getConstructors()[0]
    arguments = spark.sparkContext._gateway.new_array(jvm.view.java.lang.Object, 3)
    java = frame._jdf
    arguments[0], arguments[1] = context, java.schema()
    arguments[2] = java.queryExecution().toRdd()
    return constructor.newInstance(arguments)


__all__ = ["AskedChanges", "asked_changes", "relation_of"]
