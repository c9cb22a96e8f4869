"""A table that a stream has filled with small files and equality deletes is brought back to full
read speed by one call of `auto`, beside writers that go on (ten thousand files with `make soak`;
the short form has a hundred). Seconds are those of the processor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import write
from frazil.catalog import Catalog
from frazil.commit.actions import Append
from frazil.maintain.advice.finding import Findings
from frazil.spec.manifest import DataFileContent
from frazil.stream.sink.rows import ArrowRows
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.stream.sink.streams import sink_of

RETENTION = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}


@dataclass(frozen=True)
class Size:
    """`files` data files of `rows` rows, in as many commits as `batches`, each followed by an
    upsert of `keys` keys.
    """

    files: int
    rows: int
    batches: int
    keys: int
    pause: float

    @property
    def ids(self) -> int:
        return self.files * self.rows


SHORT, LONG = Size(96, 20, 6, 30, 0.01), Size(10_000, 400, 100, 500, 0.5)


class Model:
    """The value of every id; -1 where there is no row."""

    def __init__(self, ids: int):
        self.values = np.full(ids, -1, np.int64)

    def put(self, ids: Any, value: int) -> pa.Table:
        if ids.max() >= len(self.values):
            self.values = np.concatenate([self.values, np.full(int(ids.max()), -1, np.int64)])
        self.values[ids] = value
        return pa.table({"id": ids, "p": pa.array(["a"] * len(ids)), "v": np.full(len(ids), value)})

    def check(self, found: pa.Table) -> None:
        ids, values = found.column("id").to_numpy(), found.column("v").to_numpy()
        assert len(ids) == len(np.unique(ids)) == int((self.values >= 0).sum())
        assert (self.values[ids] == values).all()


def filled(t: Table, size: Size, version: int) -> Model:
    """What a stream leaves: small data files, and equality deletes by key that apply to all older
    ones.
    """
    model, chance = Model(2 * size.ids), np.random.default_rng(version)
    sink = sink_of(t, mode="upsert", key_columns="id", upsert_strategy="equality-deletes")
    of_batch = size.files // size.batches
    for batch in range(size.batches):
        begins = range(batch * of_batch * size.rows, (batch + 1) * of_batch * size.rows, size.rows)
        frames = (model.put(np.arange(begin, begin + size.rows), 0) for begin in begins)
        contexts = (
            WriteContext.of(t.metadata, t._loaded.storage, write_options({})) for _ in begins
        )
        entries = [
            file
            for frame, context in zip(frames, contexts, strict=True)
            for file in write(frame.to_batches(), context)
        ]
        with t.maintenance._table("in-process").begin(t.refresh()._loaded) as operation:
            operation.stage(Append(tuple(entries)))
        keys = np.unique(chance.integers(0, (batch + 1) * of_batch * size.rows, size.keys))
        sink.commit(batch, ArrowRows(model.put(keys, batch + 1)))
    return model


@contextmanager
def writers(catalog: Catalog, size: Size, model: Model) -> Iterator[list[int]]:
    """One thread appends new rows, another upserts old ones, until the end of the block. Gives a
    list that holds one number per commit.
    """
    done, failed, ended, turn = [0], [], threading.Event(), threading.Lock()
    chance, reopened = np.random.default_rng(7), lambda: catalog.load_table("db.t")

    def append(number: int, mine: Table) -> None:
        ids = np.arange(size.ids + number * 10, size.ids + number * 10 + 10)
        mine.append(kept(ids, number))

    def kept(ids: Any, number: int) -> pa.Table:
        with turn:
            return model.put(ids, 1_000_000 + number)

    def go(work: Callable[[int, Any], None], target: Any) -> None:
        number = 0
        try:
            while not ended.wait(size.pause):
                work(number, target)
                number += 1
                done[0] += 1
        except BaseException as error:
            failed.append(error)

    def upsert(number: int, sink: Any) -> None:
        sink.commit(
            size.batches + number,
            ArrowRows(kept(np.unique(chance.integers(0, size.ids, size.keys // 10)), number)),
        )

    sink = sink_of(reopened(), mode="upsert", key_columns="id", upsert_strategy="equality-deletes")
    threads = [
        threading.Thread(target=go, args=pair) for pair in ((append, reopened()), (upsert, sink))
    ]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failed, failed


def read_seconds(t: Table, repeats: int = 3) -> float:
    """The least processor time of some reads of all rows."""
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        t.scan().to_arrow()
        taken.append(time.process_time() - started)
    return min(taken)


def check_words(told: Findings, t: Table, size: Size) -> None:
    """Compare what `recommend` says with what the table holds: the calls by name, the numbers, and
    what they bring.
    """
    deletes, files = t.inspect.delete_files().num_rows, t.inspect.data_files().num_rows
    assert told.kinds[:2] == ("small_files", "equality_deletes") and "snapshots" in told.kinds
    words = repr(told)
    # not to that of the last upsert
    assert f"equality deletes in {deletes:,} files apply to {files - 1:,} data files" in words
    assert f"{files:,} small files hold" in words and f"instead of {files:,}" in words
    compaction = "rewrite_data_files(options={'remove-dangling-deletes': 'true'})"
    for call in (compaction, "convert_equality_deletes()", "expire_snapshots(dry_run=False)"):
        assert f"cure  t.maintenance.{call}" in words
    assert "nothing after the cure of small_files" in words
    assert all(f.cost_minutes > 0 for f in told) and files >= size.files


def brought_back(place: Path, size: Size, version: int) -> tuple[dict[str, float], str]:
    """Fill a table, run `auto` beside the writers, and return the seconds of the reads and of the
    call with numbers of files and commits, and the seconds of its steps in words.
    """
    catalog = catalog_of("sql", place)
    t = catalog.create_table(
        "db.t", "id bigint, p string, v bigint", format_version=version, properties=RETENTION
    )
    model = filled(t, size, version)
    before = read_seconds(t.refresh(), 1)
    old = set(t.inspect.files()["file_path"].to_pylist())
    told = t.maintenance.recommend()
    check_words(told, t, size)
    with writers(catalog, size, model) as commits:
        result = t.refresh().maintenance.auto()
        assert commits[0] > 1, "nobody wrote meanwhile"
    assert not result.failed and {"small_files", "snapshots"} <= {
        s.kind for s in result.steps if s.outcome == "done"
    }, result
    assert result.steps[0].kind == "small_files", (
        "deletes are converted that the compaction applies"
    )
    for snapshot in t.refresh().snapshots():
        t.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    model.check(t.to_arrow())
    copy = catalog.create_table("db.copy", t.schema(), format_version=version)
    copy.append(t.to_arrow())
    figures = {
        "before": before,
        "auto": result.seconds,
        "commits": commits[0],
        "after": read_seconds(t),
        "copy": read_seconds(copy),
        "old files": len(old.intersection(t.inspect.files()["file_path"].to_pylist())),
    }
    figures["files"], figures["upserts"] = written_since(copy, t, size)
    figures["copy written to"] = read_seconds(copy.refresh())
    estimates = {f.kind: f.cost_minutes * 60 for f in told}
    steps = "\n".join(
        f"  {s.kind}: {s.outcome}, told {estimates.get(s.kind, 0):.1f} s, took {s.seconds:.1f} s"
        for s in result.steps
    )
    return figures, f"{told!r}\n{steps}"


def written_since(copy: Table, t: Table, size: Size) -> tuple[int, int]:
    """Write to a fresh copy what the writers have written since the last compaction of the table:
    as many appends and upserts, as large. Gives the number of data files, and of upserts among
    them."""
    files, kinds = t.inspect.data_files().num_rows, t.inspect.delete_files()["content"].to_pylist()
    upserts, chance = kinds.count(int(DataFileContent.EQUALITY_DELETES)), np.random.default_rng(11)
    sink = sink_of(copy, mode="upsert", key_columns="id", upsert_strategy="equality-deletes")
    written = Model(2 * size.ids)
    for number in range(upserts):
        sink.commit(
            number,
            ArrowRows(
                written.put(np.unique(chance.integers(0, size.ids, size.keys // 10)), number)
            ),
        )
    for number in range(files - upserts - 1):
        copy.refresh().append(written.put(np.arange(10) + 10 * size.ids + 10 * number, number))
    return files, upserts


@pytest.mark.parametrize("version", [3])
def test_a_hundred_files_are_brought_back_by_one_call_beside_writers(
    version: int, tmp_path: Path
) -> None:
    """A read opens none of the files that the stream had left, but one that holds their rows, and
    at most one of data for each commit of the writers.
    """
    figures, steps = brought_back(tmp_path, SHORT, version)
    assert figures["old files"] == 0 and figures["files"] <= 1 + figures["commits"], (
        figures,
        steps,
    )


@pytest.mark.soak
@pytest.mark.parametrize("version", [2, 3])
def test_ten_thousand_files_are_brought_back_by_one_call_beside_writers(
    version: int, tmp_path: Path
) -> None:
    figures, steps = brought_back(tmp_path, LONG, version)
    print(f"version {version}: { ({k: round(v, 2) for k, v in figures.items()}) }\n{steps}")
    assert (
        figures["after"] <= 1.3 * figures["copy written to"]
        and figures["after"] < figures["before"] / 10
    ), (figures, steps)
    assert figures["files"] <= LONG.files / 100, "what was written while the call ran is left"
