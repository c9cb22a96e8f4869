"""Theta sketches: the hashes and bytes of Apache DataSketches, estimates that hold, merges that
lose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.codec.theta_sketch import NOMINAL, ThetaSketch, hash_lengths
from frazil.errors import CorruptData
from tests.codec.sketches import decode_sketch, merge_sketches


def hashes(values: Sequence[bytes]) -> np.ndarray:
    lengths = np.array([len(v) for v in values], np.int64)
    return hash_lengths(
        np.frombuffer(b"".join(values), np.uint8), np.cumsum(lengths) - lengths, lengths
    )


def sketch(values: Sequence[bytes]) -> ThetaSketch:
    return ThetaSketch().with_hashes(hashes(values)) if values else ThetaSketch()


# Made with the library datasketches 5.2 (C++). Unlike Java's, its sketches of one value have no
# flag for that, and the unused float is 0.
THEIRS = [
    ([(12345678901234).to_bytes(8, "little")], "01030300001acc939eb8432d8a1e6807"),
    ([b"value-0"], "01030300001acc9328dc026e817c4421"),
    (
        [b"a" * 15, b"b" * 16, b"c" * 17, "é".encode() * 40, b""],
        "02030300001acc930400000000000000628c0c0ceef28600a211a44d6630403540e2788f82db3e45c7ae454f423a1f67",
    ),
]


@pytest.mark.parametrize(("values", "theirs"), THEIRS)
def test_hashes_are_those_of_the_datasketches_library(values: list[bytes], theirs: str) -> None:
    assert np.array_equal(decode_sketch(bytes.fromhex(theirs)).hashes, sketch(values).hashes)
    ours, known = sketch(values).to_bytes(), bytes.fromhex(theirs)
    assert (ours[:5], ours[6:12], ours[16:]) == (known[:5], known[6:12], known[16:]) and ours[
        5
    ] & ~32 == known[5]


def test_an_empty_sketch_has_eight_bytes() -> None:
    assert ThetaSketch().to_bytes().hex() == "01030300001e0000"
    assert decode_sketch(ThetaSketch().to_bytes()).estimate == 0


@pytest.mark.parametrize("count", [1, 2, 100, NOMINAL, NOMINAL + 1, 50_000, 400_000])
def test_estimates_are_exact_until_the_sketch_is_full_and_within_three_percent_after(
    count: int,
) -> None:
    words = np.arange(count, dtype="<i8").view(np.uint8).reshape(-1, 8)
    found = ThetaSketch().with_hashes(
        hash_lengths(words.reshape(-1), np.arange(count) * 8, np.full(count, 8))
    )
    assert found.estimate == count if count <= NOMINAL else abs(found.estimate / count - 1) < 0.03
    assert len(found.to_bytes()) <= 24 + 8 * NOMINAL


@given(st.lists(st.lists(st.binary(min_size=1, max_size=40), max_size=30), max_size=6))
def test_the_sketch_of_parts_merged_is_the_sketch_of_the_whole_and_survives_its_bytes(
    parts: list[list[bytes]],
) -> None:
    whole = sketch([v for part in parts for v in part])
    merged = merge_sketches(sketch(part) for part in parts)
    assert np.array_equal(merged.hashes, whole.hashes) and merged.theta == whole.theta
    assert merged.estimate == len({v for part in parts for v in part})
    again = decode_sketch(merged.to_bytes())
    assert np.array_equal(again.hashes, merged.hashes) and again.theta == merged.theta


def test_full_sketches_merge_in_any_order_to_the_same_sketch() -> None:
    parts = [sketch([b"%d" % n for n in range(k, k + 30_000)]) for k in (0, 20_000, 40_000)]
    one, other = merge_sketches(parts), merge_sketches(reversed(parts))
    assert one.theta == other.theta and np.array_equal(one.hashes, other.hashes)
    assert abs(one.estimate / 70_000 - 1) < 0.03


@given(st.binary(max_size=60))
def test_damaged_sketches_are_corrupt_data_or_sound(data: bytes) -> None:
    for bytes_ in (
        data,
        bytes.fromhex("02030300001acc93") + data,
        bytes.fromhex("03030300001acc93") + data,
    ):
        try:
            found = decode_sketch(bytes_)
        except CorruptData:
            continue
        assert (np.diff(found.hashes.astype(np.float64)) >= 0).all()
