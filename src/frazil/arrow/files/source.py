"""Define the protocol that the reader of each file format implements: columns of an opened file,
its pieces, and batches of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from frazil.arrow.files.file_schema import FileField, FileSchema
from frazil.arrow.files.project import ColumnsPlan
from frazil.expr.bound import Bound
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema

RawBatch = tuple[
    Sequence[pa.Array], int, int
]  # columns in the order of the plan's `fields`, number of rows, position of the first row


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

    def file_schema(self, mapping: NameMapping | None) -> FileSchema | None: ...

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
