"""Errors of the libraries that read data files, as ours: a damaged file is CorruptData that names it, a missing one NoSuchFileError."""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Iterator

import pyarrow as pa

from frazil.errors import CorruptData, FrazilError, NoSuchFileError
from frazil.storage.base import system_error

_DAMAGE = (pa.ArrowException, ValueError, KeyError, IndexError, EOFError, struct.error, zlib.error, OverflowError, RecursionError)

_STORE = re.compile(r"AWS Error|google::cloud|Azure|curlCode")  # an object store failed, of which Arrow gives no number


@contextlib.contextmanager
def reading(file: str, kind: str) -> Iterator[None]:
    """Around everything that parses `file`; `kind` is parquet, orc or avro, for the message."""
    try:
        yield
    except FrazilError as error:
        if isinstance(error, CorruptData) and "file" not in error.facts:
            raise CorruptData(f"{error.message} File: {file}", hint=error.hint, file=file, **error.facts) from error
        raise
    except FileNotFoundError as error:
        raise NoSuchFileError(f"There is no file {file}.", file=file) from error
    except OSError as error:
        if error.errno is not None or _STORE.search(str(error)):
            raise system_error(error, file, "read") from error
        raise CorruptData(f"{file} is no sound {kind} file: {_first(error)}", file=file) from error
    except _DAMAGE as error:
        raise CorruptData(f"{file} is no sound {kind} file: {_first(error)}", file=file) from error


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]
