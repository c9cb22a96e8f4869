"""Hold the settings of a Spark session that reads and writes depend on. The defaults are those that
hold without a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

SqlArguments: TypeAlias = Mapping[str, object] | Sequence[object] | None
"""Values of the parameters of a statement, by name or by place."""


class Session(Protocol):
    """Stand for a SparkSession, classic or of Spark Connect: what Frazil uses of it, since PySpark
    is not imported where a session is only passed on. Frames are `Any`: their methods are
    PySpark's.
    """

    @property
    def version(self) -> str: ...

    @property
    def conf(self) -> Any: ...

    @property
    def catalog(self) -> Any: ...

    @property
    def read(self) -> Any: ...

    @property
    def readStream(self) -> Any: ...

    @property
    def streams(self) -> Any: ...

    @property
    def dataSource(self) -> Any: ...

    @property
    def sparkContext(self) -> Any:
        """Return the context of a classic session; Spark Connect refuses it."""

    @property
    def _jvm(self) -> Any:
        """Return the JVM of a classic session, through py4j."""

    @property
    def _jsparkSession(self) -> Any:
        """Return the session in the JVM of a classic session."""

    @property
    def _jsc(self) -> Any:
        """Return the context in the JVM of a classic session."""

    def sql(self, sqlQuery: str, args: SqlArguments = None, **kwargs: object) -> Any: ...

    def table(self, tableName: str) -> Any: ...

    def createDataFrame(self, data: object, schema: object = None) -> Any: ...

    def range(
        self,
        start: int,
        end: int | None = None,
        step: int = 1,
        numPartitions: int | None = None,
    ) -> Any: ...

    def newSession(self) -> Session: ...

    def addTag(self, tag: str) -> None: ...

    def removeTag(self, tag: str) -> None: ...

    def interruptTag(self, tag: str) -> Any: ...


@dataclass(frozen=True)
class SessionSettings:
    """Hold how names and expressions are read. `zone`: the time zone of literals that name none.
    `ansi`: whether casts and functions that fail raise errors (True) or give null.
    `is_usual`: whether texts mean what they do in Frazil's grammar, which further settings of a
    session may change. `spark`: whether it is a session of Spark, which evaluates what Frazil
    leaves to it.
    """

    case_sensitive: bool = True
    zone: str = "UTC"
    ansi: bool = True
    is_usual: bool = True
    spark: bool = False


@dataclass(frozen=True)
class WriteAuditPublish:
    """Hold the settings `spark.wap.id` and `spark.wap.branch`, which apply to tables with
    `write.wap.enabled=true`.
    """

    wap_id: str | None = None
    branch: str | None = None
