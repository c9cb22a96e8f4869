"""Make the objects that a Hive Metastore stores for Iceberg tables and views: parameters, columns
and formats as Java's HiveCatalog writes them, so that Hive, Java and PyIceberg open the table. A
view is a virtual view whose text is the query, and whose parameter metadata_location points to the
view's metadata.
"""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec

from frazil.catalog.base import LoadedTable, LoadedView
from frazil.catalog.hive.settings import HiveSettings
from frazil.catalog.hive.structs import FieldSchema, HiveTable, SerDeInfo, StorageDescriptor
from frazil.codec.json_nouns import schema_to_json, sort_order_to_json, spec_to_json
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import GC_ENABLED, HIVE_ENGINE_ENABLED, HIVE_LOCK_ENABLED
from frazil.spec.schema import Schema
from frazil.spec.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from frazil.spec.view import SQLViewRepresentation, ViewVersion

LOCATION, PREVIOUS, TABLE_TYPE, ICEBERG = (
    "metadata_location",
    "previous_metadata_location",
    "table_type",
    "ICEBERG",
)
OWNER, CURRENT_SCHEMA = "hive.metastore.table.owner", "current-schema"
_STORAGE_HANDLER, _HANDLER = (
    "storage_handler",
    "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler",
)
# table properties that Hive has under names of its own
_IN_HIVE = {GC_ENABLED.name: "external.table.purge"}
LONGEST_INT = 2**31 - 1
_STATISTICS = {
    "numFiles": "total-data-files",
    "numRows": "total-records",
    "totalSize": "total-files-size",
}
_EXPOSED = (
    "current-snapshot-id", "current-snapshot-timestamp-ms", "current-snapshot-summary", CURRENT_SCHEMA, "default-partition-spec",
    "default-sort-order",
)  # fmt: skip
_FOR_HIVE = (
    "org.apache.iceberg.mr.hive.HiveIcebergSerDe", "org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
    "org.apache.iceberg.mr.hive.HiveIcebergOutputFormat",
)  # fmt: skip
_FOR_OTHERS = (
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", "org.apache.hadoop.mapred.FileInputFormat",
    "org.apache.hadoop.mapred.FileOutputFormat",
)  # fmt: skip
_TYPES = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "date": "date", "time": "string",
    "timestamp": "timestamp", "string": "string", "uuid": "string", "binary": "binary", "unknown": "void",
}  # fmt: skip


def is_iceberg(table: HiveTable) -> bool:
    """Tell whether a table of the metastore is an Iceberg table, rather than one of Hive's own, a
    view, or one of another format.
    """
    parameters = table.parameters or {}
    return parameters.get(TABLE_TYPE, "").upper() == ICEBERG and bool(parameters.get(LOCATION))


def lock_enabled(metadata: TableMetadata, settings: HiveSettings) -> bool:
    """Tell whether commits take the metastore's lock: as the table's property says, else as the
    catalog does.
    """
    table_setting = HIVE_LOCK_ENABLED.given(metadata.properties)
    return settings.lock_enabled if table_setting is None else table_setting


def new_table(table: LoadedTable, database: str, name: str, settings: HiveSettings) -> HiveTable:
    """Make the object of a table that is not in the metastore yet."""
    empty = _empty(database, name, settings, "EXTERNAL_TABLE", {"EXTERNAL": "TRUE"})
    return updated(empty, None, table, settings)


def _empty(
    database: str, name: str, settings: HiveSettings, kind: str, parameters: dict[str, str]
) -> HiveTable:
    now = int(time.time())
    return HiveTable(
        name,
        database,
        settings.user,
        now,
        now,
        LONGEST_INT,
        partitionKeys=[],
        parameters=parameters,
        tableType=kind,
    )


def updated(
    stored: HiveTable, base: LoadedTable | None, table: LoadedTable, settings: HiveSettings
) -> HiveTable:
    """Return a stored object with the pointer, parameters and columns of the table's new state.
    What others put there stays.

    `base`: the state before, whose properties go where the new state does not have them.
    """
    parameters = dict(stored.parameters or {})
    metadata, before = table.metadata, base.metadata.properties if base else {}
    for key in before.keys() - metadata.properties.keys():
        parameters.pop(_IN_HIVE.get(key, key), None)
    parameters |= {
        _IN_HIVE.get(key, key): value for key, value in metadata.properties.items() if key != OWNER
    }
    table_setting = HIVE_ENGINE_ENABLED.given(metadata.properties)
    in_hive = settings.engine_enabled if table_setting is None else table_setting
    sd = formats(columns_of(metadata.schema(), settings), metadata.location, in_hive)
    for key in (_STORAGE_HANDLER, *_EXPOSED, *_STATISTICS):
        parameters.pop(key, None)
    if metadata.table_uuid is not None:
        parameters["uuid"] = metadata.table_uuid
    if base is not None:
        parameters[PREVIOUS] = base.metadata_location
    if in_hive:
        parameters[_STORAGE_HANDLER] = _HANDLER
    parameters |= _exposed(metadata, settings.property_size)
    parameters |= {TABLE_TYPE: ICEBERG, LOCATION: table.metadata_location, "EXTERNAL": "TRUE"}
    return replace(
        stored, parameters=parameters, sd=sd, owner=metadata.properties.get(OWNER, stored.owner)
    )


def columns_of(schema: Schema, settings: HiveSettings) -> list[FieldSchema]:
    """Return the columns that Hive is shown of a schema."""
    return [
        FieldSchema(f.name, hive_type(f.field_type, settings.hive2_types), f.doc)
        for f in schema.fields
    ]


def formats(columns: list[FieldSchema], location: str, in_hive: bool) -> StorageDescriptor:
    """Return where and in which formats an object is stored. `in_hive`: Hive reads it, with classes
    of Iceberg's.
    """
    serde, reader, writer = _FOR_HIVE if in_hive else _FOR_OTHERS
    return StorageDescriptor(
        columns,
        location,
        reader,
        writer,
        False,
        0,
        SerDeInfo(serializationLib=serde, parameters={}),
        [],
        {},
    )


def _exposed(metadata: TableMetadata, longest: int) -> dict[str, str]:
    """Return what parameters show of the current state: the snapshot, its statistics, the schema,
    the default spec and sort order.

    `longest`: the number of characters up to which a text is shown; 0 shows none of them but the
    statistics and the number of snapshots.
    """
    shown = {"snapshot-count": str(len(metadata.snapshots))}
    snapshot = metadata.current_snapshot()
    if snapshot is not None:
        shown |= {
            name: snapshot.summary[key]
            for name, key in _STATISTICS.items()
            if key in snapshot.summary
        }
    if not longest:
        return shown
    texts: dict[str, str] = {CURRENT_SCHEMA: _json(schema_to_json(metadata.schema()))}
    if snapshot is not None:
        shown |= {
            "current-snapshot-id": str(snapshot.snapshot_id),
            "current-snapshot-timestamp-ms": str(snapshot.timestamp_ms),
        }
        summary = {key: value for key, value in snapshot.summary.items() if key != "operation"}
        texts["current-snapshot-summary"] = _json(summary)
    if metadata.spec().fields:
        texts["default-partition-spec"] = _json(spec_to_json(metadata.spec()))
    if metadata.sort_order().fields:
        texts["default-sort-order"] = _json(sort_order_to_json(metadata.sort_order()))
    return shown | {key: text for key, text in texts.items() if len(text) <= longest}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def hive_type(kind: IcebergType, hive2: bool = True) -> str:
    """Return Hive's name of a type. `hive2`: times with zone are `timestamp`, which Hive 2 and
    Spark's client know; else they are `timestamp with local time zone`. Types that Hive lacks are
    shown as strings or bytes; Iceberg's own schema decides what is read."""
    match kind:
        case StructType():
            return f"struct<{','.join(f'{f.name}:{hive_type(f.field_type, hive2)}' for f in kind.fields)}>"
        case ListType():
            return f"array<{hive_type(kind.element_type, hive2)}>"
        case MapType():
            return f"map<{hive_type(kind.key_type, hive2)},{hive_type(kind.value_type, hive2)}>"
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case FixedType():
            return "binary"
        case TimestampNanoType():
            return "timestamp"
        case _ if str(kind) == "timestamptz" or isinstance(kind, TimestamptzNanoType):
            return "timestamp" if hive2 else "timestamp with local time zone"
        case _:
            return _TYPES.get(str(kind), "binary")


_VIEW, _ICEBERG_VIEW, _DIALECT = "VIRTUAL_VIEW", "ICEBERG-VIEW", "hive"


def is_view(stored: HiveTable) -> bool:
    """Tell whether an object of the metastore is a view, Iceberg's or Hive's own."""
    return (stored.tableType or "").upper() == _VIEW


def is_iceberg_view(stored: HiveTable) -> bool:
    """Tell whether an object of the metastore is an Iceberg view, rather than a table or one of
    Hive's own views.
    """
    parameters = stored.parameters or {}
    return (
        is_view(stored)
        and parameters.get(TABLE_TYPE, "").upper() == _ICEBERG_VIEW
        and bool(parameters.get(LOCATION))
    )


def described(stored: HiveTable) -> str:
    """Format what an object of the metastore is, for messages: `an Iceberg view`, `a view`, `a
    MANAGED_TABLE of Hive`, `… of delta`.
    """
    if is_iceberg(stored) or is_iceberg_view(stored):
        return "an Iceberg view" if is_view(stored) else "an Iceberg table"
    parameters = stored.parameters or {}
    if kind := parameters.get(TABLE_TYPE) or parameters.get("spark.sql.sources.provider"):
        return f"a {stored.tableType or 'table'} of {kind}"
    return (
        "a view of Hive"
        if "VIEW" in (stored.tableType or "")
        else f"a {stored.tableType or 'table'} of Hive"
    )


def new_view_object(
    view: LoadedView, database: str, name: str, settings: HiveSettings
) -> HiveTable:
    """Make the object of a view that is not in the metastore yet."""
    return updated_view(_empty(database, name, settings, _VIEW, {}), None, view, settings)


def updated_view(
    stored: HiveTable, base: LoadedView | None, view: LoadedView, settings: HiveSettings
) -> HiveTable:
    """Return a stored object with the pointer, properties, columns and query of the view's new
    state. What others put there stays.

    `base`: the state before, whose properties go where the new state does not have them.
    """
    metadata, parameters = view.metadata, dict(stored.parameters or {})
    for key in base.metadata.properties.keys() - metadata.properties.keys() if base else ():
        parameters.pop(key, None)
    parameters |= {key: value for key, value in metadata.properties.items() if key != OWNER}
    parameters |= {
        "uuid": metadata.view_uuid,
        TABLE_TYPE: _ICEBERG_VIEW,
        LOCATION: view.metadata_location,
    }
    if base is not None:
        parameters[PREVIOUS] = base.metadata_location
    parameters.pop(CURRENT_SCHEMA, None)
    schema = metadata.schema()
    if len(text := _json(schema_to_json(schema))) <= settings.property_size:
        parameters[CURRENT_SCHEMA] = text
    query = _query(metadata.current_version())
    return replace(
        stored,
        parameters=parameters,
        sd=formats(columns_of(schema, settings), metadata.location, in_hive=False),
        owner=metadata.properties.get(OWNER, stored.owner),
        viewOriginalText=query or stored.viewOriginalText,
        viewExpandedText=query or stored.viewExpandedText,
    )


def _query(version: ViewVersion) -> str | None:
    """Return the query that Hive is shown: that of its own dialect, else the first one."""
    queries = [r for r in version.representations if isinstance(r, SQLViewRepresentation)]
    chosen = next(
        (r for r in queries if r.dialect.lower() == _DIALECT), queries[0] if queries else None
    )
    return None if chosen is None else chosen.sql
