"""A folder of Parquet files that a stream of Spark reads, one file per micro-batch, with the
columns id, p and v.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TYPES = pa.schema({"id": pa.int64(), "p": pa.string(), "v": pa.int64()})


def put_batches(folder: Path, *batches: list[tuple[Any, ...]]) -> str:
    """Write a file for each batch, after those that are there; return the folder."""
    folder.mkdir(exist_ok=True)
    for rows in batches:
        n = len(list(folder.glob("*.parquet")))
        file, hidden = folder / f"{n:04d}.parquet", folder / f".{n:04d}"
        pq.write_table(
            pa.Table.from_pylist([dict(zip(TYPES.names, row, strict=True)) for row in rows], TYPES),
            hidden,
        )
        os.utime(hidden, (1_700_000_000 + n,) * 2)  # Spark takes files in the order of their times
        hidden.rename(file)
    return str(folder)
