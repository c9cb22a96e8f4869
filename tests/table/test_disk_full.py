"""A disk that is full, or refuses: StorageError with the path, the table as it was, and nothing
left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import frazil
from frazil.arrow.changelog.changelog_match import Matcher
from frazil.arrow.deletes.key_set import SpilledKeys
from frazil.arrow.files.source import reading as reading_data
from frazil.codec.guard import reading
from frazil.errors import CorruptData, StorageError
from frazil.rows.key_index import index_on_disk
from frazil.rows.source import stage
from tests.builders.files_on_disk import files_below

pytestmark = pytest.mark.disk
RNG = np.random.default_rng(7)
ROWS = 50_000


@contextlib.contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """As a full disk, for this process: writing on is EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def frame(begin: int = 0, rows: int = ROWS) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(begin, begin + rows)),
            "v": RNG.random(rows),
            "p": pa.array(np.arange(rows) % 3),
        }
    )


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return frazil.load_catalog("c", type="path", warehouse=str(tmp_path / "wh"))


KINDS = {
    "parquet": {}, "orc": {"write.format.default": "orc"}, "avro": {"write.format.default": "avro"},
    "small row groups": {"write.parquet.row-group-size-bytes": "50000"}, "deletes in avro": {"write.delete.format.default": "avro"},
}  # fmt: skip
VERBS: dict[str, Callable[[Any], Any]] = {
    "append": lambda t: t.append(frame(ROWS)),
    "overwrite": lambda t: t.overwrite(frame(ROWS)),
    "delete by copy": lambda t: t.delete("v < 0.5", mode="copy-on-write"),
    "delete": lambda t: t.delete("v < 0.5", mode="merge-on-read"),
    "update": lambda t: t.update({"v": "v + 1"}, "v < 0.5", mode="merge-on-read"),
    "upsert": lambda t: t.upsert(frame(ROWS // 2), ["id"]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [2, 3])
def test_data_and_delete_files_that_do_not_fit_are_storage_errors(
    catalog: Any, tmp_path: Path, kind: str, version: int
) -> None:
    for partitioned in ([], ["p"]):
        t = catalog.create_table(
            f"db.t{len(partitioned)}",
            frame().schema,
            partition_by=partitioned,
            properties=KINDS[kind],
            format_version=version,
        )
        t.append(frame())
        before, snapshot = files_below(tmp_path), t.current_snapshot().snapshot_id
        limit = 1_500 if version == 3 and not partitioned else 4_000
        for verb, do in VERBS.items():
            with no_file_larger_than(limit), pytest.raises(StorageError) as refused:
                do(t)
            facts = refused.value.facts
            assert facts["errno"] == "EFBIG" and refused.value.errno == errno.EFBIG, verb
            assert str(facts["file"]).startswith(t.location()) and str(facts["file"]) in str(
                refused.value
            ), (verb, str(refused.value))
            assert files_below(tmp_path) == before, verb
        assert t.refresh().current_snapshot().snapshot_id == snapshot
        assert t.scan().count() == ROWS


@pytest.mark.parametrize("kind", ["path", "sql"])
def test_a_commit_that_does_not_fit_is_a_storage_error_and_not_applied(
    tmp_path: Path, kind: str
) -> None:
    more = {"uri": f"sqlite:///{tmp_path}/c.db"} if kind == "sql" else {}
    catalog = frazil.load_catalog("c", type=kind, warehouse=str(tmp_path / "wh"), **more)
    catalog.create_namespace("db")
    t = catalog.create_table("db.t", "id bigint")
    t.append(pa.table({"id": [1]}))
    before = files_below(tmp_path / "wh")
    for limit in (500, 1_000, 2_000):
        with no_file_larger_than(limit), pytest.raises(StorageError) as refused:
            t.append(pa.table({"id": [2]}))
        assert refused.value.facts["file"].startswith(str(tmp_path))
        assert files_below(tmp_path / "wh") == before
    assert t.refresh().to_arrow()["id"].to_pylist() == [1]


def spilled_source() -> object:
    batches = frame(rows=200_000).to_batches(max_chunksize=10_000)
    return stage(pa.RecordBatchReader.from_batches(frame().schema, batches), memory=100_000)


def spilled_keys() -> object:
    return SpilledKeys.of(
        ([pa.array(range(n, n + 20_000))] for n in range(0, 100_000, 20_000)), 1 << 30
    )


def index() -> object:
    keys = pa.array([f"key {n}" for n in range(100_000)])
    return index_on_disk([[keys]], [False], lambda rows: [keys.take(pa.array(rows))])


def changes() -> object:
    places = np.arange(50_000)
    digests = RNG.integers(0, 1 << 63, (2, len(places))).astype(np.uint64)
    with Matcher([True], [0], [len(places)], budget=1000) as matcher:
        matcher.add(0, places, (digests[0], digests[1]))
        return matcher.verdicts()


@pytest.mark.parametrize("make", [spilled_source, spilled_keys, index, changes])
def test_what_memory_has_no_room_for_and_the_disk_neither_is_a_storage_error(
    make: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with no_file_larger_than(2_000), pytest.raises(StorageError, match="TMPDIR") as refused:
        make()
    assert (
        str(refused.value.facts["file"]).startswith(str(tmp_path))
        and refused.value.facts["errno"] == "EFBIG"
    )
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    with pytest.raises(StorageError, match="not there.*TMPDIR"):
        make()


def test_an_error_of_the_callers_own_stream_is_told_as_it_is() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from frame().to_batches()
        raise ConnectionResetError(errno.ECONNRESET, "the caller's socket")

    with pytest.raises(OSError, match="the caller's socket") as refused:
        stage(pa.RecordBatchReader.from_batches(frame().schema, batches()), memory=100_000)
    assert not isinstance(refused.value, StorageError)


def test_errors_of_the_system_while_reading_are_no_damage(tmp_path: Path) -> None:
    for around in (
        lambda: reading("manifest", "/w/m.avro"),
        lambda: reading_data("/w/d.parquet", "parquet"),
    ):
        for number in (errno.EMFILE, errno.EIO, errno.EACCES):
            with pytest.raises(StorageError, match=os.strerror(number)) as refused, around():
                raise OSError(number, os.strerror(number))
            assert refused.value.facts["errno"] == errno.errorcode[number]
        with pytest.raises(CorruptData), around():
            raise OSError("a decompressor's, without a number")
        with pytest.raises(StorageError, match="no room"), around():
            raise StorageError("no room")
    with (
        pytest.raises(StorageError, match="AWS Error"),
        reading_data("s3://b/d.parquet", "parquet"),
    ):
        raise OSError(
            "When reading information for key 'd': AWS Error NETWORK_CONNECTION during HeadObject"
        )
