"""Real paths of files that are reached through symbolic links."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.storage.real_paths import RealPaths


def linked(place: Path) -> Path:
    """`real/a/b`, with `link` -> `real`, `real/up` -> `a`, `real/round` -> itself, and a file that
    is a link.
    """
    (place / "real/a/b").mkdir(parents=True)
    (place / "link").symlink_to("real")
    (place / "real/up").symlink_to("a")
    (place / "real/round").symlink_to("round")
    (place / "real/a/file").symlink_to("b")
    return Path(os.path.realpath(place))


@pytest.mark.parametrize(
    ("given", "real"),
    [
        ("real/a/b/x", "real/a/b/x"),
        ("link/a/x", "real/a/x"),
        ("link/up/b/x", "real/a/b/x"),
        ("real/up/../a/x", "real/a/x"),
        ("real/a/file", "real/a/file"),
        ("nowhere/x", "nowhere/x"),
        ("link/round/x", "real/round/x"),
    ],
)
def test_directories_are_resolved_and_files_are_not(tmp_path: Path, given: str, real: str) -> None:
    place = linked(tmp_path)
    paths = RealPaths()
    assert [paths.of(f"{place}/{given}") for _ in range(2)] == [f"{place}/{real}"] * 2
    assert paths.differing(pa.array([f"{place}/{given}"])) == (
        [] if given == real else [f"{place}/{real}"]
    )


def test_other_locations_stay_as_they_are() -> None:
    paths = RealPaths()
    assert [paths.of(p) for p in ("s3://b/k", "x/y", "/x", "")] == ["s3://b/k", "x/y", "/x", ""]
    assert paths.changed(pa.array(["s3://b/k", "", "/x"])) == []


def test_each_directory_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, seen = linked(tmp_path), list[str]()
    real = os.path.islink
    monkeypatch.setattr(os.path, "islink", lambda path: (seen.append(path), real(path))[1])
    paths = RealPaths()
    found = paths.changed(
        pa.array(
            [f"{place}/link/a/{i}" for i in range(100)]
            + [f"{place}/real/a/{i}" for i in range(100)]
        )
    )
    assert [n for n, _ in found] == list(range(100)) and len(seen) < 30
