"""Make the rows of a table for a query of Spark's: the native scan, with the metadata columns that
the query may name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from frazil.catalog import LoadedTable
from frazil.catalog.names import full_name
from frazil.errors import Unsupported
from frazil.ops.reading import RowsReading
from frazil.ops.session import Session
from frazil.scan.inspect import metadata_table_schema
from frazil.spark.catalog.protocol import Parts
from frazil.spark.catalog.table import shown_schema
from frazil.spark.engine.engine import engine_on
from frazil.spark.engine.read_target import ReadTarget, frame_of
from frazil.spark.host.jvm import NOT_AS_KNOWN, classic_jvm, settings_version
from frazil.spark.host.jvm_catalog import (
    Asked,
    CatalogTypes,
    Relation,
    catalog_types,
    current_catalog,
    current_namespace,
    options_of,
)
from frazil.spark.host.jvm_stars import repeats_table, with_stars_spelled
from frazil.spark.host.jvm_views import SparkCache
from frazil.spark.read.view_refresh import cache_again
from frazil.spark.scan.planned_files import titled
from frazil.spark.types.arrow_types import for_spark, struct_of
from frazil.spark.types.spark_types import time_enabled
from frazil.spec.schema import METADATA_COLUMNS, Schema

_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_NAMES = re.compile(r"\b(?:" + "|".join(sorted(METADATA_COLUMNS)) + r")\b", re.IGNORECASE)
_OPTIONS = re.compile(r"\bwith\s*\(\s*['\"`\w.-]+['\"`]?\s*[=]?\s*['\"\w]", re.IGNORECASE)
_OF_A_FRAME = ("_file", "_pos", "_spec_id")
_ALL_COLUMNS = re.compile(
    r"(?<!count\()(?<!count\( )(?:\bselect\s+(?:distinct\s+)?|[,.]\s*)\*|\btable\s+\w",
    re.IGNORECASE,
)
_READS = re.compile(r"\b(?:from|join|table)\b", re.IGNORECASE)
_INSERTS = re.compile(r"\binsert\b", re.IGNORECASE)
_MOST_KEPT = 16
_FULL = re.compile(rf"({_PART})(?:\s*\.\s*{_PART}){{3}}")


class Relations:
    """Give the tables of one catalog to the queries of one session. What a query was given is given
    again as long as the table and the session's settings stay as they are, as Spark does with its
    own tables: to plan a scan takes some fifty calls of the JVM."""

    def __init__(self, types: CatalogTypes, spark: Session, catalog: str):
        self._types, self._spark, self._catalog = types, spark, catalog
        self._known: dict[Any, tuple[Any, Relation]] = {}
        self._lock = threading.Lock()

    def of(self, target: ReadTarget, asked: Asked, parts: Sequence[str]) -> Any:
        """Return the V1Table that stands for a table, metadata table or changelog."""
        if target.metadata_table is not None:
            return self._given(parts, frame_of(self._spark, target))
        reading = target.reading()
        snapshot, schema = reading.snapshot_and_schema()
        title = f"{target.name} snapshot {'none' if snapshot is None else snapshot.snapshot_id}"
        names, hidden = self._beside(target, asked, schema)
        may_be_cached = bool(hidden) and asked.text is None and _caches(self._spark)
        if _lasts(target.loaded, reading) and (may_be_cached or not names):
            relation = self._lasting(target, reading, parts, title)
            if not names or _caches(self._spark, relation):
                return self._types.given(relation, lasts=True)
        if names:
            reading = replace(reading, selected_fields=("*", *names))
        with titled(title):
            return self._given(parts, engine_on(self._spark).read(reading), hidden)

    def _lasting(
        self, target: ReadTarget, reading: RowsReading, parts: Sequence[str], title: str
    ) -> Relation:
        """Return the relation of a table's own columns that all queries share."""
        state = (settings_version(self._spark), *_state(target.loaded))
        key = (
            tuple(parts),
            reading.appends,
            *(tuple(sorted(m.items())) for m in (reading.selectors, reading.options)),
        )
        if (relation := self._same(key, state)) is not None:
            return relation
        with titled(title):
            frame = engine_on(self._spark).read(reading)
        relation = self._types.relation(self._spark, self._catalog, parts, frame)
        self._keep(key, state, relation)
        cache_again(self._spark, target.loaded)
        return relation

    def _given(self, parts: Sequence[str], frame: DataFrame, hidden: Sequence[str] = ()) -> Any:
        return self._types.given(
            self._types.relation(self._spark, self._catalog, parts, frame, hidden), lasts=False
        )

    def _same(self, key: Hashable, state: object) -> Relation | None:
        with self._lock:
            last_state, relation = self._known.get(key, (None, None))
            if last_state != state:
                return None
            self._known[key] = self._known.pop(key)  # the one that was used last goes last
            return relation

    def _keep(self, key: Hashable, state: object, relation: Relation) -> None:
        """Keep the relation that a query got, in the place of an older state's."""
        with self._lock:
            old = [self._known.pop(key)] if key in self._known else []
            while len(self._known) >= _MOST_KEPT:
                old.append(self._known.pop(next(iter(self._known))))
            self._known[key] = (state, relation)
        for _, withdrawn in old:
            self._types.withdraw(withdrawn)

    def _beside(
        self, target: ReadTarget, asked: Asked, schema: Schema
    ) -> tuple[list[str], list[str]]:
        """Return the metadata columns to read, and those of them to hide. Where this Spark cannot
        hide columns, metadata columns that a text names are shown beside the others, unless the
        text also asks for all columns and these are not spelled."""
        names = [n for n in _metadata_columns(asked, target) if schema.get_field(n, False) is None]
        spelled = asked.text in self._types.spelled
        if not names or (not spelled and _hides(self._types)):
            return names, names
        return (
            (names, [])
            if spelled or not (asked.text is None or _ALL_COLUMNS.search(asked.text))
            else ([], [])
        )


def _lasts(loaded: LoadedTable, reading: RowsReading) -> bool:
    """Tell whether a plan may serve several statements: no server plans the scans, takes reports of
    them or gives secrets for each, and no log counts them."""
    return loaded.told_by is None and reading.planner is None and reading.reporter is None


def _caches(spark: Session, relation: Relation | None = None) -> bool:
    """Tell whether Spark's cache holds the rows of a relation, or anything (None)."""
    try:
        cache = SparkCache(spark, classic_jvm(spark))
        return not cache.is_empty if relation is None else cache.holds(relation.plan)
    except NOT_AS_KNOWN:
        return False


def _state(loaded: LoadedTable) -> tuple[Any, ...]:
    """Return values that differ between two states of a table, also where a table took the place of
    another one with the same files' names.
    """
    metadata = loaded.metadata
    return (
        loaded.metadata_location,
        metadata.table_uuid,
        metadata.last_updated_ms,
        metadata.current_snapshot_id,
    )


def shown_columns(spark: Session, target: ReadTarget) -> StructType:
    """Return the columns of a metadata table, a changelog, or a table's state, as statements about
    it show them.
    """
    if target.is_changelog:
        return frame_of(spark, target).schema
    if target.metadata_table is not None:
        schema = metadata_table_schema(target.metadata_table, target.loaded.metadata)
        return struct_of(for_spark(schema.empty_table()).schema)
    return shown_schema(target.reading().snapshot_and_schema()[1], time=time_enabled(spark))


def _hides(types: CatalogTypes) -> bool:
    try:
        return types.hides
    except NOT_AS_KNOWN:
        return False


def _metadata_columns(asked: Asked, target: ReadTarget) -> list[str]:
    """Return the metadata columns that a statement's text names. A DataFrame that is not made of
    text may come to name those that cost nothing where they are not used; what is cached by a name
    has none, so that queries find it in Spark's cache."""
    if asked.to_cache:
        return []
    if asked.text is None:
        one_spec = len(target.loaded.metadata.partition_specs) == 1
        return [n for n in _OF_A_FRAME if one_spec or n != "_spec_id"]
    return named_in(asked.text)


def named_in(text: str) -> list[str]:
    """Return the metadata columns that a text may name."""
    named = {m[0].lower() for m in _NAMES.finditer(text)}
    return [n for n in METADATA_COLUMNS if n in named] if named else []


def shows_hidden(
    spark: Session, plan: JavaObject, spelled: Callable[[Parts], Sequence[str]]
) -> bool:
    """Tell whether the plans of a statement's tables show the metadata columns that it names: this
    Spark hides none, or loses those of a table that is named twice. `spelled`: the full name that
    parts mean."""
    return not _hides(catalog_types(spark)) or repeats_table(spark, plan, spelled)


def without_hidden(
    spark: Session, text: str, plan: JavaObject, schema_of: Callable[[Parts], Schema | None]
) -> Any:
    """Return the parsed plan of a statement with metadata columns left out of its stars, if that
    can be done. `schema_of`: the columns of a table of Frazil's, None for other names."""
    names = named_in(text)

    def shown(parts: Parts) -> list[str]:
        schema = schema_of(parts)
        return [] if schema is None else [n for n in names if schema.get_field(n, False) is None]

    if (exchanged := with_stars_spelled(spark, plan, shown)) is None:
        return plan
    catalog_types(spark).spelled.append(text)
    return exchanged


def stated_options(spark: Session, asked: Asked, parts: tuple[str, ...]) -> Mapping[str, str]:
    """Return the options that a statement gives a table by WITH (…). `parts`: of the full name.
    Raises Unsupported where it names the table twice with different options."""
    if asked.text is None or _OPTIONS.search(asked.text) is None:
        return {}
    current = (current_catalog(spark), *current_namespace(spark))
    low = tuple(p.lower() for p in parts)
    names = {low} | {
        low[n:] for n in range(1, len(low)) if tuple(c.lower() for c in current[:n]) == low[:n]
    }
    distinct = {tuple(sorted(options.items())) for options in options_of(spark, asked.text, names)}
    if len(distinct) > 1:
        text = f"A statement gives {full_name(parts)} different options."
        raise Unsupported(text, hint="Use db.t.branch_x and its like for one of them.")
    return dict(distinct.pop()) if distinct else {}


def inserts_what_it_reads(spark: Session, text: str) -> bool:
    """Tell whether an INSERT may read the table that it writes to where Spark takes both for one:
    4.3 does so in statements with several INSERTs.
    """
    inserts = len(_INSERTS.findall(text))
    confused = inserts > 1 or str(spark.version).startswith(("4.0", "4.1", "4.2"))
    return inserts > 0 and confused and _READS.search(text) is not None


def names_columns_in_full(text: str, catalogs: Collection[str]) -> bool:
    """Tell whether a text may name a column by its table's full name, as in `catalog.db.t.column`."""
    return any(name in text for name in catalogs) and any(
        m[1].strip("`") in catalogs for m in _FULL.finditer(text)
    )


__all__ = [
    "Relations", "inserts_what_it_reads", "named_in", "names_columns_in_full", "shown_columns",
    "shows_hidden", "stated_options", "without_hidden",
]  # fmt: skip
