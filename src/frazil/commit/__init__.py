"""Commit changes to a table: build metadata updates, produce snapshots, swap the table metadata atomically, and retry on conflict."""

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
