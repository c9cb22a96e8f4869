"""The files of a table: those that lie below its location, and those that its snapshots know."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def files_below(folder: Path | str) -> set[str]:
    """Paths of all files below a folder."""
    return {str(p) for p in Path(folder).rglob("*") if p.is_file()}


def data_files_below(t: Any) -> set[str]:
    """Paths of the files below a table's `data` folder; hidden ones (checksums of Hadoop) are left
    out.
    """
    return {
        p
        for p in files_below(Path(t.location().removeprefix("file://"), "data"))
        if not Path(p).name.startswith(".")
    }


def known_files(t: Any) -> set[str]:
    """Paths of the data and delete files that some snapshot of a table knows."""
    return {p.removeprefix("file://") for p in t.inspect.all_files()["file_path"].to_pylist()}


def leftovers(t: Any) -> list[str]:
    """Paths of the files below a table's data that no snapshot knows."""
    return sorted(data_files_below(t) - known_files(t))
