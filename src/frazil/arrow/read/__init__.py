"""Read file scan tasks as Arrow batches: projected, deletes applied, filtered exactly, with metadata columns."""
