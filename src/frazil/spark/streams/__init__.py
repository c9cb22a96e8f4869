"""Run streaming reads (`source/`) and writes (`sink/`) in Structured Streaming."""

__all__ = ["sink", "source", "stream_table"]
