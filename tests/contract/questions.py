"""What is known of a golden table, as questions with their answers: (what is asked, schema of the
answer, rows, checksum).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.contract.doors import Ask
from tests.golden import GoldenTable, read_metadata


@dataclass(frozen=True)
class Question:
    label: str
    ask: Ask
    schema: Mapping[str, Any]
    answer: tuple[int, str]


def current(table: GoldenTable) -> Question:
    e = table.expected
    return Question("current", Ask(), e["schema"], (e["rows"], e["checksum"]))


def filters(table: GoldenTable) -> Iterator[Question]:
    for f in table.expected.get("filters", ()):
        yield Question(f["sql"], Ask.of(f["sql"]), table.expected["schema"], (f["count"], f["sum"]))


def travels(table: GoldenTable) -> Iterator[Question]:
    """Every snapshot by its id, every ref by its name."""
    for s in table.snapshots():
        if "sum" in s:
            yield Question(
                f"snapshot {s['snapshot_id']}",
                Ask.of(snapshot_id=s["snapshot_id"]),
                table.schema(s["schema_id"]),
                answer_of(s),
            )
    for name, r in table.expected["refs"].items():
        if "sum" in r:
            schema = (
                table.schema()
                if r["type"] == "branch"
                else table.schema(snapshot(table, r["snapshot_id"])["schema_id"])
            )
            yield Question(
                f"{r['type']} {name}", Ask.of(**{r["type"]: name}), schema, (r["rows"], r["sum"])
            )


def times(table: GoldenTable) -> Iterator[Question]:
    """The moment at which each snapshot became current."""
    log = {
        entry["timestamp-ms"]: entry["snapshot-id"]
        for entry in read_metadata(table.metadata_file).get("snapshot-log", ())
    }
    for at, snapshot_id in log.items():
        s = snapshot(table, snapshot_id)
        if "sum" in s:
            yield Question(
                f"as of {at}", Ask.of(as_of=at), table.schema(s["schema_id"]), answer_of(s)
            )


# eq_evolved, before `n` was widened: Java compares an int column with keys it holds as long and
# loses the deletes n = 2 and n = -3
_JAVA_IS_WRONG = {7286353173562902478: (13, "6f70744a798925f6")}


def answer_of(s: Mapping[str, Any]) -> tuple[int, str]:
    return _JAVA_IS_WRONG.get(s["snapshot_id"], (s["rows"], s["sum"]))


def snapshot(table: GoldenTable, snapshot_id: int) -> Mapping[str, Any]:
    return next(s for s in table.snapshots() if s["snapshot_id"] == snapshot_id)
