"""Hypothesis strategies for schemas, values and files, and helpers that several tests of codecs
share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from frazil.codec.metadata_json import decode_metadata
from frazil.codec.single_value import scaled
from frazil.spec.manifest import DataFile, ManifestEntry, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DAYS = st.integers(-(2**31), 2**31 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Any]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: scaled(n, scale))


def primitives() -> st.SearchStrategy[tuple[IcebergType, Any]]:
    """A type and a value of it."""
    plain: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
        (BooleanType(), st.booleans()),
        (IntegerType(), INT),
        (LongType(), LONG),
        (FloatType(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
        (DoubleType(), FINITE),
        (DateType(), DAYS),
        (TimeType(), st.integers(0, 86_400_000_000 - 1)),
        (TimestampType(), LONG),
        (TimestamptzType(), LONG),
        (TimestampNanoType(), LONG),
        (TimestamptzNanoType(), LONG),
        (StringType(), TEXT),
        (UUIDType(), st.binary(min_size=16, max_size=16)),
        (BinaryType(), st.binary(max_size=20)),
        (FixedType(5), st.binary(min_size=5, max_size=5)),
        (DecimalType(9, 2), decimals(9, 2)),
        (DecimalType(38, 10), decimals(38, 10)),
        (DecimalType(5, 5), decimals(5, 5)),
    ]
    return st.one_of([st.tuples(st.just(t), values) for t, values in plain])


def schemas() -> st.SearchStrategy[Schema]:
    """Schemas with nested types, docs and defaults of primitives."""
    leaf = primitives()

    def build(draw_types: list[tuple[Any, bool, str]]) -> Schema:
        ids = iter(range(1, 10_000))

        def made(t: Any) -> IcebergType:
            match t:
                case ("struct", inner):
                    return StructType(
                        *(
                            NestedField(next(ids), f"f{i}", made(x), required=False)
                            for i, x in enumerate(inner)
                        )
                    )
                case ("list", inner):
                    return ListType(next(ids), made(inner), False)
                case ("map", key, value):
                    return MapType(next(ids), made(key), next(ids), made(value), True)
            return t[0]

        fields = []
        for n, (t, required, doc) in enumerate(draw_types):
            default = t[1] if isinstance(t[0], IcebergType) else None
            fields.append(
                NestedField(
                    next(ids),
                    f"c{n}",
                    made(t),
                    required,
                    doc or None,
                    default,
                    default,
                    {"x-kept": n} if n % 3 == 0 else {},
                )
            )
        return Schema(*fields, schema_id=7, extra={"x-schema": [1]})

    nested = st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.just("struct"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("list"), inner),
            st.tuples(st.just("map"), inner, inner),
        ),
        max_leaves=6,
    )
    return st.lists(st.tuples(nested, st.booleans(), TEXT), min_size=1, max_size=5).map(build)


def data_files(
    partition: st.SearchStrategy[tuple[Any, ...]], spec_id: int = 0
) -> st.SearchStrategy[DataFile]:
    counts = st.none() | st.dictionaries(INT, LONG, max_size=4)
    bounds = st.none() | st.dictionaries(INT, st.binary(max_size=20), max_size=4)
    positive = st.integers(0, 2**63 - 1)
    return st.builds(
        DataFile,
        content=st.just(0),
        file_path=TEXT,
        file_format=st.sampled_from(["parquet", "orc", "avro"]),
        partition=partition,
        record_count=positive,
        file_size_in_bytes=positive,
        column_sizes=counts,
        value_counts=counts,
        null_value_counts=counts,
        nan_value_counts=counts,
        lower_bounds=bounds,
        upper_bounds=bounds,
        key_metadata=st.none() | st.binary(max_size=9),
        split_offsets=st.none() | st.lists(LONG, max_size=3).map(tuple),
        equality_ids=st.none() | st.lists(INT, max_size=3).map(tuple),
        sort_order_id=st.none() | INT,
        referenced_data_file=st.none() | TEXT,
        spec_id=st.just(spec_id),
    )


def entry(
    path: str = "s3://b/t/data/f.parquet",
    *,
    status: int = 1,
    rows: int = 10,
    numbers: tuple[int | None, ...] = (None, None, None),
    **more: Any,
) -> ManifestEntry:
    file = DataFile(
        file_path=path, file_format="parquet", record_count=rows, file_size_in_bytes=1000, **more
    )
    return ManifestEntry(status, file, *numbers)


def manifest(**more: Any) -> ManifestFile:
    """A manifest that a list names; nothing is known of its length."""
    values: dict[str, Any] = {
        "manifest_path": "m0.avro",
        "manifest_length": 0,
        "added_snapshot_id": 77,
        "sequence_number": 5,
        **more,
    }
    return ManifestFile(**values)


def local(location: str) -> Path:
    return Path(location.removeprefix("file://").removeprefix("file:"))


def current_metadata(golden: Any, name: str) -> TableMetadata:
    file = golden[name].metadata_file
    return decode_metadata(Path(file).read_bytes(), file)
