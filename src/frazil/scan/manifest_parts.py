"""Read the entries of a manifest in parts, for work on all files of a table whose memory must not
grow with the size of its manifests.

Paths compress well: a manifest of 4 MB may name a million files, whose entries take 700 MB while
they are decoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from frazil.codec.avro import Container, read_container
from frazil.codec.guard import reading
from frazil.codec.manifest import decode_manifest
from frazil.scan.manifests import each, manifest_bytes, read_manifest
from frazil.spec.manifest import ManifestFile
from frazil.storage import Storage

ENTRIES = 50_000
"""Entries that are decoded at once."""
_SMALL = 1 << 16  # bytes of a manifest whose entries are not counted in the list


def is_large(manifest: ManifestFile) -> bool:
    """Tell whether a manifest may hold more entries than are decoded at once."""
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    if any(n is None for n in counts):
        return manifest.manifest_length > _SMALL
    return sum(n or 0 for n in counts) > ENTRIES


def read_in_parts(
    storage: Storage, manifest: ManifestFile, columns: Collection[str], workers: int = 1
) -> Iterator[pa.Table]:
    """Yield the entries of a manifest, DELETED ones included, in one or more tables. `columns`: not
    `first_row_id`, which depends on all entries. A few parts are decoded at the same time by
    `workers` threads. Raises as `read_manifest` does."""
    if not is_large(manifest):
        yield read_manifest(storage, manifest, columns, keep=False)
        return
    file, data = manifest.manifest_path, manifest_bytes(storage, manifest)
    with reading("manifest", file):
        container = read_container(data, file)
        blocks = [count for count, _, _ in container.spans]

    def decoded(numbers: range) -> pa.Table:
        part: tuple[Container, None] = (container.part(numbers), None)
        return decode_manifest(data, manifest, columns=columns, choose=lambda _: part)

    yield from each(decoded, _cut(blocks), workers)


def _cut(blocks: list[int]) -> list[range]:
    """Cut blocks into runs of about as many entries as are decoded at once; one run where there are
    no blocks.
    """
    runs, begin, held = [], 0, 0
    for number, count in enumerate(blocks):
        if number > begin and held + count > ENTRIES:
            runs.append(range(begin, number))
            begin, held = number, 0
        held += count
    return [*runs, range(begin, len(blocks))]
