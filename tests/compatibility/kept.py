"""Tables and checkpoints that earlier releases wrote, kept as VERSION.tar.xz beside this file, with
what is in them. Metadata holds absolute paths, so each set is unpacked at one place, by one test at a
time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import frazil

HERE = Path(__file__).resolve().parent
PLACE = Path("/tmp/frazil-kept")
RELEASES = sorted(p.name.removesuffix(".tar.xz") for p in HERE.glob("*.tar.xz"))


@dataclass(frozen=True)
class Kept:
    """What one release left: `expected` tells of each table its rows, those of its snapshots and
    refs, and its format version."""

    root: Path
    expected: dict[str, Any]

    @property
    def properties(self) -> dict[str, str]:
        return properties_at(self.root)

    def catalog(self) -> frazil.Catalog:
        return frazil.load_catalog("kept", **self.properties)

    def checkpoint(self, name: str) -> str:
        return str(self.root / "checkpoints" / name)


def properties_at(root: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{root}/catalog.db",
        "warehouse": f"{root}/warehouse",
    }


@contextlib.contextmanager
def the_place_for(release: str) -> Iterator[Path]:
    """Lend an empty folder at the place where the files of a release name each other."""
    PLACE.mkdir(exist_ok=True)
    with (PLACE / f"{release}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = PLACE / release
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        frazil.clear_caches()
        try:
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def unpacked(release: str) -> Iterator[Kept]:
    with the_place_for(release) as root:
        with tarfile.open(HERE / f"{release}.tar.xz") as archive:
            archive.extractall(root, filter="data")
        yield Kept(root, json.loads((root / "expected.json").read_text()))


def rows(scan: Any) -> list[Any]:
    """Return the rows in an order of their own, as JSON has them."""
    found = json.loads(json.dumps(scan.to_arrow().to_pylist(), default=str))
    return sorted(found, key=json.dumps)
