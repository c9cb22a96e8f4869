"""Rewrite row-level deletes: small and dangling position delete files
(`rewrite_position_delete_files`), and equality deletes as positions (`convert_equality`). Both
commit beside other writers by `conflict_retries`.
"""

__all__ = [
    "conflict_retries",
    "convert_equality",
    "delete_groups",
    "rewrite_position_delete_files",
]
