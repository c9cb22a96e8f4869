"""What a Spark session says of reads and writes, as values; their defaults are what holds without a session."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import WAP_ENABLED


@dataclass(frozen=True)
class SessionSettings:
    """`zone`: of literals without one. `ansi`: casts and functions that fail are errors, not null."""

    case_sensitive: bool = True
    zone: str = "UTC"
    ansi: bool = True


@dataclass(frozen=True)
class WriteAuditPublish:
    """The settings `spark.wap.id` and `spark.wap.branch`. They count for tables that have write-audit-publish switched on."""

    wap_id: str | None = None
    branch: str | None = None


def has_write_audit_publish(metadata: TableMetadata) -> bool:
    return WAP_ENABLED.of(metadata.properties)
