"""Write options by Java Iceberg's names (SparkWriteOptions): what a caller may say of one write, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from frazil.errors import InvalidInput, Unsupported

_TRUE, _FALSE = {"true", "1", "yes", True}, {"false", "0", "no", False}
_REFUSED = {
    "shred-variants": "variants are written unshredded",
    "variant-inference-buffer-size": "variants are written unshredded",
    "use-merge-append-for-streaming": "it belongs to streams",
    "rewritten-file-scan-task-set-id": "it belongs to Java's compaction",
    "scan-task-set-id": "it belongs to Java's compaction",
    "handle-timestamp-without-timezone": "timestamps without zone are written as they are",
    "use-timestamp-without-timezone-in-new-tables": "the schema says it",
}


@dataclass(frozen=True)
class WriteOptions:
    """Sizes in bytes; None: the table's properties, then Java's defaults, decide."""

    write_format: str | None = None
    delete_format: str | None = None
    target_file_size_bytes: int | None = None
    target_delete_file_size_bytes: int | None = None
    distribution_mode: str | None = None
    fanout_enabled: bool | None = None
    use_table_distribution_and_ordering: bool = True
    advisory_partition_size: int | None = None
    compression_codec: str | None = None
    compression_level: str | None = None
    compression_strategy: str | None = None
    check_nullability: bool = True
    check_ordering: bool = True
    merge_schema: bool = False
    output_spec_id: int | None = None
    output_sort_order_id: int | None = None
    overwrite_mode: str | None = None
    isolation_level: str | None = None
    validate_from_snapshot_id: int | None = None
    delete_granularity: str | None = None
    branch: str | None = None
    wap_id: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)


_CHOICES = {
    "write_format": ("parquet", "orc", "avro"),
    "delete_format": ("parquet", "orc", "avro"),
    "distribution_mode": ("none", "hash", "range"),
    "overwrite_mode": ("static", "dynamic"),
    "isolation_level": ("serializable", "snapshot"),
    "delete_granularity": ("file", "partition"),
}
_ALIASES = {"mergeschema": "merge_schema"}
_KINDS = {f.name: str(f.type) for f in fields(WriteOptions)}


def write_options(given: Mapping[str, Any]) -> WriteOptions:
    """Options as typed (`target-file-size-bytes`, `target_file_size_bytes`, `mergeSchema`, `snapshot-property.k`) as one checked value.

    Raises InvalidInput for an unknown option or a value that does not fit, Unsupported for one of Java's that Frazil does not serve.
    """
    found: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for key, value in given.items():
        if key.lower().startswith("snapshot-property."):
            properties[key[len("snapshot-property.") :]] = str(value)
            continue
        name = key.lower().replace("-", "_")
        name = _ALIASES.get(name, name)
        if reason := _REFUSED.get(name.replace("_", "-")):
            raise Unsupported(f"Write option {key!r} is not supported: {reason}.")
        if name not in _KINDS or name == "snapshot_properties":
            known = ", ".join(sorted(k.replace("_", "-") for k in _KINDS))
            raise InvalidInput(f"Unknown write option {key!r}.", hint=f"Known: {known}, snapshot-property.<name>.")
        found[name] = _value(name.replace("_", "-"), name, value)
    return WriteOptions(**found, snapshot_properties=properties)


def _value(key: str, name: str, value: Any) -> Any:
    if value is None:
        return None
    kind = _KINDS[name]
    if kind.startswith("bool"):
        text = value.lower() if isinstance(value, str) else value
        if text not in _TRUE | _FALSE:
            raise InvalidInput(f"Write option {key!r} is true or false, not {value!r}.")
        return text in _TRUE
    if kind.startswith("int"):
        try:
            number = int(value)
        except (TypeError, ValueError) as e:
            raise InvalidInput(f"Write option {key!r} is a whole number, not {value!r}.") from e
        if number <= 0 and ("size" in name):
            raise InvalidInput(f"Write option {key!r} must be above 0, not {value!r}.")
        return number
    text = str(value)
    if name in _CHOICES:
        text = text.lower()
        if text not in _CHOICES[name]:
            raise InvalidInput(f"Write option {key!r} is one of {', '.join(_CHOICES[name])}, not {value!r}.")
    return text
