"""Files in the JSON of REST scan planning: partitions by type, bounds in two forms, and which of
them are not trusted.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from frazil.codec.content_file_json import ContentFile, entries_of
from frazil.codec.manifest import entries_from_table
from frazil.errors import CorruptData
from frazil.spec import types as i
from frazil.spec.manifest import DataFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transforms import parse_transform

TYPES = (
    i.LongType(),
    i.StringType(),
    i.DecimalType(9, 2),
    i.DateType(),
    i.DoubleType(),
    i.UUIDType(),
    i.BinaryType(),
)
SCHEMA = Schema(*(i.NestedField(n, f"c{n}", type_) for n, type_ in enumerate(TYPES, 1)))
FILE = {
    "spec-id": 0,
    "content": "data",
    "file-path": "/f",
    "file-format": "PARQUET",
    "file-size-in-bytes": 9,
    "record-count": 3,
}


def made(spec: PartitionSpec = PartitionSpec(), types: Any = (), **more: Any) -> DataFile:
    decoded = msgspec.json.decode(msgspec.json.encode({**FILE, **more}), type=ContentFile)
    return entries_from_table(
        entries_of([decoded], spec, types, SCHEMA, tuple(SCHEMA.by_id)), spec
    )[0].data_file


def lower(*pairs: tuple[int, Any]) -> dict[int, bytes]:
    keys, values = zip(*pairs, strict=True)
    return made(**{"lower-bounds": {"keys": keys, "values": values}}).lower_bounds or {}


FIVE, DAY = (5).to_bytes(8, "little"), (19_000).to_bytes(4, "little")


def test_numbers_times_uuids_and_bytes_are_read_in_both_forms() -> None:
    assert (
        lower((1, 5), (4, "2022-01-08"))
        == lower((1, FIVE.hex()), (4, DAY.hex()))
        == {1: FIVE, 4: DAY}
    )
    text = "12345678-1234-1234-1234-123456789abc"
    assert (
        lower((6, text))
        == lower((6, text.replace("-", "").upper()))
        == {6: bytes.fromhex(text.replace("-", ""))}
    )
    assert lower((7, "00FF")) == {7: b"\x00\xff"}


def test_texts_and_decimals_are_read_where_a_number_shows_the_form() -> None:
    """`AB12` may be a text, or the digits of two bytes."""
    assert lower((2, "AB12"), (3, "1234")) == {}
    assert lower((1, 5), (2, "AB12"), (3, "12.34")) == {
        1: FIVE,
        2: b"AB12",
        3: (1234).to_bytes(2, "big"),
    }
    assert lower((2, "AB12"), (3, "04D2"), (1, FIVE.hex())) == {
        1: FIVE,
        2: b"\xab\x12",
        3: (1234).to_bytes(2, "big"),
    }


@pytest.mark.parametrize(
    "pair",
    [(1, "x"), (1, 1.5), (1, None), (1, 2**70), (4, "2022-13-40"), (5, {}), (6, "1-2"), (99, 5)],
)
def test_bounds_that_are_none_exclude_nothing(pair: tuple[int, Any]) -> None:
    assert lower(pair) == {}


def of(*transforms: tuple[int, str]) -> tuple[PartitionSpec, list[i.IcebergType]]:
    fields = [
        PartitionField(source, 1000 + n, parse_transform(text), f"p{n}")
        for n, (source, text) in enumerate(transforms)
    ]
    return PartitionSpec(*fields), [
        f.transform.result_type(SCHEMA.by_id[f.source_id].field_type) for f in fields
    ]


def test_partition_values_come_by_type_as_a_list_or_by_id() -> None:
    spec, types = of(
        (1, "identity"),
        (2, "truncate[2]"),
        (3, "identity"),
        (4, "day"),
        (4, "month"),
        (1, "bucket[4]"),
        (1, "void"),
    )
    expected = (5, "ab", Decimal("1.50"), 19_000, 624, 3, None)
    assert (
        made(spec, types, partition=[5, "ab", "1.50", "2022-01-08", 624, 3, None]).partition
        == expected
    )
    assert (
        made(spec, types, partition=[5, "ab", "1.50", 19_000, 624, 3, None]).partition == expected
    )
    by_id = {"1000": 5, "1001": "ab", "1002": "1.50", "1003": "2022-01-08", "1004": 624, "1005": 3}
    assert made(spec, types, partition=by_id).partition == expected
    spec, types = of((5, "identity"))
    assert math.isnan(made(spec, types, partition=["NaN"]).partition[0])


@pytest.mark.parametrize("partition", [None, [], [1, 2], ["x"], [True], [2**70]])
def test_partitions_that_are_none_of_the_spec_are_refused(partition: Any) -> None:
    spec, types = of((1, "identity"))
    with pytest.raises(CorruptData, match="/f"):
        made(spec, types, partition=partition)


def test_old_words_are_read_and_odd_maps_refused() -> None:
    # Java up to 1.10
    assert made(content="POSITION_DELETES").content == 1 and made().file_format == "parquet"
    with pytest.raises(CorruptData, match="have 2 columns, but 1 values"):
        made(**{"value-counts": {"keys": [1, 2], "values": [3]}})
