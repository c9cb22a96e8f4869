"""Build the MERGE of an upsert (update rows whose key exists, insert the others), and check its
frame before it begins.

The keys are looked up in `key_index`, by way of `pairing`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.mismatch import mismatch, no_such_column
from frazil.errors import InvalidInput, SchemaMismatch
from frazil.expr.nodes import And, EqualTo, Expression, Reference
from frazil.rows.clauses import Merge, matched_update_all, not_matched_insert_all
from frazil.rows.key_index import expanded
from frazil.rows.pairing import Pairing
from frazil.spec.schema import Schema
from frazil.spec.shown import listed

SHOWN = 5


def upsert_of(
    schema: Schema, join_cols: Sequence[str] | None, update: bool, insert: bool
) -> tuple[Merge, tuple[str, ...]]:
    """Build the MERGE of an upsert, and return the columns it joins by. `join_cols` None: the
    table's identifier fields.
    """
    identifiers = [n for n in schema.column_names if n in schema.identifier_field_names()]
    names = tuple([join_cols] if isinstance(join_cols, str) else join_cols or identifiers)
    if not names:
        hint = "Name the key columns, as in t.upsert(frame, join_cols=['id'])."
        raise InvalidInput("upsert needs join_cols: the table has no identifier fields.", hint=hint)
    if unknown := [
        n for n in names if not isinstance(n, str) or schema.get_field(n, False) is None
    ]:
        raise InvalidInput(
            f"upsert: join_cols names {unknown[0]!r}, which is not a column; columns: {', '.join(schema.column_names)}."
        )
    if not update and not insert:
        raise InvalidInput(
            "upsert: when_matched_update_all and when_not_matched_insert_all are both False, so there is nothing to do."
        )
    parts = [EqualTo(_side("target", n), _side("source", n)) for n in names]
    on: Expression = parts[0] if len(parts) == 1 else And(*parts)
    return Merge(
        on,
        ((matched_update_all(),) if update else ())
        + ((not_matched_insert_all(),) if insert else ()),
    ), names


def _side(alias: str, name: str) -> Reference:
    parts = (alias, *name.split("."))
    return Reference(".".join(parts), parts)


def refuse_unknown(source: Schema, target: Schema, case_sensitive: bool) -> None:
    """Raise SchemaMismatch for columns of the frame that the table lacks, as an append does."""
    unknown = [f for f in source.fields if target.get_field(f.name, case_sensitive) is None]
    if unknown:
        raise mismatch(
            [no_such_column(f.name, str(f.field_type), target.column_names) for f in unknown]
        )


def refuse_without_key(source: Schema, names: Sequence[str], case_sensitive: bool) -> None:
    """Refuse a frame that lacks a column of the key. Raises SchemaMismatch."""
    missing = [n for n in names if source.get_field(n, case_sensitive) is None]
    if missing:
        have = listed(f.name for f in source.fields)
        text = f"upsert: the frame has no column {missing[0]}, which is in the key ({', '.join(names)}); it has: {have}."
        raise SchemaMismatch(
            text,
            hint="Add it to the frame, or join by columns that it has: t.upsert(frame, join_cols=[…]).",
        )


def refuse_duplicates(pairing: Pairing, names: Sequence[str]) -> None:
    """Refuse a key that the source holds more than once. Raises InvalidInput naming some of them,
    and how many there are.
    """
    index = pairing.index
    counts = np.diff(index.begins).astype(np.int64)
    several = np.flatnonzero(counts > 1)
    if not len(several):
        return
    rows = index.rows[expanded(several, index.begins[several], counts[several])[1]].astype(np.int64)
    keys = pa.table(
        [*index.keys_at(rows), pa.array(rows)], names=[*(str(i) for i in range(len(names))), "row"]
    )
    groups = keys.group_by(keys.column_names[:-1]).aggregate([("row", "count"), ("row", "min")])
    groups = groups.filter(pc.greater(groups["row_count"], 1)).sort_by("row_min")
    if not groups.num_rows:
        return
    first = groups.slice(0, SHOWN)
    values = pairing.source.take(first["row_min"].to_numpy(), pairing.key_names).to_pylist()
    shown = [
        "(" + ", ".join(f"{n} = {v!r}" for n, v in row.items()) + f", {count} rows)"
        for row, count in zip(values, first["row_count"].to_pylist(), strict=True)
    ]
    more = f" and {groups.num_rows - SHOWN} more" if groups.num_rows > SHOWN else ""
    raise InvalidInput(
        f"upsert: the frame holds {groups.num_rows} keys more than once: {', '.join(shown)}{more}.",
        hint="Keep one row per key.",
        duplicates=groups.num_rows,
    )
