"""Announce partitions when they are complete (Flink's partition commit): triggers, pending
partitions, policies.

`options` → `commit_hook` (takes part in each batch's commit) → `tracking` (changes the state that
is committed with the rows, `state`) → `commit_hook.is_due` and `extractor` (decide which partitions
are due) → `policies/` (announce them). `by_hand`: the methods of a table that list and mark
partitions. `directories/`: the same for plain folders of Parquet files.
"""

__all__ = ["commit_hook", "directories", "options", "zones"]
