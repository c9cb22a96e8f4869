"""Tables moved from one catalog to another: nothing copied, nothing lost, never in both under one
name.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import Catalog
from frazil.catalog.base import Unclear
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    InvalidInput,
    NoSuchTableError,
    StorageError,
    TableAlreadyExistsError,
    Unsupported,
)

SERVERS = {"rest": "FRAZIL_TEST_REST", "hive2": "FRAZIL_TEST_HMS2", "hive4": "FRAZIL_TEST_HMS4"}
SERVED = [kind for kind, variable in SERVERS.items() if os.environ.get(variable)]
BETWEEN = [
    pair
    for pair in (("rest", "hive2"), ("hive2", "hive4"), ("hive4", "rest"))
    if {*pair} <= {*SERVED}
]
MOVES = [
    ("sql", "sql"),
    *(pair for kind in SERVED for pair in (("sql", kind), (kind, "sql"))),
    *BETWEEN,
]


def sql(folder: Path, name: str) -> Catalog:
    return frazil.load_catalog(
        name, type="sql", uri=f"sqlite:///{folder}/{name}.db", warehouse=f"{folder}/{name}"
    )


def catalog_of(kind: str, folder: Path, name: str) -> Catalog:
    if kind == "sql":
        return sql(folder, name)
    more = {} if kind == "rest" else {"warehouse": f"{folder}/{name}"}
    return frazil.load_catalog(
        name, type="rest" if kind == "rest" else "hive", uri=os.environ[SERVERS[kind]], **more
    )


@pytest.fixture
def old(tmp_path: Path) -> Catalog:
    made = sql(tmp_path, "old")
    made.create_namespace("a")
    made.create_namespace(("a", "b"))
    for name in ("a.t", "a.b.u"):
        made.create_table(name, "id bigint").append([{"id": 1}, {"id": 2}])
    return made


def files(folder: Path) -> set[str]:
    return {str(p) for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def new(tmp_path: Path) -> Catalog:
    return sql(tmp_path, "new")


@pytest.mark.parametrize("kinds", MOVES, ids=lambda kinds: "-".join(kinds))
def test_tables_are_moved_with_their_history_and_no_file_is_touched(
    tmp_path: Path, kinds: tuple[str, str]
) -> None:
    old, new = (
        catalog_of(kind, tmp_path, name) for kind, name in zip(kinds, ("old", "new"), strict=True)
    )
    db = f"m{uuid.uuid4().hex[:8]}"
    old.create_namespace(db, {"owner": "me", "location": f"{tmp_path}/elsewhere"})
    table = old.create_table(f"{db}.t", "id bigint", properties={"gc.enabled": "false"})
    table.append([{"id": 1}])
    table.append([{"id": 2}])
    before = files(tmp_path / "elsewhere")
    planned = old.migrate_to(new, f"{db}.t", dry_run=True)
    assert planned.dry_run and planned.problems == () and not new.namespace_exists(db)
    done = old.migrate_to(new, [f"{db}.t"])
    assert (
        done.tables == planned.tables
        and done.tables[0].metadata_location == table.metadata_location
        and not done.dry_run
    )
    moved = new.load_table(f"{db}.t")
    assert sorted(moved.to_arrow()["id"].to_pylist()) == [1, 2]
    assert (
        len(moved.history()) == 2
        and moved.metadata.table_uuid == table.metadata.table_uuid
        and moved.properties["gc.enabled"] == "false"
    )
    assert files(tmp_path / "elsewhere") == before and old.list_tables(db) == []
    properties = new.load_namespace_properties(db)
    assert properties["owner"] == "me" and properties.get("location") != f"{tmp_path}/elsewhere"
    with pytest.raises((CommitFailedException, NoSuchTableError)):
        table.append([{"id": 3}])
    moved.append([{"id": 3}])
    assert new.load_table(f"{db}.t").count() == 3


def test_every_table_is_moved_where_none_is_named(old: Catalog, new: Catalog) -> None:
    assert {t.identifier for t in old.migrate_to(new).tables} == {("a", "t"), ("a", "b", "u")}
    assert (
        old.list_tables("a") == old.list_tables(("a", "b")) == []
        and new.load_table("a.b.u").count() == 2
    )


def test_nothing_is_moved_where_one_table_cannot_be(old: Catalog, new: Catalog) -> None:
    new.create_namespace("a")
    new.create_table("a.t", "id bigint")
    with pytest.raises(TableAlreadyExistsError, match=r"new\.a\.t"):
        old.migrate_to(new, ["a.b.u", "a.t"])
    with pytest.raises(NoSuchTableError, match="nowhere"):
        old.migrate_to(new, ["a.b.u", "a.nowhere"])
    assert old.table_exists("a.b.u") and not new.namespace_exists(("a", "b"))
    planned = old.migrate_to(new, ["a.b.u", "a.t", "a.nowhere"], dry_run=True)
    assert [t.identifier for t in planned.tables] == [("a", "b", "u")] and [
        name for name, _ in planned.problems
    ] == [("a", "t"), ("a", "nowhere")]


def test_catalogs_that_cannot_are_refused_by_name(old: Catalog, tmp_path: Path) -> None:
    lake = frazil.load_catalog("lake", type="path", warehouse=f"{tmp_path}/lake")
    for source, target in ((old, lake), (lake, old)):
        with pytest.raises(Unsupported, match="path catalog 'lake'"):
            source.migrate_to(target, "a.t")
    with pytest.raises(InvalidInput, match="rename_table"):
        old.migrate_to(old, "a.t")
    wrong: Any = "new"
    with pytest.raises(InvalidInput, match="takes a catalog"):
        old.migrate_to(wrong)
    memory = frazil.load_catalog("m", type="memory")
    memory.create_namespace("db")
    memory.create_table("db.t", "id bigint")
    with pytest.raises(Unsupported, match="memory"):
        memory.migrate_to(old, "db.t")


def test_a_commit_made_just_before_the_move_is_moved_too(
    old: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, backend = sql(tmp_path, "new"), old._backend
    rename = backend.rename_table

    def late(source: tuple[str, ...], target: tuple[str, ...]) -> None:
        if source == ("a", "t"):
            old.load_table("a.t").append([{"id": 9}])
        rename(source, target)

    monkeypatch.setattr(backend, "rename_table", late)
    old.migrate_to(new, "a.t")
    assert new.load_table("a.t").count() == 3


Fault = Callable[..., Any]


def failing(error: Exception, after: Fault | None = None) -> Fault:
    def call(*arguments: Any, **named: Any) -> Any:
        if after is not None:
            after(*arguments, **named)
        raise error

    return call


@pytest.mark.parametrize(
    "error",
    [Unclear("the answer was lost"), CommitStateUnknownException("timed out"), StorageError("500")],
)
def test_a_rename_that_was_made_without_an_answer_is_found_and_the_move_goes_on(
    old: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    new, asked = sql(tmp_path, "new"), []
    rename = old._backend.rename_table
    monkeypatch.setattr(
        old._backend,
        "rename_table",
        failing(error, after=lambda *names: (asked.append(names), rename(*names))),
    )
    old.migrate_to(new, "a.t")
    assert len(asked) == 1 and new.load_table("a.t").count() == 2 and old.list_tables("a") == []


def test_a_rename_that_may_still_come_names_what_the_entry_will_be_called(
    old: Catalog, new: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old._backend, "rename_table", failing(Unclear("the answer was lost")))
    with pytest.raises(
        CommitStateUnknownException, match=r"a\.t__moving_\w{8}: the answer was lost"
    ):
        old.migrate_to(new, "a.t")
    monkeypatch.setattr(old._backend, "rename_table", failing(StorageError("no right")))
    with pytest.raises(StorageError, match=r"no right.*a\.t__moving_\w{8} there"):
        old.migrate_to(new, "a.t")
    assert old.list_tables("a") == [("a", "t")] and not new.table_exists("a.t")


def test_a_commit_in_the_new_catalog_before_it_is_looked_at_does_not_stop_the_move(
    old: Catalog, new: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = new._backend.register_table

    def then_commit(*arguments: Any) -> None:
        register(*arguments)
        new.load_table("a.t").append([{"id": 3}])

    monkeypatch.setattr(new._backend, "register_table", then_commit)
    old.migrate_to(new, "a.t")
    assert new.load_table("a.t").count() == 3 and old.list_tables("a") == []


def test_a_move_that_failed_for_certain_leaves_everything_as_it_was(
    old: Catalog, new: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new._backend, "register_table", failing(StorageError("no space")))
    with pytest.raises(StorageError, match="no space"):
        old.migrate_to(new, "a.t")
    assert (
        old.list_tables("a") == [("a", "t")]
        and new.list_tables("a") == []
        and old.load_table("a.t").count() == 2
    )


def test_a_move_of_unknown_outcome_never_leaves_the_table_under_its_name_in_both(
    old: Catalog, new: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as m:
        m.setattr(
            new._backend,
            "register_table",
            failing(StorageError("lost"), after=new._backend.register_table),
        )
        with pytest.raises(CommitStateUnknownException, match="__moving_"):
            old.migrate_to(new, "a.t")
    assert new.load_table("a.t").count() == 2 and not old.table_exists("a.t")
    [left] = old.list_tables("a")
    old.drop_table(left)
    with monkeypatch.context() as m:
        m.setattr(new._backend, "register_table", failing(StorageError("lost")))
        m.setattr(new._backend, "load", failing(StorageError("still down")))
        with pytest.raises(CommitStateUnknownException, match="still down"):
            old.migrate_to(new, "a.b.u")
    assert not old.table_exists("a.b.u") and len(old.list_tables(("a", "b"))) == 1


def test_a_registration_that_may_still_come_gives_no_name_back(
    old: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, late = sql(tmp_path, "new"), []
    register = new._backend.register_table

    def later(*arguments: Any) -> None:
        late.append(arguments)
        raise Unclear("the answer was lost")

    monkeypatch.setattr(new._backend, "register_table", later)
    with pytest.raises(CommitStateUnknownException, match=r"lost.*a\.t__moving_"):
        old.migrate_to(new, "a.t")
    register(*late.pop())  # the server carries the request out at last
    assert new.load_table("a.t").count() == 2 and not old.table_exists("a.t")


def test_an_entry_that_cannot_be_dropped_is_told(
    old: Catalog, new: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old._backend, "drop_table", failing(StorageError("no right")))
    with pytest.raises(
        StorageError, match=r"is in catalog 'new' now.*drop_table\('a\.t__moving_.*never purge"
    ):
        old.migrate_to(new, "a.t")
    assert new.load_table("a.t").count() == 2


def test_what_a_killed_move_left_is_told_and_never_moved_under_its_passing_name(
    old: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, left = sql(tmp_path, "new"), "a.t__moving_0123abcd"
    # as far as a process came that was killed before the new catalog had the table
    old.rename_table("a.t", left)
    for tables in ("a.t", None, left):
        with pytest.raises((NoSuchTableError, Unsupported), match="cut off") as told:
            old.migrate_to(new, tables)
        assert f"rename_table('{left}', 'a.t') in catalog 'old'" in str(told.value.hint)
    assert [name for name, _ in old.migrate_to(new, dry_run=True).problems] == [
        ("a", "t__moving_0123abcd")
    ] and new.list_namespaces() == []
    old.rename_table(left, "a.t")
    with monkeypatch.context() as m:  # killed when the new catalog had it
        m.setattr(old._backend, "drop_table", failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            old.migrate_to(new, "a.t")
    [held] = old.list_tables("a")
    for tables in ("a.t", None):
        with pytest.raises((NoSuchTableError, Unsupported), match="cut off") as told:
            old.migrate_to(new, tables)
        assert f"drop_table('{'.'.join(held)}') in catalog 'old', and never purge it" in str(
            told.value.hint
        )
    assert new.list_tables("a") == [("a", "t")]
    old.drop_table(held)
    old.migrate_to(new)
    assert (
        new.load_table("a.t").count() == new.load_table("a.b.u").count() == 2
        and old.list_tables("a") == []
    )
