"""Read deletion vectors from Puffin files, and check them against the file's footer (spec,
"Deletion Vectors").

A vector carries a checksum, but not the name of its data file: if a manifest has swapped the
offsets of two vectors, both checksums are right, and only the footer shows that each vector belongs
to the other data file. The footer is read once per Puffin file and scan task, never while planning.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap64

from frazil.codec.deletion_vector import BLOB_TYPE, VectorPlace, decode_vector, decode_vector_places
from frazil.codec.guard import reading
from frazil.codec.puffin import footer_size
from frazil.errors import CorruptData
from frazil.storage import Storage, normalise
from frazil.storage.base import translated_errors
from frazil.storage.locations import base_name

# bytes at the end of the file that are read at once: usually the whole footer, often the whole file
_TAIL = 128 * 1024
_PLACE_BYTES = 500  # estimated memory per blob of the footer


@dataclass(frozen=True, eq=False)
class VectorFile:
    """Hold the footer of a Puffin file of deletion vectors (its blobs by offset) and the last bytes
    of the file, from `start` on.
    """

    path: str
    places: dict[int, VectorPlace]
    tail: bytes
    start: int

    @classmethod
    def read(
        cls, path: str, storage: Storage, place: tuple[int | None, int | None] = (None, None)
    ) -> VectorFile:
        """Read the footer of a Puffin file. `place`: offset and length of a vector that is wanted.
        Raises CorruptData, Unsupported, NoSuchFileError, StorageError."""
        with translated_errors(path, "read"), storage.open_input(path) as source:
            size = source.size()
            if sum(n or 0 for n in place) > size:
                raise _ends_after(path, place[0] or 0)
            begin = max(0, size - _TAIL)
            tail = bytes(source.read_at(size - begin, begin))
            with reading("Puffin file", path):
                missing = min(size, footer_size(tail)) - len(tail)
            if missing > 0:
                tail, begin = (
                    bytes(source.read_at(missing, begin - missing)) + tail,
                    begin - missing,
                )
        places = decode_vector_places(tail, path)
        return cls(path, places, b"" if begin else tail, size if begin else 0)

    @property
    def nbytes(self) -> int:
        return len(self.tail) + _PLACE_BYTES * (1 + len(self.places))

    def vector(
        self, offset: int | None, length: int | None, count: int, data_file: str, storage: Storage
    ) -> BitMap64:
        """Read the vector that a manifest places at this offset: `count` positions of `data_file`.
        Raises CorruptData where the footer or the vector differs from the manifest."""
        if offset is None or length is None or offset < 0 or length < 0:
            raise CorruptData(
                f"The deletion vector in {self.path} has no valid offset and length in its manifest.",
                file=self.path,
            )
        place = self.places.get(offset)
        named = place.properties.referenced_data_file if place is not None else None
        if named is not None and not self._is_same(named, data_file):
            raise self._differs(
                offset, f"the deletion vector of {data_file}", f"that of {named}", data_file
            )
        bitmap = decode_vector(self._bytes(offset, length, storage), self.path)
        if len(bitmap) != count:
            text = f"The deletion vector at offset {offset} of {self.path} holds {len(bitmap)} positions, its manifest says {count}."
            raise CorruptData(text, file=self.path, offset=offset)
        if place is None or place.type != BLOB_TYPE:
            kind = "nothing" if place is None else f"a blob of type {place.type[:40]}"
            raise self._differs(offset, "a deletion vector", kind, data_file)
        if place.length != length:
            raise self._differs(
                offset, f"a deletion vector of {length} bytes", f"one of {place.length}", data_file
            )
        if (cardinality := place.properties.cardinality) not in (None, str(count)):
            raise self._differs(
                offset,
                f"a deletion vector of {count} positions",
                f"one of {str(cardinality)[:40]}",
                data_file,
            )
        return bitmap

    def _bytes(self, offset: int, length: int, storage: Storage) -> bytes:
        if self.start <= offset:
            data = self.tail[offset - self.start : offset - self.start + length]
        else:
            with translated_errors(self.path, "read"), storage.open_input(self.path) as source:
                data = (
                    bytes(source.read_at(length, offset))
                    if offset + length <= source.size()
                    else b""
                )
        if len(data) < length:
            raise _ends_after(self.path, offset)
        return data

    def _is_same(self, named: str, data_file: str) -> bool:
        """Tell whether two paths are one data file, also after a table was moved and its manifests,
        but not its Puffin files, rewritten.
        """
        if named == data_file or normalise(named) == normalise(data_file):
            return True
        referenced_files = {p.properties.referenced_data_file for p in self.places.values()}
        return base_name(named) == base_name(data_file) and data_file not in referenced_files

    def _differs(self, offset: int, manifest: str, footer: str, data_file: str) -> CorruptData:
        return CorruptData(
            f"A manifest places {manifest} at offset {offset} of {self.path}; the footer of that file says {footer}.",
            hint="Read a snapshot from before that vector was added, or roll the table back to it.",
            file=self.path,
            offset=offset,
            data_file=data_file,
        )


def _ends_after(path: str, offset: int) -> CorruptData:
    return CorruptData(
        f"The deletion vector at offset {offset} of {path} ends after the end of the file.",
        file=path,
        offset=offset,
    )
