"""Carry out statements about views: Spark's definition of a view to Iceberg's and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import types as s

from frazil.errors import NoSuchViewError, Unsupported
from frazil.spark.catalog.protocol import Parts, ViewDefinition
from frazil.spark.types.spark_types import to_spark
from frazil.spec.view import SQLViewRepresentation
from frazil.table.catalog import Catalog
from frazil.table.views import View

QUERY_COLUMNS, SCHEMA_MODE = "spark.query-column-names", "spark.view-schema-mode"
"""Properties in which Java Iceberg keeps how the query's columns are called, and Frazil Spark's
word of WITH SCHEMA.
"""
_RESERVED = ("format-version", QUERY_COLUMNS)
_OF_ICEBERG = ("provider", "location", "format-version", "table_type")


def definition_of(view: View, name: str, to_read: bool) -> ViewDefinition:
    """Return a view as Spark knows views. `to_read`: its rows are asked for.

    Raises Unsupported where it has no query for Spark, naming the dialects that it has.
    """
    version = view.current_version()
    query = view.sql_for("spark")
    if query is None:
        dialects = ", ".join(sorted(version.queries)) or "no dialect"
        if to_read:
            hint = f"Frazil runs Spark's dialect only: CREATE OR REPLACE VIEW {name} AS … with the property replace.drop-dialect.allowed."
            raise Unsupported(
                f"View {name} has its query in {dialects}, not for Spark.", hint=hint, view=name
            )
        query = next(
            (r for r in version.representations if isinstance(r, SQLViewRepresentation)), None
        )
    stored = view.properties
    shown = {k: v for k, v in stored.items() if k not in (QUERY_COLUMNS, SCHEMA_MODE)}
    shown = {**shown, "provider": "iceberg", "location": view.location(), "format-version": "1"}
    struct = to_spark(view.schema())
    return ViewDefinition(
        "" if query is None else query.sql,
        struct,
        [n for n in stored.get(QUERY_COLUMNS, "").split(",") if n],
        version.default_catalog,
        tuple(version.default_namespace),
        shown,
        stored.get(SCHEMA_MODE),
    )


def create_view(catalog: Catalog, parts: Parts, definition: ViewDefinition) -> None:
    """Create a view with a query in Spark's dialect."""
    catalog.create_view(
        parts,
        _columns(definition),
        location=definition.properties.get("location"),
        properties=_properties(definition),
        sql=definition.text,
        default_namespace=definition.namespace,
        default_catalog=_other_catalog(catalog, definition),
    )


def replace_view(catalog: Catalog, parts: Parts, definition: ViewDefinition, create: bool) -> None:
    """Give a view another query, or other properties where the query is the same."""
    try:
        now = definition_of(catalog.load_view(parts), ".".join(parts), to_read=False)
    except NoSuchViewError:
        if not create:
            raise
        create_view(catalog, parts, definition)
        return
    before = now.text, now.catalog or catalog.name, now.namespace, now.columns
    if not create:
        _refuse_reserved(now.properties, definition.properties)
    if not create and before == (
        definition.text,
        definition.catalog or catalog.name,
        definition.namespace,
        definition.columns,
    ):
        wanted = _properties(definition)
        catalog.update_view_properties(parts, set(_properties(now)) - set(wanted), wanted)
        return
    catalog.replace_view(
        parts,
        _columns(definition),
        properties=_properties(definition),
        sql=definition.text,
        default_namespace=definition.namespace,
        default_catalog=_other_catalog(catalog, definition),
    )


def _other_catalog(catalog: Catalog, definition: ViewDefinition) -> str | None:
    """Return the catalog of names that tell none; None for the view's own, which other sessions and
    engines may call otherwise."""
    return None if definition.catalog == catalog.name else definition.catalog


def _refuse_reserved(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise Unsupported for a property of a view that Iceberg keeps itself, where a statement sets
    or removes it.
    """
    for key in _RESERVED:
        if key in after and after[key] != before.get(key):
            raise _reserved("set", key)
        if key in before and key not in after:
            raise _reserved("unset", key)


def _reserved(verb: str, key: str) -> Unsupported:
    return Unsupported(f"Cannot {verb} reserved property: '{key}'", hint="Iceberg keeps it itself.")


def alter_view(
    catalog: Catalog, parts: Parts, removals: Iterable[str], updates: Mapping[str, str]
) -> None:
    """Remove and set properties of a view. Raises Unsupported for those that Iceberg keeps itself."""
    removals = set(removals)
    for verb, keys in (("set", updates), ("unset", removals)):
        if (
            key := next((k for k in keys if k in (*_RESERVED, "provider", "location")), None)
        ) is not None:
            raise _reserved(verb, key)
    catalog.update_view_properties(parts, removals, dict(updates))


def list_views(catalog: Catalog, namespace: Parts) -> Iterable[Parts]:
    """Return the views in a namespace; a catalog that keeps none has none."""
    try:
        return catalog.list_views(namespace) if namespace else []
    except Unsupported:
        return []


def load_view(catalog: Catalog, parts: Parts) -> View:
    """Load a view. Raises NoSuchViewError, also where the catalog keeps no views."""
    name = ".".join(parts)
    if len(parts) < 2:
        raise NoSuchViewError(f"{name} has no namespace.", view=name)
    try:
        return catalog.load_view(parts)
    except Unsupported as error:
        raise NoSuchViewError(str(error), view=name) from error


def _columns(definition: ViewDefinition) -> s.StructType:
    """Return the columns of a view, which may all be null, with their comments and no other
    metadata.
    """
    metadata = [
        {k: v for k, v in (f.metadata or {}).items() if k == "comment"} for f in definition.columns
    ]
    return s.StructType(
        [
            s.StructField(f.name, f.dataType, True, m)
            for f, m in zip(definition.columns, metadata, strict=True)
        ]
    )


def _properties(definition: ViewDefinition) -> dict[str, str]:
    properties = {k: v for k, v in definition.properties.items() if k not in _OF_ICEBERG}
    if definition.query_columns:
        properties[QUERY_COLUMNS] = ",".join(definition.query_columns)
    if definition.schema_mode is not None and definition.schema_mode != "COMPENSATION":
        properties[SCHEMA_MODE] = definition.schema_mode
    return properties
