"""A forked process: told at once that the client of an object store did not survive, and free of
locks that its parent's threads held.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable

import pytest

from frazil.storage import storage_for
from frazil.storage.objects import conditional, object_clients, signed
from tests.storage.fake_s3 import fake_s3

pytest.importorskip("obstore")


def in_a_child(work: Callable[[], str], seconds: float = 10) -> str:
    """What work returns in a forked process; the test fails if that does not end."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # forking beside threads is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, work().encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    end = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(reading) as pipe:
        return pipe.read()


@pytest.mark.parametrize("doing", ["read", "write", "list", "publish", "delete", "open_output"])
def test_a_child_of_a_process_that_used_an_object_store_is_told_at_once(doing: str) -> None:
    def work() -> str:
        match doing:
            case "write" | "publish":
                getattr(storage, doing)("s3://b/x", b"1")
            case "list":
                list(storage.list("s3://b"))
            case "open_output":
                with storage.open_output("s3://b/x"):
                    pass
            case _:
                getattr(storage, doing)("s3://b/k")
        return "no error"

    with fake_s3(objects={"/b/k": b"1"}) as fake:
        storage = storage_for("s3://b/k", fake.properties)
        assert storage.read("s3://b/k") == b"1"
        asked = len(fake.asked)
        told = in_a_child(work)
        assert (
            told.startswith("StorageError: ") and "forked" in told and "spawn or forkserver" in told
        )
        assert len(fake.asked) == asked and storage.read("s3://b/k") == b"1", "the parent goes on"


def test_a_child_still_opens_data_files_by_pyarrow() -> None:
    with fake_s3(objects={"/b/k": b"12345"}) as fake:
        storage = storage_for("s3://b/k", fake.properties)
        assert storage.read("s3://b/k") == b"12345"

        def work() -> str:
            with storage.open_input("s3://b/k") as file:
                return str(file.read())

        assert in_a_child(work) == "b'12345'"


def test_children_of_a_process_that_never_used_one_use_it_as_sparks_workers_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_clients, "_used_in", None)

    def work() -> str:
        object_clients.obstore_for("s3")
        object_clients.obstore_for("s3")
        return in_a_child(lambda: str(object_clients.obstore_for("s3")))

    told = in_a_child(work)
    assert told.startswith("StorageError: ") and "forked" in told, (
        "a grandchild is, since its parent used it"
    )
    object_clients.obstore_for("s3")
    assert object_clients._used_in == os.getpid()


def test_locks_that_a_thread_of_the_parent_holds_are_free_in_the_child() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with signed._LOCK, conditional._trying.setdefault(("a bucket",), threading.Lock()):
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(5)

        def work() -> str:
            with signed._LOCK:
                conditional.check_conditional_writes(
                    ("a bucket",), "s3://b/x", lambda probe: False, lambda probe: None
                )
            return "free"

        assert in_a_child(work) == "free"
        assert signed._LOCK.locked(), "in the parent it is still held"
    finally:
        done.set()
        thread.join()
