"""List the files of snapshots: all that a table reaches (`reachable`), a number per data file
(`numbering`), and files that are listed twice (`listed_twice`).
"""

__all__ = ["listed_twice", "numbering", "reachable"]
