"""Create and replace views, and tell which table a name in the query of a view means."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from frazil.catalog import CatalogBackend, Conflict, Unknown
from frazil.catalog import Identifier as Parts
from frazil.catalog.backend import views_of
from frazil.catalog.base import LoadedView, ViewOutcome
from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    InvalidInput,
    NoSuchTableError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.spec.schema import Schema
from frazil.spec.view import (
    SQLViewRepresentation,
    ViewMetadata,
    ViewVersion,
    with_properties,
    with_version,
)

SPARK_CATALOG = "spark_catalog"
_ATTEMPTS = 5  # the first one, and Java's commit.retry.num-retries


def create_view(
    backend: CatalogBackend, parts: Parts, metadata: ViewMetadata, name: str
) -> LoadedView:
    """Create a view. Raises ViewAlreadyExistsError, also for a table of that name, and
    CommitStateUnknownException.
    """
    outcome = views_of(backend).create_view(parts, metadata)
    if isinstance(outcome, Conflict):
        raise ViewAlreadyExistsError(
            f"Table or view already exists: {name}.",
            hint="replace_view replaces a view.",
            view=name,
        )
    return _certain(outcome, name)


def replace_view(
    backend: CatalogBackend,
    parts: Parts,
    version: ViewVersion,
    columns: Schema | None,
    properties: Mapping[str, str],
    name: str,
) -> LoadedView:
    """Give a view another current version. `columns` None: those that it has. Raises
    NoSuchViewError, Unsupported for a materialized view, ValidationError where a dialect of the
    current query would be lost."""

    def replaced(base: ViewMetadata) -> ViewMetadata:
        if base.current_version().extra.get("storage-table") is not None:
            text = f"View {name} is materialized; replacing it would leave its stored rows behind."
            raise Unsupported(text, hint="Replace it in the engine that made it.", view=name)
        return with_version(base, columns or base.schema(), version, properties, _now_ms())

    return _changed(backend, parts, replaced, name)


def change_view_properties(
    backend: CatalogBackend,
    parts: Parts,
    removals: Collection[str],
    updates: Mapping[str, str],
    name: str,
) -> LoadedView:
    """Remove and set properties of a view; its versions stay. Raises NoSuchViewError."""

    def changed(base: ViewMetadata) -> ViewMetadata:
        return with_properties(
            base, {**{k: v for k, v in base.properties.items() if k not in removals}, **updates}
        )

    return _changed(backend, parts, changed, name)


def _changed(
    backend: CatalogBackend, parts: Parts, change: Callable[[ViewMetadata], ViewMetadata], name: str
) -> LoadedView:
    """Commit a change of a view, again on its newest state when another writer was first."""
    views, reason = views_of(backend), ""
    for attempt in range(_ATTEMPTS):
        base = views.load_view(parts)
        if (metadata := change(base.metadata)) == base.metadata:
            return base
        outcome = views.swap_view(base, metadata)
        if not isinstance(outcome, Conflict):
            return _certain(outcome, name)
        reason = outcome.reason
        time.sleep(0.05 * 2**attempt)
    raise CommitFailedException(
        f"View {name} could not be changed in {_ATTEMPTS} attempts: {reason}.",
        view=name,
        attempts=_ATTEMPTS,
    )


def _certain(outcome: ViewOutcome, name: str) -> LoadedView:
    if isinstance(outcome, Unknown):
        text = f"It is not known whether view {name} was changed: {outcome.cause}"
        raise CommitStateUnknownException(
            text, hint="Load the view and look before you try again."
        ) from outcome.cause
    assert not isinstance(outcome, Conflict), "conflicts are handled by the caller"
    return outcome


def version_of(
    given: ViewVersion | None,
    sql: str | Mapping[str, str] | None,
    namespace: str | Parts | None,
    catalog: str | None,
    parts: Parts,
) -> ViewVersion:
    """Return the new version that the arguments of `Catalog.create_view` describe; its ids are
    assigned later. `parts`: the view's identifier. Raises InvalidInput for arguments that
    contradict each other."""
    if (given is None) == (sql is None):
        raise InvalidInput(
            "Give either sql or view_version.",
            hint='As in sql="SELECT …", or sql={"spark": …, "trino": …}.',
        )
    if given is not None:
        if not isinstance(given, ViewVersion):
            raise InvalidInput(
                f"view_version must be a ViewVersion, not {given!r:.200}.",
                hint='sql="SELECT …" is simpler.',
            )
        if namespace is not None or catalog is not None:
            raise InvalidInput(
                "view_version tells the default namespace and catalog itself.",
                hint="Give them there.",
            )
        return given
    queries: dict[str, Any] = {"spark": sql} if isinstance(sql, str) else dict(sql or {})
    for dialect, query in queries.items():
        if not isinstance(query, str) or not query.strip() or not dialect.strip():
            raise InvalidInput(
                f"The query of dialect {dialect!r} must be text, not {query!r:.200}."
            )
    own = (
        parts[:-1]
        if namespace is None
        else identifier_parts(namespace)
        if isinstance(namespace, str)
        else tuple(namespace)
    )
    return ViewVersion(
        version_id=1,
        schema_id=0,
        timestamp_ms=_now_ms(),
        default_namespace=own,
        default_catalog=catalog,
        representations=tuple(
            SQLViewRepresentation(query, dialect) for dialect, query in queries.items()
        ),
        summary={"engine-name": "frazil"},
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def named_in_query(
    parts: Parts, version: ViewVersion, view: str, catalog: str, configured: Collection[str]
) -> tuple[str, Parts]:
    """Return the catalog and the identifier that a name in a view's query means.

    `catalog`: the one that has the view, where names belong that tell none and for which the
    version names no default. `configured`: the names of all other catalogs. Raises NoSuchTableError
    for a catalog that is not configured.
    """
    default, catalogs = version.default_catalog or catalog, {catalog, SPARK_CATALOG, *configured}
    if len(parts) == 1:
        name, rest = default, (*version.default_namespace, *parts)
    elif len(parts) > 2 and parts[0] in {*catalogs, default}:
        name, rest = parts[0], parts[1:]
    else:
        name, rest = default, parts
    if name not in catalogs:
        text = f"The query of view {view} names {full_name(rest)} in catalog {name!r}, which is not configured here."
        raise NoSuchTableError(
            text,
            hint="frazil.list_catalogs() lists those that are.",
            table=full_name((name, *rest)),
        )
    return name, rest
