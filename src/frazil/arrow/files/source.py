"""What every format's reader offers: columns of an opened file, its pieces, and batches of the columns a plan asks for."""

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

RawBatch = tuple[Sequence[pa.Array], int, int]  # columns as the plan lists them in `fields`, rows, position of the first row in the file


@dataclass(frozen=True)
class Piece:
    """A part of a file that is read on its own (a row group): number, position of its first row, rows (-1: not known before it is read).

    `all_match`: the filter is TRUE for all of its rows.
    """

    number: int
    first_row: int
    rows: int
    all_match: bool = False


class FileReader(Protocol):
    @property
    def prunes_leaves(self) -> bool:
        """Leaves inside a column can be left out; else columns come whole."""

    def file_schema(self, mapping: NameMapping | None) -> FileSchema | None: ...

    def pieces(self, start: int, length: int | None) -> list[Piece]:
        """Those that begin in [start, start + length); length None: all."""

    def prune(
        self, pieces: Sequence[Piece], fields: Sequence[FileField], bound: Bound, schema: Schema, constants: Mapping[int, Any]
    ) -> list[Piece]:
        """Without those that hold no row to keep."""

    def read(self, piece: Piece, plan: ColumnsPlan, batch_size: int, threads: bool) -> Iterator[RawBatch]: ...

    def bytes_of(self, piece: Piece, plan: ColumnsPlan) -> int:
        """About how many bytes reading those columns costs; 0: not known."""
