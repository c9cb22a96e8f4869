"""Write the deletion vectors of data files to one Puffin file (v3; spec, "Deletion Vectors")."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.arrow.deletes.write_deletes import FileDeletes, checked
from frazil.arrow.write.write_context import WriteContext
from frazil.codec.deletion_vector import positions_bitmap, vector_blob
from frazil.codec.puffin import Blob, encode_puffin
from frazil.errors import Unsupported
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.version import VERSION
from frazil.storage.locations import data_location

CREATED_BY = f"Frazil {VERSION}"


def write_vectors(
    deletes: Iterable[FileDeletes], context: WriteContext, *, first: int = 1
) -> list[DataFile]:
    """Write one durable Puffin file with a vector per data file; no file when there are no
    positions. `first`: the number in its name.

    A data file has at most one vector, so the positions must be all that is deleted from it: the
    caller has merged them with its earlier vector and position deletes, which the commit then
    removes. Raises Unsupported for tables before v3, InvalidInput for positions that a file does
    not have.
    """
    if context.format_version < 3:
        text = f"Deletion vectors need format version 3 or later; {context.location} has version {context.format_version}."
        raise Unsupported(text, table=context.location)
    blobs: list[tuple[DataFile, Blob, int]] = []
    for file, positions in checked(deletes):
        blobs.append(
            (file, vector_blob(positions_bitmap(positions), file.file_path), len(positions))
        )
    if not blobs:
        return []
    data, placed, _ = encode_puffin([b for _, b, _ in blobs], {"created-by": CREATED_BY})
    name = context.delete_name(first, "puffin")
    location = data_location(context.location, context.properties, "", name)
    with context.storage.open_output(location) as sink:
        sink.write(data)
    return [
        DataFile(
            content=int(DataFileContent.POSITION_DELETES),
            file_path=location,
            file_format="puffin",
            partition=file.partition,
            spec_id=file.spec_id,
            record_count=count,
            file_size_in_bytes=len(data),
            referenced_data_file=file.file_path,
            content_offset=place.offset,
            content_size_in_bytes=place.length,
        )
        for (file, _, count), place in zip(blobs, placed, strict=True)
    ]


__all__ = ["CREATED_BY", "write_vectors"]
