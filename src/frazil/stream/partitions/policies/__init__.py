"""Announce a complete partition. A policy is a function that takes a PartitionContext; it may be called again for the same partition."""

__all__ = ["chain", "context", "marks", "merge", "metastore", "success_file"]
