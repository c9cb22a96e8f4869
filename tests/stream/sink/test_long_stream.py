"""A stream of two hundred batches of upserts that maintains its table: batches and reads stay as
fast as they were (`make soak`).

Every ten batches hold each task as often, so that the first ten and the last ten are alike. Seconds
are those of the processor.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.stream_upkeep.stream_tasks import upkeep
from frazil.maintain.stream_upkeep.triggers import upkeep_options
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
    "maintenance.manifests.every-commits": 10,
}  # fmt: skip
STRATEGIES = {
    "lookup": MAINTENANCE,
    "equality-deletes": {**MAINTENANCE, "maintenance.convert.every-commits": 5},
}


def batch(number: int) -> pa.Table:
    """New values for keys from all over the table."""
    keys = np.unique(np.random.default_rng(number).integers(0, KEYS, ROWS))
    return pa.table(
        {"id": keys, "p": pa.array(["a"] * len(keys)), "v": np.full(len(keys), number + 1)}
    )


def run(
    place: Path, strategy: str, batches: int = BATCHES
) -> tuple[list[float], list[float], dict[str, float]]:
    """Return the seconds of each batch with its maintenance, of a read after it, and those of each
    task in all.
    """
    t = make_table(place, "id bigint, p string, v bigint", format_version=3)
    t.append(
        pa.table(
            {"id": np.arange(KEYS), "p": pa.array(["a"] * KEYS), "v": np.zeros(KEYS, np.int64)}
        )
    )
    options, _ = upkeep_options(STRATEGIES[strategy])
    assert options is not None
    tasks: dict[str, float] = {}

    def told(task: str, result: object) -> None:
        assert not isinstance(result, BaseException), result
        tasks[task] = tasks.get(task, 0) + getattr(result, "seconds", 0.0)

    sink, maintained = (
        sink_of(t, mode="upsert", key_columns="id", upsert_strategy=strategy),
        upkeep(options, t.metadata, told),
    )
    writes, reads = [], []
    for number in range(batches):
        rows, started = ArrowRows(batch(number)), time.process_time()
        sink.commit(number, rows)
        maintained.after_commit(
            MaintainedTable(sink.backend, t.refresh()._loaded, "db.t", IN_PROCESS, InProcess())
        )
        writes.append(time.process_time() - started)
        started = time.process_time()
        assert t.refresh().to_arrow().num_rows == KEYS
        reads.append(time.process_time() - started)
    return writes, reads, tasks


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_last_batches_and_reads_are_as_fast_as_the_first(strategy: str, tmp_path: Path) -> None:
    run(tmp_path / "warm", strategy, 2 * WINDOW)
    writes, reads, tasks = run(tmp_path / "measured", strategy)
    # where the machine has become slower meanwhile, so has this
    fresh_writes, fresh_reads, _ = run(tmp_path / "fresh", strategy, WINDOW)
    shown, factors = [], []
    for what, seconds, fresh in (("batches", writes, fresh_writes), ("reads", reads, fresh_reads)):
        first, last = max(sum(seconds[:WINDOW]), sum(fresh)), sum(seconds[-WINDOW:])
        factors.append(last / first)
        shown.append(
            f"{what}: first ten {first:.2f} s, last ten {last:.2f} s, {last / first:.2f} x"
        )
    print("\n".join([strategy, *shown, f"tasks { ({k: round(v, 1) for k, v in tasks.items()}) }"]))
    assert set(tasks) == {word.split(".")[1] for word in STRATEGIES[strategy]}
    assert max(factors) <= 1.3, "\n".join(shown)
