"""Look up the names of tables in statements as Spark does: whole, or within the session's current
catalog and namespace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.names import full_name, identifier_parts
from frazil.dropin.catalogs import known_catalogs, register
from frazil.dropin.names import (
    catalog_of,
    default_is_there,
    in_session_catalog,
    is_ours,
    is_served,
)
from frazil.dropin.tables import open_table
from frazil.ops.find_table import find_in
from frazil.ops.session import Session
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.jvm_catalog import (
    SESSION_CATALOG,
    current_catalog,
    current_namespace,
    knows_catalog,
)
from frazil.spark.host.jvm_views import is_temporary_view
from frazil.sql.nodes import Name
from frazil.table.catalog import Catalog
from frazil.table.load import loaded_catalogs, table_of
from frazil.table.table import Table


@dataclass(frozen=True)
class SessionNames:
    """Implement `sql.run.NamesOfTables` for a session."""

    spark: Session

    def is_ours(self, name: Name) -> bool:
        """Tell whether a name is within a catalog that Frazil serves, or is a table of the default
        catalog that Spark does not know.
        """
        self.catalogs()
        if self._within(name) is not None:
            return True
        return (
            not self._is_of_others(name)
            and current_catalog(self.spark) == SESSION_CATALOG
            and is_ours(self.spark, full_name(name))
        )

    def may_be_ours(self, name: Name) -> bool:
        """Tell whether a name can be a table of Frazil's, whichever catalog and namespace are
        current.
        """
        return not self._is_of_others(name)

    def open(self, name: Name) -> tuple[Table, str | None]:
        """Open a table, and return it with the branch that the name selects. Raises
        NoSuchTableError, and InvalidInput for what takes no writes."""
        if (within := self._within(name)) is None:
            return open_table(full_name(name), {}, self.spark)
        return _opened(*within)

    def catalogs(self) -> Collection[str]:
        """Return the names of the catalogs that Frazil serves. They are looked over first: a
        statement from inside the JVM may be the first one since a setting changed."""
        register(self.spark)
        return known_catalogs(self.spark)

    def spelled(self, name: Name) -> Name:
        """Return the name with its catalog and namespace, by which expressions may call the table."""
        within = self._within(name)
        return name if within is None else (within[0].name, *within[1])

    def _within(self, name: Name) -> tuple[Catalog, Name] | None:
        """Return the catalog of Frazil's that a name is within, and the name there; None where it
        is within none.
        """
        catalogs = known_catalogs(self.spark)
        if (of_session := in_session_catalog(self.spark, name)) is not None:
            return of_session
        if len(name) > 1 and name[0] in catalogs.keys() - {SESSION_CATALOG}:
            first = catalogs[name[0]]
            return first.catalog, (*first.prefix, *name[1:])
        current = catalogs.get(current_catalog(self.spark))
        if self._is_of_others(name) or current is None or current.name == SESSION_CATALOG:
            return None
        if len(name) == 1:
            return (
                None
                if is_temporary_view(self.spark, name[0])
                else (
                    current.catalog,
                    (*current.prefix, *current_namespace(self.spark), *name),
                )
            )
        return current.catalog, (*current.prefix, *name)

    def _is_of_others(self, name: Name) -> bool:
        """Tell whether a name begins with a catalog that Frazil does not serve."""
        if len(name) < 2 or name[0] in known_catalogs(self.spark):
            return False
        return knows_catalog(self.spark, name[0])


def in_full(spark: Session, name: str) -> str:
    """Return the name of a table with the session's current catalog and namespace where they are
    left out and Frazil serves that catalog; other names and locations as they are. `default.db.t`
    is a name of the default catalog where that is there, as it is in SQL.
    """
    if not is_served(spark, name):
        return name
    parts = tuple(identifier_parts(name))
    is_default = catalog_of(spark, name) == DEFAULT_CATALOG and default_is_there(spark)
    if is_default and in_session_catalog(spark, parts) is None:
        return name
    return full_name(SessionNames(spark).spelled(parts))


def with_full_name(spark: Session, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `format("iceberg")`, `path` among them as `in_full` has it."""
    return {
        k: in_full(spark, str(v)) if k.lower() == "path" and v else v for k, v in options.items()
    }


@dataclass(frozen=True)
class ConnectNames:
    """Implement `sql.run.NamesOfTables` for a session of Spark Connect, whose current catalog
    is the server's: names are whole.
    """

    spark: Session

    def is_ours(self, name: Name) -> bool:
        """Tell whether a name is within a catalog of Frazil's, or is a table of the default one
        that Spark does not know.
        """
        return self._catalog(name) is not None or is_ours(self.spark, full_name(name))

    def _catalog(self, name: Name) -> Catalog | None:
        """Return the catalog of `frazil.load_catalog(name, …)` that a name begins with."""
        return loaded_catalogs().get(name[0]) if len(name) > 1 else None

    def may_be_ours(self, name: Name) -> bool:
        """Tell whether a name is a table of Frazil's."""
        return self.is_ours(name)

    def open(self, name: Name) -> tuple[Table, str | None]:
        """Open a table, and return it with the branch that the name selects."""
        if (catalog := self._catalog(name)) is not None:
            return _opened(catalog, name[1:])
        return open_table(full_name(name), {}, self.spark)

    def catalogs(self) -> Collection[str]:
        """Return the names of the catalogs of `frazil.load_catalog(name, …)`."""
        return loaded_catalogs()

    def spelled(self, name: Name) -> Name:
        """Return the name as it is."""
        return name


def _opened(catalog: Catalog, parts: Name) -> tuple[Table, str | None]:
    """Open a table of a catalog, and return it with the branch that the last part selects. Raises
    NoSuchTableError, and InvalidInput for what takes no writes."""
    named = find_in(catalog._backend, parts)
    return table_of(named), named.written_branch()


def names_one_of(spark: Session, text: str) -> bool:
    """Tell whether a text may name a table of Frazil's: it has the name of one of its catalogs, or
    there is a default catalog.
    """
    names = {*configured_names(session_catalogs(spark)), *loaded_catalogs()} - {DEFAULT_CATALOG}
    return default_is_there(spark) or any(
        re.search(rf"(?<!\w){re.escape(name)}`?\s*\.", text) for name in names
    )
