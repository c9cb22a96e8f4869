"""Plan incremental append scans: the data files that the `append` snapshots of a range added."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.explain.explain_file import Candidates
from frazil.scan.listing.numbering import number_files
from frazil.scan.manifests import is_data, manifests_of
from frazil.scan.options import ScanOptions
from frazil.scan.plan import Plan, plan_manifests
from frazil.scan.report import PlanReport
from frazil.spec.manifest import ManifestEntryStatus, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage


def snapshots_between(
    metadata: TableMetadata, from_exclusive: int | None, to_inclusive: int | None
) -> list[Snapshot]:
    """List the snapshots after one and up to another, oldest first. `from_exclusive` None: all
    ancestors that are kept; `to_inclusive` None: the current snapshot.

    The starting snapshot may have expired as long as a kept snapshot names it as parent. Raises
    InvalidInput when it is not an ancestor of the end, NoSuchSnapshotError when the end does not
    exist.
    """
    end = (
        metadata.current_snapshot()
        if to_inclusive is None
        else metadata.snapshot_by_id(to_inclusive)
    )
    if end is None:
        if from_exclusive is not None:
            metadata.snapshot_by_id(from_exclusive)
        return []
    newest_first: list[Snapshot] = []
    for snapshot in metadata.ancestors(end):
        if snapshot.snapshot_id == from_exclusive:
            return newest_first[::-1]
        newest_first.append(snapshot)
    if from_exclusive is None or newest_first[-1].parent_snapshot_id == from_exclusive:
        return newest_first[::-1]
    raise InvalidInput(
        f"Starting snapshot (exclusive) {from_exclusive} is not a parent ancestor of end snapshot {end.snapshot_id} "
        f"of table {metadata.location}.",
        hint="It may be on another branch, rolled back or expired; t.history() lists the snapshots of the table.",
        table=metadata.location,
        snapshot_id=from_exclusive,
    )


def plan_appends(
    metadata: TableMetadata,
    storage: Storage,
    *,
    from_snapshot_id_exclusive: int | None = None,
    to_snapshot_id_inclusive: int | None = None,
    row_filter: Predicate | None = None,
    schema: Schema | None = None,
    case_sensitive: bool = True,
    zone: str = "UTC",
    options: ScanOptions | None = None,
) -> Plan:
    """Plan the data files that append snapshots in (from, to] added; other snapshots are skipped,
    and deletes do not apply.
    """
    between = snapshots_between(metadata, from_snapshot_id_exclusive, to_snapshot_id_inclusive)
    appends = [s for s in between if s.operation == "append"]
    return plan_added_by(
        metadata,
        storage,
        appends,
        appended_manifests(metadata, storage, appends),
        end=between[-1] if between else None,
        row_filter=row_filter,
        schema=schema,
        case_sensitive=case_sensitive,
        zone=zone,
        options=options,
    )


def plan_added_by(
    metadata: TableMetadata,
    storage: Storage,
    appends: Sequence[Snapshot],
    manifests: Sequence[ManifestFile],
    *,
    end: Snapshot | None,
    row_filter: Predicate | None = None,
    schema: Schema | None = None,
    case_sensitive: bool = True,
    zone: str = "UTC",
    options: ScanOptions | None = None,
) -> Plan:
    """Plan the data files that these snapshots added, which these manifests list. `end`: the last
    snapshot of the range. Deletes do not apply."""
    begun = time.perf_counter_ns()
    options, schema = options or ScanOptions(), schema or metadata.schema()
    row_filter = row_filter if row_filter is not None else AlwaysTrue()
    bound = bind(row_filter, schema, case_sensitive=case_sensitive, zone=zone)
    report = PlanReport(
        table=metadata.location,
        snapshot_id=end.snapshot_id if end else None,
        filter=str(row_filter),
        schema_id=schema.schema_id,
    )
    added = partial(_added_by, pa.array([s.snapshot_id for s in appends], type=pa.int64()))
    groups, report = plan_manifests(
        metadata, storage, manifests, bound, schema, options, report, added
    )
    report = replace(report, total_planning_duration=time.perf_counter_ns() - begun)
    # The plan gets no storage, so that `scan.narrow` does not narrow it by the end snapshot, which
    # lacks files that were removed since.
    return Plan(
        metadata,
        end,
        schema,
        bound,
        groups,
        report,
        options,
        candidates=Candidates(tuple(manifests), storage, added),
    )


def _added_by(snapshot_ids: pa.Array, entries: pa.Table) -> pa.Table:
    """Keep the entries of the files that these snapshots added."""
    new = pc.equal(entries.column("status"), int(ManifestEntryStatus.ADDED))
    return entries.filter(pc.and_(new, pc.is_in(entries.column("snapshot_id"), snapshot_ids)))


def plan_added(
    metadata: TableMetadata,
    storage: Storage,
    snapshot: Snapshot,
    *,
    files: range | None = None,
    row_filter: Predicate | None = None,
    schema: Schema | None = None,
    case_sensitive: bool = True,
    zone: str = "UTC",
    options: ScanOptions | None = None,
) -> Plan:
    """Plan the data files that one snapshot added, each with its number among them
    (`scan.listing.numbering`), so that a stream can continue from an offset.

    `files`: only those with these numbers; None: all. Deletes do not apply.
    """
    begun = time.perf_counter_ns()
    options, schema = options or ScanOptions(), schema or metadata.schema()
    row_filter = row_filter if row_filter is not None else AlwaysTrue()
    bound = bind(row_filter, schema, case_sensitive=case_sensitive, zone=zone)
    report = PlanReport(
        table=metadata.location,
        snapshot_id=snapshot.snapshot_id,
        filter=str(row_filter),
        schema_id=schema.schema_id,
    )
    numbers = number_files(metadata, snapshot, storage, added=True, files=files)
    groups, report = plan_manifests(
        metadata, storage, numbers.wanted(), bound, schema, options, report, numbers=numbers
    )
    report = replace(report, total_planning_duration=time.perf_counter_ns() - begun)
    candidates = Candidates(tuple(numbers.wanted()), storage, numbers.choose)
    return Plan(metadata, snapshot, schema, bound, groups, report, options, candidates=candidates)


def appended_manifests(
    metadata: TableMetadata, storage: Storage, appends: Iterable[Snapshot]
) -> list[ManifestFile]:
    """List the data manifests that these snapshots wrote, each once, oldest first."""
    chosen = list(appends)
    ids = {s.snapshot_id for s in chosen}
    manifest_by_path: dict[str, ManifestFile] = {}
    for snapshot in chosen:
        for manifest in manifests_of(metadata, snapshot, storage):
            if is_data(manifest) and manifest.added_snapshot_id in ids:
                manifest_by_path.setdefault(manifest.manifest_path, manifest)
    return list(manifest_by_path.values())
