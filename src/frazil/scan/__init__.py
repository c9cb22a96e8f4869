"""Plan scans: choose a snapshot, prune its manifests and data files, match deletes (`deletes`),
split and combine tasks, build metadata tables.

Entry points: `plan.plan`, `served_plan.plan_of_tasks` (tasks that a REST catalog's server has
planned), `incremental.plan_appends`, `changelog.plan_changelog`, `snapshot_ref.resolve`,
`combine.combine`, `inspect.metadata_table`. All of them take (metadata, storage), never a Table, so
that they run in any process.
"""

__all__ = [
    "aggregates",
    "bounds",
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
    "report",
    "served_plan",
    "snapshot_ref",
    "summaries",
    "tasks",
    "vectors",
]
