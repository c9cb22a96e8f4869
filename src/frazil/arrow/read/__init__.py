"""Read file scan tasks as Arrow batches: projected, deletes applied, filtered exactly, with
metadata columns.
"""

__all__ = ["read_context", "read_tasks", "rows_at"]
