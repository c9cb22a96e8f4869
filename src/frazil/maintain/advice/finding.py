"""Describe a finding of `recommend` in words and numbers: what is wrong, the call that cures it,
its costs, and what it brings.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import pyarrow as pa

from frazil.expr.sql_text import literal_text, quoted_name
from frazil.spec.fact_tree import FactNode, ShownAsTree, text_of
from frazil.spec.shown import count_text, size_text

OPEN_SECONDS = 0.005
"""What one more file costs a cure: it is opened, read and closed by a core."""
READ_BYTES_PER_SECOND = 200e6
"""Bytes of data files that one core reads in a second."""
REWRITE_BYTES_PER_SECOND = 40e6
"""Bytes of data files that one core reads and writes again in a second."""


@dataclass(frozen=True)
class ProcedureCall:
    """Name a verb of `t.maintenance` and its arguments.

    `share_option`: an option of the verb that limits how many files it takes, for a cure that may
    be done in parts.
    """

    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    share_option: str | None = None

    def __str__(self) -> str:
        return f"t.maintenance.{self.verb}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"

    def as_sql(self, catalog: str, table: str) -> str:
        """Return the call as it is typed in Spark SQL."""
        arguments = {"table": table, **self._given}
        named = ", ".join(f"{k} => {sql_value(v)}" for k, v in arguments.items())
        return f"CALL {quoted_name(catalog)}.system.{self.verb}({named})"

    def as_command(self, table: str) -> str:
        """Return the call as it is typed in a shell."""
        words = ["frazil", self.verb.replace("_", "-"), table]
        for name, value in self._given.items():
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                words.append(option if value else option.replace("--", "--no-", 1))
                continue
            if isinstance(value, Mapping):
                value = [f"{k}={v}" for k, v in value.items()]
            for one in value if isinstance(value, list) else [value]:
                words += [option, str(one)]
        return shlex.join(words)

    @property
    def _given(self) -> Mapping[str, Any]:
        """Return the arguments without `dry_run=False`, which only Python needs: there
        `expire_snapshots` without arguments is PyIceberg's chain."""
        return {k: v for k, v in self.arguments.items() if (k, v) != ("dry_run", False)}

    def limited(self, files: int) -> ProcedureCall:
        """Return the cure for at most so many files."""
        assert self.share_option is not None
        options = {**self.arguments.get("options", {}), self.share_option: str(files)}
        return ProcedureCall(self.verb, {**self.arguments, "options": options}, self.share_option)


def sql_value(value: object) -> str:
    """Return a value as it is typed in Spark SQL."""
    if isinstance(value, Mapping):
        return f"map({', '.join(sql_value(v) for pair in value.items() for v in pair)})"
    if isinstance(value, list):
        return f"array({', '.join(map(sql_value, value))})"
    return literal_text(value, None)


@dataclass(frozen=True)
class Finding:
    """Describe one thing about a table that maintenance can improve.

    `kind`: its name (small_files, …). `text`: a description in words. `numbers`: the figures behind
    it. `cost_bytes`: bytes that the cure reads and writes. `cost_minutes`: an estimate for this
    machine. `brings`: the benefit in words. `seconds_saved`: an estimate for one full read. `cure`:
    the call. `spec_id`: the partition spec that it is about, where there may be such a finding for
    each spec. `left_after`: what is left of it after the cure of an earlier finding, by that one's
    kind; None: nothing.
    """

    kind: str
    text: str
    numbers: Mapping[str, float]
    cost_bytes: int
    cost_minutes: float
    brings: str
    seconds_saved: float
    cure: ProcedureCall
    spec_id: int | None = None
    left_after: Mapping[str, Finding | None] = field(default_factory=dict, repr=False)

    @property
    def subject(self) -> tuple[str, int | None]:
        """Return the key of the finding among those about one table."""
        return self.kind, self.spec_id

    @property
    def call(self) -> str:
        """Return the call that cures it, as it is typed in Python."""
        return str(self.cure)

    @property
    def tree(self) -> FactNode:
        """Return the finding as a tree of facts: its cure, what that costs and what it brings."""
        return finding_tree(self, str)

    def __str__(self) -> str:
        return text_of(self.tree)


def cost_text(finding: Finding) -> str:
    """Format what a cure costs: bytes and time."""
    # no bytes of files are read and written to delete others
    size = f"{size_text(finding.cost_bytes)}, " if finding.cost_bytes else ""
    return f"{size}about {minutes_text(finding.cost_minutes)}"


class Findings(ShownAsTree, Sequence[Finding]):
    """Hold the findings about a table, in the order in which their cures are best run; empty if the
    table needs no maintenance.
    """

    def __init__(self, findings: Sequence[Finding], table: str = ""):
        self._findings, self._table = tuple(findings), table

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    @property
    def cures(self) -> tuple[ProcedureCall, ...]:
        """Return the call of each finding."""
        return tuple(f.cure for f in self)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the names of the findings."""
        return tuple(f.kind for f in self._findings)

    def to_arrow(self) -> pa.Table:
        """Return the findings as a table, one row each."""
        columns = {
            "kind": [f.kind for f in self],
            "finding": [f.text for f in self],
            "cost_bytes": [f.cost_bytes for f in self],
            "cost_minutes": [f.cost_minutes for f in self],
            "brings": [f.brings for f in self],
            "seconds_saved": [f.seconds_saved for f in self],
            "call": [f.call for f in self],
        }
        types = (
            pa.string(),
            pa.string(),
            pa.int64(),
            pa.float64(),
            pa.string(),
            pa.float64(),
            pa.string(),
        )
        return pa.table(
            [pa.array(v, t) for v, t in zip(columns.values(), types, strict=True)],
            names=list(columns),
        )

    def show(self) -> None:
        """Print the findings."""
        print(repr(self))

    @property
    def tree(self) -> FactNode:
        """Return the findings as a tree of facts."""
        return findings_tree(self, str)


def finding_tree(finding: Finding, spelled: Callable[[ProcedureCall], str]) -> FactNode:
    """Return a finding as a tree of facts, with the cure as `spelled` says it."""
    cost, kinds_by_rest = cost_text(finding), dict[str, list[str]]()
    for kind, left in finding.left_after.items():
        kinds_by_rest.setdefault("nothing" if left is None else cost_text(left), []).append(kind)
    cost += "".join(
        f"; {rest} after the cure of {' or '.join(kinds)}" for rest, kinds in kinds_by_rest.items()
    )
    return FactNode(
        f"{finding.kind}: {finding.text}",
        (("cure", spelled(finding.cure)), ("cost", cost), ("brings", finding.brings)),
    )


def findings_tree(findings: Findings, spelled: Callable[[ProcedureCall], str]) -> FactNode:
    """Return findings as a tree of facts, with the cures as `spelled` says them."""
    if not len(findings):
        return FactNode(f"{findings._table}: nothing to do")
    trees = (finding_tree(f, spelled) for f in findings)
    return FactNode(
        f"{findings._table}: {count_text(len(findings), 'finding')}",
        (),
        tuple(replace(t, label=f"{n}. {t.label}") for n, t in enumerate(trees, 1)),
    )


def minutes_text(minutes: float) -> str:
    """Format a number of minutes with its unit."""
    if minutes < 1 / 60:
        return "1 s"
    if minutes < 1.5:
        return f"{minutes * 60:,.0f} s"
    return f"{minutes:,.0f} min" if minutes < 120 else f"{minutes / 60:,.1f} h"


def saving_text(seconds: float) -> str:
    """Format the seconds that a read saves, to follow what it does less; nothing for a moment."""
    if seconds < 0.1:
        return ""
    return (
        f", which saves about {f'{seconds:.1f} s' if seconds < 10 else minutes_text(seconds / 60)}"
    )
