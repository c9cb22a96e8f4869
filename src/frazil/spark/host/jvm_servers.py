"""Start and stop the servers by which other processes reach a session: Spark Connect's and the
Thrift server, which live once in a JVM.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

from py4j.protocol import Py4JJavaError

from frazil.ops.session import Session
from frazil.spark.host.jvm import (
    NOT_AS_KNOWN,
    SPARK,
    class_is_loaded,
    classic_jvm,
    context_of,
    some,
)

_SERVICE = SPARK + "sql.connect.service."
_CONNECT = _SERVICE + "SparkConnectService"
_THRIFT = SPARK + "sql.hive.thriftserver.HiveThriftServer2"
CLASSES = {"Spark Connect": _CONNECT, "Thrift": _THRIFT}
_LONGEST_INT = 2**31
_OPERATION = re.compile(r"SparkConnect_OperationTag_User_(.*)_Session_([^_]*)_Operation_(.*)")
_LONGEST_STATEMENT = 1000
_SERVING: weakref.WeakSet[Any] = weakref.WeakSet()
"""The SparkContexts that a server serves."""
_TRACES = "spark.sql.connect.serverStacktrace.enabled"


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
    # of its new sessions: a client asks whether to show the trace of an error in the JVM
    spark._jsparkSession.sharedState().conf().setIfMissing(_TRACES, "false")
    service = _connect(spark)
    service.start(context)
    _SERVING.add(context_of(spark))
    return int(service.localPort())


def stop_connect(spark: Session, patience: float) -> None:
    """Stop the Connect server: it takes no new call, and those that run have so many seconds."""
    units = classic_jvm(spark).view.java.util.concurrent.TimeUnit
    # py4j makes a Long, as the call needs it, of numbers that an int does not hold only
    wait = max(int(patience * 1e9), _LONGEST_INT)
    _connect(spark).stop(some(spark, wait), some(spark, units.NANOSECONDS))


def operation_tag(spark: Session) -> str:
    """Return the tag of the jobs of a client's operation, for which the JVM's thread has called;
    empty where no client of a server asks.
    """
    if (context := context_of(spark)) not in _SERVING:
        return ""
    tags = str(context.getLocalProperty("spark.job.tags") or "").split(",")
    return next((tag for tag in tags if _OPERATION.fullmatch(tag)), "")


def calling_thread(spark: Session) -> Any:
    """Return the JVM's thread that has called."""
    return classic_jvm(spark).view.java.lang.Thread.currentThread()


def client_facts(spark: Session) -> dict[str, str]:
    """Return what the summary of a snapshot says about a client of Spark Connect: user, operation,
    the tags that the client gave it, and what it asked for. Empty where none asks.
    """
    if (named := _OPERATION.fullmatch(operation_tag(spark))) is None:
        return {}
    user, session, operation = named.groups()
    own = f"SparkConnect_SessionTag_User_{user}_Session_{session}_Tag_"
    tags = str(context_of(spark).getLocalProperty("spark.job.tags")).split(",")
    by_client = sorted(tag.removeprefix(own) for tag in tags if tag.startswith(own))
    facts = {
        "client-user": user,
        "client-operation": operation,
        "client-tags": ",".join(by_client),
        "client-statement": _statement(spark, user, session, operation)[:_LONGEST_STATEMENT],
    }
    return {name: fact for name, fact in facts.items() if fact}


def _statement(spark: Session, *key: str) -> str:
    """Return the SQL of a client's operation, or the name of another command; empty where Spark
    does not tell.
    """
    try:
        view = classic_jvm(spark).view
        running = _connect(spark).executionManager()
        holder = running.getExecuteHolder(getattr(view, _SERVICE + "ExecuteKey")(*key))
        command = holder.get().request().getPlan().getCommand()
        sql = command.getSqlCommand()
        text = str(sql.getInput().getSql().getQuery() or sql.getSql())
        return text or str(command.getCommandTypeCase().toString()).lower()
    except (*NOT_AS_KNOWN, Py4JJavaError):  # Spark is built otherwise, or the operation has ended
        return ""


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
