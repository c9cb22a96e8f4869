"""A metastore in memory in place of the client of one: its tables and locks are plain dicts, and a
test says which calls go wrong, and how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.catalog.base import Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.calls import MetastoreCall
from frazil.catalog.hive.client import MetastoreError
from frazil.catalog.hive.settings import HiveSettings, settings
from frazil.catalog.hive.structs import (
    GetTableResult,
    HeldLock,
    HiveDatabase,
    HiveTable,
    LockResponse,
    ShowLocksResponse,
)

Fault = Callable[[Callable[[], Any]], Any]


def lost_answer(carry_out: Callable[[], Any]) -> Any:
    """The server does what it is asked, and nobody hears of it."""
    carry_out()
    raise Unclear("the answer was lost")


def lost_call(carry_out: Callable[[], Any]) -> Any:
    raise Unclear("the call was lost, or comes later")


def failing(text: str, *, applied: bool) -> Fault:
    """The server answers with an error, after it has done what it was asked, or without."""

    def fail(carry_out: Callable[[], Any]) -> Any:
        if applied:
            carry_out()
        raise MetastoreError(text, kind="MetaException")

    return fail


@dataclass
class MetastoreInMemory:
    """`faults`: what happens to the next calls of a name, in their order; `fired` lists those that
    happened. `compares`: whether expected parameters are checked."""

    compares: bool = True
    tables: dict[tuple[str, str], HiveTable] = field(default_factory=dict)
    locks: dict[int, HeldLock] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    fired: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    settings: HiveSettings = field(
        default_factory=lambda: settings(
            {
                "uri": "thrift://m",
                "hive.lock-timeout-ms": "2000",
                "hive.lock-check-min-wait-ms": "1",
            }
        )
    )

    def ask(
        self, call: MetastoreCall, *values: Any, first: Callable[[Any], None] | None = None
    ) -> Any:
        if first is not None:
            first(_Connection(self))
        self.asked.append(call.name)
        if self.faults.get(call.name):
            self.fired.append(call.name)
            return self.faults[call.name].pop(0)(lambda: self.answer(call, values))
        return self.answer(call, values)

    def close(self) -> None: ...

    def answer(self, call: MetastoreCall, values: tuple[Any, ...]) -> Any:
        match call:
            case calls.GET_DATABASE:
                return HiveDatabase(values[0], locationUri="/nowhere")
            case calls.GET_TABLE:
                return GetTableResult(self._found(values[0].dbName, values[0].tblName))
            case calls.ALTER_TABLE:
                return self._alter(*values)
            case calls.LOCK:
                return self._lock(values[0])
            case calls.CHECK_LOCK:
                return LockResponse(values[0].lockid, self._state(values[0].lockid))
            case calls.HEARTBEAT:
                return self._beat(values[0].lockid)
            case calls.UNLOCK:
                return self.locks.pop(values[0].lockid)
            case calls.SHOW_LOCKS:
                named = (values[0].dbname, values[0].tablename)
                found = [
                    replace(lock, state=self._state(lock.lockid or 0))
                    for lock in self.locks.values()
                    if (lock.dbname, lock.tablename) == named
                ]
                return ShowLocksResponse(found)
        raise AssertionError(call.name)

    def _found(self, database: str, name: str) -> HiveTable:
        if (database, name) not in self.tables:
            raise MetastoreError(f"{database}.{name} table not found", kind="NoSuchObjectException")
        return self.tables[database, name]

    def _alter(self, database: str, name: str, new: HiveTable, context: Any) -> None:
        stored = self._found(database, name)
        key = context.properties.get("expected_parameter_key")
        if (
            self.compares
            and key
            and (stored.parameters or {}).get(key) != context.properties["expected_parameter_value"]
        ):
            raise MetastoreError("The table has been modified.", kind="MetaException")
        if new.partitionKeys:
            raise MetastoreError(
                "partition keys can not be changed.", kind="InvalidOperationException"
            )
        del self.tables[database, name]
        self.tables[str(new.dbName), str(new.tableName)] = new

    def _lock(self, request: Any) -> LockResponse:
        number, (component,) = max(self.locks, default=0) + 1, request.component
        self.locks[number] = HeldLock(  # as 2.3 does, which takes names as they come
            number,
            component.dbname,
            component.tablename,
            user=request.user,
            hostname=request.hostname,
            agentInfo=request.agentInfo,
        )
        return LockResponse(number, self._state(number))

    def _beat(self, number: int) -> None:
        if number not in self.locks:
            raise MetastoreError(f"No such lock: {number}", kind="NoSuchLockException")

    def _state(self, number: int) -> int:
        """1 acquired, 2 waiting for an earlier lock on the same table."""
        lock = self.locks[number]
        first = min(
            n
            for n, other in self.locks.items()
            if (other.dbname, other.tablename) == (lock.dbname, lock.tablename)
        )
        return 1 if number == first else 2


class _Connection:
    compares: bool | None = None

    def __init__(self, metastore: MetastoreInMemory):
        self._metastore = metastore

    def call(self, call: MetastoreCall, values: tuple[Any, ...]) -> Any:
        return self._metastore.answer(call, values)
