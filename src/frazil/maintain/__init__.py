"""Maintain tables: compaction, expiry of snapshots, removal of orphan files, manifests, statistics.

Each procedure is a file with a frozen plan and a function that applies it; `dry_run=True` reports
the plan. No procedure depends on an engine: work on files goes through a Runner, shuffles of rows
through `ops.engine.Engine`. Start at `procedure`, which all procedures share: the table that is
maintained, and results with the columns of Java Iceberg's procedures. `procedures` lists them all,
as data.
"""

__all__ = [
    "advice",
    "compact",
    "migration",
    "orphans",
    "position_deletes",
    "procedure",
    "procedures",
    "progress",
    "rewrite_manifests",
    "rewrite_table_path",
    "snapshots",
    "stats",
    "stream_upkeep",
    "wording",
]
