"""Commit a change as a new state of the table: actions applied to metadata, snapshots produced (`produce`), the one swap retried
(`transaction`, in turn by `queue`), writes with `txn=` done once (`done_once`).
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
    "transaction",
    "written",
]
