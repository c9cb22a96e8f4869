"""Find the maintenance that a table needs, by reading its metadata only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from frazil.arrow.write.write_options import write_options
from frazil.errors import FrazilError
from frazil.expr.nodes import AlwaysTrue
from frazil.maintain.advice import data_files, metadata_files
from frazil.maintain.advice.finding import Finding, Findings
from frazil.maintain.advice.table_state import state_of
from frazil.maintain.compact.commit import idle_deletes
from frazil.maintain.compact.procedure import rewrite_data_files
from frazil.maintain.orphans.orphan_checks import check_place
from frazil.maintain.position_deletes.conflict_retries import step_of
from frazil.maintain.position_deletes.delete_groups import delete_groups, delete_rewrite_options
from frazil.maintain.procedure import MaintainedTable, newest_readable
from frazil.maintain.rewrite_manifests import rewrite_manifests
from frazil.spec.snapshot import MAIN_BRANCH


def recommend(table: MaintainedTable) -> Findings:
    """Return the findings about the newest snapshot, in the order of the cures: a cure that makes
    others cheaper or needless comes first.

    A finding is one only where its cure would do something: it is tried by a plan. Reads table
    metadata and manifests, no data files, and lists no directory.
    """
    table = newest_readable(table)
    state = state_of(table)
    if state is None:
        return Findings((), table.name)
    unsorted = data_files.unsorted(state)
    of_files = data_files.of_files(state, [] if unsorted is None else [unsorted])
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


# Plan the cure of each finding without doing it, so that none is advised which would do nothing or
# be refused. No data file is read.

_log = logging.getLogger("frazil.maintain")


def useful(table: MaintainedTable, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings whose cures would do something. One of which that cannot be tried stays,
    since its cure tells why.
    """
    # the state that the findings are about: nothing is loaded again
    state = replace(table, backend=None)
    return [f for f in findings if f.cure.verb not in _TRIALS or _does_something(state, f)]


def _does_something(table: MaintainedTable, finding: Finding) -> bool:
    try:
        return _TRIALS[finding.cure.verb](table, finding.cure.arguments)
    except FrazilError as error:
        _log.info("%s of %s cannot be tried: %s", finding.call, table.name, error)
        return finding.cure.verb != "remove_orphan_files"


def _data_files(table: MaintainedTable, arguments: Mapping[str, Any]) -> bool:
    planned = rewrite_data_files(
        table,
        arguments.get("strategy"),
        arguments.get("sort_order"),
        arguments.get("options"),
        arguments.get("where"),
        dry_run=True,
    )
    return bool(planned.rewritten_data_files_count or planned.removed_delete_files_count)


def _position_deletes(table: MaintainedTable, arguments: Mapping[str, Any]) -> bool:
    options = delete_rewrite_options(arguments.get("options"), table.metadata)
    step = step_of(
        table,
        table.loaded,
        MAIN_BRANCH,
        write_options({"target-delete-file-size-bytes": options.target}),
    )
    return bool(delete_groups(step, AlwaysTrue(), options))


def _manifests(table: MaintainedTable, arguments: Mapping[str, Any]) -> bool:
    return bool(
        rewrite_manifests(
            table, arguments.get("spec_id"), (), dry_run=True
        ).rewritten_manifests_count
    )


def _orphans(table: MaintainedTable, arguments: Mapping[str, Any]) -> bool:
    return bool(check_place(table.loaded, None))


_TRIALS: dict[str, Callable[[MaintainedTable, Mapping[str, Any]], bool]] = {
    "rewrite_data_files": _data_files, "rewrite_position_delete_files": _position_deletes, "rewrite_manifests": _manifests,
    "remove_orphan_files": _orphans,
}  # fmt: skip
