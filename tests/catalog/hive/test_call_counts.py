"""How often a commit asks the metastore: each call is a round trip, and under the lock others wait
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frazil.catalog import Catalog

Opened = Callable[..., Catalog]
UNDER_LOCK = ["lock", "get_table_req", "alter_table_with_environment_context", "unlock"]


def counted(catalog: Any) -> list[str]:
    """The names of the calls that a catalog makes from now on; heartbeats come by time, not by
    commit.
    """
    asked: list[str] = []
    ask = catalog._backend.store.client.ask

    def counting(call: Any, *values: Any, **first: Any) -> Any:
        if call.name != "heartbeat":
            asked.append(call.name)
        return ask(call, *values, **first)

    catalog._backend.store.client.ask = counting
    return asked


@pytest.mark.parametrize("locked", [True, False])
def test_a_commit_takes_four_calls_under_the_lock_and_two_without(
    opened: Opened, db: str, metastore: str, locked: bool
) -> None:
    if metastore == "hive3" and not locked:
        pytest.skip("3.1 compares no parameters: it takes commits under the lock alone")
    catalog = opened(**{"engine.hive.lock-enabled": str(locked).lower()})
    table = catalog.create_table(f"{db}.t", "id bigint")
    catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 0")
    table.append([{"id": 0}])  # the first one also learns whether the server compares pointers
    wanted = UNDER_LOCK if locked else UNDER_LOCK[1:3]
    asked = counted(catalog)
    table.append([{"id": 1}])
    assert asked == wanted
    asked.clear()
    table.delete("id = 0")
    assert asked == wanted
    asked.clear()
    with table.transaction() as tx:
        tx.append([{"id": 2}])
        tx.set_properties({"a": "b"})
    assert asked == wanted
    asked.clear()
    catalog.replace_view(f"{db}.v", sql="SELECT 1")
    assert asked == ["get_table_req", *wanted], "it is opened by its name"
    asked.clear()
    opened_again = catalog.load_table(f"{db}.t")
    assert asked == ["get_table_req"] and sorted(
        opened_again.scan().to_arrow()["id"].to_pylist()
    ) == [1, 2]
