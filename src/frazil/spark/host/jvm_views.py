"""Call Spark's temporary views and its cache through py4j, tag plans with objects of this process,
and exchange parts of plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.spark.host import jvm_classes
from frazil.spark.host.jvm import CATALYST, EXPRESSIONS, Jvm, each, implementing, listen

_BY_CONNECTOR = "connector"


@dataclass(frozen=True)
class TemporaryView:
    """Describe a temporary view. `database`: that of global temporary views, None for those of a
    session; `raw`: Catalyst's definition.
    """

    name: str
    database: str | None
    raw: Any = field(repr=False)

    @property
    def quoted(self) -> str:
        """Return the name in back quotes, for SQL."""
        return back_quoted(part for part in (self.database, self.name) if part is not None)

    @cached_property
    def plan(self) -> Any:
        """Return the logical plan that the view keeps; None for a view that keeps SQL text, which
        Spark analyses at each use.
        """
        plan = self.raw.plan()
        return plan.get() if plan.isDefined() else None


@dataclass(frozen=True)
class CachedRows:
    """Describe an entry of Spark's cache. `name`: what stands for it, empty where a DataFrame was
    cached; `plan`: the logical plan of the cached rows; `level`: the storage level.
    """

    name: str
    plan: Any = field(repr=False)
    level: Any = field(repr=False)


class SparkCache:
    """List and exchange what Spark keeps in its cache, which all sessions of the JVM share."""

    def __init__(self, spark: Session, jvm: Jvm):
        self._session, self._jvm = spark._jsparkSession, jvm
        self._manager = self._session.sharedState().cacheManager()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is cached."""
        return bool(self._manager.isEmpty())

    def named(self) -> list[CachedRows]:
        """Return what was cached by a name, as by CACHE TABLE, and not as a DataFrame."""
        return [rows for rows in self.entries() if rows.name]

    def entries(self) -> list[CachedRows]:
        """Return what is cached. Spark shows its entries to nobody, so they are read from its
        private field."""
        entries = self._manager.getClass().getDeclaredField("cachedData")
        entries.setAccessible(True)
        in_cache = []
        for entry in each(entries.get(self._manager)):
            builder = entry.cachedRepresentation().cacheBuilder()
            table = builder.tableName()
            name = str(table.get()) if table.isDefined() else ""
            in_cache.append(CachedRows(name, entry.plan(), builder.storageLevel()))
        return in_cache

    def holds(self, plan: JavaObject) -> bool:
        """Tell whether queries take the rows of an analysed plan from the cache."""
        return bool(self._manager.lookupCachedData(self._session, plan).isDefined())

    def frame(self, name: str) -> Any:
        """Return the JVM's DataFrame that a name means now. Raises Spark's error for one that means
        nothing or cannot be analysed. It is asked for by a statement: only so a table comes without
        metadata columns, as queries that name none find it in the cache."""
        return self._session.sql(f"TABLE {name}")

    def of_frame(self, name: str) -> CachedRows | None:
        """Return the entry that serves a view by its name because its DataFrame was cached, or
        None. Raises Spark's error for a view that cannot be analysed.
        """
        frame = self.frame(name)
        entry = self._manager.lookupCachedData(frame)
        if not entry.isDefined():
            return None
        builder = entry.get().cachedRepresentation().cacheBuilder()
        if builder.tableName().isDefined():
            return None
        return CachedRows(name, frame.logicalPlan(), builder.storageLevel())

    def remove(self, rows: CachedRows) -> None:
        """Remove an entry, and nothing that was made of its rows."""
        self._manager.uncacheQuery(self._session, rows.plan, False)

    def add(self, name: str, frame: JavaObject, level: JavaObject) -> None:
        """Cache the rows of a DataFrame under a name, when they are first read."""
        if not self._manager.lookupCachedData(frame).isDefined():
            some = getattr(self._jvm.view, "scala.Option").apply
            self._manager.cacheQuery(frame, some(name), level)


class TemporaryViews:
    """List and replace the temporary views of a classic session, global ones included."""

    def __init__(self, spark: Session, jvm: Jvm):
        self._catalog = spark._jsparkSession.sessionState().catalog()
        self._identifier = getattr(jvm.view, CATALYST + "TableIdentifier")
        self._some = getattr(jvm.view, "scala.Option").apply

    def __iter__(self) -> Iterator[TemporaryView]:
        catalog = self._catalog
        of_session = [
            (name, None, catalog.getRawTempView) for name in each(catalog.getTempViewNames())
        ]
        global_names = each(catalog.globalTempViewManager().listViewNames("*"))
        of_all = [
            (name, catalog.globalTempDatabase(), catalog.getRawGlobalTempView)
            for name in global_names
        ]
        for name, database, look_up in [*of_session, *of_all]:
            if (raw := look_up(name)).isDefined():  # another thread may have dropped the view
                yield TemporaryView(name, database, raw.get())

    def replace(self, view: TemporaryView, plan: JavaObject) -> None:
        """Replace the plan of a view."""
        identifier = self._identifier(view.name, self._some(view.database))
        self._catalog.alterTempViewDefinition(
            identifier, view.raw.copy(view.raw.tableMeta(), self._some(plan))
        )


def is_temporary_view(spark: Session, name: str) -> bool:
    """Tell whether a classic session has a temporary view of this name."""
    return bool(spark._jsparkSession.sessionState().catalog().getRawTempView(name).isDefined())


def drop_temporary_view(spark: Session, name: str) -> None:
    """Drop a temporary view of a classic session. `spark.catalog` would drop what is cached of its
    rows, too.
    """
    spark._jsparkSession.sessionState().catalog().dropTempView(name)


class NumberedTag:
    """Give an object of this process a number, for which the JVM asks it
    (java.util.function.IntSupplier), so that it can be the tag of a plan: the plan keeps the object
    alive."""

    Java = implementing("java.util.function.IntSupplier")

    def __init__(self, number: int):
        self.number = number

    def getAsInt(self) -> int:
        """Return the number (IntSupplier's method, called by way of the JVM)."""
        return self.number


class PlanTags:
    """Tag Catalyst plans with an object of this process, and exchange a plan for another one under
    the same column ids.
    """

    def __init__(self, jvm: Jvm, name: str):
        self._jvm = jvm
        self._tag = getattr(jvm.view, CATALYST + "trees.TreeNodeTag")(name)
        self._alias = getattr(jvm.view, EXPRESSIONS + "Alias")
        self._project = getattr(jvm.view, CATALYST + "plans.logical.Project")
        self._finder: Any = None

    def set(self, spark: Session, plan: JavaObject, value: NumberedTag) -> None:
        """Tag a plan."""
        listen(spark)
        plan.setTagValue(self._tag, value)

    def number(self, plan: JavaObject) -> int | None:
        """Return the number of the tag's value, None if the plan is not tagged."""
        value = plan.getTagValue(self._tag)
        return int(value.get().getAsInt()) if value.isDefined() else None

    def parts(self, spark: Session, plan: JavaObject) -> tuple[list[int], bool]:
        """Return, by one call, the numbers of the tagged parts of a plan, sub-queries included, and
        whether a connector that tags no plans reads an Iceberg table in it. Raises Unsupported where
        the class that looks for them did not compile on this Spark.
        """
        listen(spark)
        if self._finder is None:
            self._finder = jvm_classes.make(spark, "TaggedParts", self._tag)
        words = str(self._finder.apply(plan)).split()
        numbers = [int(text) for text in words if text != _BY_CONNECTOR]
        return numbers, len(numbers) < len(words)

    def under_columns_of(self, old: JavaObject, new: JavaObject) -> Any:
        """Return a new plan that has an old one's columns, with their ids, by which the nodes above
        the old plan refer to them. Raises ValueError for a column that the new plan lacks or has
        with another type."""
        new_columns = {a.name(): a for a in each(new.output())}
        columns = self._jvm.nil
        for column in reversed(list(each(old.output()))):
            replacement = new_columns.get(column.name())
            if (
                replacement is None
                or replacement.dataType().catalogString() != column.dataType().catalogString()
            ):
                raise ValueError(
                    f"column {column.name()} {'is gone' if replacement is None else 'has another type'}."
                )
            named = self._alias(
                replacement,
                column.name(),
                column.exprId(),
                column.qualifier(),
                self._jvm.none,
                self._jvm.nil,
            )
            columns = columns.prepended(named)
        return self._project(columns, new)


class Rule:
    """Implement scala.PartialFunction, which the JVM calls for every node of a plan, by a Python
    function.
    """

    Java = implementing("scala.PartialFunction")

    def __init__(self, function: Callable[[Any], Any]):
        self._function = function

    def applyOrElse(self, node: JavaObject, _: object) -> Any:
        return self._function(node)

    def isDefinedAt(self, _: object) -> bool:
        return True

    def apply(self, node: JavaObject) -> Any:
        return self._function(node)


def rewritten(plan: JavaObject, function: Callable[[Any], Any]) -> Any:
    """Return a plan, sub-queries included, in which each node is exchanged, from the root down, for
    what a function returns for it. Call `listen` before. The function must not raise: its error
    would come back as one of py4j."""
    return plan.transformDownWithSubqueries(Rule(function))
