"""Announce partitions when they are complete (Flink's partition commit): triggers, pending partitions, policies.

`options` → `commit_hook` (what a batch's commit and its end do) → `tracking` (the state that is committed with the rows, `state`) →
`triggers` and `extractor` (what is due) → `policies/` (what announces it). `by_hand`: the words on a table. `directories/`: the same for
plain folders of Parquet files.
"""

__all__ = ["by_hand", "commit_hook", "directories", "options", "policies", "state", "zones"]
