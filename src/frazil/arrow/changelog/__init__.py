"""Read the rows of a changelog: inserts, deletes and updates between two snapshots, without rows
that were only carried over.
"""

__all__ = ["changelog_groups", "changelog_rows", "read_changelog"]
