"""Every file that a table's metadata reaches, and no other: held against what lies in the store."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import CorruptData, FrazilError, NoSuchFileError
from frazil.scan.listing.reachable import FileKind, reachable
from frazil.scan.manifests import clear_caches, manifest_cache
from frazil.spec.manifest import ManifestEntry
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshots
from frazil.spec.types import LongType, NestedField
from tests.builders.catalogs import catalog_of
from tests.scan.made import DictStorage, MadeFile, data_file, manifest, table_metadata

ROWS = pa.table({"id": list(range(9)), "s": list("abcabcabc")})


@pytest.fixture(params=[1, 2, 3])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> frazil.Table:
    """Appends, deletes (of every kind that the version has), a branch, a staged snapshot,
    statistics, an old metadata file.
    """
    catalog = catalog_of("sql", tmp_path, "r")
    t = catalog.create_table("db.t", ROWS, format_version=request.param, partition_by=["s"])
    t.append(ROWS)
    t.append(ROWS, branch="side")
    t.delete("id = 4", mode="merge-on-read" if request.param > 1 else "copy-on-write")
    t.delete("id = 5", mode="copy-on-write")
    t.append(ROWS.slice(0, 2))
    t.delete("s = 'c'")
    return t


def everything(table: frazil.Table) -> set[str]:
    return {i.location.removeprefix("file://") for i in table.io.list(table.location())}


def paths(
    table: frazil.Table, snapshots: Iterable[int | None] | None = None, **named: object
) -> dict[FileKind, set[str]]:
    """The files by kind; of `snapshots`, if given, those that metadata with these snapshots alone
    reaches.
    """
    found: dict[FileKind, set[str]] = {}
    metadata = table.metadata
    if snapshots is not None:
        metadata = replace(
            metadata,
            snapshots=Snapshots.of(s for s in metadata.snapshots if s.snapshot_id in snapshots),
        )
    for batch in reachable(metadata, table.io, metadata_location=table.metadata_location, **named):  # type: ignore[arg-type]
        assert len(set(batch.paths.to_pylist())) == len(batch)
        found.setdefault(batch.kind, set()).update(
            p.removeprefix("file://") for p in batch.paths.to_pylist()
        )
    return found


def test_every_file_of_a_table_is_reached_and_no_other(table: frazil.Table) -> None:
    clear_caches()
    found = paths(table)
    assert set().union(*found.values()) == everything(table)
    assert {
        FileKind.DATA,
        FileKind.MANIFEST,
        FileKind.MANIFEST_LIST,
        FileKind.METADATA,
    } <= found.keys()
    assert (FileKind.DELETES in found) == (table.metadata.format_version > 1)
    assert all(p.endswith(".metadata.json") for p in found[FileKind.METADATA])
    assert manifest_cache.bytes == 0, "it drives nothing out of the cache"
    assert paths(table, workers=1) == found


def test_what_one_snapshot_alone_reaches_is_the_difference(table: frazil.Table) -> None:
    first, *rest = [s.snapshot_id for s in table.metadata.snapshots]
    gone, kept = paths(table, [first]), paths(table, rest)
    assert len(gone[FileKind.MANIFEST_LIST]) == 1 and gone[FileKind.MANIFEST_LIST].isdisjoint(
        kept[FileKind.MANIFEST_LIST]
    )
    both = paths(table)
    assert {k: gone.get(k, set()) | kept.get(k, set()) for k in both} == both
    live = {f.file.file_path.removeprefix("file://") for f in table.scan().plan_files()}
    assert paths(table, [table.metadata.current_snapshot_id])[FileKind.DATA] == live


def test_files_that_a_snapshot_removed_are_left_out_unless_asked_for(table: frazil.Table) -> None:
    removing = [
        s for s in table.metadata.snapshots if int(s.summary.get("deleted-data-files", "0"))
    ]
    assert removing
    for snapshot in removing:
        live, also = (
            paths(table, [snapshot.snapshot_id], removed=r).get(FileKind.DATA, set())
            for r in (False, True)
        )
        before = paths(table, [snapshot.parent_snapshot_id])[FileKind.DATA]
        assert live < also and len((also - live) & before) == int(
            snapshot.summary["deleted-data-files"]
        )


def test_without_contents_no_manifest_is_read(table: frazil.Table) -> None:
    found = paths(table, contents=False)
    assert FileKind.DATA not in found and FileKind.DELETES not in found
    whole = paths(table)
    assert all(
        found[k] == whole[k] for k in (FileKind.MANIFEST, FileKind.MANIFEST_LIST, FileKind.METADATA)
    )


def test_statistics_of_all_snapshots_are_reached(table: frazil.Table) -> None:
    first, second = (s.snapshot_id for s in list(table.metadata.snapshots)[:2])
    md = replace(
        table.metadata,
        statistics=(
            {"snapshot-id": first, "statistics-path": "/s/one.stats"},
            {"snapshot-id": second, "statistics-path": "/s/two.stats"},
        ),
        partition_statistics=({"snapshot-id": first, "statistics-path": "/s/parts.parquet"},),
    )
    reached = {
        p
        for b in reachable(md, table.io)
        if b.kind is FileKind.STATISTICS
        for p in b.paths.to_pylist()
    }
    assert reached == {"/s/one.stats", "/s/two.stats", "/s/parts.parquet"}


@pytest.mark.parametrize("kind", [FileKind.MANIFEST, FileKind.MANIFEST_LIST])
@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_file_that_cannot_be_read_is_an_error_unless_someone_wants_to_be_told(
    table: frazil.Table, kind: FileKind, damage: str
) -> None:
    whole = paths(table)
    victim = sorted(whole[kind])[0]
    clear_caches()
    if damage == "gone":
        Path(victim).unlink()
    else:
        Path(victim).write_bytes(b"Obj\x01 torn")
    with pytest.raises((CorruptData, NoSuchFileError), match=victim.rpartition("/")[2]):
        paths(table)
    told: list[tuple[str, FrazilError]] = []
    rest = paths(table, unreadable=lambda file, error: told.append((file, error)))
    assert [file.removeprefix("file://") for file, _ in told] == [victim]
    assert rest[FileKind.METADATA] == whole[FileKind.METADATA] and victim in rest[kind]
    assert all(rest[k] <= whole[k] for k in rest)


def test_memory_does_not_grow_with_the_number_of_manifests() -> None:
    schema, spec, storage = (
        Schema(NestedField(1, "id", LongType(), False)),
        PartitionSpec(),
        DictStorage(),
    )

    def made(manifests: int) -> int:
        listed = []
        for m in range(manifests):
            entries = [
                ManifestEntry(
                    1,
                    data_file(
                        f"/t/data/{m:05d}-{n:05d}.parquet", MadeFile(({1: n},)), spec, schema, ()
                    ),
                    1,
                )
                for n in range(200)
            ]
            listed.append(
                manifest(storage, f"/t/metadata/{manifests}-m{m}.avro", entries, spec, schema)
            )
        md = table_metadata(storage, schema, listed, [spec])
        files = 0
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        most = 0
        for batch in reachable(md, storage, workers=1):  # type: ignore[arg-type]
            files += len(batch) if batch.kind is FileKind.DATA else 0
            most = max(most, pa.total_allocated_bytes() - before)
        peak = most + tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert files == manifests * 200
        return peak

    made(4)
    few, many = made(10), made(80)
    assert many < 3 * few + 300_000, f"{few} bytes for 10 manifests, {many} for 80"
