"""Describe the Thrift structs of the Hive Metastore that Frazil uses: names, numbers and types of
fields, as its hive_metastore.thrift has them.

The Thrift library reads and writes them by `thrift_spec`. Fields that are not listed are skipped,
so servers from 2.3 to 4 are understood.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

S = TypeVar("S", bound="type[ThriftStruct]")


@dataclass(frozen=True)
class ThriftType:
    """Hold a Thrift type as the library knows it: its code, and what lists, maps and structs hold."""

    code: int
    inner: Any = None


BOOL, I32, I64, TEXT = ThriftType(2), ThriftType(8), ThriftType(10), ThriftType(11, "UTF8")
TEXTS_BY_TEXT = ThriftType(13, (TEXT.code, TEXT.inner, TEXT.code, TEXT.inner, False))
# keys are read as tuples
TEXT_BY_TEXTS = ThriftType(13, (15, (TEXT.code, TEXT.inner, True), TEXT.code, TEXT.inner, False))


def list_of(item: ThriftType) -> ThriftType:
    """Return the type of lists."""
    return ThriftType(15, (item.code, item.inner, False))


def struct_of(kind: type[ThriftStruct]) -> ThriftType:
    """Return the type of structs of a class."""
    return ThriftType(12, [kind, kind.thrift_spec])


def spec_of(members: list[tuple[int, str, ThriftType]]) -> tuple[Any, ...]:
    """Return numbered fields as the Thrift library takes them: a tuple in which each field stands
    at its number.
    """
    by_number = {
        number: (number, kind.code, name, kind.inner, None) for number, name, kind in members
    }
    return tuple(by_number.get(number) for number in range(max(by_number, default=-1) + 1))


class ThriftStruct:
    """Read and write a struct through a protocol of the Thrift library. Fields that are None are
    not written.
    """

    thrift_spec: ClassVar[tuple[Any, ...]] = ()

    def read(self, protocol: Any) -> None:
        protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        protocol.writeStruct(self, self.thrift_spec)


def numbered(number: int, kind: ThriftType) -> Any:
    """Describe a field of a struct by its number and type."""
    return field(default=None, metadata={"number": number, "kind": kind})


def struct(cls: S) -> S:
    """Complete a dataclass whose fields are declared by `numbered`, so that the Thrift library
    reads and writes it.
    """
    members = [(f.metadata["number"], f.name, f.metadata["kind"]) for f in fields(cls)]  # type: ignore[arg-type]
    cls.thrift_spec = spec_of(members)
    return cls


@struct
@dataclass
class FieldSchema(ThriftStruct):
    name: str | None = numbered(1, TEXT)
    type: str | None = numbered(2, TEXT)
    comment: str | None = numbered(3, TEXT)


@struct
@dataclass
class SerDeInfo(ThriftStruct):
    name: str | None = numbered(1, TEXT)
    serializationLib: str | None = numbered(2, TEXT)
    parameters: dict[str, str] | None = numbered(3, TEXTS_BY_TEXT)
    description: str | None = numbered(4, TEXT)
    serializerClass: str | None = numbered(5, TEXT)
    deserializerClass: str | None = numbered(6, TEXT)
    serdeType: int | None = numbered(7, I32)


@struct
@dataclass
class SortColumn(ThriftStruct):
    """Hold a column by which Hive sorts a bucket (struct Order). `order`: 1 ascending, 0
    descending.
    """

    col: str | None = numbered(1, TEXT)
    order: int | None = numbered(2, I32)


@struct
@dataclass
class SkewedInfo(ThriftStruct):
    """Hold the values that Hive keeps in folders of their own, and these folders, by the values."""

    skewedColNames: list[str] | None = numbered(1, list_of(TEXT))
    skewedColValues: list[list[str]] | None = numbered(2, list_of(list_of(TEXT)))
    skewedColValueLocationMaps: dict[tuple[str, ...], str] | None = numbered(3, TEXT_BY_TEXTS)


@struct
@dataclass
class StorageDescriptor(ThriftStruct):
    cols: list[FieldSchema] | None = numbered(1, list_of(struct_of(FieldSchema)))
    location: str | None = numbered(2, TEXT)
    inputFormat: str | None = numbered(3, TEXT)
    outputFormat: str | None = numbered(4, TEXT)
    compressed: bool | None = numbered(5, BOOL)
    numBuckets: int | None = numbered(6, I32)
    serdeInfo: SerDeInfo | None = numbered(7, struct_of(SerDeInfo))
    bucketCols: list[str] | None = numbered(8, list_of(TEXT))
    parameters: dict[str, str] | None = numbered(10, TEXTS_BY_TEXT)
    sortCols: list[SortColumn] | None = numbered(9, list_of(struct_of(SortColumn)))
    skewedInfo: SkewedInfo | None = numbered(11, struct_of(SkewedInfo))
    storedAsSubDirectories: bool | None = numbered(12, BOOL)


@struct
@dataclass
class HiveTable(ThriftStruct):
    """Hold a table as the metastore stores it (struct Table)."""

    tableName: str | None = numbered(1, TEXT)
    dbName: str | None = numbered(2, TEXT)
    owner: str | None = numbered(3, TEXT)
    createTime: int | None = numbered(4, I32)
    lastAccessTime: int | None = numbered(5, I32)
    retention: int | None = numbered(6, I32)
    sd: StorageDescriptor | None = numbered(7, struct_of(StorageDescriptor))
    partitionKeys: list[FieldSchema] | None = numbered(8, list_of(struct_of(FieldSchema)))
    parameters: dict[str, str] | None = numbered(9, TEXTS_BY_TEXT)
    viewOriginalText: str | None = numbered(10, TEXT)
    viewExpandedText: str | None = numbered(11, TEXT)
    tableType: str | None = numbered(12, TEXT)
    temporary: bool | None = numbered(14, BOOL)
    rewriteEnabled: bool | None = numbered(15, BOOL)
    catName: str | None = numbered(17, TEXT)
    ownerType: int | None = numbered(18, I32)


@struct
@dataclass
class HivePartition(ThriftStruct):
    """Hold a partition of a table of Hive's own (struct Partition)."""

    values: list[str] | None = numbered(1, list_of(TEXT))
    dbName: str | None = numbered(2, TEXT)
    tableName: str | None = numbered(3, TEXT)
    createTime: int | None = numbered(4, I32)
    lastAccessTime: int | None = numbered(5, I32)
    sd: StorageDescriptor | None = numbered(6, struct_of(StorageDescriptor))
    parameters: dict[str, str] | None = numbered(7, TEXTS_BY_TEXT)
    catName: str | None = numbered(9, TEXT)


@struct
@dataclass
class HiveDatabase(ThriftStruct):
    """Hold a database as the metastore stores it (struct Database)."""

    name: str | None = numbered(1, TEXT)
    description: str | None = numbered(2, TEXT)
    locationUri: str | None = numbered(3, TEXT)
    parameters: dict[str, str] | None = numbered(4, TEXTS_BY_TEXT)
    ownerName: str | None = numbered(6, TEXT)
    ownerType: int | None = numbered(7, I32)
    catalogName: str | None = numbered(8, TEXT)
    createTime: int | None = numbered(9, I32)
    managedLocationUri: str | None = numbered(10, TEXT)


@struct
@dataclass
class ClientCapabilities(ThriftStruct):
    values: list[int] | None = numbered(1, list_of(I32))


@struct
@dataclass
class GetTableRequest(ThriftStruct):
    dbName: str | None = numbered(1, TEXT)
    tblName: str | None = numbered(2, TEXT)
    capabilities: ClientCapabilities | None = numbered(3, struct_of(ClientCapabilities))


@struct
@dataclass
class GetTableResult(ThriftStruct):
    table: HiveTable | None = numbered(1, struct_of(HiveTable))


@struct
@dataclass
class GetTablesRequest(ThriftStruct):
    dbName: str | None = numbered(1, TEXT)
    tblNames: list[str] | None = numbered(2, list_of(TEXT))
    capabilities: ClientCapabilities | None = numbered(3, struct_of(ClientCapabilities))


@struct
@dataclass
class GetTablesResult(ThriftStruct):
    tables: list[HiveTable] | None = numbered(1, list_of(struct_of(HiveTable)))


@struct
@dataclass
class EnvironmentContext(ThriftStruct):
    properties: dict[str, str] | None = numbered(1, TEXTS_BY_TEXT)


@struct
@dataclass
class LockComponent(ThriftStruct):
    type: int | None = numbered(1, I32)
    level: int | None = numbered(2, I32)
    dbname: str | None = numbered(3, TEXT)
    tablename: str | None = numbered(4, TEXT)
    operationType: int | None = numbered(6, I32)


@struct
@dataclass
class LockRequest(ThriftStruct):
    component: list[LockComponent] | None = numbered(1, list_of(struct_of(LockComponent)))
    user: str | None = numbered(3, TEXT)
    hostname: str | None = numbered(4, TEXT)
    agentInfo: str | None = numbered(5, TEXT)


@struct
@dataclass
class LockResponse(ThriftStruct):
    lockid: int | None = numbered(1, I64)
    state: int | None = numbered(2, I32)
    errorMessage: str | None = numbered(3, TEXT)


@struct
@dataclass
class CheckLockRequest(ThriftStruct):
    lockid: int | None = numbered(1, I64)


@struct
@dataclass
class UnlockRequest(ThriftStruct):
    lockid: int | None = numbered(1, I64)


@struct
@dataclass
class HeartbeatRequest(ThriftStruct):
    lockid: int | None = numbered(1, I64)


@struct
@dataclass
class ShowLocksRequest(ThriftStruct):
    dbname: str | None = numbered(1, TEXT)
    tablename: str | None = numbered(2, TEXT)


@struct
@dataclass
class HeldLock(ThriftStruct):
    """Hold a lock that exists (struct ShowLocksResponseElement). Times are in milliseconds."""

    lockid: int | None = numbered(1, I64)
    dbname: str | None = numbered(2, TEXT)
    tablename: str | None = numbered(3, TEXT)
    state: int | None = numbered(5, I32)
    type: int | None = numbered(6, I32)
    lastheartbeat: int | None = numbered(8, I64)
    acquiredat: int | None = numbered(9, I64)
    user: str | None = numbered(10, TEXT)
    hostname: str | None = numbered(11, TEXT)
    agentInfo: str | None = numbered(13, TEXT)


@struct
@dataclass
class ShowLocksResponse(ThriftStruct):
    locks: list[HeldLock] | None = numbered(1, list_of(struct_of(HeldLock)))


@struct
@dataclass
class ServerException(ThriftStruct):
    """Hold an exception of the metastore, whichever: all of them hold one text."""

    message: str | None = numbered(1, TEXT)
