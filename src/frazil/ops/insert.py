"""Insert a DataFrame's rows as INSERT and Spark's writers do: append them, or replace rows, all
partitions that they touch, or the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.errors import InvalidInput
from frazil.ops.frames import SparkFrame
from frazil.ops.result import CommitResult
from frazil.spec.options import folded
from frazil.table.table import Table

_MODE = "overwrite-mode"


def overwrite_mode(options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Take Java's write option overwrite-mode out of options: returns it, None where it is not
    given, and the others. Raises InvalidInput for one that is neither static nor dynamic.
    """
    modes = [str(v).lower() for k, v in options.items() if folded(k) == _MODE]
    if modes and modes[0] not in ("static", "dynamic"):
        raise InvalidInput(
            f"Write option {_MODE!r} is static or dynamic, not {modes[0]!r}.", option=_MODE
        )
    others = {k: v for k, v in options.items() if folded(k) != _MODE}
    return (modes[0] if modes else None), others


def with_branch(options: Mapping[str, Any], branch: str | None) -> dict[str, Any]:
    """Return the options of a write with the branch that the table's name selects, if it does.
    Raises InvalidInput where an option names another one."""
    if branch is None:
        return dict(options)
    by_option = next(
        (str(v) for k, v in options.items() if k.lower() == "branch" and v is not None), branch
    )
    if by_option != branch:
        text = f"The name of the table says branch {branch!r}, the option branch {by_option!r}."
        raise InvalidInput(text, hint="Give one of them.")
    return {**{k: v for k, v in options.items() if k.lower() != "branch"}, "branch": branch}


def insert(
    table: Table,
    frame: SparkFrame,
    options: Mapping[str, Any],
    *,
    where: str | None = None,
    dynamic: bool = False,
) -> CommitResult:
    """Append a frame, or overwrite with it the rows for which `where` is TRUE ("true": all of
    them), or, `dynamic`, the partitions that it has rows of; a table without partitions is one, and
    an empty frame changes nothing. The option overwrite-mode=dynamic makes an overwrite of all rows
    dynamic; an append, and an overwrite of some rows, refuse it.
    """
    if dynamic:
        return table.dynamic_partition_overwrite(frame, **options)
    if where is None:
        return table.append(frame, **options)
    if where == "true":
        return table.overwrite(frame, **options)
    return table.overwrite(frame, overwrite_filter=where, **options)
