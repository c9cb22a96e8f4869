"""Call Spark's catalogs through py4j: the catalogs of a session, the tables that a catalog returns,
and the values of their interfaces.

A catalog of Frazil is a Python object that implements Spark's `TableCatalog` and its kin
(`frazil.spark.catalog`). What it returns to Spark is made here, and what Spark passes to it is read
here.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from py4j.java_collections import JavaArray
from py4j.java_gateway import JavaClass, JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.catalog.configuration import SPARK_PREFIX
from frazil.catalog.names import full_name, identifier_parts
from frazil.ops.session import Session
from frazil.scan.snapshot_ref import selector_suffix
from frazil.spark.host.jvm import (
    CATALYST,
    EXPRESSIONS,
    SPARK,
    Jvm,
    classic_jvm,
    each,
    listen,
    scala_seq,
    settings_version,
    text_pairs,
)
from frazil.spark.host.jvm_classes import before
from frazil.spark.host.jvm_plans import NodeKind, kind_of, with_definitions, with_fields
from frazil.spark.host.jvm_statements import StatementKind
from frazil.spark.host.jvm_views import Rule

CONNECTOR = SPARK + "sql.connector."
CATALOG = CONNECTOR + "catalog."
WRITE = CONNECTOR + "write."
STREAMS_CHANGES = SPARK + "sql.internal.connector.SupportsStreamingUpdateAsAppend"
INSERTABLE = SPARK + "sql.sources.InsertableRelation"
SESSION_CATALOG = "spark_catalog"
_KNOWN: weakref.WeakKeyDictionary[Jvm, CatalogTypes] = weakref.WeakKeyDictionary()
_NUMBERS = itertools.count(1)
_CHANGING = (StatementKind.DELETE, StatementKind.UPDATE, StatementKind.MERGE)
_EXTENDED = "ShowTablesExtendedExec"
_PIPELINES = "pipelines.graph.DatasetManager"
_ABOUT_TABLES = (
    "lookupTableOrView",
    _EXTENDED,
    "ShowTablesExec",
    "DataStreamWriter.toTable",
    "Catalog.refreshTable",
    _PIPELINES,
)
"""Methods and classes of Spark that ask for a table to tell about it or to write, not to read its
rows."""
_CACHES = "Catalog.cacheTable("
_ONLY_READS = re.compile(r"\s*(?:select|insert|with)\b", re.IGNORECASE)
"""The beginnings of statements that ask for tables to read or to write their rows only; of others
the JVM's stack tells.
"""
_WORD = re.compile(r"\w+")
_KEPT_SECONDS, _KEPT_PLANS = 120, 256


# The catalogs of a session
# --------------------------------------------------------------------------------------------------


def catalogs_of(spark: Session) -> Any:
    """Return the map in which a session's CatalogManager keeps its catalogs by name. Raises one of
    NOT_AS_KNOWN.
    """
    manager = spark._jsparkSession.sessionState().catalogManager()
    field = manager.getClass().getDeclaredField("catalogs")
    field.setAccessible(True)
    return field.get(manager)


def own_session_catalog(spark: Session) -> Any:
    """Return the catalog `spark_catalog` that Spark makes itself, whatever the session's settings
    put in its place. Raises one of NOT_AS_KNOWN, or Py4JJavaError.
    """
    manager = spark._jsparkSession.sessionState().catalogManager()
    field = manager.getClass().getDeclaredField("defaultSessionCatalog")
    field.setAccessible(True)
    return field.get(manager)


def put_catalog(spark: Session, name: str, catalog: Any) -> None:
    """Make an object of this process the session's catalog of a name. Raises one of NOT_AS_KNOWN
    where the CatalogManager has changed.
    """
    listen(spark)
    catalogs_of(spark).put(name, before(spark, catalog))


def remove_catalog(spark: Session, name: str) -> None:
    """Drop the session's catalog of a name; Spark loads it again by its settings when it is asked
    for.
    """
    catalogs_of(spark).remove(name)


def current_catalog(spark: Session) -> str:
    """Return the name of the session's current catalog."""
    return str(spark._jsparkSession.sessionState().catalogManager().currentCatalog().name())


def knows_catalog(spark: Session, name: str) -> bool:
    """Tell whether Spark takes the first part of a name for a catalog: `spark_catalog`, or one that
    the session's settings have."""
    return name == SESSION_CATALOG or bool(spark.conf.get(SPARK_PREFIX + name, ""))


def current_namespace(spark: Session) -> tuple[str, ...]:
    """Return the session's current namespace."""
    return tuple(map(str, spark._jsparkSession.sessionState().catalogManager().currentNamespace()))


def with_full_names(
    spark: Session, plan: JavaObject, name_of: Callable[[tuple[str, ...]], Sequence[str]]
) -> Any:
    """Return a statement's parsed plan in which each table also has the alias of its full name, so
    that `catalog.db.t.column` is resolved; not the one that a statement changes, which is read by
    its place. `name_of`: the full name that parts mean."""
    catalyst = getattr(spark._jvm, CATALYST.removesuffix("."))

    def named(node: JavaObject) -> Any:
        kind = kind_of(node)
        if kind in _CHANGING:
            children = node.children()
            return node.withNewChildren(children.tail().prepended(unnamed(children.head())))
        if kind == NodeKind.UNRESOLVED_WITH:
            defined = [within(relation._2()) for relation in each(node.cteRelations())]
            return with_definitions(spark, node, defined, node.child())
        if kind != NodeKind.UNRESOLVED_RELATION:
            return node
        *above, name = name_of(tuple(map(str, each(node.multipartIdentifier()))))
        return catalyst.plans.logical.SubqueryAlias(
            catalyst.AliasIdentifier(name, scala_seq(spark, above)), node
        )

    def unnamed(target: JavaObject) -> Any:
        if kind_of(target) != NodeKind.SUBQUERY_ALIAS:  # IDENTIFIER computes its name
            return target
        inside = target.child()
        if kind_of(inside) != NodeKind.SUBQUERY_ALIAS:
            return inside
        return target.copy(target.identifier(), inside.child())

    def within(inside: JavaObject) -> Any:
        return inside.transformUpWithSubqueries(Rule(named))

    listen(spark)
    return within(plan)


def with_targets_of_their_own(
    spark: Session,
    plan: JavaObject,
    is_ours: Callable[[tuple[str, ...]], bool],
    name_of: Callable[[tuple[str, ...]], Sequence[str]],
) -> Any:
    """Return a statement's parsed plan in which an INSERT, with REPLACE WHERE or without, names the
    main branch of its table. Spark 4.1 and 4.2 take the table that is read in the same statement
    for the one to write to, unless it has another name. `name_of`: the full name that parts mean.
    """

    def inserting(node: JavaObject) -> Any:
        kind = kind_of(node)
        if (
            kind not in ("InsertIntoStatement", "OverwriteByExpression")
            or kind_of(node.table()) != NodeKind.UNRESOLVED_RELATION
        ):
            return node
        table = node.table()
        parts = tuple(map(str, each(table.multipartIdentifier())))
        if not is_ours(parts) or selector_suffix(parts[-1]):
            return node
        main = table.copy(
            scala_seq(spark, (*name_of(parts), "branch_main")), table.options(), table.isStreaming()
        )
        if kind == "OverwriteByExpression":
            return node.withNewTable(main)
        return with_fields(node, table=main)

    listen(spark)
    return plan.transformUp(Rule(inserting))


def options_of(
    spark: Session, sql: str, names: Collection[tuple[str, ...]]
) -> list[dict[str, str]]:
    """Return the options of WITH (…) that a statement's text gives a table, one dict for each place
    that has options. `names`: by which the text may call the table, in small letters."""
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    in_text: list[dict[str, str]] = []

    def look(node: JavaObject) -> Any:
        if kind_of(node) == NodeKind.UNRESOLVED_RELATION and node.options().size():
            if tuple(str(part).lower() for part in each(node.multipartIdentifier())) in names:
                in_text.append(text_pairs(spark._jvm, node.options().asCaseSensitiveMap()))
        return node

    listen(spark)
    plan.transformUpWithSubqueries(Rule(look))
    return in_text


def has_database(spark: Session, name: str) -> bool:
    """Tell whether Spark's own catalog has a database."""
    return bool(spark._jsparkSession.sessionState().catalog().databaseExists(name))


def settings_mark(spark: Session) -> Any:
    """Return a value that changes when a setting of the session does."""
    return settings_version(spark)


# The values of Spark's interfaces
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Describe by whom a catalog is asked for a table. `as_relation`: by a query, which reads its
    rows; else by a statement about the table, such as DESCRIBE or ALTER TABLE. `text`: of the
    statement, None where it was not made of SQL text. `to_cache`: by `spark.catalog.cacheTable`;
    `by_pipeline`: by a declarative pipeline that makes its tables."""

    as_relation: bool
    text: str | None
    to_cache: bool = False
    by_pipeline: bool = False


@dataclass(frozen=True)
class TableRequest:
    """Hold what Spark asks a catalog for beside the name. `selectors`: `version` (a snapshot's id,
    branch or tag) or `as_of_ms`; `writes`: the privileges of a write, such as INSERT; `options`: of
    the statement, as in WITH (…)."""

    selectors: Mapping[str, Any] = field(default_factory=dict)
    writes: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Relation:
    """Hold the relation that stands for a table's rows in queries. `plan`: the analysed plan;
    `sessions`, `key`: the session's relation cache, and the plan's key in it; `table`: Spark's
    V1Table, which names that place."""

    sessions: Any
    key: Any
    plan: Any
    table: Any


class CatalogTypes:
    """Make and read the values of Spark's catalog interfaces. One for each JVM (`catalog_types`)."""

    def __init__(self, spark: Session, jvm: Jvm):
        self.jvm, view = jvm, jvm.view
        self._gateway = spark.sparkContext._gateway
        self._object = view.java.lang.Object
        self._identifier = getattr(view, CATALOG + "Identifier")
        self._v2_util = getattr(view, CATALOG + "CatalogV2Util")
        self._to_columns = self._v2_util.structTypeToV2Columns
        self._to_columns_default: tuple[Any, ...] = ()
        with contextlib.suppress(Py4JError):  # 4.1 and 4.2 have no second parameter
            self._to_columns_default = (
                getattr(self._v2_util, "structTypeToV2Columns$default$2")(),
            )
        self._v1_table = getattr(view, CATALOG + "V1Table")
        self._transform = getattr(view, CONNECTOR + "expressions.Transform")
        self._expressions = getattr(view, CONNECTOR + "expressions.Expressions")
        self._constraint = getattr(view, CATALOG + "constraints.Constraint")
        self._metric = getattr(view, CONNECTOR + "metric.CustomMetric")
        self._task_metric = getattr(view, CONNECTOR + "metric.CustomTaskMetric")
        self._metadata_column = getattr(view, CATALOG + "MetadataColumn")
        self._capability = getattr(view, CATALOG + "TableCapability")
        self._table_identifier = getattr(view, CATALYST + "TableIdentifier")
        self._qualified = getattr(view, CATALYST + "QualifiedTableName")
        self._to_expression = getattr(view, EXPRESSIONS + "V2ExpressionUtils").toCatalystOpt
        self._some = getattr(view, "scala.Option").apply
        self._seq = view.PythonUtils.toSeq
        self._project = getattr(view, CATALYST + "plans.logical.Project")
        self._hidden_tag = getattr(view, CATALYST + "trees.TreeNodeTag")("hidden_output")
        self._throwable = view.java.lang.Throwable
        self._trace = getattr(
            view, "org.apache.commons.lang3.exception.ExceptionUtils"
        ).getStackTrace
        self._origin = getattr(view, CATALYST + "trees.CurrentOrigin").get
        self._table_arguments, self._table_constructor = self._catalog_table()
        self._sessions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._lock, self._plans = threading.Lock(), deque[tuple[float, Relation, int | None]]()
        self.spelled = deque[str | None](maxlen=_KEPT_PLANS)
        """Texts of statements whose stars leave out the metadata columns that the plans of their
        tables show.
        """
        self.no_metrics, self.no_task_metrics = (
            self.array(self._metric, ()),
            self.array(self._task_metric, ()),
        )
        self._values: dict[Any, Any] = {}
        # a lambda, since py4j's methods have none of a function's attributes
        from_json = jvm.java_class(f"{SPARK}sql.types.DataType").fromJson
        self._data_type = lru_cache(256)(lambda text: from_json(text))
        self.no_constraints = self.array(self._constraint, ())

    # --- arrays, maps and names

    def array(self, of: JavaClass, values: Sequence[Any]) -> Any:
        """Make a Java array."""
        array = self._gateway.new_array(of, len(values))
        for place, value in enumerate(values):
            array[place] = value
        return array

    def strings(self, values: Sequence[str]) -> Any:
        """Make a Java array of strings."""
        return self.jvm.texts(values)

    def string_arrays(self, values: Sequence[Sequence[str]]) -> Any:
        """Make a Java array of arrays of strings, as namespaces are listed."""
        return self.jvm.from_json(list(map(list, values)), "[[Ljava.lang.String;")

    def string_set(self, values: Sequence[str] = ()) -> Any:
        """Make a Java set of strings."""
        java_set = self.jvm.view.java.util.HashSet()
        for value in values:
            java_set.add(value)
        return java_set

    def lasting(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value that Spark only reads, made at the first call for it."""
        if key not in self._values:
            self._values[key] = make()
        return self._values[key]

    def option_keys(self, keys: Sequence[str] = ()) -> Any:
        """Make the set of the names of options."""
        return self.lasting(("keys", *keys), lambda: self.string_set(keys))

    def string_map(self, values: Mapping[str, str]) -> Any:
        """Make a Java map of strings."""
        return self.jvm.from_json(dict(values), "java.util.HashMap")

    def identifier(self, parts: Sequence[str]) -> Any:
        """Make Spark's Identifier."""
        return self._identifier.of(self.strings(parts[:-1]), parts[-1])

    def identifiers(self, names: Sequence[Sequence[str]]) -> Any:
        """Make a Java array of identifiers."""
        return self.array(self._identifier, [self.identifier(parts) for parts in names])

    def not_among(
        self, names: Sequence[tuple[str, ...]], identifiers: JavaObject
    ) -> list[tuple[str, ...]]:
        """Return the names of tables that a Java array of identifiers does not hold."""
        objects = self._longer(self._object, identifiers)  # py4j finds methods by the exact type
        contains = getattr(self.jvm.view, "org.apache.commons.lang3.ArrayUtils").contains
        return [parts for parts in names if not contains(objects, self.identifier(parts))]

    def with_more_tables(self, identifiers: JavaObject, names: Sequence[tuple[str, ...]]) -> Any:
        """Make a Java array of identifiers longer by those of further tables."""
        return self._longer(self._identifier, identifiers, self.identifiers(names))

    def with_more_summaries(self, summaries: JavaArray, others: JavaArray) -> Any:
        """Make a Java array of the summaries in two."""
        return self._longer(getattr(self.jvm.view, CATALOG + "TableSummary"), summaries, others)

    def _longer(self, kind: JavaClass, *arrays: JavaArray) -> Any:
        joined, place = self._gateway.new_array(kind, sum(map(len, arrays))), 0
        for array in arrays:
            self.jvm.view.java.lang.System.arraycopy(array, 0, joined, place, len(array))
            place += len(array)
        return joined

    # --- columns, transforms, capabilities

    def data_type(self, spark: Session, data_type: s.DataType) -> Any:
        """Make a data type of Spark's in the JVM, those of late once."""
        return self._data_type(data_type.json())

    def struct_type(self, spark: Session, schema: s.StructType) -> Any:
        """Make Spark's StructType in the JVM."""
        return self.data_type(spark, schema)

    def columns(self, struct_type: JavaObject) -> Any:
        """Make the array of `Column` that a StructType of the JVM describes; the metadata of its
        fields holds comments and defaults.
        """
        return self._to_columns(struct_type, *self._to_columns_default)

    def struct_type_of(self, columns: JavaArray) -> s.StructType:
        """Return an array of `Column` as a StructType of PySpark; the metadata of its fields holds
        comments and defaults.
        """
        return s._parse_datatype_json_string(self._v2_util.v2ColumnsToStructType(columns).json())

    def transforms(self, terms: Sequence[tuple[str, Sequence[object]]]) -> Any:
        """Make an array of Transform. `terms`: the function's name and its arguments, whole numbers
        or names of columns.
        """
        return self.array(
            self._transform, [self._one_transform(name, arguments) for name, arguments in terms]
        )

    def _one_transform(self, name: str, arguments: Sequence[object]) -> Any:
        make = self._expressions
        match (
            name,
            arguments,
        ):  # Spark shows these, and only these, as partition columns and buckets
            case "identity", [column]:
                return make.identity(column)
            case "bucket", [int(count), column]:
                return make.bucket(count, self.strings([str(column)]))
            case (("years" | "months" | "days" | "hours"), [column]):
                return getattr(make, name)(column)
        terms = [make.literal(a) if isinstance(a, int) else make.column(str(a)) for a in arguments]
        return make.apply(
            name, self.array(getattr(self.jvm.view, CONNECTOR + "expressions.Expression"), terms)
        )

    def references(self, columns: Sequence[str]) -> Any:
        """Make an array of references to columns."""
        kind = getattr(self.jvm.view, CONNECTOR + "expressions.NamedReference")
        return self.array(kind, [self._expressions.column(name) for name in columns])

    def catalog_capabilities(self, names: Sequence[str]) -> Any:
        """Make the set of a catalog's capabilities."""
        kind = getattr(self.jvm.view, CATALOG + "TableCatalogCapability")
        return self.lasting(
            ("catalog", *names), lambda: self.string_set([kind.valueOf(name) for name in names])
        )

    def capabilities(self, names: Sequence[str]) -> Any:
        """Make the set of a table's capabilities."""
        return self.lasting(
            ("table", *names),
            lambda: self.string_set([self._capability.valueOf(name) for name in names]),
        )

    def metadata_columns(self, columns: Sequence[Any]) -> Any:
        """Make an array of metadata columns, which are objects of this process."""
        array = self._gateway.new_array(self._metadata_column, len(columns))
        for place, column in enumerate(columns):
            # py4j's own assignment to an array takes no objects of this process
            self.jvm.java_class("java.lang.reflect.Array").set(array, place, column)
        return array

    # --- a table's rows

    def _catalog_table(self) -> tuple[Any, Any]:
        """Return the arguments of a CatalogTable's constructor with its defaults, and the
        constructor.
        """
        view = self.jvm.view
        loader = view.java.lang.Thread.currentThread().getContextClassLoader()
        find = view.java.lang.Class.forName
        module = CATALYST + "catalog."
        companion = find(module + "CatalogTable$", True, loader).getField("MODULE$").get(None)
        constructor = find(module + "CatalogTable", True, loader).getConstructors()[0]
        count = constructor.getParameterCount()
        arguments = self._gateway.new_array(self._object, count)
        arguments[1] = getattr(view, module + "CatalogTableType").MANAGED()
        arguments[2] = getattr(view, module + "CatalogStorageFormat").empty()
        arguments[4] = self._some("iceberg")
        for place in range(5, count):
            arguments[place] = getattr(companion, f"$lessinit$greater$default${place + 1}")()
        return arguments, constructor

    def relation(
        self,
        spark: Session,
        catalog: str,
        parts: Sequence[str],
        frame: DataFrame,
        hidden: Sequence[str] = (),
    ) -> Relation:
        """Make the relation that stands for the rows of a DataFrame in a query. `hidden`: the names
        of the last columns, which are metadata columns.
        """
        plan, place = frame._jdf.queryExecution().analyzed(), f"{catalog} {next(_NUMBERS)}"
        if hidden:
            plan = self._hiding(plan, hidden)
        key = self._qualified(place, parts[-2], parts[-1])
        table = self._v1_table(self.catalog_table((place, parts[-2], parts[-1]), plan.schema()))
        return Relation(self._session_catalog(spark), key, plan, table)

    def given(self, relation: Relation, *, lasts: bool) -> Any:
        """Return the V1Table that Spark's analyser replaces by the plan of a relation.

        The plan goes through the session's relation cache, under a name of its own, and leaves it
        when it is old: a query has taken it long before. `lasts`: further statements will be given
        it; others leave as soon as the statement is analysed (`forget_plans`).
        """
        relation.sessions.cacheTable(relation.key, relation.plan)
        if not lasts:
            with self._lock:
                self._plans.append((time.monotonic(), relation, self.jvm.thread_id()))
        self._forget_old()
        return relation.table

    def withdraw(self, relation: Relation) -> None:
        """Let a relation that lasted leave the relation cache, once no statement can be about to
        take it.
        """
        with self._lock:
            self._plans.append((time.monotonic(), relation, None))

    def catalog_table(self, name: str | Sequence[str], schema: JavaObject) -> Any:
        """Make Spark's CatalogTable. `name`: catalog, database and table, or one text; `schema`: a
        StructType of the JVM.
        """
        if isinstance(name, str):
            identifier = self._table_identifier(name, self.jvm.none, self.jvm.none)
        else:
            identifier = self._table_identifier(name[2], self._some(name[1]), self._some(name[0]))
        _, table_type, storage, _, *others = self.lasting(
            "fields of a table", lambda: self._table_fields(identifier, schema)
        )
        return self._values["a table"].copy(identifier, table_type, storage, schema, *others)

    def _table_fields(self, identifier: JavaObject, schema: JavaObject) -> list[Any]:
        with self._lock:
            self._table_arguments[0], self._table_arguments[3] = identifier, schema
            table = self._values["a table"] = self._table_constructor.newInstance(
                self._table_arguments
            )
        return [table.productElement(n) for n in range(table.productArity())]

    def _session_catalog(self, spark: Session) -> Any:
        """Return the SessionCatalog of a session, which holds its relation cache."""
        if (catalog := self._sessions.get(spark)) is None:
            catalog = self._sessions[spark] = spark._jsparkSession.sessionState().catalog()
        return catalog

    @cached_property
    def not_columnar(self) -> Any:
        """Return that a scan gives rows, not batches of columns."""
        return getattr(self.jvm.view, CONNECTOR + "read.Scan$ColumnarSupportMode").valueOf(
            "UNSUPPORTED"
        )

    @cached_property
    def hides(self) -> bool:
        """Tell whether hidden columns can be named above the alias of a table (4.3); in 4.1 and 4.2
        a table's plan shows all it has.
        """
        view = self.jvm.view
        spark_class = getattr(view, SPARK + "sql.classic.SparkSession")
        session = spark_class.active()
        plan = self._hiding(session.sql("SELECT 1 AS a, 2 AS b").queryExecution().analyzed(), ["b"])
        alias = getattr(getattr(view, CATALYST + "plans.logical.SubqueryAlias$"), "MODULE$")
        return not alias.apply("x", plan).metadataOutput().isEmpty()

    def _hiding(self, plan: JavaObject, hidden: Sequence[str]) -> Any:
        """Hide the last columns of a plan: `*` leaves them out, and a query that names one gets it,
        as with metadata columns.
        """
        output, last = plan.output(), len(hidden)
        names = zip(each(output.takeRight(last)), hidden, strict=True)
        hiding = self._project(output.dropRight(last), plan)
        hiding.setTagValue(
            self._hidden_tag,
            self._seq([column.withMetadata(self._mark(name)) for column, name in names]),
        )
        return hiding

    def _mark(self, name: str) -> Any:
        """Return the metadata by which Spark knows a metadata column."""
        from_json = getattr(self.jvm.view, SPARK + "sql.types.Metadata").fromJson
        return self.lasting(("mark", name), lambda: from_json(f'{{"__metadata_col": "{name}"}}'))

    def view_table(
        self, name: Sequence[str], schema: JavaObject, text: str, properties: Mapping[str, str]
    ) -> Any:
        """Return the V1Table that Spark's analyser replaces by the query of a view. `name`: with
        its catalog.
        """
        *catalog, database, table = name
        immutable = getattr(self.jvm.view, "org.apache.spark.api.python.PythonUtils").toScalaMap(
            self.string_map(properties)
        )
        arguments = self.jvm.view.java.util.Arrays.copyOf(
            self._table_arguments, len(self._table_arguments)
        )
        identifier = self._table_identifier(
            table, self._some(database), self._some(full_name(catalog))
        )
        arguments[0], arguments[3] = identifier, schema
        plain = self._table_constructor.newInstance(arguments)
        places = {str(plain.productElementName(n)): n for n in range(plain.productArity())}
        kind = getattr(self.jvm.view, CATALYST + "catalog.CatalogTableType").VIEW()
        values = {"tableType": kind, "viewText": self._some(text), "properties": immutable}
        for field_name, value in {**values, "viewOriginalText": self._some(text)}.items():
            arguments[places[field_name]] = value
        return self._v1_table(self._table_constructor.newInstance(arguments))

    def forget_plans(self) -> None:
        """Take the plans that this thread's statement was given out of the relation cache again; it
        is analysed by now.

        py4j serves calls of the JVM by threads of their own in this process, but on the JVM's
        thread of the caller.
        """
        if all(plan[2] is None for plan in tuple(self._plans)):
            return
        own = self.jvm.thread_id()
        with self._lock:
            mine = [plan for plan in self._plans if plan[2] == own]
            for plan in mine:
                self._plans.remove(plan)
        for _, relation, _ in mine:
            relation.sessions.invalidateCachedTable(relation.key)

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._plans and (
            len(self._plans) > _KEPT_PLANS or now - self._plans[0][0] > _KEPT_SECONDS
        ):
            try:
                _, relation, _ = self._plans.popleft()
            except IndexError:  # another thread was quicker
                return
            relation.sessions.invalidateCachedTable(relation.key)

    # --- what Spark asks for

    def table_request(self, *how: JavaObject | str | int) -> TableRequest:
        """Read the arguments of `loadTable` after the identifier: none; a version, a time in
        microseconds, or privileges (4.1, 4.2); a TableContext and options (4.3)."""
        if not how or how[0] is None:
            return TableRequest()
        first = how[0]
        if isinstance(first, str):
            return TableRequest({"version": first})
        if isinstance(first, int):
            return TableRequest({"as_of_ms": first // 1000})
        if kind_of(first) != "TableContext":
            return TableRequest(writes=self._privileges(first))
        travel, selectors = first.timeTravel(), {}
        if travel.isPresent():
            selectors = self._travel(travel.get())
        return TableRequest(
            selectors,
            self._privileges(first.writePrivileges()),
            self.options(how[1]) if len(how) > 1 else {},
        )

    def _privileges(self, privileges: JavaObject) -> frozenset[str]:
        """Return the names in a set of privileges, by its text: py4j asks for the elements of a set
        one by one.
        """
        return frozenset(_WORD.findall(str(privileges.toString())))

    def _travel(self, travel: JavaObject) -> dict[str, Any]:
        methods = {str(m.getName()) for m in travel.getClass().getMethods()}
        if "version" in methods:
            return {"version": str(travel.version())}
        for name in ("timestampMicros", "timestamp", "micros"):
            if name in methods:
                return {"as_of_ms": int(getattr(travel, name)()) // 1000}
        raise NotImplementedError(
            f"This Spark travels in time by {travel.toString()}, which Frazil does not know."
        )

    def definition(self, *arguments: JavaObject) -> tuple[s.StructType, list[str], dict[str, str]]:
        """Read the arguments of `createTable` after the identifier: a TableInfo, or columns,
        transforms and properties.
        """
        if len(arguments) == 1:
            info = arguments[0]
            columns, transforms, properties = info.columns(), info.partitions(), info.properties()
        else:
            columns, transforms, properties = arguments
        schema = columns if hasattr(columns, "json") and not hasattr(columns, "__len__") else None
        struct = (
            self.struct_type_of(columns)
            if schema is None
            else s._parse_datatype_json_string(schema.json())
        )
        return struct, self.texts(transforms), self.pairs(properties)

    def provider(self, *arguments: JavaObject) -> str:
        """Return the provider among the arguments of `createTable`, empty where there is none."""
        properties = arguments[0].properties() if len(arguments) == 1 else arguments[2]
        return str(properties.get("provider") or "")

    def transforms_of(self, *arguments: JavaObject) -> Any:
        """Return the transforms among the arguments of `createTable`."""
        return arguments[0].partitions() if len(arguments) == 1 else arguments[1]

    def within(self, prefix: tuple[str, ...]) -> Any:
        """Return the values for a catalog that is a namespace of another one."""
        return _Within(self, prefix)

    # --- who asks

    def asked(self) -> Asked:
        """Tell by whom the catalog is asked, from within a call of the JVM: the methods that run on
        the JVM's thread say so.
        """
        option = str(self._origin().sqlText().toString())  # of Scala's Option, in one call
        text = option.removeprefix("Some(").removesuffix(")") if option != "None" else None
        if text is not None and _ONLY_READS.match(text) is not None:
            return Asked(True, text)
        stack = str(self._trace(self._throwable()))
        about = any(method in stack for method in _ABOUT_TABLES)
        return Asked(not about, text, _CACHES in stack, _PIPELINES in stack)

    def lists_all(self) -> bool:
        """Tell whether the catalog is asked by SHOW TABLE EXTENDED, from within a call of the JVM."""
        return _EXTENDED in str(self._trace(self._throwable()))

    # --- what Spark passes

    def names(self, identifier: JavaObject) -> tuple[str, ...]:
        """Return the parts of an Identifier, the namespace first."""
        return identifier_parts(identifier.toString())

    def texts(self, transforms: JavaArray) -> list[str]:
        """Return partition transforms as text, as in `days(ts)`."""
        return [str(t.toString()) for t in transforms]

    def pairs(self, java_map: JavaObject) -> dict[str, str]:
        """Return a Java map of strings."""
        return text_pairs(self.jvm.view, java_map)

    def options(self, insensitive: JavaObject) -> dict[str, str]:
        """Return a CaseInsensitiveStringMap with its names as they were written."""
        return {} if insensitive.isEmpty() else self.pairs(insensitive.asCaseSensitiveMap())

    def condition(self, predicates: JavaObject) -> str:
        """Return the conjunction of `Predicate`s as SQL text."""
        return " AND ".join(f"({self._sql(p)})" for p in predicates) or "true"

    def _sql(self, expression: JavaObject) -> str:
        kind = str(expression.getClass().getSimpleName())
        if kind == "LiteralValue":
            # The value stays in the JVM: of a Java Long, Py4J would send back an Integer.
            return str(self._to_expression(expression, None, self._some(None)).get().sql())
        if kind == "FieldReference":
            return str(expression.toString())
        children = [self._sql(child) for child in expression.children()]
        if kind == "Cast":
            return f"CAST({children[0]} AS {expression.dataType().sql()})"
        name = str(expression.name())
        match name, children:
            case ("ALWAYS_TRUE", _):
                return "true"
            case ("ALWAYS_FALSE", _):
                return "false"
            case ("IS_NULL", [child]):
                return f"{child} IS NULL"
            case ("IS_NOT_NULL", [child]):
                return f"{child} IS NOT NULL"
            case ("NOT", [child]):
                return f"NOT ({child})"
            case ("AND" | "OR", [left, right]):
                return f"({left}) {name} ({right})"
            case ("IN", [child, *values]):
                return f"{child} IN ({', '.join(values)})"
            case ("STARTS_WITH" | "ENDS_WITH" | "CONTAINS", [left, right]):
                return f"{name.replace('_', '').lower()}({left}, {right})"
            case (_, [left, right]) if not name.isidentifier():
                return f"{left} {name} {right}"
        return f"{name.lower()}({', '.join(children)})"


class _Within:
    """Act as CatalogTypes for a catalog that is a namespace of another one: names begin with the
    namespace.
    """

    def __init__(self, types: CatalogTypes, prefix: tuple[str, ...]):
        self._types, self._prefix = types, prefix

    def names(self, identifier: JavaObject) -> tuple[str, ...]:
        """Return the parts of an Identifier, the whole namespace first."""
        return (*self._prefix, *self._types.names(identifier))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._types, name)


def catalog_types(spark: Session) -> CatalogTypes:
    """Return the values of a session's JVM. Raises one of NOT_AS_KNOWN where this Spark has others."""
    jvm = classic_jvm(spark)
    if (types := _KNOWN.get(jvm)) is None:
        types = _KNOWN[jvm] = CatalogTypes(spark, jvm)
    return types
