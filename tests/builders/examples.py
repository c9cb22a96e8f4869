"""How many examples a costly property test tries: a third of them in `make test`, all of them in `make soak` (FRAZIL_SOAK)."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("FRAZIL_SOAK"))


def examples(full: int) -> int:
    return full if SOAK else full // 3
