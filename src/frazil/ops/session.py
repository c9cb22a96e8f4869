"""Hold the settings of a Spark session that reads and writes depend on. The defaults are those that
hold without a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import WAP_ENABLED


class Session(Protocol):
    """Stand for a SparkSession, classic or Connect, where PySpark is not imported: the session is
    handed to the engine that is on it.
    """

    @property
    def version(self) -> str: ...

    def table(self, tableName: str) -> Any: ...


@dataclass(frozen=True)
class SessionSettings:
    """Hold how names and expressions are read. `zone`: the time zone of literals that name none.
    `ansi`: whether casts and functions that fail raise errors (True) or give null."""

    case_sensitive: bool = True
    zone: str = "UTC"
    ansi: bool = True


@dataclass(frozen=True)
class WriteAuditPublish:
    """Hold the settings `spark.wap.id` and `spark.wap.branch`, which apply to tables with
    `write.wap.enabled=true`.
    """

    wap_id: str | None = None
    branch: str | None = None


def has_write_audit_publish(metadata: TableMetadata) -> bool:
    """Tell whether a table has write-audit-publish switched on (`write.wap.enabled`)."""
    return WAP_ENABLED.of(metadata.properties)
