"""From a name or a location to a catalog or a table."""

from __future__ import annotations

from typing import Any, cast

from frazil.catalog import first_found, load_backend, meanings
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.path import load_location
from frazil.errors import InvalidInput, NoSuchTableError, Unsupported
from frazil.scan.suffixes import CHANGES, is_suffix, no_suffix, read_suffixes, split_location
from frazil.table.catalog import Catalog
from frazil.table.changes import ChangesScan
from frazil.table.engines import session_catalogs
from frazil.table.metadata_table import MetadataTable
from frazil.table.table import Table


def load_catalog(name: str | None = None, **properties: Any) -> Catalog:
    """A catalog by name. Properties come from the keyword arguments, then `spark.sql.catalog.<name>.*` of the running session, then the
    environment (FRAZIL_CATALOG__<NAME>__…, PYICEBERG_CATALOG__…), then .frazil.yaml and .pyiceberg.yaml. With nothing configured,
    "default" is a SQLite file and a folder under ./warehouse (FRAZIL_HOME moves it).

    Raises InvalidInput naming the key that is missing or contradictory, Unsupported for a type that is not served yet.
    """
    return Catalog(load_backend(name, spark_conf=session_catalogs(), **properties))


def list_catalogs() -> list[str]:
    """Names that are configured anywhere, "default" included."""
    return sorted({DEFAULT_CATALOG, *configured_names(session_catalogs())})


def load_table(identifier: str | tuple[str, ...], **properties: Any) -> Table:
    """A table by location (anything with a `/`; a `…metadata.json` gives it read-only) or by name `[catalog.]namespace.table`, whose first
    part is a catalog only if one of that name is configured.

    With the name of a metadata table behind it (`db.t.files`, `/path/to/t#files`) that is a `MetadataTable`, with `changes` the changelog
    scan, though the signature names what it nearly always is. Raises NoSuchTableError, CorruptData for damaged metadata.
    """
    if (catalog := properties.get("catalog")) is not None:
        raise _catalog_beside(identifier, catalog)
    if isinstance(identifier, str) and ("/" in identifier or identifier.startswith("file:")):
        location, suffixes = split_location(identifier)
        table = at_location(location, **properties)
        return cast(Table, _viewed(table, location, suffixes)) if suffixes else table
    found = meanings(identifier, properties, spark_conf=session_catalogs())
    return first_found(found, lambda name, rest: _in_catalog(load_catalog(name, **properties), rest))


def _catalog_beside(identifier: Any, catalog: Any) -> InvalidInput:
    name = identifier if isinstance(identifier, str) else full_name(identifier)
    if isinstance(catalog, Catalog):
        return InvalidInput("load_table takes no catalog=.", hint=f"A catalog in hand opens its tables: catalog.load_table({name!r}).")
    whole = full_name((str(catalog), *identifier_parts(name)))
    opened = f"frazil.load_catalog({str(catalog)!r})"
    hint = f"The catalog stands before the name: frazil.load_table({whole!r}), or {opened}.load_table({name!r})."
    return InvalidInput("load_table takes no catalog=.", hint=hint)


def _in_catalog(catalog: Catalog, parts: tuple[str, ...]) -> Table:
    try:
        return catalog.load_table(parts)
    except NoSuchTableError as e:
        if len(parts) < 3 or not is_suffix(parts[-1]):
            if len(parts) > 2 and catalog.table_exists(parts[:-1]):
                raise NoSuchTableError(e.message, hint=no_suffix(parts), table=full_name(parts)) from e
            raise
        table = catalog.load_table(parts[:-1])
        return cast(Table, _viewed(table, full_name(table.name()), [parts[-1]]))


def _viewed(table: Table, name: str, suffixes: list[str]) -> MetadataTable | ChangesScan:
    """What the suffixes of a table's name mean."""
    found = read_suffixes(suffixes, name)
    if found.view == CHANGES:
        return table.changes()
    if found.view is None:
        chosen = ", ".join(f"{k}={v!r}" for k, v in found.selectors.items())
        hint = f"frazil.load_table({name!r}).scan({chosen.replace('as_of', 'as_of_timestamp')}) reads it."
        raise Unsupported(f"{', '.join(suffixes)} selects a snapshot; load_table gives tables.", hint=hint, table=name)
    return MetadataTable(name, found.view, table._loaded, found.selectors)


def sql(sqlQuery: str, spark: Any = None) -> Any:
    """Spark SQL over Frazil's catalogs: not served yet."""
    raise Unsupported(
        "frazil.sql is not supported yet.", hint="spark.table(name).createOrReplaceTempView(…) gives SQL a name; see KNOWN_GAPS.md."
    )


def at_location(location: str, **properties: Any) -> Table:
    """The path table at a location, or the read-only state of one metadata file."""
    backend, loaded = load_location(location, {k: str(v) for k, v in properties.items()})
    return Table(backend, loaded, location)


def resolve(identifier: str | tuple[str, ...], **properties: Any) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog that an identifier means, and the rest of it."""
    name, rest = meanings(identifier, {}, spark_conf=session_catalogs())[0]
    return load_catalog(name, **properties), rest
