"""Where PySpark is entered: properties and methods of its session and DataFrame classes, sent on when the session was prepared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.dropin import sql
from frazil.dropin.merge_into import merge_into
from frazil.dropin.reader import IcebergReader, read_table
from frazil.dropin.session_catalog import IcebergCatalog
from frazil.dropin.stream_writer import IcebergStreamWriter
from frazil.dropin.streams import IcebergStreamReader
from frazil.dropin.writer import IcebergWriter
from frazil.dropin.writer_v2 import IcebergWriterV2

_MARK = "spark.frazil.installed"
_HOOKED = "_frazil_hooked"


def mark(spark: Any) -> None:
    spark.conf.set(_MARK, "true")


def is_prepared(spark: Any) -> bool:
    """The mark is a setting of the session itself: every Python handle of it knows, a new session does not."""
    return str(spark.conf.get(_MARK, "false")) == "true"


def hook_classes(spark: Any) -> None:
    """Hooks the classes of this session (classic and Connect have their own); a second call finds them hooked."""
    session_class = type(spark)
    if _HOOKED in session_class.__dict__:
        return
    frame_class = type(spark.range(0))
    _property(session_class, "read", lambda own, spark: IcebergReader(spark, own))
    _property(session_class, "readStream", lambda own, spark: IcebergStreamReader(own, spark))
    _property(session_class, "catalog", lambda own, spark: IcebergCatalog(own, spark))
    _method(session_class, "table", read_table)
    _method(session_class, "sql", sql.run)
    _property(frame_class, "write", lambda own, frame: IcebergWriter(frame, own))
    _property(frame_class, "writeStream", lambda own, frame: IcebergStreamWriter(own, frame))
    _method(frame_class, "writeTo", lambda own, frame, table: IcebergWriterV2(frame, table, own))
    _method(frame_class, "mergeInto", merge_into)
    setattr(session_class, _HOOKED, True)


def _session(owner: Any) -> Any:
    return getattr(owner, "sparkSession", owner)


def _property(cls: type, name: str, make: Callable[[Any, Any], Any]) -> None:
    own = getattr(cls, name)
    if not isinstance(own, property):  # Connect caches some of them
        original = own.func if hasattr(own, "func") else own.fget
    else:
        original = own.fget

    def routed(self: Any) -> Any:
        found = original(self)
        return make(found, self) if is_prepared(_session(self)) else found

    setattr(cls, name, property(routed, doc=getattr(own, "__doc__", None)))


def _method(cls: type, name: str, call: Callable[..., Any]) -> None:
    original = getattr(cls, name)

    def routed(self: Any, *arguments: Any, **named: Any) -> Any:
        def own(*a: Any, **n: Any) -> Any:
            return original(self, *a, **n)

        return call(own, self, *arguments, **named) if is_prepared(_session(self)) else own(*arguments, **named)

    routed.__name__, routed.__doc__ = name, original.__doc__
    setattr(cls, name, routed)
