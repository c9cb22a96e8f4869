"""Which manifests may hold files of a partition, by their summaries: bounds that cannot be, or are
in Java's order, rule nothing out.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from frazil.codec.single_value import to_bytes
from frazil.scan.summaries import manifests_that_may_hold
from frazil.spec.manifest import FieldSummary, ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec, partition_key
from frazil.spec.schema import Schema
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import (
    BinaryType,
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)
from tests.scan.made import DictStorage, table_metadata

LOW, MIDDLE, HIGH = (uuid.UUID(first + "0" * 30).bytes for first in ("10", "70", "f0"))


def may_hold(type_: IcebergType, lower: Any, upper: Any, value: Any) -> bool:
    return of_summaries(
        (FieldSummary(False, False, to_bytes(type_, lower), to_bytes(type_, upper)),), type_, value
    )


def of_summaries(
    summaries: tuple[FieldSummary, ...] | None, type_: IcebergType, value: Any
) -> bool:
    schema = Schema(NestedField(1, "c", type_))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c"), spec_id=0)
    manifest = ManifestFile(
        manifest_path="/t/m.avro",
        manifest_length=1,
        partition_spec_id=0,
        added_files_count=1,
        added_snapshot_id=1,
        sequence_number=1,
        min_sequence_number=1,
        partitions=summaries,
    )
    return bool(
        manifests_that_may_hold(
            [manifest],
            [partition_key(0, (value,))],
            table_metadata(DictStorage(), schema, [], [spec]),
        )
    )


@pytest.mark.parametrize(
    ("type_", "low", "high", "inside", "outside"),
    [
        (LongType(), 3, 7, 5, 8),
        (StringType(), "b", "d", "c", "e"),
        (BinaryType(), b"b", b"d", b"c", b"e"),
        (UUIDType(), LOW, MIDDLE, MIDDLE, HIGH),
    ],
)
def test_summaries_the_wrong_way_round_rule_no_partition_out(
    type_: IcebergType, low: Any, high: Any, inside: Any, outside: Any
) -> None:
    assert may_hold(type_, low, high, inside) and not may_hold(type_, low, high, outside)
    assert may_hold(type_, high, low, inside) and may_hold(type_, high, low, outside)


def test_second_halves_of_uuids_rule_nothing_out_as_java_compares_them_signed() -> None:
    first, second = LOW[:8] + b"\x00" * 8, LOW[:8] + b"\xff" * 8
    assert may_hold(UUIDType(), second, first, LOW) and may_hold(
        UUIDType(), first, LOW[:8] + b"\x7f" * 8, second
    )


@pytest.mark.parametrize("value", [None, 5])
@pytest.mark.parametrize(
    "summaries",
    [
        None,
        (),
        (FieldSummary(False, False),),
        (FieldSummary(False, None),),
        (FieldSummary(True, False),),
        (FieldSummary(None, None),),
        (FieldSummary(False, False, b"?", b"?"),),
        (FieldSummary(False, False, to_bytes(LongType(), 6), to_bytes(LongType(), 7)),) * 2,
    ],
)
def test_summaries_that_are_missing_or_damaged_or_without_bounds_rule_no_partition_out(
    summaries: tuple[FieldSummary, ...] | None, value: int | None
) -> None:
    assert of_summaries(summaries, LongType(), value)
    if value is not None:
        nan = float("nan")
        assert (
            of_summaries(summaries, DoubleType(), nan)
            or summaries is not None
            and summaries[0].lower_bound is not None
        )


def test_one_bound_is_used_and_the_flags_of_summaries_with_bounds_are_trusted() -> None:
    low = FieldSummary(False, None, to_bytes(LongType(), 3), None)
    assert (
        of_summaries((low,), LongType(), 3)
        and not of_summaries((low,), LongType(), 2)
        and not of_summaries((low,), LongType(), None)
    )
    floats = FieldSummary(False, False, to_bytes(DoubleType(), 0.0), to_bytes(DoubleType(), 1.0))
    assert of_summaries((floats,), DoubleType(), -0.0) and not of_summaries(
        (floats,), DoubleType(), float("nan")
    )
