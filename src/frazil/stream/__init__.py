"""Plan and commit the micro-batches of streaming queries, without an engine: offsets and file tasks
of sources, batches of sinks.

`source/`: the starting strategies, offsets, admission and planning of a streaming read. `sink/`:
one commit per micro-batch, exactly once. `partitions/`: partition commit, which announces a
partition when it is complete. `hooks`: what runs with the commit of a batch. `engine`: the protocol
by which streams are started.
"""

__all__ = ["engine", "hooks", "partitions", "sink", "source"]
