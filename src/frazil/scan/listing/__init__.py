"""List the files of whole snapshots, without a filter: all that a table reaches (`reachable`), a number per data file (`numbering`)."""

__all__ = ["listed_twice", "numbering", "reachable"]
