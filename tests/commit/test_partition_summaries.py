"""Which manifests may hold files of a partition, by their summaries: bounds that cannot be, or are in Java's order, rule nothing out."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from frazil.codec.single_value import to_bytes
from frazil.commit.filtering import may_hold_partition
from frazil.spec.manifest import FieldSummary, ManifestFile
from frazil.spec.partition_key import partition_key
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import BinaryType, IcebergType, LongType, NestedField, StringType, UUIDType
from tests.scan.made import DictStorage, table_metadata

LOW, HIGH = uuid.UUID("10" + "0" * 30).bytes, uuid.UUID("f0" + "0" * 30).bytes


def may_hold(type_: IcebergType, lower: Any, upper: Any, value: Any) -> bool:
    schema = Schema(NestedField(1, "c", type_))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c"), spec_id=0)
    summary = FieldSummary(False, False, to_bytes(type_, lower), to_bytes(type_, upper))
    manifest = ManifestFile(
        manifest_path="/t/m.avro",
        manifest_length=1,
        partition_spec_id=0,
        added_files_count=1,
        added_snapshot_id=1,
        sequence_number=1,
        min_sequence_number=1,
        partitions=(summary,),
    )
    return may_hold_partition(manifest, [partition_key(0, (value,))], table_metadata(DictStorage(), schema, [], [spec]))


@pytest.mark.parametrize(
    ("type_", "low", "high", "inside", "outside"),
    [
        (LongType(), 3, 7, 5, 8),
        (StringType(), "b", "d", "c", "e"),
        (BinaryType(), b"b", b"d", b"c", b"e"),
        (UUIDType(), LOW, HIGH, HIGH, b"\xff" * 16),
    ],
)
def test_summaries_the_wrong_way_round_rule_no_partition_out(type_: IcebergType, low: Any, high: Any, inside: Any, outside: Any) -> None:
    assert may_hold(type_, low, high, inside) and not may_hold(type_, low, high, outside)
    assert may_hold(type_, high, low, inside) and may_hold(type_, high, low, outside)


def test_second_halves_of_uuids_rule_nothing_out_as_java_compares_them_signed() -> None:
    first, second = LOW[:8] + b"\x00" * 8, LOW[:8] + b"\xff" * 8
    assert may_hold(UUIDType(), second, first, LOW) and may_hold(UUIDType(), first, LOW[:8] + b"\x7f" * 8, second)
