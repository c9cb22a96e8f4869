"""Define functions of expressions: `bind` checks the argument types, `kernel` computes on arrays of
internal values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.spec.types import IcebergType

Kernel = Callable[[Sequence[pa.Array], Sequence[IcebergType], IcebergType, str], pa.Array]


@dataclass(frozen=True)
class Signature:
    """Hold the types that the arguments are cast to, and the type of the result."""

    arguments: tuple[IcebergType, ...]
    result: IcebergType


Bind = Callable[[tuple[IcebergType, ...]], Signature | str]


@dataclass(frozen=True)
class Function:
    """Describe one function. `bind` returns a Signature, or a text that says what the function
    takes. `strict`: the result is null exactly where an argument is null. `monotone`: the position
    of the argument whose order the result keeps, so that pruning can map its bounds. `can_fail`: a
    value may raise EvaluationError. `zoned`: the result may depend on the session's time zone.
    `goes_on`: tells after which values of an argument the next one is computed, None: always; with
    `divides` the last argument is the first to be computed."""

    name: str
    bind: Bind
    kernel: Kernel
    aliases: tuple[str, ...] = ()
    strict: bool = True
    monotone: int | None = None
    can_fail: bool = False
    zoned: bool = True
    goes_on: Callable[[pa.Array], pa.Array] | None = pc.is_valid
    divides: bool = False


def plain(function: Callable[..., pa.Array]) -> Kernel:
    """Make a kernel of a function that needs the values of the arguments only."""
    return lambda values, types, result, zone: function(*values)
