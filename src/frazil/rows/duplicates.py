"""The refusal of an upsert whose source holds a key more than once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput
from frazil.rows.key_index import KeyIndex, expanded

SHOWN = 5


def refuse_duplicates(index: KeyIndex, names: Sequence[str]) -> None:
    """Raises InvalidInput naming some of the keys, and how many there are."""
    counts = np.diff(index.begins)
    several = np.flatnonzero(counts > 1)
    if not len(several):
        return
    rows = index.rows[expanded(several, index.begins[several], counts[several])[1]].astype(np.int64)
    keys = pa.table(list(index.keys_at(rows)), names=[str(i) for i in range(len(names))])
    groups = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    groups = groups.filter(pc.greater(groups["count_all"], 1))
    if not groups.num_rows:
        return
    shown = [
        "(" + ", ".join(f"{n} = {r[str(i)]!r}" for i, n in enumerate(names)) + f", {r['count_all']} rows)"
        for r in groups.slice(0, SHOWN).to_pylist()
    ]
    more = f" and {groups.num_rows - SHOWN} more" if groups.num_rows > SHOWN else ""
    raise InvalidInput(
        f"upsert: the frame holds {groups.num_rows} keys more than once: {', '.join(shown)}{more}.",
        hint="Keep one row of each key.", duplicates=groups.num_rows,
    )  # fmt: skip
