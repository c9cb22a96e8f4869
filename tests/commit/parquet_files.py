"""Real Parquet files with field ids, for tables that other engines read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.codec.single_value import to_bytes
from frazil.spec.manifest import DataFile
from frazil.spec.types import LongType, StringType

COLUMNS = pa.schema([
    pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}), pa.field("p", pa.string(), metadata={"PARQUET:field_id": "2"}),
])  # fmt: skip


def written(
    location: str,
    n: int,
    ids: range,
    p: str | None = "a",
    *,
    spec_id: int = 0,
    partitioned: bool = True,
) -> DataFile:
    path = Path(f"{location}/data/f{n:05d}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=COLUMNS), path)
    bounds: dict[str, Any] = {
        "lower_bounds": {1: to_bytes(LongType(), ids[0])},
        "upper_bounds": {1: to_bytes(LongType(), ids[-1])},
    }
    if p is not None:
        for b in bounds.values():
            b[2] = to_bytes(StringType(), p)
    return DataFile(
        file_path=str(path),
        file_format="parquet",
        record_count=len(ids),
        file_size_in_bytes=path.stat().st_size,
        spec_id=spec_id,
        partition=(p,) if partitioned else (),
        value_counts={1: len(ids), 2: len(ids)},
        null_value_counts={1: 0, 2: 0 if p is not None else len(ids)},
        split_offsets=(4,),
        sort_order_id=0,
        **bounds,
    )
