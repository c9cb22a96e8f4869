"""Make a command of each procedure in the registry, with an option for each of its parameters."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click

from frazil.maintain.procedures import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NUMBERS,
    PROCEDURES,
    TEXT_MAP,
    TEXTS,
    TIMESTAMP,
    Parameter,
    Procedure,
)

_IN_SESSION_ONLY = {"create_changelog_view"}  # makes a temporary view, which ends with the process
NAMED = "an id, a branch, a tag, or main~3 for the third before main"
TIMES = "'2026-01-31 12:00:00', ISO with an offset, 7d or 12h ago, today, yesterday; UTC"
# What each parameter is, whichever procedure has it, and behind a procedure's name what it is there.
# A test asks for those that are missing.
_TEXTS = {
    "allow_short_interval": "Take an --older-than of less than a day, which may delete files of running writers.",
    "backup_table_name": "The name under which the Spark table is kept.",
    "branch": "The branch to work on; by default main.",
    "budget_bytes": "How much may be read and written, as in 10GB; by default all that is needed.",
    "budget_minutes": "How long it may take; by default as long as it needs.",
    "check_duplicate_files": "Refuse files that the table has already; if false they are added again, and their rows read twice.",
    "clean_expired_metadata": "Drop schemas and partition specs that no snapshot uses any more.",
    "columns": "The columns; by default all primitive ones. May be repeated, or separated by commas.",
    "create_file_list": "Write the list of files to copy.",
    "drop_backup": "Drop the Spark table in the end, instead of keeping it under another name.",
    "dry_run": "Say what would be done, and change nothing.",
    "end_version": "The last metadata file to take; by default the current one.",
    "equal_authorities": "Authorities of locations that are the same store, as in a,b=c.",
    "equal_schemes": "Schemes of locations that are the same, as in s3a,s3n=s3.",
    "file_list_view": "A table or view of Spark with file_path and last_modified of each file, instead of a listing.",
    "ignore_missing_files": "Leave out files that are listed and not there.",
    "remove_orphan_files.location": "The folder to look in; by default the table's own.",
    "snapshot.location": "The folder of the new table; by default the catalog chooses it.",
    "max_concurrent_deletes": "How many files are deleted at a time.",
    "expire_snapshots.older_than": "Expire snapshots before this time ("
    + TIMES
    + "); by default as the table's properties say.",
    "remove_orphan_files.older_than": "Remove files last changed before this time ("
    + TIMES
    + "); by default three days ago.",
    "options": "An option of the procedure, as in target-file-size-bytes=134217728. May be repeated.",
    "mark_partition_done.options": "An option of partition commit, as in sink.partition-commit.policy.kind=success-file. May be repeated.",
    "overwrite": "Replace the table that has this name already.",
    "parallelism": "How many files are read at a time.",
    "partition": "The value of a partition field, as in dt=2026-01-01 (null: __DEFAULT_PARTITION__). Repeated for each field.",
    "partition_filter": "Take this partition of the source only, as in dt=2026-01-01. May be repeated.",
    "prefix_listing": "List whole prefixes of an object store instead of folder by folder.",
    "prefix_mismatch_mode": "What to do with files that metadata names by another scheme or authority: ERROR, IGNORE or DELETE.",
    "properties": "A property of the new table, as in format-version=3. May be repeated.",
    "ref": "The branch or tag whose snapshot becomes that of main, in place of --snapshot-id.",
    "retain_last": "How many snapshots of each branch are kept whatever their age.",
    "snapshot_id": f"The snapshot: {NAMED}; by default the current one.",
    "set_current_snapshot.snapshot_id": f"The snapshot: {NAMED}; this or --ref is needed.",
    "snapshot_ids": f"Expire this snapshot, too, whatever its age: {NAMED}. May be repeated.",
    "sort_by": "Partition fields to sort by. May be repeated, or separated by commas.",
    "sort_order": "As in 'id DESC NULLS LAST', 'zorder(a, b)' or 'hilbert(a, b)'; by default the table's.",
    "spec_id": "The id of the partition spec; by default the current one.",
    "staging_location": "The folder for the rewritten metadata; by default one below the table's.",
    "start_version": "The first metadata file to take, for copies that follow an earlier one.",
    "strategy": "binpack (the default), sort, zorder or hilbert.",
    "stream_results": "Accepted as in Java; files are deleted in batches in any case.",
    "use_caching": "Accepted as in Java; no manifest is read twice in any case.",
    "where": "Rewrite only files that may hold rows matching this filter, in Spark SQL.",
}
_NUMBERS: dict[str, Any] = {INT: int, BIGINT: int, DOUBLE: float}
_AGO = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DAYS = {"today": 0, "yesterday": 1}


def procedure_commands(
    run: Callable[..., Any],
) -> Iterator[tuple[str, str, list[click.Parameter], Callable[..., Any]]]:
    """Yield name, help, parameters and callback of each procedure's command. `run`: called with the
    procedure's name and the arguments.
    """
    for procedure in PROCEDURES:
        if procedure.name not in _IN_SESSION_ONLY:
            yield (
                procedure.name.replace("_", "-"),
                procedure.text,
                parameters(procedure),
                partial(run, procedure=procedure.name),
            )


def parameters(procedure: Procedure) -> list[click.Parameter]:
    """Return what the command of a procedure takes: required texts as arguments, the table first,
    and an option for everything else.
    """
    first = sorted(
        (p for p in procedure.parameters if p.required and p.kind != TEXT_MAP),
        key=lambda p: p.name != "table",
    )
    options = [p for p in procedure.parameters if p not in first]
    return [*(_argument(p) for p in first), *(_option(procedure, p) for p in options)]


def _argument(parameter: Parameter) -> click.Argument:
    return click.Argument(
        [parameter.name],
        type=str if is_snapshot(parameter) else _NUMBERS.get(parameter.kind, str),
        metavar=parameter.name.upper(),
        callback=_moment if parameter.kind == TIMESTAMP else None,
    )


def is_snapshot(parameter: Parameter) -> bool:
    """Tell whether a parameter names snapshots."""
    return parameter.name in ("snapshot_id", "snapshot_ids")


def _option(procedure: Procedure, parameter: Parameter) -> click.Option:
    name = f"--{parameter.name.replace('_', '-')}"
    text = _TEXTS.get(f"{procedure.name}.{parameter.name}") or _TEXTS.get(parameter.name)
    match parameter.kind:
        case kind if kind == BOOLEAN and not parameter.default:
            return click.Option([name], is_flag=True, default=None, help=text)
        case kind if kind == BOOLEAN:
            return click.Option(
                [f"{name}/--no-{parameter.name.replace('_', '-')}"], default=None, help=text
            )
        case kind if kind == TEXT_MAP:
            return click.Option(
                [name],
                multiple=True,
                metavar="KEY=VALUE",
                required=parameter.required,
                callback=_mapping,
                help=text,
            )
        case kind if kind == TEXTS:
            return click.Option([name], multiple=True, metavar="NAME", help=text)
        case kind if kind == NUMBERS:
            return click.Option([name], multiple=True, metavar="SNAPSHOT", help=text)
        case kind if is_snapshot(parameter):
            return click.Option([name], metavar="SNAPSHOT", help=text)
        case kind if kind == TIMESTAMP:
            return click.Option([name], metavar="TIME", callback=_moment, help=text)
    number = _NUMBERS.get(parameter.kind)
    if number is None or not parameter.wide:
        return click.Option([name], type=number or str, required=parameter.required, help=text)
    return click.Option(
        [name],
        metavar=number.__name__.upper(),
        required=parameter.required,
        callback=partial(_number_or_text, number),
        help=text,
    )


def _number_or_text(
    number: type[int] | type[float], _: click.Context, __: click.Parameter, value: str | None
) -> int | float | str | None:
    """Read a number; other texts (`10GB`) are for the procedure to read, or to refuse."""
    try:
        return value if value is None else number(value)
    except ValueError:
        return value


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Read `7d`, `now`, `today` and `yesterday`; other texts are for the procedure to read."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    if value is not None and (ago := _AGO.fullmatch(value.strip())):
        return str(now - dt.timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]]))
    if value in _DAYS:
        return str(now.date() - dt.timedelta(days=_DAYS[value]))
    return str(now) if value == "now" else value


def _mapping(
    _: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Read `KEY=VALUE` of an option that may be given several times."""
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE.", param=option)
    return dict(v.split("=", 1) for v in values) or None
