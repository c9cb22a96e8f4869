"""Format tables, views and rows as text for a terminal, and as HTML for a notebook."""

__all__ = ["notebooks", "overview", "rows_text", "view_overview"]
