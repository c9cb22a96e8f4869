"""Maintain the table that a stream writes to, after its commits: `triggers` decides which tasks are
due, `lease` lets one process at a time run them, `stream_tasks` gives them their arguments, and
`upkeep` runs them.
"""

__all__ = ["lease", "stream_tasks", "triggers", "upkeep"]
