"""Serve `format("iceberg")`: what a reader's or writer's options mean, and the Python data source for sessions that were not prepared."""

__all__ = ["datasource", "engine", "iceberg_read", "read_target", "stream_read"]
