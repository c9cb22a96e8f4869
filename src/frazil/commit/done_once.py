"""Do a write once however often it is sent (exactly-once, `txn=(id, number)`): set the mark of a write, and look for it.

The commit that makes a write's rows visible also sets a table property, the mark: the number of the last write of this id on this branch.
Every attempt looks for the mark in the metadata that it starts from, so that a write sent twice is found out by whichever attempt comes
second, on whatever machine. A property outlives the snapshot: expiry and rollback, by any engine, leave the mark where it is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from frazil.commit.context import Context
from frazil.errors import InvalidInput
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TXN_MARK
from frazil.spec.updates import RemoveProperties, SetProperties, Update

log = logging.getLogger(__name__)
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Txn:
    """`id`: who writes (a job, a streaming query); `number`: which of its writes this is. Numbers of an id rise from write to write."""

    id: str
    number: int

    @property
    def summary(self) -> dict[str, str]:
        """What the snapshot's summary tells of it. The mark decides, the summary is for people."""
        return {f"{TXN_MARK.prefix}id": self.id, f"{TXN_MARK.prefix}number": str(self.number)}


@dataclass(frozen=True)
class AlreadyDone:
    """What an action answers when its commit was done before. `snapshot_id`: where; None: it had changed no rows."""

    txn: Txn
    branch: str
    number: int
    """The last one that was done, at least the txn's own."""
    snapshot_id: int | None


def txn_of(given: Any) -> Txn | None:
    """The `txn=` of a caller. Raises InvalidInput for what is no pair of a text and a whole number from 0 to 2^63 - 1."""
    if given is None or isinstance(given, Txn):
        return given
    match given:
        case (str() as id_, int() as number) if id_ and not isinstance(number, bool) and 0 <= number <= LARGEST:
            return Txn(id_, number)
    raise InvalidInput(f"txn is a pair of a name and a whole number, not {given!r}.", hint='For example txn=("my-app", 17).')


def mark_name(id_: str, branch: str) -> str:
    """The table property that holds the mark of a writer on a branch."""
    return f"{TXN_MARK.prefix}{quote(id_, safe='')}@{quote(branch, safe='')}"


def already_done(metadata: TableMetadata, txn: Txn, branch: str) -> AlreadyDone | None:
    """Whether this state of the table has seen the write, or a later one of the same id.

    Raises ValidationError when the mark's property was changed into something else.
    """
    name = mark_name(txn.id, branch)
    text = metadata.properties.get(name)
    if text is None:
        return None
    number, snapshot_id = TXN_MARK.kind.parse(name, text)
    return AlreadyDone(txn, branch, number, snapshot_id) if number >= txn.number else None


def tell(done: AlreadyDone, table: str, metadata: TableMetadata) -> None:
    """Log that a write was left out: loudly where that may surprise, for a later number was done or the rows are on the branch no more."""
    text = f"Table {table}: txn {done.txn.id} {done.txn.number} is done already on branch {done.branch}"
    if done.number > done.txn.number:
        log.warning("%s, as is %d: numbers of an id must rise. Nothing was written.", text, done.number)
    elif done.snapshot_id is not None and _rolled_back(metadata, done):
        log.warning(
            "%s, in snapshot %d, but the branch was rolled back since. Nothing was written; to do it again, use another number, or remove "
            "the table property %s.", text, done.snapshot_id, mark_name(done.txn.id, done.branch),
        )  # fmt: skip
    else:
        log.info("%s, in snapshot %s. Nothing was written.", text, done.snapshot_id)


def _rolled_back(metadata: TableMetadata, done: AlreadyDone) -> bool:
    """Whether the mark's snapshot is there and no ancestor of the branch. One that has expired may be either."""
    if metadata.snapshots.by_id(done.snapshot_id or 0) is None:
        return False
    head = metadata.ref_snapshot(done.branch) if done.branch in metadata.refs else metadata.current_snapshot()
    return not any(s.snapshot_id == done.snapshot_id for s in metadata.ancestors(head))


def without_marks(metadata: TableMetadata, branch: str) -> Sequence[Update]:
    """Removes the marks of a branch that goes: one that is made under the same name later has not seen the writes."""
    names = tuple(_marks_of(metadata, branch))
    return (RemoveProperties(names),) if names else ()


def moved_marks(metadata: TableMetadata, branch: str, new_name: str) -> Sequence[Update]:
    """Gives the marks of a branch to its new name."""
    marks = _marks_of(metadata, branch)
    if not marks:
        return ()
    renamed = {f"{name.rpartition('@')[0]}@{quote(new_name, safe='')}": mark for name, mark in marks.items()}
    return (*without_marks(metadata, branch), SetProperties(renamed))


def _marks_of(metadata: TableMetadata, branch: str) -> dict[str, str]:
    ending = f"@{quote(branch, safe='')}"
    return {n: text for n, text in metadata.properties.items() if n.startswith(TXN_MARK.prefix) and n.endswith(ending)}


@dataclass(frozen=True)
class DoneOnce:
    """The first action of a commit with a txn: answers AlreadyDone where one of its branches has the mark."""

    txn: Txn
    branches: tuple[str, ...]

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update] | AlreadyDone:
        found: Iterable[AlreadyDone | None] = (already_done(metadata, self.txn, b) for b in self.branches)
        return next((done for done in found if done is not None), ())


@dataclass(frozen=True)
class SetMarks:
    """The last action of a commit with a txn: sets the mark on each of its branches, also when no rows changed."""

    txn: Txn
    branches: tuple[str, ...]

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        made = [i for i in context.snapshot_ids() if metadata.snapshots.by_id(i) is not None]
        mark = json.dumps({"number": self.txn.number, "snapshot-id": made[-1] if made else None})
        return (SetProperties({mark_name(self.txn.id, branch): mark for branch in self.branches}),)
