"""Count the totals of a snapshot whose summary lacks them (old or other writers) from its
manifests, once: the next summary has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.summary import TOTALS
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec.data_file import DataFileContent, ManifestEntryStatus
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage.base import Storage

_COLUMNS = (
    "status",
    "content",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "content_size_in_bytes",
)


def totals_before(
    parent: Snapshot | None, metadata: TableMetadata, storage: Storage
) -> Mapping[str, str] | None:
    """Return the parent's totals from its summary, and count those that it lacks. None: there is no
    parent.
    """
    if parent is None:
        return None
    missing = [name for name, _, _ in TOTALS if not parent.summary.get(name, "").isdigit()]
    if not missing:
        return parent.summary
    counted = _count(parent, metadata, storage)
    return {**parent.summary, **{name: str(counted[name]) for name in missing}}


def _count(snapshot: Snapshot, metadata: TableMetadata, storage: Storage) -> dict[str, int]:
    totals = dict.fromkeys((name for name, _, _ in TOTALS), 0)
    for manifest in manifests_of(metadata, snapshot, storage):
        table = read_manifest(storage, manifest, columns=_COLUMNS)
        live = table.filter(pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED)))
        content = live["content"]
        totals["total-files-size"] += _sum(
            pc.coalesce(live["content_size_in_bytes"], live["file_size_in_bytes"])
        )
        for kind, files, rows in (
            (DataFileContent.DATA, "total-data-files", "total-records"),
            (DataFileContent.POSITION_DELETES, "total-delete-files", "total-position-deletes"),
            (DataFileContent.EQUALITY_DELETES, "total-delete-files", "total-equality-deletes"),
        ):
            of_kind = live.filter(pc.equal(content, int(kind)))
            totals[files] += len(of_kind)
            totals[rows] += _sum(of_kind["record_count"])
    return totals


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
