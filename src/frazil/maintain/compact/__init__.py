"""Rewrite data files (compaction): small files become large ones, rows are sorted or clustered,
deletes are applied.

options (Java's, checked) -> plan (groups of files, columnar) -> rewrite (tasks: files to files,
`sorting` where rows are ordered) -> commit (one, or several with partial progress; `carry` keeps
deletes that other writers committed meanwhile) -> result. Start at `procedure`.
"""

__all__ = ["commit", "options", "procedure"]
