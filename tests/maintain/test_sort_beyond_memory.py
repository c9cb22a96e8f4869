"""A group of files that is larger than memory is sorted by one task all the same: in runs on disk, with the peak of memory measured."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import frazil
from frazil.maintain.compact import external_sort, rewrite
from tests.builders.catalogs import catalog_of
from tests.forked import printed_by

FEW, MANY = 3, 12
ROWS = 200_000
ROW_BYTES = 8 + 8 + 100 + 4
MEMORY = 4 << 20
"""Bytes of rows that a task may sort at once, of 70 and 275 MB."""
PROPERTIES = {
    "write.parquet.compression-codec": "uncompressed", "write.target-file-size-bytes": str(32 << 20),
    "write.parquet.row-group-size-bytes": str(4 << 20),
}  # fmt: skip


def build(place: str, files: int) -> None:
    t = catalog_of("sql", Path(place)).create_table("db.t", "id bigint, v double, s string", properties=PROPERTIES)
    for number in range(files):
        random = np.random.default_rng(number)
        ids = random.integers(0, 10**12, ROWS)
        letters = pa.py_buffer(random.integers(97, 122, ROWS * 100, np.uint8))
        texts = pa.FixedSizeBinaryArray.from_buffers(pa.binary(100), ROWS, [None, letters]).cast(pa.binary()).cast(pa.string())
        t.append(pa.table({"id": ids, "v": random.random(ROWS), "s": texts}))


def compact(place: str, order: str) -> None:
    """Sort the whole table with a limit of memory, and print how much more memory the process took at its peak than before."""
    spilled, spill = list[int](), external_sort._spilled

    def counted(*arguments: Any) -> Any:
        spilled.append(1)
        return spill(*arguments)

    rewrite._sort_memory, external_sort._spilled = lambda *_: MEMORY, counted
    t = frazil.load_catalog("test", type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"{place}/wh").load_table("db.t")
    t.scan(limit=1).to_arrow()  # what any reading loads is not counted
    before, most = held(), [0]
    threading.Thread(target=watch, args=(most,), daemon=True).start()
    done = t.maintenance.rewrite_data_files(sort_order=order, options={"rewrite-all": "true"}, runner="in-process")
    print(done.rewritten_data_files_count, done.groups, len(spilled), max(most[0], held()) - before)


def held() -> int:
    """The memory of this process, without the pages of files on disk, which the system takes back when it needs them."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) << 10


def watch(most: list[int]) -> None:
    while True:
        most[0] = max(most[0], held())
        time.sleep(0.002)


OTHERS = [pytest.param(order, marks=pytest.mark.soak) for order in ("s DESC, id", "zorder(id, v)", "hilbert(id, v)")]


@pytest.mark.parametrize("order", ["id", *OTHERS])
def test_a_group_beyond_memory_is_sorted_on_disk(order: str, tmp_path: Path) -> None:
    more: dict[int, int] = {}
    for count in (FEW, MANY):
        place = tmp_path / str(count)
        place.mkdir()
        printed_by(build, str(place), count, place=tmp_path, timeout=120)
        (line,) = printed_by(compact, str(place), order, place=tmp_path, timeout=300)
        files, groups, spilled, more[count] = map(int, line.split())
        whole = count * ROWS * ROW_BYTES
        print(f"{order}: {more[count] >> 20} MB for {whole >> 20} MB of rows, {spilled} runs")
        assert (files, groups) == (count, 1) and spilled >= whole / MEMORY / 2
    grown, rows = more[MANY] - more[FEW], (MANY - FEW) * ROWS * ROW_BYTES
    assert grown < 0.5 * rows and more[MANY] < 0.75 * MANY * ROWS * ROW_BYTES, f"{grown >> 20} MB more for {rows >> 20} MB more of rows"
