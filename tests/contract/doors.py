"""The ways in: each reads a table with the same words and gives Arrow, so that one test can ask all
of them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import frazil
from tests.golden import GoldenTable
from tests.peers.rowsum import rowsum

# may be refused at Spark doors, by name
SPARK_LACKS = (
    "timestamp_ns",
    "timestamptz_ns",
    "geometry",
    "geography",
    "time",
)
OPTION = {
    "snapshot_id": "snapshot-id",
    "branch": "branch",
    "tag": "tag",
    "as_of": "as-of-timestamp",
}


@dataclass(frozen=True)
class Ask:
    """One question to a table; `select` names columns, `where` is a Spark SQL predicate."""

    where: str | None = None
    select: tuple[str, ...] | None = None
    travel: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(
        cls, where: str | None = None, select: Sequence[str] | None = None, **travel: Any
    ) -> Ask:
        return cls(where, None if select is None else tuple(select), tuple(travel.items()))


def arrow(table: GoldenTable | str, ask: Ask) -> pa.Table:
    """`t.scan(…).to_arrow()`"""
    return _scan(table, ask).to_arrow()


def to_spark(session: Any, table: GoldenTable | str, ask: Ask) -> Any:
    """`t.scan(…).to_spark()`: a DataFrame."""
    return _scan(table, ask).to_spark(session)


def data_source(session: Any, table: GoldenTable | str, ask: Ask) -> Any:
    """`spark.read.format("iceberg")`: a DataFrame."""
    reader = session.read.format("iceberg")
    for key, value in ask.travel:
        reader = reader.option(OPTION[key], value)
    frame = reader.load(_location(table))
    frame = frame if ask.where is None else frame.where(ask.where)
    return frame if ask.select is None else frame.select(*(f"`{c}`" for c in ask.select))


def _location(table: GoldenTable | str) -> str:
    return table if isinstance(table, str) else table.metadata_file


def _scan(table: GoldenTable | str, ask: Ask) -> Any:
    scan: dict[str, Any] = dict(ask.travel)
    if ask.where is not None:
        scan["row_filter"] = ask.where
    if ask.select is not None:
        scan["selected_fields"] = ask.select
    return frazil.load_table(_location(table)).scan(**scan)


def collect(frame: Any) -> pa.Table:
    """A DataFrame's rows as Arrow; a variant becomes JSON text."""
    return _readable(frame).toArrow()


def _readable(frame: Any) -> Any:
    from pyspark.sql import functions as F

    if "variant" not in frame.schema.simpleString():
        return frame
    columns = [
        F.to_json(F.col(f"`{f.name}`")).alias(f.name)
        if f.dataType.simpleString() == "variant"
        else F.col(f"`{f.name}`")
        for f in frame.schema
    ]
    return frame.select(*columns)


def collect_all(frames: Sequence[Any]) -> list[pa.Table]:
    """The rows of many frames of one table in as few jobs as there are schemas."""
    from pyspark.sql import functions as F

    groups: dict[str, list[int]] = {}
    for i, frame in enumerate(frames):
        groups.setdefault(frame.schema.json(), []).append(i)
    found: list[pa.Table | None] = [None] * len(frames)
    for members in groups.values():
        tagged = [_readable(frames[i]).withColumn("__which", F.lit(i)) for i in members]
        # One task: each task of a union is sent the plans of all its frames, which for many small
        # frames is most of the work.
        rows = functools.reduce(lambda a, b: a.union(b), tagged).coalesce(1).toArrow()
        which = rows.column(rows.num_columns - 1)
        for i in members:
            found[i] = rows.filter(pa.compute.equal(which, i)).remove_column(rows.num_columns - 1)
    return [t for t in found if t is not None]


def summed(rows: pa.Table, schema: Mapping[str, Any]) -> tuple[int, str]:
    """(number of rows, checksum)"""
    got = rowsum(rows, schema)
    return got["rows"], got["sum"]


def spark_refuses(schema: Mapping[str, Any]) -> str | None:
    """The first type in a schema (Iceberg JSON) that Spark doors may refuse."""
    for field in schema["fields"]:
        if found := _lacking(field["type"]):
            return found
    return None


def _lacking(t: Any) -> str | None:
    if isinstance(t, str):
        name = t.split("(")[0]
        return name if name in SPARK_LACKS else None
    inner: Sequence[Any] = (
        [f["type"] for f in t["fields"]]
        if t["type"] == "struct"
        else [t[k] for k in ("element", "key", "value") if k in t]
    )
    return next(filter(None, map(_lacking, inner)), None)
