"""A catalog of a prepared session, its table of four rows, and what SQL tests ask of both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import frazil
from frazil.table.catalog import Catalog
from frazil.table.table import Table

_NUMBERS = itertools.count()
_TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.int32()),
        ("s", pa.string()),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)
FOUR = [{"id": n, "v": 10 * n, "s": "abcd"[n - 1], "st": {"a": n, "b": "x"}} for n in range(1, 5)]


@dataclass
class Lake:
    """A catalog that a session knows by `name`, with the namespace `db`."""

    spark: Any
    name: str
    catalog: Catalog

    def table(self, name: str = "db.t", **arguments: Any) -> Table:
        """Make a table with the rows (n, 10 n, letter, {n, "x"}) for n in 1 to 4."""
        t = self.catalog.create_table(
            name, "id bigint, v int, s string, st struct<a: int, b: string>", **arguments
        )
        t.append(pa.Table.from_pylist(FOUR, _TYPES))
        return t

    def sql(self, text: str, *arguments: Any, **named: Any) -> Any:
        """Run a statement, in which `lake` stands for the catalog."""
        return self.spark.sql(text.replace("lake.", f"{self.name}."), *arguments, **named)

    def rows(
        self, *columns: str, name: str = "db.t", branch: str = "main"
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a table, ordered."""
        scan = self.catalog.load_table(name).scan(
            selected_fields=columns or ("id", "v"), branch=branch
        )
        return sorted((tuple(r.values()) for r in scan.to_arrow().to_pylist()), key=repr)

    def snapshots(self, name: str = "db.t") -> int:
        return len(self.catalog.load_table(name).snapshots())


@contextmanager
def lake_of(spark: Any, folder: Path) -> Iterator[Lake]:
    """Configure a catalog in a session for the time of a block."""
    name = f"lake{next(_NUMBERS)}"
    settings = {
        f"spark.sql.catalog.{name}.type": "path",
        f"spark.sql.catalog.{name}.warehouse": str(folder / "wh"),
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    catalog = frazil.load_catalog(name, type="path", warehouse=str(folder / "wh"))
    catalog.create_namespace("db")
    try:
        yield Lake(spark, name, catalog)
    finally:
        spark.sql("USE spark_catalog")
        for key in settings:
            spark.conf.unset(key)
