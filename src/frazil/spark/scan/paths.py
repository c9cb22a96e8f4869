"""Spell locations of files for Spark, which takes glob patterns as paths and returns
`_metadata.file_path` as a URI, and tell which files Spark's own scan can open."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.ops.session import Session
from frazil.spark.host.jvm import jvm_of
from frazil.spark.host.jvm_reads import hadoop_settings, has_file_system
from frazil.spark.scan.hadoop_s3 import is_s3, s3_options, tell_once
from frazil.storage import Storage, catalog_properties, hdfs_settings_of, lasting_properties
from frazil.storage.credentials.precedence import host_of
from frazil.storage.locations import collapsed, local_path_of, normalise, scheme_of

_GLOB = re.compile(r"([*?\[\]{}\\])")
_UNENCODED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~'()*:@&=+$,;/"
)
_HIDDEN = r"(^|/)[_.][^/]*$|\._COPYING_$|[\n\r\\]"
Mask = npt.NDArray[np.bool_]


def as_glob(location: str) -> str:
    """Escape a location so that Spark does not take characters such as `*` and `[` in it for a glob
    pattern.
    """
    return _GLOB.sub(r"\\\1", location)


def is_hidden(location: str) -> bool:
    """Tell whether Spark's scan would skip a file because of its name, or could not be given its
    path.
    """
    return re.search(_HIDDEN, location) is not None


def readable(spark: Session, locations: pa.Array, storage: Storage) -> Mask:
    """Mark the files that Spark's scan can be given (`is_hidden`, `jvm_can_open`)."""
    shown: Mask = pc.invert(pc.match_substring_regex(locations, _HIDDEN)).to_numpy(
        zero_copy_only=False
    )
    local = pc.match_substring_regex(locations, "^(file:|/)").to_numpy(zero_copy_only=False)
    answers: Answers = {}
    for place in np.flatnonzero(shown & ~local).tolist():
        shown[place] = jvm_can_open(spark, locations[place].as_py(), answers, storage)
    return shown


def spark_text(location: str) -> str:
    """Return what `_metadata.file_path` holds for a location: Hadoop's Path, percent-encoded as by
    java.net.URI.
    """
    file_system, path = _split(location)
    return file_system + _percent_encoded(path)


def path_text(location: str) -> str:
    """Return a location as Hadoop's Path takes it: with its scheme, and without percent-encoding."""
    return "".join(_split(location))


def _split(location: str) -> tuple[str, str]:
    """Split a location into scheme and authority, and path, in which doubled slashes and `/./` are
    collapsed, as in Hadoop's Path.
    """
    if scheme_of(location) == "file":
        return "file:", collapsed(local_path_of(location))
    scheme, _, rest = location.partition(":")
    authority, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    return f"{scheme}://{authority}" if authority else f"{scheme}:", collapsed(slash + path)


def _percent_encoded(path: str) -> str:
    out = []
    for c in path:
        if ord(c) < 128:
            out.append(c if ord(c) in _UNENCODED else f"%{ord(c):02X}")
        elif unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc"):
            out.append("".join(f"%{b:02X}" for b in c.encode()))
        else:
            out.append(c)
    return "".join(out)


Answers = dict[tuple[str, tuple[tuple[str, str], ...]], bool]
"""Whether the JVM can open files, by their store and the properties with which they are reached."""


def jvm_can_open(spark: Session, location: str, known: Answers, storage: Storage) -> bool:
    """Tell whether the JVM can open a location, that is, has a Hadoop file system for its scheme.
    `known` keeps the answers.

    False where the catalog signs requests or vends credentials that expire, which is logged once
    per store: a Hadoop file system keeps those it was opened with, and a DataFrame its options, so
    that a scan may outlive them. Keys without an end are handed on.
    """
    if scheme_of(location) == "file":
        return True
    scheme, _, rest = location.partition(":")
    if scheme == "memory":
        return False
    store = f"{scheme}://{rest[2:].partition('/')[0] if rest.startswith('//') else ''}"
    properties = lasting_properties(storage, location)
    if properties is None:
        if jvm_of(spark) is not None:
            why = "the catalog vends credentials that expire, or signs each request, and Spark's own scan can renew neither"
            tell_once(f"Files at {store} are read by Arrow in Python tasks, since {why}.")
        return False
    if (store, properties) not in known:
        known[store, properties] = _can_open(spark, location, store, storage)
    return known[store, properties]


def _can_open(spark: Session, location: str, store: str, storage: Storage) -> bool:
    if is_s3(location):
        return s3_options(spark, storage, location) is not None
    if not has_file_system(spark, location.partition(":")[0]):
        return False
    return (
        _is_same_cluster(spark, store, storage)
        if scheme_of(location) == "hdfs"
        else _knows_cloud(spark, location, store, storage)
    )


_ACCOUNT = (
    "fs.azure.account.key",
    "fs.azure.account.auth.type",
    "fs.azure.sas.fixed.token",
    "fs.azure.sas.token.provider.type",
)
_GOOGLE = (
    "fs.gs.auth.type", "google.cloud.auth.type", "fs.gs.auth.service.account.json.keyfile", "fs.gs.auth.access.token.provider",
    "google.cloud.auth.service.account.json.keyfile", "fs.gs.auth.access.token.provider.impl",
)  # fmt: skip
# how Hadoop's own file system for Google asks for credentials where nobody has said how
_DEFAULT = "COMPUTE_ENGINE"


def _knows_cloud(spark: Session, location: str, store: str, storage: Storage) -> bool:
    """Tell whether the session itself says how to reach a store of Azure or Google for which the
    catalog has properties: these do not reach the JVM."""
    stem, keys = ("adls.", _ACCOUNT) if scheme_of(location) == "abfss" else ("gcs.", _GOOGLE)
    own_properties = {
        key: value for key, value in catalog_properties(storage) if key.startswith(stem)
    }
    if not own_properties:
        return True
    host = host_of(location)
    is_known = any(
        value != _DEFAULT
        for value in hadoop_settings(
            spark, [*keys, *(f"{key}.{host}" for key in keys if host)]
        ).values()
    )
    if (address := own_properties.get("gcs.service.host")) is not None:
        root = hadoop_settings(spark, ["fs.gs.storage.root.url"]).get("fs.gs.storage.root.url", "")
        is_known = root.rstrip("/") == address.rstrip("/")
    if not is_known:
        why = f"the catalog's properties {stem}… do not reach Spark's own scan, and the session has none for it"
        tell_once(f"Files at {store} are read by Arrow in Python tasks, since {why}.")
    return is_known


def _is_same_cluster(spark: Session, store: str, storage: Storage) -> bool:
    """Tell whether the JVM means the same HDFS cluster as Frazil by `hdfs://authority`, or by
    `hdfs://` in locations without one, and knows the name service. A catalog's own properties
    (`hdfs.host`, `hadoop.dfs.…`) do not reach the JVM."""
    settings, authority = hdfs_settings_of(storage, f"{store}/"), store.removeprefix("hdfs://")
    if settings is None:
        return True
    if not authority:
        authority = settings.authority or ""
        if normalise(hadoop_settings(spark, ["fs.defaultFS"]).get("fs.defaultFS", "")) != normalise(
            f"hdfs://{authority}"
        ):
            return False
    nodes = f"dfs.ha.namenodes.{authority}"
    addresses = [
        f"dfs.namenode.rpc-address.{authority}.{node.strip()}"
        for node in settings.config.get(nodes, "").split(",")
    ]
    own_keys = [
        key
        for key in (nodes, f"dfs.namenode.rpc-address.{authority}", *addresses)
        if key in settings.config
    ]
    session_settings = hadoop_settings(spark, own_keys)
    return all(session_settings.get(key) == settings.config[key] for key in own_keys)


def hadoop_options(spark: Session, locations: Sequence[str], storage: Storage) -> dict[str, str]:
    """Return the options of a scan by which Hadoop opens the stores of its files, of each of which
    `jvm_can_open` said that it can.
    """
    stores = {
        "/".join(location.split("/", 3)[:3]): location for location in locations if is_s3(location)
    }
    return {
        key: value
        for location in stores.values()
        for key, value in (s3_options(spark, storage, location) or {}).items()
    }
