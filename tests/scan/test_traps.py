"""What manifests do not say proves nothing: defaults, metrics left out, hidden nulls, foreign
transforms, deletes, encryption.
"""

from dataclasses import replace

import pytest

from frazil.errors import CorruptData, NoSuchFileError, Unsupported
from frazil.expr.parse import parse
from frazil.scan.inspect import metadata_table
from frazil.scan.manifests import ByteCache, clear_caches, manifest_cache
from frazil.scan.options import ScanOptions
from frazil.scan.plan import plan
from frazil.spec.manifest import DataFile, ManifestEntry, ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshots
from frazil.spec.transforms import DayTransform, IdentityTransform, UnknownTransform, VoidTransform
from frazil.spec.types import DateType, DoubleType, LongType, NestedField, StructType
from tests.scan.made import DictStorage, MadeFile, data_file, make_table, manifest, table_metadata

ID, D, P, S, X = 1, 2, 3, 4, 5
SCHEMA = Schema(
    NestedField(ID, "id", LongType()),
    NestedField(D, "d", DoubleType()),
    NestedField(P, "p", DateType()),
    NestedField(S, "s", StructType(NestedField(X, "x", LongType()))),
)
BY_DAY = PartitionSpec(PartitionField(P, 1000, DayTransform(), "p_day"), spec_id=0)
PLAIN = PartitionSpec(spec_id=1)


@pytest.fixture(autouse=True)
def _cold():
    clear_caches()


def planned(made, text, schema=SCHEMA, **more):
    return plan(
        made.metadata,
        made.storage,
        snapshot=made.metadata.current_snapshot(),
        row_filter=parse(text),
        schema=schema,
        **more,
    )


def rows(*values, field=ID):
    return tuple({field: v} for v in values)


def count(made, text, schema=SCHEMA):
    return len(planned(made, text, schema))


def test_a_column_that_old_files_lack_may_hold_its_default():
    newer = Schema(*SCHEMA.fields, NestedField(9, "z", LongType(), initial_default=7))
    made = make_table(
        newer,
        [(PLAIN, [MadeFile(rows(1, 2), lacks=frozenset({9})), MadeFile(rows(5, 6, field=9))])],
        format_version=3,
    )
    assert count(made, "z = 7", newer) == 1
    assert count(made, "z = 5", newer) == 2
    assert count(made, "z IS NOT NULL", newer) == 2


def test_a_column_without_metrics_is_not_taken_for_null():
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(1, 2), keep="")])])
    assert (
        count(made, "id = 1") == 1
        and count(made, "id IS NOT NULL") == 1
        and planned(made, "id IS NULL").matched_records == 0
    )


def test_nulls_of_an_outer_struct_hide_behind_a_small_value_count():
    storage = DictStorage()
    file = DataFile(
        file_path="f",
        file_format="parquet",
        record_count=10,
        file_size_in_bytes=1,
        value_counts={X: 7},
        null_value_counts={X: 0},
        spec_id=1,
    )
    one = manifest(storage, "/t/m-hidden.avro", [ManifestEntry(1, file, 1)], PLAIN, SCHEMA)
    made_metadata = table_metadata(storage, SCHEMA, [one], [PLAIN])
    find = lambda text: plan(
        made_metadata,
        storage,
        snapshot=made_metadata.current_snapshot(),
        row_filter=parse(text),
        schema=SCHEMA,
    )
    assert len(find("s.x IS NULL")) == 1
    assert find("s.x IS NOT NULL").matched_records == 0
    no_count = replace(file, value_counts=None)
    two = manifest(storage, "/t/m-hidden2.avro", [ManifestEntry(1, no_count, 1)], PLAIN, SCHEMA)
    made_metadata = table_metadata(storage, SCHEMA, [two], [PLAIN])
    clear_caches()
    assert len(find("s.x IS NULL")) == 1


def test_counts_prove_all_null_and_no_null():
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(None, None)), MadeFile(rows(1, 2))])])
    assert count(made, "id IS NULL") == 1 and count(made, "id > 0") == 1
    assert (
        planned(made, "id IS NULL").matched_records == 2
        and planned(made, "id IS NOT NULL").matched_records == 2
    )


def test_nan_is_above_every_bound_unless_its_count_is_known_to_be_zero():
    nan = float("nan")
    made = make_table(
        SCHEMA,
        [
            (
                PLAIN,
                [
                    MadeFile(rows(1.0, 2.0, field=D)),
                    MadeFile(rows(1.0, nan, field=D)),
                    MadeFile(rows(1.0, nan, field=D), keep="vnb"),
                ],
            )
        ],
    )
    assert count(made, "d > 5") == 2
    assert planned(made, "NOT (d > 5)").matched_records == 2
    assert planned(made, "d < 3").matched_records == 2


def test_negative_zero_is_zero():
    made = make_table(
        SCHEMA, [(PLAIN, [MadeFile(rows(-0.0, field=D)), MadeFile(rows(0.0, field=D))])]
    )
    assert (
        count(made, "d = 0") == 2
        and count(made, "d < 0") == 0
        and planned(made, "d = 0").matched_records == 2
    )
    by_value = PartitionSpec(PartitionField(D, 1000, IdentityTransform(), "d"), spec_id=0)
    made = make_table(
        SCHEMA, [(by_value, [MadeFile(rows(-0.0, 0.0, float("nan"), field=D), keep="")])]
    )
    assert (
        count(made, "d = 0") == 2
        and planned(made, "d IN (0, 3)").matched_records == 2
        and count(made, "d > 5") == 1
    )


def test_void_fields_say_nothing_and_dropped_sources_do_no_harm():
    void = PartitionSpec(PartitionField(ID, 1000, VoidTransform(), "id"), spec_id=0)
    made = make_table(SCHEMA, [(void, [MadeFile(rows(1), keep="")])])
    assert count(made, "id = 1") == 1 and planned(made, "id IS NULL").matched_records == 0
    without = Schema(*SCHEMA.fields[1:], schema_id=1)
    by_id = PartitionSpec(PartitionField(ID, 1000, IdentityTransform(), "id"), spec_id=0)
    made = make_table(SCHEMA, [(by_id, [MadeFile(rows(1, 2), keep="")])])
    dropped = replace(made.metadata, schemas=(SCHEMA, without), current_schema_id=1)
    found = plan(
        dropped,
        made.storage,
        snapshot=dropped.current_snapshot(),
        row_filter=parse("d = 1"),
        schema=without,
    )
    assert len(found) == 2 and sorted(t.partition for t in found.tasks()) == [(1,), (2,)]
    listed = metadata_table("partitions", dropped, made.storage)
    assert "partition" not in listed.column_names and listed.num_rows == 1


def test_an_unknown_transform_is_read_past():
    strange = PartitionSpec(
        PartitionField(ID, 1000, UnknownTransform("zorder[2]"), "id_z"), spec_id=0
    )
    plain = PartitionSpec(PartitionField(ID, 1000, IdentityTransform(), "id_z"), spec_id=0)
    made = make_table(SCHEMA, [(plain, [MadeFile(rows(1, 2))])])
    metadata = replace(made.metadata, partition_specs=(strange,))
    found = plan(
        metadata,
        made.storage,
        snapshot=metadata.current_snapshot(),
        row_filter=parse("id = 1"),
        schema=SCHEMA,
    )
    assert len(found) == 1
    assert metadata_table("files", metadata, made.storage).column("partition").to_pylist() == [
        {"id_z": "1"},
        {"id_z": "2"},
    ]


def days(*numbers):
    return tuple({ID: i, P: day} for i, day in enumerate(numbers))


def test_manifests_of_other_days_are_not_opened():
    made = make_table(
        SCHEMA, [(BY_DAY, [MadeFile(days(10, 11))]), (BY_DAY, [MadeFile(days(20, 21))])]
    )
    found = planned(made, "p = DATE '1970-01-21'")
    assert len(found) == 1 and sum("-m" in r for r in made.storage.reads) == 1
    report = found.report
    assert (
        report.total_data_manifests,
        report.scanned_data_manifests,
        report.skipped_data_manifests,
    ) == (2, 1, 1)
    assert (
        report.skipped_by_partition,
        report.skipped_by_statistics,
        report.result_data_files,
    ) == (1, 0, 1)
    assert report.as_dict()["skipped-data-manifests"] == 1
    text = str(found.explain())
    assert (
        "1 of 2 read, 1 skipped by partition summaries" in text and "1 by partition values" in text
    )


def with_deletes(delete_spec, partition, counts=True, content=1):
    made = make_table(SCHEMA, [(BY_DAY, [MadeFile(days(10, 11))])])
    storage = made.storage
    data = manifest(
        storage,
        "/t/d.avro",
        [ManifestEntry(1, data_file("f", MadeFile(days(10)), BY_DAY, SCHEMA, (10,)), 1)],
        BY_DAY,
        SCHEMA,
    )
    delete = DataFile(
        content=content,
        file_path="del",
        file_format="parquet",
        record_count=1,
        file_size_in_bytes=1,
        partition=partition,
        spec_id=delete_spec.spec_id,
        equality_ids=(1,) if content == 2 else None,
    )
    deletes = manifest(
        storage,
        "/t/x.avro",
        [ManifestEntry(1, delete, 1)],
        delete_spec,
        SCHEMA,
        content=1,
        sequence_number=2,
    )
    if not counts:
        deletes = replace(deletes, added_files_count=None, existing_files_count=None)
    metadata = table_metadata(storage, SCHEMA, [data, deletes], [BY_DAY, PLAIN])
    return metadata, storage


def test_deletes_that_reach_the_planned_partitions_are_reported():
    metadata, storage = with_deletes(BY_DAY, (10,))
    find = lambda text: plan(
        metadata,
        storage,
        snapshot=metadata.current_snapshot(),
        row_filter=parse(text),
        schema=SCHEMA,
    )
    assert find("TRUE").has_deletes and find("p = DATE '1970-01-11'").has_deletes
    tasks = find("TRUE").tasks()
    assert [d.file_path for t in tasks for d in t.delete_files] == ["del"]


def test_deletes_of_other_partitions_do_not_matter_but_equality_deletes_without_partition_do():
    metadata, storage = with_deletes(BY_DAY, (11,))
    find = lambda text: plan(
        metadata,
        storage,
        snapshot=metadata.current_snapshot(),
        row_filter=parse(text),
        schema=SCHEMA,
    )
    assert not find("p = DATE '1970-01-11'").has_deletes and not find("TRUE").has_deletes
    assert "/t/x.avro" in storage.reads
    metadata, storage = with_deletes(PLAIN, (), content=2)
    assert find("p = DATE '1970-01-11'").has_deletes
    assert not find("p = DATE '1970-01-30'").has_deletes  # no data file is left to delete from
    metadata, storage = with_deletes(PLAIN, ())
    assert not find("TRUE").has_deletes  # positions reach only files of their own spec


def test_delete_manifests_of_other_partitions_are_not_read():
    metadata, storage = with_deletes(BY_DAY, (30,))
    find = lambda text: plan(
        metadata,
        storage,
        snapshot=metadata.current_snapshot(),
        row_filter=parse(text),
        schema=SCHEMA,
    )
    report = find("p = DATE '1970-01-11'").report
    assert (
        report.total_delete_manifests,
        report.scanned_delete_manifests,
        report.skipped_delete_manifests,
    ) == (1, 0, 1)
    assert "/t/x.avro" not in storage.reads


def encrypted(**change):
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(1))])])
    snapshot = replace(made.metadata.current_snapshot(), **change)
    made.metadata = replace(made.metadata, snapshots=Snapshots.of([snapshot]))
    return made


def test_encrypted_tables_are_refused_by_name():
    with pytest.raises(Unsupported, match=r"Table /t is encrypted"):
        planned(encrypted(key_id="k"), "TRUE")
    storage = DictStorage()
    file = DataFile(
        file_path="secret.parquet",
        file_format="parquet",
        record_count=1,
        file_size_in_bytes=1,
        key_metadata=b"k",
        spec_id=1,
    )
    one = manifest(storage, "/t/m-secret.avro", [ManifestEntry(1, file, 1)], PLAIN, SCHEMA)
    metadata = table_metadata(storage, SCHEMA, [one], [PLAIN])
    with pytest.raises(Unsupported, match=r"secret\.parquet"):
        plan(metadata, storage, snapshot=metadata.current_snapshot(), schema=SCHEMA)
    metadata = table_metadata(storage, SCHEMA, [replace(one, key_metadata=b"k")], [PLAIN])
    clear_caches()
    with pytest.raises(Unsupported, match=r"m-secret\.avro"):
        plan(metadata, storage, snapshot=metadata.current_snapshot(), schema=SCHEMA)


def test_a_manifest_that_is_gone_or_damaged_is_named():
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(1))])])
    (path,) = [p for p in made.storage.files if "-m0" in p]
    whole = made.storage.files.pop(path)
    with pytest.raises(NoSuchFileError) as gone:
        planned(made, "TRUE")
    assert gone.value.facts["file"] == path
    made.storage.files[path] = whole[:-20]
    with pytest.raises(CorruptData) as torn:
        planned(made, "TRUE")
    assert torn.value.facts["file"] == path


def test_manifests_are_read_once_and_read_again_when_the_cache_is_cleared():
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(1))])])
    planned(made, "TRUE")
    reads = len(made.storage.reads)
    planned(made, "TRUE")
    assert len(made.storage.reads) == reads == 2
    planned(made, "id = 1")  # needs columns that were not decoded
    assert len(made.storage.reads) == reads + 1
    planned(made, "id = 2 AND d = 1")
    assert len(made.storage.reads) == reads + 1
    clear_caches()
    planned(made, "TRUE")
    assert len(made.storage.reads) == reads + 3
    assert 0 < manifest_cache.bytes <= manifest_cache.max_bytes


def test_the_cache_keeps_to_its_bytes():
    cache = ByteCache(100)
    for i in range(20):
        cache.put(i, i, 20)
        cache.get(0)
    assert (
        cache.bytes <= 100 and cache.get(0) == 0 and cache.get(19) == 19 and cache.get(10) is None
    )
    cache.put("big", 1, 26)
    assert cache.get("big") is None


def test_a_manifest_without_counts_is_opened_and_one_with_none_left_is_not():
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(1))])])
    (one,) = [
        ManifestFile(manifest_path=p, manifest_length=1, partition_spec_id=1)
        for p in made.storage.files
        if "-m0" in p
    ]
    assert one.has_live_files
    assert not replace(one, added_files_count=0, existing_files_count=0).has_live_files


def test_planned_files_carry_their_statistics_when_asked():
    made = make_table(SCHEMA, [(PLAIN, [MadeFile(rows(1, 5))])])
    (task,) = planned(made, "id > 0").tasks()
    assert task.file.lower_bounds is None
    (task,) = planned(made, "id > 0", options=ScanOptions(with_stats=True)).tasks()
    assert task.file.value_counts[ID] == 2 and task.file.lower_bounds[ID] == (1).to_bytes(
        8, "little"
    )


def test_an_empty_manifest_list_of_a_snapshot_with_files_is_corrupt():
    made = make_table(SCHEMA, [(PLAIN, [])])
    assert count(made, "TRUE") == 0
    clear_caches()
    snapshot = replace(
        made.metadata.current_snapshot(), summary={"operation": "append", "total-data-files": "3"}
    )
    made.metadata = replace(made.metadata, snapshots=Snapshots.of([snapshot]))
    with pytest.raises(CorruptData, match="3 data files"):
        count(made, "TRUE")
