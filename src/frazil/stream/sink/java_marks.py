"""Find the batches of a query that Java Iceberg's sink has committed: Java notes the query and the
batch in the summaries of snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.commit.done_once import Txn
from frazil.commit.produce import parent_of
from frazil.errors import ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TXN_MARK

QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


@dataclass(frozen=True)
class JavaMark:
    """Name the last batch of a query that is in the history of a branch, and its snapshot."""

    number: int
    snapshot_id: int


def java_mark(metadata: TableMetadata, branch: str, txn: Txn) -> JavaMark | None:
    """Return the mark of a batch that is committed, or passed over by `on_rewind`; None: the batch
    is to be written.

    The summaries say nothing after their snapshots have expired, so this is only asked for queries
    without a mark of Frazil's own. Raises ValidationError for a batch before the last one, where
    the txn refuses to go back.
    """
    for snapshot in metadata.ancestors(parent_of(metadata, branch)):
        if snapshot.summary.get(QUERY) != txn.id:
            continue
        if (
            f"{TXN_MARK.prefix}id" in snapshot.summary
        ):  # Frazil's own, whose marks are in the table's properties, by branch
            return None
        number = int(snapshot.summary.get(EPOCH, "-1"))
        if number > txn.number and txn.on_rewind == "fail":
            raise ValidationError(
                f"Batch {txn.number} of the streaming query {txn.id} comes after batch {number}, which is committed.",
                hint="on-rewind=skip passes over batches up to that one, on-rewind=rewrite writes them again.",
                table=metadata.location,
                snapshot_id=snapshot.snapshot_id,
            )
        is_done = number == txn.number or (number > txn.number and txn.on_rewind == "skip")
        return JavaMark(number, snapshot.snapshot_id) if is_done else None
    return None
