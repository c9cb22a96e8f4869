"""Change rows by any Spark SQL: conditions, values and merges that Spark decides, and sources of merges staged once."""

__all__ = ["merge_by_sql", "merge_text", "row_changes", "staging"]
