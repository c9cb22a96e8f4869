"""Provide chains of calls as other libraries have them: PyIceberg's `expire_snapshots()` and Java's
`rewriteDataFiles()`.
"""

__all__ = ["actions", "expire_chain"]
