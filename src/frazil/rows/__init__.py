"""Compute row-level changes without an engine: DELETE, UPDATE, MERGE and upsert.

A decider finds the rows of a data file that change; `change` writes data files and delete files for
them. Entry points: `change` (ChangeContext, Decider, change_files, Changed, combined),
`remove.remove_positions`, `delete`, `update`, `merge`, `assign`.
"""

__all__ = [
    "ambiguous",
    "assign",
    "bound_merge",
    "change",
    "clauses",
    "delete",
    "evolve",
    "groups",
    "inserts",
    "merge",
    "modes",
    "pairing",
    "position_deletes",
    "reach",
    "remove",
    "rewrite",
    "sides",
    "source",
    "update",
    "upsert",
]
