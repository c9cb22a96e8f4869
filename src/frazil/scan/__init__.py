"""Snapshot -> file tasks: pick manifests, prune manifests and files, cut and pack tasks, describe the table as metadata tables.

Doors: `plan.plan`, `incremental.plan_append`, `snapshot_ref.resolve`, `combine.combine`, `inspect.metadata_table`. Everything takes
(metadata, storage), never a Table.
"""
