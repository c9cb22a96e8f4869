"""Carry out one read or write of a table from end to end, with or without Spark, up to its one
commit.

All writes pass through this room: those of tables and transactions, of the Python data source and
of `format("iceberg")`. A write is a value of `changes` (`insert` makes those of SQL and Spark's
writers) that an `operation.TableOperation` runs. It resolves where to write (`target`: branch,
write-audit-publish, options), stages frames (`stage`) or changes to existing rows (`step`,
`row_changes`, `merge`), and commits them. A read, of rows or of a changelog, is described by
`reading`. Everything that an operation asks of
Spark passes through the protocol `engine.Engine`; `in_process` implements it without Spark.
"""

__all__ = [
    "arguments",
    "changes",
    "creation",
    "engine",
    "find_table",
    "in_process",
    "insert",
    "listening",
    "merge",
    "metadata_changes",
    "operation",
    "reading",
    "row_changes",
    "session",
    "stage",
    "step",
    "table_definition",
    "target",
    "views",
]
