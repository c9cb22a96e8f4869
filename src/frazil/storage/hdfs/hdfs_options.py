"""Translate catalog properties of HDFS (`hdfs.*` as in PyIceberg, `hadoop.*` as in Java's Spark
catalogs) to the settings of a client.

Hadoop's configuration comes from `hadoop.<key>`, then from core-site.xml and hdfs-site.xml in
HADOOP_CONF_DIR or HADOOP_HOME of the process that opens the catalog. It travels with the storage,
so that workers need no files of their own.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from frazil.errors import InvalidInput, Unsupported

PREFIXES = ("hdfs.", "hadoop.")
_HADOOP = "hadoop."
_OWN = {
    "hdfs.host",
    "hdfs.port",
    "hdfs.kerberos-principal",
    "hdfs.kerberos-keytab",
    "hdfs.kerberos-ticket",
}
_USER = "hdfs.user"
_KEYS = (
    "fs.defaultFS", "fs.permissions.umask-mode", "dfs.nameservices", "dfs.replication", "dfs.blocksize", "dfs.data.transfer.protection",
    "dfs.client.use.datanode.hostname", "dfs.client.socket-timeout", "dfs.user.home.dir.prefix", "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)  # fmt: skip
_KEY_PREFIXES = (
    "dfs.ha.namenodes.", "dfs.namenode.rpc-address.", "dfs.client.failover.", "dfs.client.block.write.replace-datanode-on-failure.",
)  # fmt: skip
_DEFAULT_PORT = 8020
# How often the client asks anew when no name node answers: for half a minute where there are
# several, of which one may just become active.
_PATIENCE = {
    "max.attempts": ("4", "12"),
    "sleep.base.millis": ("200", "250"),
    "sleep.max.millis": ("2000", "5000"),
}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class HdfsSettings:
    """Hold what a client of HDFS needs: `config` with Hadoop's keys, the credentials of Kerberos,
    the authority of locations that name none, and what new files and directories get (None: as the
    name node says)."""

    config: dict[str, str]
    kerberos: dict[str, str] = field(repr=False)
    authority: str | None = None
    replication: int | None = None
    block_size: int | None = None
    umask: int = 0o022

    def client_config(self, authority: str) -> dict[str, str]:
        """Return Hadoop's configuration for the client of an authority, completed by how patient it
        is.
        """
        several = "," in self.config.get(f"dfs.ha.namenodes.{authority}", "")
        return {
            **{f"dfs.client.failover.{key}": values[several] for key, values in _PATIENCE.items()},
            **self.config,
        }

    def address_of(self, authority: str) -> str:
        """Return the address of an authority: a name service stays as it is, a host without a port
        gets Hadoop's default port.
        """
        known = any(
            f"{prefix}{authority}" in self.config
            for prefix in ("dfs.ha.namenodes.", "dfs.namenode.rpc-address.")
        )
        return (
            authority if known or re.search(r":\d+$", authority) else f"{authority}:{_DEFAULT_PORT}"
        )


def is_hadoop_key(key: str) -> bool:
    """Tell whether Frazil's HDFS storage reads this key of Hadoop's configuration."""
    return key in _KEYS or key.startswith(_KEY_PREFIXES)


def check_hdfs_property(key: str) -> None:
    """Check that a property `hdfs.…` or `hadoop.…` is supported. Raises Unsupported."""
    if key == _USER:
        raise Unsupported(
            f"Catalog property {key} is not supported: the client takes the user's name from the environment.",
            hint="Set HADOOP_USER_NAME in the environment of this process and of Spark's workers.",
        )
    if key.startswith(_HADOOP) and not is_hadoop_key(key.removeprefix(_HADOOP)):
        supported = ", ".join((*_KEYS, *(f"{p}…" for p in _KEY_PREFIXES)))
        raise Unsupported(
            f"Catalog property {key} is not supported by Frazil's hdfs storage.",
            hint=f"After hadoop.: {supported}.",
        )
    if key.startswith("hdfs.") and key not in _OWN:
        raise Unsupported(
            f"Catalog property {key} is not supported by Frazil's hdfs storage.",
            hint=f"Supported: {', '.join(sorted(_OWN))}, hadoop.…",
        )


def hdfs_settings(properties: Mapping[str, str]) -> HdfsSettings:
    """Translate the properties of a store. Raises Unsupported for one that is not supported,
    InvalidInput for an invalid value.
    """
    for key in properties:
        if key.startswith(PREFIXES):
            check_hdfs_property(key)
    config = {k.removeprefix(_HADOOP): v for k, v in properties.items() if k.startswith(_HADOOP)}
    return HdfsSettings(
        config,
        _kerberos(properties),
        _authority(properties, config),
        _replication(config),
        _block_size(config),
        _umask(config),
    )


def _authority(properties: Mapping[str, str], config: Mapping[str, str]) -> str | None:
    host, port = properties.get("hdfs.host"), properties.get("hdfs.port")
    if port is not None and not (port.isdecimal() and 0 < int(port) < 65536):
        raise InvalidInput(f"Catalog property hdfs.port must be a port, not {port!r}.")
    if host is not None:
        if not host or "/" in host:
            raise InvalidInput(
                f"Catalog property hdfs.host must be a host or a name service, not {host!r}."
            )
        return f"{host}:{port}" if port else host
    if port is not None:
        raise InvalidInput(
            "Catalog property hdfs.port is given without hdfs.host.", hint="They belong together."
        )
    match = re.fullmatch(r"hdfs://([^/]+)/*", config.get("fs.defaultFS", ""))
    return match[1] if match else None


def _kerberos(properties: Mapping[str, str]) -> dict[str, str]:
    settings = {
        n: properties[f"hdfs.kerberos-{n}"]
        for n in ("principal", "keytab", "ticket")
        if f"hdfs.kerberos-{n}" in properties
    }
    if settings and "principal" not in settings:
        raise InvalidInput(
            f"Catalog property hdfs.kerberos-{next(iter(settings))} is given without hdfs.kerberos-principal.",
            hint="Name the principal, or leave both out and set KRB5CCNAME to the ticket cache, of which its own principal is taken.",
        )
    return {"kerberos_" + {"ticket": "cache"}.get(n, n): value for n, value in settings.items()}


def _replication(config: Mapping[str, str]) -> int | None:
    text = config.get("dfs.replication")
    if text is not None and not (text.isdecimal() and int(text) > 0):
        raise InvalidInput(f"Hadoop's dfs.replication must be a number, not {text!r}.")
    return None if text is None else int(text)


def _block_size(config: Mapping[str, str]) -> int | None:
    text = config.get("dfs.blocksize")
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)([kmgt]?)", text.strip().lower())
    if match is None:
        raise InvalidInput(
            f"Hadoop's dfs.blocksize must be a size such as 134217728 or 128m, not {text!r}."
        )
    return int(match[1]) * _UNITS[match[2]]


def _umask(config: Mapping[str, str]) -> int:
    text = config.get("fs.permissions.umask-mode", "022")
    if not re.fullmatch("[0-7]{1,4}", text):
        raise Unsupported(
            f"Hadoop's fs.permissions.umask-mode is supported in octal digits only, not as {text!r}."
        )
    return int(text, 8)


def hadoop_folder(environ: Mapping[str, str]) -> str | None:
    """Return the folder of Hadoop's configuration: HADOOP_CONF_DIR, else etc/hadoop in HADOOP_HOME;
    None: neither is set.
    """
    home = environ.get("HADOOP_HOME")
    return environ.get("HADOOP_CONF_DIR") or (os.path.join(home, "etc", "hadoop") if home else None)


def of_files() -> dict[str, str]:
    """Return the properties `hadoop.<key>` that core-site.xml and hdfs-site.xml of this process's
    environment hold.
    """
    folder = hadoop_folder(os.environ)
    hadoop_properties: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml") if folder else ():
        values = site_values(os.path.join(folder or "", name))
        hadoop_properties.update(
            (_HADOOP + key, value) for key, value in values.items() if is_hadoop_key(key)
        )
    return hadoop_properties


def site_values(path: str) -> Mapping[str, str]:
    """Return the keys and values of a file of Hadoop's configuration, none where there is no file.
    It is read again when it has changed.

    Raises InvalidInput for a file that cannot be read.
    """
    try:
        state = os.stat(path)
    except OSError:
        return {}
    return _of_file(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=16)
def _of_file(path: str, modified_ns: int, size: int) -> Mapping[str, str]:
    import xml.etree.ElementTree as ElementTree

    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise InvalidInput(
            f"Hadoop's configuration {path} cannot be read: {error}.", file=path
        ) from error
    values = (
        (p.findtext("name", "").strip(), p.findtext("value", "").strip())
        for p in root.iter("property")
    )
    return MappingProxyType(dict(values))


def of_session(spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the properties `hadoop.<key>` that a Spark session's settings `spark.hadoop.<key>`
    hold.
    """
    start = "spark.hadoop."
    return {
        k.removeprefix("spark."): v
        for k, v in spark_conf.items()
        if k.startswith(start) and is_hadoop_key(k.removeprefix(start))
    }
