"""Refuse an ambiguous MERGE, in which several source rows would change the same target row."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidInput
from frazil.expr.bound import references
from frazil.rows.assign import at_path
from frazil.rows.bound_merge import BoundMerge
from frazil.rows.key_index import Rows

SHOWN = 5


def refuse_ambiguous(merge: BoundMerge, target: pa.RecordBatch, rows: Rows) -> NoReturn:
    """Raise InvalidInput, which names some of the keys. `rows`: target rows, ascending, once per
    source row that would change them.
    """
    distinct, counts = np.unique(rows, return_counts=True)
    several, times = distinct[counts > 1], counts[counts > 1]
    keys = {r.path: r for k in merge.on.keys for r in references(k.target).values()} or {
        r.path: r
        for r in references(merge.on.rest).values()
        if r.field_id not in merge.sides.of_source
    }
    columns = {
        ".".join(path[1:]): at_path(target, path).take(pa.array(several[:SHOWN])).to_pylist()
        for path in keys
    }
    shown = [
        f"{', '.join(f'{n} = {v[i]!r}' for n, v in columns.items()) or 'a row'} ({times[i]} source rows)"
        for i in range(min(SHOWN, len(several)))
    ]
    more = f", and {len(several) - SHOWN} more" if len(several) > SHOWN else ""
    raise ambiguous("; ".join(shown) + more, keys=columns, rows=len(several))


def ambiguous(shown: str, **facts: Any) -> InvalidInput:
    """Return the error for target rows that several source rows would change, which begins as
    Spark's own. `shown`: some of the rows.
    """
    return InvalidInput(
        "[MERGE_CARDINALITY_VIOLATION] The ON search condition of the MERGE statement matched a single row from the target table with "
        f"multiple rows of the source table. MERGE is ambiguous: more than one source row would change the same target row: {shown}.",
        hint="Make the source unique by the ON condition, or give the clauses conditions that at most one source row per target row meets.",
        condition="MERGE_CARDINALITY_VIOLATION",
        **facts,
    )
