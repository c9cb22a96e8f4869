"""A large manifest pruned by bounds before its counts are read: the same files, one read of the
manifest, no counts of files that go.
"""

import importlib

import pytest

from frazil.codec import avro_write
from frazil.expr.parse import parse
from frazil.scan import manifests, prune
from frazil.scan.manifests import clear_caches
from frazil.scan.plan import plan
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.types import LongType, NestedField, StringType
from tests.scan.made import MadeFile, make_table

planning = importlib.import_module("frazil.scan.plan")
SCHEMA = Schema(NestedField(1, "id", LongType(), False), NestedField(2, "s", StringType(), False))


@pytest.fixture
def made(monkeypatch):
    """One manifest of 400 files in many blocks; file n holds the ids 10 n and 10 n + 1, and every
    fifth a null.
    """
    monkeypatch.setattr(avro_write, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(manifests, "_SMALL", 0)
    files = [
        MadeFile(({1: 10 * n, 2: f"s{n}"}, {1: None if n % 5 == 0 else 10 * n + 1}))
        for n in range(400)
    ]
    return make_table(SCHEMA, [(PartitionSpec(), files)])


def planned(made, text, least=0):
    clear_caches()
    made.storage.reads.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prune, "LEAST_BYTES", least)
        found = plan(
            made.metadata,
            made.storage,
            snapshot=made.metadata.current_snapshot(),
            row_filter=parse(text),
            schema=SCHEMA,
        )
    return [(repr(t.file), t.residual is None) for t in found.tasks()], (
        found.report.skipped_by_statistics,
        found.report.result_data_files,
    )


@pytest.fixture
def asked(monkeypatch):
    """The columns of each look into a manifest, and how many entries were found."""
    looks = []

    def told(real):
        def decode(*arguments, columns=None, **more):
            table = real(*arguments, columns=columns, **more)
            looks.append((frozenset(columns or ()), table.num_rows))
            return table

        return decode

    for room in (prune, importlib.import_module("frazil.scan.manifests")):
        monkeypatch.setattr(room, "decode_manifest", told(room.decode_manifest))
    return looks


FILTERS = [
    "id = 1230", "id in (0, 1991, 3990)", "id between 2000 and 2100", "id >= 3990", "id < 0", "id is null", "not (id <> 70)", "s = 's17'",
    "id >= 100", "id is not null", "id > 3970 and id < 3982", "id = 5 or s = 's399'",
]  # fmt: skip


@pytest.mark.parametrize("text", FILTERS)
def test_the_same_files_are_planned_as_in_one_look(made, text):
    assert planned(made, text) == planned(made, text, 1 << 30)


def test_counts_are_read_for_the_files_that_bounds_keep_and_the_manifest_once(made, asked):
    files, (skipped, left) = planned(made, "id between 2000 and 2011")
    assert len(files) == left == 2 and skipped == 398
    assert len(made.storage.reads) == 2  # the list and the manifest
    sample, bounds, counts = asked
    assert sample[1] < 100 and bounds[1] == 400 and counts[1] == 2
    assert not bounds[0] & counts[0] and "value_counts" in counts[0] and "lower_bounds" in bounds[0]


def test_a_filter_that_keeps_much_of_the_sample_is_one_look_more(made, asked):
    planned(made, "id >= 100")
    sample, whole = asked
    assert sample[1] < 100 and whole[1] == 400 and "value_counts" in whole[0]


def test_a_manifest_that_was_read_before_is_read_whole(made, asked):
    planned(made, "id = 1230")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prune, "LEAST_BYTES", 0)
        for _ in range(2):
            found = plan(
                made.metadata,
                made.storage,
                snapshot=made.metadata.current_snapshot(),
                row_filter=parse("id = 1240"),
                schema=SCHEMA,
            )
            assert len(found) == 1
    assert [rows for _, rows in asked[3:]] == [400]
