"""List the files of snapshots: all that a table reaches (`reachable`), a number per data file
(`numbering`), files that are listed twice (`listed_twice`), and the few that a filter keeps of a
large manifest (`bounds_first`).
"""

__all__ = ["listed_twice", "numbering", "reachable"]
