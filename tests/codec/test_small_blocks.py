"""Files with one entry in each block, as PyIceberg leaves them: inflated all at once, with the same
bounds.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from frazil.codec import avro_arrow
from frazil.codec.avro import read_container
from frazil.codec.avro_arrow import read_columns
from frazil.codec.avro_write import header, write_long, write_text
from frazil.codec.guard import reading
from frazil.errors import CorruptData

SCHEMA = b'{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]}'
SYNC = bytes(range(100, 116))
TYPES = {"id": pa.int64(), "s": pa.string()}
random.seed(3)
TEXTS = [bytes(random.choices(b"abcdefghij0123456789", k=400)).decode() for _ in range(200)]
ENTRIES = [write_long(n) + write_text(s) for n, s in enumerate(TEXTS)]


def deflated(data: bytes) -> bytes:
    # as PyIceberg does: three bytes of the checksum stay behind the stream
    return zlib.compress(data)[2:-1]


def flushed(entries: list[bytes], at: int = -1, packed: bytes = b"") -> bytes:
    """A file of one block an entry; the block `at` is another one."""
    blocks = [packed if n == at else deflated(e) for n, e in enumerate(entries)]
    return header(SCHEMA, {}, "deflate", SYNC) + b"".join(
        write_long(1) + write_long(len(b)) + b + SYNC for b in blocks
    )


def columns(data: bytes) -> tuple[int, dict[str, pa.Array]]:
    found = read_container(data)
    with reading("manifest", "here"):
        return read_columns(found, found.schema, TYPES, "here")


@pytest.fixture(params=["its turn", "another's turn"])
def turn(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether this thread may inflate: another may be at it, or may have been when this process was
    forked.
    """
    if request.param == "its turn":
        yield request.param
        return
    with avro_arrow._inflating:
        yield request.param


def test_entries_of_small_blocks_are_all_there_in_their_order(turn: str) -> None:
    data = flushed(ENTRIES)
    found = read_container(data)
    count, blocks = avro_arrow._small_blocks(found) or (0, [])
    assert (
        (count, avro_arrow._inflated(blocks, found))
        == (200, b"".join(ENTRIES))
        == (found.count, b"".join(b for _, b in found.blocks))
    )
    rows, read = columns(data)
    assert (
        rows == 200
        and read["id"].to_pylist() == list(range(200))
        and read["s"].to_pylist() == TEXTS
    )


def test_who_has_no_turn_leaves_the_blocks_as_they_are_to_the_native_reader(turn: str) -> None:
    container = read_container(flushed(ENTRIES))
    _, parts = avro_arrow._entries(container, container.schema) or (0, [])
    assert (memoryview(container.data)[container.start + 16 :] in parts) == (
        turn == "another's turn"
    )
    _, read = avro_arrow._native(container, container.schema, TYPES) or (0, {})
    assert read["s"].to_pylist() == TEXTS


def test_blocks_of_other_sizes_are_read_one_by_one(turn: str) -> None:
    odd = [write_long(9) + write_text("x"), *ENTRIES]
    assert avro_arrow._small_blocks(read_container(flushed(odd))) is None
    assert columns(flushed(odd))[1]["id"].to_pylist() == [9, *range(200)]
    assert avro_arrow._small_blocks(read_container(flushed(ENTRIES)[:-1])) is None


@pytest.mark.parametrize("packed", [b"\xff" * 300, deflated(ENTRIES[7])[:-60], SYNC * 20, b""])
def test_a_damaged_small_block_is_corrupt_data(packed: bytes, turn: str) -> None:
    with pytest.raises(CorruptData):
        columns(flushed(ENTRIES, 7, packed))


def test_small_blocks_that_swell_are_stopped(turn: str) -> None:
    swollen = deflated(bytes(8_000_000))
    assert len(swollen) < 1 << 13
    with pytest.raises(CorruptData, match="decompresses to far more"):
        columns(
            header(SCHEMA, {}, "deflate", SYNC)
            + (write_long(1) + write_long(len(swollen)) + swollen + SYNC) * 40
        )


def test_threads_that_read_at_once_find_the_same() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(columns, [flushed(ENTRIES)] * 16))
    assert all(rows == 200 and read["s"].to_pylist() == TEXTS for rows, read in found)
