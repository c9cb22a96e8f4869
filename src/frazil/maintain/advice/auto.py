"""Run the recommended maintenance within a budget of bytes and minutes, beside other writers. A
procedure (`ProcedureCall`) that fails leaves the table as it was, is reported, and does not keep
the others from running."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import pyarrow as pa

from frazil.errors import CommitStateUnknownException, FrazilError, InvalidInput
from frazil.maintain.advice.finding import Finding, Findings, ProcedureCall
from frazil.maintain.procedure import ProcedureResult
from frazil.maintain.stream_upkeep.lease import LeaseHeld

_log = logging.getLogger("frazil")
FEWEST_FILES = 5
REPEATED = 0.25
"""Share of a cure's estimated time below which it is run again, for what others have written
meanwhile.
"""
Run = Callable[[str], Callable[..., Any] | None]
Renew = Callable[[], object]


@dataclass(frozen=True)
class AutoStep:
    """Describe one cure: the call, as it is typed in Python, and its outcome.

    `outcome`: done, planned (dry run), partly (as far as the budget went), over budget, waits
    (another owner maintains the table), failed, or unknown (it may have been committed). `result`: that of the procedure. `error`: why
    it failed.
    """

    kind: str
    cure: ProcedureCall
    outcome: str
    cost_bytes: int = 0
    seconds: float = 0.0
    result: Any = None
    error: str | None = None

    @property
    def call(self) -> str:
        return str(self.cure)


@dataclass(frozen=True, kw_only=True, repr=False)
class AutoResult(ProcedureResult):
    """Hold what `auto` did. `steps`: one per finding, in the order in which they were cured, and
    one more for each time that a cure was run again. `bytes_rewritten` and `bytes_removed` are sums
    over them."""

    steps: tuple[AutoStep, ...] = field(default=(), metadata={"ours": True})

    @property
    def failed(self) -> tuple[AutoStep, ...]:
        """Return the steps that failed, or whose outcome is not known."""
        return tuple(s for s in self.steps if s.outcome in ("failed", "unknown"))

    @property
    def cures(self) -> tuple[ProcedureCall, ...]:
        """Return the call of each step."""
        return tuple(s.cure for s in self.steps)

    def to_arrow(self) -> pa.Table:
        """Return the steps as a table."""
        names = ("kind", "call", "outcome", "cost_bytes", "seconds", "error")
        types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.float64(), pa.string())
        return pa.table(
            [
                pa.array([getattr(s, n) for s in self.steps], t)
                for n, t in zip(names, types, strict=True)
            ],
            names=list(names),
        )

    def __repr__(self) -> str:
        lines = [f"{s.outcome}: {s.call}{f' ({s.error})' if s.error else ''}" for s in self.steps]
        return "\n".join(
            [
                f"AutoResult({'dry run' if self.dry_run else 'done'}, {self.seconds:,.2f} s)",
                *(lines or ["nothing to do"]),
            ]
        )


@dataclass
class _Budget:
    """Count the bytes and minutes that are left of the budget; None: no limit."""

    bytes: int | None
    minutes: float | None

    def share(self, finding: Finding, bytes_left: float, minutes_left: float) -> float:
        """Return the share of a cure that fits into the rest of the budget."""
        shares = [1.0]
        if self.bytes is not None and finding.cost_bytes:
            shares.append(bytes_left / finding.cost_bytes)
        if self.minutes is not None and finding.cost_minutes:
            shares.append(minutes_left / finding.cost_minutes)
        return min(shares)


def auto(
    recommend: Callable[[], Findings],
    run: Run,
    hold: Callable[[], AbstractContextManager[Renew | None]],
    on_done: Callable[[str], object] = lambda _: None,
    *,
    budget_bytes: int | str | None = None,
    budget_minutes: float | None = None,
    dry_run: bool = False,
) -> AutoResult:
    """Run the cures that `recommend` finds. It is asked again after each of them, since one cure
    may settle several findings.

    `run`: looks up a verb of `t.maintenance`. `hold`: takes the table's lease, and returns a
    function that renews it; while another owner has it, no cure is run. `on_done`: called with the
    kind of each finding whose cure was done. The budget is compared with the estimated costs before
    a cure is begun; a cure that may be done in parts is done as far as it fits. A cure that was
    done, itself or by an earlier one that leaves nothing of its finding, is run again only where it
    is found to cost a small share of the time before: for what writers have added while it ran.
    """
    limits: tuple[tuple[str, Any, str], ...] = (
        ("budget_bytes", _bytes(budget_bytes), "'10GB'"),
        ("budget_minutes", budget_minutes, "20"),
    )
    for name, value, example in limits:
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0
        ):
            raise InvalidInput(
                f"{name} must be above 0, not {value!r}.", hint=f"Write it as {name}={example}."
            )
    begun, budget, findings = (
        time.monotonic(),
        _Budget(_bytes(budget_bytes), budget_minutes),
        recommend(),
    )
    if dry_run or not findings:
        steps = _Steps(recommend, run, budget, dry_run).taken(findings)
    else:
        try:
            with hold() as renew:
                steps = _Steps(recommend, run, budget, dry_run, on_done, renew).taken(recommend())
        except LeaseHeld as held:
            steps = [_waits(f, held) for f in findings]
    results = [s.result for s in steps if isinstance(s.result, ProcedureResult)]
    return AutoResult(
        dry_run=dry_run,
        steps=tuple(steps),
        seconds=time.monotonic() - begun,
        bytes_rewritten=sum(r.bytes_rewritten for r in results),
        bytes_removed=sum(r.bytes_removed for r in results),
    )


def _bytes(budget: object) -> Any:
    """Read a size that is written as `10GB`, `1.5 TiB` or `4096`; anything else is returned as it
    is.
    """
    match = (
        re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", budget.strip().lower())
        if isinstance(budget, str)
        else None
    )
    return (
        budget if match is None else int(float(match[1]) * 1024 ** " kmgtp".index(match[2] or " "))
    )


def _waits(finding: Finding, held: LeaseHeld) -> AutoStep:
    return AutoStep(
        finding.kind,
        finding.cure,
        "waits",
        error=f"the table is maintained by another owner: {held}",
    )


@dataclass
class _Steps:
    """Take the steps of one `auto`, and count what they spend of the budget. A dry run spends the
    minutes that its cures are estimated to take."""

    recommend: Callable[[], Findings]
    run: Run
    budget: _Budget
    dry_run: bool
    on_done: Callable[[str], object] = lambda _: None
    renew: Renew | None = None
    spent: int = 0
    planned_minutes: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    def taken(self, findings: Sequence[Finding]) -> list[AutoStep]:
        """Take a step for each finding, also for those that come up meanwhile."""
        steps: list[AutoStep] = []
        repeated_below: dict[tuple[str, int | None], float] = {}
        while (
            finding := next(
                (f for f in findings if f.cost_minutes < repeated_below.get(f.subject, math.inf)),
                None,
            )
        ) is not None:
            if (held := self._lost_lease()) is not None:
                return [
                    *steps,
                    *(_waits(f, held) for f in findings if f.subject not in repeated_below),
                ]
            share = self._share(finding)
            step = self._step(finding, share)
            steps.append(step)
            repeated_below[finding.subject] = (
                REPEATED * finding.cost_minutes if step.outcome == "done" else 0.0
            )
            if step.outcome == "unknown":
                break
            if self.dry_run:
                findings = (
                    _left_after(finding, findings)
                    if share >= 1 and step.outcome == "planned"
                    else findings
                )
            elif step.outcome in ("done", "partly"):
                if step.outcome == "done" and not getattr(
                    step.result, "failed_data_files_count", 0
                ):
                    for settled in (
                        f for f in findings if f.left_after.get(finding.kind, f) is None
                    ):
                        repeated_below.setdefault(settled.subject, REPEATED * settled.cost_minutes)
                self._tell(finding.kind)
                findings = self.recommend()
        return steps

    def _share(self, finding: Finding) -> float:
        """Return the share of a cure that fits into the rest of the budget; 1: all of it."""
        budget = self.budget
        minutes_left = (
            (budget.minutes or 0.0) - (time.monotonic() - self.begun) / 60 - self.planned_minutes
        )
        return budget.share(finding, (budget.bytes or 0) - self.spent, minutes_left)

    def _step(self, finding: Finding, share: float) -> AutoStep:
        cure, outcome = _fitted(finding, share)
        step = AutoStep(finding.kind, cure or finding.cure, outcome)
        if cure is None:
            return step
        if (verb := self.run(cure.verb)) is None:
            return replace(step, outcome="failed", error=f"t.maintenance has no {cure.verb}")
        step = _tried(
            replace(step, cost_bytes=int(finding.cost_bytes * min(share, 1.0))),
            cure,
            verb,
            self.dry_run,
        )
        self.spent += step.cost_bytes
        self.planned_minutes += finding.cost_minutes * min(share, 1.0) if self.dry_run else 0.0
        return step

    def _lost_lease(self) -> LeaseHeld | None:
        """Keep the lease for the next cure; returns the error where another owner has taken it
        meanwhile.
        """
        try:
            if self.renew is not None:
                self.renew()
        except LeaseHeld as held:
            return held
        except FrazilError as error:  # correctness does not depend on the lease
            _log.warning(
                "The lease on the maintenance of the table could not be renewed: %s", error
            )
        return None

    def _tell(self, kind: str) -> None:
        try:
            self.on_done(kind)
        except FrazilError as error:  # the cure is done, and is only tried again too early
            _log.warning("It could not be recorded that the cure of %s was done: %s", kind, error)


def _left_after(done: Finding, findings: Iterable[Finding]) -> list[Finding]:
    """Return what is left of the findings after the cure of one of them."""
    left = []
    for finding in findings:
        now = finding.left_after.get(done.kind, finding)
        if now is not None and now is not finding:
            # what another cure settles, it settles after this one as well
            now = replace(
                now,
                left_after={
                    kind: None for kind, rest in finding.left_after.items() if rest is None
                },
            )
        if now is not None:
            left.append(now)
    return left


def _fitted(finding: Finding, share: float) -> tuple[ProcedureCall | None, str]:
    """Return the cure, limited to the part that fits the budget, and a text that tells the size of
    this part.
    """
    if share >= 1:
        return finding.cure, "done"
    files = int(finding.numbers.get("files", 0) * share)
    if finding.cure.share_option is None or files < FEWEST_FILES:
        return None, "over budget"
    return finding.cure.limited(files), "partly"


def _tried(
    step: AutoStep, cure: ProcedureCall, verb: Callable[..., Any], dry_run: bool
) -> AutoStep:
    begun = time.monotonic()
    arguments: Mapping[str, Any] = {**cure.arguments, "dry_run": dry_run}
    try:
        result = verb(**arguments)
    except Exception as error:
        # errors of stores, Arrow and Spark too: one cure does not keep the others from running
        outcome = "unknown" if isinstance(error, CommitStateUnknownException) else "failed"
        _log.warning("%s: %s", step.call, error, exc_info=not isinstance(error, FrazilError))
        return replace(
            step,
            outcome=outcome,
            error=f"{type(error).__name__}: {error}",
            seconds=time.monotonic() - begun,
        )
    return replace(
        step,
        outcome="planned" if dry_run else step.outcome,
        result=result,
        seconds=time.monotonic() - begun,
    )
