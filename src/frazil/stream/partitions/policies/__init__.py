"""Announce a complete partition: a policy is one function of a PartitionContext, which is safe to repeat."""

__all__ = ["chain", "context", "marks", "merge", "metastore", "success_file"]
