"""Find the maintenance that a table needs, by reading its metadata only."""

from __future__ import annotations

from frazil.maintain.advice import data_files, layout_advice, metadata_files
from frazil.maintain.advice.finding import Finding, Findings
from frazil.maintain.advice.table_state import state_of
from frazil.maintain.advice.trials import useful
from frazil.maintain.compact.commit import idle_deletes
from frazil.maintain.current_state import newest_readable
from frazil.maintain.procedure import MaintainedTable
from frazil.spec.snapshot import MAIN_BRANCH


def recommend(table: MaintainedTable) -> Findings:
    """Return the findings about the newest snapshot, in the order of the cures: a cure that makes
    others cheaper or needless comes first.

    A finding is one only where its cure would do something: it is tried by a plan. Reads table
    metadata and manifests, no data files, and lists no directory but that of the scan log, where
    this is switched on (`frazil.scan-log.enabled`).
    """
    table = newest_readable(table)
    scans = layout_advice.logged_scans(table)
    columns = layout_advice.compared_columns(scans, table.metadata.schema())
    state = state_of(table, columns)
    if state is None:
        return Findings((), table.name)
    sortings = layout_advice.joined(
        layout_advice.layout(state, scans, columns), data_files.unsorted(state), state
    )
    of_files = data_files.of_files(state, sortings)
    about_files = [f.finding for f in of_files]
    idle = (
        idle_deletes(table.metadata, MAIN_BRANCH, table.storage) if state.deletes.num_rows else ()
    )
    findings: list[Finding | None] = [
        *about_files,
        data_files.dangling_deletes(idle, about_files),
        *metadata_files.manifests(
            state, {f.finding.kind: f.rewritten for f in of_files if f.rewritten.any()}
        ),
        metadata_files.snapshots(state),
        metadata_files.orphans(state, table.loaded.metadata_location),
        metadata_files.table_stats(state),
        metadata_files.partition_stats(state),
    ]
    return Findings(useful(table, [f for f in findings if f is not None]), table.name)
