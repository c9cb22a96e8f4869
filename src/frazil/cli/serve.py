"""Serve the configured catalogs to clients of Spark Connect, JDBC and dbt until a signal."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import closing

import click

from frazil.cli.output import show_facts
from frazil.dropin import spark_session
from frazil.dropin.server import serve as serve_session
from frazil.errors import InvalidInput, StorageError
from frazil.ops.listening import TOKEN, check_access

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS = 4
_OF_OPTIONS = {
    "spark.master": "--master",
    "spark.connect.grpc.binding.address": "--host",
    "spark.connect.grpc.binding.port": "--connect",
    "spark.connect.authenticate.token": "--token",
}


def serve(
    master: str | None,
    conf: tuple[str, ...],
    connect: int,
    thrift: int | None,
    host: str,
    token: str | None,
    grace: float,
    check: bool,
) -> None:
    """Serve until SIGTERM or SIGINT, or with `check` tell by the exit code whether it is served."""
    if check:
        _check(host, connect, thrift)
        return
    settings = dict(_setting(text) for text in conf)
    check_access(host, token or os.environ.get(TOKEN), connect, thrift)
    spark = spark_session("frazil serve", master, settings)
    stop = threading.Event()

    def stopped(number: int, _: object) -> None:
        stop.set()
        for each in (signal.SIGTERM, signal.SIGINT):  # who asks twice does not want to wait
            signal.signal(each, signal.SIG_DFL)

    for each in (signal.SIGTERM, signal.SIGINT):  # after Spark, which sets a handler of its own
        signal.signal(each, stopped)
    running = serve_session(spark, connect, thrift, host, token)
    facts = {
        "serves": f"Spark {spark.version}, catalogs {', '.join(running.catalogs) or 'spark_catalog'}",
        "connect": f"{host}:{running.connect}",
        **({} if thrift is None else {"thrift": f"{host}:{thrift}"}),
        **running.connections(),
    }
    show_facts(facts)
    while not stop.wait(1):
        if running.has_ended():
            raise StorageError("Spark's JVM has ended.", hint="Its messages are above.")
    running.stop(grace)
    spark.stop()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--conf takes KEY=VALUE, not {text!r}.")
    if key in _OF_OPTIONS:
        raise click.UsageError(f"Give {_OF_OPTIONS[key]} for {key}.")
    return key, value


def _check(host: str, connect: int, thrift: int | None) -> None:
    """Raise InvalidInput unless the servers answer: Connect as HTTP/2 begins, which takes the JVM
    and no token, Thrift by taking a connection."""
    for port, ask in ((connect, True), (thrift, False)):
        if port is None:
            continue
        try:
            with closing(socket.create_connection((host, port), timeout=5)) as asked:
                if ask:
                    asked.sendall(_PREFACE)
                    answer = asked.recv(9, socket.MSG_WAITALL)
                    if len(answer) < 9 or answer[3] != _SETTINGS:
                        raise OSError("the answer is not Spark Connect's")
        except OSError as e:
            raise InvalidInput(
                f"Nothing serves at {host}:{port}: {e}.", hint="frazil serve starts it."
            ) from None
    show_facts({"serves": True}, "serves")
