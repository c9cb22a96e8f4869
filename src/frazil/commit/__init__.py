"""A change becomes a new state of the table: updates applied, snapshots produced, the one swap retried."""

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
