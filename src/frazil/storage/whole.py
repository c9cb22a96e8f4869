"""Read files that are held in memory as a whole, such as metadata and manifests, within a bound."""

from __future__ import annotations

from frazil.errors import CorruptData
from frazil.storage.base import Storage
from frazil.storage.locations import scheme_of
from frazil.storage.routing import REMOTE_SCHEMES


def read_whole(storage: Storage, location: str, most: int, noun: str) -> bytes:
    """Read a file of at most `most` bytes. Raises CorruptData for a longer one, before more than
    that is held.

    `noun`: what the file is, for the message.
    """
    if storage.local_path(location) is not None:
        if storage.size(location) > most:
            raise _too_long(location, most, noun)
        return storage.read(location)
    data = (
        storage.read_start(location, most + 1)
        if scheme_of(location) in REMOTE_SCHEMES
        else storage.read(location)
    )
    if len(data) > most:
        raise _too_long(location, most, noun)
    return data


def _too_long(location: str, most: int, noun: str) -> CorruptData:
    text = f"The {noun} {location} is longer than {most >> 20:,} MB, which is more than it can be."
    return CorruptData(text, hint="The file is damaged or hostile.", file=location)
