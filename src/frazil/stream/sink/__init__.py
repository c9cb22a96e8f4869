"""Commit the micro-batches of a streaming query, each exactly once.

Start at `batch.StreamSink`, which also finds the batches that Java's sink has committed, or at
`many_tables.ManyTablesSink` for rows that name their table. `options`: checks the options before
the query starts. `rows`: the protocol by which an engine hands over a batch. `reduce`: keeps the
last row per key. `changes`: stages rows by write mode. `equality`: writes equality deletes.
`offsets`: tells batches of one number apart. `arguments`: holds what a caller gives.
A batch that is committed already is recognised in `commit.done_once`: before its rows are written
by `ops.operation`, and again inside the commit.
"""

__all__ = [
    "arguments",
    "batch",
    "equality",
    "many_tables",
    "offsets",
    "options",
    "reduce",
    "rows",
]
