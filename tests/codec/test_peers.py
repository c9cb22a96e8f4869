"""PyIceberg and Java read manifests, lists and metadata that we wrote, and find in them what we put
there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from frazil.codec.manifest import decode_manifest, encode_manifest, entries_from_table
from frazil.codec.manifest_list import decode_manifest_list, encode_manifest_list
from frazil.codec.metadata_json import decode_metadata, encode_metadata
from frazil.spec.manifest import DataFile, FieldSummary, ManifestEntry, ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshots
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
)
from frazil.spec.types import (
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)
from tests.golden import Golden, names

pytestmark = pytest.mark.java

READ = """
import json, sys
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list
io = PyArrowFileIO()
plain = lambda d, f: None if d is None else {k: f(d[k]) for k in d}
found = []
for location in sys.argv[1:]:
    m = read_manifest_list(io.new_input(location))
    found.append([])
    for m, e in [(m, e) for m in m for e in m.fetch_manifest_entry(io, discard_deleted=False)]:
        f = e.data_file
        found[-1].append([int(e.status), e.snapshot_id, e.sequence_number, e.file_sequence_number, int(f.content), f.file_path, f.file_format.value.lower(), str([str(v) for v in f.partition]),
                      f.record_count, f.file_size_in_bytes, plain(f.value_counts, int), plain(f.lower_bounds, bytes.hex), f.split_offsets, f.sort_order_id,
                      m.partition_spec_id, int(m.content), m.added_files_count, [[p.contains_null, p.contains_nan, p.lower_bound and p.lower_bound.hex()] for p in m.partitions or []]])
print(json.dumps(found))
"""
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "a.b", StringType()),
    NestedField(3, "ts", TimestampType()),
    NestedField(4, "d", DecimalType(9, 2)),
    NestedField(5, "u", UUIDType()),
    NestedField(6, "day", DateType()),
)
FIELDS = [
    (1, BucketTransform(4), "id_bucket"),
    (2, IdentityTransform(), "a.b"),
    (3, DayTransform(), "ts_day"),
    (4, TruncateTransform(50), "d_trunc"),
    (6, IdentityTransform(), "day"),
]
SPEC = PartitionSpec(
    *(PartitionField(source, 1000 + i, t, name) for i, (source, t, name) in enumerate(FIELDS)),
    spec_id=1,
)


def written(folder: Path, version: int, codec: str) -> tuple[str, list[ManifestEntry]]:
    """A list of one manifest with some entries of every kind."""

    def entry(n: int, status: int, partition: tuple[Any, ...], **more: Any) -> ManifestEntry:
        file = DataFile(
            file_path=f"s3://b/t/{n}.parquet",
            file_format="parquet",
            partition=partition,
            record_count=n,
            file_size_in_bytes=10 * n,
            spec_id=1,
            **more,
        )
        return ManifestEntry(
            status,
            file,
            None if status == 1 else 5,
            None if status == 1 else 2,
            None if status == 1 else 2,
        )

    full = (3, "x/y", 17486, Decimal("10.50"), 100)
    entries = [
        entry(
            1,
            1,
            full,
            value_counts={1: 7, 2: 8},
            lower_bounds={1: b"\x01" + b"\x00" * 7},
            split_offsets=(4,),
            sort_order_id=0,
        ),
        entry(2, 0, (None,) * 5),
        entry(3, 2, full),
    ]
    data = encode_manifest(
        entries, spec=SPEC, schema=SCHEMA, format_version=version, snapshot_id=9, codec=codec
    )
    (folder / "m0.avro").write_bytes(data)
    m = ManifestFile(
        manifest_path=str(folder / "m0.avro"),
        manifest_length=len(data),
        partition_spec_id=1,
        sequence_number=4,
        min_sequence_number=2,
        added_snapshot_id=9,
        added_files_count=1,
        existing_files_count=1,
        deleted_files_count=1,
        added_rows_count=1,
        existing_rows_count=2,
        deleted_rows_count=3,
        partitions=(FieldSummary(True, False, b"a", b"b"),) * 5,
    )
    (folder / "list.avro").write_bytes(
        encode_manifest_list(
            [m],
            snapshot_id=9,
            parent_snapshot_id=None,
            sequence_number=4,
            first_row_id=0,
            format_version=version,
            codec=codec,
        )
    )
    return str(folder / "list.avro"), entries


KINDS = [(1, "gzip"), (2, "gzip"), (2, "uncompressed"), (2, "zstd"), (3, "gzip")]


def test_pyiceberg_finds_in_our_manifests_what_we_wrote(
    pyiceberg_check: Any, tmp_path: Path
) -> None:
    lists = []
    for version, codec in KINDS:
        (folder := tmp_path / f"{version}-{codec}").mkdir()
        location, entries = written(folder, version, codec)
        lists.append(location)
    answers = json.loads(pyiceberg_check.run(READ, *lists).splitlines()[-1])
    for (version, _), found in zip(KINDS, answers, strict=True):
        check(version, entries, found)


def check(version: int, entries: list[ManifestEntry], found: list[Any]) -> None:
    assert [f[5] for f in found] == [e.data_file.file_path for e in entries]
    assert [f[0] for f in found] == [1, 0, 2]
    assert [f[1] for f in found] == [9, 5, 5]
    if version > 1:
        assert [f[2] for f in found] == [4, 2, 2]
        assert [f[3] for f in found] == [4, 2, 2]
    assert found[0][6:11] == [
        "parquet",
        str(["3", "x/y", "17486", "10.50", "100"]),
        1,
        10,
        {"1": 7, "2": 8},
    ]
    assert found[1][7] == str(["None"] * 5)
    assert found[0][11:14] == [{"1": "0100000000000000"}, [4], 0]
    assert found[0][14:] == [1, 0, 1, [[True, False, "61"]] * 5]


def test_pyiceberg_reads_golden_metadata_and_manifests_written_again_by_us(
    golden: Golden, pyiceberg_check: Any, tmp_path: Path
) -> None:
    wanted, arguments = [], []
    for name in names(deletes=None):
        metadata = decode_metadata(Path(golden[name].metadata_file).read_bytes())
        snapshot = metadata.current_snapshot()
        if (
            golden[name].index.get("pyiceberg_reads") is not True
            or snapshot is None
            or snapshot.manifest_list is None
        ):
            continue
        folder = tmp_path / name
        folder.mkdir()
        (folder / "v.metadata.json").write_bytes(encode_metadata(metadata))
        manifests = decode_manifest_list(
            Path(snapshot.manifest_list.removeprefix("file:")).read_bytes()
        )
        listed = encode_manifest_list(
            manifests,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=None,
            sequence_number=snapshot.sequence_number,
            format_version=metadata.format_version,
        )
        (folder / "list.avro").write_bytes(listed)
        live = sum(
            sum(
                s != 2
                for s in decode_manifest(
                    Path(m.manifest_path.removeprefix("file:")).read_bytes(), m, columns=("status",)
                )["status"].to_pylist()
            )
            for m in manifests
        )
        wanted.append(
            [name, metadata.format_version, len(metadata.snapshots), str(metadata.table_uuid), live]
        )
        arguments += [name, str(folder / "v.metadata.json"), str(folder / "list.avro")]
    code = """
import json, sys
from pathlib import Path
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list
from pyiceberg.serializers import FromInputFile
io, found, a = PyArrowFileIO(), [], sys.argv[1:]
for name, metadata, listed in zip(a[::3], a[1::3], a[2::3]):
    m = FromInputFile.table_metadata(io.new_input(metadata))
    live = sum(len(f.fetch_manifest_entry(io)) for f in read_manifest_list(io.new_input(listed)))
    found.append([name, m.format_version, len(m.snapshots), str(m.table_uuid), live])
print(json.dumps(found))
"""
    assert len(wanted) > 30
    assert json.loads(pyiceberg_check.run(code, *arguments).splitlines()[-1]) == wanted


CODECS = ("gzip", "zstd", "snappy", "uncompressed")
REWRITTEN = [
    "plain_v1", "plain_v2", "plain_v3", "part_multi", "part_special", "part_bucket_each", "part_identity", "part_float", "part_days", "names", "types_all", "spec_evolution_v1",
    "spec_evolution_v2", "dv_v3", "eq_partitioned", "pos_deletes_file", "defaults_v3", "v1_to_v2", "upgrade_v2_v3", "branches_tags",
]  # fmt: skip


def rewritten(location: str, codec: str) -> None:
    """Every manifest, list and the metadata of a path table, written again by us."""
    folder = Path(location) / "metadata"
    metadata, snapshots = decode_metadata((folder / "v1.metadata.json").read_bytes()), []
    version, again = metadata.format_version, {}
    for s in metadata.snapshots:
        if s.manifest_list is None:
            snapshots.append(s)
            continue
        listed = []
        for m in decode_manifest_list(Path(s.manifest_list.removeprefix("file:")).read_bytes()):
            if m.manifest_path not in again:
                spec = metadata.spec_by_id(m.partition_spec_id)
                schema = next(
                    x
                    for x in (metadata.schema(), *metadata.schemas)
                    if all(f.source_id in x.by_id for f in spec.fields)
                )
                entries = entries_from_table(
                    decode_manifest(Path(m.manifest_path.removeprefix("file:")).read_bytes(), m),
                    spec,
                )
                data = encode_manifest(
                    entries,
                    spec=spec,
                    schema=schema,
                    format_version=version,
                    content=m.content,
                    snapshot_id=m.added_snapshot_id,
                    codec=codec,
                )
                (folder / f"m{len(again)}.avro").write_bytes(data)
                again[m.manifest_path] = replace(
                    m, manifest_path=str(folder / f"m{len(again)}.avro"), manifest_length=len(data)
                )
            listed.append(replace(again[m.manifest_path], first_row_id=m.first_row_id))
        numbers = {
            "parent_snapshot_id": s.parent_snapshot_id,
            "sequence_number": s.sequence_number,
            "first_row_id": s.first_row_id,
        }
        path = folder / f"list-{s.snapshot_id}.avro"
        path.write_bytes(
            encode_manifest_list(
                listed, snapshot_id=s.snapshot_id, format_version=version, codec=codec, **numbers
            )
        )
        snapshots.append(replace(s, manifest_list=str(path)))
    (folder / "v1.metadata.json").write_bytes(
        encode_metadata(replace(metadata, snapshots=Snapshots.of(snapshots)))
    )


def test_java_reads_golden_tables_whose_metadata_was_all_written_again_by_us(
    golden: Golden, writable_copy: Any, java_check: Any
) -> None:
    locations = {}
    for n, name in enumerate(REWRITTEN):
        locations[name] = writable_copy(name)
        rewritten(locations[name], CODECS[n % len(CODECS)])
    results = java_check(list(locations.values()), write=False)
    for name, location in locations.items():
        expected, found = golden[name].expected, results[location]
        assert (name, found["ok"], found["problems"]) == (name, True, [])
        assert (name, found["rows"], found["sum"]) == (name, expected["rows"], expected["checksum"])
