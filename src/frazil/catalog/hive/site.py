"""Read what Hadoop's configuration says of a Hive Metastore: hive-site.xml, and `spark.hadoop.*` of
a Spark session.

These are the last sources of a Hive catalog's properties, as Java's HiveCatalog asks Hadoop's
configuration for what its own properties do not tell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from frazil.catalog.hive.options import (
    AS_HADOOP_SPELLS,
    AUTH_MODE,
    KERBEROS,
    PLAIN_USER,
    PRINCIPAL,
    RPC_PROTECTION,
    USE_TLS,
)
from frazil.catalog.hive.settings import by_kerberos
from frazil.errors import InvalidInput, Unsupported
from frazil.storage.hdfs.hdfs_options import hadoop_folder, of_files, site_values
from frazil.storage.locations import join, scheme_of

_TIMEOUT = "hive.metastore.client.socket.timeout"
_NAMES = {
    "hive.metastore.uris": "uri",
    "hive.metastore.warehouse.dir": "warehouse",
    "hive.metastore.sasl.enabled": KERBEROS.name,
    **{o.name: o.name for o in (PRINCIPAL, AUTH_MODE, PLAIN_USER, USE_TLS)},
    _TIMEOUT: "iceberg.hive.client.socket-timeout-ms",
}
_OF_ICEBERG = frozenset(name for o in AS_HADOOP_SPELLS for name in o.aliases)
_JAVA = "org.apache.iceberg.hive.HiveCatalog"
_OF_SPARK = "spark.hadoop."
_TIME = re.compile(r"([0-9]{1,12})\s*([a-z]*)", re.IGNORECASE)
_MILLISECONDS = {
    **dict.fromkeys(("ms", "msec"), 1), **dict.fromkeys(("", "s", "sec"), 1000), **dict.fromkeys(("m", "min", "minute"), 60_000),
    **dict.fromkeys(("h", "hour"), 3_600_000), **dict.fromkeys(("d", "day"), 86_400_000),
}  # fmt: skip


def is_hive(properties: Mapping[str, str]) -> bool:
    """Tell whether properties are those of a Hive catalog."""
    if "type" in properties or "catalog-impl" in properties:
        return (
            properties.get("type", "").strip().lower() == "hive"
            or properties.get("catalog-impl") == _JAVA
        )
    return scheme_of(properties.get("uri", "")) == "thrift"


def is_metastore_setting(key: str) -> bool:
    """Tell whether a setting of a Spark session is one of Hadoop's that a Hive catalog takes."""
    return key.startswith(_OF_SPARK) and (
        _is_taken(key.removeprefix(_OF_SPARK)) or key == _OF_SPARK + RPC_PROTECTION.name
    )


def metastore_sources(
    known: Mapping[str, str], spark_conf: Mapping[str, str] | None, environ: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the places that tell a Hive catalog's properties beside its own, with what they tell.
    `known`: the properties so far, which the caller completes by each place: a value that is not
    wanted is not checked. Raises InvalidInput for a file that cannot be read and for a value that
    is none, Unsupported for one that is not served."""
    if spark_conf is not None:
        place = f"the Spark session ({_OF_SPARK}*)"
        yield (
            place,
            _translated(
                {
                    k.removeprefix(_OF_SPARK): v
                    for k, v in spark_conf.items()
                    if is_metastore_setting(k)
                },
                place,
                known,
            ),
        )
    path = _site_file(environ)
    yield (
        path or "hive-site.xml (none found)",
        _translated(site_values(path), path, known) if path else {},
    )
    if by_kerberos(known):
        # as Hadoop has it for all its services, whether they ask for tickets or not
        yield from _protections(spark_conf or {}, path, hadoop_folder(environ))


def _protections(
    spark_conf: Mapping[str, str], hive_site: str | None, folder: str | None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the places that may set hadoop.rpc.protection: the Spark session, hive-site.xml,
    core-site.xml.
    """
    if protection := spark_conf.get(_OF_SPARK + RPC_PROTECTION.name):
        yield f"the Spark session ({_OF_SPARK}*)", {RPC_PROTECTION.name: protection}
    for path in (hive_site, folder and os.path.join(folder, "core-site.xml")):
        if protection := site_values(path).get(RPC_PROTECTION.name) if path else None:
            yield path or "", {RPC_PROTECTION.name: protection}


def _is_taken(key: str) -> bool:
    return key in _NAMES or key in _OF_ICEBERG


def _site_file(environ: Mapping[str, str]) -> str | None:
    """Return the first hive-site.xml of HIVE_CONF_DIR, Hadoop's folder and SPARK_CONF_DIR, where
    Spark has it on its class path.
    """
    folders = (environ.get("HIVE_CONF_DIR"), hadoop_folder(environ), environ.get("SPARK_CONF_DIR"))
    paths = (os.path.join(folder, "hive-site.xml") for folder in folders if folder)
    return next((path for path in paths if os.path.isfile(path)), None)


def _translated(
    values: Mapping[str, str], place: str, earlier: Mapping[str, str]
) -> dict[str, str]:
    """Return values of Hadoop's configuration as catalog properties, without those that are known
    or empty.
    """
    properties: dict[str, str] = {}
    for key, value in values.items():
        name = _NAMES.get(key, key)
        if (
            not value
            or name in earlier
            or not _is_taken(key)
            or (key == _TIMEOUT and name in values)
        ):
            continue
        if "${" in value:
            hint = f"Write its value out, or give the catalog the property {name}."
            raise Unsupported(
                f"{key} of {place} refers to a variable, which Frazil does not resolve: {value}.",
                hint=hint,
            )
        properties[name] = value
    if "warehouse" in properties:
        properties["warehouse"] = _qualified(properties["warehouse"], earlier)
    if _NAMES[_TIMEOUT] in properties and _NAMES[_TIMEOUT] not in values:
        properties[_NAMES[_TIMEOUT]] = _milliseconds(values[_TIMEOUT], place)
    return properties


def _qualified(location: str, earlier: Mapping[str, str]) -> str:
    """Return the location of a warehouse; one without a scheme lies in Hadoop's default file
    system.
    """
    default = {**of_files(), **earlier}.get("hadoop.fs.defaultFS", "")
    if (
        re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location)
        or not default
        or scheme_of(default) == "file"
    ):
        return location
    return join(default, location.lstrip("/"))


def _milliseconds(text: str, place: str) -> str:
    match = _TIME.fullmatch(text)
    if match is None or match[2].lower() not in _MILLISECONDS:
        raise InvalidInput(f"{_TIMEOUT} of {place} must be a time such as 600s, not {text!r}.")
    return str(int(match[1]) * _MILLISECONDS[match[2].lower()])
