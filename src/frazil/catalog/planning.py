"""Choose who plans the scans of a table: Frazil, out of the manifests, or the catalog's server,
where it offers to and is told to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from frazil.scan.plan import Plan
from frazil.scan.served_plan import AskedScan


@dataclass(frozen=True)
class PlanHints:
    """Hold what a server may make use of, although the rows of the scan do not depend on it.

    `columns`: the ids of the top-level columns to read; None: all. `limit`: the number of rows that
    suffice; None: all are wanted. `follows_branch`: the scan reads with the table's current schema,
    not with that of its snapshot.
    """

    columns: Sequence[int] | None = None
    limit: int | None = None
    follows_branch: bool = True


class ScanPlanner(Protocol):
    """Plan scans of one table by the catalog's server."""

    def plan(self, scan: AskedScan, hints: PlanHints) -> Plan:
        """Plan the scan of a snapshot. Raises ScanPlanningError, Unsupported where the server does
        not offer it, CorruptData for an answer that is no plan of the table."""
