"""Keep the state of partition commit, which partitions are pending and which are done, in one table
property per branch, as compact JSON.

The property holds the pending partitions, the newest done ones, the watermark, and the names of
archive files with older done partitions (see `archive`). A property survives the expiry and
rollback of snapshots, and a commit sets it together with the rows that it describes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from frazil.errors import CorruptData
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import PARTITION_COMMIT
from frazil.spec.snapshot import SnapshotRef
from frazil.spec.updates import SetProperties, SetSnapshotRef, Update
from frazil.stream.partitions.fields import Partition

VERSION = 1


@dataclass(frozen=True)
class Pending:
    """Hold a partition that is to be committed. `commits`: how many commits have written to it
    since it was last done.
    """

    first_ms: int
    last_ms: int
    commits: int = 1

    def again(self, now_ms: int) -> Pending:
        return replace(self, last_ms=max(self.last_ms, now_ms), commits=self.commits + 1)


@dataclass(frozen=True)
class Done:
    """Hold a partition that was committed, `times` times. `late_ms`: when the first data after the
    last commit came; None: none came.
    """

    committed_ms: int
    watermark_ms: int | None = None
    snapshot_id: int | None = None
    times: int = 1
    late_ms: int | None = None


@dataclass(frozen=True)
class Archive:
    """Name a file of done partitions, which lie between two keys (see `key`)."""

    file: str
    low: str
    high: str


@dataclass(frozen=True)
class PartitionState:
    """Hold the state of partition commit of one branch. `done`: the newest done partitions, in the
    order of their commits. `looked_at`: the snapshot up to which the changes of all writers are in
    it; None: it is of a version of Frazil that looked at a stream's own alone."""

    pending: Mapping[Partition, Pending] = field(default_factory=dict)
    done: Mapping[Partition, Done] = field(default_factory=dict)
    archives: tuple[Archive, ...] = ()
    watermark_ms: int | None = None
    looked_at: int | None = None


def key(partition: Partition) -> str:
    """Return the text by which partitions are ordered."""
    return json.dumps([partition.spec_id, partition.values])


def property_name(branch: str) -> str:
    return f"{PARTITION_COMMIT.prefix}state@{quote(branch, safe='')}"


def state_of(metadata: TableMetadata, branch: str) -> PartitionState:
    """Read the state of a branch; empty when partition commit was never used. Raises
    ValidationError, CorruptData.
    """
    name = property_name(branch)
    text = metadata.properties.get(name)
    return (
        PartitionState()
        if text is None
        else decode(PARTITION_COMMIT.parse(name, text), f"table property {name}")
    )


def updates_to(state: PartitionState, metadata: TableMetadata, branch: str) -> Sequence[Update]:
    """Return the updates that store the state of a branch.

    The updates also set the branch to its present snapshot. So a catalog that only checks
    requirements refuses the state after another writer's commit, which may have changed it, has
    moved the branch.
    """
    head = metadata.refs.get(branch)
    if head is None and branch == "main" and metadata.current_snapshot_id is not None:
        head = SnapshotRef(metadata.current_snapshot_id)
    guard = () if head is None else (SetSnapshotRef(branch, head),)
    return (*guard, *stored(state, branch))


def stored(state: PartitionState, branch: str) -> Sequence[Update]:
    """Return the update that stores the state in a commit that moves the branch anyway."""
    return (
        SetProperties({property_name(branch): json.dumps(encode(state), separators=(",", ":"))}),
    )


def encode(state: PartitionState) -> dict[str, Any]:
    """Encode the state as JSON values: partitions as [spec id, [values], …]."""
    return {
        "version": VERSION,
        "watermark": state.watermark_ms,
        "pending": [
            [k.spec_id, k.values, p.first_ms, p.last_ms, p.commits]
            for k, p in state.pending.items()
        ],
        "done": encode_done(state.done),
        "archives": [[a.file, a.low, a.high] for a in state.archives],
        "looked-at": state.looked_at,
    }


def encode_done(done: Mapping[Partition, Done]) -> list[Any]:
    return [
        [k.spec_id, k.values, d.committed_ms, d.watermark_ms, d.snapshot_id, d.times, d.late_ms]
        for k, d in done.items()
    ]


def decode(values: Mapping[str, Any], where: str) -> PartitionState:
    """Decode the state from the values that `encode` makes. Raises CorruptData, which names the
    place, for any other value.
    """
    if values.get("version") != VERSION:
        raise CorruptData(
            f"The state of partition commit in {where} has version {values.get('version')!r}; {VERSION} is known."
        )
    try:
        pending = {
            _partition(s, v): Pending(_whole(first), _whole(last), _whole(n))
            for s, v, first, last, n in values["pending"]
        }
        archives = tuple(
            Archive(_text(f), _text(low), _text(high)) for f, low, high in values["archives"]
        )
        watermark, looked_at = (
            _whole_or_none(values["watermark"]),
            _whole_or_none(values.get("looked-at")),
        )
        return PartitionState(pending, decode_done(values["done"]), archives, watermark, looked_at)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptData(f"The state of partition commit in {where} is damaged: {e!r}.") from e


def decode_done(entries: Iterable[Any]) -> dict[Partition, Done]:
    """Decode done partitions. Raises TypeError, ValueError."""
    return {
        _partition(spec, values): Done(
            _whole(done_ms),
            _whole_or_none(mark),
            _whole_or_none(snapshot),
            _whole(times),
            _whole_or_none(late),
        )
        for spec, values, done_ms, mark, snapshot, times, late in entries
    }


def _partition(spec_id: object, values: object) -> Partition:
    if not isinstance(values, list) or not all(v is None or isinstance(v, str) for v in values):
        raise TypeError(values)
    return Partition(_whole(spec_id), tuple(values))


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
