"""The SQL catalog's own traits: V0 and V1, SQLite's durability and locks, unclear answers, other
spellings of URLs.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import CatalogBackend, Committed, Conflict, Unknown, load_backend
from frazil.catalog.base import Unclear
from frazil.catalog.pointer import PointerCatalog
from frazil.catalog.sql.database import Contended, SqliteDatabase, SqlStatement
from frazil.errors import (
    CommitFailedException,
    InvalidInput,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageError,
    Unsupported,
)
from frazil.storage import storage_for
from tests.catalog.conftest import TABLE, changed, committed, made, new_metadata

V0 = (
    "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,"
    " metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255),"
    " property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))",
)


def sql(folder: Path, name: str = "c", **properties: str) -> PointerCatalog:
    found = load_backend(
        name, type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"{folder}/w", **properties
    )
    assert isinstance(found, PointerCatalog)
    return found


def ask(folder: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / "c.db")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def over(backend: Any, database: SqliteDatabase) -> None:
    """Let a catalog go on over another connection to its database."""
    backend.close()
    backend.store.database = backend.namespaces.database = database


def columns(folder: Path) -> list[object]:
    return [row[1] for row in ask(folder, "PRAGMA table_info(iceberg_tables)")]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[PointerCatalog]:
    made = sql(tmp_path)
    yield made
    made.close()


def test_a_new_database_has_the_tables_of_java_and_pyiceberg_and_is_durable(
    tmp_path: Path, backend: PointerCatalog
) -> None:
    table = committed(backend.swap(made(backend), changed(backend.load(TABLE), a="1")))
    (row,) = ask(tmp_path, "SELECT * FROM iceberg_tables")
    assert row[:4] == ("c", "db", "t", table.metadata_location) and row[5] == "TABLE"
    assert row[4] == table.metadata.metadata_log[-1].metadata_file
    assert ask(tmp_path, "SELECT * FROM iceberg_namespace_properties") == [
        ("c", "db", "exists", "true")
    ]
    assert ask(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    assert backend.store.database.query("PRAGMA synchronous", {}) == [(2,)]


def test_a_v0_database_is_served_as_it_is(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "c.db")
    for statement in V0:
        connection.execute(statement)
    connection.close()
    backend = sql(tmp_path)
    table = committed(backend.swap(made(backend), changed(backend.load(TABLE), a="1")))
    backend.rename_table(TABLE, ("db", "u"))
    assert backend.load(("db", "u")).metadata == table.metadata and backend.list_tables(
        ("db",)
    ) == [("db", "u")]
    backend.drop_table(("db", "u"))
    assert "iceberg_type" not in columns(tmp_path), "it is never altered unasked"
    assert ask(tmp_path, "PRAGMA journal_mode") == [("delete",)]
    assert backend.store.database.query("PRAGMA synchronous", {}) == [(3,)]
    backend.close()
    sql(tmp_path, **{"jdbc.schema-version": "V1"}).close()
    assert "iceberg_type" in columns(tmp_path), "asked, it is"


def test_views_are_no_tables_but_hold_their_name(tmp_path: Path, backend: PointerCatalog) -> None:
    backend.create_namespace(("db",))
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute(
            "INSERT INTO iceberg_tables VALUES ('c', 'db', 't', '/view.metadata.json', NULL, 'VIEW')"
        )
    connection.close()
    assert not backend.table_exists(TABLE) and backend.list_tables(("db",)) == []
    with pytest.raises(NoSuchTableError):
        backend.load(TABLE)
    with pytest.raises(NoSuchTableError):
        backend.drop_table(TABLE)
    assert isinstance(backend.create(TABLE, new_metadata(f"{tmp_path}/w/db/t")), Conflict)


def test_rows_of_another_catalog_name_are_not_seen(tmp_path: Path) -> None:
    backend, other = sql(tmp_path), sql(tmp_path, "other")
    made(backend)
    assert other.list_namespaces() == [] and not other.table_exists(TABLE)
    backend.close()
    other.close()


def test_a_stale_base_in_another_catalog_object_is_a_conflict(tmp_path: Path) -> None:
    one, two = sql(tmp_path), sql(tmp_path)
    base = made(one)
    committed(two.swap(two.load(TABLE), changed(base, a="1")))
    files = sorted(os.listdir(tmp_path / "w/db/t/metadata"))
    assert isinstance(one.swap(base, changed(base, b="1")), Conflict)
    assert sorted(os.listdir(tmp_path / "w/db/t/metadata")) == files
    one.close()
    two.close()


def test_a_locked_database_ends_in_a_conflict_and_never_in_success(
    tmp_path: Path, backend: PointerCatalog
) -> None:
    base = made(backend)
    over(backend, SqliteDatabase(str(tmp_path / "c.db"), timeout=0.05))
    holder = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    outcome = backend.swap(base, changed(base, a="1"))
    assert isinstance(outcome, Conflict) and "locked" in outcome.reason
    with pytest.raises(CommitFailedException):
        backend.create_namespace(("x",))
    assert backend.load(TABLE).metadata == base.metadata, "readers do not wait"
    holder.execute("ROLLBACK")
    holder.close()
    committed(backend.swap(base, changed(base, a="1")))


def test_a_writer_waits_for_a_short_lock(tmp_path: Path, backend: PointerCatalog) -> None:
    base = made(backend)
    holder = sqlite3.connect(tmp_path / "c.db", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, holder.execute, ["COMMIT"])
    timer.start()
    committed(backend.swap(base, changed(base, a="1")))
    timer.join()
    holder.close()


class LosesAnswers(SqliteDatabase):
    """Applies the transaction or not, and in either case tells nothing."""

    applies, then = True, None
    fired = 0

    def execute(self, steps: Sequence[tuple[str, Mapping[str, object]]]) -> list[int]:
        LosesAnswers.fired += 1
        if self.applies:
            super().execute(steps)
        if self.then is not None:
            self.then()
        raise Unclear("The connection broke.")


def unsure(backend: PointerCatalog, folder: Path, applies: bool) -> LosesAnswers:
    LosesAnswers.fired = 0
    over(backend, broken := LosesAnswers(str(folder / "c.db")))
    broken.applies = applies
    return broken


def test_a_lost_answer_of_a_commit_that_was_applied_is_found_out(
    tmp_path: Path, backend: PointerCatalog
) -> None:
    base = made(backend)
    unsure(backend, tmp_path, applies=True)
    found = committed(backend.swap(base, changed(base, a="1")))
    assert LosesAnswers.fired == 1 and backend.load(TABLE).metadata == found.metadata


def test_a_lost_answer_is_found_out_in_the_log_when_others_went_on(tmp_path: Path) -> None:
    backend, other = sql(tmp_path), sql(tmp_path)
    base = made(backend)

    def others() -> None:
        ahead = other.load(TABLE)
        committed(other.swap(ahead, changed(ahead, b="1")))

    unsure(backend, tmp_path, applies=True).then = others  # type: ignore[assignment]
    committed(backend.swap(base, changed(base, a="1")))
    assert backend.load(TABLE).metadata.properties == {"a": "1", "b": "1"}
    backend.close()
    other.close()


def test_a_lost_answer_that_cannot_be_told_is_unknown_and_keeps_the_file(
    tmp_path: Path, backend: PointerCatalog
) -> None:
    """The database may still apply it later."""
    base = made(backend)
    unsure(backend, tmp_path, applies=False)
    files = sorted(os.listdir(tmp_path / "w/db/t/metadata"))
    assert isinstance(backend.swap(base, changed(base, a="1")), Unknown) and LosesAnswers.fired == 1
    assert len(os.listdir(tmp_path / "w/db/t/metadata")) == len(files) + 1
    assert isinstance(backend.create(("db", "u"), new_metadata(f"{tmp_path}/w/db/u")), Unknown)


def test_a_disk_that_is_full_is_an_error_that_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: PointerCatalog
) -> None:
    base = made(backend)
    fired = []

    def full(steps: object) -> list[int]:
        fired.append(1)
        raise StorageError("database or disk is full")

    files = sorted(os.listdir(tmp_path / "w/db/t/metadata"))
    with monkeypatch.context() as patch:
        patch.setattr(backend.store.database, "execute", full)
        with pytest.raises(StorageError, match="full"):
            backend.swap(base, changed(base, a="1"))
    assert (
        fired
        and sorted(os.listdir(tmp_path / "w/db/t/metadata")) == files
        and backend.load(TABLE).metadata == base.metadata
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_around_the_commit_leaves_the_pointer_old_or_new(
    tmp_path: Path, when: str, backend: PointerCatalog
) -> None:
    base = made(backend)
    code = f"""
import os, signal
from pathlib import Path
from typing import Any
from frazil.catalog.pointer import PointerCatalog
from frazil.catalog.sql.database import SqliteDatabase
from tests.catalog.test_sql_catalog import TABLE, changed, sql
backend, real = sql(Path({str(tmp_path)!r})), SqliteDatabase._commit
def killed(self, connection):
    if {when!r} == "after":
        real(self, connection)
    os.kill(os.getpid(), signal.SIGKILL)
SqliteDatabase._commit = killed
base = backend.load(TABLE)
backend.swap(base, changed(base, a="1"))
"""
    root, source = Path(__file__).parent.parent.parent, Path(frazil.__file__).parent.parent
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{source}:{root}"},
        capture_output=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    found = backend.load(TABLE)
    assert found.metadata.properties == ({} if when == "before" else {"a": "1"})
    committed(backend.swap(found, changed(found, b="1")))
    assert base.metadata.table_uuid == found.metadata.table_uuid


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
class Overtaken(SqliteDatabase):
    """Before a row is removed, another writer does something."""

    before_removal: list[Callable[[], object]]

    def execute(self, steps: Sequence[SqlStatement], *, all_or_none: bool = False) -> list[int]:
        if steps[0][0].startswith("DELETE FROM iceberg_tables") and self.before_removal:
            self.before_removal.pop(0)()
        return super().execute(steps, all_or_none=all_or_none)


def test_a_purge_deletes_the_files_of_the_state_that_was_dropped_and_of_no_other(
    tmp_path: Path,
) -> None:
    rival, backend = sql(tmp_path), sql(tmp_path)
    table = made(rival)
    over(backend, overtaken := Overtaken(f"{tmp_path}/c.db"))
    newest = changed(table, a="1")
    overtaken.before_removal = [lambda: committed(rival.swap(table, newest))]
    assert backend.drop_table(TABLE, purge=True) == () and not overtaken.before_removal
    assert not rival.table_exists(TABLE) and not list(
        rival.storage_of(table.metadata.location).list(table.metadata.location)
    )

    table, again = made(rival), []

    def created_again() -> None:
        rival.drop_table(TABLE)
        again.append(made(rival))

    overtaken.before_removal = [created_again, lambda: rival.rename_table(TABLE, ("db", "kept"))]
    with pytest.raises(NoSuchTableError):
        backend.drop_table(TABLE, purge=True)
    assert (
        not overtaken.before_removal
        and rival.load(("db", "kept")).metadata.table_uuid == again[0].metadata.table_uuid
    )
    overtaken.before_removal = [lambda: change_once(rival, ("db", "kept")) for _ in range(10)]
    with pytest.raises(CommitFailedException, match="changed 10 times"):
        backend.drop_table(("db", "kept"), purge=True)
    assert rival.load(("db", "kept")).metadata.properties["last"] == "yes"


def change_once(backend: PointerCatalog, identifier: tuple[str, ...]) -> None:
    table = backend.load(identifier)
    committed(backend.swap(table, changed(table, last="yes")))


def test_a_location_that_is_too_long_for_the_database_is_refused_where_a_table_is_registered(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidInput, match="at most 1000 characters"):
        sql(tmp_path).register_table(TABLE, f"{tmp_path}/{'x' * 1000}/v1.metadata.json")


def test_a_forked_child_does_not_disturb_its_parent(backend: PointerCatalog) -> None:
    made(backend)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            base = backend.load(TABLE)
            code = 0 if isinstance(backend.swap(base, changed(base, child="1")), Committed) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    base = backend.load(TABLE)
    committed(backend.swap(base, changed(base, parent="1")))
    assert backend.load(TABLE).metadata.properties == {"child": "1", "parent": "1"}


def test_closing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    gc.collect()  # what other tests have left open closes now, not in the midst of this one
    before = set(os.listdir("/proc/self/fd"))
    backend = sql(tmp_path)
    made(backend)
    assert set(os.listdir("/proc/self/fd")) - before
    backend.close()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_missing_metadata_file_is_told_with_table_and_file(backend: PointerCatalog) -> None:
    table = made(backend)
    os.unlink(table.metadata_location)
    with pytest.raises(NoSuchFileError, match=r"db\.t"):
        backend.load(TABLE)


def test_a_table_without_namespace_is_refused_unless_java_is_to_be_followed(
    tmp_path: Path, backend: PointerCatalog
) -> None:
    with pytest.raises(NoSuchNamespaceError):
        backend.create(TABLE, new_metadata(f"{tmp_path}/w/db/t"))
    backend.close()
    loose = sql(tmp_path, **{"jdbc.strict-mode": "false"})
    committed(loose.create(TABLE, new_metadata(f"{tmp_path}/w/db/t")))
    assert loose.namespace_exists(("db",))
    loose.close()


def test_new_tables_follow_the_location_of_their_namespace_and_may_be_unique(
    tmp_path: Path, backend: PointerCatalog
) -> None:
    backend.create_namespace(("far",), {"location": f"{tmp_path}/far/"})
    assert backend.table_location(("far", "t")) == f"{tmp_path}/far/t"
    backend.close()
    unique = sql(tmp_path, **{"unique-table-location": "true"})
    assert unique.table_location(("far", "t")) != unique.table_location(("far", "t"))
    unique.close()


def test_a_level_with_a_dot_is_refused_since_the_database_joins_levels_by_dots(
    backend: PointerCatalog,
) -> None:
    with pytest.raises(InvalidInput, match="dot"):
        backend.create_namespace(("a.b",))
    with pytest.raises(InvalidInput, match="255"):
        backend.create_namespace(("a" * 256,))


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:///{p}/c.db",
        "jdbc:sqlite:{p}/c.db",
        "jdbc:sqlite:file:{p}/c.db",
        "sqlite+pysqlite:///{p}/c.db",
    ],
)
def test_all_spellings_of_a_sqlite_url_open_one_file(tmp_path: Path, text: str) -> None:
    made(sql(tmp_path))
    backend = load_backend("c", type="jdbc", uri=text.format(p=tmp_path))
    assert backend.table_exists(TABLE)
    with pytest.raises(InvalidInput, match="warehouse"):
        backend.table_location(("db", "u"))
    backend.close()


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("sqlite:////nowhere/at/all/c.db", "does not exist"),
        ("sqlite://host/c.db", "host"),
        ("oracle://x", "oracle"),
        ("garbage", "no database URL"),
        ("jdbc:oracle:thin:@x", "no database URL"),
    ],
)
def test_urls_that_cannot_be_are_refused_with_the_key(uri: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        load_backend("c", type="sql", uri=uri)


REFUSED_OPTIONS = [
    ("jdbc.useSSL", "true", Unsupported, r"jdbc\.useSSL"),
    ("jdbc.init-catalog-tables", "false", InvalidInput, "init_catalog_tables"),
    ("schema-version", "v7", InvalidInput, "property schema-version must"),
    ("jdbc.schema-version", "v7", InvalidInput, "property jdbc.schema-version must"),
    ("jdbc.strict-mode", "maybe", InvalidInput, r"jdbc\.strict-mode"),
]


def test_options_are_served_or_refused_by_name(tmp_path: Path) -> None:
    for name, value, error, message in REFUSED_OPTIONS:
        with pytest.raises(error, match=message):
            sql(tmp_path, **{name: value})


@pytest.mark.parametrize(
    ("driver", "uri"),
    [
        ("psycopg", "postgresql://app:hunter2@127.0.0.1:1/app"),
        ("psycopg", "jdbc:postgresql://127.0.0.1:1/app?user=app&password=hunter2"),
        ("pymysql", "jdbc:mysql://127.0.0.1:1/app?user=app&password=hunter2"),
    ],
)
def test_a_password_never_shows_when_a_server_cannot_be_reached(driver: str, uri: str) -> None:
    pytest.importorskip(driver)
    with pytest.raises(StorageError) as told:
        load_backend("c", type="sql", uri=uri)
    shown = str(told.value) + repr(told.value.facts) + str(told.value.__cause__)
    assert "hunter2" not in shown and "127.0.0.1" in shown


def test_pyicebergs_database_is_read_and_written(
    golden: Mapping[str, object], tmp_path: Path
) -> None:
    database = (
        Path(str(golden["py_plain_v2"].location).removeprefix("file://")).parent / "catalog.db"
    )  # type: ignore[attr-defined]
    if not database.exists():
        pytest.skip("the packed golden tables hold no catalog.db")
    shutil.copy(database, tmp_path / "c.db")
    backend = sql(tmp_path, "py")
    names = backend.list_tables(("py",))
    assert ("py", "py_plain_v2") in names and len(names) == 7
    for name in names:
        assert len(backend.load(name).metadata.snapshots) >= 1
    source = backend.load(("py", "py_plain_v2"))
    copy = storage_for(str(tmp_path))
    copy.write(
        f"{tmp_path}/copy/metadata/00000-a.metadata.json", copy.read(source.metadata_location)
    )
    backend.register_table(("py", "copy"), f"{tmp_path}/copy/metadata/00000-a.metadata.json")
    assert "iceberg_type" in columns(tmp_path) and ask(tmp_path, "PRAGMA journal_mode") == [
        ("delete",)
    ]
    backend.close()


def test_contended_is_a_conflict_that_can_be_tried_again() -> None:
    assert Contended("x").retryable and not Unclear("x").retryable
    assert isinstance(CatalogBackend, type)


@pytest.mark.parametrize("removed", ["owner", "exists"])
def test_a_namespace_stays_when_its_last_property_goes(
    tmp_path: Path, removed: str, backend: PointerCatalog
) -> None:
    """PyIceberg gives the mark `exists` only to namespaces without properties, and anybody may
    remove a property of that name.
    """
    backend.create_namespace(("own",))
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute(
            "INSERT INTO iceberg_namespace_properties VALUES ('c', 'theirs', ?, 'me')", (removed,)
        )
    for namespace in (("own",), ("theirs",)):
        backend.update_namespace_properties(namespace, {removed})
        assert (
            backend.namespace_exists(namespace)
            and backend.load_namespace_properties(namespace) == {}
        )
    backend.update_namespace_properties(("theirs",), {removed}, {"k": "v"})
    assert backend.load_namespace_properties(("theirs",)) == {
        "k": "v"
    } and backend.list_namespaces() == [("own",), ("theirs",)]


def test_a_url_that_names_a_host_for_sqlite_is_told_without_its_password() -> None:
    with pytest.raises(InvalidInput, match="names a host") as told:
        load_backend("c", type="sql", uri="sqlite://me:hunter2@host/c.db")
    assert "hunter2" not in str(told.value)
