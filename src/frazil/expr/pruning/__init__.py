"""Prune files by ranges of columns and partition values: find the possible outcomes of a predicate
per file.
"""

__all__ = ["partitions", "prune", "prune_tests", "ranges"]
