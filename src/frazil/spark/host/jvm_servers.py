"""Start and stop the servers by which other processes reach a session: Spark Connect's and the
Thrift server, which live once in a JVM.
"""

from __future__ import annotations

from typing import Any

from frazil.ops.session import Session
from frazil.spark.host.jvm import SPARK, class_is_loaded, classic_jvm, context_of, some

_CONNECT = SPARK + "sql.connect.service.SparkConnectService"
_THRIFT = SPARK + "sql.hive.thriftserver.HiveThriftServer2"
CLASSES = {"Spark Connect": _CONNECT, "Thrift": _THRIFT}
_LONGEST_INT = 2**31


def lacks(spark: Session, server: str) -> bool:
    """Tell whether a session's class path lacks a server."""
    return not class_is_loaded(spark, CLASSES[server])


def connect_runs(spark: Session) -> bool:
    """Tell whether the JVM has a Connect server already."""
    return bool(_connect(spark).started())


def start_connect(spark: Session, host: str, port: int, token: str | None) -> int:
    """Start the Connect server and return its port. Its settings are read when it starts, so that
    they can be given to a context that runs."""
    context = context_of(spark)._jsc.sc()
    settings = context.conf()
    settings.set("spark.connect.grpc.binding.address", host)
    settings.set("spark.connect.grpc.binding.port", str(port))
    if token is not None:
        settings.set("spark.connect.authenticate.token", token)
    service = _connect(spark)
    service.start(context)
    return int(service.localPort())


def stop_connect(spark: Session, patience: float) -> None:
    """Stop the Connect server: it takes no new call, and those that run have so many seconds."""
    units = classic_jvm(spark).view.java.util.concurrent.TimeUnit
    # py4j makes a Long, as the call needs it, of numbers that an int does not hold only
    wait = max(int(patience * 1e9), _LONGEST_INT)
    _connect(spark).stop(some(spark, wait), some(spark, units.NANOSECONDS))


def start_thrift(spark: Session, host: str, port: int) -> Any:
    """Start a Thrift server and return it."""
    view = classic_jvm(spark).view
    view.java.lang.System.setProperty("hive.server2.thrift.port", str(port))
    view.java.lang.System.setProperty("hive.server2.thrift.bind.host", host)
    return getattr(view, _THRIFT).startWithContext(spark._jsparkSession.sqlContext())


def jvm_has_ended(spark: Session) -> bool:
    """Tell whether the JVM that this process started has ended."""
    process = getattr(context_of(spark)._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _connect(spark: Session) -> Any:
    return getattr(getattr(classic_jvm(spark).view, _CONNECT + "$"), "MODULE$")
