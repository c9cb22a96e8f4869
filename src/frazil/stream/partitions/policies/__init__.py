"""Announce a complete partition. A policy is a function that takes a PartitionContext; it may be
called again for the same partition.
"""

__all__ = ["chain", "context", "metastore", "success_file"]
