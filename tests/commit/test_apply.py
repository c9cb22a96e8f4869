"""Updates applied to metadata: the rules a writer must keep, so that Java accepts what we write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.commit.apply import apply_updates
from frazil.commit.new_table import creation_updates, new_metadata, replacement
from frazil.errors import CommitFailedException, ValidationError
from frazil.spec import updates as u
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionField, PartitionSpec, build_spec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef
from frazil.spec.sorting import build_sort_order
from frazil.spec.transforms import BucketTransform, IdentityTransform
from frazil.spec.types import (
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
)
from frazil.spec.updates import check_requirements, requirements_for

SCHEMA = Schema(
    NestedField(10, "id", LongType(), True),
    NestedField(20, "s", StructType(NestedField(30, "a", StringType(), False)), False),
    NestedField(40, "l", ListType(50, LongType(), False), False),
    NestedField(60, "ts", TimestampType(), False),
)


def table(version: int = 2, **more: object) -> TableMetadata:
    return new_metadata(
        SCHEMA,
        build_spec(SCHEMA, ["bucket(4, id)"]),
        location="/t",
        format_version=version,
        now_ms=1000,
        **more,
    )  # type: ignore[arg-type]


def snapshot(
    n: int, md: TableMetadata, parent: int | None = None, at: int | None = None, rows: int = 10
) -> Snapshot:
    v3 = md.format_version >= 3
    return Snapshot(
        n,
        at if at is not None else md.last_updated_ms + 1,
        f"/t/l{n}",
        parent,
        md.last_sequence_number + 1 if md.format_version > 1 else 0,
        {"operation": "append"},
        0,
        first_row_id=md.next_row_id if v3 else None,
        added_rows=rows if v3 else None,
    )


def appended(md: TableMetadata, n: int, branch: str = "main") -> TableMetadata:
    head = md.ref_snapshot(branch) if branch in md.refs else md.current_snapshot()
    s = snapshot(n, md, head.snapshot_id if head else None)
    return apply_updates(
        md, [u.AddSnapshot(s), u.SetSnapshotRef(branch, SnapshotRef(n))], now_ms=s.timestamp_ms
    )


@pytest.fixture
def md() -> TableMetadata:
    return appended(table(), 1)


def test_a_new_table_gets_fresh_ids_level_by_level_and_javas_default_property() -> None:
    md = table(properties={"a": "b", "format-version": "2", "uuid": "x"})
    assert {md.schema().find_column_name(i): i for i in md.schema().by_id} == {
        "id": 1,
        "s": 2,
        "l": 3,
        "ts": 4,
        "s.a": 5,
        "l.element": 6,
    }
    assert [(f.source_id, f.field_id, f.name) for f in md.spec().fields] == [(1, 1000, "id_bucket")]
    assert md.last_column_id == 6 and md.last_partition_id == 1000
    assert md.properties == {"write.parquet.compression-codec": "zstd", "a": "b"}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("parted", [[], ["bucket(4, id)", "days(ts)"]])
@pytest.mark.parametrize("sorted_by", [[], ["id desc nulls last", "ts"]])
def test_the_updates_of_a_creation_make_the_same_table_from_nothing(
    version: int, parted: list[str], sorted_by: list[str]
) -> None:
    md = new_metadata(
        SCHEMA,
        build_spec(SCHEMA, parted),
        build_sort_order(SCHEMA, sorted_by),
        "/t",
        {"a": "b"},
        version,
        now_ms=1000,
    )
    updates = creation_updates(md)
    assert apply_updates(None, updates, now_ms=1000) == md
    s = snapshot(7, md)
    more = [u.AddSnapshot(s), u.SetSnapshotRef("main", SnapshotRef(7))]
    assert apply_updates(None, [*updates, *more], now_ms=1000) == apply_updates(
        md, more, now_ms=1000
    )
    assert requirements_for(None, updates) == (u.AssertCreate(),)


@pytest.mark.parametrize(
    "without", [u.AddSchema, u.AddPartitionSpec, u.AddSortOrder, u.SetLocation]
)
def test_a_table_is_not_made_of_updates_that_lack_a_part_of_it(without: type[u.Update]) -> None:
    kept = [one for one in creation_updates(table()) if not isinstance(one, without)]
    with pytest.raises(ValidationError):
        apply_updates(None, kept)
    no_uuid = [one for one in creation_updates(table()) if not isinstance(one, u.AssignUUID)]
    assert apply_updates(None, no_uuid).table_uuid


@pytest.mark.parametrize(
    "properties",
    [
        {"commit.retry.num-retries": "-1"},
        {"commit.retry.num-retries": "many"},
        {"write.metadata.metrics.default": "truncate(0)"},
        {"write.metadata.metrics.column.nope": "full"},
        {"format-version": "four"},
        {"format-version": "4"},
    ],
)
def test_a_property_that_commits_could_not_use_is_refused_at_creation(
    properties: dict[str, str],
) -> None:
    with pytest.raises(ValidationError):
        new_metadata(SCHEMA, location="/t", properties=properties)


def test_the_key_of_an_encrypted_table_neither_changes_nor_goes() -> None:
    changes = (
        (u.SetProperties({"encryption.key-id": "k2"}), "Cannot modify key ID"),
        (u.RemoveProperties(("a", "encryption.key-id")), "Cannot remove key ID"),
    )
    unused = new_metadata(SCHEMA, location="/t", properties={"encryption.key-id": "k1"})
    encrypted = replace(unused, encryption_keys=({"key-id": "1", "encrypted-by-id": "k1"},))
    for update, told in changes:
        with pytest.raises(ValidationError, match=told):
            apply_updates(encrypted, [update])
        assert apply_updates(unused, [update]).properties.get("encryption.key-id") != "k1"
    assert apply_updates(encrypted, [u.SetProperties({"encryption.key-id": "k1"})]) is encrypted


def test_types_and_defaults_of_v3_are_refused_before_v3() -> None:
    nano = Schema(NestedField(1, "t", TimestampNanoType(), False))
    with pytest.raises(ValidationError, match="not supported until v3"):
        new_metadata(nano, location="/t", format_version=2)
    default = Schema(NestedField(1, "t", LongType(), False, initial_default=3))
    with pytest.raises(ValidationError, match="not supported until v3"):
        new_metadata(default, location="/t", format_version=2)
    assert new_metadata(nano, location="/t", format_version=3).next_row_id == 0


def test_updates_that_say_what_is_there_give_back_the_same_object(md: TableMetadata) -> None:
    same = [
        u.SetProperties(dict(md.properties)),
        u.RemoveProperties(("nope",)),
        u.SetLocation("/t/"),
        u.UpgradeFormatVersion(2),
        u.SetSnapshotRef("main", SnapshotRef(1)),
        u.RemoveSnapshots((99,)),
        u.RemoveSnapshotRef("nope"),
        u.SetCurrentSchema(0),
        u.AddSchema(md.schema()),
        u.SetCurrentSchema(),
        u.RemoveStatistics(1),
        u.AssignUUID(str(md.table_uuid)),
    ]
    assert apply_updates(md, same) is md


def test_adding_a_snapshot_to_main_moves_everything_that_must_move() -> None:
    md = appended(appended(table(3), 1), 2)
    assert md.current_snapshot_id == 2 and md.last_sequence_number == 2 and md.next_row_id == 20
    assert [e.snapshot_id for e in md.snapshot_log] == [1, 2] and md.refs["main"] == SnapshotRef(2)
    assert md.last_updated_ms == md.snapshots.by_id(2).timestamp_ms  # type: ignore[union-attr]


def test_snapshots_passed_within_one_transaction_are_not_logged() -> None:
    md = table()
    one = snapshot(1, md)
    two = replace(snapshot(2, md, 1), sequence_number=2)
    done = apply_updates(
        md,
        [
            u.AddSnapshot(one),
            u.SetSnapshotRef("main", SnapshotRef(1)),
            u.AddSnapshot(two),
            u.SetSnapshotRef("main", SnapshotRef(2)),
        ],
    )
    assert [e.snapshot_id for e in done.snapshot_log] == [2] and len(done.snapshots) == 2


def test_a_rollback_is_logged_at_the_time_of_the_change() -> None:
    md = appended(appended(table(), 1), 2)
    back = apply_updates(md, [u.SetSnapshotRef("main", SnapshotRef(1))], now_ms=5000)
    assert (
        back.current_snapshot_id == 1
        and back.snapshot_log[-1].timestamp_ms == 5000 == back.last_updated_ms
    )
    assert back.last_sequence_number == 2


def test_removing_a_snapshot_takes_its_log_entry_and_all_before_along_and_its_refs_and_statistics() -> (
    None
):
    md = appended(appended(appended(table(), 1), 2), 3)
    md = apply_updates(
        md,
        [
            u.SetSnapshotRef("tag", SnapshotRef(2, "tag")),
            u.SetStatistics({"snapshot-id": 2, "statistics-path": "p"}),
        ],
    )
    done = apply_updates(md, [u.RemoveSnapshots((2,))])
    assert (
        [e.snapshot_id for e in done.snapshot_log] == [3]
        and "tag" not in done.refs
        and done.statistics == ()
    )
    assert [s.snapshot_id for s in done.snapshots] == [1, 3]


def test_last_updated_never_goes_back_when_the_clock_does() -> None:
    md = apply_updates(table(), [u.SetProperties({"a": "1"})], now_ms=90_000)
    assert apply_updates(md, [u.SetProperties({"a": "2"})], now_ms=10).last_updated_ms == 90_000


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (u.UpgradeFormatVersion(1), "downgrade"),
        (u.UpgradeFormatVersion(4), "unsupported"),
        (u.SetCurrentSchema(9), "unknown schema"),
        (u.SetCurrentSchema(), "no schema has been added"),
        (u.SetDefaultSpec(9), "unknown spec"),
        (u.RemoveSchemas((0,)), "current schema"),
        (u.RemovePartitionSpecs((0,)), "default partition spec"),
        (u.SetSnapshotRef("main", SnapshotRef(7)), "unknown snapshot"),
        (u.SetSnapshotRef("main", SnapshotRef(1, "tag")), "must be a branch"),
        (u.SetProperties({"uuid": "x"}), "reserved"),
        (u.AddSnapshot(Snapshot(1, 5, "/l", None, 2)), "already exists"),
        (u.AddSnapshot(Snapshot(5, 5, "/l", 1, 1)), "sequence number"),
        (
            u.AddPartitionSpec(PartitionSpec(PartitionField(99, 1001, IdentityTransform(), "x"))),
            "source column",
        ),
        (u.AddSchema(Schema(NestedField(1, "id", TimestampNanoType(), True))), "v3"),
        (u.AssignUUID(""), "uuid"),
    ],
)
def test_what_the_format_forbids_is_refused(update: u.Update, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        apply_updates(appended(table(), 1), [update])


def test_v3_snapshots_need_row_ids_that_are_not_behind() -> None:
    md = appended(table(3), 1)
    with pytest.raises(ValidationError, match="first-row-id is null"):
        apply_updates(md, [u.AddSnapshot(replace(snapshot(2, md, 1), first_row_id=None))])
    with pytest.raises(ValidationError, match="behind table next-row-id"):
        apply_updates(md, [u.AddSnapshot(replace(snapshot(2, md, 1), first_row_id=3))])


def test_an_equal_schema_or_spec_is_used_again_and_a_new_one_gets_the_next_id() -> None:
    md = table()
    wider = Schema(*md.schema().fields, NestedField(7, "x", LongType(), False), schema_id=77)
    md2 = apply_updates(md, [u.AddSchema(wider), u.SetCurrentSchema()])
    assert md2.current_schema_id == 1 and md2.last_column_id == 7
    back = apply_updates(md2, [u.AddSchema(md.schema()), u.SetCurrentSchema()])
    assert back.current_schema_id == 0 and len(back.schemas) == 2 and back.last_column_id == 7
    spec = PartitionSpec(PartitionField(1, 1001, BucketTransform(8), "b8"))
    md3 = apply_updates(md2, [u.AddPartitionSpec(spec), u.SetDefaultSpec()])
    assert md3.default_spec_id == 1 and md3.last_partition_id == 1001
    again = apply_updates(
        md3, [u.AddPartitionSpec(PartitionSpec(*md.spec().fields)), u.SetDefaultSpec()]
    )
    assert again.default_spec_id == 0 and len(again.partition_specs) == 2


def test_a_schema_without_the_source_of_the_default_spec_is_refused() -> None:
    md = table()
    with pytest.raises(ValidationError, match="source column"):
        apply_updates(md, [u.AddSchema(Schema(*md.schema().fields[1:])), u.SetCurrentSchema()])


def test_v1_specs_need_sequential_ids() -> None:
    with pytest.raises(ValidationError, match="sequential"):
        apply_updates(
            table(1),
            [u.AddPartitionSpec(PartitionSpec(PartitionField(1, 1001, BucketTransform(8), "b8")))],
        )


def test_upgrading_to_v3_starts_row_ids_at_zero() -> None:
    md = apply_updates(appended(table(1), 1), [u.UpgradeFormatVersion(3)])
    assert md.format_version == 3 and md.next_row_id == 0 and md.last_sequence_number == 0


def test_replacing_a_table_keeps_history_uuid_and_ids_of_columns_of_the_same_name(
    md: TableMetadata,
) -> None:
    other = Schema(
        NestedField(1, "ts", TimestampType(), False),
        NestedField(2, "id", LongType(), True),
        NestedField(3, "new", StringType(), False),
    )
    done = apply_updates(
        md,
        replacement(
            md,
            other,
            build_spec(other, ["days(ts)"]),
            build_sort_order(other, ["id desc"]),
            properties={"x": "y"},
        ),
    )
    assert (
        done.table_uuid == md.table_uuid
        and len(done.snapshots) == 1
        and done.current_snapshot_id is None
        and "main" not in done.refs
    )
    assert {f.name: f.field_id for f in done.schema().fields} == {"ts": 4, "id": 1, "new": 7}
    assert [(f.source_id, f.field_id) for f in done.spec().fields] == [
        (4, 1001)
    ] and done.default_sort_order_id == 1
    assert done.properties["x"] == "y" and [e.snapshot_id for e in done.snapshot_log] == [1]
    back = apply_updates(done, replacement(done, SCHEMA, build_spec(SCHEMA, ["bucket(4, id)"])))
    assert [(f.source_id, f.field_id) for f in back.spec().fields] == [
        (1, 1000)
    ] and back.default_spec_id == 0


def test_replacing_a_v1_table_keeps_its_old_partition_fields_as_void() -> None:
    md = table(1)
    done = apply_updates(md, replacement(md, SCHEMA, build_spec(SCHEMA, ["days(ts)"])))
    assert [(str(f.transform), f.field_id) for f in done.spec().fields] == [
        ("void", 1000),
        ("day", 1001),
    ]


def test_requirements_name_what_the_updates_stand_on(md: TableMetadata) -> None:
    found = requirements_for(
        md,
        [
            u.AddSchema(md.schema()),
            u.SetCurrentSchema(),
            u.SetSnapshotRef("main", SnapshotRef(2)),
            u.SetSnapshotRef("main", SnapshotRef(3)),
        ],
    )
    assert found == (
        u.AssertTableUUID(str(md.table_uuid)),
        u.AssertLastAssignedFieldId(6),
        u.AssertCurrentSchemaId(0),
        u.AssertRefSnapshotId("main", 1),
    )
    assert requirements_for(None, []) == (u.AssertCreate(),)
    replaced = requirements_for(
        md,
        [u.AddSchema(md.schema()), u.SetCurrentSchema(), u.SetSnapshotRef("main", SnapshotRef(2))],
        replace=True,
    )
    assert replaced == (u.AssertTableUUID(str(md.table_uuid)), u.AssertLastAssignedFieldId(6))


@pytest.mark.parametrize(
    "requirement",
    [
        u.AssertCreate(),
        u.AssertTableUUID("x"),
        u.AssertRefSnapshotId("main", 2),
        u.AssertRefSnapshotId("main", None),
        u.AssertRefSnapshotId("b", 1),
        u.AssertLastAssignedFieldId(1),
        u.AssertCurrentSchemaId(1),
        u.AssertLastAssignedPartitionId(1),
        u.AssertDefaultSpecId(3),
        u.AssertDefaultSortOrderId(2),
    ],
)
def test_a_broken_requirement_is_a_lost_race(requirement: u.Requirement, md: TableMetadata) -> None:
    check_requirements(
        md,
        requirements_for(
            md,
            [u.SetSnapshotRef("main", SnapshotRef(1)), u.SetCurrentSchema(0), u.SetDefaultSpec(0)],
        ),
    )
    with pytest.raises(CommitFailedException, match="Requirement failed"):
        check_requirements(md, [requirement])
    if not isinstance(requirement, u.AssertCreate):
        with pytest.raises(CommitFailedException):
            check_requirements(None, [requirement])


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["main", "b"])),
        st.tuples(st.just("remove"), st.integers(1, 12)),
        st.tuples(st.just("roll"), st.integers(1, 12)),
        st.tuples(st.just("clock"), st.integers(-100_000, 100_000)),
    ),
    max_size=14,
)


@given(_STEPS, st.sampled_from([1, 2, 3]))
def test_any_sequence_of_updates_keeps_what_java_checks(
    steps: list[tuple[str, object]], version: int
) -> None:
    md, clock, n = table(version), 2000, 0
    for kind, what in steps:
        clock += 10
        match kind:
            case "append":
                n += 1
                head = md.ref_snapshot(str(what)) if what in md.refs else md.current_snapshot()
                s = snapshot(
                    n, md, head.snapshot_id if head else None, at=max(clock, md.last_updated_ms)
                )
                md = apply_updates(
                    md,
                    [u.AddSnapshot(s), u.SetSnapshotRef(str(what), SnapshotRef(n))],
                    now_ms=clock,
                )
            case "remove":
                md = apply_updates(md, [u.RemoveSnapshots((int(str(what)),))], now_ms=clock)
            case "roll" if md.snapshots.by_id(int(str(what))) is not None:
                md = apply_updates(
                    md, [u.SetSnapshotRef("main", SnapshotRef(int(str(what))))], now_ms=clock
                )
            case "clock":
                clock = max(0, clock + int(str(what)))
        check_invariants(md)


def check_invariants(md: TableMetadata) -> None:
    ids = {s.snapshot_id for s in md.snapshots}
    assert all(r.snapshot_id in ids for r in md.refs.values())
    assert md.current_snapshot_id == (md.refs["main"].snapshot_id if "main" in md.refs else None)
    assert all(s.sequence_number <= md.last_sequence_number for s in md.snapshots)
    times = [e.timestamp_ms for e in md.snapshot_log]
    assert times == sorted(times) and (not times or times[-1] <= md.last_updated_ms)
    if md.current_snapshot_id is not None:
        assert md.snapshot_log[-1].snapshot_id == md.current_snapshot_id
    assert all(e.snapshot_id in ids for e in md.snapshot_log)
    if md.format_version == 3:
        assert (
            md.next_row_id == sum(s.added_rows or 0 for s in md.snapshots)
            or len(md.snapshots) < md.last_sequence_number
        )
