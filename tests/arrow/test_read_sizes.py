"""How many rows are decoded together, how many threads read, and that neither shows in what a read
returns.
"""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.arrow.files import read_parquet
from frazil.arrow.files.read_parquet import ParquetSource
from frazil.arrow.read import read_tasks
from frazil.arrow.read.read_context import ReadContext, ReadOptions
from frazil.spec.manifest import DataFile
from frazil.spec.schema import Schema
from frazil.spec.types import LongType, NestedField
from frazil.storage import Storage
from frazil.tasks.in_order import default_workers
from tests.arrow.support import STORAGE, arrow_table, task_of, written
from tests.storage.fake_s3 import fake_s3

LONGS = Schema(NestedField(1, "id", LongType()))


def test_columns_of_fixed_width_are_decoded_in_eight_batches_at_once_within_bounds_and_others_in_one(
    tmp_path: Path,
) -> None:
    columns = {
        "a": pa.int64(),
        "b": pa.float32(),
        "s": pa.string(),
        "l": pa.list_(pa.int32()),
        "d": pa.decimal128(30, 2),
        "t": pa.timestamp("us"),
    }
    file = tmp_path / "f.parquet"
    pq.write_table(pa.schema(columns).empty_table(), file)
    schema = pq.ParquetFile(file).schema
    at_once = lambda *names: read_parquet._rows_at_once(
        schema, [list(columns).index(n) for n in names], 1000
    )
    assert at_once("a") == at_once("a", "b", "t") == 8000
    assert at_once("s") == at_once("a", "s") == at_once("l") == at_once("d") == 1000
    assert read_parquet._rows_at_once(schema, [0, 1], 10**6) == (16 << 20) // 12
    assert read_parquet._rows_at_once(schema, [0], 10**9) == 10**9


@pytest.mark.parametrize("rows", [1, 7, 55, 56, 57, 113])
def test_rows_that_are_decoded_together_come_in_batches_of_the_size_that_was_asked_for(
    tmp_path: Path, rows: int
) -> None:
    (file,) = written(arrow_table(LONGS, [{1: i} for i in range(rows)]), LONGS, tmp_path)
    context = ReadContext(LONGS, STORAGE, LONGS, options=ReadOptions(batch_size=7))
    batches = list(read_tasks.read([task_of(file)], context))
    assert [b.num_rows for b in batches] == [min(7, rows - start) for start in range(0, rows, 7)]
    assert [i for b in batches for i in b.column(0).to_pylist()] == list(range(rows))


def test_a_read_of_the_first_rows_decodes_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    usual = ParquetSource.read

    def noted(
        self: ParquetSource, piece: object, plan: object, batch_size: int, threads: bool
    ) -> object:
        asked.append(batch_size)
        return usual(self, piece, plan, batch_size, threads)  # type: ignore[arg-type]

    monkeypatch.setattr(ParquetSource, "read", noted)
    (file,) = written(arrow_table(LONGS, [{1: i} for i in range(50)]), LONGS, tmp_path)
    context = ReadContext(LONGS, STORAGE, LONGS)
    assert read_tasks.read([task_of(file)], context, limit=10).read_all().num_rows == 10
    assert read_tasks.read([task_of(file)], context, limit=50_000).read_all().num_rows == 50
    assert read_tasks.read([task_of(file)], context).read_all().num_rows == 50
    assert asked == [16_384, 50_000, 131_072]


def test_files_of_a_store_are_read_by_more_threads_than_there_are_cores_where_memory_allows(
    tmp_path: Path,
) -> None:
    (file,) = written(arrow_table(LONGS, [{1: 1}]), LONGS, tmp_path)
    context = ReadContext(LONGS, STORAGE, LONGS, options=ReadOptions(memory=100 << 20))
    cores = default_workers()

    def workers(location: str, size: int, count: int = 20) -> int:
        task = task_of(replace(file, file_path=location, file_size_in_bytes=size))
        return read_tasks._workers_for([task] * count, context)

    assert (
        workers("s3://b/f.parquet", 1 << 20)
        == workers("hdfs://h/f.parquet", 1 << 20)
        == max(cores, 8)
    )
    assert (
        workers("s3://b/f.parquet", 50 << 20)
        == workers("s3://b/f.parquet", 1 << 20, 2)
        == max(cores, 2)
    )
    assert (
        workers("s3://b/f.parquet", 1 << 40)
        == workers("/f.parquet", 1 << 20)
        == workers("s3://b/f.parquet", 1, 0)
        == cores
    )


def test_reads_from_a_store_wait_for_several_files_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together, usual = threading.Barrier(8), ParquetSource.open

    def wait_for_all(file: DataFile, storage: Storage) -> ParquetSource:
        together.wait(20)
        return usual(file, storage)

    with fake_s3() as s3:
        for n in range(8):
            data = io.BytesIO()
            pq.write_table(pa.table({"id": [n]}), data)
            s3.objects[f"/b/ev/{n}.parquet"] = data.getvalue()
        table = frazil.load_catalog(
            "c", type="path", warehouse="s3://b/w", **s3.properties
        ).create_table("db.t", "id bigint")
        table.add_files([f"s3://b/ev/{n}.parquet" for n in range(8)])
        monkeypatch.setattr(ParquetSource, "open", wait_for_all)
        assert table.scan().to_arrow()["id"].to_pylist() == list(range(8))
    assert not together.broken
