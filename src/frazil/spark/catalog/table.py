"""Show a table to Spark: what statements about it ask (columns, partitioning, properties), and the
writer of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import types as s

from frazil.catalog import LoadedTable
from frazil.catalog.names import full_name
from frazil.errors import Unsupported
from frazil.expr.sql_text import back_quoted
from frazil.ops.insert import Insertion
from frazil.ops.session import Session
from frazil.scan.columns import LINEAGE, metadata_columns
from frazil.spark.catalog.protocol import Calls, Parts, Staged, TableDefinition
from frazil.spark.catalog.proxy import SparkProxy
from frazil.spark.catalog.write import WriteBuilder
from frazil.spark.engine.entry_points import sink_table
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes
from frazil.spark.host.jvm_sources import TakeBatch
from frazil.spark.streams.sink.writer import batches_of_client
from frazil.spark.types.spark_types import default_sql, spark_field, spark_type, time_enabled
from frazil.spec import types as i
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import DATA_FORMAT, SPARK_SCHEMA_EVOLUTION, without_history
from frazil.spec.schema import Schema
from frazil.spec.sorting import SortField
from frazil.spec.transforms import (
    BucketTransform,
    IdentityTransform,
    TruncateTransform,
    VoidTransform,
)

_CAPABILITIES = (
    "BATCH_READ",
    "V1_BATCH_WRITE",
    "BATCH_WRITE",  # Spark checks for it where partitions are overwritten
    "TRUNCATE",
    "OVERWRITE_BY_FILTER",
    "OVERWRITE_DYNAMIC",
    "STREAMING_WRITE",
)
_OF_ICEBERG: Mapping[str, str] = MappingProxyType({"provider": "iceberg"})
_UNITS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def shown_schema(schema: Schema, *, time: bool) -> s.StructType:
    """Return the columns of a table as statements about it show them: with NOT NULL, comments and
    defaults.
    """
    fields = []
    for field in schema.fields:
        shown = spark_field(field, time=time)
        metadata = dict(shown.metadata or {})
        for key, value in (
            ("CURRENT_DEFAULT", field.write_default),
            # Spark gives new rows the one of old files where a column has no other
            ("EXISTS_DEFAULT", None if field.write_default is None else field.initial_default),
        ):
            if value is not None and (text := default_sql(field.field_type, value)) is not None:
                metadata[key] = text
        fields.append(
            s.StructField(
                field.name, _exact(field.field_type, shown.dataType), not field.required, metadata
            )
        )
    return s.StructType(fields)


def _exact(type_: i.IcebergType, shown: s.DataType) -> s.DataType:
    """Return a type of Spark's with the NOT NULL and the comments that a nested type has inside."""
    match type_, shown:
        case i.StructType(), s.StructType():
            pairs = zip(type_.fields, shown.fields, strict=True)
            return s.StructType(
                [
                    s.StructField(
                        f.name,
                        _exact(f.field_type, field.dataType),
                        not f.required,
                        {"comment": f.doc} if f.doc else None,
                    )
                    for f, field in pairs
                ]
            )
        case i.ListType(), s.ArrayType():
            return s.ArrayType(
                _exact(type_.element_type, shown.elementType), not type_.element_required
            )
        case i.MapType(), s.MapType():
            key, value = (
                _exact(type_.key_type, shown.keyType),
                _exact(type_.value_type, shown.valueType),
            )
            return s.MapType(key, value, not type_.value_required)
    return shown


def partition_terms(spec: PartitionSpec, schema: Schema) -> list[tuple[str, list[object]]]:
    """Return the transforms of a partition spec as Spark names them, with their arguments. Names of
    columns are quoted, as Spark parses them.
    """
    terms: list[tuple[str, list[object]]] = []
    for field in spec.fields:
        column = back_quoted([str(field.source_id)])
        if field.source_id in schema.by_id:
            around = schema.parents.get(field.source_id, ())
            column = back_quoted(schema.by_id[n].name for n in (*around, field.source_id))
        match field.transform:
            case VoidTransform():
                continue
            case IdentityTransform():
                terms.append(("identity", [column]))
            case BucketTransform() as bucket:
                terms.append(("bucket", [bucket.num_buckets, column]))
            case TruncateTransform() as truncate:
                terms.append(("truncate", [truncate.width, column]))
            case other:
                terms.append((_UNITS.get(str(other), str(other)), [column]))
    return terms


def _order_term(field: SortField, schema: Schema) -> str:
    """Return a term of a sort order as `WRITE ORDERED BY` takes it, in Java Iceberg's spelling."""
    column = schema.find_column_name(field.source_id) or str(field.source_id)
    match field.transform:
        case IdentityTransform():
            term = column
        case BucketTransform() as bucket:
            term = f"bucket({bucket.num_buckets}, {column})"
        case TruncateTransform() as truncate:
            term = f"truncate({column}, {truncate.width})"
        case other:
            term = f"{_UNITS.get(str(other), str(other))}({column})"
    order = f"{field.direction.value} {field.null_order.value.replace('-', ' ')}"
    return f"{term} {order.upper()}"


class MetadataColumn(SparkProxy):
    """Name a metadata column of a table, such as `_file`."""

    Java = implementing(CATALOG + "MetadataColumn")

    def __init__(
        self, types: CatalogTypes, spark: Session, name: str, data_type: s.DataType, nullable: bool
    ):
        super().__init__(types, name)
        self._spark, self._name, self._type, self._nullable = spark, name, data_type, nullable

    def name(self) -> str:
        return self._name

    def dataType(self) -> Any:
        return self.types.data_type(self._spark, self._type)

    def isNullable(self) -> bool:
        return self._nullable

    def comment(self) -> str | None:
        return None

    def metadataInJSON(self) -> str | None:
        return None

    def transform(self) -> Any:
        return None


class DescribedTable(SparkProxy):
    """Answer what Spark asks of any table; `_struct`, the StructType of its columns, is what each
    kind of table knows.
    """

    _struct: Any

    @cached_property
    def _columns(self) -> Any:
        return self.types.columns(self._struct)

    def name(self) -> str:
        return self._described

    def schema(self) -> Any:
        return self._struct

    def columns(self) -> Any:
        return self._columns

    def constraints(self) -> Any:
        return self.types.no_constraints

    def id(self) -> str | None:
        return None

    def version(self) -> str | None:
        return None


class DescribedState(DescribedTable):
    """Describe a table, or a state of it that a branch, a tag or a snapshot is, by what the table's
    metadata say. `columns`: those of the state."""

    Java = implementing(CATALOG + "SupportsMetadataColumns")

    def __init__(
        self,
        types: CatalogTypes,
        spark: Session,
        name: str,
        loaded: LoadedTable,
        columns: s.StructType | None = None,
    ):
        super().__init__(types, name)
        self.spark, self.loaded, self._state = spark, loaded, columns

    @cached_property
    def _struct(self) -> Any:
        shown = self._state
        if shown is None:
            shown = shown_schema(self.loaded.metadata.schema(), time=time_enabled(self.spark))
        return self.types.struct_type(self.spark, shown)

    def capabilities(self) -> Any:
        return self.types.capabilities(("BATCH_READ",))

    def partitioning(self) -> Any:
        metadata = self.loaded.metadata
        return self.types.transforms(partition_terms(metadata.spec(), metadata.schema()))

    def properties(self) -> Any:
        return self._properties

    @cached_property
    def _properties(self) -> Any:
        return self.types.string_map(self.shown_properties())

    def metadataColumns(self) -> Any:
        return self._metadata_columns

    @cached_property
    def _metadata_columns(self) -> Any:
        time = time_enabled(self.spark)
        metadata = self.loaded.metadata
        columns = metadata_columns(metadata)
        # those of row lineage are in tables of version 3 alone
        names = [n for n in columns if n not in LINEAGE or metadata.format_version >= 3]
        fields = [columns[name] for name in names]
        shown = [
            (f.name, spark_type(f.field_type, f.name, time=time), not f.required) for f in fields
        ]
        return self.types.metadata_columns(
            [MetadataColumn(self.types, self.spark, *column) for column in shown]
        )

    def canRenameConflictingMetadataColumns(self) -> bool:
        return False

    # --- not of the interfaces: their names begin with _, or they return what Python asks

    def shown_properties(self) -> Mapping[str, str]:
        """Return the properties that DESCRIBE and SHOW TBLPROPERTIES show, those that Spark
        reserves included.
        """
        return table_properties(self.loaded)


_OF_SERVED = tuple(
    CATALOG + name for name in ("SupportsWrite", "SupportsMetadataColumns", "TruncatableTable")
)


class ServedTable(DescribedState):
    """Describe a table to Spark, and write its rows. `parts`: of its name in the catalog; `branch`:
    that it is written to.
    """

    Java = implementing(*_OF_SERVED)

    def __init__(
        self,
        types: CatalogTypes,
        spark: Session,
        calls: Calls,
        parts: Parts,
        loaded: LoadedTable,
        branch: str | None = None,
    ):
        super().__init__(types, spark, full_name((calls.name, *parts)), loaded)
        self.calls, self.parts, self.branch = calls, parts, branch
        self._streams: dict[str, TakeBatch] = {}

    def capabilities(self) -> Any:
        evolves = SPARK_SCHEMA_EVOLUTION.of(self.loaded.metadata.properties)
        more = ("AUTOMATIC_SCHEMA_EVOLUTION",) if evolves else ()
        return self.types.capabilities(_CAPABILITIES + more)

    def id(self) -> str | None:
        uuid = self.loaded.metadata.table_uuid
        return None if uuid is None else str(uuid)

    def version(self) -> str | None:
        snapshot = self.loaded.metadata.current_snapshot_id
        return None if snapshot is None else str(snapshot)

    def newWriteBuilder(self, info: JavaObject) -> Any:
        options, query = self.types.options(info.options()), str(info.queryId())
        stream = partial(self._stream, query, options)
        return WriteBuilder(self.types, self._described, options, self._insert, self.spark, stream)

    def supportedCustomMetrics(self) -> Any:
        return self.types.no_metrics

    def reportDriverMetrics(self) -> Any:
        return self.types.no_task_metrics

    def truncateTable(self, *context: object) -> bool:
        self.calls.truncate(self.parts)
        return True

    # --- not of the interfaces: their names begin with _, or they return what Python asks

    def _insert(self, insertion: Insertion) -> None:
        self.calls.insert(self.parts, insertion, self.branch)

    def _stream(self, query: str, options: Mapping[str, str], replaces: bool) -> TakeBatch:
        """Return what writes the batches of a streaming query, of which each asks for it."""
        if query not in self._streams:
            target = sink_table(self.calls.backend, self.loaded, self._described)
            output = "complete" if replaces else None
            self._streams[query] = batches_of_client(
                self.spark, target, options, self.branch, output
            )
        return self._streams[query]


class PipelineTable(ServedTable):
    """Describe a table to a declarative pipeline. Its AUTO CDC flows want tables of Spark's row-level
    operations, and change them by `mergeInto`, which reaches Frazil as any MERGE does.
    """

    Java = implementing(*_OF_SERVED, CATALOG + "SupportsRowLevelOperations")

    def newRowLevelOperationBuilder(self, info: JavaObject) -> Any:
        raise Unsupported(f"Spark does not rewrite the rows of {self._described}: Frazil does.")


class ShownTable(DescribedTable):
    """Describe what has no state of the table's: a metadata table, a changelog or a view."""

    Java = implementing(CATALOG + "Table")

    def __init__(
        self,
        types: CatalogTypes,
        spark: Session,
        name: str,
        columns: s.StructType,
        properties: Mapping[str, str] = _OF_ICEBERG,
    ):
        super().__init__(types, name)
        self._struct, self._properties = types.struct_type(spark, columns), properties

    def partitioning(self) -> Any:
        return self.types.transforms(())

    def properties(self) -> Any:
        return self.types.string_map(self._properties)

    def capabilities(self) -> Any:
        return self.types.capabilities(("BATCH_READ",))


def table_properties(loaded: LoadedTable) -> dict[str, str]:
    """Return a table's properties as Java Iceberg shows them to Spark, without those that keep what
    was done to the table, which are in no statement that makes another one."""
    metadata = loaded.metadata
    snapshot = metadata.current_snapshot_id
    file_format = DATA_FORMAT.of(metadata.properties)
    order = metadata.sort_order()
    shown = {
        "format": f"iceberg/{file_format}",
        "provider": "iceberg",
        "current-snapshot-id": "none" if snapshot is None else str(snapshot),
        "location": metadata.location,
        "format-version": str(metadata.format_version),
    }
    if order.fields:
        shown["sort-order"] = ", ".join(_order_term(f, metadata.schema()) for f in order.fields)
    if names := [
        metadata.schema().find_column_name(i) for i in metadata.schema().identifier_field_ids
    ]:
        shown["identifier-fields"] = "[" + ",".join(map(str, names)) + "]"
    return {**shown, **without_history(metadata.properties)}


class StagedTable(DescribedTable):
    """Take the rows of a table that becomes visible with them: CREATE TABLE AS SELECT and REPLACE
    TABLE in one commit."""

    Java = implementing(CATALOG + "StagedTable", CATALOG + "SupportsWrite")

    def __init__(
        self,
        types: CatalogTypes,
        spark: Session,
        calls: Calls,
        parts: Parts,
        definition: TableDefinition,
        staged: Staged,
        transforms: JavaObject,
    ):
        super().__init__(types, full_name((calls.name, *parts)))
        self._spark, self._definition, self._staged, self._transforms = (
            spark,
            definition,
            staged,
            transforms,
        )

    @cached_property
    def _struct(self) -> Any:
        return self.types.struct_type(self._spark, self._definition.schema)

    def partitioning(self) -> Any:
        return self._transforms

    def properties(self) -> Any:
        return self.types.string_map(self._definition.properties)

    def capabilities(self) -> Any:
        return self.types.capabilities(
            ["V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC"]
        )

    def newWriteBuilder(self, info: JavaObject) -> Any:
        options = self.types.options(info.options())
        return WriteBuilder(self.types, self._described, options, self._staged.insert, self._spark)

    def commitStagedChanges(self) -> None:
        self._staged.commit()

    def abortStagedChanges(self) -> None:
        self._staged.abort()

    def reportDriverMetrics(self) -> Any:
        return self.types.no_task_metrics
