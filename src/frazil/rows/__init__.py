"""Row-level changes, engine-free: delete, update, merge, upsert. A decider finds rows in data files, `change` makes files of that.

Doors: `change` (ChangeContext, Decider, change_files, Changed, combined), `remove.remove_positions`, `delete`, `update`, `assign`.
"""

__all__ = [
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
    "reach",
    "remove",
    "sides",
    "source",
    "update",
    "upsert",
]
