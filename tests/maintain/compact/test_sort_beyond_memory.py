"""A group of files that is larger than memory is sorted by one task all the same: in runs on disk,
with the peak of memory measured. tests/maintain/test_curves.py has the short form.
"""

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

FILES, ROWS = 16, 200_000
WHOLE = FILES * ROWS * (8 + 8 + 100 + 4)
MEMORY = 4 << 20
"""Bytes of rows that a task may sort at once, of 366 MB; what Python, Parquet and its writers hold
comes on top.
"""
PROPERTIES = {
    "write.parquet.compression-codec": "uncompressed", "write.target-file-size-bytes": str(32 << 20),
    "write.parquet.row-group-size-bytes": str(4 << 20),
}  # fmt: skip


def build(place: str) -> None:
    t = catalog_of("sql", Path(place)).create_table(
        "db.t", "id bigint, v double, s string", properties=PROPERTIES
    )
    for number in range(FILES):
        random = np.random.default_rng(number)
        ids = random.integers(0, 10**12, ROWS)
        letters = pa.py_buffer(random.integers(97, 122, ROWS * 100, np.uint8))
        texts = (
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(100), ROWS, [None, letters])
            .cast(pa.binary())
            .cast(pa.string())
        )
        t.append(pa.table({"id": ids, "v": random.random(ROWS), "s": texts}))


def compact(place: str, order: str) -> None:
    """Sort the whole table with a limit of memory, and print how much more memory the process took
    at its peak than before.
    """
    spilled, spill = list[int](), external_sort._spilled

    def counted(*arguments: Any) -> Any:
        spilled.append(1)
        return spill(*arguments)

    rewrite._sort_memory, external_sort._spilled = lambda *_: MEMORY, counted
    t = frazil.load_catalog(
        "test", type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"{place}/wh"
    ).load_table("db.t")
    t.scan(limit=1).to_arrow()  # what any reading loads is not counted
    before, most = held(), [0]
    threading.Thread(target=watch, args=(most,), daemon=True).start()
    done = t.maintenance.rewrite_data_files(
        sort_order=order, options={"rewrite-all": "true"}, runner="in-process"
    )
    print(done.rewritten_data_files_count, done.groups, len(spilled), max(most[0], held()) - before)


def held() -> int:
    """The memory of this process, without the pages of files on disk, which the system takes back
    when it needs them.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) << 10


def watch(most: list[int]) -> None:
    while True:
        most[0] = max(most[0], held())
        time.sleep(0.002)


@pytest.mark.soak
@pytest.mark.parametrize("order", ["id", "s DESC, id", "zorder(id, v)", "hilbert(id, v)"])
def test_a_group_beyond_memory_is_sorted_on_disk(order: str, tmp_path: Path) -> None:
    printed_by(build, str(tmp_path), place=tmp_path, timeout=120)
    (line,) = printed_by(compact, str(tmp_path), order, place=tmp_path, timeout=300)
    files, groups, spilled, more = map(int, line.split())
    print(f"{order}: {more >> 20} MB for {WHOLE >> 20} MB of rows in {spilled} runs")
    assert (files, groups) == (FILES, 1) and spilled >= WHOLE / MEMORY / 2
    assert more < 0.85 * WHOLE, f"{more >> 20} MB for {WHOLE >> 20} MB of rows"
