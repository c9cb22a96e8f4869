"""delete, update and overwrite by rows as users call them: modes, metrics, transactions, conflicts,
what is left on disk.
"""

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import (
    EvaluationError,
    InvalidInput,
    ParseError,
    SchemaMismatch,
    Unsupported,
    ValidationError,
    ValidationException,
)
from frazil.ops.operation import METRICS
from frazil.testing import FlakyRunner, TaskKilled
from tests.builders.catalogs import catalog_of
from tests.builders.files_on_disk import data_files_below, known_files
from tests.builders.frames import ids

SCHEMA = "id long not null, p int, v double, s struct<a: int, b: string>"
COW, MOR = "copy-on-write", "merge-on-read"
REFUSED = {"commit.retry.plan-anew.enabled": "false"}
_names = itertools.count()


@pytest.fixture
def catalog(tmp_path):
    return catalog_of("path", tmp_path, f"rows{next(_names)}")


@pytest.fixture
def make(catalog):
    def made(*files, name="t", format_version=2, **options):
        t = catalog.create_table(f"db.{name}", SCHEMA, format_version=format_version, **options)
        for numbers in files:
            t.append(frame(numbers))
        return t

    return made


def frame(ids, p=None):
    ids = list(ids)
    return pa.table(
        {
            "id": ids,
            "p": pa.array([i % 3 if p is None else p for i in ids], pa.int32()),
            "v": [float(i) for i in ids],
            "s": pa.array(
                [{"a": i, "b": f"b{i}"} for i in ids],
                pa.struct([("a", pa.int32()), ("b", pa.string())]),
            ),
        }
    )


def live(t):
    return t.inspect.files().to_pylist()


# delete
# ---------------------------------------------------------------------------------------------------------------------------------


TEN = [range(10), range(10, 20), range(20, 30)]
NOT_4_NOR_7 = [i for i in range(30) if i % 10 not in (4, 7)]
MERGE_ON_READ = {"mode": MOR}
ANY_CASE = {"case_sensitive": False}
NOTHING = {"snapshot_id": None, "rows_deleted": 0, "rows_updated": 0}
SCRIPTS = {
    "whole files and rows of others are rewritten in one snapshot": (
        [range(5), range(5, 10), range(10, 15)], {},
        [("delete", ["id >= 8"], {"mode": COW}, {"rows_deleted": 7, "files_removed": 2, "rows_copied": 3, "delete_files_added": 0})],
        list(range(8)), [],
    ),
    "whole files go and rows of others are marked in one snapshot": (
        [range(5), range(5, 10), range(10, 15)], {},
        [("delete", ["id >= 8"], MERGE_ON_READ, {"rows_deleted": 7, "files_removed": 1, "rows_copied": 0, "delete_files_added": 1})],
        list(range(8)), [(2, "parquet")],
    ),
    "the mode is the argument, then the property, then copy-on-write": (
        [range(4)], {},
        [
            ("delete", ["id = 0"], {}, {"files_added": 1}),
            ("set_properties", [{"write.delete.mode": MOR, "write.update.mode": MOR}], {}, {}),
            ("delete", ["id = 1"], {}, {"delete_files_added": 1}),
            ("update", [{"v": 0}, "id = 2"], {}, {"delete_files_added": 1}),
            ("delete", ["id = 2"], {"mode": COW}, {"delete_files_added": 0}),
        ],
        [3], [(2, "parquet")],
    ),
    "format version 1 has copy-on-write": (
        [range(4)], {"format_version": 1}, [("delete", ["id = 1"], {}, {"rows_copied": 3})], [0, 2, 3], [],
    ),
    "position deletes per file take in what was there before": (
        TEN, {"properties": {"write.delete.granularity": "file"}},
        [
            ("delete", ["id % 10 = 4"], MERGE_ON_READ, {"delete_files_added": 3}),
            ("delete", ["id % 10 = 7"], MERGE_ON_READ, {}),
        ],
        NOT_4_NOR_7, [(2, "parquet")] * 3,
    ),
    "position deletes are per partition": (
        TEN, {"properties": {"write.delete.granularity": "partition"}},
        [
            ("delete", ["id % 10 = 4"], MERGE_ON_READ, {"delete_files_added": 1}),
            ("delete", ["id % 10 = 7"], MERGE_ON_READ, {}),
        ],
        NOT_4_NOR_7, [(3, "parquet")] * 2,
    ),
    "a data file has one vector, that grows": (
        TEN[:2], {"format_version": 3},
        [("delete", [f"id = {i}"], MERGE_ON_READ, {}) for i in (3, 13, 4)],
        [i for i in range(20) if i not in (3, 4, 13)], [(1, "puffin"), (2, "puffin")],
    ),
    "a file that goes as a whole takes its vector with it": (
        TEN[:2], {"format_version": 3},
        [
            *(("delete", [f"id = {i}"], MERGE_ON_READ, {}) for i in (3, 13, 4)),
            ("delete", ["id < 10"], MERGE_ON_READ, {"rows_deleted": 8}),
        ],
        [i for i in range(10, 20) if i != 13], [(1, "puffin")],
    ),
    "vectors take in the position deletes of before an upgrade": (
        [range(10)], {},
        [
            ("delete", ["id in (1, 2)"], MERGE_ON_READ, {}),
            ("upgrade", [3], {}, {}),
            ("delete", ["id = 5"], MERGE_ON_READ, {}),
        ],
        [0, 3, 4, 6, 7, 8, 9], [(3, "puffin")],
    ),
    "a file all of whose rows are deleted goes instead of getting deletes": (
        [range(5)], {},
        [
            ("delete", ["v < 2"], MERGE_ON_READ, {}),
            ("delete", ["s.a >= 2"], MERGE_ON_READ, {"files_removed": 1, "delete_files_added": 0, "rows_deleted": 3}),
        ],
        [], [],
    ),
    "nothing that matches commits nothing": (
        [range(5)], {},
        [
            ("delete", ["id = 2 and v > 3"], {}, NOTHING),
            ("update", [{"v": 1}, "id = 2 and v > 3"], {}, NOTHING),
            ("delete", ["false"], {}, NOTHING),
            ("update", [{"v": 1}, "null"], {}, NOTHING),
        ],
        [0, 1, 2, 3, 4], [],
    ),
    "names follow case_sensitive": (
        [range(3)], {},
        [
            ("delete", ["ID = 1"], ANY_CASE, {"rows_deleted": 1}),
            ("update", [{"V": "Id * 10"}, "S.A = 2"], ANY_CASE, {"rows_updated": 1}),
            ("delete", ["v = 20"], {}, {"rows_deleted": 1}),
        ],
        [0], [],
    ),
}  # fmt: skip
IN_PROCESS = {"runner": "in-process"}
REFUSALS = [
    ("delete", ["soundex(s.b) = 'x'"], IN_PROCESS, Unsupported, "soundex"),
    ("update", [{"v": "v +"}], IN_PROCESS, ParseError, "expected|after|end"),
    ("delete", ["nope = 1"], {}, ValidationError, "nope"),
    ("delete", ["id + 1"], {}, InvalidInput, "not boolean"),
    ("delete", ["ID = 1"], IN_PROCESS, ValidationError, "ID"),
    (
        "delete",
        ["id = 3"],
        {"mode": "fast"},
        InvalidInput,
        "mode must be copy-on-write or merge-on-read",
    ),
    ("delete", ["id = 1"], {"runner": "spork"}, InvalidInput, "runner must be"),
    ("delete", ["id = 0"], {"fast": True}, InvalidInput, "Unknown write option"),
    ("update", [{"p": "cast(id as int) * 1000000000"}], {}, EvaluationError, "Column p"),
    ("update", [{"id": "case when id < 7 then id end"}], {}, SchemaMismatch, "Column id"),
    ("update", [{"id": None}], {}, SchemaMismatch, "id"),
    ("update", [{"v": "'text'"}], {}, InvalidInput, "column v"),
    ("update", [{"nope": 1}], {}, ValidationError, "nope"),
    ("update", [{}], {}, InvalidInput, "at least one column"),
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_changes_count_and_leave_rows_and_delete_files_as_told(make, name):
    files, options, steps, left, deletes = SCRIPTS[name]
    t = make(*files, **options)
    for verb, arguments, named, counts in steps:
        before, snapshots = data_files_below(t), len(t.snapshots())
        result = getattr(t, verb)(*arguments, **named)
        assert {key: getattr(result, key) for key in counts} == counts, (verb, arguments)
        if counts:
            changed = result.snapshot_id is not None
            assert set(result.metrics) == set(METRICS)
            assert len(t.snapshots()) == snapshots + changed
            assert changed or data_files_below(t) == before
    assert ids(t) == left
    marked = [(f["record_count"], f["file_format"].lower()) for f in live(t) if f["content"] == 1]
    assert sorted(marked) == deletes and (left or live(t) == [])


@pytest.mark.parametrize("verb, arguments, named, error, message", REFUSALS)
def test_what_a_change_cannot_do_is_told_by_name_and_leaves_nothing(
    make, verb, arguments, named, error, message
):
    t = make(range(3), range(3, 6), range(6, 9))
    before = data_files_below(t)
    with pytest.raises(error, match=message):
        getattr(t, verb)(*arguments, **named)
    assert data_files_below(t) == before and len(t.snapshots()) == 3


def test_format_version_1_has_no_merge_on_read(make):
    with pytest.raises(ValidationError, match=r"upgrade\(format_version=2\)"):
        make(range(4), format_version=1).delete("id = 1", mode=MOR)


def test_files_that_match_as_a_whole_go_without_being_read(make):
    t = make(range(6), partition_by=["p"])
    for path in data_files_below(t):
        Path(path).unlink()
    result = t.delete("p = 1 or p = 2")
    assert (result.operation, result.rows_deleted, result.files_removed, result.files_added) == (
        "delete",
        4,
        2,
        0,
    )
    assert t.delete("true").rows_deleted == 2 and t.scan().count() == 0
    assert t.delete().snapshot_id is None


# update
# ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
def test_an_update_moves_rows_to_the_partition_of_their_new_value(make, mode):
    t = make(range(9), partition_by=["p"])
    result = t.update({"p": "7"}, "id in (1, 4, 8)", mode=mode)
    assert (result.rows_updated, result.rows_inserted, result.rows_deleted) == (3, 0, 0)
    assert sorted(t.scan("p = 7").to_arrow()["id"].to_pylist()) == [1, 4, 8] and ids(t) == list(
        range(9)
    )
    assert {
        f["partition"]["p"] for f in live(t) if f["content"] == 0 and f["record_count"] == 3
    } >= {7}


def test_members_of_structs_constants_and_old_values_can_be_set(make):
    t = make(range(3))
    t.update({"s.a": "id * 100", "v": 1.25, "p": None}, "id = 1")
    row = t.scan("id = 1").to_arrow().to_pylist()[0]
    assert row == {"id": 1, "p": None, "v": 1.25, "s": {"a": 100, "b": "b1"}}
    t.update({"id": "id + 10", "v": "id"})
    assert t.to_arrow().sort_by("id").to_pydict()["v"] == [0.0, 1.0, 2.0] and ids(t) == [10, 11, 12]


def test_a_rewritten_file_keeps_the_order_of_its_rows(make):
    t = make(range(1000))
    t.update({"v": "v + 0.5"}, "id % 7 = 0")
    t.delete("id % 10 = 3")
    assert t.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist() == [
        i for i in range(1000) if i % 10 != 3
    ]


def test_rewritten_rows_go_to_the_partitions_of_the_current_spec(make):
    t = make(range(6), range(6, 12))
    with t.update_spec() as update:
        update.add_identity("p")
    t.delete("id = 0")
    t.update({"v": 0}, "id = 7", mode=MOR)
    assert sorted((f["spec_id"], f["content"], f["record_count"]) for f in live(t)) == [
        (0, 0, 6),
        (0, 1, 1),
        (1, 0, 1),
        (1, 0, 1),
        (1, 0, 2),
        (1, 0, 2),
    ]
    assert ids(t) == list(range(1, 12))


def test_columns_that_changed_are_read_and_written_as_they_are_now(make):
    t = make(range(4))
    with t.update_schema() as update:
        update.rename_column("v", "w")
        update.update_column("p", frazil.LongType())
        update.add_column("n", frazil.StringType())
        update.delete_column("s")
    t.append(pa.table({"id": [9], "p": [1 << 40], "w": [9.0], "n": ["new"]}))
    t.update({"n": "concat('w', cast(p as string))"}, "w >= 2")
    assert t.to_arrow().sort_by("id").to_pylist() == [
        {"id": 0, "p": 0, "w": 0.0, "n": None},
        {"id": 1, "p": 1, "w": 1.0, "n": None},
        {"id": 2, "p": 2, "w": 2.0, "n": "w2"},
        {"id": 3, "p": 0, "w": 3.0, "n": "w0"},
        {"id": 9, "p": 1 << 40, "w": 9.0, "n": f"w{1 << 40}"},
    ]


# overwrite
# ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
def test_overwrite_by_a_filter_that_cuts_through_files_is_one_snapshot(make, mode):
    t = make(range(5), range(5, 10), properties={"write.delete.mode": mode})
    result = t.overwrite(frame([100, 101]), "id >= 3")
    assert ids(t) == [0, 1, 2, 100, 101] and len(t.snapshots()) == 3
    assert (result.operation, result.rows_inserted, result.rows_deleted) == ("overwrite", 2, 7)
    with t.transaction() as tx:
        tx.overwrite(frame([7]).append_column("n", pa.array(["x"])), "id = 1", merge_schema=True)
    assert ids(t) == [0, 2, 7, 100, 101] and t.scan("n = 'x'").count() == 1
    assert t.overwrite(frame([]), "id = 2").rows_deleted == 1 and ids(t) == [0, 7, 100, 101]


# transactions
# ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", [COW, MOR])
def test_later_steps_see_what_earlier_ones_staged(make, mode, version):
    t = make(range(5), format_version=version)
    manifests = len(list(Path(t.location(), "metadata").glob("*.avro")))
    with t.transaction() as tx:
        tx.append(frame(range(10, 15)))
        tx.delete("id in (1, 11)", mode=mode)
        tx.update({"v": "v * 2"}, "id in (2, 12)", mode=mode)
        tx.overwrite(frame([50]), "id = 13")
        tx.delete("id = 50", mode=mode)
    assert ids(t) == [0, 2, 3, 4, 10, 12, 14] and t.scan("v = 24").count() == 1
    assert (tx.result.rows_inserted, tx.result.rows_deleted, tx.result.rows_updated) == (6, 4, 2)
    listing = {p.name for p in Path(t.location(), "metadata").glob("*.avro")}
    known = {Path(m["path"]).name for m in t.inspect.all_manifests().to_pylist()} | {
        Path(s.manifest_list).name for s in t.snapshots()
    }
    assert listing == known and len(listing) > manifests


def test_a_transaction_is_tried_again_on_what_others_committed(catalog, make):
    t = make(range(5), format_version=3)
    other = catalog.load_table("db.t")
    with t.transaction() as tx:
        tx.append(frame([10, 11]))
        tx.update({"v": "-1"}, "id in (4, 10)", mode=MOR, isolation_level="snapshot")
        other.append(frame([20, 21]))
    assert tx.result.attempts == 2 and ids(t) == [0, 1, 2, 3, 4, 10, 11, 20, 21]
    rows = t.scan(selected_fields=("id", "v", "_row_id")).to_arrow().to_pylist()
    assert len({r["_row_id"] for r in rows}) == 9 and None not in {r["_row_id"] for r in rows}
    assert {r["id"]: r["_row_id"] for r in rows}[4] == 4 and sorted(
        r["id"] for r in rows if r["v"] == -1
    ) == [4, 10]


@pytest.mark.parametrize("mode", [COW, MOR])
def test_row_ids_stay_through_several_steps_of_a_transaction(make, mode):
    t = make(range(4), format_version=3)
    with t.transaction() as tx:
        tx.update({"v": "v + 1"}, "id < 2", mode=mode)
        tx.update({"v": "v + 1"}, "id < 3", mode=mode)
        tx.append(frame([9]))
        tx.update({"v": "v + 1"}, "id = 9 or id = 1", mode=mode)
        tx.delete("id = 0", mode=mode)
    rows = (
        t.scan(selected_fields=("id", "v", "_row_id", "_last_updated_sequence_number"))
        .to_arrow()
        .sort_by("id")
        .to_pylist()
    )
    assert [(r["id"], r["v"], r["_row_id"]) for r in rows[:3]] == [
        (1, 4.0, 1),
        (2, 3.0, 2),
        (3, 3.0, 3),
    ]
    assert (rows[3]["id"], rows[3]["v"]) == (9, 10.0) and rows[3]["_row_id"] > 3
    assert rows[2]["_last_updated_sequence_number"] == 1 and all(
        1 < r["_last_updated_sequence_number"] <= 6 for r in rows[:2] + rows[3:]
    )


def test_a_transaction_that_fails_leaves_no_file(make):
    t = make(range(5))
    data, metadata = data_files_below(t), set(Path(t.location(), "metadata").iterdir())
    with pytest.raises(EvaluationError), t.transaction() as tx:
        tx.append(frame([9]))
        tx.delete("id = 1", mode=MOR)
        tx.update({"p": "p / 0"})
    assert data_files_below(t) == data and set(Path(t.location(), "metadata").iterdir()) == metadata


# conflicts
# ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [COW, MOR])
@pytest.mark.parametrize("verb", ["delete", "update"])
def test_of_two_writers_on_the_same_rows_exactly_one_wins(catalog, make, mode, verb):
    t = make(range(5), properties=REFUSED)
    other = catalog.load_table("db.t")
    t.update({"v": "v + 1"}, "id = 3", mode=mode)
    before = data_files_below(t)
    with pytest.raises(ValidationException) as caught:
        other.delete("id = 3", mode=mode) if verb == "delete" else other.update(
            {"v": "v + 1"}, "id = 3", mode=mode
        )
    assert str(t.current_snapshot().snapshot_id) in str(caught.value) + repr(caught.value.facts)
    assert data_files_below(t) == before and t.scan("id = 3").to_arrow()["v"].to_pylist() == [4.0]
    assert other.refresh().delete("id = 3", mode=mode).rows_deleted == 1


@pytest.mark.parametrize("mode", [COW, MOR])
def test_writers_on_different_partitions_both_succeed_and_nothing_is_written_twice(
    catalog, make, mode
):
    t = make(range(9), partition_by=["p"])
    other = catalog.load_table("db.t")
    t.delete("id = 4 and p = 1", mode=mode)
    result = other.update({"v": "v + 1"}, "p = 2 and id = 5", mode=mode)
    assert result.attempts == 2 and ids(other) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert data_files_below(other) == known_files(other)


def test_an_append_conflicts_with_a_delete_of_its_rows_only_when_serializable(catalog, make):
    t = make(range(5), properties=REFUSED)
    serializable, snapshot = catalog.load_table("db.t"), catalog.load_table("db.t")
    t.append(frame([3]))
    with pytest.raises(ValidationException):
        serializable.delete("id = 3")
    assert snapshot.delete("id = 3", **{"isolation-level": "snapshot"}).rows_deleted == 1
    assert ids(snapshot) == [0, 1, 2, 3, 4]


A_GROUP_PER_FILE = {"read.split.target-size": "1"}


# where it goes
# --------------------------------------------------------------------------------------------------------------------------


def test_branches_properties_and_staged_snapshots(make):
    t = make(range(5))
    t.manage_snapshots().create_branch(t.current_snapshot().snapshot_id, "audit").commit()
    result = t.delete("id = 1", {"who": "me"}, branch="audit", mode=MOR)
    assert (
        result.summary["who"] == "me"
        and ids(t) == [0, 1, 2, 3, 4]
        and ids(t, branch="audit") == [0, 2, 3, 4]
    )
    assert (
        t.update({"v": 0}, "id = 2", branch="audit").rows_updated == 1
        and t.scan("v = 0", branch="audit").count() == 2
    )
    staged = t.delete("id = 4", branch=None)
    assert (
        staged.snapshot_id is not None
        and ids(t) == [0, 1, 2, 3, 4]
        and ids(t, snapshot_id=staged.snapshot_id) == [0, 1, 2, 3]
    )
    t.set_properties({"write.wap.enabled": "true"})
    audited = t.delete("id = 0", **{"wap-id": "w1"})
    assert audited.summary["wap.id"] == "w1" and ids(t) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", [COW, MOR])
def test_files_of_attempts_that_nobody_reports_are_removed(make, mode, version):
    t = make(
        range(10),
        range(10, 20),
        format_version=version,
        partition_by=["p"],
        properties=A_GROUP_PER_FILE,
    )
    runner = FlakyRunner(repeat=range(99), seed=5)
    assert (
        t.update({"v": 0}, "id % 5 = 0", mode=mode, runner=runner).rows_updated == 4
        and runner.repeats
    )
    runner = FlakyRunner(repeat=[1], seed=6)
    assert (
        t.delete("id % 5 = 1", mode=mode, runner=runner).rows_deleted == 4
        and ("repeat", 1) in runner.fired
    )
    assert data_files_below(t) == known_files(t) and len(ids(t)) == 16


@pytest.mark.parametrize("mode", [COW, MOR])
def test_a_task_that_is_killed_after_its_work_leaves_rows_and_files_as_they_were(make, mode):
    t = make(range(10), range(10, 20), partition_by=["p"], properties=A_GROUP_PER_FILE)
    before, runner = data_files_below(t), FlakyRunner(kill=[1], seed=7)
    with pytest.raises(TaskKilled):
        t.update({"v": 0}, "id % 5 = 0", mode=mode, runner=runner)
    assert (
        ("kill", 1) in runner.fired
        and data_files_below(t) == before == known_files(t)
        and ids(t) == list(range(20))
    )


@pytest.mark.parametrize("mode", [COW, MOR])
@pytest.mark.parametrize("name", ["_pos", "_file", "_deleted"])
def test_columns_named_as_metadata_columns_keep_their_values(catalog, mode, name):
    t = catalog.create_table("db.named", f"id long, `{name}` long", format_version=3)
    t.append(pa.table({"id": [1, 2, 3], name: [10, 20, 30]}))
    t.update({"id": "id + 100"}, "id = 2", mode=mode)
    t.merge(pa.table({"id": [3]}), "target.id = source.id").when_matched_update(
        {"id": "target.id + 100"}
    ).execute(mode)
    assert sorted(t.scan().to_arrow().select(["id", name]).to_pydict()[name]) == [10, 20, 30]


def test_a_column_named_as_row_lineage_is_refused_by_name_in_v3(catalog):
    t = catalog.create_table("db.named", "id long, _row_id long", format_version=3)
    t.append(pa.table({"id": [1, 2], "_row_id": [10, 20]}))
    with pytest.raises(Unsupported, match="a column _row_id"):
        t.update({"id": "id + 100"}, "id = 2")


def test_a_file_that_another_writer_took_away_is_told_with_both_snapshots(catalog, make):
    make(range(10), properties=REFUSED)
    mine, other = catalog.load_table("db.t"), catalog.load_table("db.t")
    gone = other.delete("id < 100")
    read = mine.current_snapshot().snapshot_id
    with pytest.raises(ValidationException) as e:
        mine.delete("id = 3", mode=COW)
    facts = e.value.facts
    assert (facts["snapshot_ids"], facts["starting_snapshot_id"]) == (
        [gone.snapshot_id],
        read,
    ) and facts["files"]


@pytest.mark.parametrize("mode", [COW, MOR])
def test_rows_rewritten_before_an_upgrade_do_not_lose_the_ids_it_gave_them(catalog, make, mode):
    make(range(10), properties=REFUSED)
    mine, other = catalog.load_table("db.t"), catalog.load_table("db.t")
    other.upgrade(format_version=3)
    other.append(frame([20]))
    with pytest.raises(ValidationException, match="upgraded"):
        mine.update({"v": "0"}, "id = 3", mode=mode)
    mine.append(frame([21]))
    assert mine.update({"v": "0"}, "id = 3", mode=mode).rows_updated == 1


@pytest.mark.parametrize("mode", [COW, MOR])
def test_an_update_that_is_planned_anew_after_an_upgrade_keeps_the_ids_of_rows(catalog, make, mode):
    make(range(10))
    mine, other = catalog.load_table("db.t"), catalog.load_table("db.t")
    other.upgrade(format_version=3)
    other.append(frame([20]))
    before = row_ids(other)
    assert mine.update({"v": "0"}, "id = 3", mode=mode).planned_anew == 1
    assert row_ids(mine) == before and None not in before.values()


def row_ids(t):
    rows = t.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
    return {r["id"]: r["_row_id"] for r in rows}
