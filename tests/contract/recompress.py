"""Avro containers with another codec, made without any Avro library that would have to know it."""

from __future__ import annotations

import zlib

import pyarrow as pa


def _long(data: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if not byte & 128:
            return (value >> 1) ^ -(value & 1), at


def _zigzag(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    return data[at : at + size], at + size


def _header(data: bytes) -> tuple[dict[bytes, bytes], int]:
    meta: dict[bytes, bytes] = {}
    at = 4
    while True:
        count, at = _long(data, at)
        if count == 0:
            return meta, at
        if count < 0:
            count, (_, at) = -count, _long(data, at)
        for _ in range(count):
            key, at = _text(data, at)
            meta[key], at = _text(data, at)


def recompressed(data: bytes, codec: str) -> bytes:
    """The same container (null or deflate) with `codec`: null, deflate, snappy or zstandard."""
    meta, at = _header(data)
    sync, at, old = data[at : at + 16], at + 16, meta.get(b"avro.codec", b"null")
    blocks = []
    while at < len(data):
        count, at = _long(data, at)
        block, at = _text(data, at)
        at += 16
        blocks.append((count, zlib.decompress(block, -15) if old == b"deflate" else block))
    meta[b"avro.codec"] = codec.encode()
    pairs = b"".join(_zigzag(len(k)) + k + _zigzag(len(v)) + v for k, v in meta.items())
    head = b"Obj\x01" + _zigzag(len(meta)) + pairs + b"\x00" + sync
    return head + b"".join(
        _zigzag(n) + _zigzag(len(p)) + p + sync
        for n, p in ((n, _pack(b, codec)) for n, b in blocks)
    )


def _pack(block: bytes, codec: str) -> bytes:
    match codec:
        case "null":
            return block
        case "deflate":
            packer = zlib.compressobj(wbits=-15)
            return packer.compress(block) + packer.flush()
        case "snappy":
            return pa.compress(block, codec="snappy", asbytes=True) + zlib.crc32(block).to_bytes(
                4, "big"
            )
        case "zstandard":
            return pa.compress(block, codec="zstd", asbytes=True)
    raise ValueError(codec)
