"""What became of each delete file, held against the rules of the specification applied one pair at
a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from frazil.codec.metadata_json import decode_metadata
from frazil.errors import InvalidInput
from frazil.expr.parse import parse
from frazil.scan import deletes as room
from frazil.scan.explain import explain_deletes
from frazil.scan.explain.delete_report import EXPLAINED, ExplainedDelete, ExplainedDeletes, Reason
from frazil.scan.manifests import clear_caches, is_data, live, manifests_of, read_manifest
from frazil.scan.plan import Plan, may_match, plan
from frazil.spec.manifest import DataFile
from frazil.spec.schema import DELETE_FILE_PATH_ID
from frazil.storage import storage_for
from frazil.storage.locations import normalise
from tests.builders.examples import examples
from tests.golden import names
from tests.scan.deleting import (
    BY_S,
    PLAIN,
    SCHEMA,
    File,
    files,
    named,
    planned,
    reason_by_rules,
    vectors_of,
)
from tests.scan.made import MadeFile, data_file

FILTERS = {
    "TRUE": None,
    "s = 'b'": (3, "b"),
    "d = 1.5": (2, 1.5),
    "id = 900": (1, 900),
    "s = 'zz'": (3, "zz"),
}


def excluded(found: Plan, deletes: list[File], term: tuple[int, Any] | None) -> set[int]:
    """Specs whose manifest of deletes the partition summaries exclude (tests of pruning hold that);
    here: no partition in it is looked for.
    """
    matching = may_match(found.all_delete_manifests, found.metadata, found.row_filter, found.schema)
    unseen = {m.partition_spec_id for m in found.all_delete_manifests} - {
        m.partition_spec_id for m in matching
    }
    for d in deletes:
        if d.spec.spec_id in unseen:
            assert (
                term is not None
                and term[0] in [f.source_id for f in d.spec.fields]
                and term[1] not in d.file.partition
            )
    return unseen


def check(
    found: ExplainedDelete, delete: File, data: list[File], reached: int, vectors: set[str]
) -> None:
    about = named(delete.file)
    assert found.applies == (reached > 0) and found.data_files == reached, (str(found), delete)
    assert found.reason == (None if reached else reason_by_rules(delete, data, vectors)), (
        str(found),
        delete,
    )
    kind = (
        "vector"
        if delete.file.file_format == "puffin"
        else "equality"
        if int(delete.file.content) == 2
        else "position"
    )
    everywhere = kind == "equality" and delete.spec.is_unpartitioned
    assert (found.kind, found.scope) == (
        kind,
        "file" if about else "table" if everywhere else "partition",
    )
    assert (found.sequence_number, found.record_count, found.spec_id) == (
        delete.sequence,
        delete.file.record_count,
        delete.spec.spec_id,
    )
    assert (found.referenced_data_file and normalise(found.referenced_data_file)) == about
    assert (found.equality_columns is None) == (kind != "equality")


@pytest.mark.parametrize("pairs", [room.PAIRS, 0])
@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(made=files(), text=st.sampled_from(sorted(FILTERS)))
def test_every_delete_file_is_told_of_as_the_specification_has_it(
    monkeypatch: Any, pairs: int, made: Any, text: str
) -> None:
    data, deletes = made
    monkeypatch.setattr(room, "PAIRS", pairs)
    monkeypatch.setattr(room, "_CHUNK", 3)
    found = planned(data, deletes, text)
    explained = found.explain()
    tasks = {t.file.file_path: {d.file_path for d in t.delete_files} for t in found.tasks()}
    read = [f for f in data if f.file.file_path in tasks]
    unseen = excluded(found, deletes, FILTERS[text])
    vectors = vectors_of(read, [d for d in deletes if d.spec.spec_id not in unseen])
    by_path = {d.file_path: d for d in explained.deletes}
    assert len(by_path) == len(explained.deletes) == len(deletes) and explained.deletes.exact
    for delete in deletes:
        one = by_path[delete.file.file_path]
        event(str(one.reason))
        if delete.spec.spec_id in unseen:
            assert (one.reason, one.data_files) == (Reason.MANIFEST, 0)
            continue
        check(
            one,
            delete,
            read,
            sum(delete.file.file_path in some for some in tasks.values()),
            vectors,
        )
    for file in read:
        for one in explained.deletes_of(file.file.file_path):
            delete = next(d for d in deletes if d.file.file_path == one.file_path)
            if delete.spec.spec_id not in unseen:
                check(
                    one, delete, [file], int(one.file_path in tasks[file.file.file_path]), vectors
                )
    assert explained.deletes.to_arrow().schema == EXPLAINED
    explained.deletes.to_arrow().validate(full=True)
    assert len(explained.deletes.applied) == len({p for some in tasks.values() for p in some})
    assert sum(explained.deletes.reasons.values()) == len(explained.deletes.dropped)


@pytest.mark.parametrize("name", names(deletes=True))
def test_deletes_of_other_engines_are_told_of_as_the_specification_has_it(
    golden: Any, name: str
) -> None:
    clear_caches()
    table = golden[name]
    metadata = decode_metadata(Path(table.metadata_file).read_bytes(), table.metadata_file)
    storage = storage_for(metadata.location, {})
    texts = ["TRUE", *(f["sql"] for f in table.expected.get("filters", [])[:3])]
    for snapshot in metadata.snapshots:
        for text in texts:
            found = plan(
                metadata,
                storage,
                snapshot=snapshot,
                schema=metadata.schema(),
                row_filter=parse(text),
            )
            tasks = list(found.tasks())
            read = [File(t.file, t.data_sequence_number or 0, t.spec) for t in tasks]
            deletes = []
            for manifest in manifests_of(metadata, snapshot, storage):
                if not is_data(manifest):
                    spec = metadata.spec_by_id(manifest.partition_spec_id)
                    for e in room.entries_from_table(live(read_manifest(storage, manifest)), spec):
                        deletes.append(File(e.data_file, e.sequence_number or 0, spec))
            explained = found.explain().deletes
            assert len(explained) == len(deletes)
            key = lambda path, about, number: (path, about and normalise(about), number)
            by_key = {
                key(d.file_path, d.referenced_data_file, d.sequence_number): d for d in explained
            }
            for delete in deletes:
                one = by_key[key(delete.file.file_path, named(delete.file), delete.sequence)]
                if one.reason is not Reason.MANIFEST:
                    place = (delete.file.file_path, delete.file.content_offset)
                    applied = sum(
                        (d.file_path, d.content_offset) == place
                        for t in tasks
                        for d in t.delete_files
                    )
                    check(one, delete, read, applied, vectors_of(read, deletes))
            assert str(found.explain())


def one(path: str, sequence: int, spec: Any = PLAIN, partition: tuple[Any, ...] = ()) -> File:
    row = {1: 1, 2: 1.5, 3: partition[0] if partition else "a"}
    return File(data_file(path, MadeFile((row,)), spec, SCHEMA, partition), sequence, spec, (row,))


def delete(name: str, sequence: int, spec: Any = PLAIN, **change: Any) -> File:
    facts = {
        "content": 1,
        "file_path": name,
        "file_format": "parquet",
        "record_count": 1,
        "file_size_in_bytes": 9,
        "spec_id": spec.spec_id,
    }
    return File(DataFile(**{**facts, **change}), sequence, spec)


def test_the_text_says_what_applies_and_why_the_rest_does_not() -> None:
    data = [one("/t/data/a", 3), one("/t/data/b", 5, BY_S, ("x y",))]
    deletes = [
        delete("/t/hit", 4, content=2, equality_ids=(1, 3)),
        delete("/t/old", 3, content=2, equality_ids=(1,)),
        delete("/t/gone", 9, referenced_data_file="/t/data/c"),
        delete("/t/part", 9, BY_S, partition=("z",)),
        delete("/t/here", 9, BY_S, partition=("x y",)),
    ]
    found = planned(data, deletes).explain()
    assert str(found.deletes).splitlines() == [
        "5 delete files: 2 apply, 3 dropped",
        "  equality deletes by id, s everywhere, 1 row, sequence number 4: applies to 1 data file (/t/hit)",
        "  position deletes in s=x+y, 1 row, sequence number 9: applies to 1 data file (/t/here)",
        "  equality deletes by id everywhere, 1 row, sequence number 3: dropped, the sequence number is too low for all data files in reach, "
        "the oldest needs more than 3 (/t/old)",
        "  position deletes of /t/data/c, 1 row, sequence number 9: dropped, the data file it applies to is not read (/t/gone)",
        "  position deletes in s=z, 1 row, sequence number 9: dropped, no data file of the same spec and partition is read (/t/part)",
    ]
    assert "not applied: 3 delete files" in str(
        found
    ) and "the data file it applies to is not read (/t/gone)" in str(found)
    assert found.deletes.reasons == {Reason.DATA_FILE: 1, Reason.PARTITION: 1, Reason.SEQUENCE: 1}
    of_b = {d.file_path: d.reason for d in found.deletes_of("file:/t/data/b")}
    assert of_b == {
        "/t/hit": Reason.SEQUENCE,
        "/t/old": Reason.SEQUENCE,
        "/t/gone": Reason.DATA_FILE,
        "/t/part": Reason.PARTITION,
        "/t/here": None,
    }
    with pytest.raises(InvalidInput, match="does not read /t/data/z"):
        found.deletes_of("/t/data/z")


def test_many_delete_files_make_a_short_text_and_no_objects() -> None:
    deletes = [delete(f"/t/x{i}", 2, referenced_data_file=f"/t/data/{i % 50}") for i in range(2000)]
    deletes += [delete(f"/t/y{i}", 0, content=2, equality_ids=(1,)) for i in range(30)]
    found = planned([one(f"/t/data/{i}", 1) for i in range(25)], deletes).explain()
    text = repr(found.deletes).splitlines()
    assert len(text) == 14 and text[0] == "2,030 delete files: 1,000 apply, 1,030 dropped"
    assert text[11] == "  and 990 more" and text[12].startswith(
        "  1,000: the data file it applies to is not read; the first is /t/x25"
    )
    assert len(str(found).splitlines()) < 20
    some = found.deletes[1998:2001]
    assert isinstance(some, ExplainedDeletes) and [d.file_path for d in some] == [
        "/t/x1998",
        "/t/x1999",
        "/t/y0",
    ]
    assert found.deletes[-1] == list(found.deletes)[-1] and found.deletes[-1].file_path == "/t/y29"
    with pytest.raises(IndexError):
        found.deletes[2030]


def test_reasons_are_found_only_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: Any) -> Any:
        raise AssertionError("looked")

    monkeypatch.setattr(explain_deletes, "_reasons", looked)
    explained = planned([one("/t/data/a", 1)], [delete("/t/x", 1)]).explain()
    assert explained.report.applying_delete_files == 1
    with pytest.raises(AssertionError, match="looked"):
        str(explained)


def test_too_many_pairs_are_counted_at_most_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "PAIRS", 0)
    monkeypatch.setattr(explain_deletes, "MOST_PAIRS", 1)
    bounds = {
        "lower_bounds": {DELETE_FILE_PATH_ID: b"/t/data/x"},
        "upper_bounds": {DELETE_FILE_PATH_ID: b"/t/data/z"},
    }
    explained = planned(
        [one("/t/data/a", 1), one("/t/data/y", 1)], [delete("/t/x", 1, **bounds)]
    ).explain()
    assert not explained.deletes.exact and explained.deletes[0].data_files == 2
    assert explained.deletes[0].why == "applies to at most 2 data files"
    assert "at most" in repr(explained.deletes) and "at most 1 apply" in str(explained)
    assert [d.data_files for d in explained.deletes_of("/t/data/a")] == [
        0
    ] and explained.deletes_of("/t/data/a").exact


def test_a_scan_without_deletes_or_without_files_has_its_explanation() -> None:
    assert len(planned([one("/t/data/a", 1)], []).explain().deletes) == 0
    empty = planned([one("/t/data/a", 1)], [delete("/t/x", 1)], "id = 77").explain()
    assert empty.deletes.reasons == {Reason.NO_DATA: 1} and "0 rows" in str(empty)
    assert empty.deletes.to_arrow().column("oldest_data_sequence_number").null_count == 1
    assert isinstance(empty.deletes.to_arrow(), pa.Table)
