"""Local files: the order of syncs, and faults injected at every step. Each test proves that its
fault fired.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from frazil.errors import StorageError
from frazil.storage import PublishUnclear, storage_for
from frazil.storage import local as local_module

pytestmark = pytest.mark.disk

CALLS = ("open", "write", "fsync", "link", "rename", "unlink", "mkdir")


class Tape:
    """Records calls of `os` made by the local store; fails the k-th one (from 0) with an errno."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        fail_at: int | None = None,
        number: int = errno.EIO,
        only: tuple[str, ...] = CALLS,
    ):
        self.calls: list[tuple[str, str]] = []
        self.fail_at, self.number, self.only, self.fired, self.names = (
            fail_at,
            number,
            only,
            False,
            dict[int, str](),
        )
        fake = type(
            "os",
            (),
            {
                k: staticmethod(getattr(os, k)) if callable(getattr(os, k)) else getattr(os, k)
                for k in dir(os)
            },
        )
        for name in CALLS:
            setattr(fake, name, staticmethod(self._wrap(name, getattr(os, name))))
        monkeypatch.setattr(local_module, "os", fake)

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            target = arguments[1] if name in ("link", "rename") else arguments[0]
            shown = self.names.get(target, "?") if isinstance(target, int) else str(target)
            if (
                name in self.only
                and len([c for c in self.calls if c[0] in self.only]) == self.fail_at
                and not self.fired
            ):
                self.fired = True
                raise OSError(self.number, os.strerror(self.number), shown)
            self.calls.append((name, shown))
            result = real(*arguments, **named)
            if name == "open":
                self.names[result] = str(arguments[0])
            return result

        return call


def test_publish_syncs_the_file_before_it_has_its_name_and_the_directory_after(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = storage_for(str(tmp_path))
    tape = Tape(monkeypatch)
    assert storage.publish(f"{tmp_path}/m/v1", b"x" * 100)
    names = [c[0] for c in tape.calls]
    link, syncs = names.index("link"), [i for i, n in enumerate(names) if n == "fsync"]
    synced = [tape.calls[i][1] for i in syncs]
    assert synced[0] == str(tmp_path), "the new directory is synced into its parent"
    assert synced[1].endswith(".tmp") and syncs[1] < link
    assert synced[2] == f"{tmp_path}/m" and syncs[2] > link
    assert "unlink" not in names[:link], "nothing is removed before the file is published"


def test_a_file_opened_for_output_is_synced_with_its_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape(monkeypatch)
    with storage_for(str(tmp_path)).open_output(f"{tmp_path}/data/f") as sink:
        sink.write(b"abc")
    assert [c[1] for c in tape.calls if c[0] == "fsync"] == [
        str(tmp_path),
        f"{tmp_path}/data/f",
        f"{tmp_path}/data",
    ]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_at_any_step_of_publish_leaves_all_or_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    outcomes = set()
    for k in range(100):
        directory = tmp_path / str(k)
        with monkeypatch.context() as patch:
            tape = Tape(patch, k, number)
            try:
                published: bool | None = storage_for(str(tmp_path)).publish(
                    f"{directory}/v1", b"whole"
                )
            except PublishUnclear as error:
                published, outcome = None, "unclear"
                assert error.facts["errno"] == errno.errorcode[number]
            except StorageError as error:
                published, outcome = False, "failed"
                assert error.facts["errno"] == errno.errorcode[number] and error.errno == number
            else:
                outcome = "published"
        there = directory.exists() and (directory / "v1").exists()
        assert there == (outcome != "failed")
        assert not there or (directory / "v1").read_bytes() == b"whole"
        if not tape.fired:
            break
        outcomes.add(outcome)
        if tape.calls and tape.calls[-1][0] != "fsync" and outcome == "failed":
            assert list(directory.glob(".*")) == [] if directory.exists() else True, (
                "no temporary is left"
            )
        assert published is not True or outcome == "published"
    assert outcomes == {"failed", "unclear", "published"}, (
        "faults hit before the link, between link and sync, and in cleaning up"
    )
    assert k > 5


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_at_any_step_of_a_write_leaves_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for k in range(100):
        with monkeypatch.context() as patch:
            tape = Tape(patch, k, number, only=("open", "write", "fsync"))
            with contextlib.suppress(StorageError):
                storage_for(str(tmp_path)).write(f"{tmp_path}/f{k}", b"whole")
        if not tape.fired:
            assert (tmp_path / f"f{k}").read_bytes() == b"whole"
            break
        # a failed sync of the directory leaves a whole file under an unused name; anything earlier
        # leaves none
        assert not (tmp_path / f"f{k}").exists() or (
            tape.calls[-1] == ("open", str(tmp_path)) or k == 3
        )
    assert k >= 4


def test_a_file_system_without_hard_links_publishes_by_a_rename_that_keeps_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape(monkeypatch, 0, errno.EPERM, only=("link",))
    storage = storage_for(str(tmp_path))
    assert storage.publish(f"{tmp_path}/v1", b"first") and tape.fired
    tape.fired = False
    assert not storage.publish(f"{tmp_path}/v1", b"second") and tape.fired
    assert (tmp_path / "v1").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == ["v1"]


def test_without_links_and_without_such_a_rename_publishing_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape(monkeypatch, 0, errno.EPERM, only=("link",))
    monkeypatch.setattr(local_module, "_renameat2", lambda: None)
    with pytest.raises(StorageError, match="hard links"):
        storage_for(str(tmp_path)).publish(f"{tmp_path}/v1", b"x")
    assert tape.fired and os.listdir(tmp_path) == []


def test_an_error_of_another_file_inside_an_output_is_not_blamed_on_it(
    tmp_path: pathlib.Path,
) -> None:
    with (
        pytest.raises(FileNotFoundError, match="other"),
        storage_for(str(tmp_path)).open_output(f"{tmp_path}/out"),
    ):
        (tmp_path / "other").read_bytes()
    assert os.listdir(tmp_path) == []


def test_no_descriptor_is_left_open_by_failures(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for k in range(12):
        with monkeypatch.context() as patch:
            tape = Tape(patch, k, errno.EIO)
            try:
                storage_for(str(tmp_path)).publish(f"{tmp_path}/{k}/v1", b"x")
            except StorageError:
                assert tape.fired
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_looked_at_is_not_taken_for_missing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    storage, asked = storage_for(str(tmp_path)), list[str]()
    assert not storage.exists(f"{tmp_path}/none") and not storage.exists(f"{tmp_path}/{'x' * 300}")

    def fail(path: str) -> Any:
        asked.append(path)
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(StorageError, match="inspect"):
        storage.exists(f"{tmp_path}/f")
    assert asked == [f"{tmp_path}/f"]


@pytest.mark.parametrize("kind", ["linked", "dangling"])
def test_a_directory_that_is_a_link_is_deleted_with_what_it_leads_to(
    tmp_path: pathlib.Path, kind: str
) -> None:
    real, link = tmp_path / "disk" / "t", tmp_path / "t"
    if kind == "linked":
        (real / "data").mkdir(parents=True)
        (real / "data" / "f").write_bytes(b"x")
    link.symlink_to(real)
    storage_for(str(tmp_path)).delete_tree(str(link))
    assert not os.path.lexists(real) and [n for n in os.listdir(tmp_path) if n != "disk"] == []
