"""Choose the type of a configured catalog, check its properties, and create its back end.

To add a type of catalog:
- where the catalog keeps, under each name, a pointer to a metadata file: write a `PointerStore` and
  a `NamespaceStore` for `catalog.pointer.PointerCatalog` (tests/catalog/store_of_items.py
  is a short example). Any other catalog implements `catalog.backend.CatalogBackend`;
- add an entry to `_TYPES`: its back end, and the properties that it requires and serves (an
  `OptionTable`; `catalog.options` refuses all others). Where the scheme of a URI or the name of a
  Java class implies the type, add it to `_SCHEMES` and `_JAVA`, and take its name out of `_NOT_YET`;
- name it in the text of `TYPE` (`catalog.options`), and take it out of docs/not-done.md,
  docs/from-java.md, docs/pyiceberg.md and the refusals in tests/catalog/test_configuration.py;
- add its libraries as an extra to pyproject.toml, its table of properties to docs/catalogs.md by a
  line in `TABLES` of tests/docs/test_option_tables.py, its kind to `KINDS` and `open_backend` of
  tests/catalog/conftest.py, with which all tests of catalogs run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from frazil.catalog.backend import CatalogBackend
from frazil.catalog.base import Identifier
from frazil.catalog.configuration import (
    DEFAULT_CATALOG,
    Configuration,
    configuration,
    configured_names,
    home,
)
from frazil.catalog.hive import options as hive
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.options import NOUN, check_properties
from frazil.catalog.reporting import named_reporter
from frazil.catalog.rest import options as rest
from frazil.catalog.sql import options as sql
from frazil.errors import (
    AlreadyExists,
    InvalidInput,
    NoSuchFileError,
    NoSuchTableError,
    StorageError,
    Unsupported,
)
from frazil.spec.on_demand import on_demand
from frazil.spec.options import TEXT, Option, OptionTable
from frazil.storage import absolute, is_own_io, redact, redact_text, storage_for
from frazil.storage.locations import local_path_of, scheme_of, strip_slash


@dataclass(frozen=True)
class _CatalogType:
    """Describe a type of catalog. `backend`: the module and name of what opens one; the module is
    imported when a catalog of the type is loaded. `options`: the properties that it serves beside
    those of all types; `required`: those that must be configured."""

    backend: tuple[str, str]
    options: OptionTable
    required: tuple[str, ...] = ()

    def open(self, name: str, properties: Mapping[str, str]) -> CatalogBackend:
        """Create the back end of a catalog of this type."""
        module, attribute = self.backend
        backend: CatalogBackend = on_demand(module, attribute)(name, properties)
        return backend


# path and memory list `uri` although they do not take it, because their back ends refuse it with a
# message that says why.
_URI = Option("uri", TEXT, None)
_TYPES = {
    "path": _CatalogType(
        ("catalog.path", "PathCatalog"), OptionTable(NOUN, (_URI,)), required=("warehouse",)
    ),
    "sql": _CatalogType(("catalog.sql.store", "sql_catalog"), sql.OPTIONS, required=("uri",)),
    "memory": _CatalogType(("catalog.memory", "memory_catalog"), OptionTable(NOUN, (_URI,))),
    "hive": _CatalogType(("catalog.hive.store", "hive_catalog"), hive.OPTIONS, required=("uri",)),
    "rest": _CatalogType(("catalog.rest.catalog", "RestBackend"), rest.OPTIONS, required=("uri",)),
}
_ALIASES = {"hadoop": "path", "jdbc": "sql", "in-memory": "memory", "inmemory": "memory"}
_NOT_YET = {"glue", "dynamodb", "bigquery", "nessie", "snowflake", "polaris", "unity", "s3tables"}
_SIGNED = "rest.sigv4-enabled=true, rest.signing-name={} and rest.signing-region"
_BY_REST = {  # how to reach products by the REST endpoint that they have
    "glue": f"uri=https://glue.<region>.amazonaws.com/iceberg, {_SIGNED.format('glue')}",
    "s3tables": f"uri=https://s3tables.<region>.amazonaws.com/iceberg, {_SIGNED.format('s3tables')}",
    "nessie": "uri=http://<host>:19120/iceberg",
    "polaris": "uri=https://<host>/api/catalog",
    "unity": "uri=https://<host>/api/2.1/unity-catalog/iceberg-rest",
    "snowflake": "the uri of its REST endpoint",
    "bigquery": "the uri of its REST endpoint",
}
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
# The types of catalogs that the scheme of a URI implies.
_SCHEMES = {
    "http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql", "postgres": "sql", "mysql": "sql",
    "mariadb": "sql", "jdbc": "sql",
}  # fmt: skip
_ELSEWHERE = "The default catalog is kept there: set FRAZIL_HOME to a writable folder, or name one by frazil.load_catalog(warehouse=…)."
T = TypeVar("T")


def load_backend(
    name: str | None = None,
    *,
    spark_conf: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    **properties: object,
) -> CatalogBackend:
    """Create the back end of a configured catalog; see `configuration` for the sources of its
    properties. If nothing is configured, "default" is a SQLite database and a folder below
    ./warehouse, below FRAZIL_HOME, or below `warehouse` if only that is given.

    Raises InvalidInput, which names a property that is missing, misspelt or contradictory and the
    places that were searched; Unsupported for a type or property that is not served.
    """
    config = configuration(name, properties, spark_conf=spark_conf, environ=environ)
    named_reporter(config.properties)
    if _is_own_default(config):
        _check_served(config, "sql")
        return _default(config, environ)
    kind = catalog_type(config)
    _check_served(config, kind)
    _check(config, kind)
    return _TYPES[kind].open(config.name, config.properties)


def described(
    name: str, spark_conf: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> tuple[str, dict[str, str]]:
    """Return the type of a configured catalog and its properties, secrets left out, without opening
    it. The type of one whose configuration is wrong is empty.
    """
    config, kind = configuration(name, spark_conf=spark_conf, environ=environ), ""
    if _is_own_default(config):
        return "sql", redact({**_own_defaults(config, environ), **config.properties})
    with contextlib.suppress(InvalidInput):
        kind = catalog_type(config)
    return kind, redact(config.properties)


def _is_own_default(config: Configuration) -> bool:
    """Tell whether it is the catalog "default" whose place nobody configured."""
    type_keys = {"type", "uri", "warehouse", "catalog-impl", "py-catalog-impl"} & set(
        config.properties
    )
    is_local = scheme_of(config.properties.get("warehouse", "")) == "file"
    return config.name == DEFAULT_CATALOG and type_keys <= {"warehouse"} and is_local


def _check_served(config: Configuration, kind: str) -> None:
    check_properties(config.name, kind, config.properties, config.sources, _TYPES[kind].options)


def meanings(
    name: str | Sequence[str],
    properties: Mapping[str, Any],
    *,
    spark_conf: Mapping[str, str] | None = None,
) -> list[tuple[str | None, Identifier]]:
    """Return what a table's name may mean, the likelier meaning first: a catalog (None: the default
    one) and the rest of the name.

    The first part is a catalog only if one of that name is configured ("default" always is, but
    "default.t" is a namespace and a table). If the caller passes properties, they may also
    configure the catalog that a name of three parts begins with. Raises InvalidInput for a name
    without a namespace.
    """
    parts = (
        identifier_parts(name)
        if isinstance(name, str)
        else tuple(name)
        if isinstance(name, tuple | list)
        else ()
    )
    if not parts or not all(isinstance(p, str) and p for p in parts):
        raise InvalidInput(
            f"{name!r} is not a table identifier: give a namespace and a name, as in db.events."
        )
    catalog_names = {*configured_names(spark_conf), *([DEFAULT_CATALOG] if len(parts) > 2 else [])}
    catalog = parts[0] if len(parts) > 1 and parts[0] in catalog_names else None
    rest = parts[1:] if catalog else parts
    if len(rest) < 2:
        raise InvalidInput(
            f"{full_name(parts)!r} is not a table identifier: give a namespace and a name, as in db.events."
        )
    others = [(parts[0], parts[1:])] if catalog is None and len(parts) > 2 and properties else []
    return [(catalog, rest), *others]


def first_found(
    found: Sequence[tuple[str | None, Identifier]], look: Callable[[str | None, Identifier], T]
) -> T:
    """Return what `look` returns for the first meaning of a name under which a table exists. Raises
    NoSuchTableError where none exists.
    """
    for catalog, others in found[:-1]:
        with contextlib.suppress(NoSuchTableError):
            return look(catalog, others)
    try:
        return look(*found[-1])
    except NoSuchTableError as e:
        catalog, others = found[-1]
        if catalog is None and len(others) > 2:
            e.advise(
                f"No catalog is named {others[0]!r}; frazil.list_catalogs() lists those that are configured."
            )
        raise


def _own_defaults(config: Configuration, environ: Mapping[str, str] | None) -> dict[str, str]:
    warehouse = config.properties.get("warehouse")
    folder = (
        str(home(environ)) if warehouse is None else strip_slash(local_path_of(absolute(warehouse)))
    )
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}


def _default(config: Configuration, environ: Mapping[str, str] | None) -> CatalogBackend:
    defaults = _own_defaults(config, environ)
    folder = defaults["warehouse"]

    def creation(create: Callable[[], None]) -> None:
        try:
            storage_for(folder).make_directory(folder)
            create()
        except (StorageError, NoSuchFileError, AlreadyExists) as e:
            e.advise(_ELSEWHERE)
            raise

    module, attribute = _TYPES["sql"].backend
    backend: CatalogBackend = on_demand(module, attribute)(
        config.name, {**defaults, **config.properties}, creation=creation
    )
    return backend


def catalog_type(config: Configuration) -> str:
    """Return the type of a catalog (path, sql, memory, hive or rest): as `type` or `catalog-impl`
    says, or as `uri` implies.

    Raises InvalidInput where none is given or it is unknown, Unsupported for a type or class that
    Frazil does not serve.
    """
    values = config.properties
    if "py-catalog-impl" in values:
        raise Unsupported(
            f"{config.where('py-catalog-impl')} of catalog {config.name!r} names a class of another product.",
            hint="Set type instead.",
        )
    if "type" in values and "catalog-impl" in values:
        raise InvalidInput(
            f"Catalog {config.name!r} has both {config.where('type')} and {config.where('catalog-impl')}.",
            hint="Keep one of them.",
        )
    if "catalog-impl" in values:
        kind = _JAVA.get(values["catalog-impl"], "")
        if not kind:
            raise Unsupported(
                f"{config.where('catalog-impl')} of catalog {config.name!r} names {values['catalog-impl']}, which Frazil does not have.",
                hint=f"There are {_types()}; set type instead.",
            )
    elif "type" in values:
        kind = _ALIASES.get(values["type"].strip().lower(), values["type"].strip().lower())
    elif values.get("uri"):
        kind = _SCHEMES.get(_scheme(values["uri"]), "")
    else:
        raise InvalidInput(
            f"Catalog {config.name!r} is not configured: the key type is missing (and uri, which could imply it).",
            hint=config.searched(),
        )
    if kind in _TYPES:
        return kind
    if kind in _NOT_YET:
        raise Unsupported(
            f"Catalogs of type {kind} are not served yet (catalog {config.name!r}).",
            hint=f"Use type=rest with {_BY_REST[kind]}."
            if kind in _BY_REST
            else f"There are {_types()}; see docs/not-done.md.",
        )
    key = "type" if "type" in config.properties else "uri"
    value = redact_text(config.properties[key])
    raise InvalidInput(
        f"Catalog {config.name!r}: {config.where(key)} is {value!r}, which is not a type of catalog.",
        hint=f"There are {_types()}.",
    )


def _scheme(uri: str) -> str:
    return scheme_of(uri).partition("+")[0]


def _types() -> str:
    *first, last = _TYPES
    return f"{', '.join(first)} and {last}"


def _check(config: Configuration, kind: str) -> None:
    """Check that properties are complete and do not contradict each other. The errors name the
    sources of the properties.
    """
    uri, warehouse = config.properties.get("uri"), config.properties.get("warehouse")
    implied = kind if uri is None else _SCHEMES.get(_scheme(uri), kind)
    if uri is not None and implied != kind:
        raise InvalidInput(
            f"Catalog {config.name!r} is of type {kind}, but {config.where('uri')} is one of type {implied}: {redact_text(uri)}.",
            hint=config.where("type") + " decides; change one of them."
            if "type" in config.properties
            else None,
        )
    for key in _TYPES[kind].required:
        if not config.properties.get(key):
            raise InvalidInput(
                f"Catalog {config.name!r} of type {kind} lacks the key {key}.",
                hint=config.searched(),
            )
    if warehouse is not None and kind != "rest" and _SCHEMES.get(_scheme(warehouse)):
        raise InvalidInput(
            f"Catalog {config.name!r}: {config.where('warehouse')} is not a location for files: {redact_text(warehouse)}.",
            hint="Give a directory or the URI of an object store, as in s3://bucket/warehouse.",
        )
    for key in ("io-impl", "py-io-impl"):
        if key in config.properties and not is_own_io(config.properties[key]):
            raise Unsupported(
                f"{config.where(key)} of catalog {config.name!r} names a class that Frazil cannot run: {config.properties[key]}.",
                hint="Leave it out: the scheme of a location chooses the store.",
            )
