"""Format tables, views and rows as text for a terminal, and as HTML for a notebook."""

__all__ = [
    "overview",
    "rows_text",
]
