"""Removal of orphan files: what is listed, what counts as known, and when nothing may be deleted."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from frazil.catalog import Catalog
from frazil.errors import CorruptData, InvalidInput, ValidationException
from frazil.maintain.orphans import remove_orphan_files as procedure
from frazil.maintain.orphans.locations import KnownLocations, PrefixRule, flattened
from frazil.scan.manifests import clear_caches
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.frames import ids
from tests.maintain.support import DAY, add, age, files_of, named_files, numbers, root_of, table_in

ORPHANS = (
    "data/x.parquet",
    "data/p=a/y z.parquet",
    "metadata/old-m0.avro",
    "metadata/00000-x.metadata.json",
    "top",
)
HIDDEN = (
    "_SUCCESS",
    "data/p=a/_SUCCESS",
    "data/_spark/x.parquet",
    "data/.x.crc",
    ".h/x",
    "metadata/_partition_commits/a.json",
)


def littered(place: Path, kind: str = "sql", **more: Any) -> Table:
    """A table with rows, orphans and hidden files, all five days old."""
    t = table_in(place, kind, **more)
    add(t, 1, 2)
    add(t, 3, p="a/b c%")
    for name in (*ORPHANS, *HIDDEN):
        path = root_of(t) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left")
    age(root_of(t))
    return t


def other_catalog(place: Path) -> Catalog:
    """A catalog beside that of the table, with a database and a warehouse of its own."""
    (place / "o").mkdir()
    return catalog_of("sql", place / "o", "other")


def found(result: Any, t: Table) -> set[str]:
    return {
        os.path.relpath(p.removeprefix("file://"), root_of(t))
        for p in result.to_arrow()["orphan_file_location"].to_pylist()
    }


@pytest.fixture
def t(tmp_path: Path) -> Table:
    return littered(tmp_path)


@pytest.mark.parametrize("kind", ["sql", "path"])
@pytest.mark.parametrize("prefix_listing", [True, False])
def test_old_files_that_nothing_names_are_removed(
    tmp_path: Path, kind: str, prefix_listing: bool
) -> None:
    t = littered(tmp_path, kind)
    planned = t.maintenance.remove_orphan_files(dry_run=True, prefix_listing=prefix_listing)
    assert (
        found(planned, t) == set(ORPHANS)
        and len(planned) == 5
        and files_of(t) >= {"top", "data/x.parquet"}
    )
    result = t.maintenance.remove_orphan_files(
        prefix_listing=prefix_listing, max_concurrent_deletes=3
    )
    assert result.to_arrow().column_names == ["orphan_file_location"]
    assert numbers(result) == numbers(planned) and result.bytes_removed == 4 * 5
    assert files_of(t) - set(HIDDEN) == named_files(t) and set(HIDDEN) - {
        "data/.x.crc"
    } <= files_of(t)
    assert ids(t) == [1, 2, 3] and len(t.maintenance.remove_orphan_files()) == 0


def test_bytes_are_those_of_the_files_that_went(t: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another commit names meanwhile, and one that cannot be deleted, stay and do not
    count.
    """
    taken, stuck = (str(root_of(t) / name) for name in ("data/x.parquet", "top"))
    without_new, delete_files = procedure._Search.without_new, procedure.delete_files

    def with_a_commit(search: Any, found: Any, newest: Any) -> Any:
        search._known.add(pa.array([taken]))
        return without_new(search, found, newest)

    def with_a_failure(storage: Any, paths: pa.Array, *rest: Any) -> list[str]:
        left = [p for p in paths.to_pylist() if p.endswith("/top")]
        assert left and not delete_files(
            storage, pa.array([p for p in paths.to_pylist() if p not in left]), *rest
        )
        return left

    monkeypatch.setattr(procedure._Search, "without_new", with_a_commit)
    monkeypatch.setattr(procedure, "delete_files", with_a_failure)
    result = t.maintenance.remove_orphan_files()
    assert len(result) == 4 and result.files_not_deleted == 1 and result.bytes_removed == 4 * 3
    assert os.path.exists(taken) and os.path.exists(stuck)


def test_young_files_stay(t: Table) -> None:
    os.utime(root_of(t) / "top", (time.time() - 2.9 * DAY,) * 2)
    assert found(t.maintenance.remove_orphan_files(), t) == set(ORPHANS) - {"top"}
    assert found(
        t.maintenance.remove_orphan_files(dt.datetime.now(dt.UTC) - dt.timedelta(days=2)), t
    ) == {"top"}


def test_less_than_a_day_is_refused_unless_it_is_asked_for_by_name(t: Table) -> None:
    (root_of(t) / "young").touch()
    now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
    with pytest.raises(
        InvalidInput, match="Cannot remove orphan files with an interval less than 24 hours"
    ):
        t.maintenance.remove_orphan_files(now)
    assert "young" in files_of(t)
    assert "young" in found(
        t.maintenance.remove_orphan_files(now, allow_short_interval=True), t
    ) and ids(t) == [1, 2, 3]


def test_temporary_files_of_a_killed_writer_are_removed(t: Table) -> None:
    left = root_of(t) / "metadata" / f".v3.metadata.json.{'0a' * 16}.tmp"
    left.write_text("{")
    age(root_of(t))
    assert (
        f"metadata/{left.name}" in found(t.maintenance.remove_orphan_files(), t)
        and not left.exists()
    )


def test_partitions_whose_names_begin_with_an_underscore_are_not_hidden(tmp_path: Path) -> None:
    t = table_in(tmp_path, partition_by=None)
    with t.update_schema() as update:
        update.add_column("_x", "string")
    with t.update_spec() as spec:
        spec.add_identity("_x")
    t.append(pa.table({"id": [1], "p": ["a"], "v": [1], "_x": ["q"]}))
    for name in ("data/_x=q/orphan", "data/_y=q/hidden"):
        (root_of(t) / name).parent.mkdir(exist_ok=True, parents=True)
        (root_of(t) / name).touch()
    age(root_of(t))
    assert found(t.maintenance.remove_orphan_files(), t) == {"data/_x=q/orphan"} and ids(t) == [1]


def test_a_directory_of_the_table_can_be_cleaned_alone(t: Table) -> None:
    assert found(t.maintenance.remove_orphan_files(location=f"{t.location()}/data/"), t) == {
        "data/x.parquet",
        "data/p=a/y z.parquet",
    }


def test_statistics_and_old_metadata_files_of_the_log_are_known(tmp_path: Path) -> None:
    t = table_in(tmp_path)
    made = add(t, 1)
    path = f"{t.location()}/metadata/some.stats"
    Path(path).write_text("x")
    with t.update_statistics() as update:
        update.set_partition_statistics(
            {"snapshot-id": made, "statistics-path": path, "file-size-in-bytes": 1}
        )
    before = files_of(t) | {p.name for p in root_of(t).rglob("*.json")}
    age(root_of(t))
    assert len(t.maintenance.remove_orphan_files()) == 0
    assert files_of(t) | {p.name for p in root_of(t).rglob("*.json")} == before


# --- spellings


@pytest.mark.parametrize("spelled", ["file://{}", "file:{}", "file://localhost{}", "{}", "//{}"])
def test_spellings_of_a_location_are_one_file(t: Table, spelled: str) -> None:
    listing = [
        p
        for p in root_of(t).rglob("*")
        if p.is_file() and not any(part[0] in "_." for part in p.relative_to(root_of(t)).parts)
    ]
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=4)
    frame = pa.table(
        {
            "file_path": [spelled.format(p).replace("//data", "/data") for p in listing],
            "last_modified": [then] * len(listing),
        }
    )
    result = t.maintenance.remove_orphan_files(file_list_view=frame, dry_run=True)
    assert len(result) == len(ORPHANS)


def test_a_percent_encoded_listing_names_the_same_files(t: Table) -> None:
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=4)
    paths = [quote(f) for f in t.inspect.files()["file_path"].to_pylist()]
    assert any("%25" in p for p in paths)
    frame = pa.table({"file_path": paths, "last_modified": [then] * len(paths)})
    assert len(t.maintenance.remove_orphan_files(file_list_view=frame)) == 0


def locations(*given: str, **rule: Any) -> KnownLocations:
    known = KnownLocations(PrefixRule(**rule))
    known.add(pa.array(given, pa.string()))
    return known


@pytest.mark.parametrize(
    ("known", "listed", "outcome"),
    [
        ("s3://b/k", "s3a://b/k", "known"),
        ("s3n://b/k", "s3://b/k", "known"),
        ("S3://b/k", "s3://b/k", "known"),
        ("gcs://b/k", "gs://b/k", "known"),
        ("s3://b//k/./x", "s3://b/k/x", "known"),
        ("/x y", "file:///x%20y", "known"),
        ("/x%20y", "/x y", "known"),
        ("/x%25y", "/x%y", "known"),
        ("file://LOCALHOST/x", "/x", "known"),
        ("/x", "hdfs://nn/x", "known"),
        ("hdfs://a/x", "hdfs://b/x", "elsewhere"),
        ("hdfs://nn/x", "/x", "elsewhere"),
        ("s3://b/k", "gs://b/k", "elsewhere"),
        ("s3://b/k", "s3://c/k", "elsewhere"),
        ("s3://b/k", "s3://b/K", "unknown"),
        ("/x:y", "/x:y", "known"),
        ("file://other/x", "/x", "elsewhere"),
        ("/a\nb", "/a\nb", "known"),
    ],
)
def test_prefixes_decide_whether_equal_paths_are_one_file(
    known: str, listed: str, outcome: str
) -> None:
    is_known, elsewhere = locations(known).compare(pa.array([listed]))
    assert {"known": (True, False), "elsewhere": (False, True), "unknown": (False, False)}[
        outcome
    ] == (is_known[0], elsewhere[0])


def test_schemes_and_authorities_can_be_declared_equal() -> None:
    schemes, authorities = (
        flattened("equal_schemes", {"oss, cos": "s3"}),
        flattened("equal_authorities", {"a,b": "c"}),
    )
    known = locations("oss://a/k", schemes=schemes, authorities=authorities)
    assert known.compare(pa.array(["s3://c/k", "cos://b/k", "s3://d/k"]))[0].tolist() == [
        True,
        True,
        False,
    ]
    with pytest.raises(InvalidInput, match="equal_schemes is a dict"):
        flattened("equal_schemes", "s3a")  # type: ignore[arg-type]


def test_files_known_under_another_prefix_are_refused_kept_or_deleted(t: Table) -> None:
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=4)
    data = t.inspect.files()["file_path"].to_pylist()
    listed = [*(f"hdfs://nn{p}" for p in data), f"hdfs://nn{root_of(t)}/data/other"]
    frame = {"file_path": listed, "last_modified": [then] * len(listed)}
    # metadata names the files without scheme here, which is wherever the table is
    assert len(t.maintenance.remove_orphan_files(file_list_view=frame, dry_run=True)) == 1
    known = locations("hdfs://nn/x", "hdfs://nn/y")
    assert known.compare(pa.array(["s3://b/x", "s3://b/z"]))[1].tolist() == [True, False]


@pytest.mark.parametrize("mode", ["ERROR", "IGNORE", "DELETE", "error"])
def test_the_mode_says_what_becomes_of_prefix_mismatches(
    t: Table, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = t.inspect.files()["file_path"].to_pylist()
    real = procedure.reachable

    def with_host(*arguments: Any, **more: Any) -> Any:
        for files in real(*arguments, **more):
            yield procedure.replace(
                files,
                paths=pa.array(
                    [f"hdfs://nn{p}" if p in data else p for p in files.paths.to_pylist()]
                ),
            )

    monkeypatch.setattr(procedure, "reachable", with_host)
    if mode.upper() == "ERROR":
        with pytest.raises(
            ValidationException, match="except for authority/scheme: .*known as hdfs://nn"
        ):
            t.maintenance.remove_orphan_files(prefix_mismatch_mode=mode)
        assert ids(t) == [1, 2, 3] and "top" in files_of(t)
        return
    result = t.maintenance.remove_orphan_files(prefix_mismatch_mode=mode, dry_run=True)
    assert len(result) == len(ORPHANS) + (len(data) if mode == "DELETE" else 0)
    equal = t.maintenance.remove_orphan_files(
        equal_schemes={"hdfs": "file"}, equal_authorities={"nn": ""}, dry_run=True
    )
    assert len(equal) == len(ORPHANS)


def test_unknown_modes_and_frames_without_the_columns_are_refused(t: Table) -> None:
    with pytest.raises(InvalidInput, match="prefix_mismatch_mode is one of ERROR, IGNORE, DELETE"):
        t.maintenance.remove_orphan_files(prefix_mismatch_mode="NONE")
    with pytest.raises(InvalidInput, match="has no column last_modified"):
        t.maintenance.remove_orphan_files(file_list_view=pa.table({"file_path": ["x"]}))
    with pytest.raises(InvalidInput, match="last_modified of file_list_view is a timestamp"):
        t.maintenance.remove_orphan_files(
            file_list_view=pa.table({"file_path": ["x"], "last_modified": [1]})
        )
    numbers = pa.table({"file_path": [1], "last_modified": [dt.datetime(2026, 1, 1)]})
    with pytest.raises(InvalidInput, match="file_path of file_list_view is a string, not int64"):
        t.maintenance.remove_orphan_files(file_list_view=numbers)


# --- places that may hold more than this table


def test_another_tables_metadata_inside_the_location_stops_it(tmp_path: Path, t: Table) -> None:
    catalog = other_catalog(tmp_path)
    inner = catalog.create_table("db.inner", "id bigint", location=f"{t.location()}/data/inner")
    inner.append(pa.table({"id": [1]}))
    age(root_of(t))
    with pytest.raises(ValidationException, match="which is that of another table"):
        t.maintenance.remove_orphan_files()
    assert inner.refresh().scan().count() == 1
    assert found(t.maintenance.remove_orphan_files(location=f"{t.location()}/metadata"), t) == {
        f for f in ORPHANS if f.startswith("metadata")
    }


def test_a_table_that_shares_the_metadata_folder_stops_it(tmp_path: Path, t: Table) -> None:
    catalog = other_catalog(tmp_path)
    catalog.create_table("db.same", "id bigint", location=t.location()).append(
        pa.table({"id": [1]})
    )
    age(root_of(t))
    with pytest.raises(ValidationException, match="which is that of another table"):
        t.maintenance.remove_orphan_files()


def test_a_table_that_another_catalog_goes_on_with_is_left_alone(tmp_path: Path, t: Table) -> None:
    other = other_catalog(tmp_path)
    fork = other.register_table("db.fork", t.metadata_location)
    add(fork, 10)
    add(fork, 11)
    age(root_of(t))
    with pytest.raises(ValidationException, match="another catalog committed"):
        t.maintenance.remove_orphan_files()
    assert ids(fork.refresh()) == [1, 2, 3, 10, 11]


def test_a_part_of_the_table_that_holds_files_of_others_is_left_alone_too(
    tmp_path: Path, t: Table
) -> None:
    other = other_catalog(tmp_path)
    inner = other.create_table("db.inner", "id bigint", location=f"{t.location()}/parts/inner")
    inner.append(pa.table({"id": [1]}))
    age(root_of(t))
    with pytest.raises(ValidationException, match="which is that of another table"):
        t.maintenance.remove_orphan_files(location=f"{t.location()}/parts/inner/data")
    assert inner.refresh().scan().count() == 1
    fork = other.register_table("db.fork", t.metadata_location)
    add(fork, 10)
    add(fork, 11)
    age(root_of(t))
    with pytest.raises(ValidationException, match="another catalog committed"):
        t.maintenance.remove_orphan_files(location=f"{t.location()}/data")
    assert ids(fork.refresh()) == [1, 2, 3, 10, 11]


def test_tables_that_share_a_directory_of_metadata_are_cleaned_up_each(tmp_path: Path) -> None:
    t = table_in(tmp_path, properties={"write.metadata.path": str(tmp_path / "shared")})
    add(t, 1)
    (root_of(t) / "data" / "left").write_text("x")
    other = other_catalog(tmp_path)
    other.create_table(
        "db.t", "id bigint", properties={"write.metadata.path": str(tmp_path / "shared")}
    ).append(pa.table({"id": [1]}))
    age(root_of(t))
    assert found(t.maintenance.remove_orphan_files(), t) == {"data/left"} and ids(t) == [1]
    with pytest.raises(ValidationException, match="which is that of another table"):
        t.maintenance.remove_orphan_files(location=str(tmp_path / "shared"))


def test_what_a_cut_off_commit_left_is_removed(t: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "frazil.catalog.pointer.PointerCatalog.swap",
        lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    from frazil.catalog import metadata_files

    metadata = metadata_files.with_log(t._loaded, t.metadata)[0]
    left = metadata_files.new_location(t._loaded, t.metadata)
    Path(left).write_bytes(metadata_files.encode(metadata, False))
    age(root_of(t))
    assert os.path.relpath(left, root_of(t)) in found(t.maintenance.remove_orphan_files(), t)


@pytest.mark.parametrize("location", ["..", "/", "/nowhere/else"])
def test_places_that_are_not_the_tables_are_refused(t: Table, location: str) -> None:
    with pytest.raises((ValidationException, InvalidInput)):
        t.maintenance.remove_orphan_files(
            location=str(root_of(t).parent) if location == ".." else location
        )


def test_a_copy_does_not_clean_up_its_original(tmp_path: Path, t: Table) -> None:
    copy = tmp_path / "copy" / "metadata"
    copy.mkdir(parents=True)
    shutil.copy(t.metadata_location, copy)
    add(t, 4)
    age(root_of(t))
    other = other_catalog(tmp_path)
    registered = other.register_table(
        "db.copy", str(copy / Path(t.metadata.metadata_log[-1].metadata_file).name)
    )
    with pytest.raises(ValidationException, match="It is a copy"):
        registered.maintenance.remove_orphan_files()
    assert ids(t) == [1, 2, 3, 4]


def test_tables_that_share_files_are_refused(tmp_path: Path) -> None:
    t = littered(tmp_path, properties={"gc.enabled": "false"})
    with pytest.raises(
        ValidationException,
        match=r"Cannot delete orphan files: GC is disabled \(deleting files may corrupt other tables\)",
    ):
        t.maintenance.remove_orphan_files()


def test_a_manifest_that_cannot_be_read_stops_it(t: Table) -> None:
    Path(t.inspect.manifests()["path"][0].as_py()).write_bytes(b"x" * 10_000)
    clear_caches()
    with pytest.raises(CorruptData):
        t.maintenance.remove_orphan_files()
    assert "top" in files_of(t)


# --- beside writers


@pytest.mark.parametrize("moment", ["list_files", "newest_state"])
def test_files_that_are_committed_meanwhile_stay(
    t: Table, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    lone = root_of(t) / "data" / "lone.parquet"
    shutil.copy(t.inspect.files()["file_path"][0].as_py(), lone)
    age(root_of(t))
    other = type(t)(t._backend, t._loaded, t._name)
    real = getattr(procedure, moment)
    calls: list[int] = []

    def late(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if moment == "list_files":
            listed = list(real(*arguments, **more))
            other.add_files([str(lone)])
            return iter(listed)
        if len(calls) == 3:  # before the deletion
            other.add_files([str(lone)])
        return real(*arguments, **more)

    monkeypatch.setattr(procedure, moment, late)
    result = t.maintenance.remove_orphan_files()
    assert calls and found(result, t) == set(ORPHANS) and lone.exists()
    assert len(ids(t.refresh())) > 3


def test_metadata_files_go_last_and_the_oldest_first(tmp_path: Path) -> None:
    t = table_in(tmp_path, "path", properties={"write.metadata.previous-versions-max": "1"})
    for i in range(12):
        add(t, i)
    age(root_of(t))
    result = t.maintenance.remove_orphan_files(dry_run=True)
    names = [
        os.path.basename(p) for p in procedure._in_order(result.orphan_file_location).to_pylist()
    ]
    assert names == [f"v{i}.metadata.json" for i in range(1, len(names) + 1)] and len(names) > 9
    t.maintenance.remove_orphan_files()
    add(t, 100)
    assert len(ids(t)) == 13


def test_a_table_in_memory_is_listed_by_directories(tmp_path: Path) -> None:
    t = table_in(tmp_path, "memory")
    add(t, 1)
    for name in ("data/x/y/orphan", "top", "data/_h/x"):
        with t.io.new_output(f"{t.location()}/{name}").create() as sink:
            sink.write(b"x")
    soon = int(time.time() * 1000) + 10_000
    for prefix_listing in (True, False):
        result = t.maintenance.remove_orphan_files(
            soon, allow_short_interval=True, dry_run=True, prefix_listing=prefix_listing
        )
        assert sorted(
            p.removeprefix(t.location()) for p in result.orphan_file_location.to_pylist()
        ) == ["/data/x/y/orphan", "/top"]
    assert len(t.maintenance.remove_orphan_files(soon, allow_short_interval=True)) == 2 and ids(
        t
    ) == [1]
