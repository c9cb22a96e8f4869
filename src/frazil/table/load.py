"""Load catalogs by name, and tables by name or location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from frazil.catalog import described, load_backend, meanings, metadata_files
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.path import load_location
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.find_table import FoundTable, find_table
from frazil.scan import plan
from frazil.scan.snapshot_ref import CHANGES
from frazil.table.catalog import Catalog
from frazil.table.changelog import ChangesScan
from frazil.table.engines import session_catalogs
from frazil.table.metadata_table import MetadataTable
from frazil.table.table import Table

_LOADED: dict[str, Catalog] = {}


def load_catalog(name: str | None = None, **properties: Any) -> Catalog:
    """Load a catalog by name (None: the default one).

    Properties come from the keyword arguments, then `spark.sql.catalog.<name>.*` of the running
    session, then the environment (FRAZIL_CATALOG__<NAME>__…, PYICEBERG_CATALOG__…), then
    .frazil.yaml and .pyiceberg.yaml. If nothing is configured, the catalog "default" is a SQLite
    database and a folder below ./warehouse, or below FRAZIL_HOME.

    Raises InvalidInput, which names a property that is missing or contradictory, and Unsupported
    for a type that is not served yet.
    """
    catalog = Catalog(load_backend(name, spark_conf=session_catalogs(), **properties))
    if properties:
        _LOADED[catalog.name] = catalog
    return catalog


def loaded_catalogs() -> Mapping[str, Catalog]:
    """Return the catalogs that were loaded with properties of their own, by name, the last one of
    each: SQL knows them by these names.
    """
    return _LOADED


def configured_catalog(name: str, spark_conf: Mapping[str, str]) -> Catalog:
    """Load a catalog as the settings of a session, the environment and the yaml files configure it."""
    return Catalog(load_backend(name, spark_conf=spark_conf))


def list_catalogs() -> list[str]:
    """Return the names of all configured catalogs, "default" included."""
    return sorted({DEFAULT_CATALOG, *configured_names(session_catalogs())})


def described_catalog(name: str) -> tuple[str, dict[str, str]]:
    """Return the type of a configured catalog and its properties, secrets left out, without opening
    it. The type of one whose configuration is wrong is empty."""
    return described(name, session_catalogs())


def load_table(identifier: str | tuple[str, ...], **properties: Any) -> Table:
    """Load a table by location or by name.

    A location is anything with a `/`; a `…metadata.json` opens the table read-only. A name is
    `[catalog.]namespace.table`; its first part is a catalog only if one of that name is configured.
    With the name of a metadata table at its end (`db.t.files`, `/path/to/t#files`) the result is a
    `MetadataTable`, with `changes` a `ChangesScan`. `properties`: those of the catalog, or of the
    location's store.

    Raises NoSuchTableError, CorruptData for damaged metadata.
    """
    if (catalog := properties.get("catalog")) is not None:
        raise _catalog_argument_error(identifier, catalog)
    named = find_table(
        identifier,
        properties,
        session_catalogs(),
        lambda name: load_catalog(name, **properties)._backend,
    )
    table = table_of(named)
    return cast(Table, _viewed(table, named)) if named.suffixes else table


def table_of(found: FoundTable) -> Table:
    """Return the table that a name means, without what its suffixes select."""
    return Table(found.backend, found.loaded, found.place)


def _catalog_argument_error(identifier: str | tuple[str, ...], catalog: object) -> InvalidInput:
    """Return the error for `load_table(…, catalog=…)`, with the call that does it."""
    name = identifier if isinstance(identifier, str) else full_name(identifier)
    if isinstance(catalog, Catalog):
        return InvalidInput(
            "load_table takes no catalog=.",
            hint=f"Use the catalog's own method: catalog.load_table({name!r}).",
        )
    whole = full_name((str(catalog), *identifier_parts(name)))
    opened = f"frazil.load_catalog({str(catalog)!r})"
    hint = f"Put the catalog's name first, as in frazil.load_table({whole!r}), or use {opened}.load_table({name!r})."
    return InvalidInput("load_table takes no catalog=.", hint=hint)


def _viewed(table: Table, found: FoundTable) -> MetadataTable | ChangesScan:
    """Return the metadata table or changelog that the suffixes of a table's name select."""
    name, selected = found.place, found.selected()
    if selected.view == CHANGES:
        return table.changes()
    if selected.view is None:
        selectors = ", ".join(f"{k}={v!r}" for k, v in selected.selectors.items())
        hint = f"frazil.load_table({name!r}).scan({selectors}) reads it."
        raise Unsupported(
            f"{', '.join(found.suffixes)} selects a snapshot; load_table returns tables.",
            hint=hint,
            table=name,
        )
    return MetadataTable(name, selected.view, table._loaded, selected.selectors)


def at_location(location: str, **properties: Any) -> Table:
    """Load the path table at a location, or open one metadata file read-only."""
    return table_of(find_table(location, properties, session_catalogs()))


def resolve(
    identifier: str | tuple[str, ...], **properties: Any
) -> tuple[Catalog, tuple[str, ...]]:
    """Load the catalog that an identifier names, and return it with the rest of the identifier."""
    name, rest = meanings(identifier, {}, spark_conf=session_catalogs())[0]
    return load_catalog(name, **properties), rest


class StaticTable(Table):
    """Read the state of a table that one metadata file holds: scans, time travel and inspection,
    but no writes and no refresh.
    """

    @classmethod
    def from_metadata(
        cls, metadata_location: str, properties: Mapping[str, str] = {}
    ) -> StaticTable:
        """Open a `…metadata.json`, or the current state of the table in a directory. `properties`:
        those of the store (`s3.…`).

        Raises NoSuchTableError, NoSuchFileError, CorruptData.
        """
        _, loaded = load_location(metadata_location, dict(properties))
        return cls(None, loaded, metadata_location)


def clear_caches() -> None:
    """Clear all cached manifests, manifest lists and metadata files. Results do not depend on them:
    the next calls only take longer.
    """
    plan.clear_caches()
    metadata_files.recent.clear()
