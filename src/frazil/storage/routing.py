"""Route each location to the store of its scheme. A table may have files in several stores
(`write.data.path`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.fs

from frazil.errors import CorruptData, Unsupported
from frazil.storage.base import Entries, Failures, FileInfo, Names, Storage, frozen_properties
from frazil.storage.credentials.aws import aws_credentials, chooses_aws
from frazil.storage.credentials.parties import MARKS, TRUSTED
from frazil.storage.credentials.precedence import is_for
from frazil.storage.credentials.vended import CredentialsSource
from frazil.storage.hdfs.hdfs import HdfsStorage
from frazil.storage.hdfs.hdfs_options import PREFIXES, HdfsSettings, of_files
from frazil.storage.local import LocalStorage
from frazil.storage.locations import check_location, scheme_of
from frazil.storage.memory import MemoryStorage
from frazil.storage.objects.objects import OBJECT_SCHEMES, ObjectStorage
from frazil.storage.objects.s3_signatures import KeySigner
from frazil.storage.objects.signed import SignedStorage, Signer

REMOTE_SCHEMES = OBJECT_SCHEMES | {"hdfs"}
"""Schemes of stores that are waited for: more files are read at a time from them than there are
cores.
"""
_LOCAL = LocalStorage()


@dataclass(frozen=True)
class RoutedStorage(Storage):
    """Pass every call on to the store of the location's scheme. The properties hold secrets, so
    they are not shown.

    `vended`: the source of credentials that expire (see `vended`); they override the properties.
    `signer`: who signs requests to S3. `ends`: whether the properties hold a token of the catalog's
    server, which ends though no time is told. `by_prefix`: what counts in place of all these for
    locations that begin with a prefix, the longest first; None: these themselves.
    """

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    vended: CredentialsSource | None = field(default=None, repr=False)
    signer: Signer | None = field(default=None, repr=False)
    ends: bool = False
    by_prefix: tuple[tuple[str, RoutedStorage | None], ...] = field(default=(), repr=False)

    def of(self, location: str) -> Storage:
        """Return the store of a location."""
        if location[:1] == "/":
            return _LOCAL
        chosen = for_prefix_of(self, location)
        scheme, vended = scheme_of(location), chosen.vended
        if (
            scheme == "s3"
            and chosen.signer is None
            and (vended is None or chooses_aws(dict(chosen.properties)))
        ):
            vended = (
                aws_credentials(dict(chosen.properties)) or vended
            )  # keys that the catalog vends have dropped what chooses others
        return _store_for(scheme, chosen.properties, vended, chosen.signer)

    def local_path(self, location: str) -> str | None:
        return self.of(location).local_path(location)

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        return self.of(location).arrow(location)

    def read(self, location: str) -> bytes:
        return self.of(location).read(location)

    def read_start(self, location: str, size: int) -> bytes:
        return self.of(location).read_start(location, size)

    def open_input(self, location: str) -> pa.NativeFile:
        return self.of(location).open_input(location)

    def open_output(self, location: str, *, overwrite: bool = False) -> AbstractContextManager[Any]:
        return self.of(location).open_output(location, overwrite=overwrite)

    def write(
        self,
        location: str,
        data: bytes,
        overwrite: bool = False,
        *,
        durable: bool = True,
        synced: bool = True,
    ) -> None:
        self.of(location).write(location, data, overwrite, durable=durable, synced=synced)

    def publish(self, location: str, data: bytes) -> bool:
        return self.of(location).publish(location, data)

    def exists(self, location: str) -> bool:
        return self.of(location).exists(location)

    def size(self, location: str) -> int:
        return self.of(location).size(location)

    def delete(self, location: str) -> None:
        self.of(location).delete(location)

    def delete_many(self, locations: Iterable[str]) -> Failures:
        groups: dict[tuple[str, int], list[str]] = {}
        for location in locations:
            groups.setdefault((scheme_of(location), id(for_prefix_of(self, location))), []).append(
                location
            )
        return [
            failed for group in groups.values() for failed in self.of(group[0]).delete_many(group)
        ]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return self.of(prefix).list(prefix)

    def entries(self, directory: str) -> Entries:
        return self.of(directory).entries(directory)

    def names(self, directory: str, after: str = "") -> Names:
        return self.of(directory).names(directory, after)

    def directories(self, directory: str) -> Names:
        return self.of(directory).directories(directory)

    def is_directory(self, location: str) -> bool:
        return self.of(location).is_directory(location)

    def make_directory(self, location: str) -> None:
        self.of(location).make_directory(location)

    def remove_directory(self, location: str) -> bool:
        return self.of(location).remove_directory(location)

    def delete_tree(self, location: str) -> None:
        self.of(location).delete_tree(location)


@functools.lru_cache(maxsize=64)
def _store_for(
    scheme: str,
    properties: tuple[tuple[str, str], ...],
    vended: CredentialsSource | None,
    signer: Signer | None = None,
) -> Storage:
    makers: dict[str, Callable[[], Storage]] = {"file": LocalStorage, "memory": MemoryStorage}
    if scheme in makers:
        return makers[scheme]()
    if scheme == "s3" and signer is not None:
        return SignedStorage(scheme, properties, None, signer)
    if scheme == "s3" and "s3.acl" in dict(properties):  # which obstore cannot send
        return SignedStorage(scheme, properties, vended, KeySigner(properties, vended))
    if scheme in OBJECT_SCHEMES:
        return ObjectStorage(scheme, properties, vended)
    if scheme == "hdfs":
        return HdfsStorage(tuple((k, v) for k, v in properties if k.startswith(PREFIXES)))
    supported = "Supported are local paths, file:, memory:, hdfs:, s3:, gs: and abfss:."
    raise Unsupported(f"Frazil has no storage for {scheme}: locations.", hint=supported)


def storage_for(
    location: str,
    properties: Mapping[str, str] | None = None,
    vended: CredentialsSource | None = None,
) -> Storage:
    """Return the storage of a location, with the catalog's properties (`s3.*`, `gcs.*`, `adls.*`,
    `hdfs.*`, `hadoop.*`) and the credentials that it vends. Raises Unsupported for other schemes.
    """
    return checked(routed(properties or {}, vended), location)


def routed(
    properties: Mapping[str, str],
    vended: CredentialsSource | None = None,
    *,
    signer: Signer | None = None,
    ends: bool = False,
) -> RoutedStorage:
    """Return the storage with a catalog's properties, the credentials that it vends, or what signs
    requests to S3 in place of them. `ends`: whether a token among the properties ends at a time
    that nobody told."""
    return RoutedStorage(_storage_properties(properties), vended, signer, ends)


def checked(storage: RoutedStorage, location: str) -> RoutedStorage:
    """Check a location, and return the storage in which it is. Raises Unsupported for schemes
    without one.
    """
    check_location(location)
    storage.of(location)
    return storage


def for_prefix_of(storage: RoutedStorage, location: str) -> RoutedStorage:
    """Return the storage by whose credentials a location is reached: those of the longest prefix
    with which it begins.
    """
    return (
        next(
            (of_prefix for prefix, of_prefix in storage.by_prefix if is_for(prefix, location)), None
        )
        or storage
    )


def storages_by_prefix(storage: Storage) -> tuple[RoutedStorage, ...]:
    """Return a storage and those of the prefixes for which it has other credentials."""
    return (
        (storage, *(of_prefix for _, of_prefix in storage.by_prefix if of_prefix))
        if isinstance(storage, RoutedStorage)
        else ()
    )


def asks_catalog(storage: Storage) -> bool:
    """Tell whether a storage asks its catalog for new credentials before the old ones expire, or to
    sign its requests.
    """
    return isinstance(storage, RoutedStorage) and (
        storage.vended is not None or storage.signer is not None
    )


def lasting_properties(storage: Storage, location: str) -> tuple[tuple[str, str], ...] | None:
    """Return the properties by which a storage's file can be read at any time, be they the
    catalog's own or vended with the table, as keys without a token are; None where credentials
    expire or requests are signed. They hold secrets."""
    if isinstance(storage, RoutedStorage):
        storage = for_prefix_of(storage, location)
    ends = isinstance(storage, RoutedStorage) and storage.ends
    return None if ends or asks_catalog(storage) else catalog_properties(storage)


def catalog_properties(storage: Storage) -> tuple[tuple[str, str], ...]:
    """Return the catalog's properties that a storage was made with (`s3.endpoint`, …); they hold
    secrets.
    """
    return storage.properties if isinstance(storage, RoutedStorage) else ()


def hdfs_settings_of(storage: Storage, location: str) -> HdfsSettings | None:
    """Return the settings with which a storage opens a location in HDFS; None where it is no
    storage of HDFS.
    """
    while isinstance(storage, RoutedStorage):
        storage = storage.of(location)
    return storage.settings() if isinstance(storage, HdfsStorage) else None


def _storage_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Keep only the properties that stores read, so that equal ones share a client and other
    secrets do not travel with tasks. Hadoop's configuration files of this process are added, since
    workers may have none."""
    prefixes = ("s3.", "gcs.", "adls.", "client.", MARKS, TRUSTED, *PREFIXES)
    store_properties = {
        k: v
        for k, v in properties.items()
        if k.startswith(prefixes) and k != "hadoop.rpc.protection"
    }  # of the metastore
    return frozen_properties({**of_files(), **store_properties})


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
