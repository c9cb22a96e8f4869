"""Call a Hive Metastore by Thrift: connections that are kept and shared by threads, several servers
of which any may fail, errors by type.

A call is sent again only if it reads, or if it was certainly not sent: where the answer to a change
is lost, Unclear is raised.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from frazil.catalog.base import Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.calls import MetastoreCall
from frazil.catalog.hive.settings import HiveSettings
from frazil.catalog.hive.transport import (
    AnswerLimits,
    opened_socket,
    protocol_over,
    thrift_library,
    transport_over,
)
from frazil.errors import FrazilError, StorageError, Unsupported
from frazil.spec.properties import HIVE_LOCK_ENABLED

logger = logging.getLogger("frazil.catalog")
_ROUNDS, _PAUSE = 2, 0.5  # how often all servers are tried for a connection, and seconds between
_MOST_IDLE = 16  # connections that are kept for later calls
_CALL, _EXCEPTION, _UNKNOWN_METHOD = 1, 3, 1  # codes of the Thrift protocol
_SHOWN = 2000
_NO_LOCKS = f"The metastore's database lacks the tables of locks: run Hive's schematool, or set {HIVE_LOCK_ENABLED.name}=false."
_END_OF_FILE = 4  # of the Thrift library's exceptions
_ENDED = (
    "A server that ends the connection without an answer may be of another mind about SASL or TLS: compare hive.kerberos-authentication, "
    "hive.metastore.client.auth.mode and hive.metastore.use.SSL with its configuration."
)
_HINTS = {"HIVE_LOCKS": _NO_LOCKS, "NEXT_LOCK_ID": _NO_LOCKS}


class MetastoreError(StorageError):
    """Report that the metastore answered with an exception. `kind`: its name, such as
    NoSuchObjectException.
    """

    @property
    def kind(self) -> str:
        return str(self.facts["kind"])


class _Broken(Exception):
    """Report that a connection failed, or that what came over it is no answer. `sent`: whether the
    server may have the call. `advice`: what to check."""

    def __init__(self, cause: Exception, sent: bool):
        super().__init__(f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__)
        self.sent, self.advice = sent, getattr(cause, "advice", None)
        if self.advice is None and getattr(cause, "type", None) == _END_OF_FILE:
            self.advice = _ENDED


class Connection:
    """Hold one connection to one server. `compares`: whether this server checks expected
    parameters; None: it was not asked. Raises _Broken."""

    def __init__(self, server: int, address: tuple[str, int], settings: HiveSettings):
        self.server, self.address = server, f"{address[0]}:{address[1]}"
        self.compares: bool | None = None
        self._limits = AnswerLimits()
        try:
            self._socket = opened_socket(address, self._limits, settings)
            try:
                self._protocol = protocol_over(
                    transport_over(self._socket, address, self._limits, settings)
                )
            except BaseException:
                self._socket.close()
                raise
        except FrazilError:
            raise
        except Exception as error:
            raise _Broken(error, sent=False) from error

    def is_alive(self) -> bool:
        """Tell whether the server has not closed the connection since its last use."""
        return bool(self._socket.isOpen())

    def close(self) -> None:
        self._socket.close()

    def call(self, call: MetastoreCall, values: tuple[Any, ...]) -> Any:
        """Call the server and return its result. Raises MetastoreError for an exception of the
        server.
        """
        arguments = SimpleNamespace(
            **{f"argument{number}": value for number, value in enumerate(values, 1)}
        )
        sent = False
        try:
            protocol = self._protocol
            protocol.writeMessageBegin(call.name, _CALL, 0)
            protocol.writeStruct(arguments, call.argument_spec)
            protocol.writeMessageEnd()
            sent = True
            self._limits.begin()
            protocol.trans.flush()
            _, kind, _ = protocol.readMessageBegin()
            refusal, result = None, SimpleNamespace()
            if kind == _EXCEPTION:
                refusal = thrift_library().thrift.TApplicationException()
                refusal.read(protocol)
            else:
                protocol.readStruct(result, call.result_spec)
            protocol.readMessageEnd()
        except Exception as error:  # whatever hostile bytes make the library raise
            raise _Broken(error, sent) from error
        if refusal is not None:
            raise self._refusal(call, refusal)
        return self._result(call, vars(result))

    def _refusal(self, call: MetastoreCall, refusal: Any) -> Exception:
        """Return the error for a refusal by the Thrift layer, which did not reach the metastore's
        own code or failed there.
        """
        text = str(refusal.message or refusal)[:_SHOWN]
        if refusal.type == _UNKNOWN_METHOD:
            message = f"The metastore {self.address} does not know the call {call.name}: {text}"
            return Unsupported(message, hint="It has to be 2.3 or later.")
        return MetastoreError(
            f"The metastore {self.address} failed in {call.name}: {text}",
            kind="TApplicationException",
        )

    def _result(self, call: MetastoreCall, result: dict[str, Any]) -> Any:
        for name in call.raises:
            if (raised := result.get(name)) is not None:
                text = (raised.message or "no message")[:_SHOWN]
                hint = next((advice for word, advice in _HINTS.items() if word in text), None)
                raise MetastoreError(
                    f"The metastore answered {call.name} with {name}: {text}", kind=name, hint=hint
                )
        if call.returns is not None and result.get("success") is None:
            raise MetastoreError(
                f"The metastore {self.address} answered {call.name} without a result.",
                kind="MissingResult",
            )
        return result.get("success")


class HiveClient:
    """Call the servers of one metastore. The server that answered last is asked first. Safe for
    threads and across a fork.
    """

    def __init__(self, settings: HiveSettings):
        thrift_library()
        self.settings = settings
        self._idle: list[Connection] = []
        self._lock, self._owner, self._server = threading.Lock(), os.getpid(), 0

    def ask(
        self,
        call: MetastoreCall,
        *values: object,
        first: Callable[[Connection], None] | None = None,
    ) -> Any:
        """Make a call. `first`: asks over the same connection before, what the same server answers;
        it must not change anything. Raises MetastoreError for an exception of the server, Unclear
        where a change may have been made, StorageError, and what `first` raises."""
        for last in (False, True):
            connection, calling = self._connected(), False
            try:
                if first is not None:
                    first(connection)
                calling = True
                result = connection.call(call, values)
            except _Broken as error:
                self._leave(connection)
                message = f"The metastore {connection.address} did not answer {call.name}: {error}."
                if calling and call.changes and error.sent:
                    raise Unclear(message) from error
                if last:
                    raise StorageError(
                        message, hint="Try again; the metastore's log may tell more."
                    ) from error
            except FrazilError:  # answered, so the connection can be used again
                self._give_back(connection)
                raise
            except BaseException:  # an interrupt: half of an answer may be left in the connection
                connection.close()
                raise
            else:
                self._give_back(connection)
                return result
        raise AssertionError("two rounds return or raise")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connected(self) -> Connection:
        with self._lock:
            if self._owner != os.getpid():  # the parent's connections are not shared
                self._idle, self._owner = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if connection.is_alive():
                    return connection
        return self._new()

    def _new(self) -> Connection:
        """Open a connection to a server, beginning with the one that answered last."""
        servers, failures = self.settings.addresses, {}
        advices = {"Check the catalog property uri, and that the server runs.": None}
        for turn in range(_ROUNDS):
            time.sleep(_PAUSE if turn else 0)
            first = self._server
            for server in ((first + step) % len(servers) for step in range(len(servers))):
                try:
                    connection = Connection(server, servers[server], self.settings)
                    self._introduce(connection)
                except _Broken as error:
                    failures[server] = f"{servers[server][0]}:{servers[server][1]} ({error})"
                    advices.update({error.advice: None} if error.advice else {})
                    continue
                self._server = server
                return connection
        raise StorageError(
            f"No Hive Metastore answers: {', '.join(failures.values())}.", hint=" ".join(advices)
        )

    def _introduce(self, connection: Connection) -> None:
        """Tell the server who asks, as Java's client does. A server that does not want to know is
        asked all the same.
        """
        if self.settings.identity is not None:  # the server knows it by SASL
            return
        try:
            connection.call(calls.SET_UGI, (self.settings.user, list(self.settings.groups)))
        except (MetastoreError, Unsupported) as error:
            logger.debug("set_ugi: %s", error)
        except _Broken:
            connection.close()
            raise

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if self._owner != os.getpid():
                return
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _leave(self, connection: Connection) -> None:
        """Close a connection that failed, with the idle ones to the same server, which would fail
        in turn, and ask another server next.
        """
        with self._lock:
            failed = [
                connection,
                *(idle for idle in self._idle if idle.server == connection.server),
            ]
            self._idle = [idle for idle in self._idle if idle.server != connection.server]
            if self._server == connection.server:
                self._server = (connection.server + 1) % len(self.settings.addresses)
        for each in failed:
            each.close()
