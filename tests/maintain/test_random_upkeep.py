"""Random scripts of writes and procedures: after each step every kept snapshot has the rows that it
always had, and no file is missing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import FrazilError
from frazil.scan.manifests import clear_caches
from frazil.table import Table
from tests.builders.frames import frame_of
from tests.maintain.support import (
    LATER,
    add,
    age,
    files_of,
    named_files,
    numbers,
    root_of,
    rows_at,
    table_in,
)
from tests.spark.deleting import take_keys

STEPS = 16
ONLY_WHEN_DONE = ("statistics_file", "partition_statistics_file", "ndv", "added_data_files_count")


class Script:
    """A table, what each of its snapshots held when it was made, and steps chosen by chance."""

    def __init__(self, seed: int, place: Path):
        self.rng = random.Random(seed)
        kind, version = self.rng.choice(["sql", "path"]), self.rng.choice([2, 2, 3])
        merging = {
            "commit.manifest-merge.enabled": self.rng.choice(["true", "false"]),
            "commit.manifest.min-count-to-merge": "2",
        }
        self.t: Table = table_in(place, kind, format_version=version, properties=merging)
        self.known: dict[int, list[Any]] = {}
        self.next_id, self.names = 0, 0
        self.done: list[str] = []

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id

    def name(self) -> str:
        self.names += 1
        return f"r{self.names}"

    def some(self) -> int:
        return self.rng.choice([s.snapshot_id for s in self.t.snapshots()])

    # --- steps

    def append(self) -> None:
        add(self.t, self.fresh(), self.fresh(), p=self.rng.choice("abc"))

    def on_branch(self) -> None:
        branches = [n for n, r in self.t.refs().items() if r.is_branch]
        add(self.t, self.fresh(), branch=self.rng.choice([*branches, self.name()]))

    def stage(self) -> None:
        add(self.t, self.fresh(), branch=None)

    def delete(self) -> None:
        which = self.rng.randrange(1, self.next_id + 2)
        self.t.delete(f"id = {which}", mode=self.rng.choice(["copy-on-write", "merge-on-read"]))

    def overwrite(self) -> None:
        self.t.dynamic_partition_overwrite(frame_of([(self.fresh(), self.rng.choice("abc"), 1)]))

    def refer(self) -> None:
        with self.t.manage_snapshots() as ms:
            make = ms.create_tag if self.rng.random() < 0.5 else ms.create_branch
            make(self.some(), self.name())

    def unrefer(self) -> None:
        names = [(n, r) for n, r in self.t.refs().items() if n != "main"]
        if names:
            name, ref = self.rng.choice(names)
            with self.t.manage_snapshots() as ms:
                (ms.remove_branch if ref.is_branch else ms.remove_tag)(name)

    def move(self) -> None:
        self.t.maintenance.set_current_snapshot(self.some())

    def pick(self) -> None:
        self.t.maintenance.cherrypick_snapshot(self.some())

    def orphan(self) -> None:
        path = root_of(self.t) / "data" / f"left-{self.fresh()}.parquet"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("x")

    def expire(self) -> None:
        heads = {r.snapshot_id for r in self.t.refs().values()}
        others = [s.snapshot_id for s in self.t.snapshots() if s.snapshot_id not in heads]
        ids = self.rng.sample(others, min(len(others), self.rng.randrange(3)))
        arguments: dict[str, Any] = self.rng.choice(
            [
                {"older_than": LATER},
                {"older_than": LATER, "retain_last": 3},
                {"snapshot_ids": ids},
                {"retain_last": 2, "clean_expired_metadata": True},
                {"older_than": LATER, "snapshot_ids": ids, "clean_expired_metadata": True},
            ]
        )
        self.agreed("expire_snapshots", **arguments)

    def rewrite(self) -> None:
        self.agreed("rewrite_manifests")

    def orphans(self) -> None:
        age(root_of(self.t))
        self.agreed("remove_orphan_files", prefix_listing=self.rng.random() < 0.3)
        assert files_of(self.t) == named_files(self.t), "orphans are left"

    def compact(self) -> None:
        ways: list[dict[str, Any]] = [
            {},
            {"strategy": "sort", "sort_order": "id DESC"},
            {"options": {"delete-ratio-threshold": "0.1"}},
        ]
        self.same_rows("rewrite_data_files", **self.rng.choice(ways))

    def compact_all(self) -> None:
        self.same_rows(
            "rewrite_data_files", options={"rewrite-all": "true", "remove-dangling-deletes": "true"}
        )

    def rewrite_positions(self) -> None:
        self.same_rows("rewrite_position_delete_files", options={"rewrite-all": "true"})

    def delete_by_key(self) -> None:
        take_keys(
            self.t.refresh(),
            ("id",),
            [{"id": self.rng.randrange(1, self.next_id + 1)}],
            partition=(self.rng.choice("abc"),),
        )
        self.t.refresh()

    def convert(self) -> None:
        self.same_rows("convert_equality_deletes")

    def table_stats(self) -> None:
        self.same_rows("compute_table_stats", columns=["id"])

    def partition_stats(self) -> None:
        self.same_rows("compute_partition_stats")

    def same_rows(self, verb: str, **arguments: Any) -> None:
        head = self.t.current_snapshot()
        before = [] if head is None else rows_at(self.t, head.snapshot_id)
        self.agreed(verb, **arguments)
        head = self.t.refresh().current_snapshot()
        assert before == ([] if head is None else rows_at(self.t, head.snapshot_id)), (
            f"rows after {verb}"
        )

    def agreed(self, verb: str, **arguments: Any) -> None:
        before = files_of(self.t)
        planned = getattr(self.t.maintenance, verb)(**arguments, dry_run=True)
        assert files_of(self.t) == before, "a dry run changed files"
        done = numbers(getattr(self.t.maintenance, verb)(**arguments))
        promised = {k: v for k, v in numbers(planned).items() if k not in ONLY_WHEN_DONE}
        assert {k: done[k] for k in promised} == promised, "the dry run promised something else"

    # --- checks

    def check(self) -> None:
        clear_caches()  # what was deleted must not be remembered
        self.t.refresh()
        assert named_files(self.t) <= files_of(self.t), "files are missing"
        for s in self.t.snapshots():
            rows = rows_at(self.t, s.snapshot_id)
            assert self.known.setdefault(s.snapshot_id, rows) == rows, (
                f"rows of snapshot {s.snapshot_id}"
            )

    def run(self, steps: int = STEPS) -> None:
        self.append()
        writes: list[Callable[[], None]] = [
            self.append,
            self.on_branch,
            self.stage,
            self.delete,
            self.overwrite,
            self.refer,
            self.unrefer,
            self.move,
            self.pick,
            self.orphan,
            self.delete_by_key,
        ]
        upkeep = [
            self.expire,
            self.expire,
            self.rewrite,
            self.orphans,
            self.compact,
            self.compact_all,
            self.rewrite_positions,
            self.convert,
            self.table_stats,
            self.partition_stats,
        ]
        for _ in range(steps):
            step = self.rng.choice([*writes, *upkeep])
            self.done.append(step.__name__)
            try:
                step()
            except FrazilError as e:
                # what the chance asked for cannot be done; the table must be as it was
                self.done[-1] += f" ({type(e).__name__})"
                if step in upkeep:
                    raise
            self.check()
            time.sleep(0.001)
        self.expire()
        self.orphans()
        self.check()


@pytest.mark.parametrize(
    "seed", [*range(14), 120]
)  # 120: equality deletes as old as all data files
def test_random_scripts_lose_no_row_and_no_file(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed, STEPS) > 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 300))
def test_long_random_scripts_lose_no_row_and_no_file(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed, 3 * STEPS) > 1


def run(place: Path, seed: int, steps: int) -> int:
    """Run a script; returns how many snapshots it has made whose rows were compared."""
    script = Script(seed, place)
    try:
        script.run(steps)
    except Exception as error:
        error.add_note(f"seed {seed}: {', '.join(script.done)}")
        raise
    return len(script.known)
