"""Cost grows with the work, not with the table's history: where a table has more data files,
snapshots, branches, schemas or properties beside those that an operation is about, the operation
opens no file more, and for each of them makes a few calls of Python at most.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

from frazil.codec.single_value import to_bytes
from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.spec.manifest import DataFile
from frazil.spec.types import LongType
from frazil.storage.local import LocalStorage
from frazil.table import Table
from frazil.table.load import clear_caches
from tests.builders.catalogs import catalog_of

ROWS = pa.table({"id": range(10), "p": ["live"] * 10, "v": range(10)})


def add(t: Table, *numbers: int) -> None:
    """Commit data files of other partitions and other ids, which need not exist."""
    files = tuple(
        DataFile(
            file_path=f"{t.location()}/data/{n}.parquet",
            file_format="parquet",
            record_count=10,
            file_size_in_bytes=200_000_000,
            partition=("old",),
            value_counts={1: 10},
            null_value_counts={1: 0},
            lower_bounds={1: to_bytes(LongType(), 1000 + n)},
            upper_bounds={1: to_bytes(LongType(), 1000 + n)},
        )
        for n in numbers
    )
    commit(t._writable(), t.refresh()._loaded, [Append(files=files)])


def add_schemas(t: Table, count: int) -> None:
    for n in range(count):
        with t.refresh().update_schema() as update:
            update.update_column("v", doc=f"version {n}")


def add_tags(t: Table, count: int) -> None:
    with t.refresh().manage_snapshots() as update:
        for n in range(count):
            update.create_tag(t.metadata.current_snapshot_id or 0, f"tag{n}")


def add_snapshots(t: Table, count: int) -> None:
    for n in range(count):
        add(t, n)


# what there are few or many of -> (how to make them, the most calls of Python for each one more);
# each snapshot has a manifest of its own here, which the newest snapshot lists
HISTORY: dict[str, tuple[Callable[[Table, int], object], float]] = {
    "data files": (lambda t, n: add(t, *range(n)), 0.1),
    "tags": (add_tags, 5),
    "schemas": (add_schemas, 15),
    "properties": (lambda t, n: t.set_properties({f"k{i}": "v" for i in range(n)}), 0.1),
    "snapshots": (add_snapshots, 100),
}
FEW, MANY = 5, 60
VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(ROWS.slice(0, 1)),
    "overwrite": lambda t: t.overwrite(ROWS, "p = 'live'"),
    "delete of files": lambda t: t.delete("p = 'live'"),
    "delete of rows": lambda t: t.delete("p = 'live' AND id = 3"),
    "upsert": lambda t: t.upsert(ROWS.slice(3, 1), join_cols=["p", "id"]),
    "scan": lambda t: t.scan("p = 'live' AND id = 3").to_arrow(),
    "changelog": lambda t: t.changes(
        start_snapshot_id=_parent(t), end_snapshot_id=_newest(t)
    ).to_arrow(),
    "rewrite_data_files": lambda t: t.maintenance.rewrite_data_files(where="p = 'live'"),
    "expire_snapshots": lambda t: t.maintenance.expire_snapshots(older_than="2001-01-01"),
}


def _newest(t: Table) -> int:
    return t.metadata.current_snapshot_id or 0


def _parent(t: Table) -> int | None:
    return t.metadata.snapshot_by_id(_newest(t)).parent_snapshot_id


def costs(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Count the files that are read and the functions that are called, on all threads."""
    reads, calls = [0], [0]

    def count(_: FrameType, event: str, __: object) -> None:
        calls[0] += event == "call"

    with monkeypatch.context() as patch:
        for name in ("read", "read_start", "open_input"):
            real = getattr(LocalStorage, name)

            def opened(self: object, *args: object, real: Callable[..., object] = real) -> object:
                reads[0] += 1
                return real(self, *args)

            patch.setattr(LocalStorage, name, opened)
        before = sys.getprofile()
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(before)
            threading.setprofile(None)  # type: ignore[arg-type]
    return reads[0], calls[0]


@pytest.mark.parametrize("of", HISTORY)
def test_no_operation_reads_what_it_is_not_about(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, most = HISTORY[of]

    def costs_of(name: str, count: int) -> tuple[int, int]:
        place = tmp_path / f"{name}{next(numbers)}"
        place.mkdir()
        t = catalog_of("sql", place).create_table("db.t", ROWS.schema, partition_by=["p"])
        add(t, 9999)
        make(t, count)
        t.refresh().append(ROWS)
        clear_caches()
        t.refresh()
        return costs(lambda: VERBS[name](t.refresh()), monkeypatch)

    numbers = itertools.count()
    for name in VERBS:
        costs_of(name, FEW)  # loads modules
        (few_reads, few_calls), (many_reads, many_calls) = costs_of(name, FEW), costs_of(name, MANY)
        assert few_reads == many_reads, name
        # which snapshots are old is told by the metadata that is loaded
        assert few_reads > 0 or name == "expire_snapshots", name
        assert many_calls - few_calls <= most * (MANY - FEW) + 50, name
