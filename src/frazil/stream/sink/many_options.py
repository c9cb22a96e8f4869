"""Check the options of a stream into many tables before the query starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.options import folded
from frazil.stream.sink.options import sink_options

FAIL_BAD, SET_ASIDE_BAD = "fail", "set-aside"


@dataclass(frozen=True)
class ManyOptions:
    """Hold the checked options of a stream into many tables.

    `table_column`: the column that names the table of each row. `mode`: the write mode; None: each
    table's own. `of_table`: the options of each table's writes. `create`, `evolve`: whether missing
    tables are made, and columns that rows fill are added. `on_bad_table`: whether rows that no
    table takes stop the query, or go to `set_aside_table`.
    """

    table_column: str
    mode: str | None = None
    of_table: Mapping[str, Any] = field(default_factory=dict)
    create: bool = True
    evolve: bool = True
    on_bad_table: str = FAIL_BAD
    set_aside_table: str | None = None
    on_rewind: str = FAIL_BAD


def many_options(
    table_column: str,
    mode: str | None,
    option_values: Mapping[str, Any],
    *,
    create: bool,
    evolve: bool,
    on_bad_table: str,
    set_aside_table: str | None,
) -> ManyOptions:
    """Check the options of a stream into many tables. `option_values`: those of each table's
    writes.

    Raises InvalidInput for values that are not valid and for options that contradict each other,
    and Unsupported for options that only a stream into one table has.
    """
    if on_bad_table not in (FAIL_BAD, SET_ASIDE_BAD):
        raise InvalidInput(
            f"on_bad_table must be one of {FAIL_BAD}, {SET_ASIDE_BAD}, not {on_bad_table!r}."
        )
    if (on_bad_table == SET_ASIDE_BAD) != (set_aside_table is not None):
        raise InvalidInput(
            "on_bad_table='set-aside' and set_aside_table go together.",
            hint="Name the table of such rows: set_aside_table='db.rejected'.",
        )
    if any(folded(k) == "merge-schema" for k in option_values):
        raise InvalidInput(
            "merge-schema of a stream into many tables is the argument evolve.",
            hint="evolve=True adds columns.",
        )
    of_table = {**option_values, **({"merge-schema": True} if evolve else {})}
    checked = sink_options(of_table, mode=mode)
    if checked.mode == "complete":
        raise Unsupported(
            "write-mode=complete is not for many tables: those that a batch does not name would keep rows that are not in the result.",
            hint="Start one stream per table, or use write-mode=upsert.",
        )
    if checked.on_rewind == "rewrite":
        raise Unsupported(
            "on-rewind=rewrite is not for many tables: the marks of tables without rows in a batch would stay ahead of it.",
            hint="Use on-rewind=skip, or a new checkpoint folder.",
        )
    return ManyOptions(
        table_column,
        mode,
        of_table,
        create,
        evolve,
        on_bad_table,
        set_aside_table,
        checked.on_rewind,
    )
