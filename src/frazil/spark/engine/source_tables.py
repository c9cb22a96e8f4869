"""Look up the tables of a Spark session's own catalog, whose files are taken over by add_files,
snapshot and migrate.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from frazil.catalog.names import identifier_parts
from frazil.errors import InvalidInput, NoSuchTableError, Unsupported
from frazil.expr.sql_text import back_quoted
from frazil.maintain.migration.source import Source, SourceFile, folder_values
from frazil.ops.session import Session
from frazil.spark.types.spark_types import from_spark
from frazil.storage.locations import normalise, scheme_of

_SESSION_CATALOG = "spark_catalog"
_NOT_TAKEN = frozenset(("path", "transient_lastDdlTime", "serialization.format"))  # as in Java
_PARQUET = "parquet"


@dataclass(frozen=True)
class SessionTables:
    """Implement `maintain.migration.source.SparkTables` on a session."""

    spark: Session

    def source(self, name: str) -> Source:
        """Describe a table and list its files."""
        quoted = self._quoted(name)
        facts, partition_columns = self._described(quoted, name)
        if _PARQUET not in (facts.get("Provider", "") + facts.get("Serde Library", "")).lower():
            text = f"Table {name} of Spark has the format {facts.get('Provider', 'of a view')}: only Parquet files can be taken over."
            raise Unsupported(text, table=name)
        frame = self.spark.table(quoted)
        # Spark names files by percent-encoded URIs
        files = sorted(_plain(unquote(uri)) for uri in frame.inputFiles())
        properties = {
            row[0]: row[1]
            for row in self.spark.sql(f"SHOW TBLPROPERTIES {quoted}").collect()
            if row[0] not in _NOT_TAKEN
        }
        listed = tuple(SourceFile(path, _values(path, partition_columns, name)) for path in files)
        return Source(
            _plain(facts["Location"]),
            listed,
            partition_columns,
            from_spark(frame.schema),
            properties,
            name,
        )

    def is_managed(self, name: str) -> bool:
        """Tell whether Spark owns the table's files."""
        return (
            self._described(self._quoted(name), name)[0].get("Type", "MANAGED").upper()
            != "EXTERNAL"
        )

    def rename(self, name: str, to: str) -> None:
        """Rename a table, within its database."""
        self.spark.sql(
            f"ALTER TABLE {self._quoted(name)} RENAME TO {back_quoted(self._parts(to)[1:])}"
        )

    def drop(self, name: str) -> None:
        """Drop a table from Spark's catalog; the files of an external one stay."""
        self.spark.sql(f"DROP TABLE {self._quoted(name)}")

    def _parts(self, name: str) -> tuple[str, ...]:
        parts = identifier_parts(name)
        if len(parts) == 1:
            parts = (self.spark.sql("SELECT current_database()").collect()[0][0], *parts)
        parts = parts if len(parts) > 2 else (_SESSION_CATALOG, *parts)
        if len(parts) != 3 or parts[0] != _SESSION_CATALOG:
            raise InvalidInput(
                f"{name} is not a table of Spark's own catalog, {_SESSION_CATALOG}.",
                hint="Name it as in db.table.",
            )
        return parts

    def _quoted(self, name: str) -> str:
        return back_quoted(self._parts(name))

    def _described(self, quoted: str, name: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the detailed facts of a table and its partition columns, as DESCRIBE TABLE
        EXTENDED tells them.
        """
        if not self.spark.catalog.tableExists(quoted):
            raise NoSuchTableError(
                f"Cannot find source table {name} in Spark's catalog.", table=name
            )
        facts: dict[str, str] = {}
        columns: list[str] = []
        section = ""
        for key, value, *_ in self.spark.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect():
            if key.startswith("# ") and key != "# col_name":
                section = key
            elif section == "# Partition Information" and key and key != "# col_name":
                columns.append(key)
            elif section == "# Detailed Table Information" and key:
                facts[key] = value
        return facts, tuple(columns)


def _plain(location: str) -> str:
    return normalise(location) if scheme_of(location) == "file" else location


def _values(path: str, columns: tuple[str, ...], name: str) -> dict[str, str | None]:
    values = folder_values(path)
    if missing := [c for c in columns if c not in values]:
        raise Unsupported(
            f"{path} of table {name} does not lie in a folder {missing[0]}=…, so its partition is not known.",
            hint="Partitions with locations of their own cannot be taken over.",
            file=path,
        )
    return {c: values[c] for c in columns}
