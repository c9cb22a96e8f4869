"""Locations as Spark takes and tells them: glob patterns going in, `_metadata.file_path` (a URI) coming out."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from frazil.spark.host.jvm import has_file_system
from frazil.storage import Storage, has_vended_credentials
from frazil.storage.locations import local_path_of, scheme_of

_GLOB = re.compile(r"([*?\[\]{}\\])")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~'()*:@&=+$,;/")
_LINE_ENDS = re.compile(r"[\n\r]")


def as_glob(location: str) -> str:
    """The location so that Spark takes it for itself and for no pattern."""
    return _GLOB.sub(r"\\\1", location)


def is_hidden(location: str) -> bool:
    """Whether Spark's file index drops the file because of its name, or cannot be handed it."""
    name = location.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_") or bool(_LINE_ENDS.search(location)) or "\\" in location


def spark_text(location: str) -> str:
    """What `_metadata.file_path` says for a location: Hadoop's Path, percent-encoded as java.net.URI does."""
    store, path = _parted(location)
    return store + _quoted(path)


def path_text(location: str) -> str:
    """A location as Hadoop's Path takes it: with its file system, and nothing encoded."""
    return "".join(_parted(location))


def _parted(location: str) -> tuple[str, str]:
    if scheme_of(location) == "file":
        return "file:", re.sub("/{2,}", "/", local_path_of(location))
    scheme, _, rest = location.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority}", re.sub("/{2,}", "/", slash + path)


def _quoted(path: str) -> str:
    out = []
    for c in path:
        if ord(c) < 128:
            out.append(c if ord(c) in _PLAIN else f"%{ord(c):02X}")
        elif unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc"):
            out.append("".join(f"%{b:02X}" for b in c.encode()))
        else:
            out.append(c)
    return "".join(out)


def jvm_can_open(spark: Any, location: str, known: dict[str, bool], storage: Storage) -> bool:
    """Whether the JVM has a Hadoop file system for the location's scheme; answers are kept in `known`. Not where the catalog vends
    credentials: a Hadoop file system keeps those it began with, and a scan may last longer than they live."""
    if scheme_of(location) == "file":
        return True
    if has_vended_credentials(storage):
        return False
    scheme = location.partition(":")[0]
    if scheme == "memory":
        return False
    if scheme not in known:
        known[scheme] = has_file_system(spark, scheme)
    return known[scheme]
