"""Make Frazil's catalogs known to Spark: those that a session's settings configure, those of the
environment and the yaml files, those that `frazil.load_catalog` was given, and the default one."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from frazil.catalog.configuration import (
    DEFAULT_CATALOG,
    SPARK_PREFIX,
    configured_names,
    default_name,
    home,
)
from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.spark.catalog.catalog import ServedCatalog
from frazil.spark.catalog.session import ServedSessionCatalog
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, class_is_loaded, jvm_of
from frazil.spark.host.jvm_catalog import (
    SESSION_CATALOG,
    catalog_types,
    current_catalog,
    own_session_catalog,
    put_catalog,
    remove_catalog,
    settings_mark,
)
from frazil.spark.host.jvm_errors import let_errors_pass
from frazil.sql.catalog_calls import CatalogCalls, NamespaceCalls
from frazil.table.catalog import Catalog
from frazil.table.load import configured_catalog, loaded_catalogs

_SESSION_CLASS = "org.apache.iceberg.spark.SparkSessionCatalog"
_SPARKS_OWN = "builtin"  # the default of the setting
_LOG = logging.getLogger(__name__)
_REGISTERED: weakref.WeakKeyDictionary[Any, _Registered] = weakref.WeakKeyDictionary()


class _Registered:
    """Record what a session's catalogs were made of. `served`: by name, with what each was made of;
    `passing`: the names by which Spark knows the default catalog at this moment (`serve_default`);
    `default`: that catalog, with what it was made of."""

    def __init__(self) -> None:
        self.mark: Any = None
        self.served: dict[str, tuple[Any, CatalogCalls]] = {}
        self.failed = False
        self.warned = False
        self.passing: dict[str, CatalogCalls] = {}
        self.default: tuple[Any, CatalogCalls] | None = None


def register(spark: Session) -> dict[str, CatalogCalls]:
    """Return the catalogs that Frazil serves in a session, by name, after they were made known to
    Spark, as far as they are new or configured in another way than before. On Spark Connect nobody
    is told; where Spark's inside has changed, SQL does not reach Frazil's tables, and a warning
    says so once."""
    registered = registered_in(spark)
    loaded = tuple((name, id(catalog)) for name, catalog in loaded_catalogs().items())
    if spark_asks(spark):
        try:
            mark = (settings_mark(spark), loaded)
            if mark != registered.mark:
                let_errors_pass(spark)
                _register(spark, registered)
                registered.mark = mark
        except NOT_AS_KNOWN as error:
            registered.failed = True
            fall_back(
                "The catalogs of a session",
                error,
                "SQL does not reach Frazil's tables; spark.table(…) does.",
            )
    if not spark_asks(spark):
        mark = (session_catalogs(spark), loaded)
        if mark != registered.mark:
            _register(spark, registered)
            registered.mark = mark
    return {name: served for name, (_, served) in registered.served.items()}


def spark_asks(spark: Session) -> bool:
    """Tell whether Spark asks Frazil's catalogs for their tables: not on Spark Connect, and not
    where its inside has changed.
    """
    return jvm_of(spark) is not None and not registered_in(spark).failed


def forget_plans(spark: Session) -> None:
    """Let go of the plans that a statement of this thread was given, after it was analysed."""
    if spark_asks(spark):
        catalog_types(spark).forget_plans()


def put_served(spark: Session, served: CatalogCalls) -> None:
    """Make a catalog known to a session by its name."""
    types = catalog_types(spark)
    if served.name == SESSION_CATALOG:
        own = own_session_catalog(spark)
        put_catalog(spark, served.name, ServedSessionCatalog(types, spark, served, own))
        return
    prefix = served.prefix
    put_catalog(
        spark, served.name, ServedCatalog(types.within(prefix) if prefix else types, spark, served)
    )


def registered_in(spark: Session) -> _Registered:
    """Return the record of a session's catalogs."""
    return _REGISTERED.setdefault(spark, _Registered())


def default_is_there(spark: Session) -> bool:
    """Tell whether the default catalog is configured, loaded or exists, since looking for a table
    must not create it.
    """
    return (
        DEFAULT_CATALOG in loaded_catalogs()
        or (home() / "catalog.db").exists()
        or default_name() != DEFAULT_CATALOG
        or DEFAULT_CATALOG in configured_names(session_catalogs(spark))
    )


def default_catalog(spark: Session) -> CatalogCalls:
    """Return the default catalog; one for each place that it is in."""
    registered = registered_in(spark)
    state = (str(home()), registered.mark, id(loaded_catalogs().get(DEFAULT_CATALOG)))
    if registered.default is None or registered.default[0] != state:
        settings = session_catalogs(spark)
        load = lambda: (
            loaded_catalogs().get(DEFAULT_CATALOG) or configured_catalog(DEFAULT_CATALOG, settings)
        )
        registered.default = (state, CatalogCalls(DEFAULT_CATALOG, load, spark))
        if registered.passing:
            names, current = set(registered.passing), current_catalog(spark)
            registered.passing.clear()
            for name in names - {current}:
                remove_catalog(spark, name)
            for name in names & {current}:
                serve_in_passing(spark, name)
    return registered.default[1]


def serve_in_passing(spark: Session, name: str) -> None:
    """Make the default catalog known by its own name or that of one of its namespaces."""
    default = default_catalog(spark)
    served = (
        default
        if name == DEFAULT_CATALOG
        else NamespaceCalls(name, partial(_catalog_of, default), spark)
    )
    put_served(spark, served)
    registered_in(spark).passing[name] = served


def _catalog_of(served: CatalogCalls) -> Catalog:
    return served.catalog


def _register(spark: Session, registered: _Registered) -> None:
    wanted, asks = _wanted(spark), spark_asks(spark)
    if asks:
        _tell_of_spark_catalog(spark, registered)
    for name in set(registered.served) - set(wanted):
        if asks:
            remove_catalog(spark, name)
        del registered.served[name]
    for name, (state, load) in wanted.items():
        if name in registered.served and registered.served[name][0] == state:
            continue
        served = CatalogCalls(name, load, spark)
        if asks:
            put_served(spark, served)
        registered.served[name] = (state, served)


def _tell_of_spark_catalog(spark: Session, registered: _Registered) -> None:
    """Warn once of a session whose own catalog is set to a class that is not there, and is not the
    one in whose place Frazil serves it: Spark fails where it looks for the class."""
    jvm_class = session_catalogs(spark).get(SPARK_PREFIX + SESSION_CATALOG)
    if (
        jvm_class
        and jvm_class not in (_SESSION_CLASS, _SPARKS_OWN)
        and not registered.warned
        and not class_is_loaded(spark, jvm_class)
    ):
        registered.warned = True
        _LOG.warning(
            "%s%s=%s is not served. Use org.apache.iceberg.spark.SparkSessionCatalog, which keeps Spark's own tables, or give the"
            " catalog another name, as in spark.sql.catalog.lake.type=….",
            SPARK_PREFIX,
            SESSION_CATALOG,
            jvm_class,
        )


def _same(catalog: Catalog) -> Catalog:
    return catalog


def _beside_sparks_own(settings: Mapping[str, str]) -> Catalog:
    """Load the catalog whose tables stand beside Spark's own. Raises Unsupported for the settings
    that make Iceberg tables of other formats: since Spark 4.0 it makes those itself."""
    for key in ("parquet-enabled", "avro-enabled", "orc-enabled"):
        name = f"{SPARK_PREFIX}{SESSION_CATALOG}.{key}"
        if settings.get(name, "false").lower() == "true":
            raise Unsupported(
                f"{name}=true is not supported.", hint="CREATE TABLE … USING iceberg.", option=name
            )
    return configured_catalog(SESSION_CATALOG, settings)


def _wanted(spark: Session) -> dict[str, tuple[Any, Callable[[], Catalog]]]:
    """Return, by name, what a catalog is made of, and how it is loaded. Names whose JVM class can
    be loaded are the jar's.
    """
    settings = session_catalogs(spark)
    wanted: dict[str, tuple[Any, Callable[[], Catalog]]] = {}
    for name, catalog in loaded_catalogs().items():
        wanted[name] = (id(catalog), partial(_same, catalog))
    for name in configured_names(settings):
        prefix = f"{SPARK_PREFIX}{name}"
        of_name = {k: v for k, v in settings.items() if k == prefix or k.startswith(f"{prefix}.")}
        if of_name or name not in wanted:
            wanted[name] = (
                tuple(sorted(of_name.items())),
                partial(configured_catalog, name, settings),
            )
    of_session = wanted.pop(SESSION_CATALOG, None)
    if of_session and settings.get(SPARK_PREFIX + SESSION_CATALOG) == _SESSION_CLASS:
        wanted[SESSION_CATALOG] = (of_session[0], partial(_beside_sparks_own, settings))
    return {
        name: source
        for name, source in wanted.items()
        if name != DEFAULT_CATALOG
        and not (
            (jvm_class := settings.get(SPARK_PREFIX + name)) and class_is_loaded(spark, jvm_class)
        )
    }


__all__ = [
    "default_catalog",
    "default_is_there",
    "forget_plans",
    "put_served",
    "register",
    "registered_in",
    "spark_asks",
]
