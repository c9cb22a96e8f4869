"""Files of whole snapshots, without a filter: all that a table reaches (`reachable`), and a number for each data file (`numbering`)."""

__all__ = ["listed_twice", "numbering", "reachable"]
