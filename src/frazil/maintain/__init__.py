"""Keep tables in shape: compaction, expiry of snapshots, removal of orphan files, manifests, statistics.

Each procedure is a file with a frozen plan and a function that applies it; the plan is what `dry_run=True` returns. Nothing here knows an
engine: work on files goes through a Runner, whole-row shuffles through `ops.engine.Engine`. Start at `procedure` (what all procedures
share: the table that is maintained, and results with the columns of Java Iceberg's procedures).
"""

__all__ = ["convert_equality", "delete_files", "procedure", "progress"]
