"""Expire snapshots and move branches between them: `retention` decides what expires,
`expire_snapshots` removes it from the metadata and deletes the files that `expired_files` finds,
`move_snapshots` rolls back, cherry-picks and publishes.
"""

__all__ = [
    "expire_snapshots",
    "expired_files",
    "move_snapshots",
    "retention",
]
