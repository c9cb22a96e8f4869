"""Announce partitions when they are complete (Flink's partition commit): triggers, pending partitions, policies."""

__all__: list[str] = []
