"""Compare the locations that a store lists with those that metadata names, where the two may spell a file differently.

A location consists of a prefix (scheme and authority) and a path. Paths are compared by 64-bit keys, with doubled slashes collapsed. What
the two sides say of the prefix decides whether equal paths are one file, or whether nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput
from frazil.maintain.path_keys import Keys, among, text_keys

Flags = npt.NDArray[np.bool_]
_PARTS = r"^(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+):)?(?://(?P<authority>[^/]*))?(?P<path>(?s:.*))$"
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss", "file": ""}
_ONE_LOCATION_IN = 1 << 16


def flattened(argument: str, given: Mapping[str, str] | None) -> dict[str, str]:
    """Return what each text is equal to, of a mapping whose keys may be lists: `{"s3n,s3a": "s3"}`. Raises InvalidInput."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{argument} is a dict as {{'a,b': 'c'}}, not {given!r}.")
    return {part.strip(): str(value).strip() for key, value in given.items() for part in str(key).split(",")}


@dataclass(frozen=True)
class PrefixRule:
    """Say which schemes and which authorities are equal; s3a, s3n and s3 are, as are a local path with and without `file:`."""

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)

    def prefix(self, scheme: str, authority: str) -> str:
        """Return one text for all equal prefixes; "" for a location of this machine, and for one without a scheme."""
        scheme = scheme.lower()
        scheme = self.schemes.get(scheme, scheme)
        scheme = _ALIASES.get(scheme, scheme)
        authority = self.authorities.get(authority, authority)
        authority = "" if scheme == "" and authority.lower() == "localhost" else authority
        return f"{scheme}://{authority}" if scheme or authority else ""

    def split(self, locations: pa.Array) -> Iterator[tuple[str, pa.Array, Flags | None]]:
        """Yield each prefix, the paths of its locations, and which of the locations these are (None: all)."""
        if pc.all(pc.starts_with(locations, "/")).as_py() and not pc.any(pc.starts_with(locations, "//")).as_py():
            yield "", _collapsed(locations), None
            return
        scheme, authority, path = pc.extract_regex(locations, _PARTS).flatten()
        both = pc.binary_join_element_wise(scheme.fill_null(""), authority.fill_null(""), "\n").dictionary_encode()
        numbers = np.asarray(both.indices)
        by_prefix: dict[str, list[int]] = {}
        for number, text in enumerate(both.dictionary.to_pylist()):
            by_prefix.setdefault(self.prefix(*text.split("\n", 1)), []).append(number)
        for prefix, found in by_prefix.items():
            here = np.isin(numbers, found)
            chosen = path if here.all() else path.filter(pa.array(here))
            yield prefix, _collapsed(chosen), None if here.all() else here


def _collapsed(paths: pa.Array) -> pa.Array:
    odd = pc.or_(pc.match_substring(paths, "//"), pc.match_substring(paths, "/./"))
    return pc.replace_substring_regex(paths, r"/(?:\.?/)+", "/") if pc.any(odd).as_py() else paths


class KnownLocations:
    """Hold the keys of the locations that metadata names, by prefix, eight bytes each."""

    def __init__(self, rule: PrefixRule):
        self.rule = rule
        self._parts: dict[str, list[Keys]] = {}
        self._encoded: dict[str, list[Keys]] = {}  # keys of the decoded paths of those that hold a %
        self._sorted: dict[str, Keys] = {}

    def add(self, locations: pa.Array) -> None:
        """Add locations as metadata spells them."""
        for start in range(0, len(locations), _ONE_LOCATION_IN):
            for prefix, paths, _ in self.rule.split(locations.slice(start, _ONE_LOCATION_IN)):
                self._parts.setdefault(prefix, []).append(text_keys(paths))
                with_percent = paths.filter(pc.match_substring(paths, "%"))
                if len(with_percent):
                    decoded = [unquote(path) for path in with_percent.to_pylist()]
                    self._encoded.setdefault(prefix, []).append(text_keys(pa.array(decoded, pa.string())))
        self._sorted = {}

    def _keys(self) -> dict[str, Keys]:
        if not self._sorted:
            self._sorted = {p: np.unique(np.concatenate([*parts, *self._encoded.get(p, [])])) for p, parts in self._parts.items()}
            self._parts = {prefix: [keys] for prefix, keys in self._sorted.items()}
            self._encoded = {}
        return self._sorted

    def compare(self, locations: pa.Array) -> tuple[Flags, Flags]:
        """Mark the locations that are known, and those whose path is known under another prefix only. A location counts as known also when
        only one of the two sides is percent-encoded."""
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
        left = np.flatnonzero(~same)
        encoded = [(n, unquote(text)) for n in left.tolist() if "%" in (text := paths[n].as_py())] if len(left) else []
        if encoded:
            at = np.array([n for n, _ in encoded])
            more, more_other = self._lookup(prefix, text_keys(pa.array([text for _, text in encoded], pa.string())))
            same[at] |= more
            other[at] |= more_other
        return same, other

    def _lookup(self, prefix: str, keys: Keys) -> tuple[Flags, Flags]:
        same, other = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
        for known_as, known in self._keys().items():
            hit = among(keys, known)
            if known_as in (prefix, ""):  # a location without a scheme is wherever the table is
                same |= hit
            else:
                other |= hit
        return same, other

    def prefixes_of(self, location: str) -> list[str]:
        """Return the prefixes under which the path of a location is known."""
        ((_, paths, _),) = self.rule.split(pa.array([location], pa.string()))
        return [prefix for prefix, known in self._keys().items() if among(text_keys(paths), known).any()]
