"""Plan a streaming read: where it starts, which files each micro-batch reads, and the offsets that
a checkpoint keeps.

Start at `source`. `options` has the starting strategies and what each takes, `start` the position
that each stands for (docs/streams.md has a row for each); `batch_end` and `plan_batch` plan a
batch.
"""

__all__ = ["file_order", "history", "options", "plan_batch", "source"]
