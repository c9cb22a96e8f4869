"""What a function of the grammar is: it binds the types of its arguments (`bind`) and computes on arrays of internal values (`kernel`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.spec.types import IcebergType

Kernel = Callable[[Sequence[pa.Array], Sequence[IcebergType], IcebergType, str], pa.Array]


@dataclass(frozen=True)
class Signature:
    """Types that the arguments are cast to, and the type of the result."""

    arguments: tuple[IcebergType, ...]
    result: IcebergType


Bind = Callable[[tuple[IcebergType, ...]], Signature | str]


@dataclass(frozen=True)
class Function:
    """`bind` gives a Signature, or says in words what it takes. `strict`: null exactly where an argument is null. `monotone`: the position
    of the argument whose order the result keeps. `can_fail`: a value may raise EvaluationError."""

    name: str
    bind: Bind
    kernel: Kernel
    aliases: tuple[str, ...] = ()
    strict: bool = True
    monotone: int | None = None
    can_fail: bool = False
