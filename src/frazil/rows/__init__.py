"""Compute row-level changes without an engine: DELETE, UPDATE, MERGE and upsert.

A decider finds the rows of a data file that change; `change` writes data files and delete files for
them. Entry points: `change` (ChangeContext, Decider, change_files, Changed, combined,
remove_positions, and the deciders of DELETE and UPDATE), `merge`, `assign`. The rules of MERGE are
in `clauses`: `merge` enforces them here, `spark.dml.row_changes` where Spark's SQL joins, `upsert`
for keys.
"""

__all__ = [
    "assign",
    "bound_merge",
    "change",
    "clauses",
    "groups",
    "inserts",
    "merge",
    "modes",
    "pairing",
    "position_deletes",
    "reach",
    "rewrite",
    "sides",
    "source",
    "upsert",
]
