"""Read, apply and write position deletes, deletion vectors and equality deletes of data files."""

__all__ = [
    "apply_deletes",
    "delete_files",
    "key_set",
    "write_deletes",
]
