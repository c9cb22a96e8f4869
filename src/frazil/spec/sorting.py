"""Describe sort orders (spec, "Sorting")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from frazil.errors import ValidationError
from frazil.spec.schema import Schema
from frazil.spec.transforms import IdentityTransform, Transform, parse_term, parse_transform


class SortDirection(StrEnum):
    """Name the directions of a sort order: ascending and descending."""

    ASC = "asc"
    DESC = "desc"


class NullOrder(StrEnum):
    """Name where nulls stand in a sort order: first or last."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


@dataclass(frozen=True, init=False)
class SortField:
    """Describe one field of a sort order, of the column `source_id`; `source_ids` holds all sources
    of a multi-argument transform (v3), else it is empty. `transform`, `direction` and `null_order`
    may be given as the spec's texts ("day", "desc", "nulls-last"); by default nulls are first in
    ascending and last in descending order. `extra` holds unknown JSON keys."""

    source_id: int
    transform: Transform
    direction: SortDirection
    null_order: NullOrder
    source_ids: tuple[int, ...]
    extra: dict[str, Any] = field(compare=False, repr=False)

    def __init__(
        self,
        source_id: int,
        transform: Transform | str = IdentityTransform(),
        direction: SortDirection | str = SortDirection.ASC,
        null_order: NullOrder | str | None = None,
        source_ids: tuple[int, ...] = (),
        extra: dict[str, Any] | None = None,
    ):
        towards = _one_of(SortDirection, direction)
        nulls = default_nulls(towards) if null_order is None else _one_of(NullOrder, null_order)
        members = {
            "source_id": source_id,
            "transform": parse_transform(transform) if isinstance(transform, str) else transform,
            "direction": towards,
            "null_order": nulls,
            "source_ids": source_ids,
            "extra": extra or {},
        }
        for name, value in members.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        source = (
            str(self.source_id)
            if isinstance(self.transform, IdentityTransform)
            else f"{self.transform}({self.source_id})"
        )
        return f"{source} {self.direction.value} {self.null_order.value.replace('-', ' ')}"


E = TypeVar("E", SortDirection, NullOrder)


def _one_of(kind: type[E], word: E | str) -> E:
    try:
        return kind(word.lower())
    except ValueError:
        raise ValidationError(f"{word!r} is none of: {', '.join(kind)}.") from None


def default_nulls(direction: SortDirection) -> NullOrder:
    """Return the default order of nulls for a direction: first when ascending, last when
    descending.
    """
    return NullOrder.NULLS_FIRST if direction is SortDirection.ASC else NullOrder.NULLS_LAST


@dataclass(frozen=True, init=False)
class SortOrder:
    """Describe the sort order of a table: `SortOrder(*fields, order_id=1)`; order 0 is unsorted.
    `extra` holds unknown JSON keys."""

    fields: tuple[SortField, ...]
    order_id: int = 0
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __init__(
        self, *fields: SortField, order_id: int | None = None, extra: dict[str, Any] | None = None
    ):
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "order_id", (1 if fields else 0) if order_id is None else order_id)
        object.__setattr__(self, "extra", extra or {})

    @property
    def is_unsorted(self) -> bool:
        """Tell whether the order has no fields."""
        return not self.fields

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.fields)) + "]"


UNSORTED_SORT_ORDER = SortOrder()
_TERM = re.compile(
    r"\s*(?P<term>.*?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


def build_sort_order(
    schema: Schema, terms: Iterable[str], order_id: int = 1, case_sensitive: bool = True
) -> SortOrder:
    """Build a sort order from strings such as `id desc nulls last`, `bucket(16, id)`; by default
    asc has nulls first, desc nulls last.
    """
    fields = []
    for text in terms:
        match = _TERM.fullmatch(text)
        assert match is not None  # the pattern matches any text
        term = parse_term(match["term"])
        source = schema.find_field(term.column, case_sensitive)
        if not term.transform.can_transform(source.field_type):
            raise ValidationError(
                f"Cannot sort by {term.transform}({term.column}): its type is {source.field_type}"
            )
        direction = SortDirection((match["direction"] or "asc").lower())
        nulls = (
            NullOrder(f"nulls-{match['nulls'].lower()}")
            if match["nulls"]
            else default_nulls(direction)
        )
        fields.append(SortField(source.field_id, term.transform, direction, nulls))
    return SortOrder(*fields, order_id=order_id if fields else 0)
