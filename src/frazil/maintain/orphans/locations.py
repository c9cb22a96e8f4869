"""Compare the locations that a store lists with those that metadata names, where the two may spell
a file differently.

A location consists of a prefix (scheme and authority) and a path. Paths are compared by 64-bit
keys, with doubled slashes collapsed. If the paths are equal, the two prefixes decide whether they
name one file, or whether that cannot be determined. A file also counts as known when only one side
is percent-encoded, or the two differ in the normal form of Unicode, in `..`, or in symbolic links
of local directories.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.sorted_numbers import distinct
from frazil.errors import InvalidInput
from frazil.expr.building import column, from_numpy, to_numpy
from frazil.maintain.orphans.path_keys import Keys, among, text_keys
from frazil.storage.locations import hdfs_authority
from frazil.storage.real_paths import RealPaths

Flags = npt.NDArray[np.bool_]
_PARTS = r"^(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+):)?(?://(?P<authority>[^/]*))?(?P<path>(?s:.*))$"
_ALIASES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
    "file": "",
}
_ONE_LOCATION_IN = 1 << 16
_SEVERAL_SPELLINGS = r"%|/\.\./|[^\x00-\x7F]"


def flattened(argument: str, mapping: Mapping[str, str] | None) -> dict[str, str]:
    """Return a mapping with one text per key, given one whose keys may be lists: `{"s3n,s3a":
    "s3"}`. Raises InvalidInput.
    """
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        raise InvalidInput(f"{argument} is a dict such as {{'a,b': 'c'}}, not {mapping!r}.")
    return {
        part.strip(): str(value).strip()
        for key, value in mapping.items()
        for part in str(key).split(",")
    }


@dataclass(frozen=True)
class PrefixRule:
    """Say which schemes and which authorities are equal; s3a, s3n and s3 are, as are a local path
    with and without `file:`.
    """

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)

    def prefix(self, scheme: str, authority: str) -> str:
        """Return one text for all equal prefixes; "" for a location of this machine, and for one
        without a scheme.
        """
        scheme = scheme.lower()
        scheme = self.schemes.get(scheme, scheme)
        scheme = _ALIASES.get(scheme, scheme)
        authority = self.authorities.get(authority, authority)
        authority = hdfs_authority(authority) if scheme == "hdfs" else authority
        authority = "" if scheme == "" and authority.lower() == "localhost" else authority
        return f"{scheme}://{authority}" if scheme or authority else ""

    def split(self, locations: pa.Array) -> Iterator[tuple[str, pa.Array, Flags | None]]:
        """Yield each prefix, the paths of its locations, and which of the locations these are
        (None: all).
        """
        if (
            pc.all(pc.starts_with(locations, "/")).as_py()
            and not pc.any(pc.starts_with(locations, "//")).as_py()
        ):
            yield "", _collapsed(locations), None
            return
        scheme, authority, path = pc.extract_regex(locations, _PARTS).flatten()
        both = pc.binary_join_element_wise(scheme, authority, "\n").dictionary_encode()
        numbers = to_numpy(both.indices)
        by_prefix: dict[str, list[int]] = {}
        for number, text in enumerate(both.dictionary.to_pylist()):
            by_prefix.setdefault(self.prefix(*text.split("\n", 1)), []).append(number)
        for prefix, prefix_numbers in by_prefix.items():
            here = np.isin(numbers, prefix_numbers)
            chosen = path if here.all() else path.filter(from_numpy(here))
            yield prefix, _collapsed(chosen), None if here.all() else here


def _collapsed(paths: pa.Array) -> pa.Array:
    odd = pc.or_(pc.match_substring(paths, "//"), pc.match_substring(paths, "/./"))
    return pc.replace_substring_regex(paths, r"/(?:\.?/)+", "/") if pc.any(odd).as_py() else paths


def below_path(directory: str) -> Callable[[pa.Array], Flags]:
    """Return a function that marks the locations whose path lies below the path of a directory,
    whatever their scheme and authority.
    """
    rule = PrefixRule()
    ((_, outer, _),) = rule.split(column([directory.rstrip("/") + "/"], pa.string()))
    start = outer[0].as_py()

    def below(locations: pa.Array) -> Flags:
        marked = np.zeros(len(locations), np.bool_)
        for _, paths, here in rule.split(locations) if len(locations) else ():
            texts = ((path, _plain(path)) for path in paths.to_pylist())
            inside = [
                (text.startswith(start) and "/../" not in text)
                or plain.startswith((start, _plain(start)))
                for text, plain in texts
            ]
            marked[slice(None) if here is None else here] = inside
        return marked

    return below


def _plain(path: str) -> str:
    """Spell a path decoded, in Unicode's form NFC and without `..`."""
    decoded = unicodedata.normalize("NFC", unquote(path))
    return posixpath.normpath(decoded) if "/../" in decoded else decoded


class KnownLocations:
    """Hold the keys of the locations that metadata names, by prefix, eight bytes each."""

    def __init__(self, rule: PrefixRule):
        self.rule = rule
        self._parts: dict[str, list[Keys]] = {}
        self._sorted: dict[str, Keys] = {}
        self._real = RealPaths()

    def add(self, locations: pa.Array) -> None:
        """Add locations as metadata spells them, and in their other spellings."""
        for start in range(0, len(locations), _ONE_LOCATION_IN):
            for prefix, paths, _ in self.rule.split(locations.slice(start, _ONE_LOCATION_IN)):
                parts = self._parts.setdefault(prefix, [])
                parts.append(text_keys(paths))
                odd = paths.filter(pc.match_substring_regex(paths, _SEVERAL_SPELLINGS))
                if len(odd):
                    parts.append(
                        text_keys(column([_plain(path) for path in odd.to_pylist()], pa.string()))
                    )
                if prefix == "" and (elsewhere := self._real.differing(paths)):
                    parts.append(text_keys(column(elsewhere, pa.string())))
        self._sorted = {}

    def _keys(self) -> dict[str, Keys]:
        if not self._sorted:
            self._sorted = {
                prefix: distinct(np.concatenate(parts)) for prefix, parts in self._parts.items()
            }
            self._parts = {prefix: [keys] for prefix, keys in self._sorted.items()}
        return self._sorted

    def compare(self, locations: pa.Array) -> tuple[Flags, Flags]:
        """Mark the locations that are known, in any spelling, and those whose path is known under
        another prefix only.
        """
        known, elsewhere = np.zeros(len(locations), np.bool_), np.zeros(len(locations), np.bool_)
        if not len(locations):
            return known, elsewhere
        for prefix, paths, here in self.rule.split(locations):
            same, other = self._of_paths(prefix, paths)
            place = slice(None) if here is None else here
            known[place], elsewhere[place] = same, other & ~same
        return known, elsewhere

    def _of_paths(self, prefix: str, paths: pa.Array) -> tuple[Flags, Flags]:
        keys = text_keys(paths)
        same, other = self._lookup(prefix, keys)
        unmatched = np.flatnonzero(~same).tolist()
        respelled = [
            (n, spelled)
            for n in unmatched
            for spelled in self._other_spellings(prefix, paths[n].as_py())
        ]
        if respelled:
            rows = np.array([n for n, _ in respelled])
            respelled_same, respelled_other = self._lookup(
                prefix, text_keys(column([text for _, text in respelled], pa.string()))
            )
            same[rows[respelled_same]] = True
            other[rows[respelled_other]] = True
        return same, other

    def _other_spellings(self, prefix: str, path: str) -> Iterator[str]:
        if (plain := _plain(path)) != path:
            yield plain
        if prefix == "" and (real := self._real.of(path)) != path:
            yield real

    def _lookup(self, prefix: str, keys: Keys) -> tuple[Flags, Flags]:
        same, other = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
        for known_as, path_keys in self._keys().items():
            hit = among(keys, path_keys)
            if known_as in (prefix, ""):  # a location without a scheme is wherever the table is
                same |= hit
            else:
                other |= hit
        return same, other

    def prefixes_of(self, location: str) -> list[str]:
        """Return the prefixes under which the path of a location is known."""
        ((_, paths, _),) = self.rule.split(column([location], pa.string()))
        return [
            prefix
            for prefix, path_keys in self._keys().items()
            if among(text_keys(paths), path_keys).any()
        ]
