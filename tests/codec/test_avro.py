from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.codec.avro import read_container, read_long, read_records, record_reader
from frazil.codec.avro_schema import parse_schema
from frazil.codec.avro_write import (
    avro_name,
    container,
    decimal_size,
    header,
    write_bytes,
    write_long,
    write_text,
)
from frazil.errors import CorruptData, InvalidInput, Unsupported
from tests.codec.made import LONG, TEXT

SCHEMA = {"type": "record", "name": "r", "fields": [
    {"name": "i", "type": "int"}, {"name": "l", "type": ["null", "long"]}, {"name": "s", "type": ["string", "null", "double"]}, {"name": "f", "type": "float"},
    {"name": "x", "type": {"type": "fixed", "name": "f4", "size": 4}}, {"name": "y", "type": ["null", "f4"]}, {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
    {"name": "a", "type": {"type": "array", "items": "bytes"}}, {"name": "m", "type": {"type": "map", "values": "long"}}, {"name": "b", "type": "boolean"}, {"name": "n", "type": "null"},
]}  # fmt: skip
ROW = st.fixed_dictionaries(
    {"i": st.integers(-(2**31), 2**31 - 1), "l": st.none() | LONG, "s": st.none() | TEXT | st.floats(allow_nan=False), "f": st.floats(width=32, allow_nan=False),
     "x": st.binary(min_size=4, max_size=4), "y": st.none() | st.binary(min_size=4, max_size=4), "e": st.sampled_from("AB"), "a": st.lists(st.binary(max_size=5), max_size=4),
     "m": st.dictionaries(TEXT, LONG, max_size=3), "b": st.booleans(), "n": st.none()}
)  # fmt: skip


def rows_of(data: bytes) -> list[Any]:
    found = read_container(data)
    return read_records(found, record_reader(found.schema))


def written(rows: list[dict[str, Any]], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(dict(SCHEMA)), rows, codec=codec, sync_interval=200)
    return out.getvalue()


@given(st.lists(ROW, max_size=8), st.sampled_from(["null", "deflate"]))
@settings(max_examples=80, deadline=None)
def test_values_are_what_another_writer_meant(rows: list[dict[str, Any]], codec: str) -> None:
    expected = [(*(r[k] for k in "ilsfxyea"), list(r["m"].items()), r["b"], r["n"]) for r in rows]
    assert rows_of(written(rows, codec)) == expected


@given(
    st.lists(st.tuples(LONG, TEXT), max_size=50),
    st.sampled_from(["gzip", "uncompressed", "zstd", "snappy"]),
)
@settings(max_examples=40, deadline=None)
def test_what_we_write_is_read_back_by_us_and_by_others(
    rows: list[tuple[int, str]], codec: str
) -> None:
    schema = b'{"type":"record","name":"p","fields":[{"name":"k","type":"long"},{"name":"v","type":"string"}]}'
    data = container(
        schema, {"kept": b"1"}, [write_long(k) + write_text(v) for k, v in rows], codec
    )
    assert rows_of(data) == rows
    assert read_container(data).metadata == {"kept": b"1"}
    if codec in ("gzip", "uncompressed"):
        assert [(r["k"], r["v"]) for r in fastavro.reader(io.BytesIO(data))] == rows


@given(LONG)
def test_numbers_survive(number: int) -> None:
    assert read_long(write_long(number), 0) == (number, len(write_long(number)))


def test_numbers_of_more_than_64_bits_are_refused() -> None:
    with pytest.raises(InvalidInput):
        write_long(2**63)
    with pytest.raises(CorruptData):
        read_long(b"\xff" * 11 + b"\x00", 0)


def block(codec: str, count: int, packed: bytes) -> bytes:
    sync = b"s" * 16
    return (
        header(
            b'{"type":"record","name":"p","fields":[{"name":"k","type":"long"}]}', {}, codec, sync
        )
        + write_long(count)
        + write_bytes(packed)
        + sync
    )


PACK = {
    "null": lambda d: d, "deflate": lambda d: zlib.compress(d, wbits=-15), "bzip2": bz2.compress, "xz": lzma.compress,
    "zstandard": lambda d: bytes(pa.compress(d, "zstd", asbytes=True)), "snappy": lambda d: bytes(pa.compress(d, "snappy", asbytes=True)) + zlib.crc32(d).to_bytes(4, "big"),
}  # fmt: skip


@pytest.mark.parametrize("codec", PACK)
def test_every_codec_of_avro_is_read(codec: str) -> None:
    assert rows_of(block(codec, 3, PACK[codec](b"\x02\x04\x06"))) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("codec", [c for c in PACK if c != "null"])
def test_bombs_are_refused_within_bounds(codec: str) -> None:
    with pytest.raises(CorruptData):
        rows_of(block(codec, 1, PACK[codec](b"\x00" * (60 << 20))))


@pytest.mark.parametrize("codec", [c for c in PACK if c != "null"])
def test_torn_or_damaged_blocks_are_refused(codec: str) -> None:
    packed = PACK[codec](bytes(range(0, 120, 2)))
    for bad in (b"", packed[: len(packed) // 2], packed[:-1], b"\xff" * len(packed)):
        with pytest.raises(CorruptData):
            rows_of(block(codec, 60, bad))


def test_a_codec_nobody_knows_is_named() -> None:
    with pytest.raises(Unsupported, match="lzo"):
        rows_of(block("lzo", 1, b"\x00"))
    with pytest.raises(Unsupported, match="lzo"):
        container(b'"long"', {}, [], "lzo")


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"[]",
        b"5",
        b'"unheard"',
        b'{"type":"record","name":"r"}',
        b'{"type":"fixed","name":"f","size":-1}',
        b'{"type":"fixed","name":"f","size":9999999999}',
        b'{"type":"enum"}',
        b'{"type":"array"}',
        b'{"type":' * 5000 + b'"int"' + b"}" * 5000,
        b"[[[" * 2000,
    ],
)
def test_schemas_that_are_none_are_refused(schema: bytes) -> None:
    with pytest.raises(CorruptData):
        parse_schema(schema)


def test_records_of_records_of_records_are_refused_quickly() -> None:
    levels: list[Any] = ["long"]
    for n in range(40):
        inner = levels[-1]
        first = {"name": "f0", "type": inner}
        name = inner if isinstance(inner, str) else inner["name"]
        levels.append(
            {
                "type": "record",
                "name": f"r{n}",
                "fields": [first, *({"name": f"f{i}", "type": name} for i in range(1, 10))],
            }
        )
    with pytest.raises(CorruptData, match="more than"):
        parse_schema(json.dumps(levels[-1]).encode())


def test_a_type_that_holds_itself_is_named() -> None:
    with pytest.raises(Unsupported, match="is recursive"):
        parse_schema(b'{"type":"record","name":"r","fields":[{"name":"n","type":["null","r"]}]}')


@pytest.mark.parametrize("items", ['"null"', '"long"', '{"type":"fixed","name":"f","size":0}'])
def test_lists_longer_than_the_file_are_refused_quickly(items: str) -> None:
    sync = b"s" * 16
    schema = f'{{"type":"record","name":"p","fields":[{{"name":"k","type":{{"type":"array","items":{items}}}}}]}}'.encode()
    data = (
        header(schema, {}, "null", sync)
        + write_long(1)
        + write_bytes(write_long(2**60) + b"\x00" * 50)
        + sync
    )
    with pytest.raises(CorruptData):
        rows_of(data)


def test_a_block_that_claims_more_entries_than_it_holds_is_refused() -> None:
    for count in (2, 2**60, -1):
        with pytest.raises(CorruptData):
            rows_of(block("null", count, b"\x02"))
    with pytest.raises(CorruptData, match="more than its entries take"):
        rows_of(block("null", 1, b"\x02\x04"))


@given(st.lists(ROW, min_size=1, max_size=3), st.data())
@settings(max_examples=60, deadline=None)
def test_damage_is_corrupt_data_or_another_value_never_a_raw_error(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    good = bytearray(written(rows))
    good[data.draw(st.integers(0, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = rows_of(bytes(good))
    except (CorruptData, Unsupported):
        return
    assert all(
        isinstance(row, tuple) and len(row) == len(rows_of(written(rows))[0]) for row in found
    )


def test_truncation_anywhere_is_refused() -> None:
    data = written(
        [
            {
                "i": 1,
                "l": 2,
                "s": "x",
                "f": 1.0,
                "x": b"1234",
                "y": None,
                "e": "A",
                "a": [b"1"],
                "m": {"a": 1},
                "b": True,
                "n": None,
            }
        ]
    )
    whole = read_container(data).start + 16  # a header without blocks is an empty file
    for size in range(len(data)):
        if size != whole:
            with pytest.raises(CorruptData):
                rows_of(data[:size])


@pytest.mark.parametrize(
    "name,expected",
    [
        ("a.b", "a_x2Eb"),
        ("1st", "_1st"),
        ("ok_1", "ok_1"),
        ("with space", "with_x20space"),
        ("é", "_xE9"),
        ("\u0661a", "_x661a"),
        ("a😀", "a_xD83D_xDE00"),
        ("", "_"),
    ],
)
def test_names_become_what_java_makes_of_them(name: str, expected: str) -> None:
    assert avro_name(name) == expected


def test_decimals_take_the_bytes_of_the_specification() -> None:
    most = {
        1: 2,
        2: 4,
        3: 6,
        4: 9,
        5: 11,
        6: 14,
        7: 16,
        8: 18,
        9: 21,
        10: 23,
        11: 26,
        12: 28,
        13: 31,
        14: 33,
        15: 35,
        16: 38,
    }
    assert [decimal_size(p) for p in range(1, 39)] == [
        next(n for n, last in most.items() if p <= last) for p in range(1, 39)
    ]
