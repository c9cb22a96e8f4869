"""Commit changes to a table: build metadata updates, produce snapshots (`produce`), swap the table's metadata atomically and retry on
conflict (`transaction`, in turn by `queue`), do writes with `txn=` once (`done_once`).
"""

__all__ = [
    "actions",
    "apply",
    "cherry_pick",
    "cleanup",
    "context",
    "done_once",
    "evolve",
    "manifests",
    "new_table",
    "produce",
    "requirements",
    "rewrite_manifests",
    "transaction",
    "written",
]
