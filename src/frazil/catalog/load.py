"""Choose and make the back end of a configured catalog.

A new type of catalog stands in `_MAKERS` (and in `_SCHEMES` and `_JAVA`, where a URI or a Java class implies it), what it needs to be
configured in `_check`, and the properties that it serves in `served._OF_KIND`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from frazil.catalog.base import CatalogBackend, Identifier
from frazil.catalog.configuration import DEFAULT_CATALOG, Configuration, configuration, configured_names, home
from frazil.catalog.memory import MemoryCatalog
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.path import PathCatalog
from frazil.catalog.served import check_served
from frazil.catalog.sql import SqlCatalog
from frazil.errors import AlreadyExists, InvalidInput, NoSuchFileError, NoSuchTableError, StorageError, Unsupported
from frazil.storage import absolute, is_own_io, redact_text, storage_for
from frazil.storage.locations import local_path_of, scheme_of, strip_slash

_MAKERS: dict[str, Callable[[str, Mapping[str, str]], CatalogBackend]] = {"path": PathCatalog, "sql": SqlCatalog, "memory": MemoryCatalog}
_ALIASES = {"hadoop": "path", "jdbc": "sql", "in-memory": "memory", "inmemory": "memory"}
_NOT_YET = {"hive", "rest", "glue", "dynamodb", "bigquery", "nessie", "snowflake", "polaris", "unity", "s3tables"}
_JAVA = {
    "org.apache.iceberg.hadoop.HadoopCatalog": "path",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
    "org.apache.iceberg.inmemory.InMemoryCatalog": "memory",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.snowflake.SnowflakeCatalog": "snowflake",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
}
# What a URI's scheme says about the type.
_SCHEMES = {
    "http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql", "postgres": "sql", "mysql": "sql",
    "mariadb": "sql", "jdbc": "sql",
}  # fmt: skip
_ELSEWHERE = (
    "The default catalog lives there: set FRAZIL_HOME to a folder that can be written, or give frazil.load_catalog(warehouse=…) one."
)
T = TypeVar("T")


def load_backend(
    name: str | None = None, *, spark_conf: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None, **properties: Any
) -> CatalogBackend:
    """The back end of a configured catalog (order of look-up: `configuration`). With nothing configured, "default" is a SQLite file
    and a folder under ./warehouse, or under FRAZIL_HOME, or in the `warehouse` that alone is given.

    Raises InvalidInput naming the key that is missing, mistyped or contradictory, and where it was looked for; Unsupported by name.
    """
    found = configuration(name, properties, spark_conf=spark_conf, environ=environ)
    told = {"type", "uri", "warehouse", "catalog-impl", "py-catalog-impl"} & set(found.properties)
    if found.name == DEFAULT_CATALOG and told <= {"warehouse"} and scheme_of(found.properties.get("warehouse", "")) == "file":
        check_served(found.name, "sql", found.properties, found.sources)
        return _default(found, environ)
    kind = catalog_type(found)
    check_served(found.name, kind, found.properties, found.sources)
    _check(found, kind)
    return _MAKERS[kind](found.name, found.properties)


def meanings(
    name: str | Sequence[str], properties: Mapping[str, Any], *, spark_conf: Mapping[str, str] | None = None
) -> list[tuple[str | None, Identifier]]:
    """What a name may mean: a catalog (None: the default one) and the rest of the name, the likelier first.

    Its first part is a catalog only if one of that name is configured ("default" is, but "default.t" is a namespace and a table).
    Properties that the caller gives may as well be those of the catalog that a name of three parts begins with. Raises InvalidInput.
    """
    parts = identifier_parts(name) if isinstance(name, str) else tuple(name) if isinstance(name, tuple | list) else ()
    if not parts or not all(isinstance(p, str) and p for p in parts):
        raise InvalidInput(f"{name!r} is no table identifier: it has a namespace and a name, as in db.events.")
    known = {*configured_names(spark_conf), *([DEFAULT_CATALOG] if len(parts) > 2 else [])}
    catalog = parts[0] if len(parts) > 1 and parts[0] in known else None
    rest = parts[1:] if catalog else parts
    if len(rest) < 2:
        raise InvalidInput(f"{full_name(parts)!r} is no table identifier: it has a namespace and a name, as in db.events.")
    others = [(parts[0], parts[1:])] if catalog is None and len(parts) > 2 and properties else []
    return [(catalog, rest), *others]


def first_found(found: Sequence[tuple[str | None, Identifier]], look: Callable[[str | None, Identifier], T]) -> T:
    """What `look` finds by the first of these meanings that has it. Raises the NoSuchTableError of the last."""
    for catalog, rest in found[:-1]:
        with contextlib.suppress(NoSuchTableError):
            return look(catalog, rest)
    try:
        return look(*found[-1])
    except NoSuchTableError as e:
        catalog, rest = found[-1]
        if catalog is None and len(rest) > 2:
            e.advise(f"No catalog is named {rest[0]!r}; frazil.list_catalogs() gives those that are configured.")
        raise


def _default(found: Configuration, environ: Mapping[str, str] | None) -> SqlCatalog:
    folder = str(home(environ)) if (given := found.properties.get("warehouse")) is None else strip_slash(local_path_of(absolute(given)))
    own = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
    try:
        storage_for(folder).make_directory(folder)
        return SqlCatalog(found.name, {**own, **found.properties})
    except (StorageError, NoSuchFileError, AlreadyExists) as e:
        e.advise(_ELSEWHERE)
        raise


def catalog_type(found: Configuration) -> str:
    """path, sql or memory: as `type` or `catalog-impl` says, or as `uri` implies."""
    values = found.properties
    if "py-catalog-impl" in values:
        raise Unsupported(f"{found.where('py-catalog-impl')} of catalog {found.name!r} names a class of another product.")
    if "type" in values and "catalog-impl" in values:
        raise InvalidInput(
            f"Catalog {found.name!r} has both {found.where('type')} and {found.where('catalog-impl')}.", hint="Keep one of them."
        )
    if "catalog-impl" in values:
        kind = _JAVA.get(values["catalog-impl"], "")
        if not kind:
            raise Unsupported(
                f"{found.where('catalog-impl')} of catalog {found.name!r} names {values['catalog-impl']}, which Frazil has not."
            )
    elif "type" in values:
        kind = _ALIASES.get(values["type"].strip().lower(), values["type"].strip().lower())
    elif values.get("uri"):
        kind = _SCHEMES.get(_scheme(values["uri"]), "")
    else:
        raise InvalidInput(
            f"Catalog {found.name!r} is not configured: the key type is missing (and uri, which could imply it).", hint=found.searched()
        )
    return _known(kind, found)


def _known(kind: str, found: Configuration) -> str:
    if kind in _MAKERS:
        return kind
    if kind in _NOT_YET:
        raise Unsupported(
            f"Catalogs of type {kind} are not served yet (catalog {found.name!r}).",
            hint=f"There are {_types()}; see KNOWN_GAPS.md.",
        )
    key = "type" if "type" in found.properties else "uri"
    given = redact_text(found.properties[key])
    raise InvalidInput(
        f"Catalog {found.name!r}: {found.where(key)} is {given!r}, which is no type of catalog.", hint=f"There are {_types()}."
    )


def _scheme(uri: str) -> str:
    return scheme_of(uri).partition("+")[0]


def _types() -> str:
    *most, last = _MAKERS
    return f"{', '.join(most)} and {last}"


def _check(found: Configuration, kind: str) -> None:
    """What contradicts itself is told with its sources."""
    uri, warehouse = found.properties.get("uri"), found.properties.get("warehouse")
    implied = kind if uri is None else _SCHEMES.get(_scheme(uri), kind)
    if uri is not None and implied != kind:
        raise InvalidInput(
            f"Catalog {found.name!r} is of type {kind}, but {found.where('uri')} is one of type {implied}: {redact_text(uri)}.",
            hint=found.where("type") + " decides; change one of them." if "type" in found.properties else None,
        )
    missing = {"path": [] if warehouse else ["warehouse"], "sql": [] if uri else ["uri"]}.get(kind, [])
    for key in missing:
        raise InvalidInput(f"Catalog {found.name!r} of type {kind} lacks the key {key}.", hint=found.searched())
    if warehouse is not None and _SCHEMES.get(_scheme(warehouse)):
        raise InvalidInput(f"Catalog {found.name!r}: {found.where('warehouse')} is no place for files: {redact_text(warehouse)}.")
    for key in ("io-impl", "py-io-impl"):
        if key in found.properties and not is_own_io(found.properties[key]):
            raise Unsupported(
                f"{found.where(key)} of catalog {found.name!r} names a class that Frazil cannot run: {found.properties[key]}."
            )
