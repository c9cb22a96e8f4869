"""Describe snapshots, refs, logs and the statistics files of snapshots (spec, "Snapshots",
"Snapshot Retention Policy", "Table Statistics"). Statistics files have PyIceberg's names here;
metadata holds them as their JSON objects.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import compress, count, repeat
from typing import Any, cast, overload

from frazil.spec.shown import LINES, html_table, time_text

MAIN_BRANCH = "main"


class SnapshotOperation(StrEnum):
    """Name the operations of snapshots, by what they did to the files of the table (spec,
    "Snapshots").
    """

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


class SnapshotRefType(StrEnum):
    """Name the kinds of refs: branches and tags."""

    BRANCH = "branch"
    TAG = "tag"


class Summary(dict[str, str]):
    """Hold the summary of a snapshot, texts by name; `operation` is one of them."""

    @property
    def operation(self) -> SnapshotOperation | str | None:
        """Return the operation: None where the writer left it out; a text that the spec does not
        know is returned as it is.
        """
        text = self.get("operation")
        return SnapshotOperation(text) if text in _OPERATIONS else text

    @property
    def additional_properties(self) -> dict[str, str]:
        """Return all properties of the summary but the operation."""
        return {k: v for k, v in self.items() if k != "operation"}


_OPERATIONS = frozenset(SnapshotOperation)


@dataclass(frozen=True)
class Snapshot:
    """Describe one state of the table, by its `snapshot_id`. `timestamp_ms`: milliseconds since
    1970 at which it was committed. `parent_snapshot_id`: the state before, None for the first.
    `sequence_number`: 0 in v1. `manifest_list`: its location; `manifests` is set only in old v1
    tables. `schema_id`: the schema at the time, None: the writer did not say. `summary` holds
    `operation` and the counts, all strings. `first_row_id`, `added_rows`: the row ids that it gave
    (v3), else None. `key_id`: the key of an encrypted manifest list. `extra` holds unknown JSON
    keys."""

    snapshot_id: int
    timestamp_ms: int
    manifest_list: str | None = None
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    summary: Summary = field(default_factory=Summary, hash=False)
    schema_id: int | None = None
    manifests: tuple[str, ...] | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.summary, Summary):
            object.__setattr__(self, "summary", Summary(self.summary))

    @property
    def operation(self) -> str | None:
        """Return what the snapshot did: append, replace, overwrite or delete; None: its writer left
        it out."""
        return self.summary.get("operation")

    def has_statistics_of(self, writer: str) -> bool:
        """Tell whether this library gathered the statistics of the files that the snapshot added:
        it committed the snapshot, and did not cherry-pick a snapshot that another library had
        staged."""
        return (
            self.summary.get("iceberg-version", "").startswith(f"{writer} ")
            and "source-snapshot-id" not in self.summary
        )

    def __str__(self) -> str:
        parent = (
            f", parent_id={self.parent_snapshot_id}" if self.parent_snapshot_id is not None else ""
        )
        return f"{self.operation}: id={self.snapshot_id}{parent}, schema_id={self.schema_id}"


class Snapshots(Sequence[Snapshot]):
    """Hold an immutable list of snapshots that decodes its items when they are asked for, and
    encodes each once: a table has thousands, a scan needs one, a commit adds one.

    `ids` are known for all; of each item the Snapshot, its JSON text, or both (`decode` makes the
    one of the other, `texts` the other way).
    """

    __slots__ = ("_decode", "_index", "_known", "_texts", "ids")

    def __init__(
        self,
        ids: Iterable[int] = (),
        known: Iterable[Snapshot | None] = (),
        texts: Iterable[bytes | None] = (),
        decode: Callable[[bytes], Snapshot] | None = None,
        index: dict[int, int] | None = None,
    ):
        self.ids, self._known, self._texts, self._decode = (
            tuple(ids),
            list(known),
            list(texts),
            decode,
        )
        self._index = index

    @classmethod
    def of(cls, snapshots: Iterable[Snapshot]) -> Snapshots:
        items = list(snapshots)
        return cls((s.snapshot_id for s in items), items, [None] * len(items))

    @classmethod
    def read(
        cls, ids: Iterable[int], texts: Sequence[bytes], decode: Callable[[bytes], Snapshot]
    ) -> Snapshots:
        return cls(ids, [None] * len(texts), texts, decode)

    def texts(self, encode: Callable[[Snapshot], bytes]) -> list[bytes]:
        """Return the JSON text of each snapshot: as it was read or written before, else by
        `encode`.
        """
        # A commit adds one to thousands that are written out already, so these are passed over
        # without a step of Python for each.
        for i in compress(count(), map(operator.is_, self._texts, repeat(None))):
            self._texts[i] = encode(self._snapshot_at(i))
        return cast("list[bytes]", self._texts.copy())

    def _snapshot_at(self, position: int) -> Snapshot:
        item = self._known[position]
        if item is None:
            text = self._texts[position]
            assert text is not None and self._decode is not None
            item = self._known[position] = self._decode(text)
        return item

    @overload
    def __getitem__(self, position: int) -> Snapshot: ...
    @overload
    def __getitem__(self, position: slice) -> list[Snapshot]: ...
    def __getitem__(self, position: int | slice) -> Snapshot | list[Snapshot]:
        if isinstance(position, slice):
            return [self._snapshot_at(i) for i in range(*position.indices(len(self.ids)))]
        return self._snapshot_at(position)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Snapshot]:
        return (self._snapshot_at(i) for i in range(len(self.ids)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshots) and self.ids == other.ids and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def by_id(self, snapshot_id: int | None) -> Snapshot | None:
        if self._index is None:
            self._index = {n: i for i, n in enumerate(self.ids)}
        position = self._index.get(snapshot_id) if snapshot_id is not None else None
        return None if position is None else self._snapshot_at(position)

    def adding(self, snapshot: Snapshot) -> Snapshots:
        ids, index = (
            (*self.ids, snapshot.snapshot_id),
            None if self._index is None else self._index | {snapshot.snapshot_id: len(self.ids)},
        )
        return Snapshots(ids, [*self._known, snapshot], [*self._texts, None], self._decode, index)

    def without(self, snapshot_ids: Iterable[int]) -> Snapshots:
        gone = set(snapshot_ids)
        places = [i for i, n in enumerate(self.ids) if n not in gone]
        return Snapshots(
            [self.ids[i] for i in places],
            [self._known[i] for i in places],
            [self._texts[i] for i in places],
            self._decode,
        )

    def __repr__(self) -> str:
        shown = [f"  {time_text(s.timestamp_ms)}  {s}" for s in self[-20:]]
        more = [f"  … {len(self) - len(shown)} older"] if len(self) > len(shown) else []
        return "\n".join([f"Snapshots({len(self)})", *more, *shown])

    def _repr_html_(self) -> str:
        """Show the newest snapshots as a table in notebooks, the newest first."""
        newest = self[-LINES:][::-1]
        counts = ("added-records", "total-records")
        rows = [
            (
                time_text(s.timestamp_ms),
                s.snapshot_id,
                s.operation or "",
                *(s.summary.get(c, "") for c in counts),
            )
            for s in newest
        ]
        more = (
            [(f"… {len(self) - len(newest)} older", "", "", "", "")]
            if len(self) > len(newest)
            else []
        )
        return html_table(
            ("time", "snapshot_id", "operation", "added records", "total records"), [*rows, *more]
        )


class SnapshotsLater(Snapshots):
    """Hold the snapshots that a table's refs name, and load all of them once any other is asked
    for, or the list as a whole.

    `load` returns all snapshots of the same state of the table. What must know them all, such as
    expiry, therefore always does.
    """

    __slots__ = ("_first", "_load", "_lock")
    _OF_ALL = ("_known", "_texts", "_decode", "_index", "ids")

    def __init__(self, first: Snapshots, load: Callable[[], Snapshots]):
        self._first, self._load, self._lock = first, load, threading.Lock()

    def __reduce__(self) -> Any:
        return SnapshotsLater, (self._first, self._load)

    def __getattr__(self, name: str) -> Any:
        """Load all snapshots: Python comes here for what the base class keeps of them, as long as
        it is not set.
        """
        if name not in SnapshotsLater._OF_ALL:
            raise AttributeError(name)
        with self._lock:
            try:
                return object.__getattribute__(self, name)
            except AttributeError:
                whole = self._load()
            for part in SnapshotsLater._OF_ALL:
                setattr(self, part, getattr(whole, part))
        return object.__getattribute__(self, name)

    def by_id(self, snapshot_id: int | None) -> Snapshot | None:
        if snapshot_id is None:
            return None
        snapshot = self._first.by_id(snapshot_id)
        return super().by_id(snapshot_id) if snapshot is None else snapshot


@dataclass(frozen=True)
class SnapshotRef:
    """Describe a branch or a tag: the snapshot `snapshot_id`; `type` is "branch" or "tag".

    `min_snapshots_to_keep` and `max_snapshot_age_ms` (branches) decide which of its snapshots
    expire, `max_ref_age_ms` when the ref itself does (never for main). Ages are in milliseconds;
    with None the table's defaults hold. `extra` holds unknown JSON keys.
    """

    snapshot_id: int
    type: str = "branch"
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_branch(self) -> bool:
        """Tell whether the ref is a branch; else it is a tag."""
        return self.type == "branch"

    @property
    def snapshot_ref_type(self) -> SnapshotRefType:
        """Return `type`, under PyIceberg's name for it."""
        return SnapshotRefType(self.type)


@dataclass(frozen=True)
class SnapshotLogEntry:
    timestamp_ms: int
    snapshot_id: int
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"SnapshotLogEntry({time_text(self.timestamp_ms)}, timestamp_ms={self.timestamp_ms}, snapshot_id={self.snapshot_id})"


class SnapshotLog(list[SnapshotLogEntry]):
    """Record which snapshot was current since when, oldest first; shown with one line per entry,
    the last twenty of them.
    """

    def __repr__(self) -> str:
        shown = [f"  {e}" for e in self[-20:]]
        more = [f"  … {len(self) - len(shown)} older"] if len(self) > len(shown) else []
        return "\n".join([f"SnapshotLog({len(self)})", *more, *shown])

    def _repr_html_(self) -> str:
        """Show the newest entries as a table in notebooks, the newest first."""
        newest = self[-LINES:][::-1]
        more = [(f"… {len(self) - len(newest)} older", "")] if len(self) > len(newest) else []
        return html_table(
            ("current since", "snapshot_id"),
            [*((time_text(e.timestamp_ms), e.snapshot_id) for e in newest), *more],
        )


@dataclass(frozen=True)
class MetadataLogEntry:
    timestamp_ms: int
    metadata_file: str
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"MetadataLogEntry({time_text(self.timestamp_ms)}, timestamp_ms={self.timestamp_ms}, metadata_file={self.metadata_file!r})"


@dataclass(frozen=True, kw_only=True)
class StatisticsBlob:
    """Describe one blob of a statistics file. `type`: as in `apache-datasketches-theta-v1`.
    `snapshot_id`, `sequence_number`: the state that it was computed from. `fields`: ids of its
    columns. `properties`: as in `ndv`; None: none."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: Sequence[int]
    properties: dict[str, str] | None = None

    def to_object(self) -> dict[str, Any]:
        """Return the blob as the spec's JSON object."""
        obj: dict[str, Any] = {
            "type": self.type,
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "fields": list(self.fields),
        }
        return obj if self.properties is None else {**obj, "properties": dict(self.properties)}


@dataclass(frozen=True, kw_only=True)
class StatisticsFile:
    """Describe a Puffin file with statistics of the snapshot `snapshot_id`: its location
    (`statistics_path`), `file_size_in_bytes`, `file_footer_size_in_bytes`, and its blobs
    (`blob_metadata`). `key_metadata`: of an encrypted file, else None."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: Sequence[StatisticsBlob] = field(default=())
    key_metadata: str | None = None

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object of the spec."""
        obj: dict[str, Any] = {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
            "file-footer-size-in-bytes": self.file_footer_size_in_bytes,
            "blob-metadata": [b.to_object() for b in self.blob_metadata],
        }
        return obj if self.key_metadata is None else {**obj, "key-metadata": self.key_metadata}


@dataclass(frozen=True, kw_only=True)
class PartitionStatisticsFile:
    """Describe a file with counts per partition at the snapshot `snapshot_id`: its location
    (`statistics_path`) and `file_size_in_bytes`."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object of the spec."""
        return {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
        }
