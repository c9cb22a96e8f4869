"""The golden tables: Iceberg tables written by other engines, and what is in them. README.md lists
them.

    from tests.golden import names, tables
    @pytest.mark.parametrize("name", names(has_deletes=False))
    def test_…(golden, name): table = golden[name]

The index is read at once; the tables are unpacked and put where their metadata says they are by the
fixture `golden`.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLACES = {"java": Path("/tmp/golden/java/open"), "flink": Path("/tmp/golden/flink/open")}


@dataclass(frozen=True)
class GoldenTable:
    """One table. `index` is its line of the index, `expected` all that is known of it; paths in
    both are relative to `root`.
    """

    name: str
    origin: str  # java (and PyIceberg) or flink
    index: Mapping[str, Any]
    unpacked: Path
    root: Path

    @cached_property
    def expected(self) -> dict[str, Any]:
        return json.loads((self.unpacked / self.index["expected"]).read_text())

    @property
    def location(self) -> str:
        """The table's directory: a path table, but for those under `py/`, which have no version
        hint.
        """
        return str(self.root / self.index["location"])

    @property
    def metadata_file(self) -> str:
        return str(self.root / self.index["metadata_file"])

    @property
    def has_deletes(self) -> bool:
        """Delete files in the current snapshot."""
        return has_deletes(self.index)

    def snapshots(self) -> list[dict[str, Any]]:
        """Retained snapshots with `rows` and `sum` (absent where nobody read it), `data_files`,
        `delete_files`.
        """
        return self.expected["snapshots"]

    def schema(self, schema_id: int | None = None) -> dict[str, Any]:
        """Iceberg JSON; None: the current schema."""
        return (
            self.expected["schema"]
            if schema_id is None
            else self.expected["schemas"][str(schema_id)]
        )

    def rows(self) -> Any:
        """The expected rows as a pyarrow.Table, for seeing what differs."""
        return self.parquet("expected")

    def parquet(self, label: str) -> Any:
        """NAME.<label>.parquet: expected, lineage, changelog_plain, …"""
        import pyarrow.parquet as pq

        return pq.read_table(self.unpacked / "expected" / f"{self.name}.{label}.parquet")


class Golden(Mapping[str, GoldenTable]):
    """All golden tables by name, in place."""

    def __init__(self, tables: dict[str, GoldenTable]):
        self._tables = tables

    def __getitem__(self, name: str) -> GoldenTable:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def index() -> list[dict[str, Any]]:
    """Lines of both indexes, each with its `origin`."""
    return [
        {"origin": origin, **line}
        for origin in PLACES
        for line in json.loads((HERE / f"{origin}.json").read_text())
    ]


def has_deletes(line: Mapping[str, Any]) -> bool:
    return (
        any(line["delete_files"].values()) if "delete_files" in line else bool(line["has_deletes"])
    )


def names(*, deletes: bool | None = False, **equal: Any) -> list[str]:
    """Names for parametrize: without delete files by default (`deletes=None`: all); `equal`
    compares keys of the index.
    """
    return [
        x["name"]
        for x in index()
        if deletes in (None, has_deletes(x)) and all(x.get(k) == v for k, v in equal.items())
    ]


def unpack(origin: str, cache: Path) -> Path:
    """The archive's contents (expected/, warehouse/) under `cache`; cheap when they are there, safe
    in parallel processes.
    """
    archive = HERE / f"{origin}.tar.xz"
    target = cache / f"{origin}-{_digest(archive.read_bytes())[:16]}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f".{origin}.lock"):
        if not target.is_dir():
            work = Path(tempfile.mkdtemp(prefix=f".{origin}.", dir=cache))
            with tarfile.open(archive) as packed:
                packed.extractall(work, filter="data")
            os.rename(work, target)
    return target


def place(origin: str, unpacked: Path) -> Path:
    """Copies a warehouse to where its metadata says it is. What is there is kept when nothing is
    missing or changed, else replaced.
    """
    target, source = PLACES[origin], unpacked / "warehouse"
    listing = {
        str(p.relative_to(source)): p.stat().st_size
        for p in sorted(source.rglob("*"))
        if p.is_file()
    }
    if _sound(target, source, listing):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / f".{target.name}.lock"):
        if not _sound(target, source, listing):
            work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            shutil.copytree(source, work / "new")
            if target.exists():
                os.rename(target, work / "old")
            os.rename(work / "new", target)
            shutil.rmtree(work, ignore_errors=True)
    return target


def load(cache: Path) -> Golden:
    """Every table, unpacked and placed."""
    homes = {origin: unpack(origin, cache) for origin in PLACES}
    roots = {origin: place(origin, home) for origin, home in homes.items()}
    return Golden(
        {
            x["name"]: GoldenTable(
                x["name"], x["origin"], x, homes[x["origin"]], roots[x["origin"]]
            )
            for x in index()
        }
    )


def read_metadata(metadata_file: str | Path) -> dict[str, Any]:
    """A metadata.json, gzipped or not."""
    data = Path(metadata_file).read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def writable_copy(metadata_file: str | Path, directory: Path) -> Path:
    """A path table in `directory` that goes on from a golden one: new files go there, the golden
    files are only referred to.

    They belong to the golden table, so gc.enabled is false: upkeep of the copy deletes none of
    them, however old its snapshots have become.
    """
    metadata, folder = read_metadata(metadata_file), Path(directory) / "metadata"
    folder.mkdir(parents=True)
    metadata["location"] = str(directory)
    metadata.setdefault("properties", {})["gc.enabled"] = "false"
    for key in (
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
        "write.folder-storage.path",
    ):
        metadata["properties"].pop(key, None)
    (folder / "v1.metadata.json").write_text(json.dumps(metadata))
    (folder / "version-hint.text").write_text("1")
    return Path(directory)


def _sound(target: Path, source: Path, listing: Mapping[str, int]) -> bool:
    """Every file there with its size, and the version hints as they were."""
    try:
        return all(
            (target / name).stat().st_size == size for name, size in listing.items()
        ) and all(
            (target / name).read_bytes() == (source / name).read_bytes()
            for name in listing
            if name.endswith("version-hint.text")
        )
    except OSError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _locked:
    """An exclusive lock on a file, for as long as the context lasts."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> None:
        self.file = open(self.path, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self.file.close()
