"""Evaluate a predicate over the ranges of many files: which truth values can it have for the rows
of each file?

`outcomes` returns one byte per file: a set of the bits TRUE (1), FALSE (2), NULL (4). A file may
hold matching rows if TRUE is in the set (inclusive projection, file pruning); all of its rows match
if the set is just TRUE (strict projection); in between the predicate must be evaluated on the rows
(residual). Keeping all three outcomes rather than a yes or no answers both questions in one walk,
and keeps NOT exact under SQL's three-valued logic. An empty set (0) is a file without rows. The set
may be too large, but never too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from frazil.expr.bound import (
    Bound,
    BoundAnd,
    BoundLiteral,
    BoundNot,
    BoundOr,
    BoundReference,
    Comparison,
    Constant,
    LikeTest,
    Membership,
    NaNTest,
    NullOr,
    NullTest,
    PrefixTest,
)
from frazil.expr.pruning.prune_terms import Ranges, ranges_of
from frazil.expr.pruning.prune_tests import bucket_allows, compare, member, prefixed
from frazil.expr.pruning.ranges import Flag, Range

TRUE, FALSE, NULL = 1, 2, 4
ANY = TRUE | FALSE | NULL
Outcomes = npt.NDArray[np.uint8]


def outcomes(bound: Bound, ranges: Callable[[int], Sequence[Range]], rows: int) -> Outcomes:
    """Return the possible truth values of `bound`, one uint8 per file. `ranges(field_id)` returns
    all ranges known of a column.
    """
    return _walk(bound, ranges, rows)


def may_match(outcomes: Outcomes) -> npt.NDArray[np.bool_]:
    """Mark the files that may hold matching rows."""
    return np.not_equal(np.bitwise_and(outcomes, TRUE), 0)


def all_match(outcomes: Outcomes) -> npt.NDArray[np.bool_]:
    """Mark the files of which all rows match."""
    return np.equal(outcomes, TRUE)


def _walk(bound: Bound, ranges: Ranges, rows: int) -> Outcomes:
    match bound:
        case BoundAnd(parts=parts):
            outcomes = _walk(parts[0], ranges, rows)
            for part in parts[1:]:
                if not (outcomes & (TRUE | NULL)).any():
                    break
                outcomes = _AND[outcomes, _walk(part, ranges, rows)]
            return outcomes
        case BoundOr(parts=parts):
            outcomes = _walk(parts[0], ranges, rows)
            for part in parts[1:]:
                outcomes = _OR[outcomes, _walk(part, ranges, rows)]
            return outcomes
        case BoundNot(child=child):
            return _NOT[_walk(child, ranges, rows)]
        case Constant(value=value):
            return np.full(rows, NULL if value is None else TRUE if value else FALSE, np.uint8)
    return _leaf(bound, ranges, rows)


def _leaf(bound: Bound, ranges: Ranges, rows: int) -> Outcomes:
    """Intersect the outcomes that all known ranges allow. Where ranges contradict each other, a
    writer was wrong about the file, so nothing is assumed about it (Java's ORC files have times
    before 1970 a second late, but the right partition value)."""
    possible, empty = np.full(rows, ANY, np.uint8), np.zeros(rows, np.bool_)
    for allowed in _answers(bound, ranges):
        possible &= allowed
        empty |= allowed == 0
    if not possible.all():
        possible[(possible == 0) & ~empty] = ANY
    return possible


def _answers(bound: Bound, ranges: Ranges) -> Iterator[Outcomes | np.uint8]:
    match bound:
        case Comparison(op=op, left=left, right=right):
            hashed = (
                isinstance(left, BoundReference)
                and isinstance(right, BoundLiteral)
                and op in ("eq", "nseq")
            )
            for a, b in product(ranges_of(left, ranges), ranges_of(right, ranges)):
                yield _bits(*compare(op, a, b))
                if hashed and a.hashed is not None:
                    yield _bits(bucket_allows(a, (right.value,), right.type), True, True)  # type: ignore[attr-defined]
        case Membership(term=term, values=values, has_null=has_null):
            for a in ranges_of(term, ranges):
                yield _bits(
                    *member(a, values, has_null, term.type, isinstance(term, BoundReference))
                )
        case NullTest(term=term):
            for a in ranges_of(term, ranges):
                yield _bits(a.nulls, _or(a.nans, a.values), False)
        case NaNTest(term=term):
            for a in ranges_of(term, ranges):
                yield _bits(a.nans, _or(a.nulls, a.values), False)
        case NullOr(term=term, value=value):
            for a in ranges_of(term, ranges):
                some = _or(a.nans, a.values)
                yield _bits(some if value else False, False if value else some, a.nulls)
        case PrefixTest(term=term, prefix=prefix):
            for a in ranges_of(term, ranges):
                yield _bits(*prefixed(a, prefix, term.type))
        case LikeTest(term=term, pieces=pieces):
            head = pieces[0] if pieces and isinstance(pieces[0], str) else ""
            for a in ranges_of(term, ranges):
                may, _, null = prefixed(a, head, term.type)
                yield _bits(may, a.values, null)


def _or(a: Flag, b: Flag) -> Flag:
    return np.logical_or(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a or b


def _bits(true: Flag, false: Flag, null: Flag) -> Outcomes | np.uint8:
    parts = [_bit(true, TRUE), _bit(false, FALSE), _bit(null, NULL)]
    return parts[0] | parts[1] | parts[2]


def _bit(flag: Flag, bit: int) -> Outcomes | np.uint8:
    if isinstance(flag, np.ndarray):
        return flag.view(np.uint8) * np.uint8(bit)
    return np.uint8(bit if flag else 0)


def _table(combine: Callable[[int, int], int]) -> npt.NDArray[np.uint8]:
    """Build the 8 x 8 table of sets: the results of combining every value of one set with every
    value of the other.
    """
    table = np.zeros((8, 8), np.uint8)
    for a, b in product(range(8), range(8)):
        for x, y in product((TRUE, FALSE, NULL), repeat=2):
            if a & x and b & y:
                table[a, b] |= combine(x, y)
    return table


def _and(x: int, y: int) -> int:
    return FALSE if FALSE in (x, y) else NULL if NULL in (x, y) else TRUE


_NOT = np.array([0, FALSE, TRUE, TRUE | FALSE, NULL, NULL | FALSE, NULL | TRUE, ANY], np.uint8)
_AND = _table(_and)
_OR = _table(lambda x, y: TRUE if TRUE in (x, y) else NULL if NULL in (x, y) else FALSE)
