"""Write and read the offsets that a checkpoint keeps: one JSON object of fixed keys, under 1 kB
however many files the table has.

Spark compares offsets as text and hands them back as it wrote them, so the JSON is canonical: equal
positions give equal text. A query's first offset is a constant: where the stream starts is resolved
once, when its first batch is planned, and stored in the *end* offset of that batch (`began`), so
that a first batch that failed is planned again from the same start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from frazil.errors import CorruptData

VERSION = 1
NO_SNAPSHOT = -1
Phase: TypeAlias = Literal["scan", "files", "after"]
_PHASES: tuple[Phase, ...] = ("scan", "files", "after")


@dataclass(frozen=True)
class Position:
    """Hold the position up to which a stream has read. `scan`: the first `file` files of the
    initial scan of a snapshot; `files`: the first `file` files that a snapshot added; `after`: all
    of it up to and with the snapshot (NO_SNAPSHOT: of a table that had none).

    `order`: by which the files of the scan are counted. `ordinal`: of the next snapshot's changes,
    counted since the stream started.
    """

    snapshot_id: int
    phase: Phase = "after"
    file: int = 0
    order: str = ""
    ordinal: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the parts in their fixed order."""
        return {
            "snapshot_id": self.snapshot_id,
            "phase": self.phase,
            "file": self.file,
            "order": self.order,
            "ordinal": self.ordinal,
        }


@dataclass(frozen=True)
class Offset:
    """Hold a position in the table of this uuid. `began`: where the batch that ends here starts, if
    that is not the end of the batch before (for the first batch, and after a reset)."""

    table_uuid: str
    position: Position
    began: Position | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that Spark stores."""
        values = {"version": VERSION, "table_uuid": self.table_uuid, **self.position.to_dict()}
        return values if self.began is None else {**values, "began": self.began.to_dict()}


def start_offset() -> dict[str, Any]:
    """Return the offset of a query that has read nothing: a constant, whatever the table holds."""
    return {"version": VERSION, "phase": "start"}


def parse_offset(value: Mapping[str, Any]) -> Offset | None:
    """Parse an offset; None for the offset of a query that has read nothing. Raises CorruptData for
    a text that is no offset of this format version."""
    if not isinstance(value, Mapping) or value.get("version") != VERSION:
        version = value.get("version") if isinstance(value, Mapping) else None
        hint = "Start with a new checkpoint directory, or with the version of Frazil that wrote this one."
        shown = dict(value) if version is not None else value
        raise CorruptData(
            f"The checkpoint's offset {shown!r} is not of version {VERSION}.", hint=hint
        )
    if value.get("phase") == "start":
        return None
    began = value.get("began")
    return Offset(
        str(_part(value, "table_uuid", str)),
        _position(value),
        None if began is None else _position(began),
    )


def _position(value: Mapping[str, Any]) -> Position:
    phase = value.get("phase")
    if phase not in _PHASES:
        raise CorruptData(
            f"The checkpoint's offset has phase {phase!r}, which is none of {', '.join(_PHASES)}."
        )
    numbers = (_part(value, key, int) for key in ("snapshot_id", "file", "ordinal"))
    snapshot_id, file, ordinal = numbers
    return Position(snapshot_id, phase, file, _part(value, "order", str), ordinal)


def _part(value: Mapping[str, Any], key: str, kind: type) -> Any:
    part = value.get(key)
    if not isinstance(part, kind) or isinstance(part, bool):
        hint = "It was written by another source (as Java's is), or damaged: start with a new checkpoint directory."
        raise CorruptData(
            f"The checkpoint's offset has no valid {key!r}: {dict(value)}.", hint=hint
        )
    return part
