"""What a writer of data files must know: the table's shape and properties, where files go, and how they are named."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from frazil.arrow.file_layout import Layout
from frazil.arrow.metrics_config import MetricsConfig, metrics_config
from frazil.arrow.write_avro import AvroFileWriter, avro_settings
from frazil.arrow.write_options import WriteOptions
from frazil.arrow.write_orc import OrcFileWriter, orc_layout, orc_settings
from frazil.arrow.write_parquet import ParquetFileWriter, ParquetSettings, parquet_layout
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder
from frazil.storage.base import Storage

TARGET = "write.target-file-size-bytes"
_EXTENSIONS = {"parquet": "parquet", "orc": "orc", "avro": "avro"}


@dataclass(frozen=True)
class WriteContext:
    """Frozen and picklable; one for all files of an operation (of a task: `with_task`).

    `memory`: bytes of rows that wait to be written, over all partitions. `workers`: threads (None: one a core). File names are Java's:
    partition id, task id, operation, counter.
    """

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    storage: Storage
    location: str
    properties: Mapping[str, str] = field(repr=False)
    format: str = "parquet"
    target_size: int = 536_870_912
    options: WriteOptions = field(default_factory=WriteOptions, repr=False)
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    partition_id: int = 0
    task_id: int = 0
    memory: int = 512 * 1024 * 1024
    workers: int | None = None

    @classmethod
    def of(
        cls, metadata: TableMetadata, storage: Storage, options: WriteOptions | None = None, operation_id: str | None = None, **more: Any
    ) -> WriteContext:
        """The context of a write on a table; options win over its properties. `more`: any other field."""
        options = options or WriteOptions()
        refuse_encryption(metadata)
        spec = metadata.spec() if options.output_spec_id is None else metadata.spec_by_id(options.output_spec_id)
        order = metadata.sort_order() if options.output_sort_order_id is None else metadata.sort_order_by_id(options.output_sort_order_id)
        if not options.use_table_distribution_and_ordering:
            order = UNSORTED_SORT_ORDER
        if unknown := [f for f in spec.fields if not f.transform.is_known]:
            raise Unsupported(f"Cannot write: partition transform {unknown[0].transform} is not known to this version.")
        format_ = (options.write_format or metadata.properties.get("write.format.default", "parquet")).lower()
        if format_ not in _EXTENSIONS:
            raise InvalidInput(f"write.format.default must be parquet, orc or avro, not {format_!r}.")
        return cls(
            metadata.schema(), spec, order, storage, metadata.location, dict(metadata.properties), format_,
            _target(options, metadata.properties), options, operation_id or str(uuid.uuid4()), **more,
        )  # fmt: skip

    @cached_property
    def metrics(self) -> MetricsConfig:
        return metrics_config(self.properties, self.schema, self.sort_order)

    @cached_property
    def layout(self) -> Layout | None:
        match self.format:
            case "parquet":
                return parquet_layout(self.schema)
            case "orc":
                return orc_layout(self.schema)
        return None

    @cached_property
    def settings(self) -> Any:
        """Format settings, checked before anything is written."""
        codec, level = self.options.compression_codec, self.options.compression_level
        match self.format:
            case "parquet":
                return ParquetSettings(self.properties, self.schema, codec=codec, level=level)
            case "orc":
                return orc_settings(self.properties, codec=codec, strategy=self.options.compression_strategy)
        return avro_settings(self.properties, codec=codec, level=level)

    @property
    def group_bytes(self) -> int:
        """Arrow bytes of rows that are laid down at once: a row group's, but not more than a file's."""
        size = self.settings.row_group_bytes if isinstance(self.settings, ParquetSettings) else 67_108_864
        return max(1024, min(size, self.target_size))

    def writer(self, sink: Any) -> ParquetFileWriter | OrcFileWriter | AvroFileWriter:
        match self.format:
            case "parquet":
                assert self.layout is not None
                return ParquetFileWriter(sink, self.schema, self.layout, self.settings, self.metrics)
            case "orc":
                assert self.layout is not None
                return OrcFileWriter(sink, self.schema, self.layout, self.settings, self.metrics)
        return AvroFileWriter(sink, self.schema, self.settings, self.metrics)

    def file_name(self, number: int) -> str:
        """`%05d-%d-<operation>-%05d.<ext>`, counter from 1 (format: names and locations)."""
        return f"{self.partition_id:05d}-{self.task_id}-{self.operation_id}-{number:05d}.{_EXTENSIONS[self.format]}"


def refuse_encryption(metadata: TableMetadata) -> None:
    """A table that is to be encrypted gets no file that is not. Raises Unsupported."""
    if metadata.properties.get("encryption.key-id") or metadata.encryption_keys:
        raise Unsupported(
            f"Table {metadata.location} is to be encrypted (encryption.key-id); writing encrypted tables is not supported.",
            table=metadata.location,
        )


def _target(options: WriteOptions, properties: Mapping[str, str]) -> int:
    if options.target_file_size_bytes is not None:
        return options.target_file_size_bytes
    text = properties.get(TARGET, "536870912")
    if not text.isdigit() or int(text) == 0:
        raise InvalidInput(f"{TARGET} must be a whole number above 0, not {text!r}.")
    return int(text)
