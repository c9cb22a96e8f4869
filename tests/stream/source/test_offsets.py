"""Offsets: one text for one position, under 1 kB, with all 64 bits of an id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import CorruptData
from frazil.stream.source.offset import Offset, Position, parse_offset, start_offset

UUID = "90dc63e6-7359-45f3-aa65-31bfb30d4a70"
INT64 = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.builds(
    Position,
    INT64,
    st.sampled_from(["scan", "files", "after"]),
    st.integers(0, 2**53),
    st.sampled_from(["", "sequence", "watermark:7"]),
    st.integers(0, 2**31),
)


@given(st.builds(Offset, st.just(UUID), POSITIONS, st.none() | POSITIONS))
def test_an_offset_survives_the_checkpoint_as_the_same_text(offset: Offset) -> None:
    text = json.dumps(offset.to_dict())
    assert len(text) < 1024
    read = json.loads(text)
    assert parse_offset(read) == offset
    assert json.dumps(read) == text


def test_the_first_offset_is_a_constant() -> None:
    assert start_offset() == start_offset() and parse_offset(start_offset()) is None


@pytest.mark.parametrize(
    "broken",
    [
        None,
        {},
        {"version": 2, "phase": "start"},
        {"version": 1, "snapshot_id": 5, "position": 3, "scan_all_files": False},
        {**Offset(UUID, Position(5)).to_dict(), "snapshot_id": "5"},
        {**Offset(UUID, Position(5)).to_dict(), "file": True},
        {**Offset(UUID, Position(5)).to_dict(), "phase": "middle"},
    ],
)
def test_what_another_source_wrote_is_refused(broken: Any) -> None:
    with pytest.raises(CorruptData, match="checkpoint"):
        parse_offset(broken)
