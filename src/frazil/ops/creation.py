"""Create a table, empty or together with its first rows as one commit (CREATE TABLE AS SELECT), or
replace one (CREATE OR REPLACE).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from frazil.catalog import CatalogBackend, Committed, Conflict, LoadedTable, Unknown
from frazil.catalog import Identifier as Parts
from frazil.catalog.backend import telling_views
from frazil.commit.actions import ReplaceTable
from frazil.commit.apply import apply_updates
from frazil.commit.new_table import creation_updates, replacement
from frazil.commit.table_commit import CommitOutcome, commit, create
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    FrazilError,
    TableAlreadyExistsError,
)
from frazil.ops.operation import TableOperation
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import requirements_for

_DEFAULT, _OVERRIDE = "table-default.", "table-override."


def with_catalog_properties(
    given: Mapping[str, Any] | None, of_catalog: Mapping[str, str]
) -> dict[str, Any]:
    """Return the properties of a new table: the catalog's `table-default.…`, then those given, then
    the catalog's `table-override.…`.
    """

    def prefixed(prefix: str) -> dict[str, str]:
        return {
            key.removeprefix(prefix): value
            for key, value in of_catalog.items()
            if key.startswith(prefix)
        }

    return {**prefixed(_DEFAULT), **(given or {}), **prefixed(_OVERRIDE)}


def create_empty(
    backend: CatalogBackend, parts: Parts, metadata: TableMetadata, name: str
) -> LoadedTable:
    """Create an empty table. Raises TableAlreadyExistsError, NoSuchNamespaceError,
    CommitStateUnknownException.
    """
    updates = creation_updates(metadata)
    with telling_views(backend, parts, name):
        outcome = backend.create(
            parts, metadata, updates=updates, requirements=requirements_for(None, updates)
        )
        if (
            not isinstance(outcome, Committed)
            and (created := _created(backend, parts, metadata)) is not None
        ):
            return created
        if isinstance(outcome, Conflict):
            raise TableAlreadyExistsError(f"Table already exists: {name}", table=name)
    if isinstance(outcome, Unknown):
        raise CommitStateUnknownException(
            f"It is not known whether table {name} was created: {outcome.cause}",
            hint="Look with table_exists before trying again; nothing was deleted.",
        ) from outcome.cause
    return outcome.table


def _created(backend: CatalogBackend, parts: Parts, metadata: TableMetadata) -> LoadedTable | None:
    """Return the table of that name if it is the one that was to be created: its answer was lost,
    or its request was sent twice on its way."""
    with contextlib.suppress(FrazilError):
        table_now = backend.load(parts)
        if metadata.table_uuid is not None and table_now.metadata.table_uuid == metadata.table_uuid:
            return table_now
    return None


class Creation(TableOperation):
    """Stage writes on a table that does not exist yet, or that is replaced. An error leaves the
    catalog and the old table as they were.

    `replaced`: the table to replace, which keeps its history; None: the table is new.
    """

    def __init__(
        self,
        backend: CatalogBackend,
        parts: Parts,
        metadata: TableMetadata,
        replaced: LoadedTable | None,
        name: str,
    ):
        self._catalog, self._replaced = backend, replaced
        if replaced is None:
            with telling_views(backend, parts, name):
                base = backend.stage_create(parts, metadata)
        else:
            action = self._replacement = ReplaceTable(
                schema=metadata.schema(),
                spec=metadata.spec(),
                sort_order=metadata.sort_order(),
                location=metadata.location,
                properties=metadata.properties,
            )
            updates = replacement(
                replaced.metadata,
                action.schema,
                action.spec,
                action.sort_order,
                action.location,
                action.properties,
            )
            replaced_metadata = apply_updates(replaced.metadata, updates)
            base = LoadedTable(
                parts,
                replaced.metadata_location,
                replaced_metadata,
                replaced.storage,
                replaced.config,
            )
        super().__init__(backend, base, name)

    @property
    def has_work(self) -> bool:
        return True

    @property
    def known_columns(self) -> int:
        return self._replaced.metadata.last_column_id if self._replaced is not None else 0

    def publish(self) -> CommitOutcome:
        facts = self.engine.facts()
        if self._replaced is not None:
            actions = [self._replacement, *self.actions]
            return commit(
                self._catalog, self._replaced, actions, written=self.written, environment=facts
            )
        try:
            with telling_views(self._catalog, self.base.identifier, self.name):
                return create(
                    self._catalog, self.base, self.actions, written=self.written, environment=facts
                )
        except CommitFailedException as e:
            if self._catalog.table_exists(self.base.identifier):
                raise TableAlreadyExistsError(
                    f"Table was created concurrently: {self.name}", table=self.name
                ) from e
            raise
