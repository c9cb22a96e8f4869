from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from frazil.codec.deletion_vector import decode_vector, encode_vector, positions_array, vector_blob
from frazil.codec.puffin import Blob, encode_puffin
from frazil.errors import CorruptData, InvalidInput, Unsupported
from tests.codec.made import TEXT
from tests.codec.puffin_files import decode_blob, decode_footer
from tests.golden import Golden, names

VECTORS = {
    "": "0000000cd1d339640000000000000000bf18480c",
    "1 3 5 7 9": "0000002ad1d339640100000000000000000000003a3000000100000000000400100000000100030005000700 0900b3fb20be",
    f"100 101 {2**31 + 99} {2**31 + 100}": "00000030d1d339640100000000000000000000003a3000000200000000000100008001001800 00001c000000640065006300640015eb1c7c",
}
POSITIONS = st.one_of(
    st.sets(st.integers(0, 2**40), max_size=30),
    st.tuples(st.integers(0, 2**33), st.integers(0, 9000), st.integers(1, 9)).map(
        lambda t: set(range(t[0], t[0] + t[1], t[2]))
    ),
)
BLOB = st.builds(
    Blob,
    type=TEXT,
    data=st.binary(max_size=200),
    fields=st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
    snapshot_id=st.integers(-1, 2**63 - 1),
    sequence_number=st.integers(-1, 2**63 - 1),
    compression_codec=st.sampled_from([None, "zstd"]),
    properties=st.dictionaries(TEXT, TEXT, max_size=2),
)


@pytest.mark.parametrize("positions", VECTORS)
def test_vectors_have_the_bytes_of_the_specification(positions: str) -> None:
    numbers = [int(p) for p in positions.split()]
    expected = bytes.fromhex(VECTORS[positions].replace(" ", ""))
    assert encode_vector(numbers) == expected
    assert list(decode_vector(expected)) == numbers


@given(POSITIONS)
@settings(max_examples=100, deadline=None)
def test_positions_survive(positions: set[int]) -> None:
    found = decode_vector(encode_vector(positions))
    assert set(found) == positions
    assert positions_array(found).tolist() == sorted(positions)


@given(POSITIONS, st.data())
@settings(max_examples=150, deadline=None)
def test_a_vector_damaged_behind_a_right_checksum_is_refused_before_native_code_sees_it(
    positions: set[int], data: st.DataObject
) -> None:
    import struct
    import zlib

    body = bytearray(encode_vector(positions)[4:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(4, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    blob = struct.pack(">I", len(body)) + bytes(body) + struct.pack(">I", zlib.crc32(bytes(body)))
    try:
        found = decode_vector(blob)
    except CorruptData:
        return
    assert len(positions_array(found)) == len(found)


def test_empty_bitmaps_below_the_highest_are_read() -> None:
    import struct
    import zlib

    empty = struct.pack("<II", 12346, 0)
    one = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 7)
    body = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 2, 0) + empty + struct.pack("<I", 1) + one
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert list(decode_vector(blob)) == [2**32 + 7]


@pytest.mark.parametrize("bad", [-1, 2**63, "x", 2**63 - 1])
def test_positions_that_cannot_be_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput):
        encode_vector([bad])  # type: ignore[list-item]


def test_a_vector_torn_or_flipped_anywhere_is_refused() -> None:
    blob = encode_vector([1, 3, 5, 2**33])
    for size in range(len(blob)):
        with pytest.raises(CorruptData):
            decode_vector(blob[:size], "dv.puffin")
    for at in range(len(blob)):
        with pytest.raises(CorruptData):
            decode_vector(blob[:at] + bytes([blob[at] ^ 4]) + blob[at + 1 :])


def test_an_empty_puffin_file_has_the_bytes_of_the_specification() -> None:
    data, blobs, size = encode_puffin([])
    assert data.hex() == "50464131504641317b22626c6f6273223a5b5d7d0c0000000000000050464131"
    assert (blobs, size) == ((), 28)
    assert decode_footer(data).blobs == ()


@given(st.lists(BLOB, max_size=3), st.dictionaries(TEXT, TEXT, max_size=2))
@settings(max_examples=100, deadline=None)
def test_blobs_survive(blobs: list[Blob], properties: dict[str, str]) -> None:
    data, placed, size = encode_puffin(blobs, properties)
    footer = decode_footer(data)
    assert (footer.blobs, footer.properties, footer.size) == (placed, properties, size)
    assert [decode_blob(data, b) for b in footer.blobs] == [b.data for b in blobs]
    assert decode_footer(data[-size:]) == footer


@pytest.mark.parametrize("name", names(deletes=None))
def test_golden_puffin_files_are_read_and_their_vectors_written_back_alike(
    golden: Golden, name: str
) -> None:
    files = [f for f in Path(golden[name].location).rglob("*") if f.is_file()]
    puffins = [f for f in files if f.read_bytes()[:4] == b"PFA1"]
    # by Java; Flink's are named .parquet
    named = {f for f in files if f.suffix in (".puffin", ".stats")}
    assert named <= set(puffins) and all(f.read_bytes()[-4:] == b"PFA1" for f in puffins)
    for file in puffins:
        data = file.read_bytes()
        for blob in decode_footer(data, str(file)).blobs:
            content = decode_blob(data, blob, str(file))
            if blob.type == "deletion-vector-v1":
                found = decode_vector(content, str(file))
                assert len(found) == int(blob.properties["cardinality"])
                assert encode_vector(found) == content
                assert (
                    vector_blob(found, blob.properties["referenced-data-file"]).properties
                    == blob.properties
                )


def test_some_golden_table_has_vectors_and_some_statistics(golden: Golden) -> None:
    kinds = set()
    for name in ("dv_v3", "stats_puffin"):
        for file in Path(golden[name].location).rglob("*"):
            if file.is_file() and file.read_bytes()[:4] == b"PFA1":
                kinds |= {b.type for b in decode_footer(file.read_bytes()).blobs}
    assert kinds == {"deletion-vector-v1", "apache-datasketches-theta-v1"}


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_never_causes_a_raw_error(data: st.DataObject) -> None:
    whole, _, _ = encode_puffin(
        [
            vector_blob(BitMap64([1, 2]), "s3://b/f.parquet"),
            Blob(type="x", data=b"abc" * 40, compression_codec="zstd"),
        ]
    )
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    if damaged and data.draw(st.booleans()):
        damaged = bytearray(whole)
        damaged[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = [decode_blob(bytes(damaged), blob) for blob in decode_footer(bytes(damaged)).blobs]
    except (CorruptData, Unsupported):
        return
    assert len(damaged) == len(whole) and all(isinstance(content, bytes) for content in found), (
        "a file that is cut off is refused"
    )


def footer_of(payload: bytes, size: int | None = None, flags: int = 0) -> bytes:
    import struct

    return (
        b"PFA1PFA1"
        + payload
        + struct.pack("<iI4s", len(payload) if size is None else size, flags, b"PFA1")
    )


@pytest.mark.parametrize(
    "bad",
    [
        footer_of(b"{}"),
        footer_of(b"{", 1),
        footer_of(b"{}", -5),
        footer_of(b"{}", 2**31 - 1),
        footer_of(b"[" * 9000),
        b"",
        b"PFA1",
    ],
)
def test_footers_that_are_none_are_refused(bad: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_footer(bad)


def test_flags_and_codecs_nobody_knows_are_named() -> None:
    with pytest.raises(Unsupported, match="flags"):
        decode_footer(footer_of(b'{"blobs":[]}', flags=2))
    with pytest.raises(Unsupported, match="lz4"):
        encode_puffin([Blob(type="x", data=b"", compression_codec="lz4")])


def test_compressed_footers_and_blobs_of_others_are_read() -> None:
    import pyarrow as pa

    with pa.BufferOutputStream() as sink:
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(b'{"blobs":[]}')
        packed = sink.getvalue().to_pybytes()
    assert decode_footer(footer_of(packed, flags=1)).blobs == ()


def test_a_blob_that_claims_more_than_the_file_is_refused() -> None:
    data, _, _ = encode_puffin([Blob(type="x", data=b"abc")])
    for change in ({"length": 2**40}, {"offset": 2**62}, {"offset": 0}, {"length": -1}):
        obj = json.loads(data[len(data) - decode_footer(data).size + 4 : -12])
        obj["blobs"][0].update(change)
        bad = footer_of(json.dumps(obj).encode())
        with pytest.raises(CorruptData):
            decode_blob(bad, decode_footer(bad).blobs[0])
