"""Report the metrics of scan planning: manifests and files that were read and skipped, as in Java's
ScanReport.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.building import scalar
from frazil.scan.deletes import DeleteIndex
from frazil.scan.tasks import WHOLLY, PlannedFiles
from frazil.storage import Storage


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """Count what planning read and skipped, with Java's names (`_` for `-`) and the duration in
    nanoseconds, as Java's timer gives it. `table`: its location. `snapshot_id` None: the table is
    empty. `filter`: as text. Sizes are in bytes; `total_records`: rows of the files to read,
    deleted ones included.

    The last six counters are Frazil's own: data files skipped by partition values, those skipped by
    counts and bounds, and those that match wholly; data files with deletes, delete files that apply
    to some of them, and pairs of both that bounds and counts ruled out.
    """

    table: str = ""
    snapshot_id: int | None = None
    filter: str = "true"
    schema_id: int = 0
    total_planning_duration: int = 0
    result_data_files: int = 0
    result_delete_files: int = 0
    total_data_manifests: int = 0
    total_delete_manifests: int = 0
    scanned_data_manifests: int = 0
    scanned_delete_manifests: int = 0
    skipped_data_manifests: int = 0
    skipped_delete_manifests: int = 0
    total_file_size_in_bytes: int = 0
    total_delete_file_size_in_bytes: int = 0
    skipped_data_files: int = 0
    skipped_delete_files: int = 0
    indexed_delete_files: int = 0
    equality_delete_files: int = 0
    positional_delete_files: int = 0
    dvs: int = 0
    total_records: int = 0
    skipped_by_partition: int = 0
    skipped_by_statistics: int = 0
    wholly_matching_files: int = 0
    data_files_with_deletes: int = 0
    applying_delete_files: int = 0
    delete_pairs_ruled_out: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the counters under Java's dashed names."""
        return {f.name.replace("_", "-"): getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class PlannedByServer:
    """Tell that a catalog's server has planned a scan: the server, its id of the plan, the number
    of requests, and the storage that reads the planned files, by the credentials that came with the
    plan, if any."""

    server: str
    plan_id: str | None
    requests: int
    storage: Storage = field(repr=False, compare=False)


def with_files(
    report: PlanReport, groups: Sequence[PlannedFiles], by_partition: int, by_statistics: int
) -> PlanReport:
    """Add the counters of the planned data files, and of those that were skipped by partition
    values and by statistics.
    """
    tables = [g.table for g in groups]
    return replace(
        report,
        result_data_files=sum(t.num_rows for t in tables),
        skipped_data_files=by_partition + by_statistics,
        skipped_by_partition=by_partition,
        skipped_by_statistics=by_statistics,
        total_file_size_in_bytes=sum(
            pc.sum(t.column("file_size_in_bytes")).as_py() or 0 for t in tables
        ),
        total_records=sum(pc.sum(t.column("record_count")).as_py() or 0 for t in tables),
        wholly_matching_files=sum(
            pc.sum(pc.equal(t.column("_match"), scalar(WHOLLY, pa.uint8()))).as_py() or 0
            for t in tables
        ),
    )


def with_deletes(report: PlanReport, index: DeleteIndex) -> PlanReport:
    """Add the counters of the delete index, counted as Java counts: a delete file counts once per
    data file that it applies to.
    """
    entries, counts = index.entries, index.counts
    positional = ~entries.is_equality & ~entries.is_vector
    return replace(
        report,
        indexed_delete_files=len(entries),
        equality_delete_files=int(entries.is_equality.sum()),
        dvs=int(entries.is_vector.sum()),
        positional_delete_files=int(positional.sum()),
        result_delete_files=int(counts.sum()),
        total_delete_file_size_in_bytes=int(index.sizes.sum()),
        data_files_with_deletes=int(np.count_nonzero(counts)),
        applying_delete_files=int(index.used.sum()),
        delete_pairs_ruled_out=index.ruled_out,
        skipped_delete_files=len(entries) - int(index.used.sum()),
    )
