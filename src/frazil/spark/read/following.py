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
from frazil.spark.host.jvm import Jvm, each, jvm_of, listen
from frazil.spec.metadata import TableMetadata

_CATALYST = "org.apache.spark.sql.catalyst."
_LOG = logging.getLogger(__name__)
_NUMBERS = itertools.count(1)
_FRAMES: weakref.WeakValueDictionary[int, Followed] = weakref.WeakValueDictionary()
_REFRESHING = threading.RLock()
_KNOWN: weakref.WeakKeyDictionary[Jvm, _Scala] = weakref.WeakKeyDictionary()

Make = Callable[[LoadedTable], Any]
"""The frame again, of another state of the table."""


class _Scala:
    """What plans are changed with, looked up once for each JVM."""

    def __init__(self, jvm: Jvm):
        self.nil, self.none = jvm.nil, jvm.none
        self.tag = getattr(jvm.view, _CATALYST + "trees.TreeNodeTag")("frazil.frame")
        self.alias = getattr(jvm.view, _CATALYST + "expressions.Alias")
        self.project = getattr(jvm.view, _CATALYST + "plans.logical.Project")
        self.identifier = getattr(jvm.view, _CATALYST + "TableIdentifier")
        self.some = getattr(jvm.view, "scala.Option").apply

    @staticmethod
    def of(jvm: Jvm) -> _Scala:
        if (found := _KNOWN.get(jvm)) is None:
            found = _KNOWN[jvm] = _Scala(jvm)
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
        _mark(spark, jvm, frame._jdf.logicalPlan(), Followed(spark, metadata, make))
    return frame


def _mark(spark: Any, jvm: Jvm, plan: Any, followed: Followed) -> None:
    listen(spark)
    plan.setTagValue(_Scala.of(jvm).tag, followed)


def refresh(loaded: LoadedTable) -> None:
    """Exchanges the table's frames in temporary views for those of its new state, and caches again what was cached of them. Without a
    frame of the table that a view could hold, Spark is not asked. A commit has been made by now: an error is a warning."""
    alive = [f for ref in _FRAMES.valuerefs() if (f := ref()) is not None]  # a list made at once: other threads make frames
    behind = [f for f in alive if f.is_behind(loaded.metadata)]
    sessions = {id(f.spark): f.spark for f in behind}
    with _REFRESHING:
        for spark in sessions.values():
            if getattr(spark, "_sc", None) is None or spark._sc._jsc is None:  # stopped
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
        session = self.spark._jsparkSession
        catalog, cache = session.sessionState().catalog(), session.sharedState().cacheManager()
        scala = _Scala.of(jvm)
        names = [(n, None) for n in each(catalog.getTempViewNames())]
        names += [(n, catalog.globalTempDatabase()) for n in each(catalog.globalTempViewManager().listViewNames("*"))]
        cached = [] if cache.isEmpty() else [c for name in names if (c := self._cached(jvm, session, cache, *name)) is not None]
        for name, database in names:
            raw = catalog.getRawTempView(name) if database is None else catalog.getRawGlobalTempView(name)
            if raw.isEmpty() or raw.get().plan().isEmpty():
                continue  # dropped meanwhile; or a text, which Spark analyses whenever it is used
            if (plan := self._exchanged(jvm, raw.get().plan().get(), name)) is not None:
                identifier = scala.identifier(name, scala.some(database))
                catalog.alterTempViewDefinition(identifier, raw.get().copy(raw.get().tableMeta(), scala.some(plan)))
        for c in cached:
            if c.by_name:  # what somebody cached as a DataFrame stays: it is the value that it was
                cache.uncacheQuery(c.frame, False)
        for c in cached:
            cache.cacheQuery(session.table(c.name), scala.some(c.name), c.level)

    def _cached(self, jvm: Jvm, session: Any, cache: Any, name: str, database: str | None) -> _Cached | None:
        """What Spark's cache holds of a view, when a frame that is behind is in it."""
        shown = ".".join("`" + part.replace("`", "``") + "`" for part in (database, name) if part is not None)
        with contextlib.suppress(Exception):  # a view may be broken, which is no affair of this commit
            frame = session.table(shown)
            found = cache.lookupCachedData(frame)
            if found.isDefined():
                search = _Exchange(jvm, self.loaded.metadata, None)
                search.run(frame.logicalPlan())
                if search.count:
                    builder = found.get().cachedRepresentation().cacheBuilder()
                    return _Cached(shown, frame, builder.storageLevel(), builder.tableName().isDefined())
        return None

    def _exchanged(self, jvm: Jvm, plan: Any, name: str) -> Any:
        """The plan over the table's new state; None: it holds no frame that is behind, or cannot follow."""
        exchange = _Exchange(jvm, self.loaded.metadata, self._again)
        found = exchange.run(plan)
        if exchange.error is not None:
            hint = "Create the view again."
            _LOG.warning("The temporary view %s keeps the rows of before this commit: %s %s", name, exchange.error, hint)
            return None
        return found if exchange.count else None

    def _again(self, followed: Followed, which: int) -> Any:
        """The plan of a frame's new state. `which`: a frame may stand in a plan twice, and plans that meet have columns of their own."""
        key = (followed.number, which)
        if key not in self.made:
            self.made[key] = followed.make(self.loaded)
        return self.made[key]._jdf.logicalPlan()


@dataclass(frozen=True)
class _Cached:
    """A view in Spark's cache. `by_name`: it came there by its name, as by CACHE TABLE."""

    name: str
    frame: Any
    level: Any
    by_name: bool


class _Exchange:
    """Finds the frames that are behind in a plan, sub-queries included, and puts new ones in their places (`again` None: only finds)."""

    class Java:
        implements: ClassVar = ["scala.PartialFunction"]

    def __init__(self, jvm: Jvm, metadata: TableMetadata, again: Callable[[Followed, int], Any] | None):
        self._jvm, self._metadata, self._again, self._scala = jvm, metadata, again, _Scala.of(jvm)
        self._times: dict[int, int] = {}
        self.error: Exception | None = None

    @property
    def count(self) -> int:
        return sum(self._times.values())

    def run(self, plan: Any) -> Any:
        return plan.transformDownWithSubqueries(self)

    # Called by the JVM for every node of a plan.

    def applyOrElse(self, node: Any, _: Any) -> Any:
        found = node.getTagValue(self._scala.tag)
        followed = _FRAMES.get(found.get().getAsInt()) if found.isDefined() else None
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
        """The new plan under the old one's columns: what stands above knows them by their ids."""
        scala = self._scala
        there = {a.name(): a for a in each(plan.output())}
        columns = scala.nil
        for old in reversed(list(each(node.output()))):
            new = there.get(old.name())
            if new is None or new.dataType().catalogString() != old.dataType().catalogString():
                raise ValueError(f"column {old.name()} {'is gone' if new is None else 'has another type'}.")
            alias = scala.alias(new, old.name(), old.exprId(), old.qualifier(), scala.none, scala.nil)
            columns = columns.prepended(alias)
        made = scala.project(columns, plan)
        _mark(followed.spark, self._jvm, made, Followed(followed.spark, self._metadata, followed.make))
        return made
