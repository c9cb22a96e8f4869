"""Compute the residual of a predicate: what is left to evaluate on the rows of a file once its
ranges have decided some parts.
"""

from __future__ import annotations

from collections.abc import Callable

from frazil.expr.bind import conjunction, disjunction, negation
from frazil.expr.bound import FALSE, NULL, TRUE, Bound, BoundAnd, BoundNot, BoundOr
from frazil.expr.pruning.prune import FALSE as FALSE_BIT
from frazil.expr.pruning.prune import NULL as NULL_BIT
from frazil.expr.pruning.prune import TRUE as TRUE_BIT

_DECIDED = {TRUE_BIT: TRUE, FALSE_BIT: FALSE, NULL_BIT: NULL}


def residual(bound: Bound, outcomes_of: Callable[[Bound], int]) -> Bound:
    """Replace every part that always has one outcome by TRUE, FALSE or NULL. `outcomes_of` gives
    the outcome bits of a part for a file.
    """
    if (decided := _DECIDED.get(outcomes_of(bound))) is not None:
        return decided
    match bound:
        case BoundAnd(parts=parts):
            return conjunction(residual(p, outcomes_of) for p in parts)
        case BoundOr(parts=parts):
            return disjunction(residual(p, outcomes_of) for p in parts)
        case BoundNot(child=child):
            return negation(residual(child, outcomes_of))
    return bound
