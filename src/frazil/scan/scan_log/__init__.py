"""Keep a small log of the filters of scans beside a table's metadata: records, the files that hold
them, and the buffer that writes them.

What is logged and when is decided in `ops.scan_log`; `maintain.advice` reads the log.
"""

__all__ = ["files", "records"]
