"""rewrite_table_path: a table copied by its file list reads the same at its new place, in whole and
kept up.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.errors import InvalidInput, Unsupported
from frazil.maintain.rewrite_table_path.table_path import RewriteTablePathResult
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.files_on_disk import files_below
from tests.peers.checks import JavaCheck, PyIcebergCheck


def rows(first: int, count: int = 60) -> pa.Table:
    return pa.table(
        {
            "id": range(first, first + count),
            "s": [f"a b/{i % 3}" if i % 4 else None for i in range(count)],
        }
    )


def made(catalog: Catalog, version: int, name: str = "t", **properties: str) -> Table:
    t = catalog.create_table(
        f"db.{name}",
        "id bigint, s string",
        partition_by=["s"],
        format_version=version,
        properties=properties,
    )
    t.append(rows(0))
    t.maintenance.compute_partition_stats()
    t.append(rows(1000))
    if version > 1:
        t.delete("id % 5 = 0", mode="merge-on-read")
        t.delete("id % 7 = 0", mode="merge-on-read")
    else:
        t.delete("id % 5 = 0")
    t.maintenance.compute_table_stats()
    return t


def copy(result: RewriteTablePathResult) -> list[str]:
    targets = []
    with open(result.file_list_location, newline="") as listed:
        for source, target in csv.reader(listed):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            targets.append(target)
    assert len(set(targets)) == len(targets) == result.files_to_copy
    return targets


def states(t: Table) -> list[Any]:
    """The rows of every snapshot, the metadata tables without paths, and every path of metadata."""
    return [
        t.scan(snapshot_id=s.snapshot_id).to_arrow().sort_by([("id", "ascending")]).to_pylist()
        for s in t.snapshots()
    ]


@contextmanager
def hidden(t: Table) -> Iterator[None]:
    """The directory of a table has another name inside the block."""
    place = Path(t.location())
    elsewhere = place.rename(place.with_name(f"{place.name}-away"))
    try:
        yield
    finally:
        elsewhere.rename(place)


def away(
    t: Table,
    target: Path,
    result: RewriteTablePathResult,
    catalog: Catalog,
    wanted: list[Any],
    has_lengths: bool | None = True,
) -> Table:
    """The copy, opened while the original is not there. `has_lengths`: its metadata tells the
    lengths of all files; None: perhaps.
    """
    with hidden(t):
        moved = catalog.register_table(
            "db.moved", f"{target}/metadata/{result.latest_version}", overwrite=True
        )
        assert states(moved) == wanted
        files = (
            moved.inspect.all_files().column("file_path").to_pylist()
            + moved.inspect.all_manifests().column("path").to_pylist()
        )
        assert files and all(f.startswith(f"{target}/") for f in files)
        assert all(
            e.metadata_file.startswith(f"{target}/") and Path(e.metadata_file).exists()
            for e in moved.metadata.metadata_log
        )
        assert all(
            Path(s["statistics-path"]).exists()
            for s in (*moved.metadata.statistics, *moved.metadata.partition_statistics)
        )
        lengths = {
            f["file_path"]: f["file_size_in_bytes"] for f in moved.inspect.all_files().to_pylist()
        }
        lengths |= {m["path"]: m["length"] for m in moved.inspect.all_manifests().to_pylist()}
        assert has_lengths is None or has_lengths == all(
            Path(path).stat().st_size == length for path, length in lengths.items()
        )
        return moved


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_copy_reads_every_snapshot_at_its_new_place_and_can_be_kept_up(
    home: Catalog, tmp_path: Path, version: int
) -> None:
    t, target = made(home, version), tmp_path / "far" / "t"
    t.refresh()
    before, location = states(t), t.metadata_location
    result = t.maintenance.rewrite_table_path(t.location(), str(target))
    assert (
        result.latest_version == Path(location).name and t.refresh().metadata_location == location
    )
    copy(result)
    away(t, target, result, home, before)

    t.append(rows(5000))
    t.delete("id = 5001", mode="merge-on-read" if version > 1 else None)
    more = t.maintenance.rewrite_table_path(
        t.location(), str(target), start_version=result.latest_version
    )
    listed = copy(more)
    first = {Path(p).name for p in listed if p.endswith(".parquet")}
    assert 0 < more.files_to_copy < result.files_to_copy and first
    moved = away(t, target, more, home, states(t.refresh()))
    moved.append(rows(9000))
    assert moved.count() == t.count() + 60


@pytest.mark.parametrize("format_", ["avro", "orc"])
def test_position_delete_files_of_other_formats_are_rewritten(
    home: Catalog, tmp_path: Path, format_: str
) -> None:
    t, target = made(home, 2, **{"write.delete.format.default": format_}), tmp_path / "far" / "t"
    result = t.maintenance.rewrite_table_path(
        t.location(), f"{target}/", staging_location=str(tmp_path / "staged")
    )
    assert (
        result.rewritten_delete_file_paths_count > 0
        and result.staging_location == f"{tmp_path}/staged/"
    )
    copy(result)
    away(t, target, result, home, states(t.refresh()))


def test_relative_prefixes_are_made_absolute(
    home: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t, target = made(home, 2), tmp_path / "far" / "t"
    monkeypatch.chdir(tmp_path)
    source = os.path.relpath(t.location().removeprefix("file://"), tmp_path)
    result = t.maintenance.rewrite_table_path(source, "far/t/", staging_location="./staged")
    assert result.staging_location == f"{tmp_path}/staged/"
    copy(result)
    away(t, target, result, home, states(t.refresh()))


def test_manifests_are_long_enough_where_the_target_cannot_be_seen(
    home: Catalog, tmp_path: Path
) -> None:
    t, target = made(home, 2), tmp_path / "far" / "t"
    result = t.maintenance.rewrite_table_path(t.location(), str(target))
    copy(result)
    target.rename(tmp_path / "unseen")
    t.append(rows(5000))
    more = t.maintenance.rewrite_table_path(
        t.location(), str(target), start_version=result.latest_version
    )
    (tmp_path / "unseen").rename(target)
    copy(more)
    away(t, target, more, home, states(t.refresh()))


def test_an_older_version_can_be_copied(home: Catalog, tmp_path: Path) -> None:
    t, target = made(home, 2), tmp_path / "far" / "t"
    t.refresh()
    wanted, end = states(t), Path(t.metadata_location).name
    t.append(rows(7000))
    result = t.maintenance.rewrite_table_path(t.location(), str(target), end_version=end)
    assert result.latest_version == end
    copy(result)
    away(t, target, result, home, wanted)


def test_a_dry_run_counts_the_same_and_writes_nothing(home: Catalog, tmp_path: Path) -> None:
    t = made(home, 3)
    files = sorted(Path(t.location()).rglob("*"))
    planned = t.maintenance.rewrite_table_path(t.location(), str(tmp_path / "far"), dry_run=True)
    assert sorted(Path(t.location()).rglob("*")) == files
    done = t.maintenance.rewrite_table_path(
        t.location(), str(tmp_path / "far"), create_file_list=False
    )
    assert done.file_list_location == planned.file_list_location == "N/A"
    for name in (
        "latest_version",
        "rewritten_manifest_file_paths_count",
        "rewritten_delete_file_paths_count",
    ):
        assert getattr(planned, name) == getattr(done, name)
    assert done.to_arrow().column_names == [
        "latest_version",
        "file_list_location",
        "rewritten_manifest_file_paths_count",
        "rewritten_delete_file_paths_count",
    ]


def test_prefixes_and_versions_that_do_not_fit_are_refused(home: Catalog, tmp_path: Path) -> None:
    t = made(home, 2)
    files = sorted(Path(t.location()).rglob("*"))
    for source, target, versions, told in (
        ("", "/x", {}, "must not be empty"),
        (t.location(), f"{t.location()}/", {}, "cannot be the same"),
        (f"{t.location()}x", "/x", {}, "does not start with"),
        (f"{t.location()}/in", "/x", {}, "does not start with"),
        (
            t.location(),
            "/x",
            {"start_version": "v99.metadata.json"},
            "Cannot find provided version file",
        ),
        (t.location(), "/x", {"end_version": " "}, "cannot be empty"),
        (
            t.location(),
            "/x",
            {"start_version": Path(t.metadata_location).name},
            "is the end version",
        ),
    ):
        with pytest.raises(InvalidInput, match=told):
            t.maintenance.rewrite_table_path(source, target, **versions)
    assert sorted(Path(t.location()).rglob("*")) == files


@pytest.mark.parametrize("spelling", ["file:{}", "file://{}", "{}//"])
def test_the_prefix_may_be_spelled_in_another_way_than_the_paths(
    home: Catalog, tmp_path: Path, spelling: str
) -> None:
    t, target = made(home, 2), tmp_path / "far" / "t"
    wanted = states(t.refresh())
    copy(result := t.maintenance.rewrite_table_path(spelling.format(t.location()), str(target)))
    with hidden(t):
        assert states(frazil.load_table(f"{target}/metadata/{result.latest_version}")) == wanted
    with pytest.raises(InvalidInput, match="cannot be the same"):
        t.maintenance.rewrite_table_path(spelling.format(t.location()), t.location())


@pytest.mark.parametrize("dry_run", [True, False])
def test_snapshots_without_manifest_list_are_refused_before_anything_is_written(
    writable_copy: Callable[[str], str], dry_run: bool
) -> None:
    location = Path(writable_copy("v1_no_manifest_list"))
    before = files_below(location)
    with pytest.raises(Unsupported, match="names its manifests without a manifest list"):
        frazil.load_table(str(location)).maintenance.rewrite_table_path(
            "/", "/elsewhere", dry_run=dry_run
        )
    assert files_below(location) == before


@pytest.mark.java
@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_the_copy(
    home: Catalog, tmp_path: Path, java_check: JavaCheck, version: int
) -> None:
    t, target = made(home, version), tmp_path / "far" / "t"
    wanted = java_check([t.refresh().metadata_location])[t.metadata_location]
    copy(result := t.maintenance.rewrite_table_path(t.location(), str(target)))
    with hidden(t):
        at = f"{target}/metadata/{result.latest_version}"
        found = java_check([at], write=True)[at]
        # Summaries stay as they were committed, as in Java; the rewritten delete files have other
        # sizes.
        assert [p for p in found["problems"] if "summary total-files-size" not in p] == [] and (
            found["rows"],
            found["sum"],
        ) == (
            wanted["rows"],
            wanted["sum"],
        )
        assert [s["sum"] for s in found["snapshots"]] == [s["sum"] for s in wanted["snapshots"]]


@pytest.mark.java
def test_pyiceberg_reads_the_copy(
    home: Catalog, tmp_path: Path, pyiceberg_check: PyIcebergCheck
) -> None:
    t, target = made(home, 2), tmp_path / "far" / "t"
    wanted = pyiceberg_check([t.refresh().metadata_location])[t.metadata_location]
    copy(result := t.maintenance.rewrite_table_path(t.location(), str(target)))
    with hidden(t):
        at = f"{target}/metadata/{result.latest_version}"
        found = pyiceberg_check([at])[at]
        assert found["problems"] == wanted["problems"] == [] and (found["rows"], found["sum"]) == (
            wanted["rows"],
            wanted["sum"],
        )


JAVA = """
import json
place, target, told = sys.argv[2], sys.argv[3], {}
for name, start in (("ours", sys.argv[4]), ("javas", None)):
    spark.sql(f"INSERT INTO j.db.{name} VALUES (2000, 'java'), (2001, NULL)")
    spark.sql(f"DELETE FROM j.db.{name} WHERE id = 1001")
    since = f", start_version => '{start}'" if start else ""
    call = f"rewrite_table_path(table => 'db.{name}', source_prefix => '{place}/db/{name}', target_prefix => '{target}/{name}'{since})"
    told[name] = spark.sql(f"CALL j.system.{call}").collect()[0].asDict()
print(json.dumps(told))
"""


@pytest.mark.java
@pytest.mark.parametrize("version", [2, 3])
def test_java_keeps_up_our_copy_and_we_javas(
    home: Catalog, tmp_path: Path, java_check: JavaCheck, version: int
) -> None:
    catalog, far = catalog_of("path", tmp_path), tmp_path / "far"
    ours, javas = (
        made(catalog, version, name, **{"write.delete.mode": "merge-on-read"})
        for name in ("ours", "javas")
    )
    copy(first := ours.maintenance.rewrite_table_path(ours.location(), f"{far}/ours"))
    told = json.loads(
        java_check.run(JAVA, tmp_path / "wh", far, first.latest_version).strip().splitlines()[-1]
    )
    for t, name in ((ours, "ours"), (javas, "javas")):
        t.refresh()
        start = first.latest_version if t is ours else None
        same = t.maintenance.rewrite_table_path(t.location(), f"{far}/{name}", start, dry_run=True)
        copied_by(told[name]["file_list_location"])
        counts = {
            k: v for k, v in same.to_arrow().to_pylist()[0].items() if k != "file_list_location"
        }
        assert counts == {k: v for k, v in told[name].items() if k != "file_list_location"}, name
        # Kept up by Java, the lists of a copy tell the lengths of the original's manifests.
        away(t, far / name, same, home, states(t), has_lengths=None if t is javas else False)
    javas.append(rows(5000))
    javas.delete("id = 5001", mode="merge-on-read")
    copy(
        more := javas.maintenance.rewrite_table_path(
            javas.location(), f"{far}/javas", told["javas"]["latest_version"]
        )
    )
    away(javas, far / "javas", more, home, states(javas.refresh()), has_lengths=None)


def copied_by(file_list: str) -> None:
    with open(file_list.removeprefix("file:"), newline="") as listed:
        for source, target in csv.reader(listed):
            local = Path(target.removeprefix("file:"))
            local.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.removeprefix("file:"), local)
