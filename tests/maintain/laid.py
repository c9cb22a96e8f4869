"""A table with small files, deletes of both kinds and snapshots to expire, from which tests begin again and again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import frazil
from frazil.scan.manifests import clear_caches
from tests.builders.frames import frame_of
from tests.maintain.support import add, age, root_of, rows_at, table_in
from tests.spark.deleting import take_keys


class Laid:
    """The table, and a copy of it to begin from. Version 3: upgraded, so that there are position delete files beside vectors."""

    def __init__(self, place: Path, version: int):
        self.place, self.pristine = place / "now", place / "pristine"
        self.place.mkdir()
        more = {"commit.manifest-merge.enabled": "false", "write.delete.granularity": "partition", "write.merge.mode": "merge-on-read"}
        t = table_in(self.place, "path", format_version=2, properties=more)
        add(t, 0, 10, 12)
        add(t, 20, 30, 40, 3)
        t.overwrite(frame_of([(4, "b", 0)]), overwrite_filter="id = 3")
        take_keys(t, ("id",), [{"id": 10}], partition=("a",))
        t.delete("id = 30", mode="merge-on-read", runner="in-process")
        if version == 3:
            t.upgrade(3)
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
