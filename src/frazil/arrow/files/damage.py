"""Translate the errors of libraries that read data files: a damaged file raises CorruptData that
names it, a missing NoSuchFileError.
"""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Iterator

import pyarrow as pa

from frazil.errors import CorruptData, FrazilError, NoSuchFileError
from frazil.storage.base import system_error

_DAMAGE = (
    pa.ArrowException,
    ValueError,
    KeyError,
    IndexError,
    EOFError,
    struct.error,
    zlib.error,
    OverflowError,
    RecursionError,
)

_STORE = re.compile(
    r"AWS Error|google::cloud|Azure|curlCode"
)  # failures of an object store, for which Arrow gives no errno


@contextlib.contextmanager
def reading(file: str, kind: str) -> Iterator[None]:
    """Wrap everything that parses `file`, and raise its errors as Frazil's; `kind` is parquet, orc
    or avro, for the message.
    """
    try:
        yield
    except FrazilError as error:
        if isinstance(error, CorruptData) and "file" not in error.facts:
            raise CorruptData(
                f"{error.message} File: {file}", hint=error.hint, file=file, **error.facts
            ) from error
        raise
    except FileNotFoundError as error:
        raise NoSuchFileError(f"There is no file {file}.", file=file) from error
    except OSError as error:
        if error.errno is not None or _STORE.search(str(error)):
            raise system_error(error, file, "read") from error
        raise CorruptData(
            f"{file} is not a valid {kind} file: {_first(error)}", file=file
        ) from error
    except _DAMAGE as error:
        raise CorruptData(
            f"{file} is not a valid {kind} file: {_first(error)}", file=file
        ) from error


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]
