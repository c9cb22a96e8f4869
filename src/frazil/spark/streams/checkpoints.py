"""Read the checkpoint of a streaming query, wherever it is: what its batches read, for the digests
of their marks.
"""

from __future__ import annotations

from frazil.errors import NoSuchFileError
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN
from frazil.spark.host.jvm_plans import checkpoint_of, running_query
from frazil.spark.host.jvm_reads import read_text
from frazil.storage.local import LocalStorage
from frazil.storage.locations import absolute, join, scheme_of
from frazil.stream.sink.offsets import batch_digest


def digest_of_batch(spark: Session, query_id: str, batch_id: int) -> str | None:
    """Return the digest of the running batch of a query, whose checkpoint Spark reads; None where
    Spark does not name it.
    """
    try:
        if (query := running_query(spark, query_id)) is None:
            return None
        root = checkpoint_of(query)
        return batch_digest(batch_id, lambda path: read_text(spark, f"{root}/{path}"))
    except NOT_AS_KNOWN as error:
        loss = "A checkpoint that is restored one batch back is not noticed."
        fall_back("The checkpoint of a streaming query", error, loss)
        return None


def digest_in(checkpoint: str | None, batch_id: int) -> str | None:
    """Return the digest of a batch whose checkpoint is in a local folder; None for other
    checkpoints. For sessions that are not prepared, where batches are committed in a process
    without a JVM."""
    if checkpoint is None or scheme_of(absolute(checkpoint)) != "file":
        return None
    root, storage = absolute(checkpoint), LocalStorage()

    def read(path: str) -> str | None:
        try:
            return storage.read(join(root, path)).decode()
        except NoSuchFileError:
            return None

    return batch_digest(batch_id, read)
