"""Read and publish the metadata files of path tables (Java's Hadoop tables):
`metadata/vN.metadata.json`, never replaced once published.

The current version is the one with the highest number in the directory. `version-hint.text` is
written for other readers but not relied on, so a missing, stale or damaged hint does no harm. A
current version that is incomplete or empty is an error; no older one is opened instead. A process
that has read or written the table looks for the version after the one it knows; only where there
may be one it lists again.

Old versions can be removed (write.metadata.delete-after-commit.enabled, orphan removal), which
frees their file names. A slow writer that listed the directory before can then publish under such a
name: its commit would be acknowledged, but no reader would ever see it. So `settle` decides whether
a published version is part of the table's history.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

from frazil.catalog import metadata_files, own_files
from frazil.catalog.base import Committed, Conflict, LoadedTable, Outcome, Unknown
from frazil.catalog.metadata_files import KnownHeads
from frazil.catalog.names import full_name
from frazil.codec.metadata_json import unzipped
from frazil.errors import (
    CorruptData,
    FrazilError,
    NoSuchFileError,
    Unsupported,
    ValidationError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import METADATA_PATH
from frazil.storage import REMOTE_SCHEMES, PublishUnclear, Storage, is_inside, normalise
from frazil.storage.locations import base_name, join, scheme_of

_VERSION = re.compile(
    r"v(0|[1-9][0-9]{0,9})(\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)"
)
# of two files with the same number the first counts, as in Java
_ENDINGS = (
    ".metadata.json",
    ".gz.metadata.json",
    ".metadata.json.gz",
)
_LEFTOVER = re.compile(r"\..*\.[0-9a-f]{32}\.tmp")
_HINT = "version-hint.text"
_TRIES = 10
_START = 2048
_BLANK = b"\0 \n\r\t"
_GZIPPED = b"\x1f\x8b"
# versions that a store lists in no more time than it takes for the requests that can replace the
# listing
_FEW = 64
known_heads = KnownHeads()


@dataclass(frozen=True)
class Version:
    """Hold the number and location of one `vN.metadata.json` file."""

    number: int
    location: str


def version_of(location: str) -> int | None:
    """Return the number of a `vN.metadata.json` file; None for other names."""
    match = _VERSION.fullmatch(base_name(location))
    return int(match[1]) if match else None


def versions(storage: Storage, root: str) -> list[Version]:
    """Return all versions below a table's directory, oldest first."""
    directory, names = join(root, "metadata"), _names(storage, root)
    return [Version(n, join(directory, names[n])) for n in sorted(names)]


def head(storage: Storage, root: str) -> Version | None:
    """Return the current version of a table; None: there is no table."""
    names = _names(storage, root)
    newest = max(names, default=None)
    return None if newest is None else Version(newest, join(root, "metadata", names[newest]))


def table_within(storage: Storage, root: str) -> str | None:
    """Return the directory of a table that lies within that of another, or of a namespace; None:
    there is none. Of a table's own two directories only they themselves are looked at, not the
    partitions in them."""
    for name in storage.directories(root):
        place = join(root, name)
        if is_leftover(name):
            continue
        if head(storage, place) is not None:
            return place
        if name not in ("data", "metadata") and (inner := table_within(storage, place)) is not None:
            return inner
    return None


def is_leftover(name: str) -> bool:
    """Tell whether a directory is one that an interrupted drop has left."""
    return _LEFTOVER.fullmatch(name) is not None


def _names(storage: Storage, root: str) -> dict[int, str]:
    """List the file names of all versions, by their numbers."""
    names = dict[int, str]()
    for name in storage.names(join(root, "metadata"), after="v"):
        if match := _VERSION.fullmatch(name):
            number, ending = int(match[1]), match[2]
            if number not in names or _ENDINGS.index(ending) < _ENDINGS.index(
                names[number][len(f"v{number}") :]
            ):
                names[number] = name
    return names


def load(storage: Storage, root: str) -> tuple[str, TableMetadata] | None:
    """Return (metadata file, metadata) of the current version; None: there is no table. Raises
    CorruptData where the file is damaged.
    """
    missing: Exception | None = None
    for attempt in range(_TRIES):
        newest = (None if attempt else _known_head(storage, root)) or head(storage, root)
        if newest is None:
            return None
        try:
            data = metadata_files.read_bytes(storage, newest.location)
        except NoSuchFileError as error:
            # another writer has committed and removed it since the directory was listed
            missing = error
            continue
        if not data[:_START].strip(_BLANK) and not data.strip(_BLANK):
            raise CorruptData(
                f"Metadata file {newest.location} is empty.",
                hint="A writer was cut off. If no newer copy exists, remove it by hand to go back to the version before.",
                file=newest.location,
                offset=0,
            )
        known_heads.found(root, newest.location)
        return newest.location, metadata_files.decode(data, newest.location)
    raise missing or NoSuchFileError(
        f"The metadata files of {root} were removed {_TRIES} times while they were read.", file=root
    )


def _known_head(storage: Storage, root: str) -> Version | None:
    """Return the version that this process has seen as the newest, or has published, where it still
    is; None where a listing has to tell.

    Versions follow each other without gaps and are removed oldest first. While a version is there,
    which the caller finds when it reads the file, the name after it has therefore never been freed:
    if that name is not in use, it is the newest. The hint is asked as well, in case another program
    has removed versions in another order. In HDFS many files are removed at once in any order.
    """
    location, remote = known_heads.of(root), scheme_of(root) in REMOTE_SCHEMES
    number = None if location is None else version_of(location)
    if (
        location is None
        or number is None
        or scheme_of(root) == "hdfs"
        or (remote and number < _FEW)
    ):
        return None
    preferred = itertools.takewhile(
        lambda ending: not location.endswith(f"v{number}{ending}"), _ENDINGS
    )
    names = [f"v{number + 1}{ending}" for ending in _ENDINGS] + [
        f"v{number}{ending}" for ending in preferred
    ]
    rivals = [join(root, "metadata", name) for name in names]
    with contextlib.suppress(FrazilError, RuntimeError):
        # no threads start while the interpreter ends
        if not remote:
            is_newest = read_hint(storage, root) == number and not any(map(storage.exists, rivals))
        else:  # a store is waited for: all of them at once
            with ThreadPoolExecutor(len(rivals), thread_name_prefix="frazil-head") as pool:
                exist = [pool.submit(storage.exists, rival) for rival in rivals]
                is_newest = read_hint(storage, root) == number and not any(
                    future.result() for future in exist
                )
        return Version(number, location) if is_newest else None
    return None


def check_path_table(metadata: TableMetadata, root: str) -> None:
    """Check the properties of a path table. Raises ValidationError."""
    if METADATA_PATH.name in metadata.properties:
        raise ValidationError(
            "A path table cannot keep its metadata elsewhere (property write.metadata.path).",
            table=root,
        )
    metadata_files.wants_gzip(metadata)


def create(root: str, staged: LoadedTable) -> Outcome:
    """Publish the first version of a table."""
    storage, metadata = staged.storage, staged.metadata
    check_path_table(metadata, root)
    if (existing := head(storage, root)) is not None:
        return Conflict(f"Table exists: {existing.location}")
    # Never compressed: writers that create the table with different codecs must compete for the
    # same file name.
    location = join(root, "metadata", "v1.metadata.json")
    fresh = replace(staged, metadata_location=location)
    return _publish(storage, root, None, fresh, metadata_files.encode(metadata, gzipped=False), 1)


def swap(storage: Storage, root: str, base: LoadedTable, metadata: TableMetadata) -> Outcome:
    """Publish the version after `base`. Raises ValidationError for a change that a path table does
    not allow, and StorageError when nothing was written."""
    if normalise(base.metadata.location) != normalise(metadata.location):
        raise ValidationError(
            "Path tables cannot be relocated: their location is their directory.", table=root
        )
    check_path_table(metadata, root)
    number = version_of(base.metadata_location)
    if number is None:
        raise ValidationError(
            f"{base.metadata_location} is no version of a path table, so nothing can follow it.",
            table=root,
        )
    if (stale := _stale(storage, root, base, number)) is not None:
        return Conflict(stale)
    complete, fallen = metadata_files.with_log(base, metadata)
    # The base decides on compression, not the new properties: writers that start from the same base
    # must compete for the same file name.
    gzipped = metadata_files.wants_gzip(base.metadata)
    location = join(root, "metadata", f"v{number + 1}{'.gz' if gzipped else ''}.metadata.json")
    table = LoadedTable(base.identifier, location, complete, storage, base.config)
    outcome = _publish(
        storage, root, base, table, metadata_files.encode(complete, gzipped), number + 1
    )
    if fallen and isinstance(outcome, Committed):
        own_files.delete_fallen(base, complete, fallen, root)
    return outcome


def _stale(storage: Storage, root: str, base: LoadedTable, number: int) -> str | None:
    """Return the reason why `base` is certainly not the current version any more; None if it may
    be, which publishing then decides.

    It does not suffice that the name of the next version is free, since the table may have been
    dropped and created again.
    """
    try:
        if base.metadata.table_uuid is None or _holds(
            storage, base.metadata_location, base.metadata.table_uuid.encode()
        ):
            return None
    except NoSuchFileError:
        return f"Version {number} is no longer there: {base.metadata_location}"
    except (EOFError, zlib.error):
        return f"Version {number} is not what it was: {base.metadata_location}"
    return f"Another table was created in place of this one: {root}"


def _holds(storage: Storage, location: str, text: bytes) -> bool:
    """Tell whether a metadata file holds a text. Writers put the table's uuid first, so reading the
    beginning is usually enough.
    """
    start = storage.read_start(location, _START)
    if text in start or (
        start.startswith(_GZIPPED) and text in zlib.decompressobj(31).decompress(start)
    ):
        return True
    return text in unzipped(metadata_files.read_bytes(storage, location))


def _publish(
    storage: Storage,
    root: str,
    base: LoadedTable | None,
    table: LoadedTable,
    data: bytes,
    number: int,
) -> Outcome:
    location = table.metadata_location
    try:
        won = storage.publish(location, data)
    except PublishUnclear as error:
        with contextlib.suppress(FrazilError):
            if storage.read(location) != data:
                return Conflict(f"Another writer published {location}")
        return Unknown(error)
    if not won:
        return Conflict(f"Version {number} already exists: {location}")
    try:
        hint = read_hint(storage, root)
        outcome = _after_publishing(storage, root, base, table, number, hint)
    except Exception as error:
        # the version is published, so no failure from here on means that it was not applied
        return Unknown(error)
    if isinstance(outcome, Committed):
        write_hint(storage, root, number, hint)
        known_heads.published(root, location)
    return outcome


def _after_publishing(
    storage: Storage,
    root: str,
    base: LoadedTable | None,
    table: LoadedTable,
    number: int,
    hint: int | None,
) -> Outcome:
    """Check that a published version is part of the table's history.

    Its file name may have been used before, and freed by the removal of old versions, if other
    writers were far ahead. Then there are versions with higher numbers, and the next of them tells.
    Old versions are removed oldest first: as long as the base exists and the hint names no newer
    version, the name after the base has never been freed, and a long directory need not be listed.
    HDFS deletes many files at once in any order, and lists a directory by one request.

    Without its base and without higher numbers the version stands alone: the table was dropped
    between the check of its base and publishing. It is removed again, so that no table comes back
    without the files of the dropped one.
    """
    on_hdfs = scheme_of(root) == "hdfs"
    base_exists = base is None or on_hdfs or _is_there(storage, base)
    if base is not None and not on_hdfs and base_exists and (hint or number) <= number:
        return Committed(table)
    present = versions(storage, root)
    above = [v for v in present if v.number > number]
    if above:
        later = metadata_files.read(storage, above[0].location)
        outcome = settle(
            base.metadata if base else None, table, later, above[0].number == number + 1
        )
    elif base is not None and (
        not base_exists or (on_hdfs and all(v.number != number - 1 for v in present))
    ):
        outcome = Conflict(f"The table was dropped before version {number} was published: {root}")
    else:
        outcome = Committed(table)
    if isinstance(outcome, Conflict):
        storage.delete(table.metadata_location)
    return outcome


def _is_there(storage: Storage, base: LoadedTable) -> bool:
    """Tell whether the file of a version is still there, and still of the same table, which may
    have been dropped and created again. Raises the storage's error where the file cannot be read.
    """
    if base.metadata.table_uuid is None:
        return storage.exists(base.metadata_location)
    try:
        return _holds(storage, base.metadata_location, base.metadata.table_uuid.encode())
    except NoSuchFileError:
        return False


def write_hint(storage: Storage, root: str, number: int, hint: int | None) -> None:
    """Write the version hint for readers that rely on it. A hint to a newer version that exists is
    kept, and failures are ignored. `hint`: what it says now."""
    location = join(root, "metadata", _HINT)
    with contextlib.suppress(Exception):
        if (hint or 0) > number:
            newest = head(storage, root)
            if newest is not None and newest.number > number:
                return
        if storage.local_path(location) is not None:
            # a checksum that Hadoop has written on a local disk would no longer match
            storage.delete_many([join(root, "metadata", f".{_HINT}.crc")])
        storage.write(location, str(number).encode(), overwrite=True, synced=False)


def read_hint(storage: Storage, root: str) -> int | None:
    """Return the version that the hint names; None: it is missing or damaged."""
    with contextlib.suppress(FrazilError, ValueError):
        return int(storage.read_start(join(root, "metadata", _HINT), 20).split(b"\n")[0])
    return None


_OF_OTHERS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_FILES = (".parquet", ".orc", ".avro", ".csv", ".json")


def instead(storage: Storage, location: str) -> str:
    """Return the hint for a location without a path table, by what it holds instead."""
    for folder, product in _OF_OTHERS.items():
        if storage.is_directory(join(location, folder)):
            return f"This is a table of {product}. Frazil reads Iceberg tables only."
    if location.endswith(_FILES):
        return f"This is a data file: read it with a reader for {location.rpartition('.')[2]} files, or add it to a table by add_files."
    return (
        "Load the table of a catalog through the catalog, or give the path of its …metadata.json."
    )


def drop(storage: Storage, root: str, purged: LoadedTable | None) -> tuple[str, ...]:
    """Delete the directory of a table. `purged`: the table, if its files outside the directory are
    deleted too; returns the paths of files that stay. Raises ValidationError where the directory
    holds another table, as Java's catalog lets it."""
    if (inner := table_within(storage, root)) is not None:
        text = f"The table in {root} cannot be dropped: its directory holds another table, {inner}."
        raise ValidationError(text, hint="Drop that one first, or move it elsewhere.", table=root)
    if purged is not None:
        own_files.check_gc(purged.metadata, full_name(purged.identifier) or root)
    own, elsewhere = own_files.own_and_others(purged, root) if purged is not None else ([], [])
    if scheme_of(root) in ("file", "hdfs"):  # where a directory disappears in one step
        storage.delete_tree(root)
    else:
        # Object stores delete file by file. The versions go oldest first, so that readers never see
        # an older state meanwhile.
        for version in versions(storage, root):
            storage.delete_many([version.location])
        storage.delete_tree(root)
    return (
        own_files.delete(purged, (f for f in own if not is_inside(f, root)), elsewhere)
        if purged is not None
        else ()
    )


def refuse_together(where: str) -> Unsupported:
    """Return the error for a commit to several tables. `where`: the catalog, as in "Path catalog
    'p'".
    """
    return Unsupported(
        f"{where} cannot commit to several tables at once: each table has a metadata directory of its own.",
        hint="Use a catalog of type sql or rest, or one transaction for each table: t.transaction().",
    )


# Every commit changes these fields, so they do not tell whether a certain commit is part of the
# history; snapshots are compared by id.
_NOT_COMPARED = {
    "last_updated_ms",
    "metadata_log",
    "snapshot_log",
    "extra",
    "snapshots",
    "last_sequence_number",
    "next_row_id",
}


def settle(
    base: TableMetadata | None, table: LoadedTable, later: TableMetadata, is_next: bool
) -> Outcome:
    """Decide the outcome of publishing `table`, which was made from `base`, by a later version
    (`is_next`: the one that follows directly).

    Committed: the later version holds the changes. Conflict: the next version was built on another
    file with the same name. Unknown: neither is certain.
    """
    if is_next and later.metadata_log:
        listed_entry = later.metadata_log[-1]
        published_entry = base_name(table.metadata_location), table.metadata.last_updated_ms
        if (base_name(listed_entry.metadata_file), listed_entry.timestamp_ms) != published_entry:
            return Conflict(
                f"{table.metadata_location} was written and removed by other writers before"
            )
    evidence = list(_evidence(base, table.metadata, later))
    if evidence and all(evidence):
        return Committed(table)
    return Unknown(
        CorruptData(
            f"It is not known whether {table.metadata_location} is part of the table's history.",
            file=table.metadata_location,
        )
    )


def _evidence(
    base: TableMetadata | None, published: TableMetadata, later: TableMetadata
) -> Iterator[bool]:
    """Yield, for each change from `base` to `published` (the metadata in question), whether `later`
    has it. If `published` has new snapshots, they alone decide, since their ids are unique."""
    if base is None:
        yield published.table_uuid == later.table_uuid
        return
    if new_ids := set(published.snapshots.ids) - set(base.snapshots.ids):
        yield new_ids <= set(later.snapshots.ids)
        return
    for field in fields(TableMetadata):
        if field.name not in _NOT_COMPARED:
            yield from _of_value(
                getattr(base, field.name),
                getattr(published, field.name),
                getattr(later, field.name),
            )


def _of_value(base: Any, published: Any, later: Any) -> Iterator[bool]:
    if isinstance(published, dict):
        yield from (later.get(k) == v for k, v in published.items() if base.get(k) != v)
        yield from (k not in later for k in base if k not in published)
    elif isinstance(published, tuple):
        yield from (item in later for item in published if item not in base)
    elif published != base:
        yield published == later
