"""Delete files and vectors as they are written: their bytes, their metrics, and that reading takes
away just those rows.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.arrow.deletes.write_deletes import (
    FileDeletes,
    write_equality_deletes,
    write_position_deletes,
    write_vectors,
)
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import write
from frazil.codec.deletion_vector import decode_vector, positions_array
from frazil.codec.manifest import entries_from_table
from frazil.codec.single_value import from_bytes
from frazil.commit.actions import RowDelta
from frazil.commit.table_commit import commit
from frazil.errors import InvalidInput, StorageError, Unsupported
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec.manifest import DataFile
from frazil.spec.types import LongType, StringType
from frazil.testing.flaky_storage import FlakyStorage
from tests.builders.frames import ids
from tests.codec.puffin_files import decode_blob, decode_footer

PATH, POS = 2147483546, 2147483545


def frame(*ids: int, p: str = "a") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": [p] * len(ids),
            "s": pa.array([{"k": i % 3, "x": 1.5} for i in ids]),
        }
    )


SCHEMA = "id bigint, p string, s struct<k: int, x: double>"


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """`table(version=2, partition_by=[], **properties)`: a table with two files of ten rows, the
    second of partition b.
    """

    def made(version: int = 2, partition_by: Any = (), **properties: str) -> Any:
        catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path / f"w{version}"))
        catalog.create_namespace_if_not_exists("db")
        t = catalog.create_table(
            "db.t",
            SCHEMA,
            partition_by=list(partition_by),
            properties=properties,
            format_version=version,
        )
        t.append(frame(*range(10)))
        t.append(frame(*range(10, 20), p="b"))
        return t

    return made


def files_of(t: Any) -> list[DataFile]:
    found = []
    for m in manifests_of(t.metadata, t.current_snapshot(), t.io):
        found += [
            e.data_file
            for e in entries_from_table(
                read_manifest(t.io, m), t.metadata.spec_by_id(m.partition_spec_id)
            )
        ]
    return sorted((f for f in found if f.content == 0), key=lambda f: bound(f, "lower_bounds", 1))


def context_of(t: Any, **more: Any) -> WriteContext:
    return WriteContext.of(t.metadata, t.io, write_options(more))


def commit_deletes(t: Any, *deletes: DataFile) -> None:
    commit(t._backend, t._loaded, [RowDelta(added_deletes=deletes)])
    t.refresh()


def at(file: DataFile, *positions: int) -> FileDeletes:
    return FileDeletes(file, np.array(positions, np.int64))


def bound(file: DataFile, which: str, field_id: int) -> Any:
    return from_bytes(
        StringType() if field_id == PATH else LongType(), getattr(file, which)[field_id]
    )


@pytest.fixture
def t(table: Any) -> Any:
    return table(partition_by=["p"])


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_position_delete_file_is_sorted_and_names_its_one_data_file(
    table: Any, format_: str
) -> None:
    t = table(**{"write.delete.format.default": format_})
    one, two = files_of(t)
    written = write_position_deletes([at(two, 0, 9), at(one, 3)], context_of(t), granularity="file")
    assert [f.referenced_data_file for f in written] == [two.file_path, one.file_path]
    for f, rows in zip(written, (2, 1), strict=True):
        assert (f.content, f.file_format, f.record_count, f.sort_order_id) == (
            1,
            format_,
            rows,
            None,
        )
        assert f.file_path.endswith(f"-deletes.{format_}") and f.file_size_in_bytes == t.io.size(
            f.file_path
        )
        assert (
            bound(f, "lower_bounds", PATH)
            == bound(f, "upper_bounds", PATH)
            == f.referenced_data_file
        )
        assert f.value_counts is f.null_value_counts is f.nan_value_counts is f.equality_ids is None
    assert (bound(written[0], "lower_bounds", POS), bound(written[0], "upper_bounds", POS)) == (
        0,
        9,
    )
    commit_deletes(t, *written)
    assert ids(t) == [0, 1, 2, *range(4, 10), *range(11, 19)]


def test_granularity_partition_gathers_the_files_of_a_partition_and_mixes_none(t: Any) -> None:
    t.append(frame(*range(20, 30), p="b"))
    one, two, three = files_of(t)
    written = write_position_deletes(
        [at(three, 1), at(one, 5), at(two, 2, 4)], context_of(t), granularity="partition"
    )
    assert [(f.partition, f.record_count) for f in written] == [(("b",), 3), (("a",), 1)]
    assert (
        written[0].referenced_data_file is None and written[1].referenced_data_file == one.file_path
    )
    rows = pq.read_table(written[0].file_path).to_pylist()
    assert rows == sorted(
        ({"file_path": f.file_path, "pos": p} for f, p in ((two, 2), (two, 4), (three, 1))),
        key=lambda r: (r["file_path"], r["pos"]),
    )
    assert "/p=b/" in written[0].file_path and "/p=a/" in written[1].file_path
    commit_deletes(t, *written)
    assert ids(t) == [i for i in range(30) if i not in (21, 5, 12, 14)]


def test_the_file_says_what_java_says(table: Any) -> None:
    t = table()
    (f,) = write_position_deletes([at(files_of(t)[0], 1)], context_of(t))
    file = pq.ParquetFile(f.file_path)
    notes = file.metadata.metadata
    assert notes[b"delete-type"] == b"position"
    fields = json.loads(notes[b"iceberg.schema"])["fields"]
    assert [(x["id"], x["name"], x["required"], x["type"]) for x in fields] == [
        (PATH, "file_path", True, "string"),
        (POS, "pos", True, "long"),
    ]
    assert not any(c.nullable for c in file.schema_arrow)
    (e,) = write_equality_deletes(conform(frame(1), t.schema()), context_of(t), [2, 1])
    notes = pq.ParquetFile(e.file_path).metadata.metadata
    assert (notes[b"delete-type"], notes[b"delete-field-ids"]) == (b"equality", b"2, 1")


def test_sizes_and_codecs_of_delete_files_are_their_own(table: Any) -> None:
    t = table(
        **{
            "write.delete.parquet.compression-codec": "gzip",
            "write.parquet.compression-codec": "zstd",
            "write.delete.target-file-size-bytes": "1",
            "write.delete.parquet.row-group-size-bytes": "2000",
            "write.parquet.bloom-filter-enabled.column.id": "true",
        }
    )
    one, two = files_of(t)
    written = write_position_deletes(
        [at(one, *range(10)), at(two, *range(10))], context_of(t), granularity="partition"
    )
    assert len(written) > 1 and sum(f.record_count for f in written) == 20
    assert len({f.file_path for f in written}) == len(written)
    assert {
        pq.ParquetFile(f.file_path).metadata.row_group(0).column(0).compression for f in written
    } == {"GZIP"}
    assert (
        len(
            write_position_deletes(
                [at(one, *range(10))], context_of(t, target_delete_file_size_bytes=10**6), first=100
            )
        )
        == 1
    )


def test_positions_that_a_file_cannot_have_are_refused_and_nothing_is_left(table: Any) -> None:
    t = table()
    one, two = files_of(t)
    before = {f.location for f in t.io.list(t.location())}
    for wrong in (
        [at(one, 3), at(two, 10)],
        [at(one, -1)],
        [at(one, 4, 4)],
        [at(one, 5, 4)],
        [at(one, 1), at(one, 2)],
    ):
        with pytest.raises(InvalidInput):
            write_position_deletes(wrong, context_of(t))
    assert {f.location for f in t.io.list(t.location())} == before
    assert write_position_deletes([at(one)], context_of(t)) == []
    with pytest.raises(InvalidInput, match="granularity"):
        write_position_deletes([], context_of(t), granularity="row")


def test_versions_refuse_the_deletes_of_others(table: Any) -> None:
    v2, v3 = table(2), table(3)
    with pytest.raises(Unsupported, match="version 3"):
        write_vectors([at(files_of(v2)[0], 1)], context_of(v2))
    with pytest.raises(Unsupported, match="version 2"):
        write_position_deletes([at(files_of(v3)[0], 1)], context_of(v3))
    with pytest.raises(Unsupported, match="version 3"):
        context_of(v2).keeping_lineage()


def test_vectors_of_many_files_share_one_puffin_file(table: Any) -> None:
    t = table(3, partition_by=["p"])
    one, two = files_of(t)
    written = write_vectors([at(two, 0, 9), at(one, 3)], context_of(t))
    assert len({f.file_path for f in written}) == 1 and written[0].file_path.endswith(
        "-00001-deletes.puffin"
    )
    data = t.io.read(written[0].file_path)
    footer = decode_footer(data)
    assert footer.properties == {"created-by": f"Frazil {frazil.__version__}"}
    for f, blob, file, positions in zip(
        written, footer.blobs, (two, one), ([0, 9], [3]), strict=True
    ):
        assert (f.content, f.file_format, f.record_count, f.file_size_in_bytes) == (
            1,
            "puffin",
            len(positions),
            len(data),
        )
        assert (f.referenced_data_file, f.partition, f.spec_id) == (
            file.file_path,
            file.partition,
            file.spec_id,
        )
        assert (f.content_offset, f.content_size_in_bytes) == (blob.offset, blob.length)
        assert (blob.type, blob.fields, blob.snapshot_id, blob.sequence_number) == (
            "deletion-vector-v1",
            (2147483645,),
            -1,
            -1,
        )
        assert blob.properties == {
            "referenced-data-file": file.file_path,
            "cardinality": str(len(positions)),
        }
        assert positions_array(decode_vector(decode_blob(data, blob))).tolist() == positions
    commit_deletes(t, *written)
    assert ids(t) == [0, 1, 2, *range(4, 10), *range(11, 19)]
    assert write_vectors([at(one)], context_of(t), first=2) == []


@given(
    st.lists(st.integers(0, 300_000), max_size=60), st.integers(0, 200_000), st.integers(0, 70_000)
)
@settings(max_examples=30, deadline=None)
def test_any_positions_come_back_from_a_vector(some: list[int], start: int, length: int) -> None:
    from frazil.storage import storage_for
    from tests.arrow.support import somewhere

    place = somewhere()
    context = WriteContext(
        frazil.Schema(),
        frazil.PartitionSpec(),
        frazil.SortOrder(),
        storage_for(place, {}),
        place,
        {},
        format_version=3,
    )
    file = DataFile(
        file_path="memory://x/f", file_format="parquet", record_count=400_000, file_size_in_bytes=1
    )
    positions = sorted({*some, *range(start, start + length)})
    written = write_vectors([FileDeletes(file, np.array(positions, np.int64))], context)
    assert [f.record_count for f in written] == ([len(positions)] if positions else [])
    for f in written:
        data = context.storage.read(f.file_path)
        blob = data[f.content_offset : f.content_offset + f.content_size_in_bytes]  # type: ignore[operator]
        assert positions_array(decode_vector(blob)).tolist() == positions


def test_equality_deletes_hold_key_columns_only_sorted_by_partition(t: Any) -> None:
    rows = pa.concat_tables([frame(7, 3), frame(15, 11, p="b")])
    written = write_equality_deletes(conform(rows, t.schema()), context_of(t), [1])
    assert [
        (f.partition, f.record_count, f.content, f.equality_ids, f.sort_order_id) for f in written
    ] == [(("a",), 2, 2, (1,), 0), (("b",), 2, 2, (1,), 0)]
    assert pq.read_table(written[0].file_path).to_pydict() == {"id": [3, 7]}
    assert (bound(written[1], "lower_bounds", 1), bound(written[1], "upper_bounds", 1)) == (11, 15)
    commit_deletes(t, *written)
    assert ids(t) == [i for i in range(20) if i not in (3, 7, 11, 15)]


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_nested_keys_and_nulls_delete_what_equals_them(table: Any, format_: str) -> None:
    t = table(**{"write.delete.format.default": format_})
    k = t.schema().find_field("s.k").field_id
    rows = pa.table(
        {
            "id": pa.array([4, None], pa.int64()),
            "p": ["a", "b"],
            "s": pa.array(
                [{"k": 1, "x": 9.0}, None], pa.struct([("k", pa.int32()), ("x", pa.float64())])
            ),
        }
    )
    written = write_equality_deletes(
        conform(rows, t.schema()), context_of(t, delete_format=format_), [1, k]
    )
    assert [f.file_format for f in written] == [format_] and written[0].record_count == 2
    commit_deletes(t, *written)
    assert ids(t) == [i for i in range(20) if i != 4]


def test_columns_that_cannot_be_keys_are_refused(table: Any) -> None:
    t = table()
    for keys in (
        [],
        [99],
        [t.schema().find_field("s").field_id],
        [t.schema().find_field("s.x").field_id],
    ):
        with pytest.raises(InvalidInput, match="quality deletes"):
            write_equality_deletes(conform(frame(1), t.schema()), context_of(t), keys)


def test_little_memory_makes_more_files_but_loses_no_key(t: Any) -> None:
    batches = [b for n in range(20) for b in conform(frame(n, p="ab"[n >= 10]), t.schema())]
    written = write_equality_deletes(batches, replace(context_of(t), memory=1), [1])
    assert len(written) == 20
    commit_deletes(t, *written)
    assert ids(t) == []


def test_a_failure_midway_leaves_no_delete_file(t: Any) -> None:
    one, two = files_of(t)
    before = {f.location for f in t.io.list(t.location())}

    def broken() -> Any:
        yield at(one, 1)
        yield at(two, 1)
        raise RuntimeError("the source fails")

    with pytest.raises(RuntimeError):
        write_position_deletes(broken(), context_of(t))
    assert {f.location for f in t.io.list(t.location())} == before
    for version, write_deletes in ((2, write_position_deletes), (3, write_vectors)):
        storage = FlakyStorage(t.io, fail_at=2 if version == 2 else 1, operations=("open_output",))
        with pytest.raises(StorageError):
            write_deletes(
                [at(one, 1), at(two, 1)],
                replace(context_of(t), storage=storage, format_version=version),
            )
        assert storage.fired
        assert {f.location for f in t.io.list(t.location())} == before


def test_deletes_of_files_of_an_older_spec_stay_in_its_partitions(t: Any) -> None:
    with t.update_spec() as update:
        update.remove_field("p")
        update.add_field("id", "bucket[4]", "b")
    t.append(frame(*range(20, 24)))
    old = files_of(t)[0]
    (f,) = write_position_deletes([at(old, 0)], context_of(t))
    assert (f.spec_id, f.partition) == (old.spec_id, old.partition) and "/p=a/" in f.file_path
    commit_deletes(t, f)
    assert ids(t) == list(range(1, 24))


def test_lineage_columns_are_written_where_batches_have_them(table: Any) -> None:
    t = table(3)
    context = pickle.loads(pickle.dumps(context_of(t).keeping_lineage()))
    assert context.keeping_lineage() is context
    plain = next(iter(conform(frame(1, 2), t.schema())))
    both = plain.append_column(
        "_last_updated_sequence_number", pa.array([None, 5], pa.int64())
    ).append_column("_row_id", pa.array([7, None], pa.int64()))
    (f,) = write([plain, both], context)
    found = pq.read_table(f.file_path)
    assert found["_row_id"].to_pylist() == [None, None, 7, None]
    assert found["_last_updated_sequence_number"].to_pylist() == [None, None, None, 5]
    assert [
        found.schema.field(n).metadata[b"PARQUET:field_id"]
        for n in ("_row_id", "_last_updated_sequence_number")
    ] == [
        b"2147483540",
        b"2147483539",
    ]
    assert (
        f.null_value_counts[2147483540] == 3
        and from_bytes(LongType(), f.lower_bounds[2147483540]) == 7
    )
