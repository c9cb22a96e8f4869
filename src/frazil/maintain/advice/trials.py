"""Plan the cure of each finding without doing it, so that none is advised which would do nothing or
be refused. No data file is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from frazil.arrow.write.write_options import WriteOptions
from frazil.errors import FrazilError
from frazil.expr.nodes import AlwaysTrue
from frazil.maintain.advice.finding import Finding
from frazil.maintain.compact.procedure import rewrite_data_files
from frazil.maintain.orphans.orphan_checks import check_place
from frazil.maintain.position_deletes.conflict_retries import step_of
from frazil.maintain.position_deletes.delete_groups import delete_groups
from frazil.maintain.position_deletes.delete_options import delete_rewrite_options
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.rewrite_manifests import rewrite_manifests
from frazil.spec.snapshot import MAIN_BRANCH

_log = logging.getLogger("frazil.maintain")


def useful(table: MaintainedTable, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings whose cures would do something. One of which that cannot be tried stays,
    since its cure tells why.
    """
    state = replace(
        table, backend=None
    )  # the state that the findings are about: nothing is loaded again
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
        table, table.loaded, MAIN_BRANCH, WriteOptions(target_delete_file_size_bytes=options.target)
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
