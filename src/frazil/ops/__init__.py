"""Carry one operation from end to end: what is written or read, who does the work, and the one commit at the end.

Whoever writes goes through here: tables and transactions, the Python data source, `format("iceberg")`. A write is a
`operation.TableOperation`, which holds what is staged on a table as it was loaded: `target` (branch, write-audit-publish, options), then
`stage` (frames), or `step`, `row_changes` and `merge` (rows that are there), then one commit. `reading` says what a read is about.
Everything that an operation asks of Spark passes the protocol `engine.Engine`; `in_process` is the one without Spark.
"""

__all__ = [
    "arguments",
    "creation",
    "engine",
    "frames",
    "in_process",
    "merge",
    "metadata_changes",
    "naming",
    "operation",
    "reading",
    "reading_changes",
    "result",
    "row_changes",
    "session",
    "stage",
    "step",
    "target",
]
