"""Temporary views follow the table: after a commit of this process the views over its frames are planned anew, those in Spark's cache too.

A DataFrame keeps the state of the table that it was made from, cached or not. A temporary view is a name: SQL over it, CACHE TABLE and
`spark.table` see what this process has written, as with Java's tables. Spark keeps the plan of a DataFrame under a view's name; in it the
root of each frame that may follow carries a tag, so that the frame can be found and exchanged for one of the table's new state.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from frazil.catalog import LoadedTable
from frazil.spark.host.jvm import CachedView, Jvm, PlanTags, TemporaryView, TemporaryViews, is_stopped, jvm_of, written_plan
from frazil.spec.metadata import TableMetadata

_LOG = logging.getLogger(__name__)
_NUMBERS = itertools.count(1)
_FRAMES: weakref.WeakValueDictionary[int, Followed] = weakref.WeakValueDictionary()
_REFRESHING = threading.RLock()
_KNOWN: weakref.WeakKeyDictionary[Jvm, PlanTags] = weakref.WeakKeyDictionary()

Make = Callable[[LoadedTable], Any]
"""The frame again, of another state of the table."""


def _tags(jvm: Jvm) -> PlanTags:
    if (found := _KNOWN.get(jvm)) is None:
        found = _KNOWN[jvm] = PlanTags(jvm, "frazil.frame")
    return found


class Followed:
    """A frame that views may hold: how it is made anew, and the state of the table that it shows. The JVM's plan keeps it alive."""

    class Java:
        implements: ClassVar = ["java.util.function.IntSupplier"]

    def __init__(self, spark: Any, metadata: TableMetadata, make: Make):
        self.spark, self.make, self.number = spark, make, next(_NUMBERS)
        self.table, self.updated, self.state = _table_of(metadata), metadata.last_updated_ms, _state_of(metadata)
        _FRAMES[self.number] = self

    def getAsInt(self) -> int:
        return self.number

    def is_behind(self, metadata: TableMetadata) -> bool:
        return self.table == _table_of(metadata) and self.updated <= metadata.last_updated_ms and self.state != _state_of(metadata)


def _table_of(metadata: TableMetadata) -> str:
    return str(metadata.table_uuid or metadata.location)


def _state_of(metadata: TableMetadata) -> Any:
    return metadata.current_snapshot_id, metadata.current_schema_id, metadata.refs


def follow(spark: Any, frame: Any, metadata: TableMetadata, make: Make) -> Any:
    """The frame, marked as one of the table's current state. On Spark Connect, whose plans cannot be reached, nothing is marked."""
    if (jvm := jvm_of(spark)) is not None:
        _tags(jvm).set(spark, written_plan(frame), Followed(spark, metadata, make))
    return frame


def refresh(loaded: LoadedTable) -> None:
    """Exchanges the table's frames in temporary views for those of its new state, and caches again what was cached of them. Without a
    frame of the table that a view could hold, Spark is not asked. A commit has been made by now: an error is a warning."""
    alive = [f for ref in _FRAMES.valuerefs() if (f := ref()) is not None]  # a list made at once: other threads make frames
    behind = [f for f in alive if f.is_behind(loaded.metadata)]
    sessions = {id(f.spark): f.spark for f in behind}
    with _REFRESHING:
        for spark in sessions.values():
            if is_stopped(spark):
                continue
            try:
                _Refresh(spark, loaded).run()
            except Exception as e:
                _LOG.warning("Temporary views over %s keep the rows of before this commit: %s", loaded.metadata.location, e)


@dataclass
class _Refresh:
    """One session's views after one commit."""

    spark: Any
    loaded: LoadedTable
    made: dict[tuple[int, int], Any] = field(default_factory=dict)

    def run(self) -> None:
        jvm = jvm_of(self.spark)
        assert jvm is not None
        views = TemporaryViews(self.spark, jvm)
        every = list(views)
        cached = [] if views.nothing_is_cached else [c for view in every if (c := self._cached(jvm, views, view)) is not None]
        for view in every:
            if view.plan is not None and (plan := self._exchanged(jvm, view)) is not None:
                views.replace(view, plan)
        for c in cached:
            if c.by_name:  # what somebody cached as a DataFrame stays: it is the value that it was
                views.uncache(c)
        for c in cached:
            views.cache_again(c)

    def _cached(self, jvm: Jvm, views: TemporaryViews, view: TemporaryView) -> CachedView | None:
        """What Spark's cache holds of a view, when a frame that is behind is in it."""
        with contextlib.suppress(Exception):  # a view may be broken, which is no affair of this commit
            if (found := views.cached(view)) is not None:
                search = _Exchange(jvm, self.loaded.metadata, None)
                search.run(found.frame.logicalPlan())
                if search.count:
                    return found
        return None

    def _exchanged(self, jvm: Jvm, view: TemporaryView) -> Any:
        """The plan over the table's new state; None: it holds no frame that is behind, or cannot follow."""
        exchange = _Exchange(jvm, self.loaded.metadata, self._again)
        found = exchange.run(view.plan)
        if exchange.error is not None:
            hint = "Create the view again."
            _LOG.warning("The temporary view %s keeps the rows of before this commit: %s %s", view.name, exchange.error, hint)
            return None
        return found if exchange.count else None

    def _again(self, followed: Followed, which: int) -> Any:
        """The plan of a frame's new state. `which`: a frame may stand in a plan twice, and plans that meet have columns of their own."""
        key = (followed.number, which)
        if key not in self.made:
            self.made[key] = followed.make(self.loaded)
        return written_plan(self.made[key])


class _Exchange:
    """Finds the frames that are behind in a plan, sub-queries included, and puts new ones in their places (`again` None: only finds)."""

    class Java:
        implements: ClassVar = ["scala.PartialFunction"]

    def __init__(self, jvm: Jvm, metadata: TableMetadata, again: Callable[[Followed, int], Any] | None):
        self._metadata, self._again, self._tags = metadata, again, _tags(jvm)
        self._times: dict[int, int] = {}
        self.error: Exception | None = None

    @property
    def count(self) -> int:
        return sum(self._times.values())

    def run(self, plan: Any) -> Any:
        return plan.transformDownWithSubqueries(self)

    # Called by the JVM for every node of a plan.

    def applyOrElse(self, node: Any, _: Any) -> Any:
        tag = self._tags.get(node)
        followed = None if tag is None else _FRAMES.get(tag.getAsInt())
        if followed is None or self.error is not None or not followed.is_behind(self._metadata):
            return node
        which = self._times[followed.number] = self._times.get(followed.number, 0) + 1
        if self._again is None:
            return node
        try:
            return self._in_place_of(node, self._again(followed, which), followed)
        except Exception as e:
            self.error = e
            return node

    def isDefinedAt(self, _: Any) -> bool:
        return True

    def apply(self, node: Any) -> Any:
        return self.applyOrElse(node, None)

    def _in_place_of(self, node: Any, plan: Any, followed: Followed) -> Any:
        made = self._tags.under_columns_of(node, plan)
        self._tags.set(followed.spark, made, Followed(followed.spark, self._metadata, followed.make))
        return made
