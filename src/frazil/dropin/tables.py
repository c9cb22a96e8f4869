"""Open, create and fill Frazil's tables by the options that Spark's writers are given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from frazil.catalog import Committed, create_at
from frazil.catalog.configuration import store_properties
from frazil.dropin.names import found, whose
from frazil.errors import InvalidInput, TableAlreadyExistsError, Unsupported
from frazil.expr.nodes import Translated
from frazil.ops.insert import insertion, overwrite_mode
from frazil.ops.reading import RowFilter
from frazil.ops.session import Session
from frazil.ops.table_definition import table_metadata
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.jvm import is_classic, setting
from frazil.spark.host.jvm_plans import analysed_plan, empty_frame, filter_condition
from frazil.spark.host.jvm_trees import bindings, translated
from frazil.spark.types.spark_types import time_enabled, to_spark
from frazil.sql.catalog_calls import create_as
from frazil.storage import absolute
from frazil.table.catalog import Catalog
from frazil.table.create import schema_of
from frazil.table.load import at_location, resolve, table_of
from frazil.table.table import Table

_CATALOG = "catalog."


def catalog_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the catalog properties among options, which are given as `.option("catalog.<key>",
    …)`.
    """
    return {
        k[len(_CATALOG) :]: str(v) for k, v in options.items() if k.lower().startswith(_CATALOG)
    }


def write_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are write options: neither a catalog's nor the path."""
    return {
        k: v
        for k, v in options.items()
        if not k.lower().startswith(_CATALOG) and k.lower() != "path"
    }


def open_table(name: str, options: Mapping[str, Any], spark: Session) -> tuple[Table, str | None]:
    """Open the table to write to, and return it with the branch that its name selects. Raises
    InvalidInput for what takes no writes (a metadata table, a tag, a snapshot), NoSuchTableError."""
    named = found(spark, name, catalog_options(options), "new")
    return table_of(named), named.written_branch()


def _place_of_new(
    spark: Session, name: str, properties: Mapping[str, str]
) -> tuple[Catalog, tuple[str, ...]]:
    """Return the catalog in which a table is created, and its name there. `properties`: those of
    the catalog that options give."""
    place = None if properties else whose(spark, name, "new")
    return resolve(name, **properties) if place is None else (place.catalog, place.parts)


def is_dynamic(spark: Session, options: Mapping[str, Any], table: Table | None = None) -> bool:
    """Return whether an overwrite replaces partitions, by the option `overwrite-mode`. Raises
    InvalidInput for an unknown mode.

    `table`: the table of an insertInto. If it is partitioned, the session's
    spark.sql.sources.partitionOverwriteMode is the default; Spark's save() ignores that setting for
    tables of catalogs.
    """
    mode = overwrite_mode(options)
    if mode is None and table is not None and table.spec().fields:
        mode = str(setting(spark, "spark.sql.sources.partitionOverwriteMode", "static")).lower()
    return mode == "dynamic"


def create(
    name: str,
    frame: DataFrame,
    options: Mapping[str, Any],
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    replace: bool = False,
    must_exist: bool = False,
) -> None:
    """Create a table with the frame's schema and rows, in one commit. `replace`: an existing table
    is replaced and keeps its history; `must_exist`: one must be there.

    Raises TableAlreadyExistsError; NoSuchTableError with `must_exist`; InvalidInput for a
    replacement by location.
    """
    of_write, of_catalog, stored = (
        write_options(options),
        catalog_options(options),
        dict(properties or {}),
    )
    if "/" in name:
        _create_at(name, frame, of_write, of_catalog, partition_by, stored, replace)
        return
    catalog, parts = _place_of_new(frame.sparkSession, name, of_catalog)
    catalog.create_namespace_if_not_exists(parts[:-1])
    location = of_write.pop("location", None) or next(
        (v for k, v in options.items() if k.lower() == "path" and v != name), None
    )
    tx = create_as(
        catalog,
        parts,
        frame,
        replace=replace,
        create=not must_exist,
        location=location,
        partition_by=list(partition_by),
        properties=stored,
    )
    with tx:
        tx._run_write(insertion(frame, "true" if replace else None, options=of_write))


def create_empty(
    name: str,
    schema: StructType,
    options: Mapping[str, Any],
    spark: Session,
    partition_by: Sequence[str] = (),
) -> None:
    """Create a table with these columns (a StructType), for a stream to write into."""
    of_catalog = catalog_options(options)
    if "/" in name:
        location = absolute(name)
        metadata = table_metadata(
            location, schema_of(schema), None, None, {}, partition_by=list(partition_by)
        )
        create_at(
            location, metadata, store_properties(location, of_catalog, session_catalogs(spark))
        )
        return
    catalog, parts = _place_of_new(spark, name, of_catalog)
    catalog.create_namespace_if_not_exists(parts[:-1])
    catalog.create_table_if_not_exists(parts, schema, partition_by=list(partition_by))


def _create_at(
    location: str,
    frame: DataFrame,
    of_write: Mapping[str, Any],
    of_catalog: Mapping[str, str],
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    replace: bool,
) -> None:
    """Create a table at a location, and append the frame. `of_write`, `of_catalog`: the write
    options and the catalog's.
    """
    if replace:
        raise InvalidInput(
            f"Replacing a table by its location is not possible: {location}.",
            hint="Use a catalog, or mode('overwrite').",
        )
    location = absolute(location)
    metadata = table_metadata(
        location, schema_of(frame), None, None, properties, partition_by=list(partition_by)
    )
    of_store = store_properties(location, of_catalog, session_catalogs(frame.sparkSession))
    if not isinstance(create_at(location, metadata, of_store), Committed):
        raise TableAlreadyExistsError(
            f"Table already exists: {location}",
            hint="Use mode('append') to add rows to it.",
            table=location,
        )
    at_location(location, **of_store).append(frame, **of_write)


_TERM = re.compile(r"Column<'(.*)'>", re.DOTALL)


def term_of(column: Column | str) -> str:
    """Return a partition term as text, given as `F.partitioning.days("ts")`, as a column or as
    text.
    """
    match = _TERM.fullmatch(str(column))
    if isinstance(column, str) or match is None:
        return str(column)
    return match[1]


def condition_of(spark: Session, table: Table, condition: Column | str) -> RowFilter:
    """Return a condition over a table's columns as it is, a Column that Spark's analyser resolves to
    what Frazil's nodes say in these. Raises Unsupported for a Column on Spark Connect, where plans
    are out of reach."""
    if isinstance(condition, str):
        return condition
    empty = empty_frame(spark, to_spark(table.schema(), time=time_enabled(spark)))
    if not is_classic(empty):
        raise Unsupported(
            "A Column as the condition of overwrite() is not supported on Spark Connect.",
            hint="Give it as text: writeTo(…).overwrite(\"day = DATE '2026-01-01'\").",
            table=table.location(),
        )
    as_it_is: RowFilter = condition
    resolved = filter_condition(empty.filter(condition))
    if resolved is None:
        return as_it_is
    node = translated(spark, resolved, bindings(spark, analysed_plan(empty)))
    return as_it_is if node is None else Translated(node, lambda: as_it_is)
