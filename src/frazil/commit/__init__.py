"""Commit changes to a table: build metadata updates, produce snapshots (`produce`), swap the
table's metadata atomically and retry on conflict (`table_commit`, in turn by `queue`), do writes
with `txn=` once (`done_once`).
"""

__all__ = [
    "actions",
    "apply",
    "cherry_pick",
    "conflicts",
    "context",
    "done_once",
    "evolve",
    "filtering",
    "history",
    "manifests",
    "matching",
    "multi_table",
    "new_table",
    "planned_change",
    "produce",
    "queue",
    "replace_deletes",
    "rewrite_manifests",
    "table_commit",
]
