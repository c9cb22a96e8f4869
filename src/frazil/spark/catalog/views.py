"""Serve the views of a catalog to Spark: the methods of `ViewCatalog` and `RelationCatalog`, which
Spark has from 4.2 on. In 4.1 a query is given the entry that stands for the view, and statements
about views are taken in the session's parser (`sql.view_statements`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.catalog.names import full_name
from frazil.errors import (
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from frazil.ops.session import Session
from frazil.spark.catalog.protocol import Calls, Parts, ViewDefinition
from frazil.spark.catalog.proxy import SparkProxy
from frazil.spark.catalog.table import ShownTable
from frazil.spark.host import jvm_errors, jvm_relations

DEFAULT_MODE = "COMPENSATION"
"""Spark's own default: rows are cast to the view's columns where its tables have changed."""


class ServedViews(SparkProxy):
    """Implement Spark's calls for views; a part of `ServedCatalog`."""

    spark: Session
    calls: Calls

    def listViews(self, namespace: JavaObject) -> Any:
        with self._view_errors(namespace=namespace):
            return self.types.identifiers(list(self.calls.list_views(tuple(namespace))))

    def loadView(self, identifier: JavaObject) -> Any:
        with self._view_errors(identifier):
            return self._view(self.types.names(identifier))

    def loadRelation(self, identifier: JavaObject) -> Any:
        try:
            return self._load(self.types.names(identifier))  # type: ignore[attr-defined]
        except (NoSuchTableError, NoSuchNamespaceError):
            try:
                return self._view(self.types.names(identifier))
            except (NoSuchViewError, NoSuchNamespaceError):
                raise jvm_errors.no_such_table(self.types.jvm, identifier) from None

    def listRelationSummaries(self, namespace: JavaObject) -> Any:
        """List what SHOW TABLES shows: tables only, as with Java Iceberg on every Spark; SHOW VIEWS
        shows the views.
        """
        with self._view_errors(namespace=namespace):
            return jvm_relations.summaries(
                self.types, list(self.calls.list_tables(tuple(namespace)))
            )

    def viewExists(self, identifier: JavaObject) -> bool:
        parts = self.types.names(identifier)
        return len(parts) > 1 and self.calls.view_exists(parts)

    def invalidateView(self, identifier: JavaObject) -> None:
        """Do nothing: each statement loads the view's newest state."""

    def createView(self, identifier: JavaObject, view: JavaObject) -> Any:
        with self._view_errors(identifier):
            self.calls.create_view(self.types.names(identifier), self._view_definition(view))
        return view

    def replaceView(self, identifier: JavaObject, view: JavaObject) -> Any:
        with self._view_errors(identifier):
            self.calls.replace_view(
                self.types.names(identifier), self._view_definition(view), create=False
            )
        return view

    def createOrReplaceView(self, identifier: JavaObject, view: JavaObject) -> Any:
        with self._view_errors(identifier):
            self.calls.replace_view(
                self.types.names(identifier), self._view_definition(view), create=True
            )
        return view

    def dropView(self, identifier: JavaObject) -> bool:
        try:
            self.calls.drop_view(self.types.names(identifier))
        except (NoSuchViewError, NoSuchNamespaceError):
            return False
        return True

    def renameView(self, identifier: JavaObject, to: JavaObject) -> None:
        with self._view_errors(identifier, to):
            try:
                self.calls.rename_view(self.types.names(identifier), self.types.names(to))
            except NoSuchNamespaceError as error:  # Java does not let Spark's exception pass here
                raise InvalidInput(
                    str(error),
                    hint="A view is renamed within its catalog, into a namespace that exists.",
                ) from error

    def _view_definition(self, view: JavaObject) -> ViewDefinition:
        return ViewDefinition(**jvm_relations.view_parts(self.types, view))

    def _view(self, parts: Parts) -> Any:
        """Return a view as this Spark reads or describes it. One that has no namespace for Spark, as
        in a namespace of the default catalog, Spark can describe but not read.
        """
        to_read = self.types.asked().as_relation
        d = self.calls.load_view(parts, to_read)
        names = list(d.query_columns) or d.columns.names
        context = (d.catalog or self.calls.name, d.namespace)
        mode = d.schema_mode or DEFAULT_MODE
        if jvm_relations.HAS_VIEWS and not (to_read and self.calls.prefix):
            return jvm_relations.view(
                self.types,
                self.spark,
                d.text,
                d.columns,
                names,
                *context,
                d.properties,
                mode,
                to_read,
            )
        if not to_read:
            raise NoSuchTableError(f"{'.'.join(parts)} is a view.")
        return jvm_relations.view_relation(
            self.types,
            self.spark,
            (self.calls.name, *parts),
            d.text,
            d.columns,
            names,
            *context,
            mode,
        )

    def _shown_view(self, parts: Parts) -> Any:
        """Return what SHOW TABLE EXTENDED shows of a view. It is a command of Spark's about tables
        that calls all of them MANAGED, by which dbt tells views from tables: it looks for `Type:
        VIEW`, which stands below the location, and for the provider of tables that it replaces in
        place, so there is none.
        """
        view = self.calls.load_view(parts, False)
        shown = {"location": f"{view.properties.get('location', '')}\nType: VIEW"}
        shown |= {k: v for k, v in view.properties.items() if k in ("comment", "owner")}
        name = full_name((self.calls.name, *parts))
        return ShownTable(self.types, self.spark, name, view.columns, shown)

    @contextlib.contextmanager
    def _view_errors(
        self,
        identifier: JavaObject | None = None,
        to: JavaObject | None = None,
        namespace: JavaObject | None = None,
    ) -> Iterator[None]:
        """Raise Spark's own exceptions for views that are missing or there already."""
        jvm = self.types.jvm
        try:
            yield
        except NoSuchNamespaceError as error:
            if namespace is None and identifier is not None:
                namespace = identifier.namespace()
            if namespace is None:
                raise
            raise jvm_errors.no_such_namespace(jvm, namespace) from error
        except NoSuchViewError as error:
            if identifier is None:
                raise
            raise jvm_errors.no_such_view(jvm, identifier) from error
        except (ViewAlreadyExistsError, TableAlreadyExistsError) as error:
            if identifier is None:
                raise
            raise jvm_errors.view_exists(jvm, to if to is not None else identifier) from error
