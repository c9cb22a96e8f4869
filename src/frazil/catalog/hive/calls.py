"""Describe the calls of the Hive Metastore that Frazil makes: arguments, result and exceptions, as
its hive_metastore.thrift has them.

All of them exist in 2.3, 3.1 and 4.0; `get_table` and `get_table_objects_by_name`, which 4.0 no
longer has, are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from frazil.catalog.hive.structs import (
    BOOL,
    TEXT,
    CheckLockRequest,
    EnvironmentContext,
    GetTableRequest,
    GetTableResult,
    GetTablesRequest,
    GetTablesResult,
    HeartbeatRequest,
    HiveDatabase,
    HivePartition,
    HiveTable,
    LockRequest,
    LockResponse,
    ServerException,
    ShowLocksRequest,
    ShowLocksResponse,
    ThriftType,
    UnlockRequest,
    list_of,
    spec_of,
    struct_of,
)


@dataclass(frozen=True)
class MetastoreCall:
    """Describe a call. `arguments`: their types, numbered from 1. `raises`: names of the
    exceptions, numbered from 1. `changes`: whether it changes something, so that it must not be
    sent again when its answer is lost."""

    name: str
    arguments: tuple[ThriftType, ...]
    returns: ThriftType | None = None
    raises: tuple[str, ...] = ()
    changes: bool = False

    @cached_property
    def argument_spec(self) -> tuple[Any, ...]:
        return spec_of(
            [(number, f"argument{number}", kind) for number, kind in enumerate(self.arguments, 1)]
        )

    @cached_property
    def result_spec(self) -> tuple[Any, ...]:
        success = [(0, "success", self.returns)] if self.returns else []
        return spec_of(
            [
                *success,
                *(
                    (number, name, struct_of(ServerException))
                    for number, name in enumerate(self.raises, 1)
                ),
            ]
        )


_TEXTS, _CONTEXT, _TABLE, _DATABASE = (
    list_of(TEXT),
    struct_of(EnvironmentContext),
    struct_of(HiveTable),
    struct_of(HiveDatabase),
)
_PARTITION = struct_of(HivePartition)
_META, _GONE, _THERE = "MetaException", "NoSuchObjectException", "AlreadyExistsException"
_OBJECT, _OPERATION = "InvalidObjectException", "InvalidOperationException"
_LOCK, _TXN, _ABORTED = "NoSuchLockException", "NoSuchTxnException", "TxnAbortedException"

SET_UGI = MetastoreCall("set_ugi", (TEXT, _TEXTS), _TEXTS, (_META,))
GET_DATABASES = MetastoreCall("get_all_databases", (), _TEXTS, (_META,))
GET_DATABASE = MetastoreCall("get_database", (TEXT,), _DATABASE, (_GONE, _META))
CREATE_DATABASE = MetastoreCall(
    "create_database", (_DATABASE,), None, (_THERE, _OBJECT, _META), changes=True
)
DROP_DATABASE = MetastoreCall(
    "drop_database", (TEXT, BOOL, BOOL), None, (_GONE, _OPERATION, _META), changes=True
)
ALTER_DATABASE = MetastoreCall(
    "alter_database", (TEXT, _DATABASE), None, (_META, _GONE), changes=True
)
GET_TABLE_NAMES = MetastoreCall("get_all_tables", (TEXT,), _TEXTS, (_META,))
GET_NAMES_BY_TYPE = MetastoreCall("get_tables_by_type", (TEXT, TEXT, TEXT), _TEXTS, (_META,))
GET_TABLE = MetastoreCall(
    "get_table_req", (struct_of(GetTableRequest),), struct_of(GetTableResult), (_META, _GONE)
)
GET_TABLES = MetastoreCall(
    "get_table_objects_by_name_req",
    (struct_of(GetTablesRequest),),
    struct_of(GetTablesResult),
    (_META, _OPERATION, "UnknownDBException"),
)
CREATE_TABLE = MetastoreCall(
    "create_table_with_environment_context",
    (_TABLE, _CONTEXT),
    None,
    (_THERE, _OBJECT, _META, _GONE),
    changes=True,
)
ALTER_TABLE = MetastoreCall(
    "alter_table_with_environment_context",
    (TEXT, TEXT, _TABLE, _CONTEXT),
    None,
    (_OPERATION, _META),
    changes=True,
)
DROP_TABLE = MetastoreCall("drop_table", (TEXT, TEXT, BOOL), None, (_GONE, _META), changes=True)
GET_PARTITION = MetastoreCall("get_partition", (TEXT, TEXT, _TEXTS), _PARTITION, (_META, _GONE))
ADD_PARTITION = MetastoreCall(
    "add_partition", (_PARTITION,), _PARTITION, (_OBJECT, _THERE, _META), changes=True
)
ALTER_PARTITION = MetastoreCall(
    "alter_partition", (TEXT, TEXT, _PARTITION), None, (_OPERATION, _META), changes=True
)
LOCK = MetastoreCall(
    "lock", (struct_of(LockRequest),), struct_of(LockResponse), (_TXN, _ABORTED), changes=True
)
CHECK_LOCK = MetastoreCall(
    "check_lock", (struct_of(CheckLockRequest),), struct_of(LockResponse), (_TXN, _ABORTED, _LOCK)
)
UNLOCK = MetastoreCall("unlock", (struct_of(UnlockRequest),), None, (_LOCK, "TxnOpenException"))
HEARTBEAT = MetastoreCall(
    "heartbeat", (struct_of(HeartbeatRequest),), None, (_LOCK, _TXN, _ABORTED)
)
SHOW_LOCKS = MetastoreCall(
    "show_locks", (struct_of(ShowLocksRequest),), struct_of(ShowLocksResponse)
)
