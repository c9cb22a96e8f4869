"""Every option is honoured or refused by an error that names it, at every verb: a table of all of
them, which fails for one that is missing.

An option that is added to the code needs a row in `EFFECTS` (what it does) and a place in `MEANS`
(to which verbs it means something).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.arrow.write.write_options import WriteOptions, write_options
from frazil.catalog import load
from frazil.errors import FrazilError, InvalidInput, Unsupported, ValidationException
from frazil.spark.engine import read_target
from frazil.spec.properties import TABLE_PROPERTIES, without_history
from frazil.storage import tuning
from tests.docs.test_options import ROOT, TEXT, listed

ROWS = pa.table({"id": list(range(6)), "p": ["a", "a", "a", "b", "b", "b"]})
NEWER = pa.table({"id": [1, 4, 9], "p": ["b", "z", "a"]})
MANY = pa.table(
    {"id": pa.array(range(60_000)), "p": [f"{n * 2654435761 % 2**32:x}" for n in range(60_000)]}
)


@pytest.fixture
def catalog():
    with frazil.load_catalog("options", type="memory", warehouse="memory://options") as made:
        made.create_namespace("db")
        yield made


def new(catalog: Any, number: int = 0, rows: Any = ROWS, **more: Any) -> Any:
    t = catalog.create_table(f"db.t{number}", "id bigint, p string", **more)
    t.append(rows)
    return t


VERBS = {
    "append": lambda t, **o: t.append(ROWS, **o),
    "overwrite": lambda t, **o: t.overwrite(ROWS, "id = 1", **o),
    "dynamic_partition_overwrite": lambda t, **o: t.dynamic_partition_overwrite(ROWS, **o),
    "delete": lambda t, **o: t.delete("id = 1", mode="merge-on-read", runner="in-process", **o),
    "update": lambda t, **o: t.update(
        {"p": "'z'"}, "id = 1", mode="merge-on-read", runner="in-process", **o
    ),
    "merge": lambda t, **o: t.upsert(NEWER, ["id"], mode="merge-on-read", runner="in-process", **o),
}
EVERY, DELETING = set(VERBS), {"overwrite", "delete", "update", "merge"}
FRAMES = {"append", "overwrite", "dynamic_partition_overwrite"}
MEANS = {  # a value that counts, and the verbs without Spark to which it means something
    "write-format": ("orc", EVERY), "target-file-size-bytes": (1 << 20, EVERY), "compression-codec": ("gzip", EVERY),
    "compression-level": (3, EVERY), "compression-strategy": ("compression", set()), "distribution-mode": ("none", EVERY - {"delete"}),
    "fanout-enabled": (True, EVERY), "use-table-distribution-and-ordering": (False, EVERY), "advisory-partition-size": (1 << 20, set()),
    "check-nullability": (False, FRAMES), "check-ordering": (True, FRAMES), "merge-schema": (True, FRAMES | {"merge"}),
    "output-spec-id": (0, EVERY), "output-sort-order-id": (0, EVERY), "overwrite-mode": ("dynamic", {"dynamic_partition_overwrite"}),
    "isolation-level": ("snapshot", EVERY - {"append"}), "validate-from-snapshot-id": ("head", {"delete", "update", "merge"}),
    "branch": ("audit", EVERY), "wap-id": ("w1", EVERY), "delete-format": ("avro", DELETING),
    "target-delete-file-size-bytes": (1 << 20, DELETING), "delete-granularity": ("partition", DELETING),
}  # fmt: skip


def test_the_table_of_options_is_complete():
    known = {f.name.replace("_", "-") for f in fields(WriteOptions)} - {
        "snapshot-properties",
        "of-session",
        "named-for",
    }
    assert known == set(MEANS) == set(EFFECTS)


def newest(t: Any) -> Any:
    """The last snapshot, on whatever branch it is, if any."""
    return t.snapshots()[-1]


def rows_at(t: Any, snapshot: Any) -> list[tuple[Any, ...]]:
    found = t.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("id", "p")).to_arrow()
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


def added(t: Any, *, deletes: bool) -> list[dict[str, Any]]:
    """Data files (or delete files) of the last snapshot."""
    entries = (*t.inspect.entries(snapshot_id=newest(t).snapshot_id).to_pylist(),)
    here = [
        e["data_file"]
        for e in entries
        if e["snapshot_id"] == newest(t).snapshot_id and e["status"] == 1
    ]
    return [f for f in here if (f["content"] != 0) == deletes]


def columns_compressed(t: Any) -> set[str]:
    found = set()
    for file in (
        f
        for deletes in (False, True)
        for f in added(t, deletes=deletes)
        if f["file_format"].upper() == "PARQUET"
    ):
        with t.io.open_input(file["file_path"]) as f:
            found.add(pq.read_metadata(f).row_group(0).column(0).compression)
    return found


# what can be seen of an option at every verb; the others must leave the rows that the verb leaves
# without them
SEEN = {
    "write-format": lambda t: {f["file_format"].upper() for f in added(t, deletes=False)} <= {"ORC"},
    "compression-codec": lambda t: columns_compressed(t) == {"GZIP"},
    "branch": lambda t: t.refs()["audit"].snapshot_id == newest(t).snapshot_id != t.current_snapshot().snapshot_id,
    "wap-id": lambda t: newest(t).summary["wap.id"] == "w1" and newest(t).snapshot_id != t.current_snapshot().snapshot_id,
    "delete-format": lambda t: {f["file_format"].upper() for f in added(t, deletes=True)} <= {"AVRO"},
}  # fmt: skip


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_write_option_means_something_to_a_verb_or_is_refused_by_name(catalog, verb):
    bare = new(
        catalog, len(MEANS), partition_by=["p"], properties={"write.delete.mode": "merge-on-read"}
    )
    VERBS[verb](bare)
    assert SEEN["write-format"](bare) is (verb == "delete"), "ORC is the option's doing"
    for number, (name, (value, means)) in enumerate(MEANS.items()):
        wap = {"write.wap.enabled": "true"} if name == "wap-id" else {}
        properties = {"write.delete.mode": "merge-on-read", **wap}
        t = new(catalog, number, partition_by=["p"], properties=properties)
        if name == "branch":
            t.manage_snapshots().create_branch(t.current_snapshot().snapshot_id, "audit").commit()
        before = t.metadata_location
        value = t.current_snapshot().snapshot_id if value == "head" else value
        for spelling in (name, name.replace("-", "_")):
            if verb in means:
                result = VERBS[verb](t, **{spelling: value})
                assert result.snapshot_id == newest(t).snapshot_id and rows_at(
                    t, newest(t)
                ) == rows_at(bare, newest(bare)), name
                assert SEEN.get(name, lambda t: True)(t), name
                break  # the second spelling would find other rows
            with pytest.raises(InvalidInput, match=name):
                VERBS[verb](t, **{spelling: value})
            assert t.refresh().metadata_location == before


@pytest.mark.parametrize("name", sorted(MEANS))
def test_a_bad_value_is_an_error_that_names_option_and_value(name):
    kind = next(str(f.type) for f in fields(WriteOptions) if f.name == name.replace("-", "_"))
    bad: list[Any] = [[1]] if kind.startswith("str") else ["banana", 1.5, [1], "-"]
    bad += (
        [-5]
        if kind.startswith("int")
        else ["sideways"]
        if name.endswith(("-mode", "-format", "-level", "-strategy", "-granularity"))
        else []
    )
    for value in bad:
        for spelling in (name, name.upper(), name.replace("-", "_")):
            with pytest.raises(InvalidInput) as told:
                write_options({spelling: value})
            assert name in str(told.value) and repr(value) in str(told.value)


def test_unknown_options_are_refused_and_near_ones_suggested(catalog):
    t = new(catalog)
    for verb in VERBS.values():
        with pytest.raises(InvalidInput, match="fanout-enabld.*Did you mean 'fanout-enabled'"):
            verb(t, **{"fanout-enabld": True})
    for options, message in (
        ({"write-format": "orc", "write_format": "avro"}, "given twice"),
        ({"shred-variants": True}, "shred-variants"),
        ({"use-merge-append-for-streaming": True}, "use-merge-append-for-streaming"),
    ):
        with pytest.raises(InvalidInput, match=message):
            t.append(ROWS, **options)


# What each does
# -------------------------------------------------------------------------------------------------------------------------


def files(t: Any) -> Any:
    return t.inspect.data_files()


def deletes(t: Any) -> Any:
    return t.inspect.delete_files()


def last_codec(t: Any) -> str:
    newest = t.current_snapshot().snapshot_id
    path = next(
        r["data_file"]["file_path"]
        for r in t.inspect.entries().to_pylist()
        if r["snapshot_id"] == newest
    )
    with t.io.open_input(path) as f:
        return str(pq.read_metadata(f).row_group(0).column(0).compression)


def write_format(t: Any) -> None:
    t.append(ROWS, write_format="orc")
    assert sorted(files(t)["file_format"].to_pylist()) == ["ORC", "PARQUET"]


def target_size(t: Any) -> None:
    assert (
        t.append(MANY, target_file_size_bytes=100_000).files_added > 2 > t.append(MANY).files_added
    )


def codec(t: Any) -> None:
    t.append(ROWS, compression_codec="gzip")
    assert last_codec(t) == "GZIP"


def size_of(t: Any, **options: Any) -> int:
    t.append(MANY, **options)
    return int(t.current_snapshot().summary["added-files-size"])


def level(t: Any) -> None:
    assert size_of(t, compression_level=1) > size_of(t, compression_level=15)


def strategy(t: Any) -> None:
    sizes = [
        size_of(t, write_format="orc", compression_codec="zlib", compression_strategy=s)
        for s in ("speed", "compression")
    ]
    assert sizes[0] != sizes[1]


def ordering(t: Any) -> None:
    with t.update_sort_order() as order:
        order.desc("id")
    t.append(ROWS)
    t.append(ROWS, use_table_distribution_and_ordering=False)
    t.append(ROWS, output_sort_order_id=0)
    assert sorted(files(t)["sort_order_id"].to_pylist()) == [0, 0, 0, 1]


def spec(t: Any) -> None:
    with t.update_spec() as update:
        update.add_identity("p")
    t.append(ROWS, output_spec_id=0)
    assert set(files(t)["spec_id"].to_pylist()) == {0}


def merge_schema(t: Any) -> None:
    t.append(pa.table({"id": [1], "p": ["x"], "new": [1]}), mergeSchema="true")
    assert t.schema().get_field("new") is not None


def overwrite_mode(t: Any) -> None:
    with t.update_spec() as update:
        update.add_identity("p")
    t.overwrite(ROWS)
    t.overwrite(ROWS.slice(0, 1), overwrite_mode="dynamic")
    assert sorted(t.scan().to_arrow()["id"].to_pylist()) == [0, 3, 4, 5]


def conflicts(t: Any) -> None:
    start = t.current_snapshot().snapshot_id
    t.append(ROWS)
    with pytest.raises(ValidationException, match="conflicting"):
        t.overwrite(ROWS, isolation_level="serializable", validate_from_snapshot_id=start)
    with pytest.raises(ValidationException, match="conflicting"):
        t.update({"p": "'q'"}, "id = 1", validate_from_snapshot_id=start, runner="in-process")
    t.update(
        {"p": "'q'"},
        "id = 1",
        validate_from_snapshot_id=start,
        isolation_level="snapshot",
        runner="in-process",
    )
    assert [row for row in rows_at(t, newest(t)) if row[0] == 1] == [(1, "q"), (1, "q")]
    t.overwrite(ROWS, isolation_level="serializable")
    assert rows_at(t, newest(t)) == [(n, "aaabbb"[n]) for n in range(6)]


def branch(t: Any) -> None:
    t.append(ROWS, branch="side")
    assert "side" in t.refs() and t.scan().to_arrow().num_rows == 6


def wap(t: Any) -> None:
    t.set_properties({"write.wap.enabled": "true"})
    t.append(ROWS, wap_id="w7")
    assert [s.summary.get("wap.id") for s in t.snapshots()] == [
        None,
        "w7",
    ] and t.scan().to_arrow().num_rows == 6


def delete_files(t: Any) -> None:
    t.append(ROWS)
    t.delete("id = 1", mode="merge-on-read", delete_format="avro", runner="in-process")
    assert deletes(t)["file_format"].to_pylist() == ["AVRO"] * 2
    t.delete("id = 2", mode="merge-on-read", delete_granularity="partition", runner="in-process")
    assert deletes(t).num_rows == 3
    for options in (
        {"delete_format": "orc"},
        {"delete_granularity": "partition"},
        {"target_delete_file_size_bytes": 9},
    ):
        with pytest.raises(InvalidInput, match=next(iter(options)).replace("_", "-")):
            t.delete("id = 3", mode="copy-on-write", **options)


# What holds however it is set without Spark, since one process writes and keeps its writers open.


def one_file_a_partition(catalog: Any, **option: Any) -> None:
    t = catalog.create_table("db.t", "id bigint, p string", partition_by=["p"])
    assert t.append(ROWS.take([0, 3, 1, 4, 2, 5]), **option).files_added == 2
    assert {f["partition"]["p"]: f["record_count"] for f in added(t, deletes=False)} == {
        "a": 3,
        "b": 3,
    }


def columns_by_name(catalog: Any, **option: Any) -> None:
    t = catalog.create_table("db.t", "id bigint, p string")
    t.append(ROWS.select(["p", "id"]), **option)
    assert rows_at(t, newest(t)) == [(n, "aaabbb"[n]) for n in range(6)]


def no_null_where_required(catalog: Any, **option: Any) -> None:
    t = catalog.create_table("db.t", "id bigint not null, p string")
    t.append(ROWS, **option)  # the columns of the frame may hold nulls, but do not
    with pytest.raises(FrazilError, match="id"):
        t.append(pa.table({"id": pa.array([1, None]), "p": ["a", "b"]}), **option)
    assert (
        rows_at(t, newest(t)) == [(n, "aaabbb"[n]) for n in range(6)]
        and len(t.refresh().snapshots()) == 1
    )


OF_TASKS = {
    "distribution-mode": one_file_a_partition, "fanout-enabled": one_file_a_partition, "check-ordering": columns_by_name,
    "check-nullability": no_null_where_required,
}  # fmt: skip


def of_spark(t: Any) -> None:
    with pytest.raises(InvalidInput, match=r"advisory-partition-size.*without Spark"):
        t.append(ROWS, advisory_partition_size=1 << 20)


EFFECTS = {
    "write-format": write_format, "target-file-size-bytes": target_size, "compression-codec": codec, "compression-level": level,
    "compression-strategy": strategy, "use-table-distribution-and-ordering": ordering, "output-sort-order-id": ordering,
    "output-spec-id": spec, "merge-schema": merge_schema, "overwrite-mode": overwrite_mode, "isolation-level": conflicts,
    "validate-from-snapshot-id": conflicts, "branch": branch, "wap-id": wap, "delete-format": delete_files,
    "delete-granularity": delete_files, "target-delete-file-size-bytes": delete_files, "advisory-partition-size": of_spark,
    **OF_TASKS,
}  # fmt: skip


@pytest.mark.parametrize(
    "effect", sorted({f.__name__ for name, f in EFFECTS.items() if name not in OF_TASKS})
)
def test_write_options_do_what_the_documents_say(catalog, effect):
    next(f for f in EFFECTS.values() if f.__name__ == effect)(new(catalog))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (n, v)
        for n in sorted(OF_TASKS)
        for v in (("none", "hash", "range") if n == "distribution-mode" else (True, False))
    ],
)
def test_options_of_sparks_tasks_hold_in_one_process(catalog, name, value):
    OF_TASKS[name](catalog, **{name: value})


# Reads, tables, catalogs
# ----------------------------------------------------------------------------------------------------------------

BAD_READS = {
    "split-size": "x", "lookback": 0, "file-open-cost": -1, "snapshot-id": "x", "as-of-timestamp": "x", "timestampasof": "yesterday",
    "start-snapshot-id": "x", "end-snapshot-id": "x", "start-timestamp": "x", "end-timestamp": "x", "vectorization-enabled": "maybe",
    "aggregate-push-down-enabled": "x", "locality": "x", "branch": "nope", "tag": "nope", "versionasof": "nope",
    "start-tag": "nope", "end-tag": "nope",
}  # fmt: skip


def test_read_options_are_complete_and_bad_values_told(tmp_path):
    t = frazil.load_catalog("c", type="path", warehouse=str(tmp_path)).create_table(
        "db.t", "id bigint, p string"
    )
    t.append(ROWS)
    assert {name.lower() for name in read_target.OPTIONS.names} == set(BAD_READS)

    def read(options: dict[str, Any]) -> list[str]:
        found = (
            read_target.locate(read_target.read_request({"path": t.location(), **options}), {})
            .reading()
            .plan()
        )
        return [task.file.file_path for task in found.tasks()]

    for hint, done, other in (
        ("vectorization-enabled", "TRUE", "false"),
        ("locality", "false", "true"),
    ):
        assert (
            read({hint: done})
            == read({})
            == [f.file.file_path for f in t.scan().plan_files()]
            != []
        ), hint
        with pytest.raises(
            Unsupported, match=f"'{hint}' cannot be {str(other).lower()} here: .*Leave it out"
        ):
            read({hint: other})
    with pytest.raises(Unsupported, match="'batch-size'.*columnarReaderBatchSize"):
        read({"batch-size": "17"})
    for name, value in BAD_READS.items():
        with pytest.raises(FrazilError) as told:
            read({name: value})
        assert str(value).lstrip("-") in str(told.value), name
    for options, message in (
        ({"snapshotid": 3}, "Did you mean 'snapshot-id'"),
        ({"snapshot-id": 3, "Snapshot_Id": 4}, "given twice"),
        ({"streaming-max-files-per-micro-batch": 3}, "streaming-max-files"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read(options)
    with pytest.raises(InvalidInput, match=r"split-size.*metadata table"):
        read_target.locate(
            read_target.read_request({"path": t.location() + "#files", "split-size": 5}), {}
        )


# properties whose values are checked where they are used: names of codecs and columns, and what is
# refused as such
FREE = {
    "write.parquet.compression-codec", "write.orc.compression-codec", "write.avro.compression-codec", "write.manifest.compression-codec",
    "write.orc.bloom.filter.columns", "write.object-storage.path", "write.folder-storage.path", "write.location-provider.impl",
    "write.py-location-provider.impl", "encryption.key-id",
}  # fmt: skip


def test_a_bad_value_of_a_table_property_is_refused_when_it_is_set(catalog):
    t = new(catalog)
    documented = {
        n
        for n in listed(TEXT.split("<!-- table properties -->")[1])
        if "…" not in n and n not in FREE
    }

    def changed(key):
        t.set_properties({key: "~banana"})

    def created(key):
        return new(catalog, 9, properties={key: "~banana"})

    for name in documented:
        key = name.replace("<c>", "id")
        for do in (changed, created):
            # a new table takes over no history from the properties of another
            if do is created and not without_history({key: ""}):
                assert key not in do(key).properties
                catalog.drop_table("db.t9")
                continue
            with pytest.raises(InvalidInput) as told:
                do(key)
            assert key in str(told.value) and "'~banana'" in str(told.value)
    assert {
        k for k in TABLE_PROPERTIES if k.startswith(("write.metadata", "read.", "commit."))
    } <= documented
    t.set_properties({"my.own": "~banana"})
    assert t.properties["my.own"] == "~banana"


def test_catalog_properties_are_those_of_the_documents_and_others_are_refused(tmp_path):
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("catalogs.md", "stores.md"))
    names = {n for n in listed(pages) if "<" not in n}
    for catalog_type in load._TYPES.values():
        assert {n for o in catalog_type.options.options for n in o.names} <= names
    groups = tuple(n.removesuffix("…") for n in names if n.endswith("…"))
    for name in (*tuning._NAMES, *tuning._BEGINNINGS):
        assert name in names or name.startswith(groups), (
            f"{name}, which only tunes, is not documented"
        )
    ready = {"type": "path", "warehouse": str(tmp_path)}
    for name in (
        "wherehouse",
        "lock-impl",
        "metrics-reporter-impl",
        "view-default.x",
        "s3.acess-key-id",
        "jdbc.user",
        "token",
    ):
        with pytest.raises(InvalidInput, match=name):
            frazil.load_catalog("c", **ready, **{name: "x"})
    taken = {
        "cache-enabled": "false",
        "table-default.write.format.default": "orc",
        "s3.access_key_id": "x",
    }
    t = frazil.load_catalog("c", **ready, **taken).create_table("db.t", "id bigint")
    assert t.properties["write.format.default"] == "orc"
    with pytest.raises(InvalidInput, match=r"warehouse.*location"):
        frazil.load_table(t.location(), warehouse="x")


def test_a_database_tells_the_names_of_the_catalogs_that_it_holds(tmp_path):
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path)}
    with frazil.load_catalog("one", **place) as one, frazil.load_catalog("two", **place) as two:
        one.create_namespace("db")
        one.create_table("db.events", "id bigint")
        for ask in (
            lambda: two.load_table("db.events"),
            lambda: two.list_tables("db"),
            lambda: two.create_table("db.x", "id bigint"),
        ):
            with pytest.raises(FrazilError, match="but 'one': load the catalog under that name"):
                ask()
        with pytest.raises(FrazilError, match="Did you mean 'events'"):
            one.load_table("db.event")
    assert frazil.load_table("one.db.events", **place).name() == ("db", "events")
