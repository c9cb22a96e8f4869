"""Tables with small files, deletes of every kind and snapshots to expire, from which tests begin
again and again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frazil
from frazil.scan.manifests import clear_caches
from tests.builders.frames import frame_of
from tests.maintain.support import add, age, root_of, rows_at, table_in
from tests.spark.deleting import take_keys

Filled = Callable[[Path], Any]
APART = {"commit.manifest-merge.enabled": "false"}


def mixed(place: Path, version: int) -> Any:
    """Deletes of both kinds. Version 3: upgraded, so that there are position delete files beside
    vectors.
    """
    more = {**APART, "write.delete.granularity": "partition", "write.merge.mode": "merge-on-read"}
    t = table_in(place, "path", format_version=2, properties=more)
    add(t, 0, 10, 12)
    add(t, 20, 30, 40, 3)
    t.overwrite(frame_of([(4, "b", 0)]), overwrite_filter="id = 3")
    take_keys(t, ("id",), [{"id": 10}], partition=("a",))
    t.delete("id = 30", mode="merge-on-read", runner="in-process")
    if version == 3:
        t.upgrade(3)
    return t


def plain(place: Path) -> Any:
    """Format version 1: appends, and a file that was rewritten."""
    t = table_in(place, "path", format_version=1, properties=APART)
    appended(t)
    t.delete("id = 11", runner="in-process")
    return t


def positions(place: Path, granularity: str) -> Any:
    """Position delete files, some of which apply to one data file, some to none any more."""
    t = table_in(
        place,
        "path",
        format_version=2,
        properties={**APART, "write.delete.granularity": granularity},
    )
    appended(t)
    for number in (1, 2, 13, 24, 35):
        t.delete(f"id = {number}", mode="merge-on-read", runner="in-process")
    t.overwrite(frame_of([(24, "b", 9)]), overwrite_filter="id >= 20 and id < 30 and p = 'b'")
    return t


def equality(place: Path) -> Any:
    """Equality deletes before, between and after appends, of one partition and of the other."""
    t = table_in(place, "path", format_version=2, properties=APART)
    add(t, 1, 2, 3)
    take_keys(t, ("id",), [{"id": 1}, {"id": 12}], partition=("a",))
    appended(t)
    take_keys(t, ("id", "v"), [{"id": 2, "v": 0}, {"id": 35, "v": 0}], partition=("a",))
    take_keys(t, ("id",), [{"id": 99}], partition=("b",))
    add(t, 2, 35)
    return t


def vectors(place: Path) -> Any:
    """Vectors of format version 3, one of which was replaced, and equality deletes beside them."""
    t = table_in(
        place, "path", format_version=3, properties={**APART, "write.delete.mode": "merge-on-read"}
    )
    appended(t)
    for number in (1, 2, 13, 35):
        t.delete(f"id = {number}", runner="in-process")
    take_keys(t, ("id",), [{"id": 12}, {"id": 13}], partition=("a",))
    return t


def branched(place: Path, version: int) -> Any:
    """Files and deletes on main and on the branch dev, which share a past; and a tag on a snapshot
    that main has left.
    """
    t = table_in(
        place,
        "path",
        format_version=version,
        properties={**APART, "write.delete.mode": "merge-on-read"},
    )
    appended(t)
    staged = t.append(frame_of([(50, "a", 0)])).snapshot_id
    t.maintenance.rollback_to_snapshot(t.metadata.snapshot_by_id(staged).parent_snapshot_id)
    with t.manage_snapshots() as ms:
        ms.create_branch(t.refresh().current_snapshot().snapshot_id, "dev").create_tag(
            staged, "left"
        )
    t.delete("id = 1", runner="in-process")
    for number in (2, 13):
        t.delete(f"id = {number}", branch="dev", runner="in-process")
        add(t, 60 + number, branch="dev")
    return t


def evolved(place: Path, version: int) -> Any:
    """Files and deletes of three partition specs, and equality deletes of the unpartitioned one,
    which apply to all.
    """
    more = {**APART, "write.delete.granularity": "partition", "write.delete.mode": "merge-on-read"}
    t = table_in(place, "path", format_version=version, partition_by=[], properties=more)
    appended(t)
    t.delete("id in (1, 2, 13)", runner="in-process")
    with t.update_spec() as update:
        update.add_identity("p")
    appended(t, 100)
    t.delete("id in (101, 113, 3)", runner="in-process")
    with t.update_spec() as update:
        update.remove_field("p").add_field("id", "bucket[2]", "id_bucket")
    appended(t, 200)
    take_keys(t, ("id",), [{"id": i} for i in (14, 111, 212)], spec_id=0)
    add(t, 14)
    return t


def appended(t: Any, begin: int = 0) -> None:
    """Four files of partition a and one of b."""
    for first in range(begin, begin + 40, 10):
        add(t, *range(first, first + 6))
    add(t, *range(begin + 24, begin + 30), p="b")


KINDS: dict[str, Filled] = {
    "v1": plain,
    "v2 positions by file": lambda place: positions(place, "file"),
    "v2 positions by partition": lambda place: positions(place, "partition"),
    "v2 equality deletes": equality,
    "v2 mixed deletes": lambda place: mixed(place, 2),
    "v2 branches": lambda place: branched(place, 2),
    "v2 evolved": lambda place: evolved(place, 2),
    "v3 vectors": vectors,
    "v3 mixed deletes": lambda place: mixed(place, 3),
    "v3 branches": lambda place: branched(place, 3),
    "v3 evolved": lambda place: evolved(place, 3),
}


class Laid:
    """A table, and a copy of it to begin from; beside its files lies one that no snapshot names."""

    def __init__(self, place: Path, filled: int | Filled):
        """`filled`: makes the table in a folder; a number stands for mixed deletes in this format
        version.
        """
        self.place, self.pristine = place / "now", place / "pristine"
        self.place.mkdir()
        t = mixed(self.place, filled) if isinstance(filled, int) else filled(self.place)
        (root_of(t) / "data" / "left.parquet").write_text("x")
        self.root = root_of(t)
        age(self.root)
        shutil.copytree(self.place, self.pristine)
        self.rows_before = self.rows()

    def again(self) -> Any:
        shutil.rmtree(self.place)
        shutil.copytree(self.pristine, self.place)
        clear_caches()
        return frazil.load_table(str(self.root))

    def rows(self) -> list[Any]:
        t = frazil.load_table(str(self.root))
        return rows_at(t, t.current_snapshot().snapshot_id)

    def rows_of_refs(self) -> dict[str, list[Any]]:
        """The rows of each branch and tag."""
        t = frazil.load_table(str(self.root))
        return {name: rows_at(t, ref.snapshot_id) for name, ref in t.metadata.refs.items()}
