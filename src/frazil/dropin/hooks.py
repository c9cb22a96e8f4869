"""Hook the entry points of PySpark: properties and methods of its session and DataFrame classes,
routed to Frazil in prepared sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.dropin import sql
from frazil.dropin.catalogs import register
from frazil.dropin.merge_into import merge_into
from frazil.dropin.reader import IcebergReader, IcebergStreamReader, read_table
from frazil.dropin.session_catalog import IcebergCatalog
from frazil.dropin.writer import IcebergStreamWriter, IcebergWriter
from frazil.dropin.writer_v2 import IcebergWriterV2
from frazil.ops.session import Session
from frazil.spark.host.jvm import setting

_HOOKED = "_frazil_hooked"


def mark(spark: Session) -> None:
    """Mark a session as prepared."""
    spark.conf.set(sql.MARK, "true")


def is_prepared(spark: Session) -> bool:
    """Return whether a session was prepared. The mark is a setting of the session: all Python
    handles of the session share it, a new session does not have it."""
    return setting(spark, sql.MARK, "false") == "true"


def hook_classes(spark: Session) -> None:
    """Hook the classes of a session (classic and Connect have different ones), once per process."""
    session_class = type(spark)
    if _HOOKED in session_class.__dict__:
        return
    frame_class = type(spark.range(0))
    _property(session_class, "read", IcebergReader)
    _property(session_class, "readStream", IcebergStreamReader)
    _property(session_class, "catalog", lambda catalog, spark: IcebergCatalog(catalog, spark))
    _method(session_class, "table", read_table)
    _method(session_class, "sql", sql.run)
    _method(session_class, "newSession", lambda new_session, spark: _prepared(new_session()))
    _property(frame_class, "write", IcebergWriter)
    _property(frame_class, "writeStream", IcebergStreamWriter)
    _method(
        frame_class,
        "writeTo",
        lambda write_to, frame, table: IcebergWriterV2(frame, table, write_to),
    )
    _method(frame_class, "mergeInto", merge_into)
    setattr(session_class, _HOOKED, True)


def _prepared(spark: Session) -> Any:
    """Prepare a session that a prepared session has made."""
    mark(spark)
    register(spark)
    sql.take_statements(spark)
    return spark


def _session(owner: object) -> Any:
    """Return the session of a DataFrame, or the session itself."""
    return getattr(owner, "sparkSession", owner)


def _property(cls: type, name: str, make: Callable[[Any, Any], Any]) -> None:
    """Replace a property by one that gives `make(value of the original, owner)` in prepared
    sessions.
    """
    attribute = getattr(cls, name)
    if not isinstance(attribute, property):  # Connect caches some of them
        original = attribute.func if hasattr(attribute, "func") else attribute.fget
    else:
        original = attribute.fget

    def routed(self: object) -> Any:
        value = original(self)
        return make(value, self) if is_prepared(_session(self)) else value

    setattr(cls, name, property(routed, doc=getattr(attribute, "__doc__", None)))


def _method(cls: type, name: str, call: Callable[..., Any]) -> None:
    """Replace a method by one that calls `call(original bound to the owner, owner, *arguments)` in
    prepared sessions.
    """
    original = getattr(cls, name)

    def routed(self: object, *arguments: object, **named: object) -> Any:
        def bound(*a: object, **n: object) -> Any:
            return original(self, *a, **n)

        return (
            call(bound, self, *arguments, **named)
            if is_prepared(_session(self))
            else bound(*arguments, **named)
        )

    routed.__name__, routed.__doc__ = name, original.__doc__
    setattr(cls, name, routed)
