"""Make keys of partition values: equal exactly when the format says that two files lie in the same
partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PartitionKey = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True)
class FloatKey:
    """Identify a float by its bits: NaN equals itself, -0.0 is not 0.0."""

    text: str
    value: float = field(compare=False)


def partition_key(spec_id: int, values: tuple[Any, ...]) -> PartitionKey:
    """Return the hashable key (spec id, partition values), with floats as FloatKey."""
    for v in values:
        if isinstance(v, float):
            return spec_id, tuple(
                FloatKey(v.hex(), v) if isinstance(v, float) else v for v in values
            )
    return spec_id, values


def plain_values(key: PartitionKey) -> tuple[Any, ...]:
    return tuple(v.value if isinstance(v, FloatKey) else v for v in key[1])
