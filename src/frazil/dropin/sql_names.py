"""Look up the names of tables in statements as Spark does: whole, or within the session's current
catalog and namespace.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.names import full_name
from frazil.dropin.catalogs import default_is_there, register, registered_in
from frazil.dropin.names import found, whose
from frazil.ops.session import Session
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.jvm_catalog import knows_catalog
from frazil.sql.nodes import Name
from frazil.table.load import loaded_catalogs, table_of
from frazil.table.table import Table


@dataclass(frozen=True)
class SessionNames:
    """Implement `sql.run.NamesOfTables` for a session. On Spark Connect, whose current catalog is
    the server's, names are whole."""

    spark: Session

    def is_ours(self, name: Name) -> bool:
        """Tell whether a name is within a catalog that Frazil serves, or is a table of the default
        catalog that Spark does not know.
        """
        return whose(self.spark, name) is not None

    def may_be_ours(self, name: Name) -> bool:
        """Tell whether a name can be a table of Frazil's, whichever catalog and namespace are
        current: it does not begin with a catalog of others.
        """
        return len(name) < 2 or name[0] in self.catalogs() or not knows_catalog(self.spark, name[0])

    def open(self, name: Name) -> tuple[Table, str | None]:
        """Open a table, and return it with the branch that the name selects. Raises
        NoSuchTableError, and InvalidInput for what takes no writes."""
        place = whose(self.spark, name)
        named = found(self.spark, full_name(name)) if place is None else place.find()
        return table_of(named), named.written_branch()

    def catalogs(self) -> Collection[str]:
        """Return the names of the catalogs that Frazil serves at this moment. They are looked over
        first: a statement from inside the JVM may be the first one since a setting changed."""
        return register(self.spark).keys() | registered_in(self.spark).passing.keys()

    def spelled(self, name: Name) -> Name:
        """Return the name with its catalog and namespace, by which expressions may call the table."""
        place = whose(self.spark, name)
        return name if place is None else place.full


def names_one_of(spark: Session, text: str) -> bool:
    """Tell whether a text may name a table of Frazil's: it has the name of one of its catalogs, or
    there is a default catalog.
    """
    names = {*configured_names(session_catalogs(spark)), *loaded_catalogs()} - {DEFAULT_CATALOG}
    return default_is_there(spark) or any(
        re.search(rf"(?<!\w){re.escape(name)}`?\s*\.", text) for name in names
    )
