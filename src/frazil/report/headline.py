"""Say in one sentence how a table is: well or not, since when, and what that costs."""

from __future__ import annotations

from frazil.maintain.advice.finding import minutes_text
from frazil.report.facts import Health
from frazil.spec.shown import age_text

_SKEWED = 10
"""How many times as large as the one in the middle a partition is that the sentence names."""


def headline(health: Health) -> str:
    """Return the sentence with which a report begins."""
    if not health.moments:
        return "Nothing was committed to this table yet."
    troubles = [*_troubles(health)]
    if not health.findings:
        verdict = "The table needs no maintenance, yet" if troubles else "The table is well"
    else:
        minutes = sum(f.cost_minutes for f in health.findings)
        troubles.append(f"to mend it takes about {minutes_text(minutes)}")
        verdict = f"The table needs maintenance, {_since(health)}"
    last = f"last commit {ago(health.made_at_ms - health.moments[-1].time_ms)}"
    joint = " " if verdict.endswith("yet") else ": "
    return f"{verdict}{joint}{'; '.join([*troubles, last])}."


def _since(health: Health) -> str:
    if health.maintained_ms is not None:
        return f"the last was {ago(health.made_at_ms - health.maintained_ms)}"
    age = ago(health.made_at_ms - health.moments[0].time_ms).removesuffix(" ago")
    return f"none in its history of {age}" if age != "just now" else "none so far"


def _troubles(health: Health) -> list[str]:
    findings = {f.kind: f for f in health.findings}
    texts = []
    if (small := findings.pop("small_files", None)) is not None:
        slow = f" by about {small.seconds_saved:.1f} s" if small.seconds_saved >= 0.05 else ""
        texts.append(f"{small.numbers['files']:,.0f} small files slow full reads{slow}")
    findings.pop("deleted_rows", None)
    if health.deleted_rows and health.rows is not None:
        all_rows = health.rows + health.deleted_rows
        texts.append(f"{health.deleted_rows:,} of {all_rows:,} rows are deleted")
    if health.equality_deletes:
        texts.append(f"{health.equality_deletes:,} equality deletes are applied by each read")
        findings.pop("equality_deletes", None)
    if health.largest is not None and health.largest[1] >= _SKEWED * health.largest[2]:
        name, size, _ = health.largest
        share = size / max(sum(c.bytes for c in health.sizes), 1)
        texts.append(f"partition {name} holds {share:.0%} of the bytes, so work on it is uneven")
    return texts + [f.text.rstrip(".") for f in list(findings.values())[: max(0, 3 - len(texts))]]


def ago(milliseconds: int) -> str:
    """Format how long ago something was."""
    return f"{age_text(milliseconds)} ago" if milliseconds >= 60_000 else "just now"
