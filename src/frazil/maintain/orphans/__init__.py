"""Remove orphan files: `listing` lists the files below a directory, `path_keys` and `locations`
compare them with what metadata names, `orphan_checks` refuses directories that may hold files of
others, and `remove_orphan_files` deletes what is left.
"""

__all__ = ["orphan_checks", "path_keys", "remove_orphan_files"]
