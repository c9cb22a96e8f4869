"""Change a table's schema, partition spec, sort order, refs, properties and statistics files:
builders that turn calls into metadata updates, with Java's checks."""

__all__ = [
    "evolve_schema",
    "evolve_spec",
    "manage_snapshots",
    "update_properties",
]
