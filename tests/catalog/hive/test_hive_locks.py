"""The metastore's lock on a table during a commit: waited for, kept alive, and told who holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from frazil.catalog import Catalog
from frazil.catalog.hive.locks import locks_on, table_lock, unlock
from frazil.errors import CommitFailedException, WaitingForLockException

Opened = Callable[..., Catalog]

HOLDER = """
import sys, time
from frazil.catalog import load_backend
from frazil.catalog.hive.locks import table_lock
uri, db = sys.argv[1:]
backend = load_backend("h", type="hive", uri=uri)
with table_lock(backend.store.client, db, "t"):
    print("held", flush=True)
    time.sleep(600)
"""


def client_of(catalog: Any) -> Any:
    return catalog._backend.store.client


def test_a_commit_waits_for_the_lock_and_goes_on_when_it_is_free(opened: Opened, db: str) -> None:
    catalog = opened()
    table = catalog.create_table(f"{db}.t", "id bigint")
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with table_lock(client_of(opened()), db, "t"):
            held.set()
            free.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(30)
    writer = threading.Thread(target=table.append, args=([{"id": 1}],))
    writer.start()
    end = time.monotonic() + 30
    while len(locks_on(client_of(catalog), db, "t")) < 2:
        assert time.monotonic() < end, "the writer asked for no lock"
        time.sleep(0.05)
    assert writer.is_alive() and catalog.load_table(f"{db}.t").metadata.current_snapshot() is None
    free.set()
    holder.join(30)
    writer.join(30)
    assert (
        catalog.load_table(f"{db}.t").scan().count() == 1
        and locks_on(client_of(catalog), db, "t") == []
    )


def test_a_lock_whose_holder_was_killed_is_told_with_owner_and_age(
    opened: Opened, db: str, address: str
) -> None:
    catalog = opened(**{"hive.lock-timeout-ms": "1000"})
    table = catalog.create_table(
        f"{db}.t", "id bigint", properties={"commit.retry.num-retries": "0"}
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, address, db],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"USER": "them"},
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    assert holder.wait(30) == -signal.SIGKILL
    with pytest.raises(
        CommitFailedException,
        match=r"Waited 1 s for the metastore's lock on .*, held by .*Frazil-.*lock \d+, acquired \d+ s ago",
    ) as told:
        table.append([{"id": 1}])
    assert "hive.txn.timeout" in str(told.value)
    (stale,) = locks_on(client_of(catalog), db, "t")  # the request that timed out has gone
    unlock(client_of(catalog), stale.lockid or 0, "t")
    table.append([{"id": 2}])
    assert catalog.load_table(f"{db}.t").scan().to_arrow()["id"].to_pylist() == [2]


def test_a_lock_counts_however_the_names_are_spelled(opened: Opened, db: str) -> None:
    client = client_of(opened(**{"hive.lock-timeout-ms": "300"}))
    with table_lock(client, db.upper(), "T"):
        with pytest.raises(WaitingForLockException, match="Waited"), table_lock(client, db, "t"):
            pass
    with table_lock(client, db, "t"):
        pass


def test_heartbeats_keep_a_lock_alive(opened: Opened, db: str) -> None:
    client = client_of(opened(**{"hive.lock-heartbeat-interval-ms": "100"}))
    with table_lock(client, db, "t") as lock:
        (first,) = locks_on(client, db, "t")
        end = time.monotonic() + 10
        while (
            time.monotonic() < end
            and locks_on(client, db, "t")[0].lastheartbeat == first.lastheartbeat
        ):
            time.sleep(0.1)
        assert (locks_on(client, db, "t")[0].lastheartbeat or 0) > (first.lastheartbeat or 0)
        lock.check()


def test_a_lock_that_others_broke_is_noticed_by_its_holder(opened: Opened, db: str) -> None:
    client = client_of(opened(**{"hive.lock-heartbeat-interval-ms": "50"}))
    with table_lock(client, db, "t") as lock:
        unlock(client, locks_on(client, db, "t")[0].lockid or 0, "t")
        end = time.monotonic() + 10
        with pytest.raises(WaitingForLockException, match="was lost"):
            while time.monotonic() < end:
                lock.check()
                time.sleep(0.05)
