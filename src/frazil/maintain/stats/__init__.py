"""Compute statistics of a table for query planners: numbers of distinct values (`table_stats`),
counts by partition (`partition_stats`).
"""

__all__ = ["partition_stats", "table_stats"]
