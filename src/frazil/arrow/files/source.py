"""Define the protocol that the reader of each file format implements: columns of an opened file,
its pieces, and batches of columns. A damaged file raises CorruptData that names it, a missing one
NoSuchFileError.
"""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from frazil.arrow.files.project import ColumnsPlan, FileField, FileSchema
from frazil.errors import CorruptData, FrazilError, NoSuchFileError
from frazil.expr.bound import Bound
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.storage.base import system_error

# columns in the order of the plan's `fields`, number of rows, position of the first row
RawBatch = tuple[Sequence[pa.Array], int, int]


@dataclass(frozen=True)
class Piece:
    """Hold a part of a file that is read on its own (a row group): its number, the position of its
    first row, its number of rows.

    `rows` is -1 where it is not known before the piece is read. `all_match`: the filter is TRUE for
    all of its rows.
    """

    number: int
    first_row: int
    rows: int
    all_match: bool = False


class FileReader(Protocol):
    """Read one opened data file of some format."""

    @property
    def prunes_leaves(self) -> bool:
        """Tell whether leaves inside a column can be left out; otherwise columns are read whole."""

    def file_schema(self, mapping: NameMapping | None, columns: Schema) -> FileSchema:
        """Return the file's columns with field ids: its own, else those of the name mapping; where
        there is none, as Java gives them: by position (Parquet), or by the names of `columns` (ORC,
        Avro).
        """

    def pieces(self, start: int, length: int | None) -> list[Piece]:
        """List the pieces that begin in [start, start + length); length None: all."""

    def prune(
        self,
        pieces: Sequence[Piece],
        fields: Sequence[FileField],
        bound: Bound,
        schema: Schema,
        constants: Mapping[int, Any],
    ) -> list[Piece]:
        """Drop the pieces that hold no row for which the filter is true."""

    def read(
        self, piece: Piece, plan: ColumnsPlan, batch_size: int, threads: bool
    ) -> Iterator[RawBatch]:
        """Read the columns that a plan needs of a piece. Raises CorruptData when the piece has
        other columns or rows than it claims.
        """

    def bytes_of(self, piece: Piece, plan: ColumnsPlan) -> int:
        """Estimate how many bytes are read for those columns; 0: not known."""


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

# failures of an object store, for which Arrow gives no errno
_STORE = re.compile(r"AWS Error|google::cloud|Azure|curlCode")


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
