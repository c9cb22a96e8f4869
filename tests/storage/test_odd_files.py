"""Only regular files are read, and only as much of them as the format lets them have: pipes,
devices and endless files are refused at once.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import metadata_files
from frazil.errors import CorruptData, FrazilError, StorageError
from frazil.scan import manifests
from frazil.scan.manifests import manifest_bytes
from frazil.storage import Storage, read_whole, storage_for
from frazil.storage.local import LocalStorage
from tests.builders.catalogs import catalog_of

pytestmark = pytest.mark.disk


@pytest.fixture
def in_time() -> Iterator[None]:
    """Fail where what the test does takes longer than some seconds, as reading a pipe does."""
    done = threading.Event()

    def watch() -> None:
        if not done.wait(20):
            os.write(2, b"a file was waited for\n")
            os._exit(70)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    done.set()


def odd_file(kind: str, tmp_path: Path) -> str:
    path = tmp_path / "odd.parquet"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "socket":
            bound = socket.socket(socket.AF_UNIX)
            here = os.getcwd()
            os.chdir(tmp_path)  # a socket's path is short
            bound.bind("odd.parquet")
            os.chdir(here)
            bound.close()
        case "device":
            return "/dev/zero"
        case "link to a device":
            path.symlink_to("/dev/zero")
    return str(path)


READS: dict[str, Callable[[Storage, str], object]] = {
    "read": lambda s, f: s.read(f), "read_start": lambda s, f: s.read_start(f, 100), "open_input": lambda s, f: s.open_input(f).read(10),
    "read_whole": lambda s, f: read_whole(s, f, 1 << 20, "manifest"), "metadata": metadata_files.read,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "directory", "socket", "device", "link to a device"])
@pytest.mark.parametrize("read", list(READS))
def test_what_is_no_regular_file_is_refused_at_once(
    kind: str, read: str, tmp_path: Path, in_time: None
) -> None:
    file, begun = odd_file(kind, tmp_path), time.monotonic()
    with pytest.raises(
        FrazilError, match="not a file, but|symbolic link|Could not|No such device"
    ) as refused:
        READS[read](storage_for(file), file)
    assert time.monotonic() - begun < 5 and isinstance(refused.value, StorageError | CorruptData)


@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
@pytest.mark.parametrize("place", ["manifest list", "manifest", "data file", "deletion vector"])
def test_a_table_that_names_an_odd_file_is_refused_at_once(
    kind: str, place: str, tmp_path: Path, in_time: None
) -> None:
    catalog: Any = frazil.load_catalog(
        "c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh")
    )
    catalog.create_namespace("db")
    merge_on_read = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    table = catalog.create_table("db.t", "id bigint", properties=merge_on_read)
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    (task,) = table.scan().plan_files()
    snapshot = table.metadata.current_snapshot()
    victim = {
        "manifest list": snapshot.manifest_list,
        "manifest": table.inspect.manifests()["path"].to_pylist()[0],
        "data file": task.file.file_path,
        "deletion vector": task.delete_files[0].file_path,
    }[place]
    manifests.clear_caches()
    os.unlink(victim)
    os.rename(odd_file(kind, tmp_path), victim)
    with pytest.raises(FrazilError, match="not a file, but"):
        catalog.load_table("db.t").to_arrow()
    catalog.close()


def test_a_file_that_is_longer_than_it_can_be_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog: Any = frazil.load_catalog(
        "c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh")
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint")
    table.append(pa.table({"id": [1]}))
    (manifest,) = manifests.manifests_of(
        table.metadata, table.metadata.current_snapshot(), table._loaded.storage
    )
    with open(manifest.manifest_path, "r+b") as file:
        file.truncate(1 << 35)  # a sparse file of 32 GB
    with open(str(table.metadata.current_snapshot().manifest_list), "r+b") as file:
        file.truncate(1 << 35)
    read = list[str]()
    monkeypatch.setattr(LocalStorage, "read", lambda _, location: read.append(location))
    for told in (manifest.manifest_length, 1 << 60):
        with pytest.raises(CorruptData, match="longer than") as refused:
            manifest_bytes(table._loaded.storage, replace(manifest, manifest_length=told))
        assert refused.value.facts["file"] == manifest.manifest_path
    manifests.clear_caches()
    with pytest.raises(CorruptData, match="manifest list .* longer than 256 MB"):
        manifests.manifests_of(
            table.metadata, table.metadata.current_snapshot(), table._loaded.storage
        )
    assert read == []
    catalog.close()


def test_a_version_hint_without_end_is_read_for_twenty_bytes(tmp_path: Path, in_time: None) -> None:
    table = catalog_of("path", tmp_path).create_table("db.t", "id bigint")
    table.append(pa.table({"id": [1]}))
    hint = tmp_path / "wh/db/t/metadata/version-hint.text"
    for odd in ("huge", "device"):
        hint.unlink()
        if odd == "huge":
            hint.write_bytes(b"2\n")
            os.truncate(hint, 1 << 35)
        else:
            hint.symlink_to("/dev/zero")
        assert frazil.load_table(str(tmp_path / "wh/db/t")).to_arrow()["id"].to_pylist() == [1]
