"""Hold what writing data files needs: the table's schema, spec, sort order and properties, where
files go, and how they are named.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from frazil.arrow.values.arrow_schema import Layout
from frazil.arrow.write.metrics import FULL, NONE, MetricsConfig, metrics_config
from frazil.arrow.write.write_avro import AvroFileWriter, avro_settings
from frazil.arrow.write.write_options import LEVELS, Verb, WriteOptions, meaningless, write_options
from frazil.arrow.write.write_orc import OrcFileWriter, orc_layout, orc_settings
from frazil.arrow.write.write_parquet import ParquetFileWriter, ParquetSettings, parquet_layout
from frazil.arrow.write.write_row_groups import RowGroupsWriter
from frazil.codec.single_value import partition_path
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import (
    AVRO_CODEC,
    DATA_FORMAT,
    DELETE_FORMAT,
    DELETE_TARGET_FILE_SIZE,
    FORMATS,
    PARQUET_CODEC,
    TARGET_FILE_SIZE,
    properties_of_deletes,
    refuse_encryption,
)
from frazil.spec.schema import (
    DELETE_FILE_PATH_ID,
    DELETE_FILE_POS_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
    ROW_ID_ID,
    Schema,
)
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder
from frazil.spec.types import LongType, NestedField, StringType
from frazil.storage.base import Storage
from frazil.tasks.in_order import default_workers

POSITION_SCHEMA = Schema(
    NestedField(
        DELETE_FILE_PATH_ID,
        "file_path",
        StringType(),
        True,
        "Path of a file in which a deleted row is stored",
    ),
    NestedField(
        DELETE_FILE_POS_ID,
        "pos",
        LongType(),
        True,
        "Ordinal position of a deleted row in the data file",
    ),
)
LINEAGE = (
    NestedField(
        ROW_ID_ID, "_row_id", LongType(), False, "Implicit row ID that is automatically assigned"
    ),
    NestedField(
        LAST_UPDATED_SEQUENCE_NUMBER_ID,
        "_last_updated_sequence_number",
        LongType(),
        False,
        "Sequence number when the row was last updated",
    ),
)
_CODECS = {"parquet": PARQUET_CODEC, "avro": AVRO_CODEC}


@dataclass(frozen=True)
class DeleteKind:
    """Tell what delete files hold: "position", or "equality" with the field ids of the columns that
    are compared.
    """

    name: str
    equality_ids: tuple[int, ...] = ()

    @property
    def metadata(self) -> dict[str, str]:
        """Return the metadata that Java writes to the header or footer of a delete file."""
        ids = (
            {"delete-field-ids": ", ".join(map(str, self.equality_ids))}
            if self.equality_ids
            else {}
        )
        return {"delete-type": self.name, **ids}


@dataclass(frozen=True)
class WriteContext:
    """Hold what all files of a write operation have in common; frozen and picklable, so that it
    travels to tasks.

    `memory`: bytes of rows that wait to be written, over all partitions. `workers`: threads (None:
    one per core). File names are those of Java Iceberg: partition id, task id, operation, counter.

    `specs`: all partition specs of the table. `sources`: the columns that they partition by,
    dropped ones included. Where these are empty, `spec` and `schema` are used. `deletes`: set by
    `for_deletes`. `lineage`: set by `keeping_lineage`.
    """

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    storage: Storage
    location: str
    properties: Mapping[str, str] = field(repr=False)
    format: str = "parquet"
    target_size: int = TARGET_FILE_SIZE.default
    options: WriteOptions = field(default_factory=lambda: write_options({}), repr=False)
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    partition_id: int = 0
    task_id: int = 0
    memory: int = 512 * 1024 * 1024
    workers: int | None = None
    format_version: int = 2
    specs: tuple[PartitionSpec, ...] = ()
    sources: Schema | None = field(default=None, repr=False)
    deletes: DeleteKind | None = None
    lineage: bool = False

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        storage: Storage,
        options: WriteOptions | None = None,
        operation_id: str | None = None,
        **more: Any,
    ) -> WriteContext:
        """Make the context of a write to a table; options take precedence over its properties.
        `more`: any other field.
        """
        options = options or write_options({})
        refuse_encryption(metadata)
        spec = (
            metadata.spec()
            if options.output_spec_id is None
            else metadata.spec_by_id(options.output_spec_id)
        )
        order = (
            metadata.sort_order()
            if options.output_sort_order_id is None
            else metadata.sort_order_by_id(options.output_sort_order_id)
        )
        if not options.use_table_distribution_and_ordering:
            order = UNSORTED_SORT_ORDER
        if unknown := [f for f in spec.fields if not f.transform.is_known]:
            raise Unsupported(
                f"Cannot write with partition transform {unknown[0].transform}: it is not known to this version."
            )
        more = {
            "format_version": metadata.format_version,
            "specs": metadata.partition_specs,
            "sources": _sources(metadata),
            **more,
        }
        return cls(
            metadata.schema(),
            spec,
            order,
            storage,
            metadata.location,
            dict(metadata.properties),
            _format(options.write_format, DATA_FORMAT.of(metadata.properties)),
            options.target_file_size_bytes or TARGET_FILE_SIZE.of(metadata.properties),
            options,
            operation_id or f"{options.named_for}{uuid.uuid4()}",
            **more,
        )

    def keeping_lineage(self) -> WriteContext:
        """Return a context for files that also store `_row_id` and `_last_updated_sequence_number`
        (v3; spec, "Row Lineage").

        They are taken from batches that have columns of these names; for other batches they are
        null, which means inherited. Raises Unsupported before v3.
        """
        if self.format_version < 3:
            text = f"Row lineage needs format version 3 or later; {self.location} has version {self.format_version}."
            raise Unsupported(text, table=self.location)
        if taken := [
            f.name
            for f in LINEAGE
            if not self.lineage and f.name in (own.name for own in self.schema.fields)
        ]:
            text = f"The table has a column {taken[0]}, a name that is reserved for row lineage, so its rows cannot be changed."
            raise Unsupported(text, hint="Rename the column.", table=self.location)
        return (
            self if self.lineage else replace(self, schema=_with_lineage(self.schema), lineage=True)
        )

    def for_deletes(self, kind: DeleteKind) -> WriteContext:
        """Return a context for delete files. Their format and size are those of `write.delete.*`,
        else those of data files.
        """
        plain = _without_lineage(self.schema) if self.lineage else self.schema
        format_ = _format(
            self.options.delete_format, DELETE_FORMAT.of(self.properties) or self.format
        )
        target_size = self.options.target_delete_file_size_bytes or DELETE_TARGET_FILE_SIZE.of(
            self.properties
        )
        schema = POSITION_SCHEMA if kind.name == "position" else plain.project(kind.equality_ids)
        return replace(
            self,
            schema=schema,
            sources=self.sources or plain,
            specs=self.specs or (self.spec,),
            sort_order=UNSORTED_SORT_ORDER,
            properties=properties_of_deletes(self.properties),
            format=format_,
            target_size=target_size,
            deletes=kind,
            lineage=False,
        )

    def with_spec(self, spec_id: int) -> WriteContext:
        """Return a context for files of another of the table's partition specs."""
        if spec_id == self.spec.spec_id:
            return self
        return replace(self, spec=next(s for s in self.specs if s.spec_id == spec_id))

    @cached_property
    def metrics(self) -> MetricsConfig:
        """Return the metrics modes of columns; position deletes have full bounds, by which readers
        match them with data files.
        """
        if self.deletes is not None and self.deletes.name == "position":
            return MetricsConfig({DELETE_FILE_PATH_ID: FULL, DELETE_FILE_POS_ID: FULL}, NONE)
        return metrics_config(self.properties, self.schema, self.sort_order)

    @cached_property
    def layout(self) -> Layout | None:
        """Return the columns of a file in the format's types; None for Avro, which is encoded by
        hand.
        """
        match self.format:
            case "parquet":
                return parquet_layout(self.schema)
            case "orc":
                return orc_layout(self.schema)
        return None

    @cached_property
    def settings(self) -> Any:
        """Return the settings of the file format, checked before anything is written."""
        codec, level = self.options.compression_codec, self.options.compression_level
        match self.format:
            case "parquet":
                return ParquetSettings(self.properties, self.schema, codec=codec, level=level)
            case "orc":
                columns = (
                    self.layout.schema if self.layout is not None and self.deletes is None else None
                )
                return orc_settings(
                    self.properties,
                    codec=codec,
                    strategy=self.options.compression_strategy,
                    schema=columns,
                )
        return avro_settings(self.properties, codec=codec, level=level)

    @property
    def group_bytes(self) -> int:
        """Return the Arrow bytes of rows that are written at once: the size of a row group, but not
        more than that of a file.
        """
        size = (
            self.settings.row_group_bytes
            if isinstance(self.settings, ParquetSettings)
            else 67_108_864
        )
        return max(1024, min(size, self.target_size))

    def writer(
        self, sink: Any, pool: ThreadPoolExecutor | None = None
    ) -> ParquetFileWriter | RowGroupsWriter | OrcFileWriter | AvroFileWriter:
        """Make the writer of a new file. `pool`: threads that encode several row groups of a
        Parquet file at the same time.
        """
        notes = self.deletes.metadata if self.deletes else {}
        match self.format:
            case "parquet":
                layout = self.layout
                assert layout is not None

                def make(sink: Any) -> ParquetFileWriter:
                    return ParquetFileWriter(
                        sink, self.schema, layout, self.settings, self.metrics, notes
                    )

                return (
                    make(sink)
                    if pool is None
                    else RowGroupsWriter(
                        sink, make, pool, (self.workers or default_workers()) + 1, self.memory
                    )
                )
            case "orc":
                assert self.layout is not None
                return OrcFileWriter(sink, self.schema, self.layout, self.settings, self.metrics)
        return AvroFileWriter(sink, self.schema, self.settings, self.metrics, notes)

    def directory(self, partition: tuple[Any, ...]) -> str:
        """Return the directory of a partition below the table's data."""
        return (
            partition_path(self.spec, self.sources or self.schema, partition)
            if self.spec.fields
            else ""
        )

    def file_name(self, number: int) -> str:
        """Name a file as Java does: `%05d-%d-<operation>-%05d[-deletes].<ext>`, with a counter from
        1.
        """
        if self.deletes is not None:
            return self.delete_name(number, self.format)
        return (
            f"{self.partition_id:05d}-{self.task_id}-{self.operation_id}-{number:05d}.{self.format}"
        )

    def delete_name(self, number: int, extension: str) -> str:
        """Name a delete file as Java does."""
        return f"{self.partition_id:05d}-{self.task_id}-{self.operation_id}-{number:05d}-deletes.{extension}"

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Order the columns of a batch as `schema`; columns of lineage that it lacks are null."""
        if not self.lineage:
            return batch
        names, count = batch.schema.names, batch.num_rows
        last = [
            batch.column(f.name) if f.name in names else pa.nulls(count, pa.int64())
            for f in LINEAGE
        ]
        plain = [batch.column(i) for i, n in enumerate(names) if n not in _LINEAGE_NAMES]
        names_left = [n for n in names if n not in _LINEAGE_NAMES]
        return pa.RecordBatch.from_arrays(
            [*plain, *last], names=[*names_left, *(f.name for f in LINEAGE)]
        )


_LINEAGE_NAMES = frozenset(f.name for f in LINEAGE)


def _with_lineage(schema: Schema) -> Schema:
    return Schema(
        *schema.fields,
        *LINEAGE,
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )


def _without_lineage(schema: Schema) -> Schema:
    fields = (f for f in schema.fields if f not in LINEAGE)
    return Schema(
        *fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids
    )


def _sources(metadata: TableMetadata) -> Schema:
    """Join the current schema and the dropped columns that a spec partitions by."""
    schema = metadata.schema()
    lost = {
        f.field_id: f
        for s in metadata.partition_specs
        for f in schema_of_spec(metadata, s).fields
        if f.field_id not in schema.by_id
    }
    return (
        Schema(*schema.fields, *(replace(f, name=f"\0{f.field_id}") for f in lost.values()))
        if lost
        else schema
    )


def _format(asked: str | None, otherwise: str) -> str:
    if asked is not None and asked.lower() not in FORMATS:
        raise InvalidInput(f"The file format must be parquet, orc or avro, not {asked!r}.")
    return asked.lower() if asked else otherwise


def check_formats(metadata: TableMetadata, options: WriteOptions, verb: Verb) -> None:
    """Check that the compression options apply to some file of this write. Raises InvalidInput."""
    data = _format(options.write_format, DATA_FORMAT.of(metadata.properties))
    written = {data}
    if verb in ("overwrite", "delete", "update", "merge") and metadata.format_version == 2:
        written.add(_format(options.delete_format, DELETE_FORMAT.of(metadata.properties) or data))
    if options.asks_for("compression_strategy") and "orc" not in written:
        raise meaningless(
            "compression_strategy",
            f"for {data} files: it is an option of ORC",
            "Leave it out, or set write-format to orc.",
        )
    if options.asks_for("compression_level"):
        properties = metadata.properties
        codecs = {
            f: (options.compression_codec or codec.of(properties)).lower()
            for f, codec in _CODECS.items()
            if f in written
        }
        if not any(c in LEVELS for c in codecs.values()):
            codec_names = " and ".join(f"{f} with {c}" for f, c in codecs.items()) or data
            raise meaningless(
                "compression_level",
                f"for {codec_names} files",
                "The codecs with levels are zstd, gzip and brotli.",
            )
