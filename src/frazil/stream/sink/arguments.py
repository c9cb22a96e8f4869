"""Hold the arguments of streaming writes, as `write_stream` of a table and of a catalog take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.stream.hooks import BatchHook
from frazil.stream.sink.batch import OnCommit
from frazil.stream.sink.many_tables import OnTables, TablePlaces


@dataclass(frozen=True)
class SinkArguments:
    """Hold the arguments of a streaming write: the write mode, options by name, and callbacks,
    which only Python can give.

    `policies`: functions that partition commit calls where `sink.partition-commit.policy.kind`
    lists `custom`. `ends`: the trigger ends the query when its input is read (availableNow, once).
    """

    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    output_mode: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    on_commit: OnCommit | None = None
    hooks: Sequence[BatchHook] = ()
    policies: Sequence[Callable[[Any], object]] = ()
    ends: bool = False
    case_sensitive: bool | None = None


@dataclass(frozen=True)
class ManyTables:
    """Hold the arguments of a streaming write that are about its many tables. `places`: finds and
    makes them; `on_tables`: called after each batch."""

    places: TablePlaces
    table_column: str
    create: bool = True
    evolve: bool = True
    on_bad_table: str = "fail"
    set_aside_table: str | None = None
    on_tables: OnTables | None = None
