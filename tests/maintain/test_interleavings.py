"""Each procedure beside each writer and each other procedure, under both isolation levels, against
tables of the expected outcomes.

One of the two has read the table and is about to commit; the other commits then. Whatever the
outcome, no row is lost or comes back, no file that the table needs is gone, and the one that fails
leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import ValidationException
from frazil.maintain.orphans import remove_orphan_files
from frazil.scan.manifests import clear_caches
from frazil.testing import FlakyBackend
from tests.builders.frames import frame_of
from tests.maintain.laid import Laid
from tests.maintain.support import LATER, add, files_of, named_files, root_of

VERSIONS = pytest.mark.parametrize("version", [2, 3])
PARTS = pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 16))]
)
"""Every sixteenth cell of each table is tested always, the others in the soak."""
ALL = {"rewrite-all": "true"}
Verb = Callable[..., object]
PROCEDURES: dict[str, Verb] = {
    "rewrite_data_files": lambda t: t.maintenance.rewrite_data_files(
        options=ALL, runner="in-process"
    ),
    "rewrite_position_deletes": lambda t: t.maintenance.rewrite_position_delete_files(
        options=ALL, runner="in-process"
    ),
    "convert_equality_deletes": lambda t: t.maintenance.convert_equality_deletes(
        runner="in-process"
    ),
    "rewrite_manifests": lambda t: t.maintenance.rewrite_manifests(),
    "expire_snapshots": lambda t: t.maintenance.expire_snapshots(older_than=LATER),
    "remove_orphan_files": lambda t: t.maintenance.remove_orphan_files(),
    "compute_table_stats": lambda t: t.maintenance.compute_table_stats(runner="in-process"),
    "compute_partition_stats": lambda t: t.maintenance.compute_partition_stats(),
}


def added_files(t: Any, **_: Any) -> None:
    """Write a file below the table's directory, and add it."""
    folder = root_of(t) / "data" / "imported" / "p=a"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [200], "v": [0]}), folder / "0.parquet")
    t.maintenance.add_files(str(folder.parent))


WRITERS: dict[str, Verb] = {
    "append": lambda t, **_: add(t, 100),
    "add_files": added_files,
    "copy-on-write delete": lambda t, **how: t.delete("id in (0, 20)", mode="copy-on-write", runner="in-process", **how),
    "merge-on-read delete": lambda t, **how: t.delete("id in (0, 20)", mode="merge-on-read", runner="in-process", **how),
    "merge-on-read update": lambda t, **how: t.update({"v": "5"}, "id in (0, 20)", mode="merge-on-read", runner="in-process", **how),
    "upsert": lambda t, **how: t.upsert(frame_of([(0, "a", 9), (50, "a", 9)]), join_cols=["id"], runner="in-process", **how),
    "overwrite": lambda t, **how: t.overwrite(frame_of([(60, "a", 1)]), overwrite_filter="p = 'a'", **how),
}  # fmt: skip


class Cells(Laid):
    """The table of each cell, and the rows that each writer leaves when nobody disturbs it."""

    def __init__(self, place: Path, version: int):
        super().__init__(place, version)
        self.known = dict[str, list[Any]]()

    def rows_after(self, name: str) -> list[Any]:
        """The rows after a writer or procedure that nobody disturbs."""
        if name not in self.known:
            t = self.again()
            if name in WRITERS:
                WRITERS[name](t)
            self.known[name] = self.rows()
        return self.known[name]

    def outcome(self, first: Verb, then: Verb) -> str:
        """Run `then` right before `first` commits (or deletes its orphan files); return what
        becomes of the latter.
        """
        t, turns = self.again(), list[int]()

        def meanwhile(_: object = None) -> None:
            turns.append(1)
            if len(turns) == 1:
                then(frazil.load_table(str(self.root)))

        real = remove_orphan_files.refuse_other_tables
        t._backend = FlakyBackend(t._backend, before_swap=meanwhile)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                remove_orphan_files,
                "refuse_other_tables",
                lambda *given: (meanwhile(), real(*given)),
            )
            try:
                first(t)
                found = "done"
            except ValidationException:
                found = "conflict"
        assert turns, "nothing was committed, and the other never ran"
        return found

    def check(self, rows: list[Any], cell: object) -> None:
        clear_caches()
        t = frazil.load_table(str(self.root))
        assert self.rows() == rows, cell
        there, named = files_of(t), named_files(t)
        assert named <= there and {f for f in there - named if f.startswith("data/")} <= {
            "data/left.parquet"
        }, cell


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Cells]:
    found: dict[int, Cells] = {}
    return lambda version: (
        found.get(version)
        or found.setdefault(version, Cells(tmp_path_factory.mktemp(f"v{version}"), version))
    )


EVERYONE = {**WRITERS, **PROCEDURES}


@VERSIONS
@PARTS
def test_procedures_succeed_beside_whoever_commits_meanwhile(
    laid: Callable[[int], Cells], part: int, version: int
) -> None:
    table = laid(version)
    for n, (name, procedure) in enumerate(PROCEDURES.items()):
        for m, (other, commit) in enumerate(EVERYONE.items()):
            if (n * len(EVERYONE) + m + version) % 16 == part:
                rows = table.rows_after(other)
                outcome = table.outcome(procedure, commit)
                assert outcome == "done", (name, other)
                table.check(rows, (name, other))


@VERSIONS
@PARTS
def test_writers_succeed_beside_whatever_procedure_commits_meanwhile(
    laid: Callable[[int], Cells], part: int, version: int
) -> None:
    table = laid(version)
    for n, (name, write) in enumerate(WRITERS.items()):
        for m, (other, procedure) in enumerate(PROCEDURES.items()):
            for k, level in enumerate(("serializable", "snapshot")):
                if ((n * len(PROCEDURES) + m) * 2 + k + version) % 16 == part:
                    rows = table.rows_after(name)
                    outcome = table.outcome(
                        lambda t, write=write, level=level: write(t, isolation_level=level),
                        procedure,
                    )
                    assert outcome == "done", (name, other, level)
                    table.check(rows, (name, other, level))
