"""The files of a path table (Java's Hadoop tables): `metadata/vN.metadata.json`, published one by one, never replaced.

The newest version is the highest that the directory holds; `version-hint.text` is written for other readers and never believed, so a
missing, stale or damaged one costs nothing. A version that is torn or empty is an error, not a reason to show an older one.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from dataclasses import dataclass, replace

from frazil.catalog import metadata_files, path_line
from frazil.catalog.base import Committed, Conflict, LoadedTable, Outcome, Unknown
from frazil.codec.metadata_json import decode_metadata, unzipped
from frazil.errors import CorruptData, FrazilError, NoSuchFileError, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import METADATA_PATH
from frazil.storage import PublishUnclear, Storage, normalise
from frazil.storage.locations import base_name, join

_VERSION = re.compile(r"v(0|[1-9][0-9]{0,9})(\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")  # where two are there, the first one counts, as in Java
_HINT = "version-hint.text"
_TRIES = 10


@dataclass(frozen=True)
class Version:
    """One vN file."""

    number: int
    location: str


def version_of(location: str) -> int | None:
    found = _VERSION.fullmatch(base_name(location))
    return int(found[1]) if found else None


def versions(storage: Storage, root: str) -> list[Version]:
    """All versions below a table's directory, oldest first."""
    directory, best = join(root, "metadata"), dict[int, str]()
    for name in storage.names(directory, after="v"):
        if found := _VERSION.fullmatch(name):
            number = int(found[1])
            rank = {number: name} if number not in best else {}
            if number in best and _ENDINGS.index(found[2]) < _ENDINGS.index(best[number][len(f"v{number}") :]):
                rank = {number: name}
            best.update(rank)
    return [Version(n, join(directory, best[n])) for n in sorted(best)]


def head(storage: Storage, root: str) -> Version | None:
    found = versions(storage, root)
    return found[-1] if found else None


def load(storage: Storage, root: str) -> tuple[str, TableMetadata] | None:
    """(metadata file, metadata) of the newest version; None: no table there. Raises CorruptData for a damaged newest version."""
    missing: Exception | None = None
    for _ in range(_TRIES):
        newest = head(storage, root)
        if newest is None:
            return None
        try:
            data = metadata_files.read_bytes(storage, newest.location)
        except NoSuchFileError as error:  # others committed and removed it in between
            missing = error
            continue
        if not data.strip(b"\0 \n\r\t"):
            raise CorruptData(
                f"Metadata file {newest.location} is empty.",
                hint="A writer was cut off. If no newer copy exists, remove it by hand to go back to the version before.",
                file=newest.location, offset=0,
            )  # fmt: skip
        return newest.location, decode_metadata(data, file=newest.location)
    raise missing or NoSuchFileError(f"Metadata of {root} keeps vanishing.", file=root)


def check_path_table(metadata: TableMetadata, root: str) -> None:
    if METADATA_PATH.name in metadata.properties:
        raise ValidationError("A path table cannot keep its metadata elsewhere (property write.metadata.path).", table=root)
    metadata_files.wants_gzip(metadata)


def create(root: str, staged: LoadedTable) -> Outcome:
    """Publish the first version of a table."""
    storage, metadata = staged.storage, staged.metadata
    check_path_table(metadata, root)
    if (there := head(storage, root)) is not None:
        return Conflict(f"Table exists: {there.location}")
    # Plain, whatever the codec: creators that wish for different codecs must meet at one name.
    location = join(root, "metadata", "v1.metadata.json")
    fresh = replace(staged, metadata_location=location)
    return _publish(storage, root, None, fresh, metadata_files.encode(metadata, gzipped=False), 1)


def swap(storage: Storage, root: str, base: LoadedTable, metadata: TableMetadata) -> Outcome:
    """Publish the version after `base`. Raises ValidationError for what a path table cannot do, StorageError when nothing was done."""
    if normalise(base.metadata.location) != normalise(metadata.location):
        raise ValidationError("Path tables cannot be relocated: their location is their directory.", table=root)
    check_path_table(metadata, root)
    number = version_of(base.metadata_location)
    if number is None:
        raise ValidationError(f"{base.metadata_location} is no version of a path table, so nothing can follow it.", table=root)
    if (stale := _stale(storage, root, base, number)) is not None:
        return Conflict(stale)
    complete, fallen = metadata_files.with_log(base, metadata)
    # The ending follows from the base, not from the new properties: rivals that start from one base must meet at one name.
    gzipped = metadata_files.wants_gzip(base.metadata)
    location = join(root, "metadata", f"v{number + 1}{'.gz' if gzipped else ''}.metadata.json")
    table = LoadedTable(base.identifier, location, complete, storage, base.config)
    outcome = _publish(storage, root, base, table, metadata_files.encode(complete, gzipped), number + 1)
    if isinstance(outcome, Committed):
        metadata_files.delete_fallen(storage, complete, fallen)
    return outcome


def _stale(storage: Storage, root: str, base: LoadedTable, number: int) -> str | None:
    """Why `base` is surely not the newest version any more; None when it may be, then publishing decides.

    That the next version's name is free does not tell: the table may have been dropped, and made anew.
    """
    try:
        if base.metadata.table_uuid is None or _holds(storage, base.metadata_location, base.metadata.table_uuid.encode()):
            return None
    except (FrazilError, OSError, EOFError, zlib.error):
        return f"Version {number} is no longer there: {base.metadata_location}"
    return f"Another table was made in place of this one: {root}"


def _holds(storage: Storage, location: str, text: bytes) -> bool:
    """Writers put the table's uuid among the first keys, so a look at the beginning is enough as a rule."""
    with storage.open_input(location) as file:
        start = file.read(2048)
    if text in start:
        return True
    return text in unzipped(storage.read(location))


def _publish(storage: Storage, root: str, base: LoadedTable | None, table: LoadedTable, data: bytes, number: int) -> Outcome:
    location = table.metadata_location
    try:
        won = storage.publish(location, data)
    except PublishUnclear as error:
        return _after_unclear(storage, location, data, error)
    if not won:
        return Conflict(f"Version {number} already exists: {location}")
    try:
        outcome = _in_line(storage, root, base, table, number)
    except Exception as error:  # it is published: from here on, no failure may read as "not applied"
        return Unknown(error)
    if isinstance(outcome, Committed):
        write_hint(storage, root, number)
    return outcome


def _after_unclear(storage: Storage, location: str, data: bytes, error: PublishUnclear) -> Outcome:
    with contextlib.suppress(FrazilError):
        if storage.read(location) != data:
            return Conflict(f"Another writer published {location}")
    return Unknown(error)


def _in_line(storage: Storage, root: str, base: LoadedTable | None, table: LoadedTable, number: int) -> Outcome:
    """A version may have taken a name that is free again since others went far ahead: those left higher ones, and these tell.

    Versions go oldest first: while the base is there and the hint tells of nothing newer, the name after it has not been freed, and
    listing a long history is spared.
    """
    if base is not None and storage.local_path(base.metadata_location) is not None:
        if (read_hint(storage, root) or number) <= number and storage.exists(base.metadata_location):
            return Committed(table)
    above = [v for v in versions(storage, root) if v.number > number]
    if not above:
        return Committed(table)
    later = metadata_files.read(storage, above[0].location)
    outcome = path_line.settle(base.metadata if base else None, table, later, above[0].number == number + 1)
    if isinstance(outcome, Conflict):
        storage.delete(table.metadata_location)
    return outcome


def write_hint(storage: Storage, root: str, number: int) -> None:
    """For readers that believe it; never lowered when it is newer, and a failure is of no consequence."""
    location = join(root, "metadata", _HINT)
    with contextlib.suppress(Exception):
        if (read_hint(storage, root) or 0) > number:
            newest = head(storage, root)
            if newest is not None and newest.number > number:
                return
        storage.delete_many([join(root, "metadata", f".{_HINT}.crc")])  # a checksum left by Hadoop would no longer fit
        storage.write(location, str(number).encode(), overwrite=True, synced=False)


def read_hint(storage: Storage, root: str) -> int | None:
    """What the hint says, None when it is missing or damaged."""
    with contextlib.suppress(FrazilError, ValueError):
        return int(storage.read(join(root, "metadata", _HINT))[:20].split(b"\n")[0])
    return None


_OF_OTHERS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_FILES = (".parquet", ".orc", ".avro", ".csv", ".json")


def instead(storage: Storage, location: str) -> str:
    """What to do where no table was found, by what is there."""
    for folder, product in _OF_OTHERS.items():
        if storage.is_directory(join(location, folder)):
            return f"This is a table of {product}; Frazil reads Iceberg tables."
    if location.endswith(_FILES):
        return f"This names a file of data; read it with {location.rpartition('.')[2]}'s own reader, or take it into a table by add_files."
    return "For the table of a catalog, load it through the catalog or give the path of its …metadata.json."
