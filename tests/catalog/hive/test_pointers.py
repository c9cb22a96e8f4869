"""How the pointer of a table in a metastore moves where answers are lost or are errors: scripted,
without a server.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import metadata_files
from frazil.catalog.base import LoadedTable, Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.locks import TableLock, locks_on, table_lock
from frazil.catalog.hive.pointers import PointerChange, Pointers, table_change
from frazil.catalog.hive.settings import settings
from frazil.catalog.hive.structs import GetTableResult, HiveTable, ServerException
from frazil.catalog.hive.table_object import new_table
from frazil.errors import (
    CommitFailedException,
    NoSuchFileError,
    TableAlreadyExistsError,
    Unsupported,
    WaitingForLockException,
)
from frazil.storage import storage_for
from tests.catalog.conftest import new_metadata
from tests.catalog.hive.metastore_in_memory import (
    Fault,
    MetastoreInMemory,
    failing,
    lost_answer,
    lost_call,
)
from tests.catalog.hive.scripted_metastore import ScriptedMetastore, answer, scripted_metastore

ALTER = "alter_table_with_environment_context"
SOURCE, TARGET = ("db", "t"), ("db", "u")
DERBY = "JDODataStoreException: Error executing SQL query. Root cause: ERROR 42818: Comparisons between 'CLOB (UCS_BASIC)' and 'CLOB (UCS_BASIC)'"


def at(location: str, **properties: str) -> LoadedTable:
    return LoadedTable(
        SOURCE, location, new_metadata("memory://w/t", **properties), storage_for("memory://w"), {}
    )


def holding(metastore: MetastoreInMemory, location: str) -> HiveTable:
    metastore.tables[SOURCE] = new_table(at(location), *SOURCE, metastore.settings)
    return metastore.tables[SOURCE]


def change(old: str, new: str, *, locked: bool = True) -> PointerChange:
    properties = {"engine__hive__lock_enabled": str(locked).lower()}
    return table_change(at(old, **properties), at(new, **properties), MetastoreInMemory().settings)


def pointers(metastore: MetastoreInMemory) -> Pointers:
    return Pointers(metastore, metastore.settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fault",
    [
        lost_answer,
        failing("Connection is broken", applied=True),
        failing("u already exists", applied=True),
    ],
)
def test_a_rename_that_was_made_is_a_success_whatever_the_answer_was(fault: Fault) -> None:
    metastore = MetastoreInMemory(faults={ALTER: [fault]})
    holding(metastore, "one")
    assert pointers(metastore).rename(SOURCE, TARGET, change("one", "one"))
    assert metastore.fired == [ALTER] and list(metastore.tables) == [TARGET] and not metastore.locks


@pytest.mark.parametrize("compares", [True, False])
def test_a_rename_whose_call_may_still_come_keeps_the_lock_where_it_would_undo_others_commits(
    compares: bool,
) -> None:
    metastore = MetastoreInMemory(compares, faults={ALTER: [lost_call]})
    holding(metastore, "one")
    with pytest.raises(Unclear, match="comes later"):
        pointers(metastore).rename(SOURCE, TARGET, change("one", "one"))
    assert metastore.fired == [ALTER] and bool(metastore.locks) is not compares, (
        "a server that compares refuses the late call by itself"
    )


def test_a_rename_that_was_refused_is_told_as_what_it_is() -> None:
    metastore = MetastoreInMemory(
        faults={
            ALTER: [
                failing("new table db.u already exists", applied=False),
                failing("disk full", applied=False),
            ]
        }
    )
    holding(metastore, "one")
    with pytest.raises(TableAlreadyExistsError):
        pointers(metastore).rename(SOURCE, TARGET, change("one", "one"))
    with pytest.raises(MetastoreError, match="disk full"):
        pointers(metastore).rename(SOURCE, TARGET, change("one", "one"))
    assert len(metastore.fired) == 2 and list(metastore.tables) == [SOURCE] and not metastore.locks


@pytest.mark.parametrize("applied", [True, False])
def test_an_error_of_the_database_that_passes_is_judged_by_where_the_pointer_is(
    applied: bool,
) -> None:
    """It does not mean that the database cannot compare parameters, and it may come after the
    change was made.
    """
    metastore = MetastoreInMemory(
        faults={ALTER: [failing("JDODataStoreException: connection reset", applied=applied)]}
    )
    holding(metastore, "one")
    moving = pointers(metastore)
    if applied:
        assert moving.move(SOURCE, change("one", "two", locked=False))
    else:
        with pytest.raises(MetastoreError, match="connection reset"):
            moving.move(SOURCE, change("one", "two", locked=False))
        assert moving.move(SOURCE, change("one", "two", locked=False)), (
            "the next commit is not refused"
        )
    assert (
        metastore.fired == [ALTER]
        and (metastore.tables[SOURCE].parameters or {})["metadata_location"] == "two"
    )


def test_a_database_that_cannot_compare_parameters_takes_commits_under_the_lock_alone() -> None:
    metastore = MetastoreInMemory(faults={ALTER: [failing(DERBY, applied=False)]})
    holding(metastore, "one")
    moving = pointers(metastore)
    with pytest.raises(Unsupported, match="lock-enabled"):
        moving.move(SOURCE, change("one", "two", locked=False))
    with pytest.raises(Unsupported, match="lock-enabled"):
        moving.move(SOURCE, change("one", "two", locked=False))
    assert moving.move(SOURCE, change("one", "two")) and metastore.fired == [ALTER]


class Release:
    """Answers of metastores of two releases to an alter_table: the new one checks the expected
    parameter, the old one passes over it.
    """

    def __init__(self, server: ScriptedMetastore, *, new: bool):
        self.server, self.stored = (
            server,
            new_table(at("one"), *SOURCE, settings({"uri": "thrift://m"})),
        )
        refusal = (
            {"MetaException": "The table has been modified."}
            if new
            else {"InvalidOperationException": "partition keys can not be changed."}
        )
        ((kind, text),) = refusal.items()
        self.refused = answer(ALTER, **{kind: ServerException(text)})
        server.answers |= {
            "get_table_req": answer("get_table_req", success=GetTableResult(self.stored)),
            ALTER: self.refused,
        }


def test_whether_a_server_compares_is_asked_of_each_server() -> None:
    """In a rolling upgrade, what the new server has said must not be trusted at the old one."""
    with scripted_metastore() as new, scripted_metastore() as old:
        Release(new, new=True), Release(old, new=False)
        found = settings({"uri": f"{new.uri},{old.uri}", "hive.client.socket-timeout-ms": "5000"})
        client = HiveClient(found)
        moving = Pointers(client, found)
        for _ in range(2):
            with pytest.raises(CommitFailedException, match="has been modified"):
                moving.move(SOURCE, change("one", "two", locked=False))
        assert new.asked.count(ALTER) == 3, "one question and two commits"
        client.close()
        client._server = 1
        for _ in range(2):
            with pytest.raises(Unsupported, match="does not compare"):
                moving.move(SOURCE, change("one", "two", locked=False))
        assert old.asked.count(ALTER) == 1, "the question alone"
        client.close()


def test_a_question_without_an_answer_leaves_no_commit_unclear() -> None:
    """What is asked first changes nothing, so that the commit is made over another connection."""
    cut: list[bool] = []

    with scripted_metastore() as server:
        release = Release(server, new=True)

        def once(client: Any) -> None:
            server.answers[ALTER] = release.refused
            cut.append(True)
            client.shutdown(2)

        server.answers[ALTER] = once
        found = settings({"uri": server.uri, "hive.client.socket-timeout-ms": "5000"})
        client = HiveClient(found)
        with pytest.raises(CommitFailedException, match="has been modified"):
            Pointers(client, found).move(SOURCE, change("one", "two", locked=False))
        assert cut == [True] and server.asked.count(ALTER) == 3
        client.close()


def comes_late(late: list[Any]) -> Any:
    """A fault: the answer is lost, and the request is carried out when the test says so."""

    def fault(carry_out: Any) -> Any:
        late.append(carry_out)
        raise Unclear("the answer was lost")

    return fault


def test_a_lock_that_was_asked_for_twice_does_not_wait_behind_itself() -> None:
    """The first request is carried out late: after it was looked for, and before the second."""
    metastore = MetastoreInMemory()
    late: list[Any] = []

    def after_the_first(carry_out: Any) -> Any:
        late.pop()()
        return carry_out()

    metastore.faults["lock"] = [comes_late(late), after_the_first]
    with table_lock(metastore, "Db", "T"):  # type: ignore[arg-type]
        assert metastore.fired == ["lock", "lock"] and list(metastore.locks) == [2]
    assert not metastore.locks


def test_a_lock_that_comes_after_the_one_that_was_taken_does_not_stay() -> None:
    metastore = MetastoreInMemory()
    late: list[Any] = []
    metastore.faults["lock"] = [comes_late(late)]
    with table_lock(metastore, "db", "t"):  # type: ignore[arg-type]
        late.pop()()
        assert len(metastore.locks) == 2
    assert metastore.fired == ["lock"] and not metastore.locks


def test_locks_are_found_by_the_names_that_the_metastore_keeps() -> None:
    metastore = MetastoreInMemory(faults={"lock": [lost_answer]})
    with table_lock(metastore, "Db", "T"):  # type: ignore[arg-type]
        (held,) = locks_on(metastore, "DB", "t")  # type: ignore[arg-type]
        assert (held.dbname, held.tablename) == ("db", "t") and metastore.asked.count(
            "lock"
        ) == 1, "it was found, and not asked for again"


def test_a_pointer_to_a_missing_file_is_repaired_by_registering_another(tmp_path: Path) -> None:
    catalog: Any = frazil.load_catalog(
        "h", type="hive", uri="thrift://127.0.0.1:1", warehouse=str(tmp_path)
    )
    metastore = MetastoreInMemory()
    catalog._backend.namespaces._client = catalog._backend.store.client = (
        catalog._backend.store.pointers._client
    ) = metastore
    good = at("file", a="b")
    location = f"{tmp_path}/00001-x.metadata.json"
    storage_for(location).write(
        location,
        metadata_files.encode(replace(good.metadata, location=str(tmp_path)), gzipped=False),
    )
    stored = holding(metastore, f"{tmp_path}/gone.metadata.json")
    stored.parameters = {**(stored.parameters or {}), "tool.of.others": "kept"}
    with pytest.raises(NoSuchFileError, match="gone"):
        catalog.load_table("db.t")
    catalog.register_table("db.t", location, overwrite=True)
    parameters = metastore.tables[SOURCE].parameters or {}
    assert (
        parameters["metadata_location"] == location
        and parameters["tool.of.others"] == "kept"
        and parameters["a"] == "b"
    )
    assert catalog.load_table("db.t").metadata.table_uuid == good.metadata.table_uuid


def test_names_in_capitals_and_in_small_letters_share_one_lock() -> None:
    metastore = MetastoreInMemory()
    metastore.settings = replace(metastore.settings, lock_timeout=0.05)
    with table_lock(metastore, "Db", "T"), pytest.raises(WaitingForLockException):  # type: ignore[arg-type]
        with table_lock(metastore, "db", "t"):  # type: ignore[arg-type]
            pass
    assert not metastore.locks


def test_a_process_that_was_stopped_asks_for_its_lock_before_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No heartbeat was sent meanwhile, and the metastore has given the lock to others."""
    monkeypatch.setattr(TableLock, "_beat", lambda _: None)
    metastore = MetastoreInMemory(compares=False)
    metastore.settings = replace(metastore.settings, heartbeat_interval=0.01)
    holding(metastore, "one")
    with table_lock(metastore, *SOURCE) as lock:  # type: ignore[arg-type]
        time.sleep(0.05)
        lock.check()
        ((number, held),) = metastore.locks.items()
        del metastore.locks[number]
        metastore.locks[number + 1] = replace(held, lockid=number + 1)
        lock.check()  # it was asked a moment ago
        time.sleep(0.05)
        with pytest.raises(WaitingForLockException, match="was lost: No such lock"):
            lock.check()
        metastore.locks[number] = held  # for the release


@pytest.mark.parametrize("compares", [True, False])
@pytest.mark.parametrize("changing", ["move", "rename"])
def test_an_interrupted_change_keeps_the_lock_where_it_would_undo_others_commits(
    compares: bool, changing: str
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    metastore = MetastoreInMemory(compares, faults={ALTER: [interrupted]})
    holding(metastore, "one")
    with pytest.raises(KeyboardInterrupt):
        if changing == "move":
            pointers(metastore).move(SOURCE, change("one", "two"))
        else:
            pointers(metastore).rename(SOURCE, TARGET, change("one", "one"))
    assert metastore.fired == [ALTER] and bool(metastore.locks) is not compares, (
        "a server that compares refuses the late call by itself"
    )


def test_a_server_that_hangs_is_asked_once_however_many_connections_are_open_to_it() -> None:
    """Its connections look alive, so that each would be waited for in turn, and the other server
    never be asked.
    """
    hangs = threading.Event()

    def wait_or_answer(client: Any) -> None:
        if not hangs.wait(0.05):
            client.sendall(answer("get_all_databases", success=["one"]))
        else:
            time.sleep(1)

    with scripted_metastore() as first, scripted_metastore() as second:
        first.answers["get_all_databases"] = wait_or_answer
        second.answers["get_all_databases"] = answer("get_all_databases", success=["two"])
        client = HiveClient(
            settings({"uri": f"{first.uri},{second.uri}", "hive.client.socket-timeout-ms": "300"})
        )
        with ThreadPoolExecutor(4) as pool:
            assert (
                list(pool.map(lambda _: client.ask(calls.GET_DATABASES), range(4))) == [["one"]] * 4
            )
        assert first.asked.count("set_ugi") > 1, "there are several idle connections"
        hangs.set()
        assert client.ask(calls.GET_DATABASES) == ["two"]
        client.close()
