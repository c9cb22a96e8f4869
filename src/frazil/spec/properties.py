"""Define table properties: the name, type, default and check of each one, as in Java Iceberg's
TableProperties.

A reader asks the property (`WAP_ENABLED.of(metadata.properties)`); a commit checks what is set
(`check_values`). Properties that are not listed here are kept as they are: they may be another
engine's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.name_mapping import NameMapping, parse_name_mapping
from frazil.spec.options import (
    BOOLEAN,
    FRACTION,
    NATURAL,
    POSITIVE,
    SIZE,
    ValueKind,
    matching,
    one_of,
)

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class TableProperty(Generic[T, D]):
    """Describe one table property. `default` is the value when it is absent; None where a default
    depends on other things.
    """

    name: str
    kind: ValueKind[T]
    default: D

    def of(self, properties: Mapping[str, str]) -> T | D:
        """Return the value that a table's properties give, else the default. Raises ValidationError
        for a text that is not such a value.
        """
        text = properties.get(self.name)
        return self.default if text is None else _parsed(self.name, self.kind, text)

    def given(self, properties: Mapping[str, str]) -> T | None:
        """Return the value, None when the property is not set."""
        text = properties.get(self.name)
        return None if text is None else _parsed(self.name, self.kind, text)

    def text(self, properties: Mapping[str, str]) -> str | None:
        """Return the stored text, unchecked."""
        return properties.get(self.name)


@dataclass(frozen=True)
class ColumnProperty(Generic[T]):
    """Describe a property that may be set per column: its name is `prefix` and the column's full
    name. (Marks of writes that are done once, TXN_MARK, are of the same kind, with the writer's
    name in place of the column's.)"""

    prefix: str
    kind: ValueKind[T]

    def of(self, properties: Mapping[str, str]) -> dict[str, T]:
        """Return the value of each column that has one, by its full name."""
        return {
            column: self.parse(self.prefix + column, text)
            for column, text in self.texts(properties).items()
        }

    def parse(self, name: str, text: str) -> T:
        """Parse the value of one of these properties, which is called by its full name. Raises
        ValidationError.
        """
        return _parsed(name, self.kind, text)

    def texts(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the stored text of each column that has one, unchecked, by its full name."""
        return {
            key[len(self.prefix) :]: text
            for key, text in properties.items()
            if key.startswith(self.prefix)
        }


def _parsed(name: str, kind: ValueKind[T], text: str) -> T:
    return kind.parse(f"Table property {name}", text, ValidationError)


# -- kinds that only properties have
# --------------------------------------------------------------------------------------------------

WHOLE = matching(r"[+-]?\d+", "a whole number", str)
WORD = ValueKind(str.lower, "a name")
ANY = ValueKind(str, "text")
LOCATION = matching(
    r"(/|file:/|(?!file:)[a-z][a-z0-9+.-]*:).*",
    "an absolute location (/… or a scheme)",
    str,
    as_given=True,
)
METRICS = matching(
    r"none|counts|full|truncate\([1-9]\d*\)",
    "a metrics mode: none, counts, truncate(n), full",
    str.lower,
)
MAPPING = ValueKind(parse_name_mapping, "a name mapping in JSON")
OBJECT = ValueKind(lambda text: _object(text), "an object in JSON")
MARK = ValueKind(
    lambda text: _mark(text),
    'the mark of a write, {"number": n, "snapshot-id": id or null, "digest": text}',
)


def _object(text: str) -> dict[str, Any]:
    if not isinstance(obj := json.loads(text), dict):
        raise ValueError(text)
    return obj


def _mark(text: str) -> tuple[int, int | None, str | None]:
    """Parse the mark of a txn: the number of the last write, the snapshot that it made, and a
    digest of what it wrote; marks of older versions of Frazil, and of writes that know none, hold
    no digest."""
    mark = json.loads(text)
    if not isinstance(mark, dict) or type(number := mark.get("number")) is not int:
        raise ValueError(text)
    if type(snapshot_id := mark.get("snapshot-id")) not in (int, type(None)):
        raise ValueError(text)
    if type(digest := mark.get("digest")) not in (str, type(None)):
        raise ValueError(text)
    return number, snapshot_id, digest


# -- the properties
# --------------------------------------------------------------------------------------------------

TABLE_PROPERTIES: Final[dict[str, TableProperty[Any, Any]]] = {}
COLUMN_PROPERTIES: Final[dict[str, ColumnProperty[Any]]] = {}


def _property(name: str, kind: ValueKind[T], default: D) -> TableProperty[T, D]:
    TABLE_PROPERTIES[name] = property_ = TableProperty(name, kind, default)
    return property_


def _of_format(name: str, kind: ValueKind[T], default: D) -> TableProperty[T, D]:
    """Describe a property `write.<format>.…`, which delete files have as `write.delete.<format>.…`
    as well (see `properties_of_deletes`)."""
    deletes = name.replace("write.", "write.delete.", 1)
    TABLE_PROPERTIES[deletes] = TableProperty(deletes, kind, None)
    return _property(name, kind, default)


def _of_columns(prefix: str, kind: ValueKind[T]) -> ColumnProperty[T]:
    COLUMN_PROPERTIES[prefix] = property_ = ColumnProperty(prefix, kind)
    return property_


FORMATS: Final = ("parquet", "orc", "avro")
COPY_ON_WRITE: Final = "copy-on-write"
MERGE_ON_READ: Final = "merge-on-read"
DISTRIBUTIONS: Final = ("none", "hash", "range")
GRANULARITIES: Final = ("file", "partition")
ISOLATION_LEVELS: Final = ("serializable", "snapshot")
_CHANGES = ("delete", "update", "merge")
_MODES, _DISTRIBUTION = one_of(COPY_ON_WRITE, MERGE_ON_READ), one_of(*DISTRIBUTIONS)

# How rows become files.
DATA_FORMAT = _property("write.format.default", one_of(*FORMATS), "parquet")
DELETE_FORMAT = _property("write.delete.format.default", one_of(*FORMATS), None)
TARGET_FILE_SIZE = _property("write.target-file-size-bytes", POSITIVE, 536_870_912)
DELETE_TARGET_FILE_SIZE = _property("write.delete.target-file-size-bytes", POSITIVE, 67_108_864)
DELETE_GRANULARITY = _property("write.delete.granularity", one_of(*GRANULARITIES), "file")
CHANGE_MODE = {k: _property(f"write.{k}.mode", _MODES, COPY_ON_WRITE) for k in _CHANGES}
CHANGE_ISOLATION = {
    k: _property(f"write.{k}.isolation-level", one_of(*ISOLATION_LEVELS), "serializable")
    for k in _CHANGES
}
CHANGE_DISTRIBUTION = {
    k: _property(f"write.{k}.distribution-mode", _DISTRIBUTION, None) for k in _CHANGES
}
DISTRIBUTION = _property("write.distribution-mode", _DISTRIBUTION, None)
SPARK_FANOUT = _property("write.spark.fanout.enabled", BOOLEAN, False)
SPARK_ACCEPT_ANY_SCHEMA = _property("write.spark.accept-any-schema", BOOLEAN, False)
SPARK_SCHEMA_EVOLUTION = _property("write.spark.auto-schema-evolution.enabled", BOOLEAN, True)
SPARK_ADVISORY_PARTITION_SIZE = _property("write.spark.advisory-partition-size-bytes", SIZE, None)
DATA_PATH = _property("write.data.path", LOCATION, None)
OLD_DATA_PATHS = tuple(
    _property(name, ANY, None)
    for name in ("write.object-storage.path", "write.folder-storage.path")
)
LOCATION_PROVIDERS = tuple(
    _property(f"write.{name}.impl", ANY, None)
    for name in ("location-provider", "py-location-provider")
)
OBJECT_STORAGE = _property("write.object-storage.enabled", BOOLEAN, False)
OBJECT_STORAGE_PARTITIONED_PATHS = _property(
    "write.object-storage.partitioned-paths", BOOLEAN, True
)
METRICS_DEFAULT = _property("write.metadata.metrics.default", METRICS, None)
METRICS_MAX_INFERRED = _property(
    "write.metadata.metrics.max-inferred-column-defaults", NATURAL, 100
)
METRICS_OF_COLUMN = _of_columns("write.metadata.metrics.column.", METRICS)

# Parquet; None: the writer's own default.
PARQUET_CODEC = _of_format("write.parquet.compression-codec", WORD, "zstd")
PARQUET_LEVEL = _of_format("write.parquet.compression-level", WHOLE, None)
PARQUET_ROW_GROUP_SIZE = _of_format("write.parquet.row-group-size-bytes", POSITIVE, 134_217_728)
PARQUET_PAGE_SIZE = _of_format("write.parquet.page-size-bytes", POSITIVE, None)
PARQUET_PAGE_ROWS = _of_format("write.parquet.page-row-limit", POSITIVE, None)
PARQUET_PAGE_VERSION = _of_format("write.parquet.page-version", one_of("v1", "v2"), "v1")
PARQUET_DICTIONARY_SIZE = _of_format("write.parquet.dict-size-bytes", POSITIVE, None)
PARQUET_BLOOM_FILTER_MAX = _of_format("write.parquet.bloom-filter-max-bytes", POSITIVE, 1 << 20)
PARQUET_SHRED_VARIANTS = _of_format("write.parquet.shred-variants", BOOLEAN, False)
PARQUET_STATISTICS = _of_columns("write.parquet.stats-enabled.column.", BOOLEAN)
PARQUET_DICTIONARY = _of_columns("write.parquet.dict-encoding-enabled.column.", BOOLEAN)
PARQUET_BLOOM_FILTER = _of_columns("write.parquet.bloom-filter-enabled.column.", BOOLEAN)
PARQUET_BLOOM_FILTER_FPP = _of_columns("write.parquet.bloom-filter-fpp.column.", FRACTION)
PARQUET_BLOOM_FILTER_NDV = _of_columns("write.parquet.bloom-filter-ndv.column.", POSITIVE)

# ORC and Avro.
ORC_CODEC = _of_format("write.orc.compression-codec", WORD, "zlib")
ORC_STRATEGY = _of_format("write.orc.compression-strategy", one_of("speed", "compression"), "speed")
ORC_STRIPE_SIZE = _of_format("write.orc.stripe-size-bytes", POSITIVE, 67_108_864)
ORC_BLOCK_SIZE = _of_format("write.orc.block-size-bytes", POSITIVE, None)
ORC_BLOOM_FILTER_COLUMNS = _of_format("write.orc.bloom.filter.columns", ANY, None)
ORC_BLOOM_FILTER_FPP = _of_format("write.orc.bloom.filter.fpp", FRACTION, 0.05)
AVRO_CODEC = _of_format("write.avro.compression-codec", WORD, "gzip")
AVRO_LEVEL = _of_format("write.avro.compression-level", WHOLE, None)

# How commits are made and kept.
METADATA_PATH = _property("write.metadata.path", LOCATION, None)
PLACES = (DATA_PATH, METADATA_PATH, *OLD_DATA_PATHS)
"""The properties that name directories of the table's files."""
METADATA_CODEC = _property("write.metadata.compression-codec", one_of("none", "gzip"), "none")
METADATA_PREVIOUS_VERSIONS = _property("write.metadata.previous-versions-max", NATURAL, 100)
METADATA_DELETE_AFTER_COMMIT = _property(
    "write.metadata.delete-after-commit.enabled", BOOLEAN, False
)
MANIFEST_CODEC = _property("write.manifest.compression-codec", WORD, "gzip")
MANIFEST_LEVEL = _property("write.manifest.compression-level", NATURAL, None)
MANIFEST_TARGET_SIZE = _property("commit.manifest.target-size-bytes", NATURAL, 8_388_608)
MANIFEST_MIN_COUNT_TO_MERGE = _property("commit.manifest.min-count-to-merge", NATURAL, 100)
MANIFEST_MERGE = _property("commit.manifest-merge.enabled", BOOLEAN, True)
SUMMARY_PARTITION_LIMIT = _property("write.summary.partition-limit", NATURAL, 0)
WAP_ENABLED = _property("write.wap.enabled", BOOLEAN, False)
UPSERT_ENABLED = _property("write.upsert.enabled", BOOLEAN, False)
GC_ENABLED = _property("gc.enabled", BOOLEAN, True)
HIVE_ENGINE_ENABLED = _property("engine.hive.enabled", BOOLEAN, None)  # None: as the catalog says
HIVE_LOCK_ENABLED = _property("engine.hive.lock-enabled", BOOLEAN, None)
EXPIRE_MAX_SNAPSHOT_AGE = _property("history.expire.max-snapshot-age-ms", NATURAL, 432_000_000)
EXPIRE_MIN_SNAPSHOTS = _property("history.expire.min-snapshots-to-keep", POSITIVE, 1)
EXPIRE_MAX_REF_AGE = _property("history.expire.max-ref-age-ms", NATURAL, 2**63 - 1)
ENCRYPTION_KEY = _property("encryption.key-id", ANY, None)


@dataclass(frozen=True)
class Waits:
    """Hold the limits of retries: their number, and milliseconds between two attempts and over all
    of them. All commits keep to COMMIT_RETRY (`commit.table_commit`); `stream.sink.batch` waits by
    it between two tries of a batch, and maintenance takes from it how often work is done again.
    """

    retries: TableProperty[int, int]
    shortest: TableProperty[int, int]
    longest: TableProperty[int, int]
    total: TableProperty[int, int]


def _waits(stem: str, retries: int, shortest: int, longest: int, total: int) -> Waits:
    return Waits(
        _property(f"{stem}.num-retries", NATURAL, retries),
        _property(f"{stem}.min-wait-ms", NATURAL, shortest),
        _property(f"{stem}.max-wait-ms", NATURAL, longest),
        _property(f"{stem}.total-timeout-ms", NATURAL, total),
    )


COMMIT_RETRY = _waits("commit.retry", 4, 100, 60_000, 1_800_000)
PLAN_ANEW = _property("commit.retry.plan-anew.enabled", BOOLEAN, True)
COMMIT_STATUS_CHECK = _waits("commit.status-check", 3, 1_000, 60_000, 1_800_000)

TXN_MARK = _of_columns("frazil.txn.", MARK)
PARTITION_COMMIT = _of_columns("frazil.partition-commit.", OBJECT)
"""Partition commit: `state@<branch>`, and `done/<partition>@<branch>` of the policy property."""
MAINTENANCE = _of_columns("frazil.maintenance.", OBJECT)
"""Maintenance by streams and by `auto`: `lease`, and for each task when it ran last."""

# How files are read.
SPLIT_SIZE = _property("read.split.target-size", POSITIVE, 134_217_728)
SPLIT_LOOKBACK = _property("read.split.planning-lookback", POSITIVE, 10)
SPLIT_OPEN_FILE_COST = _property("read.split.open-file-cost", NATURAL, 4_194_304)
SPLIT_ADAPTIVE = _property("read.split.adaptive-size.enabled", BOOLEAN, True)
NAME_MAPPING: TableProperty[NameMapping, None] = _property(
    "schema.name-mapping.default", MAPPING, None
)

STORED_IN_NEW_TABLES: Final = {PARQUET_CODEC.name: PARQUET_CODEC.default}
RESERVED_PROPERTIES: Final = frozenset({
    "format-version", "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary", "current-snapshot-timestamp-ms",
    "current-schema", "default-partition-spec", "default-sort-order",
})  # fmt: skip
OF_OTHERS: Final = frozenset({
    "comment", "owner", "provider", "external", "location", "identifier-fields.rely", "encryption.data-key-length",
    "write.parquet.row-group-check-min-record-count", "write.parquet.row-group-check-max-record-count",
    "write.parquet.row-group-size-track-uncompressed", "write.parquet.bloom-filter-adaptive-enabled",
    "write.parquet.variant-inference-buffer-size", "write.orc.vectorized.batch-size",
    "read.split.metadata-target-size", "read.parquet.vectorization.enabled",
    "read.parquet.vectorization.batch-size", "read.orc.vectorization.enabled", "read.orc.vectorization.batch-size",
    "read.data-planning-mode", "read.delete-planning-mode",
    "compatibility.snapshot-id-inheritance.enabled", "version.history.num-entries", "replace.drop-dialect.allowed",
    "write.metadata.metrics.column", "current-snapshot-id", "cherry-pick-snapshot-id",
})  # fmt: skip
"""Properties of Java's (and other engines') that Frazil keeps and has no use for."""
_NOT_OF_DELETES = (
    PARQUET_BLOOM_FILTER.prefix, PARQUET_BLOOM_FILTER_FPP.prefix, PARQUET_BLOOM_FILTER_NDV.prefix, PARQUET_BLOOM_FILTER_MAX.name,
    PARQUET_STATISTICS.prefix, PARQUET_DICTIONARY.prefix, PARQUET_SHRED_VARIANTS.name,
)  # fmt: skip


def check_values(properties: Mapping[str, str]) -> None:
    """Check the values of the properties that are known here. Raises ValidationError naming the
    property, its value and what it takes.
    """
    for key, text in properties.items():
        property_ = TABLE_PROPERTIES.get(key) or next(
            (p for prefix, p in COLUMN_PROPERTIES.items() if key.startswith(prefix)), None
        )
        if property_ is not None:
            _parsed(key, property_.kind, text)


def properties_of_deletes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of data files as delete files take them: `write.delete.<format>.…`
    first, and no properties of single columns."""
    of_deletes = {k: v for k, v in properties.items() if not k.startswith(_NOT_OF_DELETES)}
    for format_ in FORMATS:
        prefix = f"write.delete.{format_}."
        of_deletes |= {
            f"write.{format_}.{k[len(prefix) :]}": v
            for k, v in properties.items()
            if k.startswith(prefix)
        }
    return of_deletes


def without_history(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that keep what was done to a table: marks of writes,
    partition commits, maintenance. A new table that took over marks would pass over writes."""
    history = tuple(kind.prefix for kind in (TXN_MARK, PARTITION_COMMIT, MAINTENANCE))
    return {k: v for k, v in properties.items() if not k.startswith(history)}


def properties_of_copy(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a copy of a table takes: all but its history, those that name the
    directories of this table's files, and the name mapping, which is of this table's field ids.
    """
    left_out = {place.name for place in PLACES} | {NAME_MAPPING.name}
    return {k: v for k, v in without_history(properties).items() if k not in left_out}


def property_text(key: str, value: object) -> str:
    """Format a value as the text that properties store. Raises InvalidInput for None."""
    if value is None:
        raise InvalidInput(
            f"Properties must have a value: {key}.", hint="remove_properties removes one."
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def refuse_encryption(metadata: TableMetadata) -> None:
    """Refuse to write an unencrypted file into a table that is to be encrypted. Raises Unsupported."""
    if metadata.properties.get(ENCRYPTION_KEY.name) or metadata.encryption_keys:
        raise Unsupported(
            f"Table {metadata.location} is to be encrypted ({ENCRYPTION_KEY.name}); writing encrypted tables is not supported.",
            table=metadata.location,
        )
