"""Plan a streaming read: where it starts, which files each micro-batch reads, and the offsets that
a checkpoint keeps.
"""

__all__ = ["file_order", "history", "options", "plan_batch", "source"]
