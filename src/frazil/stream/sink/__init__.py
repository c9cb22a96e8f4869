"""Commit the micro-batches of a streaming query, each exactly once.

Doors: `batch.StreamSink`, and `many_tables.ManyTablesSink` for rows that name their table, which `split` brings together.
`options` are checked before the query starts; `rows` is what an engine hands over of a batch, `reduce` keeps
the last row of each key, `changes` stages them by write mode, `equality` writes equality deletes, `java_marks` knows what Java committed.
"""

__all__ = ["batch", "equality", "many_options", "many_tables", "options", "reduce", "rows", "split"]
