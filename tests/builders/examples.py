"""How much a costly test tries: a part of its examples or cases in `make test`, all of them in
`make soak` (FRAZIL_SOAK).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

SOAK = bool(os.environ.get("FRAZIL_SOAK"))


def examples(full: int) -> int:
    return full if SOAK else full // 3


def sampled(cases: Iterable[Any], one_of: int) -> list[Any]:
    """Choose the first of each `one_of` cases for `make test`; `make soak` tries the others. A
    tuple is a case of several arguments.
    """
    return [
        case
        if n % one_of == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
        for n, case in enumerate(cases)
    ]
