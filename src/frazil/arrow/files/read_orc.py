"""Read ORC data files stripe by stripe.

Where stripes begin is not known before the file is opened, so of the tasks that share a file the
one that begins at 0 reads all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import orc

from frazil.arrow.files.file_schema import FileField, FileSchema, file_schema
from frazil.arrow.files.project import ColumnsPlan
from frazil.arrow.files.source import Piece, RawBatch
from frazil.arrow.footers.orc_footer import check_types
from frazil.errors import CorruptData, Unsupported
from frazil.expr.bound import Bound
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.storage.base import Storage
from frazil.storage.local import regular_path


@dataclass(frozen=True)
class OrcSource:
    """Read an ORC data file, which is one piece: pyarrow shows no statistics of stripes to prune
    by.
    """

    file: orc.ORCFile
    name: str

    @classmethod
    def open(cls, file: DataFile, storage: Storage) -> OrcSource:
        path = storage.local_path(file.file_path)
        source = (
            pa.OSFile(regular_path(path))
            if path is not None
            else storage.open_input(file.file_path)
        )
        check_types(source, file.file_path)
        return cls(orc.ORCFile(source), file.file_path)

    @property
    def prunes_leaves(self) -> bool:
        return False

    def file_schema(self, mapping: NameMapping | None) -> FileSchema | None:
        return file_schema(self.file.schema, mapping)

    def pieces(self, start: int, length: int | None) -> list[Piece]:
        return [Piece(0, 0, self.file.nrows)] if start == 0 else []

    def prune(
        self,
        pieces: Sequence[Piece],
        fields: Sequence[FileField],
        bound: Bound,
        schema: Schema,
        constants: Mapping[int, Any],
    ) -> list[Piece]:
        return list(pieces)

    def read(
        self, piece: Piece, plan: ColumnsPlan, batch_size: int, threads: bool
    ) -> Iterator[RawBatch]:
        if not plan.fields:
            for start in range(0, piece.rows, batch_size):
                yield (), min(batch_size, piece.rows - start), start
            return
        schema = self.file.schema
        names = [schema.field(i).name for i in plan.fields]
        plain = not any(
            "." in n for n in schema.names
        )  # pyarrow takes a dot in a name as a step into a struct: read those files whole
        done = 0
        for number in range(self.file.nstripes):
            stripe = self._stripe(number, names if plain else None)
            if plain and stripe.schema.names != names:
                raise CorruptData(
                    f"Stripe {number} holds the columns {stripe.schema.names}, not {names}."
                )
            for start in range(0, stripe.num_rows, batch_size):
                part = stripe.slice(start, batch_size)
                yield (
                    part.columns if plain else [part.column(i) for i in plan.fields],
                    part.num_rows,
                    done + start,
                )
            done += stripe.num_rows
        if done != piece.rows:
            raise CorruptData(f"The stripes hold {done} rows, the footer says {piece.rows}.")

    def _stripe(self, number: int, columns: list[str] | None) -> pa.RecordBatch:
        try:
            return self.file.read_stripe(number, columns=columns)
        except pa.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):
                raise
            raise Unsupported(
                f"{self.name} holds timestamps before 1677 or after 2262, which pyarrow's ORC reader cannot represent.",
                file=self.name,
            ) from error

    def bytes_of(self, piece: Piece, plan: ColumnsPlan) -> int:
        return 0
