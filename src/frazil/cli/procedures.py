"""Make a command of each procedure in the registry, with an option for each of its parameters."""

from __future__ import annotations

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
    Parameter,
    Procedure,
)

_IN_SESSION_ONLY = {"create_changelog_view"}  # makes a temporary view, which ends with the process
_NUMBERS: dict[str, Any] = {INT: int, BIGINT: int, DOUBLE: float}


def procedure_commands(
    run: Callable[..., Any],
) -> Iterator[tuple[str, str, list[click.Parameter], Callable[..., Any]]]:
    """Yield name, help, parameters and callback of each procedure's command. `run`: called with the procedure's name and the arguments."""
    for procedure in PROCEDURES:
        if procedure.name not in _IN_SESSION_ONLY:
            yield (
                procedure.name.replace("_", "-"),
                procedure.text,
                parameters(procedure),
                partial(run, procedure=procedure.name),
            )


def parameters(procedure: Procedure) -> list[click.Parameter]:
    """Return what the command of a procedure takes: required texts as arguments, the table first, and an option for everything else."""
    first = sorted(
        (p for p in procedure.parameters if p.required and p.kind != TEXT_MAP),
        key=lambda p: p.name != "table",
    )
    options = [p for p in procedure.parameters if p not in first]
    return [*(_argument(p) for p in first), *(_option(p) for p in options)]


def _argument(parameter: Parameter) -> click.Argument:
    return click.Argument(
        [parameter.name], type=_NUMBERS.get(parameter.kind, str), metavar=parameter.name.upper()
    )


def _option(parameter: Parameter) -> click.Option:
    name = f"--{parameter.name.replace('_', '-')}"
    text = "Say what would be done, and change nothing." if parameter.name == "dry_run" else None
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
            return click.Option([name], multiple=True, metavar="TEXT", help=text)
        case kind if kind == NUMBERS:
            return click.Option([name], multiple=True, type=int, help=text)
    kind_of_value = str if parameter.wide else _NUMBERS.get(parameter.kind, str)
    return click.Option([name], type=kind_of_value, required=parameter.required, help=text)


def _mapping(
    _: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Read `KEY=VALUE` of an option that may be given several times."""
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE.", param=option)
    return dict(v.split("=", 1) for v in values) or None
