"""Read a metadata table that was loaded by name: `frazil.load_table("db.events.files")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from frazil.catalog import LoadedTable
from frazil.catalog.names import identifier_parts
from frazil.ops.arguments import number
from frazil.ops.engine import Frame
from frazil.ops.session import Session
from frazil.scan.inspect import metadata_table, metadata_table_schema
from frazil.scan.snapshot_ref import resolve
from frazil.spec.shown import shortened
from frazil.table import engines
from frazil.table.frames import frames
from frazil.table.on_demand_types import duckdb, pd, pl
from frazil.table.shown.rows_text import first_rows


@dataclass(frozen=True)
class MetadataTable:
    """Read one of the 16 metadata tables, of the table's state when it was loaded. Nothing is read
    before a method asks for rows.

    `table_name`: the table that it describes. `kind`: the name of the metadata table, as in
    "files". `selectors`: choose a snapshot other than the current one, where Java allows it.
    """

    table_name: str
    kind: str
    loaded: LoadedTable = field(repr=False, compare=False)
    selectors: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def name(self) -> tuple[str, ...]:
        """Return the identifier: that of the table, and the metadata table's name."""
        return (
            (*identifier_parts(self.table_name), self.kind)
            if "/" not in self.table_name
            else (f"{self.table_name}#{self.kind}",)
        )

    def schema(self) -> pa.Schema:
        """Return the columns, which are Java's, as an Arrow schema."""
        return metadata_table_schema(self.kind, self.loaded.metadata)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with Java's columns. Reads metadata files only."""
        loaded = self.loaded
        snapshot, _ = resolve(loaded.metadata, **self.selectors) if self.selectors else (None, None)
        return metadata_table(
            self.kind,
            loaded.metadata,
            loaded.storage,
            metadata_location=loaded.metadata_location,
            snapshot=snapshot,
        )

    def to_pandas(self, **kwargs: object) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame. `kwargs`: of `pyarrow.Table.to_pandas`. Raises
        NotInstalledError without pandas."""
        return frames.pandas_of(self.to_arrow(), **kwargs)

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame. Raises NotInstalledError without polars."""
        return frames.polars_of(self.to_arrow())

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Print the first `n` rows, as Spark's show does."""
        print(first_rows(self.to_arrow(), number("n", n, 0) or 0, truncate))

    def to_duckdb(
        self, table_name: str, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Register the rows as a table of a DuckDB connection (None: a new one, in memory), and
        return the connection.
        """
        return frames.in_duckdb(self.to_arrow(), table_name, connection)

    def to_spark(self, spark: Session | None = None) -> Frame:
        """Return the rows, which are read now, as a Spark DataFrame. Raises InvalidInput where no
        session runs.
        """
        return engines.of_spark_frames(spark).shown(self.to_arrow())

    def count(self) -> int:
        """Count the rows."""
        return int(self.to_arrow().num_rows)

    def __len__(self) -> int:
        return self.count()

    def __repr__(self) -> str:
        chosen = "".join(f", {k}={v!r}" for k, v in self.selectors.items())
        columns = "\n".join(shortened(f"  {f.name}: {f.type}", 150) for f in self.schema())
        return f"MetadataTable({'.'.join(self.name())}{chosen})\n{columns}"
