"""Tables to commit to, files to commit, and a listing of the files in the store afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable, load_backend
from frazil.catalog.path import LocationBackend
from frazil.commit.actions import Action, Append
from frazil.commit.new_table import new_metadata
from frazil.commit.table_commit import CommitOutcome, commit, create
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import LongType, NestedField, StringType
from tests.builders.data_files import data_file

SCHEMA = Schema(NestedField(1, "id", LongType(), False), NestedField(2, "p", StringType(), False))
NAME = ("db", "t")


def backend_of(kind: str, place: Path) -> CatalogBackend:
    """memory, path (a bare location) or sqlite."""
    if kind == "path":
        return LocationBackend(str(place / "t"), {})
    if kind == "sqlite":
        found = load_backend(
            "s", type="sql", uri=f"sqlite:///{place}/c.db", warehouse=str(place / "w")
        )
    else:
        found = load_backend("m", type="memory")
    if not found.namespace_exists(("db",)):
        found.create_namespace(("db",))
    return found


def name_in(backend: CatalogBackend) -> tuple[str, ...]:
    return () if isinstance(getattr(backend, "inner", backend), LocationBackend) else NAME


def make_table(
    backend: CatalogBackend,
    version: int = 2,
    partition_by: Sequence[str] = (),
    properties: dict[str, str] | None = None,
    schema: Schema = SCHEMA,
) -> LoadedTable:
    name = name_in(backend)
    md = new_metadata(
        schema, build_spec(schema, partition_by), properties=properties, format_version=version
    )
    return create(backend, backend.stage_create(name, md)).table


def do(
    backend: CatalogBackend, *actions: Action, base: LoadedTable | None = None, **more: Any
) -> CommitOutcome:
    return commit(
        backend, base or backend.load(name_in(backend)), actions, sleep=lambda _: None, **more
    )


def entries(table: LoadedTable, snapshot: Snapshot | None = None) -> list[dict[str, Any]]:
    """Every entry of a snapshot (default: the current), with its manifest's path."""
    s = snapshot or table.metadata.current_snapshot()
    found = []
    for m in manifests_of(table.metadata, s, table.storage) if s else ():
        for row in read_manifest(table.storage, m).to_pylist():
            found.append({**row, "manifest": m.manifest_path, "spec_id": m.partition_spec_id})
    return found


def live(table: LoadedTable, snapshot: Snapshot | None = None) -> list[str]:
    """Names of the live data files, sorted: a file that is there twice shows twice."""
    return sorted(
        short(e["file_path"])
        for e in entries(table, snapshot)
        if e["status"] != 2 and e["content"] == 0
    )


def short(path: str) -> str:
    return str(int(path.rpartition("/f")[2].removesuffix(".parquet")))


def stored(table: LoadedTable) -> set[str]:
    """Files below the table's metadata folder."""
    return {f.location for f in table.storage.list(f"{table.metadata.location}/metadata")}


def needed(metadata: TableMetadata, table: LoadedTable) -> set[str]:
    """Manifest lists and manifests that some snapshot refers to."""
    found = set()
    for s in metadata.snapshots:
        found.add(str(s.manifest_list))
        found |= {m.manifest_path for m in manifests_of(metadata, s, table.storage)}
    return found


def avro_files(files: Iterable[str]) -> set[str]:
    return {f for f in files if f.endswith(".avro")}


def nothing_left_over(table: LoadedTable) -> bool:
    """On disk are exactly the manifests and lists that the table refers to."""
    return avro_files(stored(table)) == needed(table.metadata, table)


def append(*numbers: int, **more: Any) -> Append:
    return Append([data_file(n, **more) for n in numbers])


def start(
    backend: CatalogBackend, *files: DataFile, version: int = 2, partition_by: tuple[str, ...] = ()
) -> int:
    """A table of these files, and its snapshot's id."""
    make_table(backend, version, partition_by)
    return do(backend, Append(list(files))).table.metadata.current_snapshot_id or 0
