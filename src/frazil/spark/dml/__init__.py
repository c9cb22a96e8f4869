"""Change rows by any Spark SQL: DELETE, UPDATE and MERGE whose conditions and values Spark
evaluates, and MERGE sources that are staged so that they are evaluated once.
"""

__all__ = [
    "merge_by_sql",
    "merge_nodes",
    "row_changes",
    "small_source",
    "staging",
    "subquery_values",
]
