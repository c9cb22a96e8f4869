"""snapshot-loading-mode=refs: a load is sent the snapshots of branches and tags; the others come
once they are needed, and are the same.
"""

from __future__ import annotations

import json
import os
import pickle
import uuid
from dataclasses import replace
from typing import Any

import pytest

import frazil
from frazil.codec.metadata_json import encode_metadata
from frazil.errors import NoSuchTableError
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot, SnapshotRef, Snapshots
from tests.catalog.conftest import TABLE, new_metadata
from tests.catalog.rest.conftest import Server

ROUTE = "/v1/namespaces/db/tables/t"
SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []


def state(count: int, **more: Any) -> TableMetadata:
    """A table of some snapshots, of which the last one is the current one."""
    snapshots = [
        Snapshot(
            snapshot_id=n,
            parent_snapshot_id=n - 1 or None,
            sequence_number=n,
            timestamp_ms=1000 + n,
            manifest_list=f"memory://w/{n}.avro",
        )
        for n in range(1, count + 1)
    ]
    base = replace(
        new_metadata("memory://w/db/t"),
        table_uuid="11111111-1111-1111-1111-111111111111",
        last_updated_ms=1000 + count,
    )
    refs = {"main": SnapshotRef(count)}
    return replace(
        base,
        snapshots=Snapshots.of(snapshots),
        current_snapshot_id=count,
        refs=refs,
        last_sequence_number=count,
        **more,
    )


def answer(metadata: TableMetadata, *, refs: bool = False) -> tuple[int, Any]:
    body = json.loads(encode_metadata(metadata))
    if refs:
        body["snapshots"] = [
            s for s in body["snapshots"] if s["snapshot-id"] == metadata.current_snapshot_id
        ]
    return 200, {
        "metadata-location": "memory://w/db/t/metadata/00000-a.metadata.json",
        "metadata": body,
    }


def queries(server: Server) -> list[str]:
    return [a.path.partition("?")[2] for a in server.asked if a.path.startswith(ROUTE)]


def test_other_snapshots_are_loaded_once_when_they_are_needed(server: Server) -> None:
    server.on(f"GET {ROUTE}", answer(state(4), refs=True), answer(state(4)))
    metadata = server.catalog(snapshot_loading_mode="refs").load(TABLE).metadata
    current = metadata.current_snapshot()
    assert (
        current is not None and current.snapshot_id == 4 and queries(server) == ["snapshots=refs"]
    )
    travelled = pickle.loads(pickle.dumps(metadata))
    assert queries(server) == ["snapshots=refs"] and travelled.current_snapshot() == current
    assert metadata.snapshots.by_id(2) is not None and metadata.snapshots.by_id(9) is None
    assert (
        len(metadata.snapshots) == 4
        and metadata == state(4)
        and metadata.snapshots.ids == (1, 2, 3, 4)
    )
    assert [s.snapshot_id for s in travelled.snapshots] == [1, 2, 3, 4] and queries(server) == [
        "snapshots=refs",
        "snapshots=all",
        "snapshots=all",
    ]


def test_they_are_those_of_the_state_that_was_loaded(server: Server) -> None:
    later = state(6)
    expired = replace(later, snapshots=later.snapshots.without([1, 4]))
    server.on(f"GET {ROUTE}", answer(state(4), refs=True), answer(expired))
    snapshots = server.catalog(snapshot_loading_mode="REFS").load(TABLE).metadata.snapshots
    assert sorted(snapshots.ids) == [2, 3, 4], (
        "newer ones are not of this state, those that are expired are gone but for the known one"
    )


def test_a_table_of_another_uuid_is_not_taken_for_this_one(server: Server) -> None:
    server.on(
        f"GET {ROUTE}",
        answer(state(4), refs=True),
        answer(replace(state(4), table_uuid="22222222-2222-2222-2222-222222222222")),
    )
    snapshots = server.catalog(snapshot_loading_mode="refs").load(TABLE).metadata.snapshots
    with pytest.raises(NoSuchTableError, match="replaced by another"):
        len(snapshots)


@pytest.mark.parametrize("uri", SERVERS)
def test_tables_of_javas_server_are_the_same_in_both_modes(uri: str) -> None:
    name = f"s{uuid.uuid4().hex[:8]}.t"
    whole: Any = frazil.load_catalog("r", type="rest", uri=uri)
    lean: Any = frazil.load_catalog("r", type="rest", uri=uri, **{"snapshot-loading-mode": "refs"})
    whole.create_namespace(name[:-2])
    table = whole.create_table(name, "id bigint")
    for n in range(4):
        table.append([{"id": n}])
    second = table.history()[1].snapshot_id
    found = lean.load_table(name)
    assert found.count() == 4 and sorted(found.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    assert found.scan(snapshot_id=second).count() == 2 and [
        s.snapshot_id for s in found.snapshots()
    ] == [s.snapshot_id for s in table.snapshots()]
    lean.load_table(name).append([{"id": 4}])
    assert len(whole.load_table(name).snapshots()) == 5
    again = lean.load_table(name)
    again.maintenance.expire_snapshots(older_than=2**60, retain_last=2)
    assert len(whole.load_table(name).snapshots()) == 2 and whole.load_table(name).count() == 5
    for catalog in (whole, lean):
        catalog.close()
