"""A process that dies at any file operation of a procedure leaves the table right, and the next run
cleans up what it left.

The short form kills each procedure at a few of its operations, FRAZIL_SOAK=1 at every one of them,
on both kinds of catalogs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import frazil
from frazil.scan.manifests import clear_caches
from frazil.storage import local
from tests.builders.files_on_disk import files_below
from tests.builders.frames import frame_of
from tests.maintain.support import LATER, add, age, files_of, named_files, root_of, states, table_in
from tests.spark.deleting import take_keys

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
KINDS = ("path", "sql")
ALL = {"rewrite-all": "true"}
Run = Callable[[Any], object]
PROCEDURES: dict[str, Run] = {
    "expire_snapshots": lambda t: t.maintenance.expire_snapshots(older_than=LATER, max_concurrent_deletes=1),
    "remove_orphan_files": lambda t: t.maintenance.remove_orphan_files(max_concurrent_deletes=1),
    "rewrite_manifests": lambda t: t.maintenance.rewrite_manifests(),
    "rewrite_data_files": lambda t: t.maintenance.rewrite_data_files(
        options={**ALL, "remove-dangling-deletes": "true"}, runner="in-process"
    ),
    "rewrite_data_files, sorted": lambda t: t.maintenance.rewrite_data_files(
        "sort", "v DESC, id", {**ALL, "max-concurrent-file-group-rewrites": "1"}, runner="in-process"
    ),
    "rewrite_data_files, partial progress": lambda t: t.maintenance.rewrite_data_files(
        options={**ALL, "partial-progress.enabled": "true"}, runner="in-process"
    ),
    "rewrite_position_delete_files": lambda t: t.maintenance.rewrite_position_delete_files(options=ALL, runner="in-process"),
    "convert_equality_deletes": lambda t: t.maintenance.convert_equality_deletes(runner="in-process"),
    "compute_table_stats": lambda t: t.maintenance.compute_table_stats(runner="in-process"),
    "compute_partition_stats": lambda t: t.maintenance.compute_partition_stats(),
    "rewrite_table_path": lambda t: t.maintenance.rewrite_table_path(t.location(), "/elsewhere"),
    "auto": lambda t: t.maintenance.auto(),
}  # fmt: skip


class Killed(BaseException):
    """The end of a process: what it had not done by then is never done."""


class Life:
    """Counts the operations on files below `root`; from the k-th on all of them fail, and the k-th
    leaves half of the file it writes.
    """

    def __init__(self, root: Path, k: int, patched: pytest.MonkeyPatch):
        self.root, self.k, self.seen = str(root), k, 0
        for module, name in (
            (local, "_create"),
            (local, "_write_new"),
            (local, "_link"),
            (local, "sync"),
            (os, "unlink"),
            (os, "rename"),
        ):
            patched.setattr(module, name, self.counted(getattr(module, name), name))

    @property
    def ended(self) -> bool:
        return self.seen >= self.k

    def counted(self, real: Any, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if any(isinstance(a, str) and a.startswith(self.root) for a in arguments) and not (
                name == "_create" and self.ended
            ):
                self.seen += 1
                if self.seen == self.k and name == "_write_new":
                    Path(arguments[0]).write_bytes(arguments[1][: len(arguments[1]) // 2])
                if self.ended:
                    raise Killed
            elif self.ended:
                raise Killed
            return real(*arguments, **more)

        return call


class Laid:
    """A table of every kind of file, aged, with a copy to begin from again."""

    def __init__(self, place: Path, kind: str):
        self.place, self.kind, self.pristine = place / "now", kind, place / "pristine"
        self.place.mkdir()
        t = table_in(
            self.place,
            kind,
            properties={
                "commit.manifest-merge.enabled": "false",
                "write.delete.granularity": "partition",
            },
        )
        add(t, 0, 1, 10)
        t.dynamic_partition_overwrite(frame_of([(7, "b", 0), (8, "b", 0)]))
        add(t, 2, 11)
        t.delete("id in (10, 11)", mode="merge-on-read")
        take_keys(t, ("id",), [{"id": 1}], partition=("a",))
        t.overwrite(frame_of([(5, "b", 1)]), overwrite_filter="id = 7")
        for name in ("data/left.parquet", "metadata/left-m0.avro"):
            (root_of(t) / name).write_text("x")
        self.root, self.states, self.head = root_of(t), states(t), t.current_snapshot().snapshot_id
        age(self.root)
        shutil.copytree(self.place, self.pristine)

    @property
    def rows(self) -> Any:
        return self.states[self.head]

    def again(self) -> Any:
        shutil.rmtree(self.place)
        shutil.copytree(self.pristine, self.place)
        return self.load()

    def load(self) -> Any:
        """The table, as a new process sees it."""
        clear_caches()
        if self.kind == "path":
            return frazil.load_table(str(self.root))
        return frazil.load_catalog(
            "test",
            type="sql",
            warehouse=str(self.place / "wh"),
            uri=f"sqlite:///{self.place}/catalog.db",
        ).load_table("db.t")

    def operations(self, run: Run) -> int:
        """How many operations a run has that nobody kills."""
        t = self.again()
        with pytest.MonkeyPatch.context() as patched:
            life = Life(self.root, 10**6, patched)
            run(t)
        return life.seen

    def killed(self, run: Run, k: int) -> None:
        t = self.again()
        with pytest.MonkeyPatch.context() as patched:
            life = Life(self.root, k, patched)
            with pytest.raises(Killed):
                run(t)
        assert life.ended

    def check(self, when: object) -> Any:
        """Each snapshot has the rows that it always had, the table those of before, and no file is
        missing.
        """
        t = self.load()
        found = states(t)
        assert {i: rows for i, rows in found.items() if i in self.states} == {
            i: self.states[i] for i in found if i in self.states
        }, when
        assert found[t.current_snapshot().snapshot_id] == self.rows and named_files(t) <= files_of(
            t
        ), when
        return t

    def check_clean(self, t: Any, when: object) -> None:
        """Upkeep removes everything that the table does not need, and nothing else."""
        t.maintenance.expire_snapshots(older_than=LATER)
        age(self.root)
        t.maintenance.remove_orphan_files()
        t = self.check(when)
        known = named_files(t) | {
            os.path.relpath(e.metadata_file, self.root) for e in t.metadata.metadata_log
        }
        known |= {os.path.relpath(t.metadata_location, self.root), "metadata/version-hint.text"}
        assert {os.path.relpath(f, self.root) for f in files_below(self.root)} <= known, when


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Laid]:
    return {kind: Laid(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def some(count: int) -> list[int]:
    """The operations to die at: one in the middle and one at the end, or each."""
    return list(range(1, count + 1)) if SOAK else [(count + 1) // 2, count]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for n, name in enumerate(PROCEDURES)
        for kind in (KINDS if SOAK else KINDS[n % 2 : n % 2 + 1])
    ],
)
def test_a_kill_at_any_file_operation_leaves_the_table_right(
    laid: dict[str, Laid], name: str, kind: str
) -> None:
    run, table = PROCEDURES[name], laid[kind]
    count = table.operations(run)
    assert count > 1
    for k in some(count):
        table.killed(run, k)
        t = table.check(k)
        run(t)  # the next run goes on
        table.check_clean(table.load(), k)


IMPORTS: dict[str, Callable[[Any, str], object]] = {
    "add_files": lambda catalog, source: catalog.load_table("db.t").maintenance.add_files(source),
    "snapshot": lambda catalog, source: catalog.snapshot(source, "db.new"),
    "migrate": lambda catalog, source: catalog.migrate(source, "db.new"),
}


class Imported:
    """A table of one row, and a directory of files that are to be taken over."""

    def __init__(self, place: Path, name: str):
        self.place, self.name, self.source = place, name, place / "source"
        add(table_in(place, "sql", partition_by=[]), 1)
        self.source.mkdir()
        for n in range(3):
            pq.write_table(frame_of([(10 + n, "b", n)]), self.source / f"{n}.parquet")
        self.before = self.rows()

    @property
    def catalog(self) -> Any:
        """The catalog, as a new process sees it."""
        clear_caches()
        return frazil.load_catalog(
            "test",
            type="sql",
            warehouse=str(self.place / "wh"),
            uri=f"sqlite:///{self.place}/catalog.db",
        )

    def rows(self) -> list[Any] | None:
        """The rows of the table that is the outcome; None: there is none."""
        name, catalog = ("db.t" if self.name == "add_files" else "db.new"), self.catalog
        return (
            sorted(tuple(r.values()) for r in catalog.load_table(name).to_arrow().to_pylist())
            if catalog.table_exists(name)
            else None
        )

    def run(self, k: int) -> int:
        """Run the import until its k-th file operation; returns how many there were."""
        with pytest.MonkeyPatch.context() as patched:
            catalog = self.catalog
            life = Life(self.place, k, patched)
            try:
                IMPORTS[self.name](catalog, str(self.source))
            except Killed:
                assert life.ended
            return life.seen


@pytest.mark.parametrize("name", IMPORTS)
def test_a_kill_at_any_file_operation_of_an_import_leaves_it_done_or_not_begun(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "whole").mkdir()
    whole = Imported(tmp_path / "whole", name)
    count = whole.run(10**6)
    wanted = whole.rows()
    assert count > 1 and wanted != whole.before
    for k in some(count):
        (tmp_path / str(k)).mkdir()
        killed = Imported(tmp_path / str(k), name)
        assert killed.run(k) >= k
        assert killed.rows() in (killed.before, wanted), k
        if killed.rows() == killed.before:
            killed.run(10**6)  # the next run does it all
        assert killed.rows() == wanted and len(list(killed.source.glob("*.parquet"))) == 3, k


if SOAK:
    pytestmark = pytest.mark.soak
