"""Find the table that a name or location means, and what the suffixes of the name select. One rule
serves `load_table`, `format("iceberg")`, writers, SQL and the command line.

A location is anything with a `/`. A name is `[catalog.]namespace.table`, as a catalog's `meanings`
has it. Suffixes are the last part of a name that is no table as a whole (`db.t.files`,
`db.t.branch_audit`), or what follows a `#` of a location (`/path/to/t#files,branch_audit`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.catalog import (
    CatalogBackend,
    Identifier,
    LoadedTable,
    first_found,
    load_backend,
    meanings,
)
from frazil.catalog.configuration import store_properties
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.path import load_location
from frazil.errors import InvalidInput, NoSuchTableError
from frazil.scan.inspect import METADATA_TABLES
from frazil.scan.snapshot_ref import CHANGES, Suffixes, is_suffix, read_suffixes, split_location

Opens = Callable[[str | None], CatalogBackend]
"""Open a catalog by its name; None: the default one."""


@dataclass(frozen=True)
class FoundTable:
    """Hold a table that was found by a name. `name`: as it was given, for errors; `place`: the
    name of the table alone, with its catalog, or its location; `backend`: None where the table is
    read-only."""

    name: str
    place: str
    backend: CatalogBackend | None
    loaded: LoadedTable
    suffixes: tuple[str, ...] = ()

    def selected(self, selectors: Mapping[str, Any] | None = None) -> Suffixes:
        """Return the metadata table or snapshot that the suffixes select, joined with selectors
        given as options. Raises InvalidInput where they contradict each other.
        """
        return read_suffixes(self.suffixes, self.name, selectors)

    def written_branch(self) -> str | None:
        """Return the branch that a write to this name goes to; None: the name says none. Raises
        InvalidInput for metadata tables, tags and snapshots, which take no writes."""
        chosen = self.selected()
        if chosen.view is not None or set(chosen.selectors) - {"branch"}:
            raise InvalidInput(
                f"Cannot write to {self.name}: only tables and branches take writes.",
                hint=f"Write to {self.place}, or to a branch of it.",
                table=self.place,
            )
        branch: str | None = chosen.selectors.get("branch")
        return branch


def is_location(name: str | Sequence[str]) -> bool:
    """Tell whether a text is the location of a table rather than a name."""
    return isinstance(name, str) and ("/" in name or name.startswith("file:"))


def has_suffix(name: str) -> bool:
    """Tell whether a name or location has the form of a table with a suffix."""
    if is_location(name):
        return bool(split_location(name)[1])
    parts = identifier_parts(name)
    return len(parts) > 2 and is_suffix(parts[-1])


def find_table(
    name: str | Sequence[str],
    properties: Mapping[str, Any],
    spark_conf: Mapping[str, str],
    opens: Opens | None = None,
) -> FoundTable:
    """Find a table by its name or location.

    `properties`: those of the catalog, or of the location's store; `spark_conf`: the settings of a
    session's catalogs, empty where there is no session; `opens`: opens a catalog by its name;
    default: as it is configured. Raises NoSuchTableError, InvalidInput for what is no identifier,
    CorruptData for damaged metadata.
    """
    if isinstance(name, str) and is_location(name):
        location, suffixes = split_location(name)
        of_store = store_properties(
            location, {k: str(v) for k, v in properties.items()}, spark_conf
        )
        backend, loaded = load_location(location, of_store)
        return FoundTable(name, location, backend, loaded, tuple(suffixes))
    text = name if isinstance(name, str) else full_name(name)

    def look(catalog: str | None, parts: Identifier) -> FoundTable:
        backend = (
            load_backend(catalog, spark_conf=spark_conf, **properties)
            if opens is None
            else opens(catalog)
        )
        return find_in(backend, parts, text)

    return first_found(meanings(name, properties, spark_conf=spark_conf), look)


def find_in(backend: CatalogBackend, parts: Identifier, name: str | None = None) -> FoundTable:
    """Find a table by its name within a catalog. `name`: as it was given, for errors. Raises
    NoSuchTableError, which tells where the name goes on behind a table."""
    text = name or full_name((backend.name, *parts))
    try:
        return FoundTable(text, full_name((backend.name, *parts)), backend, backend.load(parts))
    except NoSuchTableError as e:
        if len(parts) < 3 or not is_suffix(parts[-1]):
            if len(parts) > 2 and backend.table_exists(parts[:-1]):
                raise NoSuchTableError(e.message, hint=_no_suffix(parts), table=text) from e
            raise
    own = parts[:-1]
    return FoundTable(text, full_name((backend.name, *own)), backend, backend.load(own), parts[-1:])


def _no_suffix(parts: Identifier) -> str:
    """Make the hint for a name whose last part follows the name of a table but is not a suffix."""
    suffixes = ", ".join((*METADATA_TABLES, CHANGES))
    return f"{'.'.join(parts[:-1])} is a table, and {parts[-1]!r} is not one of its metadata tables: {suffixes}."
