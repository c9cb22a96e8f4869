"""Make the objects that stand for a view or a DataFrame in Spark's catalogs: Spark's `View` (4.2,
4.3) or the entry of Spark's own catalog that stands for a view in a query (4.1), and the relation
that returns the rows of a changelog (4.2, 4.3).

That relation is of Spark's first data source interface, a class, for which Spark takes no object of
this process: `spark/jvm/FrameRelation.java`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyspark
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host.jvm import text_pairs
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes
from frazil.spark.host.jvm_classes import make
from frazil.spark.host.jvm_plans import kind_of

HAS_VIEWS = tuple(int(n) for n in pyspark.__version__.split(".")[:2]) >= (4, 2)
"""Whether this Spark asks catalogs for views."""
_OF_SPARK = ("provider", "comment", "owner", "collation", "table_type")
_PREFIX = "view."
_SETTINGS, _OF_CATALOGS, _ANSI = "spark.sql.", "spark.sql.catalog.", "spark.sql.ansi.enabled"


def view(
    types: CatalogTypes,
    spark: Session,
    text: str,
    columns: s.StructType,
    query_columns: Sequence[str],
    catalog: str,
    namespace: Sequence[str],
    properties: Mapping[str, str],
    schema_mode: str,
    to_read: bool,
) -> Any:
    """Make Spark's View. `to_read`: its query is to be run."""
    builder = getattr(types.jvm.view, CATALOG + "View$Builder")()
    own = {k: v for k, v in properties.items() if k not in _OF_SPARK}
    builder = builder.withColumns(types.columns(types.struct_type(spark, columns))).withProperties(
        types.string_map(own)
    )
    for key, set_to in (("comment", builder.withComment), ("owner", builder.withOwner)):
        if properties.get(key) is not None:
            builder = set_to(properties[key])
    builder = (
        builder.withQueryText(text)
        .withCurrentCatalog(catalog)
        .withCurrentNamespace(types.strings(list(namespace)))
    )
    settings = _current_settings(types) if to_read else {}
    builder = builder.withSqlConfigs(types.string_map(settings)).withSchemaMode(schema_mode)
    return builder.withQueryColumnNames(types.strings(list(query_columns))).build()


def _current_settings(types: CatalogTypes) -> dict[str, str]:
    """Return the settings under which the JVM's thread analyses a statement, which hold for the
    query of a view too: for Spark a view has those it was made with, which Iceberg does not keep,
    and one that has none is evaluated with defaults, and without ANSI.
    """
    conf = getattr(types.jvm.view, "org.apache.spark.sql.internal.SQLConf").get()
    settings = text_pairs(types.jvm.view, conf.settings())
    in_query = {
        k: v
        for k, v in settings.items()
        if k.startswith(_SETTINGS) and not k.startswith(_OF_CATALOGS)
    }
    return {**in_query, _ANSI: str(conf.ansiEnabled()).lower()}


def view_parts(types: CatalogTypes, of_java: JavaObject) -> dict[str, Any]:
    """Read Spark's View."""
    namespace, names = of_java.currentNamespace(), of_java.queryColumnNames()
    catalog, mode = of_java.currentCatalog(), of_java.schemaMode()
    return {
        "text": str(of_java.queryText()),
        "columns": types.struct_type_of(of_java.columns()),
        "query_columns": [str(n) for n in names or ()],
        "catalog": None if catalog is None else str(catalog),
        "namespace": tuple(str(n) for n in namespace or ()),
        "properties": types.pairs(of_java.properties()),
        "schema_mode": None if mode is None else str(mode),
    }


def summaries(types: CatalogTypes, tables: Sequence[Sequence[str]]) -> Any:
    """Make the array of the tables in a namespace."""
    kind = getattr(types.jvm.view, CATALOG + "TableSummary")
    return types.array(kind, [kind.of(types.identifier(parts), "MANAGED") for parts in tables])


def view_relation(
    types: CatalogTypes,
    spark: Session,
    name: Sequence[str],
    text: str,
    columns: s.StructType,
    query_columns: Sequence[str],
    catalog: str,
    namespace: Sequence[str],
    schema_mode: str,
) -> Any:
    """Make the V1Table of a view, whose text Spark's analyser parses and resolves in the view's own
    catalog and namespace. `name`: the view's, with its catalog."""
    context = (catalog, *namespace)
    properties = {
        f"{_PREFIX}catalogAndNamespace.numParts": str(len(context)),
        f"{_PREFIX}schemaMode": schema_mode,
    }
    properties |= {f"{_PREFIX}catalogAndNamespace.part.{n}": part for n, part in enumerate(context)}
    properties |= {f"{_PREFIX}query.out.numCols": str(len(query_columns))}
    properties |= {f"{_PREFIX}query.out.col.{n}": column for n, column in enumerate(query_columns)}
    properties |= {f"{_PREFIX}sqlConfig.{k}": v for k, v in _current_settings(types).items()}
    return types.view_table(name, types.struct_type(spark, columns), text, properties)


@dataclass(frozen=True)
class AskedChanges:
    """Hold what a statement asks of a changelog. `versions`, `micros`: start and end, None where
    the range has no end, or is not said that way; `with_start`, `with_end`: the bound belongs to
    the range; `net`: net changes; `updates`: a delete and an insert of one key are an update."""

    versions: tuple[str, str | None] | None
    micros: tuple[int, int | None] | None
    with_start: bool
    with_end: bool
    net: bool
    updates: bool


def asked_changes(context: JavaObject) -> AskedChanges:
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


def relation_of(spark: Session, frame: DataFrame, context: JavaObject) -> Any:
    """Make the relation of a classic DataFrame's rows. `context`: Spark's SQLContext."""
    java = frame._jdf
    return make(spark, "FrameRelation", context, java.schema(), java.queryExecution().toRdd())


__all__ = ["AskedChanges", "asked_changes", "relation_of"]
