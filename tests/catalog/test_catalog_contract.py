"""The contract of catalog back ends, run over each type of catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from frazil.catalog import CatalogBackend, Committed, Conflict, LoadedTable
from frazil.codec.metadata_json import encode_metadata
from frazil.commit import table_commit as commit
from frazil.commit.actions import Append
from frazil.commit.new_table import creation_updates
from frazil.errors import (
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationError,
)
from frazil.spec.snapshot import MetadataLogEntry
from frazil.spec.updates import SetProperties, requirements_for
from frazil.storage import normalise
from tests.builders.data_files import data_file
from tests.catalog.conftest import (
    HIVE,
    SERVED,
    TABLE,
    Nessie,
    change,
    changed,
    column,
    committed,
    create,
    leaves_metadata_files,
    made,
    new_metadata,
    open_backend,
    own_namespaces,
    set_to,
    swap,
)

PATHS = ("path", "s3", "hdfs", "gcs", "azurite")


@pytest.fixture
def table(backend: CatalogBackend) -> LoadedTable:
    return made(backend)


def test_a_new_table_is_found_again(backend: CatalogBackend) -> None:
    table = made(backend, owner="me")
    found = backend.load(TABLE)
    assert found.metadata == table.metadata
    # each answer has another one
    assert found.metadata_location == table.metadata_location or isinstance(backend, Nessie)
    assert found.metadata.properties == {"owner": "me"} and found.identifier == TABLE
    assert backend.table_exists(TABLE) and backend.list_tables(("db",)) == [TABLE]


def test_a_table_that_is_not_there_is_told_by_its_name(backend: CatalogBackend, kind: str) -> None:
    made(backend)
    if kind in HIVE:  # a metastore knows no upper case
        assert backend.table_exists(("db", "T"))
    for name in (("db", "other"), ("nowhere", "t"), *([] if kind in HIVE else [("db", "T")])):
        assert not backend.table_exists(name)
        with pytest.raises(NoSuchTableError, match=".".join(name)):
            backend.load(name)
        with pytest.raises(NoSuchTableError):
            backend.drop_table(name)


def test_a_swap_moves_the_table_and_logs_the_file_before(
    backend: CatalogBackend, kind: str
) -> None:
    first = made(backend)
    second = committed(swap(backend, first, set_to(a="1")))
    third = committed(swap(backend, second, set_to(b="2")))
    found = backend.load(TABLE)
    assert found.metadata.properties == {"a": "1", "b": "2"} and found.metadata == third.metadata
    log = [(e.metadata_file, e.timestamp_ms) for e in found.metadata.metadata_log]
    assert log == (
        []
        if kind == "nessie"
        else [(t.metadata_location, t.metadata.last_updated_ms) for t in (first, second)]
    )


def test_a_swap_on_a_stale_base_is_a_conflict_and_leaves_nothing(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    won = committed(swap(backend, table, *column(table, "a")))
    before = {i.location for i in table.storage.list(table.metadata.location)}
    assert isinstance(swap(backend, table, *column(table, "b")), Conflict)
    assert backend.load(TABLE).metadata == won.metadata
    assert {i.location for i in table.storage.list(table.metadata.location)} == before


def test_two_handles_that_start_from_one_base_have_one_winner(backend: CatalogBackend) -> None:
    made(backend)
    one, two = backend.load(TABLE), backend.load(TABLE)
    assert isinstance(swap(backend, two, *column(two, "two")), Committed)
    assert isinstance(swap(backend, one, *column(one, "one")), Conflict)
    assert backend.load(TABLE).metadata.schema().column_names == ["id", "two"]


def test_a_swap_of_several_tables_moves_all_or_none(backend: CatalogBackend, kind: str) -> None:
    one, two = made(backend), made(backend, ("db", "u"))
    if kind in (*PATHS, *HIVE):
        with pytest.raises(Unsupported, match="several tables"):
            backend.swap_together(())
        return
    assert backend.swap_together(()) == ()
    moved = backend.swap_together([change(two, *column(two, "a")), change(one, *column(one, "a"))])
    assert isinstance(moved, tuple) and [m.table.identifier for m in moved] == [("db", "u"), TABLE]
    for moved_to, name in zip(moved, (("db", "u"), TABLE), strict=True):
        found = backend.load(name)
        assert (
            found.metadata == moved_to.table.metadata
            and found.metadata.schema().column_names == ["id", "a"]
        )
    three, four = backend.load(TABLE), backend.load(("db", "u"))
    assert isinstance(swap(backend, four, *column(four, "b")), Committed)
    files = {i.location for t in (three, four) for i in t.storage.list(t.metadata.location)}
    for swaps in (
        [change(three, *column(three, "c")), change(four, *column(four, "c"))],
        [change(four, *column(four, "c")), change(three, *column(three, "c"))],
    ):
        assert isinstance(backend.swap_together(swaps), Conflict)
    assert {i.location for t in (three, four) for i in t.storage.list(t.metadata.location)} == files
    assert [backend.load(n).metadata.schema().column_names for n in (TABLE, ("db", "u"))] == [
        ["id", "a"],
        ["id", "a", "b"],
    ]


def test_what_a_stale_base_may_still_change_is_up_to_who_keeps_the_metadata(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    won = committed(swap(backend, table, set_to(who="one")))
    again = swap(backend, table, set_to(me="two"))
    if backend.writes_metadata_files:
        assert isinstance(again, Conflict) and backend.load(TABLE).metadata == won.metadata
    else:  # the updates were applied to what was there by then
        assert (
            committed(again).metadata.properties
            == backend.load(TABLE).metadata.properties
            == {"who": "one", "me": "two"}
        )


def test_a_second_create_is_a_conflict_and_keeps_the_first(backend: CatalogBackend) -> None:
    first = made(backend)
    files = {i.location for i in first.storage.list(first.metadata.location)}
    anew = replace(first, metadata=new_metadata(first.metadata.location))
    assert isinstance(create(backend, anew), Conflict)
    with pytest.raises(TableAlreadyExistsError, match=r"db\.t"):
        backend.stage_create(TABLE, new_metadata(""))
    assert backend.load(TABLE).metadata.table_uuid == first.metadata.table_uuid
    assert {i.location for i in first.storage.list(first.metadata.location)} == files


def test_a_commit_on_a_dropped_table_never_brings_it_back(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    backend.drop_table(TABLE)
    assert isinstance(swap(backend, table, set_to(a="1")), Conflict)
    assert not backend.table_exists(TABLE)
    with pytest.raises(NoSuchTableError):
        backend.load(TABLE)


def test_a_commit_on_a_table_that_was_made_anew_leaves_the_new_one_alone(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    backend.drop_table(TABLE)
    anew = made(backend, new="yes")
    assert isinstance(swap(backend, table, set_to(old="yes")), Conflict)
    assert backend.load(TABLE).metadata == anew.metadata


def test_old_metadata_files_are_kept_up_to_the_limit_and_deleted_when_asked_for(
    backend: CatalogBackend, kind: str
) -> None:
    if kind == "nessie":
        return  # it keeps all files and no log
    limits = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    table = made(backend)
    locations = [table.metadata_location]
    for i in range(5):
        table = committed(swap(backend, table, SetProperties({"i": str(i), **limits})))
        locations.append(table.metadata_location)
    assert [e.metadata_file for e in backend.load(TABLE).metadata.metadata_log] == locations[-3:-1]
    there = [table.storage.exists(f) for f in locations]
    assert there == [False, False, False, *[leaves_metadata_files(backend)] * 3]


def test_without_being_asked_no_metadata_file_is_deleted(
    backend: CatalogBackend, kind: str
) -> None:
    table = made(backend, write__metadata__previous_versions_max="1")
    locations = [table.metadata_location]
    for i in range(3):
        table = committed(swap(backend, table, set_to(i=str(i))))
        locations.append(table.metadata_location)
    if kind == "nessie":  # whose answers name addresses of its own in place of these files
        assert len(list(table.storage.list(f"{table.metadata.location}/metadata"))) == 4
        return
    assert len(table.metadata.metadata_log) == 1 and {
        table.storage.exists(f) for f in locations
    } == {leaves_metadata_files(backend)}


def test_a_log_that_names_files_elsewhere_deletes_none_of_them(
    backend: CatalogBackend, tmp_path: Path
) -> None:
    precious = tmp_path / "precious.metadata.json"
    precious.write_text("{}")
    table = made(
        backend,
        write__metadata__previous_versions_max="1",
        write__metadata__delete_after_commit__enabled="true",
    )
    hostile = (
        MetadataLogEntry(1, str(precious)),
        MetadataLogEntry(2, f"{table.metadata.location}/data/rows.parquet"),
    )
    table.storage.write(f"{table.metadata.location}/data/rows.parquet", b"rows")
    table = replace(table, metadata=replace(table.metadata, metadata_log=hostile))
    committed(swap(backend, table, set_to(a="1")))
    assert precious.exists() and table.storage.exists(
        f"{table.metadata.location}/data/rows.parquet"
    )


def test_gzipped_metadata_is_written_and_read(
    backend: CatalogBackend, kind: str, table: LoadedTable
) -> None:
    for i in range(3):
        table = committed(
            swap(
                backend,
                table,
                SetProperties({"i": str(i), "write.metadata.compression-codec": "gzip"}),
            )
        )
    # it writes what it likes
    assert table.metadata_location.endswith(".gz.metadata.json") or kind == "nessie"
    assert (
        not backend.writes_metadata_files
        or table.storage.read(table.metadata_location)[:2] == b"\x1f\x8b"
    )
    assert backend.load(TABLE).metadata == table.metadata
    table = committed(
        swap(backend, table, SetProperties({"write.metadata.compression-codec": "none"}))
    )
    table = committed(swap(backend, table, set_to(last="1")))
    assert (
        not table.metadata_location.endswith(".gz.metadata.json")
        and backend.load(TABLE).metadata == table.metadata
    )


def test_properties_of_metadata_files_that_cannot_be_are_refused(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    for key, value in (
        ("write.metadata.compression-codec", "zstd"),
        ("write.metadata.previous-versions-max", "many"),
    ):
        with pytest.raises(ValidationError, match=key):
            backend.swap(
                table, changed(table, **{key: value}), updates=[SetProperties({key: value})]
            )
    assert backend.load(TABLE).metadata == table.metadata


@pytest.mark.parametrize("bad", ["..", "a/b", "/etc", "a\0b", "", ".", "a\\..\\b", "x\ny"])
def test_names_that_would_leave_the_warehouse_are_refused(
    backend: CatalogBackend, bad: str, tmp_path: Path
) -> None:
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    for identifier in ((bad, "t"), ("db", bad), ("db", bad, "t")):
        for ask in (backend.load, backend.table_exists, backend.drop_table):
            with pytest.raises(InvalidInput):
                ask(identifier)
        for make in (backend.create, backend.stage_create):
            with pytest.raises(InvalidInput):
                make(identifier, new_metadata(""))
    for ask in (
        backend.create_namespace,
        backend.drop_namespace,
        backend.list_tables,
        backend.load_namespace_properties,
    ):
        with pytest.raises(InvalidInput):
            ask(("db", bad))
    with pytest.raises(InvalidInput):
        backend.load("db.t")  # type: ignore[arg-type]
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_a_metastore_has_namespaces_of_one_level(backend: CatalogBackend, kind: str) -> None:
    if kind not in HIVE:
        return
    for name in ("b", "a"):
        backend.create_namespace((name,))
    assert own_namespaces(backend) == [("a",), ("b",)] and backend.list_namespaces(("a",)) == []
    with pytest.raises(NamespaceAlreadyExistsError, match="a"):
        backend.create_namespace(("a",))
    with pytest.raises(InvalidInput, match="one level"):
        backend.create_namespace(("a", "x"))
    assert not backend.namespace_exists(("a", "x")) and not backend.table_exists(("a", "x", "t"))
    with pytest.raises(NoSuchNamespaceError, match=r"a\.x"):
        backend.list_tables(("a", "x"))
    with pytest.raises(NoSuchTableError, match=r"a\.x\.t"):
        backend.load(("a", "x", "t"))
    made(backend, ("b", "t"))
    with pytest.raises(NamespaceNotEmptyError):
        backend.drop_namespace(("b",))
    for ask in (
        backend.drop_namespace,
        backend.list_tables,
        backend.list_namespaces,
        backend.load_namespace_properties,
    ):
        with pytest.raises(NoSuchNamespaceError, match="nowhere"):
            ask(("nowhere",))


def test_namespaces_are_made_listed_and_dropped(backend: CatalogBackend, kind: str) -> None:
    if kind in HIVE:
        return  # the test before this one
    for namespace in (("a",), ("b",), ("a", "x"), ("a", "x", "deep")):
        backend.create_namespace(namespace)
    assert own_namespaces(backend) == [("a",), ("b",)]
    assert backend.list_namespaces(("a",)) == [("a", "x")] and backend.list_namespaces(("b",)) == []
    assert backend.namespace_exists(("a", "x", "deep")) and not backend.namespace_exists(("x",))
    with pytest.raises(NamespaceAlreadyExistsError, match=r"a\.x"):
        backend.create_namespace(("a", "x"))
    with pytest.raises(NamespaceNotEmptyError):
        backend.drop_namespace(("a", "x"))
    backend.drop_namespace(("a", "x", "deep"))
    backend.drop_namespace(("a", "x"))
    assert backend.list_namespaces(("a",)) == []
    made(backend, ("b", "t"))
    with pytest.raises(NamespaceNotEmptyError):
        backend.drop_namespace(("b",))
    for ask in (
        backend.drop_namespace,
        backend.list_tables,
        backend.list_namespaces,
        backend.load_namespace_properties,
    ):
        with pytest.raises(NoSuchNamespaceError, match="nowhere"):
            ask(("nowhere",))


def test_a_dropped_namespace_is_gone(backend: CatalogBackend) -> None:
    backend.create_namespace(("a",))
    backend.drop_namespace(("a",))
    assert not backend.namespace_exists(("a",)) and own_namespaces(backend) == []
    backend.create_namespace(("a",))
    assert own_namespaces(backend) == [("a",)] and backend.list_tables(("a",)) == []


def test_tables_of_one_namespace_are_not_those_of_another(
    backend: CatalogBackend, kind: str
) -> None:
    inner = ("inner",) if kind in HIVE else ("db", "inner")
    for identifier in (("db", "t"), ("db", "u"), ("db2", "t"), (*inner, "t")):
        made(backend, identifier)
    assert sorted(backend.list_tables(("db",))) == [("db", "t"), ("db", "u")]
    assert backend.list_tables(inner) == [(*inner, "t")]
    backend.drop_table(("db", "t"))
    assert backend.list_tables(("db",)) == [("db", "u")]
    assert backend.table_exists(("db2", "t")) and backend.table_exists((*inner, "t"))


def test_namespace_properties_are_kept_or_refused(backend: CatalogBackend, kind: str) -> None:
    if kind in PATHS:
        with pytest.raises(Unsupported):
            backend.create_namespace(("a",), {"k": "v"})
        backend.create_namespace(("a",))
        assert backend.load_namespace_properties(("a",))["location"].endswith("/a")
        with pytest.raises(Unsupported):
            backend.update_namespace_properties(("a",), set(), {"k": "v"})
        return
    backend.create_namespace(("a",), {"k": "v", "l": "w"})
    summary = backend.update_namespace_properties(("a",), {"l", "zzz"}, {"k": "2", "m": "3"})
    assert own_properties(backend, kind) == {"k": "2", "m": "3"}
    assert (summary.removed, summary.updated, summary.missing) == (("l",), ("k", "m"), ("zzz",))
    backend.update_namespace_properties(("a",), {"k", "m"}, {})
    assert backend.namespace_exists(("a",)) and own_properties(backend, kind) == {}
    with pytest.raises(InvalidInput):
        backend.update_namespace_properties(("a",), {"k"}, {"k": "v"})
    if kind in ("items", "server", *SERVED, *HIVE):
        backend.update_namespace_properties(("a",), set(), {"k": "v" * 1001})
        assert own_properties(backend, kind) == {"k": "v" * 1001}
        return
    with pytest.raises(InvalidInput, match="1000"):
        backend.update_namespace_properties(("a",), set(), {"k": "v" * 1001})


def own_properties(backend: CatalogBackend, kind: str) -> dict[str, str]:
    """The properties of the namespace a, without the location that Java's server adds, and a
    metastore with an owner.
    """
    added = {
        "rest": ("location",),
        "nessie": ("location",),
        **dict.fromkeys(
            HIVE,
            ("location", "hive.metastore.database.owner", "hive.metastore.database.owner-type"),
        ),
    }
    return {
        k: v
        for k, v in backend.load_namespace_properties(("a",)).items()
        if k not in added.get(kind, ())
    }


def test_a_renamed_table_keeps_its_files_and_frees_its_name(
    backend: CatalogBackend, kind: str, table: LoadedTable
) -> None:
    if kind in PATHS:
        with pytest.raises(Unsupported, match="renamed"):
            backend.rename_table(TABLE, ("db", "u"))
        return
    backend.rename_table(TABLE, ("db", "u"))
    assert not backend.table_exists(TABLE) and backend.load(("db", "u")).metadata == table.metadata
    other = made(backend)  # the old name again: the other table's files must be safe from it
    # which chooses the name alone
    assert other.metadata.location != table.metadata.location or kind == "rest"
    backend.drop_table(TABLE, purge=True)
    assert backend.load(("db", "u")).metadata == table.metadata
    made(backend, ("db", "v"))
    with pytest.raises(TableAlreadyExistsError):
        backend.rename_table(("db", "u"), ("db", "v"))
    with pytest.raises(NoSuchTableError):
        backend.rename_table(("db", "nothing"), ("db", "w"))
    with pytest.raises(NoSuchNamespaceError):
        backend.rename_table(("db", "u"), ("nowhere", "u"))


def test_a_commit_on_a_renamed_table_is_a_conflict(backend: CatalogBackend, kind: str) -> None:
    if kind in PATHS:
        pytest.skip("path tables are not renamed")
    base = made(backend)
    backend.rename_table(TABLE, ("db", "u"))
    assert isinstance(swap(backend, base, set_to(a="1")), Conflict)
    assert backend.load(("db", "u")).metadata == base.metadata


def test_tables_are_registered_from_their_metadata_file(
    backend: CatalogBackend, kind: str, table: LoadedTable
) -> None:
    if kind in PATHS:
        with pytest.raises(Unsupported, match="registered"):
            backend.register_table(("db", "r"), table.metadata_location)
        return
    found = backend.register_table(("db", "r"), as_file(table))
    assert found.metadata == table.metadata == backend.load(("db", "r")).metadata
    with pytest.raises(TableAlreadyExistsError):
        backend.register_table(("db", "r"), as_file(table))
    newer = committed(swap(backend, table, set_to(a="1")))
    if kind == "nessie":
        with pytest.raises(TableAlreadyExistsError):  # it does not know how to overwrite
            backend.register_table(("db", "r"), as_file(newer), overwrite=True)
        return
    if kind == "rest":
        with pytest.raises(Unsupported, match="Registering tables with overwrite is not supported"):
            # Java's server
            backend.register_table(("db", "r"), as_file(newer), overwrite=True)
        return
    assert (
        backend.register_table(("db", "r"), as_file(newer), overwrite=True).metadata
        == newer.metadata
    )
    with pytest.raises(InvalidInput, match=r"\.metadata\.json"):
        backend.register_table(("db", "x"), f"{table.metadata.location}/data/x.parquet")


def as_file(table: LoadedTable) -> str:
    """The table's metadata as a file, also where the catalog writes none."""
    if "/catalog/v1/trees/" in table.metadata_location:
        table = replace(
            table, metadata_location=f"{table.metadata.location}/metadata/00009-shown.metadata.json"
        )
    if not table.storage.exists(table.metadata_location):
        table.storage.write(table.metadata_location, encode_metadata(table.metadata))
    return table.metadata_location


def test_purge_takes_the_files_and_drop_alone_leaves_a_sql_tables_files(
    backend: CatalogBackend, kind: str
) -> None:
    kept, gone = made(backend, ("db", "kept")), made(backend, ("db", "gone"))
    for table in (kept, gone):
        as_file(table)
    committed(swap(backend, gone, set_to(a="1")))
    backend.drop_table(("db", "gone"), purge=True)
    # which leaves files to a tool of its own
    assert list(gone.storage.list(gone.metadata.location)) == [] or kind == "nessie"
    backend.drop_table(("db", "kept"))
    assert bool(list(kept.storage.list(kept.metadata.location))) == (kind not in PATHS)


def test_no_secret_shows_in_reprs(kind: str, tmp_path: Path) -> None:
    if kind in ("s3", "gcs"):
        pytest.skip("has secrets of its own")
    backend = open_backend(
        kind, tmp_path, **{"s3.session-token": "hunter2", "gcs.oauth2.token": "hunter2"}
    )
    try:
        assert "hunter2" not in repr(backend)
        table = made(backend, ("db", "secret"))
        assert (
            "hunter2" not in repr(table)
            and "secret-" not in repr(table)
            and "hunter2" not in repr(Committed(table))
            and "hunter2" not in repr(table.storage)
        )
        assert backend.properties["gcs.oauth2.token"] == "hunter2"
        assert b"hunter2" not in table.storage.read(as_file(table))
        backend.drop_table(("db", "secret"))
    finally:
        backend.close()


def test_a_staged_table_is_ready_for_files_and_not_yet_there(backend: CatalogBackend) -> None:
    if not backend.namespace_exists(("db",)):
        backend.create_namespace(("db",))
    staged = backend.stage_create(TABLE, new_metadata("", owner="me"))
    assert (
        not backend.table_exists(TABLE)
        and staged.metadata_location == ""
        and staged.identifier == TABLE
    )
    assert (
        staged.metadata.location
        and staged.metadata.properties == {"owner": "me"}
        and staged.metadata.table_uuid
    )
    staged.storage.write(f"{staged.metadata.location}/data/first.parquet", b"rows")
    table = committed(create(backend, staged))
    assert table.storage.read(f"{table.metadata.location}/data/first.parquet") == b"rows"
    assert (
        backend.load(TABLE).metadata
        == table.metadata
        == replace(staged.metadata, last_updated_ms=table.metadata.last_updated_ms)
    )


def test_of_two_that_stage_one_name_the_first_to_create_wins(backend: CatalogBackend) -> None:
    backend.create_namespace(("db",))
    one, two = (backend.stage_create(TABLE, new_metadata("", who=who)) for who in ("one", "two"))
    assert isinstance(create(backend, two), Committed) and isinstance(
        create(backend, one), Conflict
    )
    assert backend.load(TABLE).metadata.properties == {"who": "two"}


def test_a_table_that_was_never_staged_gets_its_place_from_the_catalog(
    backend: CatalogBackend,
) -> None:
    backend.create_namespace(("db",))
    metadata = new_metadata("", owner="me")
    updates = creation_updates(metadata)
    table = committed(
        backend.create(
            TABLE, metadata, updates=updates, requirements=requirements_for(None, updates)
        )
    )
    assert table.metadata.location and table.metadata == replace(
        metadata, location=table.metadata.location, last_updated_ms=table.metadata.last_updated_ms
    )
    assert backend.load(TABLE).metadata == table.metadata


def test_a_namespace_that_is_missing_is_told_before_files_are_written(
    backend: CatalogBackend, kind: str
) -> None:
    if kind in PATHS:  # where namespaces are folders
        assert backend.stage_create(("nowhere", "t"), new_metadata("")).metadata.location.endswith(
            "/nowhere/t"
        )
        return
    for make in (backend.stage_create, backend.create):
        with pytest.raises(NoSuchNamespaceError, match="nowhere"):
            make(("nowhere", "t"), new_metadata(""))


def test_a_table_comes_into_being_with_its_first_snapshot_through_the_commit_loop(
    backend: CatalogBackend,
) -> None:
    backend.create_namespace(("db",))
    staged = backend.stage_create(TABLE, new_metadata(""))
    done = commit.create(
        backend, staged, [Append([data_file(1, location=f"{staged.metadata.location}/data")])]
    )
    found = backend.load(TABLE)
    assert (
        found.metadata == done.table.metadata
        and done.snapshot is not None
        and found.metadata.current_snapshot() == done.snapshot
    )
    assert (
        found.metadata.table_uuid == staged.metadata.table_uuid
        and found.metadata.snapshot_log[-1].snapshot_id == done.snapshot.snapshot_id
    )
    more = commit.commit(
        backend, found, [Append([data_file(2, location=f"{staged.metadata.location}/data")])]
    )
    assert (
        more.attempts == 1
        and more.snapshot is not None
        and more.snapshot.summary["total-data-files"] == "2"
    )
    written = [i.location for i in found.storage.list(f"{found.metadata.location}/metadata")]
    assert sum("/snap-" in location for location in written) == 2
    assert any(
        location.endswith(".metadata.json") for location in written
    ) == leaves_metadata_files(backend)


def test_two_appends_that_start_from_one_base_are_both_kept(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    place, files = f"{table.metadata.location}/data", 2
    if isinstance(backend, Nessie):
        # it does not check that a table has no snapshot yet, so another one comes first
        # (KNOWN_GAPS.md)
        table, files = (
            commit.commit(backend, table, [Append([data_file(3, location=place)])]).table,
            3,
        )
    commit.commit(backend, table, [Append([data_file(1, location=place)])])
    late = commit.commit(
        backend, table, [Append([data_file(2, location=place)])], sleep=lambda _: None
    )
    assert (
        late.attempts == 2
        and late.snapshot is not None
        and late.snapshot.summary["total-data-files"] == str(files)
    )
    assert [s.snapshot_id for s in backend.load(TABLE).metadata.snapshots][
        -1
    ] == late.snapshot.snapshot_id


def test_the_place_of_a_new_table_lies_in_the_warehouse(backend: CatalogBackend, kind: str) -> None:
    table = made(backend, ("a", "t") if kind in HIVE else ("a", "b", "t"))
    if kind == "nessie":
        assert "/nessie/a/b/t_" in table.metadata.location
        return
    assert normalise(table.metadata.location).endswith(
        "/a.db/t" if kind in HIVE else "/a.b/t" if kind == "rest" else "/a/b/t"
    )
