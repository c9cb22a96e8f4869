"""Define the protocol of catalog back ends: look up the current metadata of tables and views by
name, and replace it by compare-and-swap.

The steps that add a type of catalog are in `catalog.load`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from frazil.catalog.base import (
    Identifier,
    Identifiers,
    LoadedTable,
    LoadedView,
    Outcome,
    OutcomeTogether,
    PropertiesUpdateSummary,
    Swap,
    ViewOutcome,
)
from frazil.catalog.names import full_name
from frazil.catalog.reporting import Reporting, TableReporter
from frazil.errors import FrazilError, TableAlreadyExistsError, Unsupported
from frazil.scan.plan import Plan
from frazil.scan.served_plan import AskedScan
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.spec.view import ViewMetadata


class CatalogBackend(Protocol):
    """Look up, create, commit and drop tables, and manage namespaces. A back end returns data,
    never a Table.

    `properties` may hold secrets; show them only through `storage.secrets.redact`.

    `create` and `swap` return an outcome. If they raise an error instead, nothing was applied and
    no file is left. Both receive the change in two forms: the complete new `metadata`, which a
    catalog that points to metadata files stores, and the `updates` that lead to it with their
    `requirements`, which is what a REST catalog is sent. A catalog that keeps metadata itself may
    apply the updates to a newer state than `base` as long as the requirements hold; so callers read
    from the outcome what was committed. A view of the same name makes `create` a conflict.
    """

    name: str
    kind: str
    """The type of catalog, as in `type="sql"`, for messages."""
    properties: dict[str, str]
    writes_metadata_files: bool
    """Whether `create` and `swap` write a metadata file. False: the catalog's server writes it, or
    there is none.
    """
    reporting: Reporting
    """Take the metrics reports of the catalog's tables."""

    @property
    def views(self) -> ViewBackend | None:
        """Return the back end of the catalog's views; None: the catalog keeps none."""

    def planner(self, table: LoadedTable) -> ScanPlanner | None:
        """Return the planner that asks the catalog's server for plans of a table's scans; None:
        Frazil plans them.
        """

    def load(self, identifier: Identifier) -> LoadedTable:
        """Load the current state of a table. Raises NoSuchTableError, CorruptData."""

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        """Prepare a new table before its first files are written; it is not visible before
        `create`.

        The result holds the metadata to start from, with the location of the table's files
        (`metadata.location`; "" lets the catalog choose), its storage and its config, which may
        include credentials for this table; its `metadata_location` is "". Raises
        TableAlreadyExistsError, NoSuchNamespaceError where namespaces must be created first,
        ValidationError for a location that the catalog cannot give the table.
        """

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Create a table, together with its first snapshots. It need not be staged before; a
        location "" lets the catalog choose.

        `updates` build `metadata` from nothing. Conflict: a table or view of that name exists.
        Raises as `stage_create` does.
        """

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Replace the table's state by `metadata` if it is still `base`. The catalog adds the entry
        for `base` to the metadata log.
        """

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        """Replace the states of several tables at once: all of them, or none. Each is swapped as
        `swap` does.

        Raises Unsupported where the catalog cannot; so without any swaps the call tells only
        whether it can.
        """

    def table_exists(self, identifier: Identifier) -> bool: ...

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """Drop a table. `purge`: delete its files too, as far as they lie in its own directories;
        returns the paths of those that stay.

        Raises NoSuchTableError.
        """

    def rename_table(self, source: Identifier, target: Identifier) -> None: ...

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable: ...

    def list_tables(self, namespace: Identifier) -> Identifiers: ...

    def create_namespace(
        self, namespace: Identifier, properties: Mapping[str, str] = {}
    ) -> None: ...

    def drop_namespace(self, namespace: Identifier) -> None: ...

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers: ...

    def namespace_exists(self, namespace: Identifier) -> bool: ...

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]: ...

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary: ...

    def close(self) -> None: ...


class ViewBackend(Protocol):
    """Look up, create, commit and drop views.

    `create_view` and `swap_view` return an outcome, or raise an error if nothing was applied.
    """

    def load_view(self, identifier: Identifier) -> LoadedView:
        """Load the current state of a view. Raises NoSuchViewError, whose message says if a table
        has that name, and CorruptData.
        """

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> ViewOutcome:
        """Create a view; a location "" lets the catalog choose. Conflict: a table or view of that
        name exists.
        """

    def swap_view(self, base: LoadedView, metadata: ViewMetadata) -> ViewOutcome:
        """Replace the view's state by `metadata`."""

    def view_exists(self, identifier: Identifier) -> bool: ...

    def drop_view(self, identifier: Identifier) -> None:
        """Drop a view; its metadata files stay. Raises NoSuchViewError."""

    def rename_view(self, source: Identifier, target: Identifier) -> None: ...

    def register_view(self, identifier: Identifier, metadata_location: str) -> LoadedView: ...

    def list_views(self, namespace: Identifier) -> Identifiers: ...


def views_of(backend: CatalogBackend) -> ViewBackend:
    """Return the back end of a catalog's views. Raises Unsupported where the catalog keeps none."""
    if backend.views is None:
        text = f"Catalog {backend.name!r} of type {backend.kind} keeps no views."
        raise Unsupported(text, hint="Catalogs of type sql, memory, hive and rest keep views.")
    return backend.views


@contextlib.contextmanager
def telling_views(backend: CatalogBackend, identifier: Identifier, name: str) -> Iterator[None]:
    """Raise, if a table cannot be created in the block because a view has its name, an error that
    says so. `name`: the table's, for the message."""
    try:
        yield
    except TableAlreadyExistsError as error:
        has_view = False
        with contextlib.suppress(FrazilError):
            has_view = backend.views is not None and backend.views.view_exists(identifier)
        if not has_view:
            raise
        hint = f"Choose another name, or drop the view first: drop_view({full_name(identifier)!r})."
        raise TableAlreadyExistsError(
            f"{name} is a view: no table can be created under its name.", hint=hint, table=name
        ) from error


def reloaded(backend: CatalogBackend, known: LoadedTable) -> LoadedTable:
    """Load the newest state of a table. Catalogs that keep a pointer do not read the metadata file
    again while it has not moved; in path catalogs a dropped table's file names are used again, and
    REST servers send the metadata along."""
    reload: Callable[[LoadedTable], LoadedTable] | None = getattr(backend, "reload", None)
    if reload is not None:
        return reload(known)
    return backend.load(known.identifier or (known.metadata.location,))


def reporter_of(backend: CatalogBackend | None, identifier: Identifier) -> TableReporter | None:
    """Return the object that takes the metrics reports of a table; None if its catalog has no
    reporter, or the table has no catalog."""
    return None if backend is None else backend.reporting.reporter(identifier)


def planner_of(backend: CatalogBackend | None, table: LoadedTable) -> ScanPlanner | None:
    """Return the planner that asks the server of a table's catalog for plans; None: Frazil plans
    the scans, as it does for tables without a catalog."""
    return None if backend is None else backend.planner(table)


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
