"""Say what statements need to know of names: whether one is a table of Frazil's, and which table it
is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from frazil.sql.nodes import Name
from frazil.table.table import Table


class NamesOfTables(Protocol):
    """Look up names of tables as a session writes them: whole, or within its current catalog and
    namespace.
    """

    def is_ours(self, name: Name) -> bool:
        """Tell whether a name is a table of Frazil's at this moment."""

    def may_be_ours(self, name: Name) -> bool:
        """Tell whether a name can be a table of Frazil's, whichever catalog and namespace are
        current.
        """

    def open(self, name: Name) -> tuple[Table, str | None]:
        """Open a table, and return it with the branch that the name selects (`t.branch_x`)."""

    def catalogs(self) -> Collection[str]:
        """Return the names of the catalogs that Frazil serves."""

    def spelled(self, name: Name) -> Name:
        """Return the name with its catalog and namespace, by which expressions may call the table."""
