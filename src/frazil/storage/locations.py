"""Parse, compare and check locations of files, and lay out the data and metadata files of a table.

Iceberg stores locations without encoding: a `%` or a space in a location is a `%` or a space in the
file's name, and nothing is decoded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.spec.properties import (
    DATA_PATH,
    LOCATION_PROVIDERS,
    METADATA_PATH,
    OBJECT_STORAGE,
    OBJECT_STORAGE_PARTITIONED_PATHS,
    OLD_DATA_PATHS,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_NOTHING = re.compile(
    r"/(?:\.?(?:/|$))+"
)  # a slash and the empty and "." segments after it: they lead to the same directory
_ALIASES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
}


def scheme_of(location: str) -> str:
    """Find the scheme of a location in lower case, aliases resolved (s3a is s3); "file" for a plain
    path.

    A single letter before a colon is not a scheme, but a drive.
    """
    match = _SCHEME.match(location)
    if match is None or len(match[1]) == 1 or "/" in location[: match.end()]:
        return "file"
    scheme = match[1].lower()
    return _ALIASES.get(scheme, scheme)


def local_path_of(location: str) -> str:
    """Convert a location to a path: `/x` of `/x`, `file:/x`, `file:///x`, `file://localhost/x`.

    Raises InvalidInput for another host and for a NUL character.
    """
    if "\0" in location:
        raise InvalidInput(
            f"A location cannot contain a NUL character: {location!r}.", file=location
        )
    if location[:5].lower() != "file:":
        return location
    rest = location[5:]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidInput(
                f"A file location cannot name another host ({host}): {location}.", file=location
            )
        rest = slash + path
    return rest


def normalise(location: str) -> str:
    """Normalise a location for comparison, so that equal files have equal texts; metadata keeps
    locations as they were written.

    `/x` stands for `file:/x` and `file:///x`, s3 for s3a; paths on local disks and in HDFS have no
    doubled slashes and no `/./`, and no location ends in a slash. Keys of object stores keep both,
    which are parts of a key like any other.
    """
    scheme = scheme_of(location)
    if scheme == "file":
        path = collapsed(local_path_of(location))
        return path.rstrip("/") or ("/" if path else "")
    rest = location.partition(":")[2]
    if scheme == "hdfs":
        return normal_hdfs(rest)
    if scheme == "memory":
        rest = "//" + rest.lstrip("/")
    return f"{scheme}:{rest}".rstrip("/")


def normal_hdfs(rest: str) -> str:
    """Normalise what follows `hdfs:` in a location: hosts in lower case and without the default
    port, paths collapsed as local ones are.

    `hdfs:/x` and `hdfs:///x`, in the default cluster, are one file; which cluster that is a
    location does not tell.
    """
    authority, slash, path = (
        rest[2:].partition("/") if rest.startswith("//") else ("", "/", rest.lstrip("/"))
    )
    return f"hdfs://{hdfs_authority(authority)}{collapsed(slash + path)}".rstrip("/")


def hdfs_authority(authority: str) -> str:
    """Spell the authority of a location in HDFS in one way: in lower case, without the default
    port.
    """
    return authority.lower().removesuffix(":8020")


def collapsed(path: str) -> str:
    """Collapse doubled slashes, `/./` and a `/.` at the end of a path, as Hadoop's Path does."""
    return _NOTHING.sub("/", path)


def settled(location: str) -> str:
    """Resolve the location that a table's metadata names: on local disks and in HDFS doubled
    slashes, `.` and `..` are resolved by name, as Hadoop's Path does, and `FILE:/x` and
    `file://localhost/x` become `file:/x`.

    A location that has no settled spelling is returned as it is, for example one that climbs above
    its root, or a key of an object store with `..`, where this is a name like any other.
    `check_table_location` refuses it before anything is written.
    """
    scheme = scheme_of(location)
    if scheme == "file" and "\0" not in location:
        named = location[:5].lower() == "file:"
        host, path = _host_and_path(location[5:]) if named else ("", location)
        if host not in ("", "localhost") or not path.startswith("/"):
            return location
        prefix = "file://" if location.startswith("file:///") else "file:" if named else ""
        resolved = _without_climbing(path)
        return location if resolved is None else f"{prefix}{resolved}"
    match = re.match(r"([Hh][Dd][Ff][Ss]:(?://[^/]*)?)(/.*)", location, re.DOTALL)
    resolved = _without_climbing(match[2]) if match else None
    return location if match is None or resolved is None else f"{match[1]}{resolved}"


def _host_and_path(rest: str) -> tuple[str, str]:
    if not rest.startswith("//"):
        return "", rest
    host, slash, path = rest[2:].partition("/")
    return host, slash + path


def _without_climbing(path: str) -> str | None:
    """Resolve `.`, `..` and doubled slashes in an absolute path; None where it climbs above the
    root. A slash at the end stays.
    """
    names = list[str]()
    for name in path.split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names) + ("/" if names and path.endswith("/") else "")


def is_own_io(named: str) -> bool:
    """Tell whether `io-impl`, `py-io-impl` name nothing, or a class of Java's, PyIceberg's or ours,
    whose work the storage does here.
    """
    return not named or named.startswith(("org.apache.iceberg.", "pyiceberg.io.", "frazil.io."))


def absolute(location: str) -> str:
    """Resolve a relative local path (`x/y`, `file:x/y`) against the current directory, with `~`
    expanded, `/./` collapsed and no slash at the end.

    Other locations only lose their slash at the end.
    """
    check_location(location)
    if scheme_of(location) != "file":
        return strip_slash(location)
    if location[:5].lower() == "file:":
        path = local_path_of(location)
        if not path.startswith("/"):
            return strip_slash(f"file:{os.path.abspath(path)}")
        return strip_slash(location.removesuffix(path) + collapsed(path))
    return strip_slash(os.path.abspath(os.path.expanduser(location)))


def place_of(
    location: object,
    noun: str = "location",
    hint: str = "Write ./name for a directory in the current one.",
) -> str:
    """Check the location that a caller gives a table or namespace, and make it absolute, so that it
    means the same wherever it is read.

    A bare word is usually another argument in the wrong place, so it is refused with the hint.
    Raises InvalidInput.
    """
    if not isinstance(location, str | os.PathLike):
        raise InvalidInput(f"The {noun} must be a path as text, not {location!r}.", hint=hint)
    text = str(os.fspath(location))
    if text.strip() and text[0].isspace():
        raise InvalidInput(f"The {noun} {text!r} begins with a blank.", hint="Remove it.")
    if text.strip() and scheme_of(text) == "file" and "/" not in text and text not in (".", "~"):
        raise InvalidInput(
            f"The {noun} {text!r} is not a path: it has neither a slash nor a scheme.", hint=hint
        )
    return absolute(text)


def strip_slash(location: str) -> str:
    """Strip slashes at the end of a location, except those of a root (`/`, `file:///`, `s3://`)."""
    stripped = location.rstrip("/")
    return location if not stripped or stripped.endswith(":") else stripped


def join(location: str, *names: str) -> str:
    return "/".join((location.rstrip("/"), *names))


def parent(location: str) -> str:
    return strip_slash(location).rpartition("/")[0]


def base_name(location: str) -> str:
    return strip_slash(location).rpartition("/")[2]


def check_location(location: str, noun: str = "location") -> str:
    """Check a location and return it; refuses one that is empty, contains NUL or a line break, or
    leaves its directory by `..`.
    """
    if not location or not location.strip():
        raise InvalidInput(f"The {noun} is empty.")
    if "\0" in location or "\n" in location or "\r" in location:
        raise InvalidInput(
            f"The {noun} {location!r} contains a NUL character or a line break.", file=location
        )
    if ".." in location.split("/"):
        raise InvalidInput(
            f"The {noun} {location!r} contains '..'.",
            hint="Give the path without '..'.",
            file=location,
        )
    return location


def check_table_location(location: str) -> str:
    """Check the location of a table before files are written below it, and return it. Raises
    InvalidInput for one that leaves its place by `..` or that is relative, which means another
    directory in each process."""
    try:
        check_location(location, "location of the table")
        if scheme_of(location) == "file" and not local_path_of(location).startswith("/"):
            text = f"The location of the table {location!r} is relative, so it would be another directory in each process."
            raise InvalidInput(text, file=location)
    except InvalidInput as error:
        error.advise(
            "The table can be read. To write to it, set its location by t.transaction().update_location(…)."
        )
        raise
    return location


def check_name(name: object, noun: str = "name") -> str:
    """Check a name that becomes a directory; refuses empty names, `.`, `..`, slashes, backslashes,
    NUL and control characters.
    """
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"A {noun} must be a text that is not empty, not {name!r}.")
    if (
        name in (".", "..")
        or "/" in name
        or "\\" in name
        or any(ord(c) < 32 or ord(c) == 127 for c in name)
    ):
        raise InvalidInput(
            f"{name!r} cannot be a {noun}: it would leave its place in the warehouse."
        )
    return name


def is_inside(location: str, directory: str) -> bool:
    """Tell whether a location lies below a directory (or is it), however the two are spelled."""
    inner, outer = normalise(location), normalise(directory)
    if ".." in inner.split("/"):
        return False
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def data_root(table_location: str, properties: Mapping[str, str]) -> str:
    """Find the directory of a table's data files: `write.data.path`, else `<table>/data`.

    Deprecated names of the property are refused, as are location providers, which are classes of
    other products.
    """
    for provider in LOCATION_PROVIDERS:
        if provider.name in properties:
            hint = f"Remove the table property; {DATA_PATH.name} and {OBJECT_STORAGE.name} tell where data files go."
            raise Unsupported(
                f"{provider.name} names a class of another product, which Frazil cannot run.",
                hint=hint,
            )
    for old in OLD_DATA_PATHS:
        if old.name in properties and DATA_PATH.name not in properties:
            raise ValidationError(
                f"Property {old.name} is no longer supported.",
                hint=f"Use {DATA_PATH.name} instead.",
            )
    data_path = DATA_PATH.text(properties)
    if data_path is not None:
        return absolute(check_location(data_path, f"property {DATA_PATH.name}"))
    return join(check_table_location(table_location), "data")


def data_location(
    table_location: str, properties: Mapping[str, str], partition_path: str, file_name: str
) -> str:
    """Make the location of a data file; `partition_path` is "" for an unpartitioned table.

    With `write.object-storage.enabled` the layout is that of Java's ObjectStoreLocationProvider.
    """
    table_location = strip_slash(table_location)
    root = data_root(table_location, properties)
    if "/" in file_name or file_name in ("", ".", "..") or "\0" in file_name:
        raise InvalidInput(f"{file_name!r} cannot be a file name.", file=file_name)
    name = f"{partition_path}/{file_name}" if partition_path else file_name
    if OBJECT_STORAGE.of(properties):
        with_partitions = OBJECT_STORAGE_PARTITIONED_PATHS.of(properties)
        name = _hashed(
            table_location, root, name if with_partitions else file_name, with_partitions
        )
    return check_location(f"{root}/{name}")


def _hashed(table_location: str, root: str, name: str, with_partitions: bool) -> str:
    bits = format(murmur3_32(name.encode()) & 0xFFFFF, "020b")
    folders = f"{bits[:4]}/{bits[4:8]}/{bits[8:12]}/{bits[12:]}"
    if not root.startswith(table_location):
        # tables may share a data path: the last two names of the table's location keep them apart
        table = base_name(table_location)
        above = base_name(parent(table_location))
        return (
            f"{folders}/{above}/{table}/{name}"
            if above and not above.endswith(":")
            else f"{folders}/{table}/{name}"
        )
    return f"{folders}/{name}" if with_partitions else f"{folders}-{name}"


def metadata_root(table_location: str, properties: Mapping[str, str]) -> str:
    metadata_path = METADATA_PATH.text(properties)
    if metadata_path is not None:
        return absolute(check_location(metadata_path, f"property {METADATA_PATH.name}"))
    return join(check_table_location(table_location), "metadata")


def metadata_location(table_location: str, properties: Mapping[str, str], file_name: str) -> str:
    """Make the location of a manifest, manifest list, metadata or statistics file: in
    `write.metadata.path`, else `<table>/metadata`.
    """
    if "/" in file_name or file_name in ("", ".", "..") or "\0" in file_name:
        raise InvalidInput(f"{file_name!r} cannot be a file name.", file=file_name)
    return f"{metadata_root(table_location, properties)}/{file_name}"


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """Hash bytes by MurmurHash3 (x86, 32 bits), unsigned."""
    mask, h, whole = 0xFFFFFFFF, seed, len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) & mask
        h ^= k * 0x1B873593 & mask
        h = (h << 13 | h >> 19) & mask
        h = (h * 5 + 0xE6546B64) & mask
    if whole < len(data):
        k = int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) & mask
        h ^= k * 0x1B873593 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16
