"""Table properties that steer commits, with Java's names and defaults. A value that is no number or boolean is refused by its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.spec.metadata import TableMetadata

RESERVED_PROPERTIES = frozenset({
    "format-version", "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary", "current-snapshot-timestamp-ms",
    "current-schema", "default-partition-spec", "default-sort-order",
})  # fmt: skip
DEFAULTS = {
    "commit.retry.num-retries": 4, "commit.retry.min-wait-ms": 100, "commit.retry.max-wait-ms": 60_000,
    "commit.retry.total-timeout-ms": 1_800_000,
    "commit.status-check.num-retries": 3, "commit.status-check.min-wait-ms": 1_000, "commit.status-check.max-wait-ms": 60_000,
    "commit.status-check.total-timeout-ms": 1_800_000,
    "commit.manifest.target-size-bytes": 8_388_608, "commit.manifest.min-count-to-merge": 100,
    "write.summary.partition-limit": 0,
}  # fmt: skip


def property_text(key: str, value: Any) -> str:
    """A value as properties store it. Raises InvalidInput for None."""
    if value is None:
        raise InvalidInput(f"Properties must have a value: {key}.", hint="remove_properties removes one.")
    return str(value).lower() if isinstance(value, bool) else str(value)


def number(properties: Mapping[str, str], key: str) -> int:
    """The property as an integer of at least 0, or Java's default."""
    text = properties.get(key)
    if text is None:
        return DEFAULTS[key]
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValidationError(f"Table property {key} must have non negative integer value, not {text!r}.")
    return value


def boolean(properties: Mapping[str, str], key: str, default: bool) -> bool:
    text = properties.get(key)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise ValidationError(f"Table property {key} must be true or false, not {text!r}.")
    return text.lower() == "true"


def refuse_encryption(metadata: TableMetadata) -> None:
    """A table that is to be encrypted gets no file that is not. Raises Unsupported."""
    if metadata.properties.get("encryption.key-id") or metadata.encryption_keys:
        raise Unsupported(
            f"Table {metadata.location} is to be encrypted (encryption.key-id); writing encrypted tables is not supported.",
            table=metadata.location,
        )
