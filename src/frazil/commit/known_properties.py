"""What the values of table properties look like, by kind, so that a bad one is refused when it is set and not at some later write.

Names and defaults are Java Iceberg's (TableProperties). Properties that are not listed are kept as they are: they may be others'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from frazil.codec.name_mapping import parse_name_mapping
from frazil.errors import FrazilError, ValidationError

_FORMATS = ("parquet", "orc", "avro")
_MODES, _LEVELS = ("copy-on-write", "merge-on-read"), ("serializable", "snapshot")
DISTRIBUTIONS = ("none", "hash", "range")
_METRICS = re.compile(r"none|counts|full|truncate\([1-9]\d*\)", re.IGNORECASE)
_FLAG = ("true", "false")
_WAITS = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")


def _number(least: int) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        fits = re.fullmatch(r"\d+", text.strip()) is not None and int(text) >= least
        return None if fits else f"a whole number {'above 0' if least else 'of at least 0'}"

    return check


def _one_of(*known: str) -> Callable[[str], str | None]:
    return lambda text: None if text.strip().lower() in known else " or ".join(known) if len(known) == 2 else f"one of {', '.join(known)}"


def _fraction(text: str) -> str | None:
    try:
        return None if 0 < float(text) < 1 else "between 0 and 1"
    except ValueError:
        return "a number between 0 and 1"


def _whole(text: str) -> str | None:
    return None if re.fullmatch(r"[+-]?\d+", text.strip()) else "a whole number"


def _metrics(text: str) -> str | None:
    return None if _METRICS.fullmatch(text.strip()) else "a metrics mode: none, counts, truncate(n), full"


def _mapping(text: str) -> str | None:
    try:
        parse_name_mapping(text)
    except FrazilError as e:
        return f"a name mapping in JSON ({e.message})"
    return None


def _size(text: str) -> str | None:
    return None if re.fullmatch(r"[1-9]\d*\s*([kmg]?b?)", text.strip(), re.IGNORECASE) else "a size in bytes"


def _location(text: str) -> str | None:
    return None if re.match(r"/|file:/|(?!file:)[A-Za-z][A-Za-z0-9+.-]*:", text, re.IGNORECASE) else "an absolute location (/… or a scheme)"


_POSITIVE, _NATURAL, _BOOLEAN = _number(1), _number(0), _one_of(*_FLAG)
_OF_FORMATS: dict[str, Callable[[str], str | None]] = {
    "parquet.row-group-size-bytes": _POSITIVE, "parquet.page-size-bytes": _POSITIVE, "parquet.page-row-limit": _POSITIVE,
    "parquet.dict-size-bytes": _POSITIVE, "parquet.bloom-filter-max-bytes": _POSITIVE, "parquet.page-version": _one_of("v1", "v2"),
    "parquet.shred-variants": _BOOLEAN, "parquet.compression-level": _whole, "avro.compression-level": _whole,
    "orc.stripe-size-bytes": _POSITIVE, "orc.block-size-bytes": _POSITIVE, "orc.compression-strategy": _one_of("speed", "compression"),
    "orc.bloom.filter.fpp": _fraction,
}  # fmt: skip
KINDS: dict[str, Callable[[str], str | None]] = {
    **{f"write.{k}": v for k, v in _OF_FORMATS.items()},
    **{f"write.delete.{k}": v for k, v in _OF_FORMATS.items()},
    **{f"write.{k}.mode": _one_of(*_MODES) for k in ("delete", "update", "merge")},
    **{f"write.{k}.isolation-level": _one_of(*_LEVELS) for k in ("delete", "update", "merge")},
    **{f"write.{k}distribution-mode": _one_of(*DISTRIBUTIONS) for k in ("", "delete.", "update.", "merge.")},
    "write.format.default": _one_of(*_FORMATS),
    "write.delete.format.default": _one_of(*_FORMATS),
    "write.target-file-size-bytes": _POSITIVE,
    "write.delete.target-file-size-bytes": _POSITIVE,
    "write.delete.granularity": _one_of("file", "partition"),
    "write.spark.fanout.enabled": _BOOLEAN,
    "write.spark.accept-any-schema": _BOOLEAN,
    "write.spark.advisory-partition-size-bytes": _size,
    "write.metadata.metrics.default": _metrics,
    "write.metadata.metrics.max-inferred-column-defaults": _NATURAL,
    "write.metadata.compression-codec": _one_of("none", "gzip"),
    "write.metadata.previous-versions-max": _NATURAL,
    "write.metadata.delete-after-commit.enabled": _BOOLEAN,
    "write.manifest.compression-level": _whole,
    "write.object-storage.enabled": _BOOLEAN,
    "write.object-storage.partitioned-paths": _BOOLEAN,
    "write.wap.enabled": _BOOLEAN,
    "write.summary.partition-limit": _NATURAL,
    "commit.manifest-merge.enabled": _BOOLEAN,
    "commit.manifest.min-count-to-merge": _NATURAL,
    "commit.manifest.target-size-bytes": _NATURAL,
    **{f"commit.{k}.{n}": _NATURAL for k in ("retry", "status-check") for n in _WAITS},
    "read.split.target-size": _POSITIVE,
    "read.split.planning-lookback": _POSITIVE,
    "read.split.open-file-cost": _NATURAL,
    "read.split.adaptive-size.enabled": _BOOLEAN,
    "schema.name-mapping.default": _mapping,
    "gc.enabled": _BOOLEAN,
    "write.data.path": _location,
    "write.metadata.path": _location,
}
OF_COLUMNS: dict[str, Callable[[str], str | None]] = {
    "write.metadata.metrics.column.": _metrics,
    "write.parquet.stats-enabled.column.": _BOOLEAN,
    "write.parquet.dict-encoding-enabled.column.": _BOOLEAN,
    "write.parquet.bloom-filter-enabled.column.": _BOOLEAN,
    "write.parquet.bloom-filter-fpp.column.": _fraction,
    "write.parquet.bloom-filter-ndv.column.": _POSITIVE,
}


def check_values(properties: Mapping[str, str]) -> None:
    """Raises ValidationError naming the property, its value and what it takes."""
    for key, value in properties.items():
        check = KINDS.get(key) or next((c for prefix, c in OF_COLUMNS.items() if key.startswith(prefix)), None)
        if check is not None and (wanted := check(value)) is not None:
            raise ValidationError(f"Table property {key} must be {wanted}, not {value!r}.")
