"""One place where whatever damaged bytes cause becomes CorruptData with the file's name."""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from frazil.errors import CorruptData, FrazilError, Unsupported

_SYMPTOMS = (  # decoding does no I/O: an OSError comes from a decompressor
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, EOFError, OSError, NotImplementedError,
    struct.error, zlib.error, lzma.LZMAError, msgspec.MsgspecError,
)  # fmt: skip


@contextmanager
def reading(what: str, file: str = "") -> Iterator[None]:
    """Inside, any sign of damage is raised as CorruptData naming `what` and `file`; Unsupported passes, with the file added."""
    try:
        yield
    except (CorruptData, Unsupported) as e:
        if not file or "file" in e.facts:
            raise
        message = e.message if file in e.message else f"{e.message.rstrip('.')} (in {file})."
        raise type(e)(message, hint=e.hint, **{**e.facts, "file": file}) from e
    except FrazilError as e:
        raise CorruptData(f"Cannot read {_named(what, file)}: {e.message}", hint=e.hint, **{**e.facts, "file": file or None}) from e
    except _SYMPTOMS as e:
        raise CorruptData(f"Cannot read {_named(what, file)}: {type(e).__name__}: {str(e)[:300]}", file=file or None) from e


def _named(what: str, file: str) -> str:
    return f"{what} {file}" if file else what


def inflate(data: bytes | memoryview, wbits: int, limit: int) -> bytes:
    """Decompressed deflate (wbits -15) or gzip (31) data of at most `limit` bytes. Raises CorruptData for a bomb or a torn end."""
    out, rest = [], bytes(data) if wbits == 31 else data
    while True:
        stream = zlib.decompressobj(wbits)
        part = stream.decompress(rest, limit + 1)
        out.append(part)
        limit -= len(part)
        if limit < 0:
            raise CorruptData("Compressed data is far larger than its size allows.", hint="The file is damaged or hostile.")
        if not stream.eof:
            raise CorruptData("Compressed data ends early.")
        rest = stream.unused_data
        if wbits != 31 or not rest.startswith(b"\x1f\x8b"):  # gzip files may have several members
            return b"".join(out) if len(out) > 1 else out[0]
