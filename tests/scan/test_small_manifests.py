"""Small manifests are pruned as one table by one thread: the same plan as one by one, of any mix of
specs and partition types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from frazil.expr.parse import parse
from frazil.scan import manifests
from frazil.scan.manifests import clear_caches, packs_of, threads_for
from frazil.scan.options import planning_threads
from frazil.scan.plan import plan
from frazil.spec.manifest import ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import LongType, NestedField, StringType
from frazil.storage import storage_for
from tests.scan.made import Made, MadeFile, make_table

SCHEMA = Schema(NestedField(1, "id", LongType(), False), NestedField(2, "s", StringType(), False))
PLAIN, BY_S = (
    PartitionSpec(spec_id=0),
    PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"), spec_id=1),
)


def files_of(number: int) -> list[MadeFile]:
    return [MadeFile(({1: 100 * number + n, 2: f"s{number % 3}"},)) for n in range(number % 4 + 1)]


@pytest.fixture
def made() -> Made:
    """Forty manifests, by turns of two specs and three of one, each with up to four files."""
    specs = [BY_S if n % 5 in (1, 3) or n > 30 else PLAIN for n in range(40)]
    return make_table(SCHEMA, [(spec, files_of(n)) for n, spec in enumerate(specs)])


def planned(
    made: Made, text: str, **more: Any
) -> tuple[list[tuple[str, str, int]], dict[str, Any]]:
    clear_caches()
    found = plan(
        made.metadata,
        made.storage,
        snapshot=made.metadata.current_snapshot(),
        row_filter=parse(text),
        schema=SCHEMA,
        **more,
    )
    report = {
        k: v
        for k, v in vars(found.report).items()
        if isinstance(v, int) and k != "total_planning_duration"
    }
    return [(t.file.file_path, str(t.residual), t.file.record_count) for t in found.tasks()], report


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "id = 703",
        "id > 3000",
        "s = 's1'",
        "s = 's1' and id < 1200",
        "id is null",
        "not (s = 's2')",
        "false",
    ],
)
@pytest.mark.parametrize("pack", [1, 3, 64])
def test_the_plan_is_that_of_each_manifest_by_itself(
    made: Made, text: str, pack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "_SMALL", 0)
    one_by_one = planned(made, text)
    monkeypatch.setattr(manifests, "_SMALL", 1 << 30)
    monkeypatch.setattr(packs_of, "__defaults__", (pack, 1 << 20))
    assert planned(made, text) == one_by_one
    assert (one_by_one[1]["result_data_files"] == 0) == (text in ("id is null", "false"))


def test_packs_hold_neighbours_of_one_spec_and_end_with_their_bytes() -> None:
    def manifest(number: int, spec: int, size: int = 10) -> ManifestFile:
        return ManifestFile(
            manifest_path=str(number),
            manifest_length=size,
            partition_spec_id=spec,
            added_snapshot_id=1,
        )

    given = [
        manifest(0, 0),
        manifest(1, 0),
        manifest(2, 1),
        manifest(3, 0),
        manifest(4, 0, 200),
        manifest(5, 0),
        manifest(6, 0),
    ]
    assert [[int(m.manifest_path) for m in pack] for pack in packs_of(given, 2, 100)] == [
        [0, 1],
        [2],
        [3],
        [4],
        [5, 6],
    ]
    assert packs_of([]) == []


def test_small_local_manifests_are_read_by_one_thread_and_remote_ones_by_many(
    made: Made, tmp_path: Any
) -> None:
    local = storage_for(str(tmp_path), {})
    small = [
        ManifestFile(
            manifest_path=f"{tmp_path}/m{n}.avro",
            manifest_length=2000,
            partition_spec_id=0,
            added_snapshot_id=1,
        )
        for n in range(9)
    ]
    large = [
        ManifestFile(
            manifest_path=f"{tmp_path}/l{n}.avro",
            manifest_length=2 << 20,
            partition_spec_id=0,
            added_snapshot_id=1,
        )
        for n in range(9)
    ]
    assert (
        threads_for(small, local, 4) == 1
        and threads_for(large, local, 4) == 4
        and threads_for([], local, 4) == 4
    )
    remote = [replace(m, manifest_path=f"s3://b{m.manifest_path}") for m in (*small, *large)]
    s3 = storage_for("s3://b", {})
    assert (
        threads_for(remote[:9], s3, 2) == 16
        and threads_for(remote[9:], s3, 2) == 16
        and threads_for(remote, s3, 32) == 32
    )
    huge = [replace(m, manifest_length=16 << 20) for m in remote]
    assert threads_for(huge, s3, 2) == 4, "so many bytes are held at once, and no more"
    with planning_threads(3):
        assert threads_for(remote, s3, 3) == 3, "a configured number counts"
    assert threads_for(small, made.storage, 4) == (
        1 if made.storage.local_path(small[0].manifest_path) else 4
    )
