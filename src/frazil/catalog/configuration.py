"""Collect a catalog's properties by its name, and remember where each was found.

For each property the first of these sources counts: keyword arguments; `spark.sql.catalog.<name>.*`
of the Spark session; the environment, FRAZIL_CATALOG__<NAME>__<KEY> before PYICEBERG_CATALOG__…
(`__` stands for a dot, `_` for a dash); .frazil.yaml before .pyiceberg.yaml. Each file is looked
for in FRAZIL_HOME or PYICEBERG_HOME, the home directory and the current directory; the first one
found is used. A catalog of type hive then takes what `spark.hadoop.*` of the session and
hive-site.xml say of its metastore.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil.catalog.hive.site import is_hive, metastore_sources
from frazil.catalog.options import canonical
from frazil.errors import InvalidInput
from frazil.storage import redact, redact_text
from frazil.storage.hdfs.hdfs_options import of_session
from frazil.storage.locations import scheme_of
from frazil.storage.secrets import is_public, is_secret

DEFAULT_CATALOG = "default"
SPARK_PREFIX = "spark.sql.catalog."
_ENVIRONMENTS = ("FRAZIL", "PYICEBERG")
_SPARK_CLASSES = ("org.apache.iceberg.spark.", "frazil")
log = logging.getLogger(__name__)
# Spark's default of spark.redaction.regex, for names and values alike
_SPARKS_REGEX = "(?i)secret|password|token|access[.]?key"
REDACTION_REGEX = r"(?i)secret|password|token|access[.-]?key|account[.-]?key|credential|connection-string|sse\.key|\.header\.|://[^/\s]*:\S*@"
_TOLD: set[str] = set()
_ICEBERG_KEYS = {"type", "uri", "warehouse", "catalog-impl"}


@dataclass(frozen=True)
class Configuration:
    """Hold a catalog's properties. `sources`: where each property was found. `looked_in`: all
    places that were searched.
    """

    name: str
    properties: dict[str, str] = field(repr=False)
    sources: dict[str, str]
    looked_in: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {redact(self.properties)}"

    def where(self, key: str) -> str:
        """Format a property with its source, for messages: `type (from the environment,
        FRAZIL_CATALOG__PROD__TYPE)`.
        """
        return f"{key} (from {self.sources[key]})" if key in self.sources else key

    def searched(self) -> str:
        """Format the places that were searched, for messages."""
        return "Looked in " + ", ".join(self.looked_in) + "."


def configuration(
    name: str | None = None,
    given: Mapping[str, Any] | None = None,
    *,
    spark_conf: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """Return the configuration of a catalog. None: the default one, whose name is default-catalog
    of the environment or a file, else "default". Raises InvalidInput for a name that a catalog
    cannot have, and for values that are not text."""
    env = os.environ if environ is None else environ
    name = name or default_name(env)
    if not name.strip() or "." in name or "\0" in name:
        raise InvalidInput(f"{name!r} cannot be a catalog's name.", hint="Use a name without dots.")
    properties: dict[str, str] = {}
    sources: dict[str, str] = {}
    looked_in: list[str] = []

    def add(source: str, values: Mapping[str, Any]) -> None:
        looked_in.append(source)
        for key, value in ((canonical(k), v) for k, v in values.items()):
            if key not in properties:
                properties[key], sources[key] = _text(key, value, source), source

    for source, values in _sources(name, given or {}, spark_conf, env):
        add(source, values)
    if is_hive(properties):
        for source, values in metastore_sources(properties, spark_conf, env):
            add(source, values)
    return Configuration(name, properties, sources, tuple(looked_in))


def _sources(
    name: str,
    arguments: Mapping[str, Any],
    spark_conf: Mapping[str, str] | None,
    env: Mapping[str, str],
) -> list[tuple[str, Mapping[str, Any]]]:
    sources: list[tuple[str, Mapping[str, Any]]] = [("the keyword arguments", arguments)]
    if spark_conf is not None:
        sources.append((f"the Spark session ({SPARK_PREFIX}{name}.*)", _of_spark(name, spark_conf)))
    sources += [
        (f"the environment ({p}_CATALOG__{_env_name(name)}__*)", _of_environment(p, name, env))
        for p in _ENVIRONMENTS
    ]
    for product in _ENVIRONMENTS:
        path, catalogs = _yaml_catalogs(product, env)
        sources.append(
            (str(path) if path else f".{product.lower()}.yaml (none found)", _named(catalogs, name))
        )
    return sources


def store_properties(
    location: str, given: Mapping[str, Any], spark_conf: Mapping[str, str]
) -> dict[str, Any]:
    """Return the properties of the store of a table at a location: those that were given, and what
    the Spark session says of HDFS.
    """
    return {**(of_session(spark_conf) if scheme_of(location) == "hdfs" else {}), **given}


def configured_names(
    spark_conf: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> set[str]:
    """Return the names of all catalogs that have at least one property configured."""
    env = os.environ if environ is None else environ
    names = {
        key[len(SPARK_PREFIX) :].partition(".")[0]
        for key in spark_conf or {}
        if key.startswith(SPARK_PREFIX)
    }
    names = {n for n in names if _is_iceberg(n, spark_conf or {})}
    for product in _ENVIRONMENTS:
        prefix = f"{product}_CATALOG__"
        names |= {
            k[len(prefix) :].partition("__")[0].lower()
            for k in env
            if k.upper().startswith(prefix) and "__" in k[len(prefix) :]
        }
        names |= set(_yaml_catalogs(product, env)[1])
    return names


def _is_iceberg(name: str, spark_conf: Mapping[str, str]) -> bool:
    """Tell whether a catalog of the Spark session is an Iceberg catalog: by its class or, without
    one, by the properties it has.
    """
    implementation = spark_conf.get(SPARK_PREFIX + name)
    if implementation is not None:
        return implementation.startswith(_SPARK_CLASSES)
    return any(f"{SPARK_PREFIX}{name}.{key}" in spark_conf for key in _ICEBERG_KEYS)


def home(environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory of the default catalog that needs no configuration: FRAZIL_HOME, else
    ./warehouse.
    """
    env = os.environ if environ is None else environ
    return Path(env.get("FRAZIL_HOME") or "warehouse").expanduser().absolute()


def default_name(environ: Mapping[str, str] | None = None) -> str:
    """Return the name of the default catalog: default-catalog of the environment or a file, else
    "default".
    """
    env = os.environ if environ is None else environ
    for product in _ENVIRONMENTS:
        if chosen := env.get(f"{product}_DEFAULT_CATALOG"):
            return chosen
        if chosen := _yaml_settings(product, env).get("default-catalog"):
            return str(chosen)
    return DEFAULT_CATALOG


def _of_spark(name: str, spark_conf: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{SPARK_PREFIX}{name}."
    _tell_of_shown(prefix, spark_conf)
    catalog_properties = {
        k[len(prefix) :]: v for k, v in spark_conf.items() if k.startswith(prefix)
    }
    return {**of_session(spark_conf), **catalog_properties}


def _env_name(name: str) -> str:
    return name.upper().replace("-", "_")


def _of_environment(product: str, name: str, env: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{product}_CATALOG__{_env_name(name)}__"
    values = {k[len(prefix) :]: v for k, v in env.items() if k.upper().startswith(prefix)}
    return {k.lower().replace("__", ".").replace("_", "-"): v for k, v in values.items()}


def _named(catalogs: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for catalog, values in catalogs.items():
        if catalog.lower() == name.lower():
            return values
    return {}


def _text(key: str, value: object, source: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | Path):
        return str(value)
    raise InvalidInput(
        f"Catalog property {key} (from {source}) must be text, not {type(value).__name__}."
    )


# --- .frazil.yaml and .pyiceberg.yaml


def _yaml_settings(product: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the top-level settings of the file; {} without a file. `product`: FRAZIL or PYICEBERG."""
    path = _yaml_file(product, env)
    return _parsed_yaml(path) if path else {}


def _yaml_catalogs(
    product: str, env: Mapping[str, str]
) -> tuple[Path | None, dict[str, dict[str, Any]]]:
    """Return the file (None: there is none) and the properties per catalog name. Raises
    InvalidInput for a malformed file.
    """
    path = _yaml_file(product, env)
    if path is None:
        return None, {}
    catalogs = _parsed_yaml(path).get("catalog") or {}
    if not isinstance(catalogs, dict) or not all(isinstance(v, dict) for v in catalogs.values()):
        raise InvalidInput(
            f"{path}: `catalog` must hold a mapping of properties for each name.", file=str(path)
        )
    return path, {str(name): dict(_flat(values, "")) for name, values in catalogs.items()}


def _yaml_file(product: str, env: Mapping[str, str]) -> Path | None:
    folders = [env.get(f"{product}_HOME"), env.get("HOME"), "."]
    for folder in folders:
        if folder and (path := Path(folder) / f".{product.lower()}.yaml").is_file():
            return path
    return None


def _parsed_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # Only the line is shown: the error's text quotes the file, which may hold secrets.
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise InvalidInput(f"{path} is not valid YAML{place}.", file=str(path)) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", file=str(path)) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} must hold a mapping.", file=str(path))
    return content


def _flat(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


# --- secrets that Spark shows


def shown_by_spark(prefix: str, spark_conf: Mapping[str, str]) -> list[str]:
    """Return the settings with a prefix (`spark.sql.catalog.<name>.`) that hold a secret which
    `spark.redaction.regex` does not mask.
    """
    try:
        regex = re.compile(spark_conf.get("spark.redaction.regex", _SPARKS_REGEX))
    except re.error:  # of Java's form alone
        return []
    of_catalog = {key: value for key, value in spark_conf.items() if key.startswith(prefix)}
    names = {key: key.removeprefix(prefix) for key in of_catalog}
    secret = (
        k
        for k, v in of_catalog.items()
        if (is_secret(names[k]) and not is_public(names[k])) or redact_text(v) != v
    )
    return sorted(
        key for key in secret if not regex.search(key) and not regex.search(of_catalog[key])
    )


def _tell_of_shown(prefix: str, spark_conf: Mapping[str, str]) -> None:
    """Log once which settings Spark shows with their secrets: its event log and web page have them
    from before a catalog is loaded, so nothing can be masked afterwards."""
    if (shown := shown_by_spark(prefix, spark_conf)) and prefix not in _TOLD:
        _TOLD.add(prefix)
        instead = (
            " Give the password of uri as jdbc.password instead." if f"{prefix}uri" in shown else ""
        )
        log.warning(
            "Spark shows the secrets in %s in its event log and on its web page.%s Start the session with spark.redaction.regex=%s",
            ", ".join(shown),
            instead,
            REDACTION_REGEX,
        )
