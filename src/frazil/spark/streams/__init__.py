"""Run streaming reads and writes in Structured Streaming: the Python data source's stream reader
and writer, and foreachBatch.
"""

__all__ = [
    "files", "keyed_writer", "many_tables", "source_writer", "stream_frame", "stream_reader", "stream_spec", "stream_table", "writer",
]  # fmt: skip
