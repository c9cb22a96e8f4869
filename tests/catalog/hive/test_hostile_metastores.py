"""Answers that no metastore would give: huge, deep, of wrong types, endless. Each ends as an error
of a known kind, soon and in little memory.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Iterator

import pytest

import frazil
from frazil.catalog.hive import transport
from frazil.catalog.hive.structs import GetTableResult, HiveTable, ServerException
from frazil.errors import FrazilError, NoSuchTableError, StorageError
from tests.catalog.hive.scripted_metastore import (
    ScriptedMetastore,
    answer,
    answer_of_bytes,
    dripping,
    scripted_metastore,
)

_STOP, _TEXT, _STRUCT, _MAP, _LIST, _I32 = b"\0", 11, 12, 13, 15, 8


def field(kind: int, number: int, value: bytes) -> bytes:
    return struct.pack("!bh", kind, number) + value


def text(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def result(*fields: bytes) -> bytes:
    """A result of get_table_req: its success is a struct, whose table has these fields."""
    return field(_STRUCT, 0, field(_STRUCT, 1, b"".join(fields) + _STOP) + _STOP) + _STOP


@pytest.fixture
def server() -> Iterator[ScriptedMetastore]:
    with scripted_metastore() as made:
        yield made


def loaded(server: ScriptedMetastore, **properties: str) -> object:
    catalog = frazil.load_catalog(
        "h", type="hive", uri=server.uri, warehouse="/nowhere", **properties
    )
    try:
        return catalog.load_table("db.t")
    finally:
        catalog.close()


BODIES = {
    "a text of two gigabytes": result(field(_TEXT, 1, struct.pack("!i", 2**31 - 1))),
    "a text of negative length": result(field(_TEXT, 1, struct.pack("!i", -5))),
    "a text that is not UTF-8": result(field(_TEXT, 1, text(b"\xff\xfe\xfd"))),
    "a list of two billion": result(field(_LIST, 8, struct.pack("!bi", _STRUCT, 2**31 - 1))),
    "a map of two billion": result(field(_MAP, 9, struct.pack("!bbi", _TEXT, _TEXT, 2**31 - 1))),
    "structs without end": field(_STRUCT, 0, field(_STRUCT, 99, b"") * 5000),
    "lists without end": field(_STRUCT, 0, field(_LIST, 99, struct.pack("!bi", _LIST, 1) * 5000)),
    "a type that does not exist": field(77, 0, b""),
    "nothing": b"",
}


@pytest.mark.parametrize("body", BODIES)
def test_an_answer_that_is_none_is_told_as_that_in_little_memory(
    server: ScriptedMetastore, body: str
) -> None:
    def cut(client: object) -> None:
        client.sendall(answer_of_bytes("get_table_req", BODIES[body]))  # type: ignore[attr-defined]
        client.shutdown(2)  # type: ignore[attr-defined]

    server.answers["get_table_req"] = cut
    tracemalloc.start()
    with pytest.raises(StorageError, match="did not answer get_table_req"):
        loaded(server)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()
    assert server.asked.count("get_table_req") == 2, "a call that reads is made once more"


@pytest.mark.parametrize(
    "body",
    [
        result(),
        result(field(_I32, 1, struct.pack("!i", 7)), field(_TEXT, 9, text(b"parameters"))),
        result(field(_MAP, 9, struct.pack("!bbi", _I32, _I32, 1) + struct.pack("!ii", 1, 2))),
        field(_STRUCT, 0, _STOP) + _STOP,
        field(_TEXT, 0, text(b"table")) + _STOP,
        _STOP,
    ],
    ids=[
        "an empty table",
        "fields of other types",
        "a map of other types",
        "no table",
        "a text for a table",
        "no result",
    ],
)
def test_results_of_wrong_types_are_errors_of_a_known_kind(
    server: ScriptedMetastore, body: bytes
) -> None:
    server.answers["get_table_req"] = answer_of_bytes("get_table_req", body)
    with pytest.raises(FrazilError):
        loaded(server, **{"hive.client.socket-timeout-ms": "100"})


def test_a_table_whose_pointer_leads_nowhere_is_told_by_name(server: ScriptedMetastore) -> None:
    stored = HiveTable(
        "t",
        "db",
        parameters={"table_type": "ICEBERG", "metadata_location": "/nowhere/at/all.metadata.json"},
    )
    server.answers["get_table_req"] = answer("get_table_req", success=GetTableResult(stored))
    with pytest.raises(FrazilError, match="all.metadata.json"):
        loaded(server)
    server.answers["get_table_req"] = answer(
        "get_table_req", NoSuchObjectException=ServerException("db.t")
    )
    with pytest.raises(NoSuchTableError):
        loaded(server)


def test_an_answer_that_drips_without_end_is_given_up(
    server: ScriptedMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_LONGEST_ANSWER_S", 0.3)
    server.answers["get_table_req"] = dripping(
        answer_of_bytes("get_table_req", result(field(_TEXT, 1, text(b"x" * 4000))))
    )
    began = time.monotonic()
    with pytest.raises(StorageError, match="takes more than 0 s"):
        loaded(server)
    assert 0.5 < time.monotonic() - began < 30 and server.asked.count("get_table_req") == 2


def test_an_answer_of_too_many_bytes_is_given_up(
    server: ScriptedMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_MOST_BYTES", 1 << 20)
    parameters = field(
        _MAP,
        9,
        struct.pack("!bbi", _TEXT, _TEXT, 9_000_000) + (text(b"k") + text(b"v" * 1000)) * 3000,
    )
    server.answers["get_table_req"] = answer_of_bytes("get_table_req", result(parameters))
    with pytest.raises(StorageError, match="more than 1 MB"):
        loaded(server)
