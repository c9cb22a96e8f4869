"""Serve a session's tables to other processes: by Spark Connect to clients in any language, by
Thrift to JDBC, ODBC and dbt.

Frazil plans and commits in the process that serves; clients need Spark's own client only.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from frazil.commit.queue import wait_for_commits
from frazil.dropin import install
from frazil.dropin.catalogs import register
from frazil.dropin.sources import serve_writes
from frazil.errors import InvalidInput, NotInstalledError, Unsupported
from frazil.ops.listening import TOKEN, check_access, is_any, is_local
from frazil.ops.session import Session
from frazil.spark.host import jvm_servers
from frazil.spark.host.jvm import jvm_of

PATIENCE = 30.0
"""Seconds that a stop leaves to what runs."""


@dataclass(frozen=True)
class Server:
    """Hold what serves a session: `host`, and the ports of Spark Connect (`connect`) and Thrift,
    None where there is none; `catalogs`: the names that clients know.
    """

    spark: Any
    catalogs: tuple[str, ...]
    host: str
    connect: int | None
    thrift: int | None
    _thrift_server: Any = None

    def connections(self) -> dict[str, str]:
        """Return what a client types to connect, by kind of client."""
        host = socket.gethostname() if is_any(self.host) else self.host
        lines = {}
        if self.connect is not None:
            # PySpark sends a token without TLS to this name only
            name = "localhost" if is_local(self.host) else host
            lines["python"] = (
                f'SparkSession.builder.remote("sc://{name}:{self.connect}").getOrCreate()'
            )
        if self.thrift is not None:
            lines["jdbc"] = f"jdbc:hive2://{host}:{self.thrift}/default"
            lines["dbt"] = (
                f"{{type: spark, method: thrift, host: {host}, port: {self.thrift}, schema: default}}"
            )
        return lines

    def has_ended(self) -> bool:
        """Tell whether the JVM, which serves, has ended."""
        return jvm_servers.jvm_has_ended(self.spark)

    def stop(self, patience: float = PATIENCE) -> None:
        """Stop serving. New statements are refused at once; those of Connect that run have
        `patience` seconds to end, commits that have begun the rest of it. The session stays.
        """
        until = time.monotonic() + patience
        if self.connect is not None:
            jvm_servers.stop_connect(self.spark, patience)
        wait_for_commits(until - time.monotonic())
        if self._thrift_server is not None:
            self._thrift_server.stop()
            wait_for_commits(until - time.monotonic())


def serve(
    spark: Session,
    connect: int | None = 15002,
    thrift: int | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
) -> Server:
    """Serve a running session to other processes and return at once: by Spark Connect at the port
    `connect` (0: any free one), by Thrift at the port `thrift`, each unless it is None. The session
    is installed, if it was not.

    Raises InvalidInput for another host than this machine's without a token, or with Thrift, which
    would ask nobody who they are; NotInstalledError where the session's class path lacks a server.
    """
    token = token or os.environ.get(TOKEN)
    check_access(host, token, connect, thrift)
    install(spark)
    if jvm_of(spark) is None:
        raise Unsupported(
            "serve takes a classic session; this is a client of another server.",
            hint="frazil.spark_session(master=…), without SPARK_REMOTE.",
        )
    for server, port in (("Spark Connect", connect), ("Thrift", thrift)):
        if port is not None and jvm_servers.lacks(spark, server):
            raise NotInstalledError(
                f"This session's class path has no server for {server}: {jvm_servers.CLASSES[server]}.",
                hint="pip install 'frazil[serve]', whose PySpark has it, or spark.jars.packages.",
            )
    serve_writes(spark)
    if connect is not None:
        if jvm_servers.connect_runs(spark):
            raise InvalidInput(
                "A Spark Connect server runs in this session already.",
                hint="Leave out the plugin SparkConnectPlugin, or connect=None.",
            )
        connect = jvm_servers.start_connect(spark, host, connect, token)
    started = None if thrift is None else jvm_servers.start_thrift(spark, host, thrift)
    return Server(spark, tuple(sorted(register(spark))), host, connect, thrift, started)
