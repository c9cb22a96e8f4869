"""Read a table as a stream: `stream_frame` makes the DataFrame, `stream_reader` is the Python data
source that Spark asks for offsets (`stream_planner`) and rows (`read_partition`).
"""

__all__ = [
    "stream_frame",
    "stream_reader",
]
