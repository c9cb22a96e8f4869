"""Make and read views of a catalog: Spark's `View` (4.2, 4.3), and the entry of Spark's own catalog
that stands for a view in a query (4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyspark
from py4j.java_gateway import JavaObject
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes

HAS_VIEWS = tuple(int(n) for n in pyspark.__version__.split(".")[:2]) >= (4, 2)
"""Whether this Spark asks catalogs for views."""
_OF_SPARK = ("provider", "comment", "owner", "collation", "table_type")
_PREFIX = "view."


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
) -> Any:
    """Make Spark's View."""
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
    builder = builder.withSqlConfigs(types.string_map({})).withSchemaMode(schema_mode)
    return builder.withQueryColumnNames(types.strings(list(query_columns))).build()


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
    return types.view_table(name, types.struct_type(spark, columns), text, properties)
