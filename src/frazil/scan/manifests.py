"""Read manifest lists and manifests from storage, through one bounded cache (spec, "Manifests",
"Manifest Lists").

Work on all files of a table reads large manifests in parts (`read_in_parts`), so that its memory
does not grow with their size. Paths compress well: a manifest of 4 MB may name a million files,
whose entries take 700 MB while they are decoded.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from frazil.codec.avro import Container, read_container
from frazil.codec.guard import reading
from frazil.codec.manifest import decode_manifest, decode_manifests
from frazil.codec.manifest_list import decode_manifest_list
from frazil.errors import CorruptData, Unsupported
from frazil.expr.building import from_numpy, to_numpy
from frazil.scan.options import workers_are_given
from frazil.spec.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import REMOTE_SCHEMES, Storage, read_whole
from frazil.storage.locations import scheme_of

DEFAULT_CACHE_BYTES = 96 * 1024 * 1024


class ByteCache:
    """Cache values up to `max_bytes` in total; safe to share among threads. A value larger than a
    quarter of the cache is not kept.
    """

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES):
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> Any | None:
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item[0]

    def put(self, key: Hashable, value: object, size: int) -> None:
        with self._lock:
            old = self._items.pop(key, None)
            self._bytes -= old[1] if old else 0
            if size * 4 > self.max_bytes:
                return
            self._items[key] = (value, size)
            self._bytes += size
            while self._bytes > self.max_bytes:
                _, (_, gone) = self._items.popitem(last=False)
                self._bytes -= gone

    def drop(self, key: Hashable) -> None:
        with self._lock:
            if (item := self._items.pop(key, None)) is not None:
                self._bytes -= item[1]

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of the values that are kept."""
        return self._bytes


T = TypeVar("T")
R = TypeVar("R")

manifest_cache = ByteCache()

ENTRY = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
FILE = ("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes")
READ = ("split_offsets", "sort_order_id", "first_row_id", "key_metadata")
DELETE = ("equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes")
SIZES = ("column_sizes",)
BOUNDS = ("lower_bounds", "upper_bounds")
STATISTICS = ("value_counts", "null_value_counts", "nan_value_counts", *BOUNDS)
# what nearly all files are pruned by
PRUNED_BY = (
    *ENTRY,
    "partition",
    "record_count",
    "first_row_id",
    *BOUNDS,
)
PLAN_COLUMNS = (*ENTRY, *FILE, *READ)
# manifests that are decoded together, and their bytes: more of them are hardly faster
_PACK, _PACK_BYTES = (
    64,
    1 << 20,
)
# threads that wait for a store, and bytes of manifests that they read at once
_WAITING, _AT_ONCE_BYTES = (
    16,
    64 << 20,
)
_SMALL = 24 << 10  # bytes of a manifest
ALL_COLUMNS = (*PLAN_COLUMNS, *DELETE, *SIZES, *STATISTICS)


# a list of a million manifests has 100 MB, an entry some 200 bytes
LONGEST_LIST, LONGEST_MANIFEST = (
    1 << 28,
    1 << 31,
)
_LONGER = 1 << 24


def clear_caches() -> None:
    """Drop all cached manifests and manifest lists."""
    manifest_cache.clear()


def manifests_of(
    metadata: TableMetadata, snapshot: Snapshot, storage: Storage, *, keep: bool = True
) -> tuple[ManifestFile, ...]:
    """Read the manifest list of a snapshot, in its order. Raises CorruptData, NoSuchFileError, and
    Unsupported for encrypted tables.

    `keep=False`: a list that is read does not go into the cache.
    """
    if snapshot.key_id is not None:
        raise _encrypted(metadata, snapshot, "manifest list", snapshot.manifest_list)
    if snapshot.manifest_list is None:
        return tuple(
            _inline_manifest(path, snapshot, metadata, storage) for path in snapshot.manifests or ()
        )
    key = ("list", snapshot.manifest_list)
    manifests: tuple[ManifestFile, ...] | None = manifest_cache.get(key)
    if manifests is None:
        data = read_whole(storage, snapshot.manifest_list, LONGEST_LIST, "manifest list")
        manifests = decode_manifest_list(data, snapshot.manifest_list)
        _refuse_torn(manifests, snapshot)
        if keep:
            keep_list(snapshot.manifest_list, manifests, len(data))
    for manifest in manifests:
        if manifest.key_metadata is not None:
            raise _encrypted(metadata, snapshot, "manifest", manifest.manifest_path)
    return manifests


def keep_list(
    location: str, manifests: tuple[ManifestFile, ...], length: int, in_place_of: str | None = None
) -> None:
    """Keep the manifests of a list of `length` bytes in the cache. The commit that wrote a list
    keeps it, too, so that the next one need not read it, in place of its parent's: few readers ask
    for that afterwards, and the cache would fill with the lists of a process that commits often.
    """
    manifest_cache.drop(("list", in_place_of))
    manifest_cache.put(("list", location), manifests, 8 * length + 1000)


def _refuse_torn(manifests: tuple[ManifestFile, ...], snapshot: Snapshot) -> None:
    """Raise CorruptData for a manifest list that was cut off right after its header: it reads as
    empty, but the snapshot summary counts files."""
    totals = {
        name: snapshot.summary.get(name, "0") for name in ("total-data-files", "total-delete-files")
    }
    if not manifests and any(text.isdigit() and int(text) for text in totals.values()):
        text = f"Manifest list {snapshot.manifest_list} is empty, but its snapshot counts {totals['total-data-files']} data files."
        raise CorruptData(text, file=snapshot.manifest_list, snapshot_id=snapshot.snapshot_id)


def _encrypted(
    metadata: TableMetadata, snapshot: Snapshot, noun: str, file: str | None
) -> Unsupported:
    return Unsupported(
        f"Table {metadata.location} is encrypted ({noun} {file}); encrypted tables are not supported.",
        table=metadata.location,
        snapshot_id=snapshot.snapshot_id,
        file=file,
    )


def _inline_manifest(
    path: str, snapshot: Snapshot, metadata: TableMetadata, storage: Storage
) -> ManifestFile:
    """Describe a manifest that a v1 snapshot names without a manifest list: its spec is in its
    header, its counts are unknown, its sequence number is 0."""
    key = ("inline", path, snapshot.snapshot_id)
    manifest: ManifestFile | None = manifest_cache.get(key)
    if manifest is None:
        data = read_whole(storage, path, LONGEST_MANIFEST, "manifest")
        manifest = ManifestFile(
            manifest_path=path,
            manifest_length=len(data),
            partition_spec_id=_header_spec(data, path, metadata),
            added_snapshot_id=snapshot.snapshot_id,
            sequence_number=0,
            min_sequence_number=0,
        )
        manifest_cache.put(key, manifest, 1000)
    return manifest


def _header_spec(data: bytes, path: str, metadata: TableMetadata) -> int:
    text = read_container(data, path).metadata.get("partition-spec-id", b"0")
    if not text.isdigit():
        raise CorruptData(
            f"The header of manifest {path} has no valid partition-spec-id.", file=path
        )
    metadata.spec_by_id(int(text))
    return int(text)


def read_manifest(
    storage: Storage,
    manifest: ManifestFile,
    columns: Collection[str] | None = None,
    *,
    keep: bool = True,
    data: bytes | None = None,
) -> pa.Table:
    """Read the entries of a manifest, one per row, DELETED ones included, with sequence numbers
    inherited; `columns` None: all columns. `data`: the bytes of the manifest, where the caller has
    them.

    `keep=False`: the entries do not go into the cache. Callers that read all columns of every
    manifest would only evict everything else.
    """
    wanted = ALL_COLUMNS if columns is None else tuple(columns)
    selected = frozenset(wanted)
    key = _key(manifest)
    cached: pa.Table | None = manifest_cache.get(key)
    if cached is not None:
        have = set(cached.column_names)
        if have.issuperset(selected):
            return cached.select([c for c in cached.column_names if c in selected])
        table = _with(
            cached,
            _decoded(storage, manifest, tuple(c for c in wanted if c not in have), data),
            manifest,
        )
    else:
        table = _decoded(storage, manifest, wanted, data)
    if keep:
        manifest_cache.put(key, table, table.nbytes + 4000)
    return (
        table if columns is None else table.select([c for c in table.column_names if c in selected])
    )


def _decoded(
    storage: Storage, manifest: ManifestFile, columns: Collection[str], data: bytes | None
) -> pa.Table:
    return decode_manifest(
        manifest_bytes(storage, manifest) if data is None else data, manifest, columns=columns
    )


def manifest_bytes(storage: Storage, manifest: ManifestFile) -> bytes:
    """Read the bytes of a manifest. Raises CorruptData where it is far longer than its list tells.

    A somewhat different length is no damage: Java's rewrite_table_path gives the manifests of a
    copy the lengths of the originals.
    """
    most = min(LONGEST_MANIFEST, _LONGER + 2 * manifest.manifest_length)
    return read_whole(storage, manifest.manifest_path, most, "manifest")


def packs_of(
    manifests: Iterable[ManifestFile], most: int = _PACK, size: int = _PACK_BYTES
) -> list[list[ManifestFile]]:
    """Group neighbouring manifests of one spec to be read together: at most `most` of them, of
    about `size` bytes in all.
    """
    packs: list[list[ManifestFile]] = []
    room = 0
    for manifest in manifests:
        fits = (
            bool(packs)
            and packs[-1][0].partition_spec_id == manifest.partition_spec_id
            and room >= manifest.manifest_length
        )
        if not fits or len(packs[-1]) == most:
            packs.append([])
            room = size
        packs[-1].append(manifest)
        room -= manifest.manifest_length
    return packs


def packs_for(
    manifests: Sequence[ManifestFile], threads: int, most: int = _PACK, size: int = _PACK_BYTES
) -> list[list[ManifestFile]]:
    """Group manifests as `packs_of` does, but so that every thread has some where a store is waited
    for: the manifests of a pack are read one after the other."""
    packs = packs_of(manifests, most, size)
    return (
        packs_of(manifests, -(-len(manifests) // threads), size)
        if are_remote(manifests) and len(packs) < threads
        else packs
    )


def read_pack(storage: Storage, pack: Sequence[ManifestFile]) -> list[pa.Table]:
    """Read all columns of the entries of several manifests, DELETED ones included, each as
    `read_manifest` does; nothing goes into the cache."""
    if len(pack) == 1:
        return [read_manifest(storage, pack[0], keep=False)]
    return decode_manifests([(manifest_bytes(storage, m), m) for m in pack])


def is_cached(manifest: ManifestFile) -> bool:
    """Tell whether some columns of a manifest are in the cache."""
    return manifest_cache.get(_key(manifest)) is not None


def _key(manifest: ManifestFile) -> tuple[Any, ...]:
    """Return the key of a manifest in the cache."""
    return (
        "manifest",
        manifest.manifest_path,
        manifest.manifest_length,
        manifest.sequence_number,
        manifest.added_snapshot_id,
        manifest.first_row_id,
    )


def _with(cached: pa.Table, read: pa.Table, manifest: ManifestFile) -> pa.Table:
    """Join cached columns of a manifest with newly read ones, in their usual order."""
    if read.num_rows != cached.num_rows:
        text = f"Manifest {manifest.manifest_path} has {read.num_rows} entries, but had {cached.num_rows} when it was read before."
        raise CorruptData(text, file=manifest.manifest_path)
    both = {t: table.column(t) for table in (cached, read) for t in table.column_names}
    return pa.table({name: both[name] for name in ALL_COLUMNS if name in both})


def each(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """Map a function over items in threads, with results in order; only a few more items are
    started than results were taken.
    """
    todo = list(items)
    if len(todo) < 2 or workers < 2:
        yield from map(function, todo)
        return
    with ThreadPoolExecutor(min(workers, len(todo)), thread_name_prefix="frazil-scan") as pool:
        started: list[Future[R]] = []
        rest = iter(todo)
        for item in itertools.islice(rest, 2 * workers):
            started.append(pool.submit(function, item))
        try:
            while started:
                first = started.pop(0)
                yield first.result()
                started.extend(pool.submit(function, item) for item in itertools.islice(rest, 1))
        finally:
            for future in started:
                future.cancel()


def are_small(manifests: Sequence[ManifestFile]) -> bool:
    """Tell whether manifests hold few entries each, as commits of few files leave them: reading
    them is mostly Python's work.
    """
    return sum(m.manifest_length for m in manifests) <= _SMALL * len(manifests)


def are_remote(manifests: Sequence[ManifestFile]) -> bool:
    """Tell whether manifests lie in a store that is waited for, rather than on a disk or in memory."""
    return bool(manifests) and scheme_of(manifests[0].manifest_path) in REMOTE_SCHEMES


def threads_for(manifests: Sequence[ManifestFile], storage: Storage, workers: int) -> int:
    """Return how many threads read these manifests: one for small local files, since threads in
    Python would only wait for each other; more than there are cores where a store is waited for,
    unless their number was configured or that would hold too many bytes at once."""
    if are_remote(manifests) and not workers_are_given():
        mean = sum(m.manifest_length for m in manifests) // len(manifests)
        return max(workers, min(_WAITING, _AT_ONCE_BYTES // max(mean, 1)))
    local = bool(manifests) and storage.local_path(manifests[0].manifest_path) is not None
    return 1 if local and are_small(manifests) else workers


def threads_for_lists(snapshots: Sequence[Snapshot], storage: Storage, workers: int) -> int:
    """Return how many threads read the manifest lists of snapshots, by the rule of `threads_for`:
    one for local lists.
    """
    first = next((s.manifest_list for s in snapshots if s.manifest_list is not None), None)
    if first is not None and scheme_of(first) in REMOTE_SCHEMES and not workers_are_given():
        return max(workers, _WAITING)
    return 1 if first is not None and storage.local_path(first) is not None else workers


def is_data(manifest: ManifestFile) -> bool:
    return manifest.content == ManifestContent.DATA


def live(entries: pa.Table) -> pa.Table:
    """Keep the entries that are live, that is whose status is not DELETED."""
    alive = to_numpy(column_of(entries, "status")) != ManifestEntryStatus.DELETED
    return entries if alive.all() else entries.filter(from_numpy(alive))


def column_of(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one contiguous array."""
    column = table.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


ENTRIES = 50_000
"""Entries that are decoded at once."""
_SMALL_LENGTH = 1 << 16  # bytes of a manifest whose entries are not counted in the list


def is_large(manifest: ManifestFile) -> bool:
    """Tell whether a manifest may hold more entries than are decoded at once."""
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    if any(n is None for n in counts):
        return manifest.manifest_length > _SMALL_LENGTH
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
