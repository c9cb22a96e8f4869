"""Refresh temporary views, and what was cached by a name, after a commit of this process, so that
SQL over them sees what was written, as with tables of Java Iceberg.

Why: a DataFrame is a value and keeps showing the snapshot that it was made from, cached or not. A
temporary view is a name, from which users expect the table's current rows, in SQL, CACHE TABLE and
`spark.table`. But Spark stores the DataFrame's plan under the view's name, and with it the files of
the old snapshot.

How: the root of each plan that `follow` is given carries a tag that refers to a `Followed`. After a
commit, the plans of all temporary views are searched for tags of the table, the tagged parts are
replaced by plans over the new snapshot, and the views that were in Spark's cache are cached again.
So are tables and queries that were cached by a name (CACHE TABLE), which are found by the same
tags.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from frazil.catalog import LoadedTable
from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import Unsupported, ValidationException
from frazil.expr.sql_text import back_quoted
from frazil.ops.engine import Lineage
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, Jvm, classic_jvm, is_stopped, jvm_of
from frazil.spark.host.jvm_plans import frame_of, written_plan
from frazil.spark.host.jvm_views import (
    CachedRows,
    NumberedTag,
    PlanTags,
    SparkCache,
    TemporaryView,
    TemporaryViews,
    rewritten,
)
from frazil.spark.host.quiet import quietly
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage

_LOG = logging.getLogger(__name__)
_NUMBERS = itertools.count(1)
_FRAMES: weakref.WeakValueDictionary[int, Followed] = weakref.WeakValueDictionary()
_REFRESHING = threading.RLock()
_KNOWN: weakref.WeakKeyDictionary[Jvm, PlanTags] = weakref.WeakKeyDictionary()

Make = Callable[[TableMetadata, Storage], Any]
"""Make the same DataFrame over another state of the table."""


def _tags(jvm: Jvm) -> PlanTags:
    if (tags := _KNOWN.get(jvm)) is None:
        tags = _KNOWN[jvm] = PlanTags(jvm, "frazil.frame")
    return tags


class Followed(NumberedTag):
    """Hold a DataFrame's state of the table, and how to make it over another one (None: it shows a
    snapshot that the caller has named); the value of the tag on its plan.

    `_FRAMES` refers to it weakly: the plan in the JVM keeps it alive as long as a DataFrame or a
    view has the plan.
    """

    def __init__(self, spark: Session, metadata: TableMetadata, make: Make | None):
        super().__init__(next(_NUMBERS))
        self.spark, self.make = spark, make
        self.table, self.age, self.state = (
            _table_of(metadata),
            _age_of(metadata),
            _state_of(metadata),
        )
        _FRAMES[self.number] = self

    def over(self, metadata: TableMetadata, storage: Storage) -> Any:
        """Return the DataFrame over another state of the table."""
        assert self.make is not None
        return self.make(metadata, storage)

    def is_behind(self, metadata: TableMetadata) -> bool:
        """Tell whether metadata of the same table is newer than the state that the DataFrame shows."""
        return (
            self.make is not None
            and self.table == _table_of(metadata)
            and self.age <= _age_of(metadata)
            and self.state != _state_of(metadata)
        )


def _table_of(metadata: TableMetadata) -> str:
    return str(metadata.table_uuid or metadata.location)


def _age_of(metadata: TableMetadata) -> tuple[int, int]:
    """Return two numbers that grow from commit to commit: the sequence number first, since two
    commits may share a millisecond.
    """
    return metadata.last_sequence_number, metadata.last_updated_ms


def _state_of(metadata: TableMetadata) -> Any:
    return metadata.current_snapshot_id, metadata.current_schema_id, metadata.refs


def follow(spark: Session, frame: DataFrame, metadata: TableMetadata, make: Make | None) -> Any:
    """Tag the plan of a DataFrame over a table's state, and return the DataFrame. `make`: makes it
    over another state; None where it shows a snapshot that the caller has named. On Spark
    Connect, where plans cannot be reached, or if Spark's tags have changed, nothing is tagged and
    views are not refreshed."""
    if (jvm := jvm_of(spark)) is not None:
        try:
            _tags(jvm).set(spark, written_plan(frame), Followed(spark, metadata, make))
        except NOT_AS_KNOWN as error:
            fall_back(
                "The tag of a plan",
                error,
                "Temporary views keep the rows that they were created with.",
            )
    return frame


def lineage_of(frame: DataFrame, metadata: TableMetadata) -> Lineage:
    """Tell whether a DataFrame reads a table when it is evaluated, and how to make it over another
    state of the table: not where part of it shows a snapshot that the caller has named. On Spark
    Connect, where plans cannot be reached, and for Iceberg tables that Spark reads by a connector,
    that is not known."""
    if (jvm := jvm_of(frame.sparkSession)) is None:
        return Lineage(reads_table=True)
    try:
        parts, by_connector = _shown(frame.sparkSession, written_plan(frame), metadata)
    except (Unsupported, *NOT_AS_KNOWN):
        return Lineage(reads_table=True)
    if by_connector or not all(part.make for part in parts):
        return Lineage(reads_table=True)
    return Lineage(True, partial(_over, jvm, frame)) if parts else Lineage()


def _over(jvm: Jvm, frame: DataFrame, metadata: TableMetadata, storage: Storage) -> DataFrame:
    """Return a DataFrame with those parts that show an older state of a table made over this one."""
    plan_of: Callable[[Followed, int], Any] = lambda followed, _: written_plan(
        followed.over(metadata, storage)
    )
    replacement = _Replacement(jvm, metadata, plan_of)
    plan = replacement.run(written_plan(frame))
    if replacement.error is not None:
        raise ValidationException(
            f"Rows that come from {metadata.location} cannot be computed on its new state: {replacement.error}",
            table=metadata.location,
        ) from replacement.error
    return frame_of(frame.sparkSession, plan) if replacement.count else frame


def refresh(loaded: LoadedTable) -> None:
    """Plan again, over a table's new state, the temporary views over its DataFrames, and cache
    again those that were cached.

    Spark is not asked if no DataFrame of the table exists that a view could hold. Errors are logged
    as warnings, since the commit has succeeded by now.
    """
    # valuerefs() is a copy: other threads may add DataFrames
    alive = [f for ref in _FRAMES.valuerefs() if (f := ref()) is not None]
    behind = [f for f in alive if f.is_behind(loaded.metadata)]
    sessions = {id(f.spark): f.spark for f in behind}
    for spark in sessions.values():
        if not is_stopped(spark):
            try:
                with _REFRESHING:
                    _Refresh(spark, loaded).run()
                cache_again(spark, loaded)
            except Exception as e:
                text = "Temporary views over %s keep the rows from before this commit; create them again to see the new ones. Reason: %s"
                _LOG.warning(text, loaded.metadata.location, e)


def cache_again(spark: Session, loaded: LoadedTable) -> None:
    """Cache again, over a table's new state, what Spark has in its cache by a name (CACHE TABLE of
    the table, or of a view whose text names it) and what shows an older state: no query would take
    these rows, and no UNCACHE TABLE find them. Rows are cached when they are next read. What a name
    means is asked of the session that cached it, since each has views and a namespace of its own;
    where it does not mean the table any more, the rows leave the cache."""
    # No lock: to find out what a name means, Spark may ask for the table on another thread, and is
    # given it by way of this function.
    jvm, metadata = classic_jvm(spark), loaded.metadata
    for _, rows, parts in _cached(spark, lambda: metadata):
        behind = [part for part in parts if part.is_behind(metadata)]
        if behind:
            cache, frame, now = SparkCache(behind[0].spark, jvm), None, list[Followed]()
            # A name may mean nothing any more, as one that counts on the current namespace.
            with quietly(), contextlib.suppress(Exception):
                frame = cache.frame(rows.name)
                now = _parts(spark, frame.logicalPlan(), metadata)
            if not any(part.is_behind(metadata) for part in now):
                # else it is a view that does not follow this commit
                cache.remove(rows)
                if now:
                    cache.add(rows.name, frame, rows.level)


def uncache(find: Callable[[], TableMetadata]) -> None:
    """Take out of Spark's cache what shows a table that will be dropped, by a name and as
    DataFrames, as Spark does for its own tables. `find` is asked for its metadata where anything is
    cached; a table that cannot be read can be dropped all the same."""
    for spark in _sessions():
        with contextlib.suppress(Exception):
            for cache, rows, _ in _cached(spark, find, SparkCache.entries):
                cache.remove(rows)


def cache_renamed(loaded: LoadedTable, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """Cache by its new name, when it is next read, a table that was cached by the name that it had
    before it was renamed, as Spark does for its own tables.
    """
    for spark in _sessions():
        with quietly(), contextlib.suppress(Exception):
            for cache, rows, _ in _cached(spark, lambda: loaded.metadata):
                parts = identifier_parts(rows.name)
                if parts[-len(old) :] == old:
                    renamed = (*parts[: -len(old)], *new)
                    cache.remove(rows)
                    cache.add(full_name(renamed), cache.frame(back_quoted(renamed)), rows.level)


def _sessions() -> list[Session]:
    """Return a running session of each JVM that has DataFrames which follow their tables."""
    alive = [f.spark for ref in _FRAMES.valuerefs() if (f := ref()) is not None]
    running = (spark for spark in alive if not is_stopped(spark))
    return list({jvm: spark for spark in running if (jvm := jvm_of(spark)) is not None}.values())


def _cached(
    spark: Session,
    find: Callable[[], TableMetadata],
    entries: Callable[[SparkCache], list[CachedRows]] = SparkCache.named,
) -> Iterator[tuple[SparkCache, CachedRows, list[Followed]]]:
    """Yield what is cached (`entries`: by a name) and shows a table, with the parts of its plan
    that show it."""
    jvm = classic_jvm(spark)
    try:
        cache = SparkCache(spark, jvm)
        in_cache = [] if cache.is_empty else entries(cache)
    except NOT_AS_KNOWN as error:
        fall_back("Spark's cache", error, "Tables that are cached by name are not cached again.")
        return
    if not in_cache:
        return
    metadata = find()
    for rows in in_cache:
        if parts := _parts(spark, rows.plan, metadata):
            yield cache, rows, parts


def _parts(spark: Session, plan: Any, metadata: TableMetadata) -> list[Followed]:
    """Return the states of a table that the tagged parts of a plan show."""
    return _shown(spark, plan, metadata)[0]


def _shown(spark: Session, plan: Any, metadata: TableMetadata) -> tuple[list[Followed], bool]:
    """Return the states of a table that a plan shows, and whether a connector that tags no plans
    reads an Iceberg table in it."""
    numbers, by_connector = _tags(classic_jvm(spark)).parts(spark, plan)
    tagged = (_FRAMES.get(number) for number in numbers)
    parts = [f for f in tagged if f is not None and f.table == _table_of(metadata)]
    return parts, by_connector


def _followed(tags: PlanTags, node: Any) -> Followed | None:
    number = tags.number(node)
    return None if number is None else _FRAMES.get(number)


@dataclass
class _Refresh:
    """Refresh the temporary views of one session after one commit. `frames`: the DataFrames over
    the new state, by the number of the `Followed` that they replace and its occurrence in a plan.
    """

    spark: Session
    loaded: LoadedTable
    frames: dict[tuple[int, int], Any] = field(default_factory=dict)

    def run(self) -> None:
        """Replace the plans of the views, and then cache again those that were cached. What was
        cached as a DataFrame stays cached beside the view's new rows, since the DataFrame keeps its
        rows."""
        jvm = classic_jvm(self.spark)
        views, cache = TemporaryViews(self.spark, jvm), SparkCache(self.spark, jvm)
        all_views = list(views)
        frames = []
        for view in [] if cache.is_empty else all_views:
            # A view may have become invalid for reasons that have nothing to do with this commit.
            with quietly(), contextlib.suppress(Exception):
                rows = cache.of_frame(view.quoted)
                metadata = self.loaded.metadata
                if rows is not None and any(
                    part.is_behind(metadata) for part in _parts(self.spark, rows.plan, metadata)
                ):
                    frames.append(rows)
        for view in all_views:
            if view.plan is not None and (plan := self._new_plan(jvm, view)) is not None:
                views.replace(view, plan)
        for rows in frames:
            cache.add(rows.name, cache.frame(rows.name), rows.level)

    def _new_plan(self, jvm: Jvm, view: TemporaryView) -> Any:
        """Return a view's plan over the table's new state; None if it does not show the table, or
        cannot be made over the new state.
        """
        metadata = self.loaded.metadata
        if not any(part.is_behind(metadata) for part in _parts(self.spark, view.plan, metadata)):
            return None
        replacement = _Replacement(jvm, metadata, self._plan_of)
        plan = replacement.run(view.plan)
        if replacement.error is not None:
            text = "The temporary view %s keeps the rows from before this commit; create it again to see the new ones. Reason: %s"
            _LOG.warning(text, view.name, replacement.error)
            return None
        return plan if replacement.count else None

    def _plan_of(self, followed: Followed, occurrence: int) -> Any:
        """Return the plan of a DataFrame over the table's new state. A DataFrame that occurs twice
        in a plan (a self-join) gets a plan per occurrence, as the columns of both sides need
        different ids."""
        key = (followed.number, occurrence)
        if key not in self.frames:
            self.frames[key] = followed.over(self.loaded.metadata, self.loaded.storage)
        return written_plan(self.frames[key])


class _Replacement:
    """Replace the tagged parts of a plan, sub-queries included, that show an older state of a
    table.

    An error ends the replacement and is kept in `error`: raised into the JVM, it would come back as
    an error of py4j.
    """

    def __init__(self, jvm: Jvm, metadata: TableMetadata, plan_of: Callable[[Followed, int], Any]):
        self._metadata, self._plan_of, self._tags = metadata, plan_of, _tags(jvm)
        self._occurrences: dict[int, int] = {}
        self.error: Exception | None = None

    @property
    def count(self) -> int:
        """Return how many parts of the plan showed an older state of the table."""
        return sum(self._occurrences.values())

    def run(self, plan: JavaObject) -> Any:
        """Return the plan with its parts replaced."""
        return rewritten(plan, self._replaced)

    def _replaced(self, node: JavaObject) -> Any:
        followed = _followed(self._tags, node)
        if followed is None or self.error is not None or not followed.is_behind(self._metadata):
            return node
        occurrence = self._occurrences[followed.number] = (
            self._occurrences.get(followed.number, 0) + 1
        )
        try:
            plan = self._tags.under_columns_of(node, self._plan_of(followed, occurrence))
            self._tags.set(
                followed.spark, plan, Followed(followed.spark, self._metadata, followed.make)
            )
            return plan
        except Exception as e:
            self.error = e
            return node
