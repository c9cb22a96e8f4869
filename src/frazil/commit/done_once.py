"""Make writes idempotent by `txn=(id, number)`: a write that is sent again, after a retry or a
restart, is committed only once.

The commit that adds the rows of a write also sets a table property, the mark: the number of the
last write with this id on this branch. Every attempt looks for the mark in the metadata that it
starts from, so that of two attempts the second finds it, on any machine. The mark is a table
property, not a part of the snapshot, so that expiry and rollback by any engine leave it in place.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from frazil.commit.context import Context
from frazil.errors import InvalidInput, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import PARTITION_COMMIT, TXN_MARK
from frazil.spec.updates import RemoveProperties, SetProperties, Update

log = logging.getLogger(__name__)
LARGEST = 2**63 - 1


REWINDS = ("skip", "fail", "rewrite")


@dataclass(frozen=True)
class Txn:
    """Identify a write. `id`: the writer (a job, a streaming query); `number`: the number of the
    write, which rises from write to write.

    `on_rewind`: what becomes of a write whose number is below that of the mark, as the batches of a
    stream have after its checkpoint was restored from a backup: "skip" takes it as done, "fail"
    refuses it, "rewrite" does it again and sets the mark back to its number. `digest`: of what the
    write consists of. A write with the mark's number and another digest is not the one that was
    done, but one of a writer that was set back, too. None: unknown; the number alone decides.
    """

    id: str
    number: int
    on_rewind: str = "skip"
    digest: str | None = None

    @property
    def summary(self) -> dict[str, str]:
        """Return the properties for the snapshot summary, which inform people; only the mark
        decides whether a write was done.
        """
        return {f"{TXN_MARK.prefix}id": self.id, f"{TXN_MARK.prefix}number": str(self.number)}


@dataclass(frozen=True)
class AlreadyDone:
    """Report that a commit was done before. `snapshot_id`: the snapshot that it made; None: it
    changed no rows.
    """

    txn: Txn
    branch: str
    number: int
    """The number of the last write done, which is at least the number of `txn`."""
    snapshot_id: int | None
    differs: bool = False
    """Whether the write done under this number was another one."""


def txn_of(value: object) -> Txn | None:
    """Parse a caller's `txn=`: a pair, or where options are texts `name:number`. Raises InvalidInput
    unless it is a non-empty text and a whole number from 0 to 2^63 - 1.
    """
    if value is None or isinstance(value, Txn):
        return value
    pair: object = value
    if isinstance(value, str):
        name, _, digits = value.rpartition(":")
        if digits.isascii() and digits.isdigit():
            pair = (name, int(digits))
    match pair:
        case (str() as id_, int() as number) if (
            id_ and not isinstance(number, bool) and 0 <= number <= LARGEST
        ):
            return Txn(id_, number)
    hint = 'For example txn=("my-app", 17), as text "my-app:17".'
    raise InvalidInput(
        f"txn must be a pair of a name and a whole number from 0 to 2^63 - 1, not {value!r}.",
        hint=hint,
    )


def mark_name(id_: str, branch: str) -> str:
    """Return the name of the table property that holds the mark of a writer on a branch."""
    return f"{TXN_MARK.prefix}{quote(id_, safe='')}@{quote(branch, safe='')}"


def already_done(metadata: TableMetadata, txn: Txn, branch: str) -> AlreadyDone | None:
    """Look up whether this write, or a later one with the same id, was committed to the branch;
    None: it was not, or is to be done again.

    Raises ValidationError when the value of the mark's property is not a mark, and for a later one,
    or another one under the same number, where the txn refuses to go back.
    """
    name = mark_name(txn.id, branch)
    text = metadata.properties.get(name)
    if text is None:
        return None
    number, snapshot_id, digest = TXN_MARK.parse(name, text)
    differs = number == txn.number and None not in (digest, txn.digest) and digest != txn.digest
    is_rewound = number > txn.number or differs
    if is_rewound and txn.on_rewind == "fail":
        raise _rewound(metadata, txn, branch, number)
    is_done = txn.on_rewind == "skip" if is_rewound else number == txn.number
    return AlreadyDone(txn, branch, number, snapshot_id, differs) if is_done else None


def _rewound(metadata: TableMetadata, txn: Txn, branch: str, number: int) -> ValidationError:
    text = f"comes after batch {number}, which is committed on branch {branch}"
    if number == txn.number:
        text = f"is not the batch {number} that is committed on branch {branch}: it ends at other offsets of its source"
    return ValidationError(
        f"Batch {txn.number} of the streaming query {txn.id} {text}: its checkpoint was set back, or a second query goes on from a copy of "
        "it.",
        hint="Rows of these batches may be in the table already. The option on-rewind=skip passes over batches up to the one committed, "
        "on-rewind=rewrite writes them again; a new checkpoint folder begins a new query.",
        table=metadata.location,
        batch_id=txn.number,
        committed_batch_id=number,
    )


def tell(done: AlreadyDone, table: str, metadata: TableMetadata) -> None:
    """Log that a write was skipped; as a warning where a later number was done, or where the rows
    are no longer on the branch.
    """
    text = f"Table {table}: txn {done.txn.id} {done.txn.number} is done already on branch {done.branch}"
    if done.number > done.txn.number:
        log.warning(
            "%s, as is the later number %d; numbers of an id must rise. Nothing was written.",
            text,
            done.number,
        )
    elif done.differs:
        log.warning(
            "%s, but by a write that ended at other offsets: the checkpoint was set back. Nothing was written.",
            text,
        )
    elif done.snapshot_id is not None and _rolled_back(metadata, done):
        log.warning(
            "%s, in snapshot %d, but the branch was rolled back since. Nothing was written; to write again, use a higher number, or remove "
            "the table property %s.",
            text,
            done.snapshot_id,
            mark_name(done.txn.id, done.branch),
        )
    else:
        log.info("%s, in snapshot %s. Nothing was written.", text, done.snapshot_id)


def _rolled_back(metadata: TableMetadata, done: AlreadyDone) -> bool:
    """Tell whether the mark's snapshot exists but is not an ancestor of the branch. False for an
    expired one, which may be either.
    """
    if done.snapshot_id is None or metadata.snapshots.by_id(done.snapshot_id) is None:
        return False
    return not metadata.is_ancestor(done.snapshot_id, metadata.branch_head(done.branch))


def without_marks(metadata: TableMetadata, branch: str) -> Sequence[Update]:
    """Remove the marks of a branch that is removed: a later branch of the same name does not hold
    the writes, nor their partitions.
    """
    names = tuple(_marks_of(metadata, branch))
    return (RemoveProperties(names),) if names else ()


def moved_marks(metadata: TableMetadata, branch: str, new_name: str) -> Sequence[Update]:
    """Rename the marks of a branch along with the branch."""
    marks = _marks_of(metadata, branch)
    if not marks:
        return ()
    renamed = {
        f"{name.rpartition('@')[0]}@{quote(new_name, safe='')}": mark
        for name, mark in marks.items()
    }
    return (*without_marks(metadata, branch), SetProperties(renamed))


def _marks_of(metadata: TableMetadata, branch: str) -> dict[str, str]:
    ending = f"@{quote(branch, safe='')}"
    ours = (TXN_MARK.prefix, PARTITION_COMMIT.prefix)
    return {
        n: text
        for n, text in metadata.properties.items()
        if n.startswith(ours) and n.endswith(ending)
    }


@dataclass(frozen=True)
class DoneOnce:
    """Check the marks, as the first action of a commit with a txn: AlreadyDone if one of its
    branches has the mark.
    """

    txn: Txn
    branches: tuple[str, ...]

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update] | AlreadyDone:
        done_per_branch: Iterable[AlreadyDone | None] = (
            already_done(metadata, self.txn, b) for b in self.branches
        )
        return next((done for done in done_per_branch if done is not None), ())


@dataclass(frozen=True)
class SetMarks:
    """Set the marks, as the last action of a commit with a txn: one per branch, also when no rows
    changed.
    """

    txn: Txn
    branches: tuple[str, ...]

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        committed_ids = [
            i for i in context.snapshot_ids() if metadata.snapshots.by_id(i) is not None
        ]
        mark: dict[str, Any] = {
            "number": self.txn.number,
            "snapshot-id": committed_ids[-1] if committed_ids else None,
        }
        if self.txn.digest is not None:
            mark["digest"] = self.txn.digest
        return (
            SetProperties(
                {mark_name(self.txn.id, branch): json.dumps(mark) for branch in self.branches}
            ),
        )
