"""Decide by ranges of columns and partitions which files a predicate can be TRUE for: one tri-state walk, and what is left of the
predicate for the rows of each file (the residual)."""

__all__ = ["partitions", "prune", "ranges"]
