"""Manifests that are encoded column by column are the same bytes as those encoded entry by entry."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.codec.avro_write import write_long
from frazil.codec.manifest import decode_manifest, encode_manifest, entries_from_table
from frazil.codec.manifest_columns import _varints, encode_columns, partition_columns
from frazil.errors import CorruptData, Unsupported
from frazil.spec.ddl import parse_schema
from frazil.spec.manifest import DataFile, ManifestEntry, ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.transforms import IdentityTransform, VoidTransform

DDL = "a bigint, b int, c string, d double, e float, f boolean, g decimal(9,2), h decimal(38,0), i binary, j date, k timestamp, l string"
SCHEMA = parse_schema(DDL)
SPEC = PartitionSpec(
    *(PartitionField(n + 1, 1000 + n, IdentityTransform(), f"p{n}") for n in range(11)),
    PartitionField(12, 1011, VoidTransform(), "void"),
    spec_id=3,
)
VALUES: list[list[Any]] = [
    [0, -1, 2**63 - 1, -(2**63), 63, 64], [0, -(2**31), 2**31 - 1], ["", "x" * 300, "ä"], [0.0, -0.0, float("nan"), 1.5], [0.5, -0.0],
    [True, False], [Decimal("0.00"), Decimal("-1234567.89")], [Decimal(0), Decimal(-(10**37)), Decimal(10**38 - 1)], [b"", b"\x00\xff" * 90],
    [0, -1, 20000], [0, -1, 2**53], [None],
]  # fmt: skip


def entry(rng: random.Random, version: int, n: int) -> ManifestEntry:
    def some(value: Any) -> Any:
        return value if rng.random() < 0.7 else None

    keys = rng.sample(range(1, 200), rng.randrange(5))
    deletes = version > 1 and rng.random() < 0.3
    file = DataFile(
        content=rng.choice([1, 2]) if deletes else 0,
        file_path=f"s3://b/{n}/" + "x" * rng.randrange(200),
        file_format="parquet",
        partition=tuple(some(rng.choice(values)) for values in VALUES),
        record_count=rng.randrange(2**40),
        file_size_in_bytes=rng.randrange(2**40),
        column_sizes=some({k: rng.randrange(2**50) for k in keys}),
        value_counts=some({k: k for k in keys}),
        null_value_counts=some({}),
        lower_bounds=some({k: rng.randbytes(rng.randrange(40)) for k in keys}),
        upper_bounds=some(dict.fromkeys(keys, b"")),
        key_metadata=some(b"k"),
        split_offsets=some(tuple(sorted(rng.sample(range(10**9), 3)))),
        equality_ids=(1, 2) if deletes else None,
        sort_order_id=some(0),
        spec_id=3,
        first_row_id=some(n) if version > 2 else None,
        referenced_data_file=some("s3://b/d") if deletes else None,
        content_offset=some(4) if deletes and version > 2 else None,
    )
    numbers = (some(n), some(n + 1)) if version > 1 else (None, None)
    return ManifestEntry(rng.choice([0, 1, 2]), file, 1 if version == 1 else some(n + 5), *numbers)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("rows", [0, 1, 40, 700])
def test_columns_are_encoded_to_the_bytes_of_their_entries(version: int, rows: int) -> None:
    rng = random.Random(rows + version)
    given: dict[str, Any] = {
        "spec": SPEC,
        "schema": SCHEMA,
        "format_version": version,
        "codec": "none",
    }
    expected = encode_manifest([entry(rng, version, n) for n in range(rows)], **given)
    table = decoded(expected)
    again = encode_columns(table, **given)
    assert again.replace(again[-16:], b"") == expected.replace(expected[-16:], b"")
    # by text, for NaN is not NaN
    assert repr(entries_from_table(decoded(again), SPEC)) == repr(entries_from_table(table, SPEC))


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "none"])
def test_every_codec_reads_back(codec: str) -> None:
    rng = random.Random(1)
    table = decoded(
        encode_manifest(
            [entry(rng, 3, n) for n in range(2000)], spec=SPEC, schema=SCHEMA, format_version=3
        )
    )
    again = encode_columns(
        table.slice(500), spec=SPEC, schema=SCHEMA, format_version=3, codec=codec
    )
    assert repr(entries_from_table(decoded(again), SPEC)) == repr(
        entries_from_table(table.slice(500), SPEC)
    )


def description(data: bytes) -> ManifestFile:
    return ManifestFile(manifest_path="/m", manifest_length=len(data), partition_spec_id=3)


def decoded(data: bytes) -> pa.Table:
    table = decode_manifest(data, description(data))
    children = partition_columns(table, SPEC, SCHEMA)
    partition = pa.StructArray.from_arrays(children, [str(f.field_id) for f in SPEC.fields])
    return table.set_column(table.column_names.index("partition"), "partition", partition)


def test_numbers_of_every_size_are_zigzag_varints() -> None:
    numbers = [
        sign * 2**bits + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)
    ] + [2**63 - 1, -(2**63)]
    assert _varints(np.array(numbers, np.int64)).to_pylist() == [write_long(n) for n in numbers]


def test_partition_values_get_the_types_that_the_spec_has_now() -> None:
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "a"),
        PartitionField(4, 1001, IdentityTransform(), "d"),
    )
    stored = pa.table(
        {"partition": pa.StructArray.from_arrays([pa.array([1, None], pa.int32())], ["1000"])}
    )
    found = partition_columns(stored, spec, SCHEMA)
    assert [f.type for f in found] == [pa.int64(), pa.float64()] and [
        f.to_pylist() for f in found
    ] == [[1, None], [None, None]]
    with pytest.raises(Unsupported, match="stored as string"):
        partition_columns(
            pa.table({"partition": pa.StructArray.from_arrays([pa.array(["x"])], ["1000"])}),
            spec,
            SCHEMA,
        )


def test_a_required_field_without_value_is_refused() -> None:
    table = decoded(
        encode_manifest([entry(random.Random(2), 2, 0)], spec=SPEC, schema=SCHEMA, format_version=2)
    )
    broken = table.set_column(
        table.column_names.index("file_path"), "file_path", pa.array([None], pa.string())
    )
    with pytest.raises(CorruptData, match="no file_path"):
        encode_columns(broken, spec=SPEC, schema=SCHEMA, format_version=2)
