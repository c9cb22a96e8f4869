"""A stream of two hundred batches of upserts that maintains its table: batches and reads stay as fast as they were (`make soak`)."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.stream_tasks import upkeep
from frazil.maintain.triggers import upkeep_options
from frazil.ops.in_process import IN_PROCESS
from frazil.stream.sink.rows import ArrowRows
from frazil.tasks.runner import InProcess
from tests.stream.sink.streams import make_table, sink_of

pytestmark = pytest.mark.soak
BATCHES, WINDOW = 200, 10
ROWS, KEYS = 2_000, 200_000
MAINTENANCE = {
    "maintenance.rewrite.every-commits": 10, "maintenance.rewrite.min-input-files": 5, "maintenance.rewrite.delete-file-threshold": 1,
    "maintenance.expire.every-commits": 10, "maintenance.expire.max-snapshot-age": "0 s", "maintenance.expire.retain-last": 5,
    "maintenance.manifests.every-commits": 50,
}  # fmt: skip


def batch(number: int) -> pa.Table:
    """Rows of known and new keys from all over the table."""
    keys = np.unique(np.random.default_rng(number).integers(0, KEYS, ROWS))
    return pa.table({"id": keys, "p": pa.array(["a"] * len(keys)), "v": np.full(len(keys), number)})


def run(place: Path, batches: int = BATCHES) -> tuple[list[float], list[float], dict[str, float]]:
    """Return the seconds of each batch with its maintenance, of a read after it, and those of each task in all."""
    t = make_table(place, "id bigint, p string, v bigint", format_version=3)
    t.append(pa.table({"id": np.arange(KEYS), "p": pa.array(["a"] * KEYS), "v": np.zeros(KEYS, np.int64)}))
    options, _ = upkeep_options(MAINTENANCE)
    assert options is not None
    tasks: dict[str, float] = {}

    def told(task: str, result: object) -> None:
        assert not isinstance(result, BaseException), result
        tasks[task] = tasks.get(task, 0) + getattr(result, "seconds", 0.0)

    sink, maintained = sink_of(t, mode="upsert", key_columns="id"), upkeep(options, t.metadata, told)
    writes, reads = [], []
    for number in range(batches):
        rows, started = ArrowRows(batch(number)), time.perf_counter()
        sink.commit(number, rows)
        newest = maintained.after_commit(MaintainedTable(sink.backend, sink.table, "db.t", IN_PROCESS, InProcess()))
        sink.table = newest or sink.table
        writes.append(time.perf_counter() - started)
        started = time.perf_counter()
        assert t.refresh().to_arrow().num_rows == KEYS
        reads.append(time.perf_counter() - started)
    return writes, reads, tasks


def test_the_last_batches_and_reads_are_as_fast_as_the_first(tmp_path: Path) -> None:
    run(tmp_path / "warm", 2 * WINDOW)
    writes, reads, tasks = run(tmp_path / "measured")
    shown = []
    for what, seconds in (("batches", writes), ("reads", reads)):
        first, last = sum(seconds[:WINDOW]), sum(seconds[-WINDOW:])
        shown.append(f"{what}: first ten {first:.2f} s, last ten {last:.2f} s, {last / first:.2f} x")
    print("\n".join([*shown, f"tasks {({k: round(v, 1) for k, v in tasks.items()})}"]))
    assert set(tasks) == {"rewrite", "expire", "manifests"}
    for seconds in (writes, reads):
        assert sum(seconds[-WINDOW:]) <= 1.3 * sum(seconds[:WINDOW]), "\n".join(shown)
