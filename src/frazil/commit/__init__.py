"""A change becomes a new state of the table: updates applied, snapshots produced, the one swap retried."""
