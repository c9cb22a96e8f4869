"""Tables that Frazil writes, of every type, transform, version and format, for other engines to
judge.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.spec.ddl import parse_schema

UTC = dt.UTC
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Made:
    """A table to write: DDL, batches of rows (one append each), and how it is laid out."""

    name: str
    ddl: str
    batches: tuple[Rows, ...]
    create: dict[str, Any] = field(default_factory=dict)
    spark: bool = True  # Spark can hold all of its types
    pyiceberg: bool = True

    def frames(self) -> Iterator[pa.Table]:
        schema = to_arrow_schema(parse_schema(self.ddl))
        for rows in self.batches:
            yield pa.Table.from_pylist(rows, schema=schema)

    def rows(self) -> pa.Table:
        return pa.concat_tables(self.frames())


def moment(n: int) -> dt.datetime:
    """Instants around 1970, an hour and a microsecond apart, some before."""
    return dt.datetime(1970, 1, 1) + dt.timedelta(hours=37 * (n - 6), microseconds=n - 6)


TYPES = """id bigint not null, flag boolean, i int, l bigint, f float, d double, d9 decimal(9, 2), d18 decimal(18, 4), d38 decimal(38, 10),
dt date, ts timestamp_ntz, tz timestamp, s string, bin binary"""


def row(n: int) -> dict[str, Any]:
    """Row n of the table of all types: every fourth is null throughout, floats hold NaN, infinity
    and both zeros.
    """
    if n % 4 == 3:
        return {"id": n}
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 1e30][n % 8]
    text = ["", "a", "zebra", "ü/=% +", "𝄞" * 20, "null", "x" * 40, "a\\b"][n % 8]
    return {
        "id": n,
        "flag": n % 2 == 0,
        "i": (-1) ** n * (2**31 - 1 - n),
        "l": (-1) ** n * (2**63 - 1 - n),
        "f": odd,
        "d": odd * (1 if n % 3 else -1),
        "d9": decimal.Decimal(n - 6) / 4,
        "d18": decimal.Decimal("-123456789.0001") + n,
        "d38": decimal.Decimal(10) ** (n % 20) * (-1) ** n,
        "dt": dt.date(1970, 1, 1) + dt.timedelta(days=40 * (n - 6)),
        "ts": moment(n),
        "tz": moment(n).replace(tzinfo=UTC),
        "s": text,
        "bin": bytes([n % 256, 255]) * (n % 5),
    }


def many(first: int, count: int, make: Callable[[int], dict[str, Any]] = row) -> Rows:
    return [make(n) for n in range(first, first + count)]


def nested(n: int) -> dict[str, Any]:
    if n % 5 == 4:
        return {"id": n}
    inner = None if n % 3 == 2 else {"x": n, "y": None if n % 2 else f"y{n}"}
    return {
        "id": n,
        "st": {"a": n, "in": inner} if n % 4 else {"a": None, "in": None},
        "li": [] if n % 4 == 0 else [n, None, -n],
        "ls": [inner, None, {"x": n, "y": "z"}],
        "m": [(f"k{n}", inner), ("k", None)] if n % 3 else [],
        "mm": [(n, [1, None])],
        "deep": [[{"a": [n]}], None, []],
    }


NESTED = """id bigint not null, st struct<a: int, `in`: struct<x: int, y: string>>, li array<int>, ls array<struct<x: int, y: string>>,
m map<string, struct<x: int, y: string>>, mm map<bigint, array<int>>, deep array<array<struct<a: array<int>>>>"""

CORE = "id bigint not null, u uuid, fx fixed(5), t time"


def core(n: int) -> dict[str, Any]:
    if n % 4 == 3:
        return {"id": n}
    return {
        "id": n,
        "u": str(uuid.UUID(int=(n * 0x1111 << 112) + n)),
        "fx": bytes([n] * 5),
        "t": dt.time(n % 24, 59, 1, n),
    }


NANO = "id bigint not null, a timestamp_ns, b timestamptz_ns"


def nano(n: int) -> dict[str, Any]:
    return (
        {"id": n} if n % 4 == 3 else {"id": n, "a": (n - 5) * 10**9 + n, "b": (n - 5) * 10**12 - n}
    )


SPECS = {
    "identity_numbers": ["flag", "i", "l", "d9", "d38"],
    "identity_floats": ["f", "d"],
    "identity_times": ["dt", "ts", "tz"],
    "identity_texts": ["s", "bin"],
    "bucket_numbers": ["bucket(4, i)", "bucket(4, l)", "bucket(4, d9)", "bucket(4, d38)"],
    "bucket_others": [
        "bucket(4, dt)",
        "bucket(4, ts)",
        "bucket(4, tz)",
        "bucket(4, s)",
        "bucket(4, bin)",
    ],
    "truncate_all": [
        "truncate(2, i)",
        "truncate(10, l)",
        "truncate(50, d9)",
        "truncate(7, d18)",
        "truncate(2, s)",
        "truncate(2, bin)",
    ],
    "times_1": ["years(dt)", "months(ts)", "days(tz)"],
    "times_2": ["months(dt)", "days(ts)", "hours(tz)"],
    "times_3": ["days(dt)", "hours(ts)", "years(tz)"],
    "times_4": ["years(ts)", "months(tz)"],
}


def transforms() -> Iterator[Made]:
    """Every transform of every type that takes it, several in a spec."""
    for name, spec in SPECS.items():
        yield Made(name, TYPES, (many(0, 16),), {"partition_by": spec})


def every() -> Iterator[Made]:
    for version in (1, 2, 3):
        yield Made(
            f"types_v{version}", TYPES, (many(0, 16), many(16, 9), []), {"format_version": version}
        )
        yield Made(
            f"nested_v{version}",
            NESTED,
            (many(0, 12, nested), many(12, 5, nested)),
            {"format_version": version},
            pyiceberg=False,
        )
        yield Made(
            f"part_v{version}",
            TYPES,
            (many(0, 24), many(7, 9)),
            {
                "format_version": version,
                "partition_by": ["days(ts)", "bucket(3, id)", "truncate(1, s)"],
            },
        )
    for fmt in ("orc", "avro"):
        # ORC cannot hold fractions of a second before 1970 rightly
        props, first = (
            {"write.format.default": fmt},
            8 if fmt == "orc" else 0,
        )
        yield Made(
            f"types_{fmt}",
            TYPES,
            (many(first, 16), many(24, 9)),
            {"properties": props},
            pyiceberg=fmt == "orc",
        )
        yield Made(
            f"nested_{fmt}", NESTED, (many(0, 12, nested),), {"properties": props}, pyiceberg=False
        )
        yield Made(
            f"part_{fmt}",
            TYPES,
            (many(first, 24),),
            {"properties": props, "partition_by": ["months(dt)", "s"]},
            pyiceberg=fmt == "orc",
        )
    yield Made("core", CORE, (many(0, 12, core),), spark=False)
    yield Made(
        "core_bucket", CORE, (many(0, 12, core),), {"partition_by": ["bucket(3, u)"]}, spark=False
    )
    yield Made(
        "nano",
        NANO,
        (many(0, 12, nano),),
        {"format_version": 3, "partition_by": ["days(a)", "hours(b)"]},
        spark=False,
        pyiceberg=False,
    )
    yield Made("sorted", TYPES, (many(0, 40)[::-1],), {"sort_by": ["s desc nulls last", "d", "id"]})
    yield Made("keys", TYPES, (many(0, 10),), {"identifier_fields": ["id"]})
    for mode in ("none", "counts", "truncate(3)", "full"):
        yield Made(
            f"metrics_{mode[:4]}",
            TYPES,
            (many(0, 16),),
            {
                "properties": {
                    "write.metadata.metrics.default": mode,
                    "write.metadata.metrics.column.s": "full",
                }
            },
        )
    for codec in ("uncompressed", "snappy", "gzip", "lz4", "zstd"):
        yield Made(
            f"codec_{codec}",
            TYPES,
            (many(0, 16),),
            {"properties": {"write.parquet.compression-codec": codec}},
        )
    yield Made(
        "gzip_metadata",
        TYPES,
        (many(0, 8), many(8, 4)),
        {"properties": {"write.metadata.compression-codec": "gzip"}},
    )
    yield Made(
        "object_store",
        TYPES,
        (many(0, 16),),
        {"properties": {"write.object-storage.enabled": "true"}, "partition_by": ["s"]},
    )
    yield Made("empty", TYPES, ([],))
    yield Made("untouched", TYPES, ())
    yield from transforms()


TABLES = {made.name: made for made in every()}
