"""Data files and delete files made up for the tests of this room, and the rules of the
specification applied one pair at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from frazil.expr.parse import parse
from frazil.scan.explain.delete_report import Reason
from frazil.scan.plan import Plan, clear_caches, plan
from frazil.spec.manifest import DataFile, ManifestEntry
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import DELETE_FILE_PATH_ID, Schema
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import DoubleType, LongType, NestedField, StringType
from frazil.storage.locations import normalise
from tests.scan.made import (
    DictStorage,
    MadeFile,
    data_file,
    manifest,
    partition_key,
    table_metadata,
)

SCHEMA = Schema(
    NestedField(1, "id", LongType(), False),
    NestedField(2, "d", DoubleType(), False),
    NestedField(3, "s", StringType(), False),
    schema_id=0,
)
PLAIN = PartitionSpec(spec_id=0)
BY_D = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "d"), spec_id=1)
BY_S = PartitionSpec(PartitionField(3, 1001, IdentityTransform(), "s"), spec_id=2)
SPECS = [PLAIN, BY_D, BY_S]
NAN = float("nan")
VALUES: dict[int, list[Any]] = {
    1: [None, 1, 2, 3, 900],
    2: [None, 0.0, -0.0, 1.5, NAN],
    3: [None, "a", "b", "ä"],
}


@dataclass(frozen=True)
class File:
    """A data file, or a delete file of `kind`: its entry, and the rows (data) or keys it holds."""

    file: DataFile
    sequence: int
    spec: PartitionSpec
    rows: tuple[dict[int, Any], ...] = ()
    kind: str = "data"


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    return bool(a == b)


def path_bounds(file: DataFile) -> tuple[str | None, str | None]:
    """Least and greatest data file of a position delete file."""
    low, high = ((b or {}).get(DELETE_FILE_PATH_ID) for b in (file.lower_bounds, file.upper_bounds))
    return low and low.decode(), high and high.decode()


def named(file: DataFile) -> str | None:
    """The one data file that a position delete file or a deletion vector is about."""
    if int(file.content) == 2:
        return None
    low, high = path_bounds(file)
    about = file.referenced_data_file or (low if low == high else None)
    return about and normalise(about)


def vectors_of(data: Sequence[File], deletes: Sequence[File]) -> set[str]:
    """Data files that have a deletion vector."""
    about = {normalise(f.file.file_path): f.sequence for f in data}
    return {
        p
        for d in deletes
        if d.file.file_format == "puffin"
        and (p := str(named(d.file))) in about
        and about[p] <= d.sequence
    }


def step(data: File, delete: File, vectors: set[str]) -> int:
    """Section "Scan Planning", rule by rule: 0 another file or partition, 1 too old, 2 a vector
    stands in its place, 3 only bounds can tell.
    """
    path, about = normalise(data.file.file_path), named(delete.file)
    equality, everywhere = (
        int(delete.file.content) == 2,
        int(delete.file.content) == 2 and delete.spec.is_unpartitioned,
    )
    partition = data.spec == delete.spec and partition_key(data.file.partition) == partition_key(
        delete.file.partition
    )
    if about is not None and path != about or about is None and not (everywhere or partition):
        return 0
    if data.sequence >= delete.sequence if equality else data.sequence > delete.sequence:
        return 1
    return 2 if not equality and delete.file.file_format != "puffin" and path in vectors else 3


def spec_rules(data: File, delete: File, vectors: set[str]) -> bool:
    """May the delete file apply, bounds of keys aside?"""
    if step(data, delete, vectors) < 3:
        return False
    low, high = path_bounds(delete.file)
    if low is not None and high is not None and low > high:  # says nothing
        return True
    return named(delete.file) is not None or (low or "") <= data.file.file_path <= (high or "~")


def reason_by_rules(delete: File, data: Sequence[File], vectors: set[str]) -> Reason:
    """Why a delete file that applies to none of the data files does not."""
    steps = [step(f, delete, vectors) for f in data]
    equality = int(delete.file.content) == 2
    match max(steps, default=-1):
        case -1:
            return Reason.NO_DATA
        case 0:
            return Reason.DATA_FILE if named(delete.file) is not None else Reason.PARTITION
        case 1:
            return Reason.SEQUENCE
        case 2:
            return Reason.VECTOR
    return (
        Reason.EMPTY if not delete.file.record_count else Reason.KEYS if equality else Reason.PATHS
    )


def really(data: File, delete: File) -> bool:
    ids = delete.file.equality_ids or ()
    return any(all(same(r[i], k[i]) for i in ids) for r in data.rows for k in delete.rows)


@st.composite
def files(draw: Any) -> tuple[list[File], list[File]]:
    data, deletes = [], []
    row = st.fixed_dictionaries({i: st.sampled_from(v) for i, v in VALUES.items()})
    kept, exchanged = (
        st.sampled_from(["vnNb", "vn", "b", "", "vnb"]),
        st.sampled_from([False, False, True]),
    )
    for n in range(draw(st.integers(1, 5))):
        spec = draw(st.sampled_from(SPECS))
        rows = draw(st.lists(row, min_size=1, max_size=3))
        rows = [{**r, **{f.source_id: rows[0][f.source_id] for f in spec.fields}} for r in rows]
        values = tuple(rows[0][f.source_id] for f in spec.fields)
        made = data_file(
            f"/t/data/{n}.parquet",
            MadeFile(tuple(rows), keep=draw(kept), exchanged=draw(exchanged)),
            spec,
            SCHEMA,
            values,
        )
        data.append(File(made, draw(st.integers(1, 4)), spec, tuple(rows)))
    vectors: set[str] = set()
    for n in range(draw(st.integers(1, 8))):
        kind = draw(
            st.sampled_from(
                ["dv", "file", "bounds", "gone", "partition", "range", "equality", "equality"]
            )
        )
        about, sequence = draw(st.sampled_from(data)), draw(st.integers(1, 5))
        spec, partition, path = about.spec, about.file.partition, about.file.file_path
        if kind == "dv" and (path in vectors or sequence < about.sequence):
            kind = "file"
        facts: dict[str, Any] = {
            "content": 1,
            "file_path": f"/t/data/x{n}",
            "file_format": "parquet",
            "record_count": 3,
            "file_size_in_bytes": 9,
        }
        match kind:
            case "dv":
                vectors.add(path)
                facts |= {
                    "file_format": "puffin",
                    "referenced_data_file": path,
                    "content_offset": 4,
                    "content_size_in_bytes": 40,
                }
            case "file":
                facts["referenced_data_file"] = path
            case "gone":
                facts["referenced_data_file"] = "/t/data/gone.parquet"
            case "bounds" | "range":
                low, high = (
                    (path, path)
                    if kind == "bounds"
                    else draw(st.tuples(*[st.sampled_from("0123456789")] * 2))
                )
                ends = (
                    (path, path)
                    if kind == "bounds"
                    else (f"/t/data/{low}.parquet", f"/t/data/{high}.x")
                )
                facts |= {
                    n: {DELETE_FILE_PATH_ID: e.encode()}
                    for n, e in zip(("lower_bounds", "upper_bounds"), ends, strict=True)
                }
        if kind == "equality":
            if draw(st.booleans()):
                spec, partition = PLAIN, ()
            rows = tuple(draw(st.lists(row, min_size=0, max_size=2)))
            ids = tuple(draw(st.sets(st.sampled_from([1, 2, 3]), min_size=1)))
            made = MadeFile(
                rows,
                keep=draw(kept),
                lacks=frozenset({1, 2, 3} - set(ids)),
                exchanged=draw(exchanged),
            )
            made = data_file("", made, spec, SCHEMA, partition)
            keep = {
                n: getattr(made, n)
                for n in (
                    "value_counts",
                    "null_value_counts",
                    "nan_value_counts",
                    "lower_bounds",
                    "upper_bounds",
                )
            }
            facts |= {"content": 2, "equality_ids": ids, "record_count": len(rows), **keep}
            deletes.append(
                File(
                    DataFile(partition=partition, spec_id=spec.spec_id, **facts),
                    sequence,
                    spec,
                    rows,
                    kind,
                )
            )
            continue
        deletes.append(
            File(
                DataFile(partition=partition, spec_id=spec.spec_id, **facts),
                sequence,
                spec,
                (),
                kind,
            )
        )
    return data, deletes


def planned(data: list[File], deletes: list[File], text: str = "TRUE", version: int = 3) -> Plan:
    clear_caches()  # the names of manifests are the same each time
    storage, listed = DictStorage(), []
    for content, some in ((0, data), (1, deletes)):
        for spec in SPECS:
            entries = [
                ManifestEntry(0, f.file, 1, f.sequence, f.sequence) for f in some if f.spec == spec
            ]
            if entries:
                path = f"/t/{content}-{spec.spec_id}.avro"
                listed.append(
                    manifest(
                        storage,
                        path,
                        entries,
                        spec,
                        SCHEMA,
                        sequence_number=9,
                        content=content,
                        format_version=version,
                    )
                )
    metadata = table_metadata(storage, SCHEMA, listed, SPECS, version)
    return plan(
        metadata,
        storage,
        snapshot=metadata.current_snapshot(),
        schema=SCHEMA,
        row_filter=parse(text),
    )  # type: ignore[arg-type]
