"""Keep the state of a folder that streams write to: the last batch of each query, pending
partitions, and one lock for all changes.

The state lies in `<path>/_frazil/`, which readers of the folder pass over: `state.json`, the locks,
`batches/` (batches that are being published), `staging/` (files that Spark is writing) and
`merges/`. `_frazil_commit.json` in the folder of a partition records when the partition was done.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from frazil.errors import CorruptData, InvalidInput, NoSuchFileError, Unsupported
from frazil.storage.local import LocalStorage, make_directories
from frazil.storage.locations import absolute, local_path_of, scheme_of
from frazil.stream.partitions.fields import FieldOfPartition, Fields, Partition
from frazil.stream.partitions.state import (
    Done,
    PartitionState,
    decode,
    decode_done,
    encode,
    encode_done,
)

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
MARK = "_frazil_commit.json"
STORAGE = LocalStorage()


@dataclass(frozen=True)
class FolderState:
    """Hold the number of the last batch of each query, with the digest of its offsets, and the
    state of partition commit. Its `done` has only partitions with late data, as the folders of the
    others tell that they are done."""

    batches: Mapping[str, int] = field(default_factory=dict)
    partitions: PartitionState = field(default_factory=PartitionState)
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Folder:
    """Name a folder and the columns by which it is partitioned."""

    path: str
    columns: tuple[str, ...]

    @property
    def fields(self) -> Fields:
        return tuple(FieldOfPartition(c) for c in self.columns)

    def place(self, *names: str) -> str:
        """Return a path below the directory of the folder's state."""
        return os.path.join(self.path, "_frazil", *names)

    def partition_path(self, partition: Partition) -> str:
        """Return the folder of a partition."""
        parts = zip(self.columns, partition.values, strict=True)
        return os.path.join(
            self.path, *(f"{escaped(c)}={HIVE_NULL if v is None else escaped(v)}" for c, v in parts)
        )

    @contextlib.contextmanager
    def locked(self, name: str = "lock") -> Iterator[None]:
        """Hold a lock of the folder inside the block. One thread of one process holds it at a time,
        and the end of the process releases it. `lock` is for changes of the folder; `announce.lock`
        is for running policies, and is taken first where both are needed."""
        make_directories(self.place())
        descriptor = os.open(self.place(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def folder_at(path: str | os.PathLike[str], columns: tuple[str, ...]) -> Folder:
    """Check the path of a folder. Raises Unsupported where files cannot be renamed and synced: only
    local and mounted disks can.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"path must be the path of a folder, not {path!r}.")
    location = absolute(os.fspath(path))
    if scheme_of(location) != "file":
        hint = "Write an Iceberg table there, which is exactly once on object stores as well."
        raise Unsupported(
            f"write_stream_files writes to local and mounted disks, not to {location}.",
            hint=hint,
            file=location,
        )
    if not columns or len(set(columns)) < len(columns):
        raise InvalidInput(
            f"partition_by names the columns of the folders, each once, not {list(columns)!r}."
        )
    return Folder(local_path_of(location), columns)


_SPECIAL = "".join(map(chr, range(1, 32))) + "\"#%'*/:=?\\\x7f{[]^"


def escaped(text: str) -> str:
    """Escape a column or a value as Spark does in the names of folders."""
    return "".join(f"%{ord(c):02X}" if c in _SPECIAL else c for c in text)


def partition_at(relative: str, columns: tuple[str, ...]) -> Partition:
    """Read the partition of a folder that Spark wrote, `dt=2026-01-01/hr=5`."""
    texts: list[str | None] = []
    for column, part in zip(columns, relative.split("/"), strict=True):
        name, _, value = part.partition("=")
        if unquote(name) != column:
            raise CorruptData(
                f"The folder {relative} is no partition by {', '.join(columns)}.", file=relative
            )
        texts.append(None if value == HIVE_NULL else unquote(value))
    return Partition(0, tuple(texts))


def read_state(folder: Folder) -> FolderState:
    """Read the state; empty for a folder that no stream wrote to. Raises CorruptData."""
    where = folder.place("state.json")
    try:
        state = json.loads(STORAGE.read(where))
        batches = {str(k): int(v) for k, v in state["batches"].items()}
        digests = {str(k): str(v) for k, v in state.get("digests", {}).items()}
        return FolderState(batches, decode(state["partitions"], where), digests)
    except NoSuchFileError:
        return FolderState()
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise CorruptData(
            f"The state of the folder's streams in {where} is damaged: {e!r}.", file=where
        ) from e


def write_state(folder: Folder, state: FolderState) -> None:
    """Replace the state in one step. The caller holds the lock."""
    body = {
        "batches": dict(state.batches),
        "partitions": encode(state.partitions),
        "digests": dict(state.digests),
    }
    STORAGE.write(
        folder.place("state.json"), json.dumps(body, separators=(",", ":")).encode(), overwrite=True
    )


def done_mark(folder: Folder, partition: Partition) -> Done | None:
    """Read the mark that a partition is done; None if it never was."""
    where = os.path.join(folder.partition_path(partition), MARK)
    try:
        mark = json.loads(STORAGE.read(where))
        return next(iter(decode_done([mark["done"]]).values()))
    except NoSuchFileError:
        return None
    except (ValueError, KeyError, TypeError, StopIteration) as e:
        hint = "Delete it: the partition then counts as never done."
        raise CorruptData(f"The mark {where} is damaged: {e!r}.", file=where, hint=hint) from e


def write_done_mark(folder: Folder, partition: Partition, done: Done) -> None:
    """Write the mark that a partition is done into its folder."""
    body = {"done": encode_done({partition: done})[0]}
    STORAGE.write(
        os.path.join(folder.partition_path(partition), MARK),
        json.dumps(body).encode(),
        overwrite=True,
    )


def file_stem(query_id: str, batch_id: int) -> str:
    """Return the text that the names of a batch's files carry."""
    return f"{quote(query_id, safe='-')}-{batch_id}"
