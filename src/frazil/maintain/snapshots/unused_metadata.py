"""Find schemas and partition specs that no retained snapshot uses, for `clean_expired_metadata`."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.scan.manifests import each, manifests_of, threads_for_lists
from frazil.scan.options import default_workers
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.spec.updates import RemovePartitionSpecs, RemoveSchemas, Update
from frazil.storage import Storage


def specs_in_use(
    metadata: TableMetadata, snapshots: Sequence[Snapshot], storage: Storage
) -> frozenset[int]:
    """Return the partition specs of the manifests of snapshots."""

    def of_one(snapshot: Snapshot) -> set[int]:
        return {m.partition_spec_id for m in manifests_of(metadata, snapshot, storage, keep=False)}

    threads = threads_for_lists(snapshots, storage, default_workers())
    return frozenset(
        spec_id for spec_ids in each(of_one, snapshots, threads) for spec_id in spec_ids
    )


def without_unused(metadata: TableMetadata, used_specs: frozenset[int]) -> list[Update]:
    """Return the updates that remove the schemas and specs that neither the table nor a snapshot of
    `metadata` uses.
    """
    specs = used_specs | {metadata.default_spec_id}
    schemas = (
        {s.schema_id for s in metadata.snapshots}
        | {metadata.current_schema_id}
        | _schemas_of_specs(metadata, specs)
    )
    unused_specs = tuple(s.spec_id for s in metadata.partition_specs if s.spec_id not in specs)
    unused_schemas = tuple(s.schema_id for s in metadata.schemas if s.schema_id not in schemas)
    updates: list[Update] = [RemovePartitionSpecs(unused_specs)] if unused_specs else []
    return [*updates, RemoveSchemas(unused_schemas)] if unused_schemas else updates


def _schemas_of_specs(metadata: TableMetadata, spec_ids: frozenset[int]) -> set[int]:
    """Return the newest schema of each column that a spec partitions by and that was dropped since:
    the types of its values are there.
    """
    newest_first = sorted(metadata.schemas, key=lambda s: -s.schema_id)
    sources = {
        f.source_id for s in metadata.partition_specs if s.spec_id in spec_ids for f in s.fields
    }
    dropped = sources - set(metadata.schema().by_id)
    return {
        next((s.schema_id for s in newest_first if i in s.by_id), metadata.current_schema_id)
        for i in dropped
    }
