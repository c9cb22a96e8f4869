"""Removal of orphan files where one file has several names, and where files below the location, or
in a list, are others'.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import ValidationException
from frazil.maintain.orphans import remove_orphan_files as procedure
from frazil.maintain.orphans.locations import KnownLocations, PrefixRule, below_path
from frazil.table import Table
from tests.builders.frames import ids
from tests.maintain.support import add, age, files_of, root_of, table_in

OLD = dt.datetime(2020, 1, 1)


def listed(*paths: object) -> pa.Table:
    return pa.table({"file_path": [str(p) for p in paths], "last_modified": [OLD] * len(paths)})


def adds_copy(t: Table, name: str, spelled: str) -> None:
    """Copy a data file of the table to `name`, and add it to the table under another spelling of
    its path.
    """
    target = root_of(t) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(t.inspect.files()["file_path"][0].as_py(), target)
    t.add_files([spelled])


@pytest.fixture
def t(tmp_path: Path) -> Any:
    return table_in(tmp_path)


@pytest.mark.parametrize("prefix_listing", [True, False])
@pytest.mark.parametrize(
    ("location", "spelled"), [("link", "real"), ("real", "link"), ("real", "real/wh/db/t/data/ln")]
)
def test_files_named_through_symbolic_links_stay(
    tmp_path: Path, location: str, spelled: str, prefix_listing: bool
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    t = table_in(tmp_path / location)
    add(t, 1)
    (root_of(t) / "data" / "ln").symlink_to(root_of(t) / "data" / "p=a")
    folder = (
        tmp_path / spelled if spelled.endswith("ln") else tmp_path / spelled / "wh/db/t/data/p=a"
    )
    adds_copy(t, "data/p=a/own.parquet", str(folder / "own.parquet"))
    (root_of(t) / "data/p=a/orphan").write_text("x")
    age(root_of(t))
    result = t.maintenance.remove_orphan_files(prefix_listing=prefix_listing)
    assert [Path(p).name for p in result.orphan_file_location.to_pylist()] == ["orphan"] and ids(
        t.refresh()
    ) == [1, 1]


def test_a_file_that_a_link_of_the_table_leads_to_stays(t: Any) -> None:
    add(t, 1)
    (root_of(t) / "data/alias.parquet").symlink_to(root_of(t) / "data/target.parquet")
    adds_copy(t, "data/target.parquet", str(root_of(t) / "data/alias.parquet"))
    age(root_of(t))
    assert len(t.maintenance.remove_orphan_files()) == 0 and ids(t.refresh()) == [1, 1]


def test_a_link_that_leads_out_of_the_table_is_refused_as_location(tmp_path: Path, t: Any) -> None:
    add(t, 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("x")
    age(tmp_path / "other")
    (root_of(t) / "ext").symlink_to(tmp_path / "other")
    with pytest.raises(ValidationException, match="a symbolic link leads from there to"):
        t.maintenance.remove_orphan_files(location=f"{t.location()}/ext")
    assert (
        len(t.maintenance.remove_orphan_files()) == 0 and (tmp_path / "other" / "precious").exists()
    )


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ("/w/é", "/w/é"),
        ("s3://b/é", "s3a://b/é"),
        ("/w/a%20é", "/w/a é"),
        ("/w/a/../b/x", "/w/b/x"),
        ("s3://b/a/../k", "s3://b/k"),
    ],
)
@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_normal_forms_of_unicode_and_dots_are_one_file(
    known: str, found: str, forms: tuple[str, str]
) -> None:
    names = KnownLocations(PrefixRule())
    names.add(pa.array([unicodedata.normalize(forms[0], known)]))  # type: ignore[arg-type]
    assert names.compare(pa.array([unicodedata.normalize(forms[1], found), "/w/other"]))[
        0
    ].tolist() == [True, False]  # type: ignore[arg-type]


# --- lists of files


def test_files_of_a_list_outside_of_the_tables_directory_stay(tmp_path: Path, t: Any) -> None:
    add(t, 1)
    outside = [
        tmp_path / "other" / "precious",
        root_of(t).parent / "t2" / "precious",
        tmp_path / "wh" / "precious",
    ]
    for path in outside:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (root_of(t) / "orphan").write_text("x")
    listing = listed(*outside, root_of(t) / "orphan", f"{root_of(t)}/../t2/precious")
    result = t.maintenance.remove_orphan_files(file_list_view=listing)
    assert [Path(p).name for p in result.orphan_file_location.to_pylist()] == ["orphan"] and all(
        p.exists() for p in outside
    )


def test_paths_below_a_directory_are_told_however_they_are_spelled() -> None:
    below = below_path("s3://b/w h/t/")
    yes = [
        "s3a://b/w h/t/x",
        "s3://b/w%20h/t/x",
        "hdfs://nn/w h/t/x",
        "s3://b//w h/t/x",
        "s3://b/w h/o/../t/x",
    ]
    assert (
        below(pa.array([*yes, "s3://b/w h/t2/x", "s3://b/w h/t", "s3://b/w h/t/../o/x"])).tolist()
        == [True] * 5 + [False] * 3
    )


@pytest.mark.parametrize("mode", ["ERROR", "IGNORE", "DELETE"])
def test_files_of_a_list_in_another_store_are_told_from_orphans(
    t: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(t, 1)
    place = f"file://here{root_of(t)}"
    monkeypatch.setattr(procedure, "check_place", lambda *_: place)
    listing = listed(
        f"file://here{root_of(t)}/data/orphan", f"file://there{root_of(t)}/data/orphan"
    )
    try:
        found = t.maintenance.remove_orphan_files(
            file_list_view=listing, prefix_mismatch_mode=mode, dry_run=True
        )
    except ValidationException as error:
        assert mode == "ERROR" and "file://there" in str(error) and "file://here" not in str(error)
        return
    assert [p.partition("/wh/")[0][:12] for p in found.orphan_file_location.to_pylist()] == [
        "file://here/",
        "file://there",
    ][: 2 if mode == "DELETE" else 1]


def test_another_tables_metadata_in_a_list_stops_it(tmp_path: Path, t: Any) -> None:
    add(t, 1)
    inner = frazil.load_catalog(
        "other", type="sql", uri=f"sqlite:///{tmp_path}/o.db", warehouse=str(tmp_path / "o")
    )
    inner.create_namespace("db")
    other = inner.create_table("db.inner", "id bigint", location=f"{t.location()}/data/inner")
    other.append(pa.table({"id": [1]}))
    files = [p for p in root_of(t).rglob("*") if p.is_file()]
    with pytest.raises(ValidationException, match="which is that of another table"):
        t.maintenance.remove_orphan_files(file_list_view=listed(*files))
    assert other.scan().count() == 1


# --- what others do meanwhile, or elsewhere


def test_another_catalog_at_a_lower_version_is_seen(tmp_path: Path) -> None:
    t = table_in(tmp_path, properties={"write.metadata.previous-versions-max": "5"})
    add(t, 1)
    catalog = frazil.load_catalog(
        "other", type="sql", uri=f"sqlite:///{tmp_path}/o.db", warehouse=str(tmp_path / "o")
    )
    catalog.create_namespace("db")
    fork = catalog.register_table("db.fork", t.metadata_location)
    for i in range(30):
        with t.update_properties() as update:
            update.set("a", str(i))
    add(fork, 7)
    add(t, 200)
    for path in root_of(t).rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 5 * 86_400,) * 2)
    with pytest.raises(ValidationException, match="another catalog committed"):
        t.maintenance.remove_orphan_files()
    assert ids(fork.refresh()) == [1, 7]


@pytest.mark.parametrize("moment", [2, 3])
def test_a_table_that_shares_its_files_from_now_on_loses_none(
    t: Any, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    add(t, 1)
    (root_of(t) / "orphan").write_text("x")
    age(root_of(t))
    other, real, calls = (
        type(t)(t._backend, t._loaded, t._name),
        procedure.newest_state,
        list[int](),
    )

    def late(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == moment:
            other.set_properties({"gc.enabled": "false"})
        return real(*arguments, **more)

    monkeypatch.setattr(procedure, "newest_state", late)
    with pytest.raises(ValidationException, match="GC is disabled"):
        t.maintenance.remove_orphan_files()
    assert len(calls) == 3 and "orphan" in files_of(t)
