"""Commit the micro-batches of a streaming query, each exactly once."""

__all__: list[str] = []
