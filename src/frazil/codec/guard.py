"""Turn whatever damaged bytes cause into CorruptData with the file's name, and decompress within
bounds.
"""

from __future__ import annotations

import errno
import lzma
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from frazil.errors import CorruptData, FrazilError, NoSuchFileError, StorageError, Unsupported

HELD = 1 << 26  # decompressed bytes that are held before the size of the whole is known
_PIECE = 1 << 16
_SYMPTOMS = (  # decoding does no I/O, so an OSError comes from a decompressor as a rule
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, EOFError, OSError, NotImplementedError,
    struct.error, zlib.error, lzma.LZMAError, msgspec.MsgspecError,
)  # fmt: skip


@contextmanager
def reading(noun: str, file: str = "") -> Iterator[None]:
    """Wrap decoding: any sign of damage inside is raised as CorruptData that names `noun` and
    `file`; Unsupported passes, with the file.
    """
    try:
        yield
    except (CorruptData, Unsupported) as e:
        if not file or "file" in e.facts:
            raise
        message = e.message if file in e.message else f"{e.message.rstrip('.')} (in {file})."
        raise type(e)(message, hint=e.hint, **{**e.facts, "file": file}) from e
    except (StorageError, NoSuchFileError):
        raise
    except FrazilError as e:
        raise CorruptData(
            f"Cannot read {_named(noun, file)}: {e.message}",
            hint=e.hint,
            **{**e.facts, "file": file or None},
        ) from e
    except _SYMPTOMS as e:
        if isinstance(e, OSError) and e.errno is not None:
            # an error of the operating system: decompressors give no errno
            text = f"Could not read {_named(noun, file)}: {e.strerror or e}."
            raise StorageError(text, file=file or None, errno=errno.errorcode.get(e.errno)) from e
        raise CorruptData(
            f"Cannot read {_named(noun, file)}: {type(e).__name__}: {str(e)[:300]}",
            file=file or None,
        ) from e


def _named(noun: str, file: str) -> str:
    return f"{noun} {file}" if file else noun


def inflate(data: bytes | memoryview, wbits: int, limit: int) -> bytes:
    """Decompress deflate (wbits -15) or gzip (31) data to at most `limit` bytes. Raises CorruptData
    beyond it or when the end is missing.

    At most `HELD` bytes are held before it is known that the whole stays below the limit: larger
    data is counted first, piece by piece.
    """
    if limit > HELD:
        try:
            return _inflated(data, wbits, HELD)
        except _TooLarge:
            _count(data, wbits, limit)
    return _inflated(data, wbits, limit)


class _TooLarge(CorruptData):
    pass


def _bomb() -> _TooLarge:
    return _TooLarge(
        "Compressed data is far larger than its size allows.",
        hint="The file is damaged or hostile.",
    )


def _inflated(data: bytes | memoryview, wbits: int, limit: int) -> bytes:
    out, rest = [], bytes(data) if wbits == 31 else data
    while True:
        stream = zlib.decompressobj(wbits)
        part = stream.decompress(rest, limit + 1)
        out.append(part)
        limit -= len(part)
        if limit < 0:
            raise _bomb()
        if not stream.eof:
            raise CorruptData("Compressed data ends early.")
        rest = stream.unused_data
        if not _goes_on(rest, wbits):
            return b"".join(out) if len(out) > 1 else out[0]


def _count(data: bytes | memoryview, wbits: int, limit: int) -> None:
    """Decompress piece by piece without keeping any. Raises CorruptData beyond the limit; other
    damage is found when the data is read.
    """
    view, offset = memoryview(data), 0
    stream = zlib.decompressobj(wbits)
    while offset < len(view):
        piece: bytes | memoryview = view[offset : offset + _PIECE]
        offset += len(piece)
        while piece and not stream.eof:
            limit -= len(stream.decompress(piece, 16 * _PIECE))
            if limit < 0:
                raise _bomb()
            piece = stream.unconsumed_tail
        if stream.eof:
            offset -= len(stream.unused_data)
            if not _goes_on(view[offset:], wbits):
                return
            stream = zlib.decompressobj(wbits)


def _goes_on(rest: bytes | memoryview, wbits: int) -> bool:
    """Tell whether another member of a gzip file follows."""
    return wbits == 31 and bytes(rest[:2]) == b"\x1f\x8b"
