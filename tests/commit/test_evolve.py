"""Evolution of schema, spec, sort order and refs as pure changes of metadata, by PyIceberg's calls
and Java's rules.
"""

import json

import pytest

from frazil.codec.json_nouns import schema_to_json
from frazil.codec.metadata_json import decode_metadata, encode_metadata
from frazil.commit.apply import apply_updates
from frazil.commit.evolve.evolve_schema import SchemaChanges, name_mapping_of
from frazil.commit.evolve.evolve_spec import UpdateSortOrder, UpdateSpec
from frazil.commit.evolve.manage_snapshots import ManageSnapshots
from frazil.commit.new_table import new_metadata
from frazil.errors import InvalidInput, NoSuchRefError, NoSuchSnapshotError, ValidationError
from frazil.spec.ddl import parse_schema
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef
from frazil.spec.sorting import NullOrder, SortDirection, build_sort_order
from frazil.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
)
from frazil.spec.updates import AddSnapshot, SetSnapshotRef

SCHEMA = parse_schema(
    "id bigint not null, n int, f float, d decimal(5,2), day date, s struct<a: int, b: string>, l array<int>, m map<string, int>"
)


def table(version=2, partition_by=(), sort_by=(), properties=None, schema=SCHEMA):
    return new_metadata(
        schema,
        build_spec(schema, partition_by),
        build_sort_order(schema, sort_by),
        "/t",
        dict(properties or {}),
        version,
    )


def changed(metadata, update):
    return apply_updates(metadata, update.updates(metadata))


def names(metadata):
    return [f.name for f in metadata.schema().fields]


@pytest.fixture
def base():
    return table()


def test_an_added_column_gets_a_new_id_also_inside(base):
    new = changed(
        base,
        SchemaChanges(base)
        .add_column("x", StructType(NestedField(1, "p", LongType())))
        .add_column("s.c", LongType(), doc="why"),
    )
    ids = {n: new.schema().find_field(n).field_id for n in ("x", "x.p", "s.c")}
    assert sorted(ids.values()) == [
        base.last_column_id + 1,
        base.last_column_id + 2,
        base.last_column_id + 3,
    ]
    assert new.last_column_id == base.last_column_id + 3
    assert new.schema().find_field("s.c").doc == "why" and new.current_schema_id == 1


def test_a_dropped_name_used_again_is_a_new_column(base):
    first = changed(base, SchemaChanges(base).delete_column("n"))
    again = changed(first, SchemaChanges(first).add_column("n", StringType()))
    assert again.schema().find_field("n").field_id == base.last_column_id + 1
    both = changed(base, SchemaChanges(base).delete_column("n").add_column("n", StringType()))
    assert both.schema().find_field("n").field_id == base.last_column_id + 1


def test_no_column_takes_the_name_of_a_partition_field_of_another():
    """Java could not open such a table: it checks the names of all specs against the current
    schema.
    """
    base = table(partition_by=["n"])
    with pytest.raises(ValidationError, match="partition field of column"):
        changed(base, SchemaChanges(base).rename_column("n", "f").rename_column("f", "n"))
    renamed = changed(base, SchemaChanges(base).rename_column("n", "m2"))
    with pytest.raises(ValidationError, match="partition field of column m2"):
        changed(renamed, SchemaChanges(renamed).add_column("n", StringType()))
    free = changed(renamed, UpdateSpec(renamed).remove_field("n"))
    with pytest.raises(ValidationError, match="also those of older specs"):
        changed(free, SchemaChanges(free).add_column("n", StringType()))
    gone = changed(free, SchemaChanges(free).delete_column("m2"))
    assert changed(gone, SchemaChanges(gone).add_column("n", StringType())).schema().find_field("n")


def test_a_column_named_like_a_path_of_another_is_refused():
    for schema in ("a bigint, a int", "`a.b` int, a struct<b: int>"):
        with pytest.raises(ValidationError, match="multiple fields for name a"):
            table(schema=parse_schema(schema))
    assert (
        table(schema=parse_schema("`a.b` int, a struct<c: int>"))
        .schema()
        .find_field("a.b")
        .field_id
        == 1
    )


def test_two_columns_swap_names_in_one_update(base):
    new = changed(base, SchemaChanges(base).rename_column("n", "f").rename_column("f", "n"))
    assert new.schema().find_field("f").field_id == base.schema().find_field("n").field_id
    with pytest.raises(ValidationError, match="multiple fields"):
        SchemaChanges(base).rename_column("n", "f").schema()


def test_types_widen_and_never_narrow(base):
    new = changed(
        base,
        SchemaChanges(base)
        .update_column("n", LongType())
        .update_column("f", DoubleType())
        .update_column("d", DecimalType(9, 2)),
    )
    assert [str(new.schema().find_type(c)) for c in "nfd"] == ["long", "double", "decimal(9, 2)"]
    for column, type_ in (
        ("id", IntegerType()),
        ("d", DecimalType(9, 3)),
        ("n", StringType()),
        ("day", TimestampType()),
        ("s", LongType()),
    ):
        with pytest.raises(ValidationError, match="Cannot change column type"):
            SchemaChanges(base).update_column(column, type_)
    v3 = table(3)
    assert (
        str(
            changed(v3, SchemaChanges(v3).update_column("day", TimestampType()))
            .schema()
            .find_type("day")
        )
        == "timestamp"
    )


def test_nullability_loosens_and_tightens_only_when_allowed(base):
    assert (
        changed(base, SchemaChanges(base).make_column_optional("id"))
        .schema()
        .find_field("id")
        .optional
    )
    with pytest.raises(ValidationError, match="optional -> required"):
        SchemaChanges(base).update_column("n", required=True)
    assert (
        SchemaChanges(base, allow_incompatible_changes=True)
        .require_column("n")
        .schema()
        .find_field("n")
        .required
    )


def test_a_required_column_needs_a_default_and_a_default_needs_v3():
    with pytest.raises(ValidationError, match="required column without a default"):
        SchemaChanges(table()).add_column("x", LongType(), required=True)
    with pytest.raises(ValidationError, match="not supported until v3"):
        SchemaChanges(table()).add_column("x", LongType(), default_value=5)
    v3 = table(3)
    new = changed(v3, SchemaChanges(v3).add_column("x", LongType(), required=True, default_value=5))
    assert new.schema().find_field("x").initial_default == 5
    later = changed(new, SchemaChanges(new).set_default_value("x", 7))
    assert (
        later.schema().find_field("x").initial_default,
        later.schema().find_field("x").write_default,
    ) == (5, 7)


def test_defaults_are_promoted_with_their_column():
    base = table(3)
    adding = (
        SchemaChanges(base)
        .add_column("s.at", DateType(), default_value="0001-01-01")
        .add_column("g", FloatType(), default_value=0.1)
    )
    old = changed(base, adding)
    new = changed(
        old,
        SchemaChanges(old).update_column("s.at", TimestampType()).update_column("g", DoubleType()),
    )
    new = decode_metadata(encode_metadata(new))
    at, g = (new.schema().find_field(n) for n in ("s.at", "g"))
    assert (at.initial_default, at.write_default) == (-719_162 * 86_400_000_000,) * 2
    # what readers of the float have shown
    assert g.initial_default == g.write_default == 0.10000000149011612
    with pytest.raises(InvalidInput, match="0001-01-01 is no value of type timestamp_ns"):
        SchemaChanges(old).update_column("s.at", TimestampNanoType())


def test_columns_move_within_their_struct(base):
    moved = changed(
        base, SchemaChanges(base).move_first("day").move_after("id", "m").move_before("s.b", "s.a")
    )
    assert names(moved)[0] == "day" and names(moved)[-1] == "id"
    assert [f.name for f in moved.schema().find_type("s").fields] == ["b", "a"]
    with pytest.raises(ValidationError, match="different struct"):
        SchemaChanges(base).move_after("s.a", "n")
    with pytest.raises(ValidationError, match="itself"):
        SchemaChanges(base).move_after("n", "n")


def test_identifier_fields_are_kept_checked_and_protected(base):
    keyed = changed(base, SchemaChanges(base).set_identifier_fields("id"))
    assert keyed.schema().identifier_field_names() == {"id"}
    renamed = changed(keyed, SchemaChanges(keyed).rename_column("id", "key"))
    assert renamed.schema().identifier_field_names() == {"key"}
    with pytest.raises(ValidationError, match="Cannot delete identifier field"):
        SchemaChanges(keyed).delete_column("id")
    with pytest.raises(ValidationError, match="not a required field"):
        SchemaChanges(base).set_identifier_fields("n").schema()


def test_union_by_name_adds_widens_and_loosens(base):
    new = changed(
        base,
        SchemaChanges(base).union_by_name(
            parse_schema("n bigint, z string, s struct<a: bigint, c: int>, l array<bigint>")
        ),
    )
    assert str(new.schema().find_type("n")) == "long" and "z" in names(new)
    assert [f"{f.name} {f.field_type}" for f in new.schema().find_type("s").fields] == [
        "a long",
        "b string",
        "c int",
    ]
    assert str(new.schema().find_type("l.element")) == "long"
    assert SchemaChanges(base).union_by_name(parse_schema("id int not null")).updates(base) == ()


def test_partition_sources_cannot_go():
    base = table(partition_by=["bucket(4, n)"])
    with pytest.raises(ValidationError, match="partition field"):
        SchemaChanges(base).delete_column("n").updates(base)
    assert (
        changed(base, SchemaChanges(base).update_column("n", LongType())).schema().find_type("n")
        == LongType()
    )
    by_day = table(3, partition_by=["days(day)"])
    with pytest.raises(ValidationError, match="would change its values"):
        SchemaChanges(by_day).update_column("day", TimestampType()).updates(by_day)


def test_name_mapping_and_metrics_follow_a_rename():
    base = table(
        properties={
            "schema.name-mapping.default": name_mapping_of(SCHEMA),
            "write.metadata.metrics.column.n": "full",
        }
    )
    new = changed(
        base, SchemaChanges(base).rename_column("n", "number").add_column("x", LongType())
    )
    mapping = {
        e.get("field-id"): e["names"]
        for e in json.loads(new.properties["schema.name-mapping.default"])
    }
    assert mapping[base.schema().find_field("n").field_id] == ["n", "number"]
    assert mapping[new.schema().find_field("x").field_id] == ["x"]
    assert new.properties["write.metadata.metrics.column.number"] == "full"
    assert "write.metadata.metrics.column.n" not in new.properties


def test_a_recorded_update_is_replayed_on_fresh_metadata(base):
    update = SchemaChanges(base).add_column("x", LongType())
    other = changed(base, SchemaChanges(base).add_column("y", LongType()))
    both = apply_updates(other, update.updates(other))
    assert names(both)[-2:] == ["y", "x"]
    assert both.schema().find_field("x").field_id == both.last_column_id


def test_partition_fields_come_go_and_come_back_with_their_id(base):
    one = changed(base, UpdateSpec(base).add_field("day", "month").add_field("bucket(8, id)"))
    assert [(f.name, f.field_id) for f in one.spec().fields] == [
        ("day_month", 1000),
        ("id_bucket_8", 1001),
    ]
    two = changed(one, UpdateSpec(one).remove_field("day_month"))
    assert [f.name for f in two.spec().fields] == ["id_bucket_8"] and two.default_spec_id == 2
    three = changed(two, UpdateSpec(two).add_field("day", "month"))
    assert [(f.name, f.field_id) for f in three.spec().fields] == [
        ("id_bucket_8", 1001),
        ("day_month", 1000),
    ]
    for name in (None, "shard"):
        with pytest.raises(ValidationError, match="duplicate"):
            UpdateSpec(one).add_field("day", "month", name)
    with pytest.raises(ValidationError, match="redundant"):
        table(partition_by=["bucket(8, id)", "bucket(8, id) AS shard"])
    with pytest.raises(ValidationError, match="Cannot find partition field"):
        UpdateSpec(one).remove_field("nope")
    assert UpdateSpec(one).remove_field("day_month").add_field("day", "month").updates(one) == ()
    again = UpdateSpec(one).remove_field("day_month").add_field("day", "month", "other")
    assert [(f.name, f.field_id) for f in changed(one, again).spec().fields] == [
        ("other", 1000),  # the same field, as with Java: its older files keep their partitions
        ("id_bucket_8", 1001),
    ]


def test_v1_drops_a_partition_field_by_making_it_void():
    base = table(1, partition_by=["n", "days(day)"])
    new = changed(base, UpdateSpec(base).remove_field("n"))
    assert [(f.name, str(f.transform)) for f in new.spec().fields] == [
        ("n", "void"),
        ("day_day", "day"),
    ]


def test_a_partition_field_is_renamed_and_a_wrong_source_refused():
    base = table(partition_by=["days(day)"])
    assert (
        changed(base, UpdateSpec(base).rename_field("day_day", "dd")).spec().fields[0].name == "dd"
    )
    for column, transform in (
        ("l", "bucket[4]"),
        ("f", "bucket[4]"),
        ("n", "day"),
        ("l.element", "identity"),
        ("n", "zorder"),
    ):
        with pytest.raises(ValidationError):
            UpdateSpec(base).add_field(column, transform)


def test_the_sort_order_is_replaced_and_an_old_one_used_again(base):
    one = changed(base, UpdateSortOrder(base).asc("id").desc("day", "month", NullOrder.NULLS_FIRST))
    assert [f.direction for f in one.sort_order().fields] == [
        SortDirection.ASC,
        SortDirection.DESC,
    ] and one.default_sort_order_id == 1
    two = changed(one, UpdateSortOrder(one))
    assert two.default_sort_order_id == 0
    assert (
        changed(
            two, UpdateSortOrder(two).asc("id").desc("day", "month", NullOrder.NULLS_FIRST)
        ).default_sort_order_id
        == 1
    )
    assert (
        UpdateSortOrder(one).asc("id").desc("day", "month", NullOrder.NULLS_FIRST).updates(one)
        == ()
    )


def with_history(*snapshots):
    metadata = table()
    parent = None
    for n in snapshots:
        snapshot = Snapshot(
            n,
            1_000 + metadata.last_updated_ms + n,
            f"/t/{n}.avro",
            parent,
            metadata.last_sequence_number + 1,
            {"operation": "append"},
            0,
        )
        metadata = apply_updates(
            metadata, [AddSnapshot(snapshot), SetSnapshotRef("main", SnapshotRef(n))]
        )
        parent = n
    return metadata


def managed(metadata, manage):
    for step in manage.steps:
        metadata = apply_updates(metadata, step.apply(metadata, None))
    return metadata


def test_branches_tags_and_rollback():
    base = with_history(1, 2, 3)
    new = managed(
        base,
        ManageSnapshots()
        .create_tag(1, "v1", max_ref_age_ms=5)
        .create_branch(2, "audit", min_snapshots_to_keep=2)
        .rollback_to_snapshot(2),
    )
    assert new.refs["v1"].snapshot_id == 1 and new.refs["audit"].min_snapshots_to_keep == 2
    assert new.current_snapshot_id == 2 and new.refs["main"].snapshot_id == 2
    gone = managed(
        new, ManageSnapshots().remove_tag("v1").remove_branch("audit").set_current_snapshot(3)
    )
    assert set(gone.refs) == {"main"} and gone.current_snapshot_id == 3
    forward = managed(new, ManageSnapshots().create_branch(3, "next").fast_forward("main", "next"))
    assert forward.current_snapshot_id == 3


def test_refs_that_make_no_sense_are_refused():
    base = managed(
        with_history(1, 2, 3), ManageSnapshots().create_tag(1, "v1").create_branch(1, "old")
    )
    for manage, error in (
        (ManageSnapshots().create_tag(1, "v1"), ValidationError),
        (ManageSnapshots().create_tag(9, "v9"), NoSuchSnapshotError),
        (ManageSnapshots().remove_branch("v1"), ValidationError),
        (ManageSnapshots().remove_branch("main"), ValidationError),
        (ManageSnapshots().remove_tag("nope"), NoSuchRefError),
        (ManageSnapshots().rename_branch("main", "x"), ValidationError),
        (ManageSnapshots().fast_forward("main", "old"), ValidationError),
        (ManageSnapshots().set_retention("v1", min_snapshots_to_keep=3), ValidationError),
        (ManageSnapshots().create_branch(1, "x", max_ref_age_ms=0), ValidationError),
        (ManageSnapshots().set_retention("old", max_ref_age_ms=0), ValidationError),
        (ManageSnapshots().set_retention("old", max_snapshot_age_ms=-1), ValidationError),
        (ManageSnapshots().set_retention("v1", max_ref_age_ms=0), ValidationError),
        (ManageSnapshots().set_current_snapshot(), ValidationError),
    ):
        with pytest.raises(error):
            managed(base, manage)


def test_day_partition_source_type_is_reported():
    with pytest.raises(ValidationError, match="Invalid source type string"):
        build_spec(parse_schema("a string"), ["days(a)"])
    assert isinstance(
        build_spec(SCHEMA, ["days(day)"]).partition_type(SCHEMA).fields[0].field_type, DateType
    )


def test_a_columns_type_is_a_type_or_ddl_text_and_nothing_else(base) -> None:
    new = changed(
        base,
        SchemaChanges(base).add_column("x", "array<struct<a: int>>").update_column("n", "bigint"),
    ).schema()
    assert (new.find_type("x.element.a"), new.find_type("n")) == (IntegerType(), LongType())
    for wrong in (int, 7, "no such type", ""):
        with pytest.raises(InvalidInput):
            SchemaChanges(base).add_column("y", wrong)


def test_keys_of_types_that_we_do_not_know_outlive_changes_inside_them():
    value = StructType(NestedField(8, "x", IntegerType(), extra={"x-inner": 1}), extra={"x-in": 2})
    entries = MapType(6, IntegerType(), 7, value, False, {"x-map": {"a": None}})
    inside = StructType(
        NestedField(4, "l", ListType(5, entries, False, {"x-list": [3]})),
        extra={"x-struct": "kept"},
    )
    document = json.loads(encode_metadata(table(schema=Schema(NestedField(3, "s", inside)))))
    document["schemas"][0]["x-schema"] = 3
    base = decode_metadata(json.dumps(document).encode())
    update = (
        SchemaChanges(base)
        .add_column("s.l.element.value.y", "string")
        .update_column("s.l.element.value.x", "bigint")
    )
    new = changed(base, update.rename_column("s.l", "m"))
    written = schema_to_json(decode_metadata(encode_metadata(new)).schema())
    assert written["x-schema"] == 3
    found = written["fields"][0]["type"]
    renamed = found["fields"][0]
    assert (
        renamed["name"] == "m" and found["x-struct"] == "kept" and renamed["type"]["x-list"] == [3]
    )
    entry = renamed["type"]["element"]
    assert entry["x-map"] == {"a": None} and entry["value"]["x-in"] == 2
    x, y = entry["value"]["fields"]
    assert (x["type"], x["x-inner"], y["name"]) == ("long", 1, "y")
