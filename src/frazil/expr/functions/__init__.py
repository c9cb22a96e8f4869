"""Compute functions and operators of predicates over arrays of internal values, with Spark's ANSI
meaning.
"""

__all__ = ["by_name", "function", "numbers", "partitioning", "text"]
