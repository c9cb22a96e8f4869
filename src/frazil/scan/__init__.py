"""Snapshot -> file tasks: pick manifests, prune manifests and files, cut and pack tasks, describe the table as metadata tables.

Doors: `plan.plan`, `incremental.plan_append`, `snapshot_ref.resolve`, `combine.combine`, `inspect.metadata_table`. Everything takes
(metadata, storage), never a Table.
"""

__all__ = [
    "cache",
    "changelog",
    "changelog_range",
    "columns",
    "combine",
    "delete_ranges",
    "deletes",
    "equality_relations",
    "explain",
    "incremental",
    "inspect",
    "listing",
    "manifests",
    "narrow",
    "options",
    "plan",
    "prune",
    "snapshot_ref",
    "suffixes",
    "tasks",
    "vectors",
]
