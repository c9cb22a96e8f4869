"""Change a table's schema, partition spec, sort order and refs: builders that turn calls into metadata updates, with Java's checks."""
