"""Path tables: missing and stale version hints, damaged versions, gaps between versions, and the
layout of Java's Hadoop tables.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import frazil
from frazil.catalog import (
    CatalogBackend,
    Committed,
    Conflict,
    LoadedTable,
    Unknown,
    create_at,
    load_backend,
    load_location,
)
from frazil.catalog.path import files as path_files
from frazil.codec.metadata_json import encode_metadata
from frazil.errors import (
    CorruptData,
    NoSuchFileError,
    NoSuchTableError,
    StorageError,
    Unsupported,
    ValidationError,
)
from tests.catalog.conftest import TABLE, changed, committed, made, new_metadata
from tests.storage.test_local_durability import Tape

pytestmark = pytest.mark.disk


@pytest.fixture
def backend(tmp_path: Path) -> CatalogBackend:
    return load_backend("p", type="hadoop", warehouse=f"file://{tmp_path}/w")


@pytest.fixture
def metadata_folder(tmp_path: Path) -> Path:
    return tmp_path / "w/db/t/metadata"


def grown(backend: CatalogBackend, count: int) -> LoadedTable:
    table = made(backend)
    for i in range(1, count):
        table = committed(backend.swap(table, changed(table, i=str(i))))
    return table


@pytest.fixture
def table(backend: CatalogBackend) -> LoadedTable:
    return made(backend)


@pytest.fixture
def base(backend: CatalogBackend) -> LoadedTable:
    return made(backend)


def test_files_lie_as_javas_hadoop_catalog_lays_them(
    backend: CatalogBackend, metadata_folder: Path
) -> None:
    grown(backend, 3)
    assert sorted(os.listdir(metadata_folder)) == [
        "v1.metadata.json",
        "v2.metadata.json",
        "v3.metadata.json",
        "version-hint.text",
    ]
    assert (metadata_folder / "version-hint.text").read_text() == "3"


@pytest.mark.parametrize("hint", ["1", "", "garbage", "99", "-1", "\0\0", "3\n", "9" * 400, None])
def test_whatever_the_hint_says_the_newest_version_is_seen_and_the_hint_is_repaired(
    backend: CatalogBackend, metadata_folder: Path, hint: str | None
) -> None:
    table = grown(backend, 3)
    file = metadata_folder / "version-hint.text"
    file.unlink()
    if hint is not None:
        file.write_text(hint)
    found = backend.load(TABLE)
    assert found.metadata == table.metadata
    committed(backend.swap(found, changed(found, more="1")))
    assert file.read_text() == "4"


def test_the_first_version_may_be_gone_along_with_the_hint(
    backend: CatalogBackend, metadata_folder: Path
) -> None:
    table = grown(backend, 3)
    (metadata_folder / "version-hint.text").unlink()
    (metadata_folder / "v1.metadata.json").unlink()
    assert backend.load(TABLE).metadata == table.metadata


def test_a_stale_hint_and_a_hole_below_the_newest_version_hide_nothing(
    backend: CatalogBackend, metadata_folder: Path
) -> None:
    table = grown(backend, 4)
    (metadata_folder / "v2.metadata.json").unlink()
    (metadata_folder / "version-hint.text").write_text("1")
    assert backend.load(TABLE).metadata == table.metadata


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories of versions that are listed from here on."""
    directories: list[str] = []
    names = path_files._names
    monkeypatch.setattr(
        path_files,
        "_names",
        lambda storage, root: (directories.append(root), names(storage, root))[1],
    )
    return directories


def test_a_table_that_this_process_has_read_or_written_is_loaded_again_without_a_listing(
    backend: CatalogBackend, listed: list[str]
) -> None:
    table = grown(backend, 3)
    listed.clear()
    assert backend.load(TABLE).metadata_location == table.metadata_location and listed == []
    path_files.known_heads.clear()
    for listings in (1, 1):
        assert (
            backend.load(TABLE).metadata_location == table.metadata_location
            and len(listed) == listings
        )


@pytest.mark.parametrize("ending", [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"])
def test_the_next_version_of_a_writer_that_was_killed_before_the_hint_is_seen(
    backend: CatalogBackend, metadata_folder: Path, listed: list[str], ending: str
) -> None:
    table = grown(backend, 3)
    later = encode_metadata(replace(table.metadata, properties={"by": "another"}))
    (metadata_folder / f"v4{ending}").write_bytes(gzip.compress(later) if "gz" in ending else later)
    listed.clear()
    assert (metadata_folder / "version-hint.text").read_text() == "3"
    assert backend.load(TABLE).metadata.properties == {"by": "another"} and len(listed) == 1


def test_a_hint_that_names_another_version_than_the_known_one_has_the_versions_listed(
    backend: CatalogBackend, metadata_folder: Path, listed: list[str]
) -> None:
    """Another program has committed twice, and has removed the version after the known one before
    the known one.
    """
    table = grown(backend, 3)
    (metadata_folder / "v5.metadata.json").write_bytes(
        encode_metadata(replace(table.metadata, properties={"by": "another"}))
    )
    (metadata_folder / "version-hint.text").write_text("5")
    listed.clear()
    assert backend.load(TABLE).metadata.properties == {"by": "another"} and len(listed) == 1


def test_a_known_version_that_was_removed_or_replaced_is_not_relied_on(
    backend: CatalogBackend, metadata_folder: Path, listed: list[str]
) -> None:
    table = grown(backend, 3)
    (metadata_folder / "v3.metadata.json").rename(metadata_folder / "v9.metadata.json")
    assert backend.load(TABLE).metadata_location.endswith("/v9.metadata.json")
    backend.drop_table(TABLE)
    with pytest.raises(NoSuchTableError):
        backend.load(TABLE)
    again = grown(backend, 3)
    assert again.metadata.table_uuid != table.metadata.table_uuid
    assert backend.load(TABLE).metadata == again.metadata


def test_the_plain_one_of_two_files_of_the_known_version_counts(
    backend: CatalogBackend, metadata_folder: Path
) -> None:
    table = grown(backend, 3)
    plain = metadata_folder / "v3.metadata.json"
    data = plain.read_bytes()
    plain.unlink()
    (metadata_folder / "v3.gz.metadata.json").write_bytes(gzip.compress(data))
    assert backend.load(TABLE).metadata_location.endswith("/v3.gz.metadata.json")
    plain.write_bytes(data)
    assert backend.load(TABLE).metadata_location == table.metadata_location


def test_without_any_version_there_is_no_table(
    backend: CatalogBackend, metadata_folder: Path
) -> None:
    grown(backend, 1)
    (metadata_folder / "v1.metadata.json").unlink()
    assert not backend.table_exists(TABLE)
    with pytest.raises(NoSuchTableError):
        backend.load(TABLE)
    assert backend.list_tables(("db",)) == []


def test_an_empty_file_at_the_next_versions_name_refuses_the_commit_and_leaves_no_temporary(
    backend: CatalogBackend, metadata_folder: Path, table: LoadedTable
) -> None:
    before = sorted(os.listdir(metadata_folder))
    (metadata_folder / "v2.metadata.json").touch()
    assert isinstance(backend.swap(table, changed(table, a="1")), Conflict)
    assert sorted(os.listdir(metadata_folder)) == sorted([*before, "v2.metadata.json"])
    assert (metadata_folder / "v2.metadata.json").read_bytes() == b""


@pytest.mark.parametrize(
    "damage", ["empty", "torn", "zeros", "text", "array", "half gzip", "wrong uuid"]
)
def test_a_damaged_newest_version_is_an_error_and_never_an_older_one(
    backend: CatalogBackend, metadata_folder: Path, damage: str, table: LoadedTable
) -> None:
    whole = (metadata_folder / "v1.metadata.json").read_bytes()
    damaged = {
        "empty": b"",
        "torn": whole[: len(whole) // 2],
        "zeros": bytes(4096),
        "text": b"not json",
        "array": b"[]",
        "half gzip": gzip.compress(whole)[:100],
        "wrong uuid": b"{}",
    }[damage]
    (metadata_folder / "v2.metadata.json").write_bytes(damaged)
    with pytest.raises(CorruptData) as told:
        backend.load(TABLE)
    assert told.value.facts["file"].endswith("v2.metadata.json")
    assert isinstance(backend.swap(table, changed(table, a="1")), Conflict), "it is no free slot"


def test_a_writer_killed_before_publishing_leaves_a_temporary_that_harms_nobody(
    backend: CatalogBackend, metadata_folder: Path, table: LoadedTable
) -> None:
    for name in (
        ".v2.metadata.json.0a1b.tmp",
        "6fe2.metadata.json",
        "v2.metadata.json.tmp",
        "v.metadata.json",
        "v02.metadata.json",
        "vx.metadata.json",
    ):
        (metadata_folder / name).write_text("half")
    assert backend.load(TABLE).metadata == table.metadata
    committed(backend.swap(table, changed(table, a="1")))
    assert backend.load(TABLE).metadata.properties == {"a": "1"}


def test_a_writer_killed_between_publishing_and_the_hint_has_committed(
    backend: CatalogBackend,
    metadata_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: LoadedTable,
) -> None:

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(path_files, "write_hint", killed)
    with pytest.raises(KeyboardInterrupt):
        backend.swap(table, changed(table, a="1"))
    assert (metadata_folder / "version-hint.text").read_text() == "1"
    assert backend.load(TABLE).metadata.properties == {"a": "1"}


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz", "v2.metadata.json"])
def test_all_names_of_gzipped_versions_are_read(
    backend: CatalogBackend, metadata_folder: Path, name: str
) -> None:
    made(backend)
    whole = (metadata_folder / "v1.metadata.json").read_bytes()
    (metadata_folder / name).write_bytes(gzip.compress(whole))
    found = backend.load(TABLE)
    assert found.metadata_location.endswith(name)
    committed(backend.swap(found, changed(found, a="1")))
    after = backend.load(TABLE)
    assert "/v3." in after.metadata_location and after.metadata.properties == {
        **found.metadata.properties,
        "a": "1",
    }


def test_rivals_that_wish_for_different_codecs_meet_at_one_name(
    backend: CatalogBackend, metadata_folder: Path, base: LoadedTable
) -> None:
    zipped = changed(base, **{"write.metadata.compression-codec": "gzip"})
    assert isinstance(backend.swap(base, zipped), Committed)
    assert isinstance(backend.swap(base, changed(base, a="1")), Conflict)
    # and with the check for the newest version blinded, as when both pass it at the same moment
    table = backend.load(TABLE)
    plain = changed(table, **{"write.metadata.compression-codec": "none"})
    assert isinstance(backend.swap(table, plain), Committed)
    data = os.listdir(metadata_folder)
    assert sorted(n for n in data if n.startswith("v3")) == ["v3.gz.metadata.json"]


def test_a_loser_that_passed_the_check_in_time_is_still_stopped_by_publishing(
    backend: CatalogBackend,
    metadata_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: LoadedTable,
) -> None:
    """Both see that there is no v2 yet, then publish one."""
    committed(backend.swap(base, changed(base, who="winner")))
    winner = (metadata_folder / "v2.metadata.json").read_bytes()
    monkeypatch.setattr(path_files, "_stale", lambda *_: None)
    assert isinstance(backend.swap(base, changed(base, who="loser")), Conflict)
    assert (metadata_folder / "v2.metadata.json").read_bytes() == winner
    assert not [n for n in os.listdir(metadata_folder) if n.endswith(".tmp")]


def test_a_writer_that_was_paused_while_others_removed_its_slot_does_not_commit_beside_the_table(
    backend: CatalogBackend, metadata_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paused after its last look, it finds the name of its version free again, since the versions
    after it were removed.
    """
    limits = {
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    base = made(backend)
    table = base
    for i in range(5):
        table = committed(backend.swap(table, changed(table, i=str(i), **limits)))
    assert not (metadata_folder / "v2.metadata.json").exists()
    monkeypatch.setattr(path_files, "_stale", lambda *_: None)
    lost = backend.swap(base, changed(base, lost="1"))
    assert not isinstance(lost, Committed)
    assert backend.load(TABLE).metadata == table.metadata


def test_a_paused_writer_learns_from_the_next_version_that_it_was_overtaken(
    backend: CatalogBackend,
    metadata_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: LoadedTable,
) -> None:
    table = base
    for i in range(2):
        table = committed(backend.swap(table, changed(table, i=str(i))))
    (metadata_folder / "v2.metadata.json").unlink()
    monkeypatch.setattr(path_files, "_stale", lambda *_: None)
    late = changed(base, lost="1")
    assert isinstance(
        backend.swap(base, replace(late, last_updated_ms=late.last_updated_ms + 5)), Conflict
    )
    assert not (metadata_folder / "v2.metadata.json").exists()
    assert backend.load(TABLE).metadata == table.metadata


def test_others_that_build_on_a_version_at_once_do_not_unsettle_its_writer(
    backend: CatalogBackend, monkeypatch: pytest.MonkeyPatch, base: LoadedTable
) -> None:
    real = path_files._after_publishing

    def slow(*arguments: object) -> object:
        monkeypatch.setattr(path_files, "_after_publishing", real)
        ahead = backend.load(TABLE)
        committed(backend.swap(ahead, changed(ahead, b="2")))
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(path_files, "_after_publishing", slow)
    committed(backend.swap(base, changed(base, a="1")))
    assert backend.load(TABLE).metadata.properties == {"a": "1", "b": "2"}


def test_an_error_after_publishing_is_unknown_not_failed(
    backend: CatalogBackend, monkeypatch: pytest.MonkeyPatch, base: LoadedTable
) -> None:
    """Once the version is there, no error may say that the commit was not applied."""
    fired = []

    def broken(*_: object) -> None:
        fired.append(1)
        raise MemoryError("no memory left")

    monkeypatch.setattr(path_files, "_after_publishing", broken)
    outcome = backend.swap(base, changed(base, a="1"))
    assert isinstance(outcome, Unknown) and fired
    assert backend.load(TABLE).metadata.properties == {"a": "1"}


def test_a_hint_that_cannot_be_written_does_not_harm_the_commit(
    backend: CatalogBackend, metadata_folder: Path, table: LoadedTable
) -> None:
    (metadata_folder / "version-hint.text").unlink()
    (metadata_folder / "version-hint.text").mkdir()
    (metadata_folder / "version-hint.text" / "x").touch()
    committed(backend.swap(table, changed(table, a="1")))
    assert backend.load(TABLE).metadata.properties == {"a": "1"}


def test_the_checksum_that_hadoop_left_beside_the_hint_goes_with_the_old_hint(
    backend: CatalogBackend, metadata_folder: Path, table: LoadedTable
) -> None:
    (metadata_folder / ".version-hint.text.crc").write_bytes(b"crc\0")
    committed(backend.swap(table, changed(table, a="1")))
    assert not (metadata_folder / ".version-hint.text.crc").exists()


def test_path_tables_are_not_relocated_and_keep_their_metadata_at_home(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    with pytest.raises(ValidationError, match="relocated"):
        backend.swap(table, replace(table.metadata, location="/elsewhere"))
    with pytest.raises(ValidationError, match=r"write\.metadata\.path"):
        backend.swap(table, changed(table, **{"write.metadata.path": "/elsewhere"}))
    with pytest.raises(ValidationError, match="location of its own"):
        backend.create(("db", "u"), new_metadata("/elsewhere"))
    assert backend.load(TABLE).metadata == table.metadata


def test_dropping_deletes_the_directory_at_one_stroke_and_no_neighbour(
    backend: CatalogBackend, tmp_path: Path
) -> None:
    made(backend)
    neighbour = made(backend, ("db", "t2"))
    (tmp_path / "w/db/t/data").mkdir()
    (tmp_path / "w/db/t/data/x.parquet").write_bytes(b"x")
    backend.drop_table(TABLE)
    assert sorted(os.listdir(tmp_path / "w/db")) == ["t2"]
    assert backend.load(("db", "t2")).metadata == neighbour.metadata


# --- bare locations


def test_a_table_lives_at_a_bare_location(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    assert isinstance(create_at(location, new_metadata(location)), Committed)
    backend, table = load_location(f"file:{location}/")
    assert backend is not None and table.identifier == ()
    newer = committed(backend.swap(table, changed(table, a="1")))
    assert backend.load(()).metadata == newer.metadata == backend.load((location,)).metadata
    assert isinstance(create_at(location, new_metadata(location)), Conflict)
    with pytest.raises(Unsupported, match="opened by its location"):
        backend.create_namespace(("a",))


def test_one_metadata_file_is_a_state_to_read_only(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    first = committed(create_at(location, new_metadata(location)))
    backend, table = load_location(location)
    assert backend is not None
    committed(backend.swap(table, changed(table, a="1")))
    nothing, state = load_location(first.metadata_location)
    assert nothing is None and state.metadata == first.metadata


def test_a_location_without_a_table_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(NoSuchTableError, match=str(tmp_path)):
        load_location(str(tmp_path))
    with pytest.raises(NoSuchTableError):
        load_location(str(tmp_path / "nowhere"))
    with pytest.raises(NoSuchFileError):
        load_location(str(tmp_path / "v1.metadata.json"))


def test_a_table_that_was_copied_elsewhere_goes_on_where_it_was_opened(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    committed(create_at(location, new_metadata(location)))
    shutil.copytree(location, tmp_path / "copy")
    backend, table = load_location(str(tmp_path / "copy"))
    assert backend is not None and table.metadata.location == location
    newer = committed(backend.swap(table, changed(table, a="1")))
    assert newer.metadata_location.startswith(str(tmp_path / "copy")), (
        "the version goes where the table was opened"
    )
    assert load_location(location)[1].metadata.properties == {}


# --- faults


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_at_any_step_of_a_commit_is_told_and_leaves_the_old_or_the_new_state(
    backend: CatalogBackend, metadata_folder: Path, number: int
) -> None:
    """At every call that the store makes: what raised left nothing, what is unknown is there, and
    the next commit works.
    """
    made(backend)
    told = set()
    for k in range(100):
        base = backend.load(TABLE)
        before = sorted(os.listdir(metadata_folder))
        with pytest.MonkeyPatch.context() as patch:
            tape = Tape(patch, k, number)
            try:
                outcome: object = backend.swap(base, changed(base, **{f"k{k}": "1"}))
            except StorageError as error:
                assert error.facts["errno"] == errno.errorcode[number]
                outcome = error
        told.add(type(outcome).__name__)
        now = backend.load(TABLE)
        if isinstance(outcome, StorageError):
            assert now.metadata == base.metadata and sorted(os.listdir(metadata_folder)) == before
        else:
            assert f"k{k}" in now.metadata.properties
        committed(backend.swap(now, changed(now, **{f"after{k}": "1"})))
        if not tape.fired:
            break
    assert told == {"StorageError", "Unknown", "Committed"} and k >= 8


def test_a_symlinked_metadata_file_is_not_followed_out_of_the_table(
    backend: CatalogBackend, metadata_folder: Path, tmp_path: Path
) -> None:
    table = grown(backend, 2)
    outside = tmp_path / "elsewhere.metadata.json"
    shutil.copy(metadata_folder / "v2.metadata.json", outside)
    newest = metadata_folder / "v3.metadata.json"
    newest.symlink_to(outside)
    for read in (
        lambda: backend.load(TABLE),
        lambda: load_location(str(newest)),
        lambda: load_location(str(metadata_folder.parent)),
    ):
        with pytest.raises(
            CorruptData,
            match=r"symbolic link that leaves the table, to .*elsewhere\.metadata\.json",
        ) as refused:
            read()
        assert refused.value.facts["file"].endswith("v3.metadata.json")
    newest.unlink()
    newest.symlink_to("v2.metadata.json")
    assert backend.load(TABLE).metadata == table.metadata, "a link to a file of the table's own"


@pytest.mark.parametrize("linked", ["w", "w/db", "w/db/t", "w/db/t/metadata"])
def test_directories_may_be_links(backend: CatalogBackend, tmp_path: Path, linked: str) -> None:
    table = grown(backend, 2)
    shutil.move(tmp_path / linked, tmp_path / "moved")
    (tmp_path / linked).symlink_to(tmp_path / "moved")
    assert backend.load(TABLE).metadata == table.metadata
    newer = committed(backend.swap(backend.load(TABLE), changed(backend.load(TABLE), a="1")))
    assert (
        load_location(f"{tmp_path}/w/db/t/metadata/v3.metadata.json")[1].metadata == newer.metadata
    )


def test_no_table_lies_within_another_with_which_it_would_be_dropped(
    backend: CatalogBackend,
) -> None:
    made(backend)
    for inner in (
        ("db", "t", "u"),
        ("db", "t", "data"),
        ("db", "t", "metadata"),
        ("db", "t", "n", "u"),
    ):
        for create in (backend.stage_create, backend.create):
            with pytest.raises(ValidationError, match=r"db\.t is a table"):
                create(inner, new_metadata(""))
    with pytest.raises(ValidationError, match=r"db\.t is a table"):
        backend.create_namespace(("db", "t", "n"))
    for inner, outer in (
        (("x", "y", "z"), ("x", "y")),
        (("x", "v", "data"), ("x", "v")),
        (("x", "w", "n", "z"), ("x", "w")),
    ):
        committed(backend.create(inner, new_metadata("")))
        with pytest.raises(ValidationError, match=f"holds another table: .*/{inner[-1]}"):
            backend.create(outer, new_metadata(""))
        assert backend.table_exists(inner) and not backend.table_exists(outer)
    committed(backend.create(("x", "other"), new_metadata("")))


@pytest.mark.parametrize("purge", [False, True])
def test_a_table_that_holds_another_is_not_dropped(
    backend: CatalogBackend, tmp_path: Path, purge: bool
) -> None:
    """Java's catalog lets it be made."""
    made(backend)
    elsewhere = load_backend("q", type="path", warehouse=f"{tmp_path}/q")
    committed(elsewhere.create(("db", "u"), new_metadata("")))
    shutil.copytree(tmp_path / "q/db/u", tmp_path / "w/db/t/u")
    with pytest.raises(ValidationError, match="holds another table"):
        backend.drop_table(TABLE, purge=purge)
    assert backend.table_exists(TABLE) and backend.table_exists(("db", "t", "u"))
    shutil.rmtree(tmp_path / "w/db/t/u")
    backend.drop_table(TABLE, purge=purge)
    assert not backend.table_exists(TABLE)


@pytest.mark.parametrize("purge", [False, True])
def test_a_table_whose_directory_is_a_link_is_dropped(tmp_path: Path, purge: bool) -> None:
    catalog = frazil.load_catalog("p", type="path", warehouse=str(tmp_path / "w"))
    catalog.create_table("db.t", "id bigint").append([{"id": 1}])
    (tmp_path / "w/db/t").rename(tmp_path / "moved")
    (tmp_path / "w/db/t").symlink_to(tmp_path / "moved")
    assert catalog.load_table("db.t").count() == 1
    (catalog.purge_table if purge else catalog.drop_table)("db.t")
    assert (
        list((tmp_path / "w/db").iterdir()) == []
        and not (tmp_path / "moved").exists()
        and not catalog.table_exists("db.t")
    )
