"""Deletes applied to files of all three formats: keys of every type, positions across row groups
and splits, damage.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.deletes import apply_deletes as deletes_room
from frazil.arrow.deletes import key_set
from frazil.arrow.deletes.apply_deletes import key_schema
from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.arrow.read.read_tasks import ReadContext, ReadOptions, read
from frazil.codec.deletion_vector import vector_blob
from frazil.codec.puffin import encode_puffin
from frazil.errors import CorruptData, FrazilError, NoSuchFileError, Unsupported
from frazil.expr.bind import bind
from frazil.expr.parse import parse
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile
from frazil.spec.schema import (
    DELETE_FILE_PATH_ID,
    DELETE_FILE_POS_ID,
    DELETE_FILE_ROW_ID,
    METADATA_COLUMNS,
    Schema,
)
from frazil.spec.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from frazil.storage.local import LocalStorage
from tests.arrow.support import (
    LEAVES,
    MEMORY,
    STORAGE,
    arrow_table,
    comparable,
    leaf_values,
    somewhere,
    task_of,
    written,
)

N = NestedField
FORMATS = ["parquet", "orc", "avro"]
POSITIONS = Schema(
    N(DELETE_FILE_PATH_ID, "file_path", StringType(), True),
    N(DELETE_FILE_POS_ID, "pos", LongType(), True),
)
PLAIN = Schema(N(1, "id", LongType()), N(2, "s", StringType()))
EXTRA = {"_pos": LongType(), "_deleted": BooleanType()}


def file_of(
    schema: Schema,
    rows: Sequence[dict[int, Any]],
    where: Path | str,
    kind: str = "parquet",
    **properties: str,
) -> DataFile:
    (file,) = written(
        arrow_table(schema, rows),
        schema,
        where,
        properties={"write.format.default": kind, **properties},
    )
    return file


def equality(
    schema: Schema,
    ids: Sequence[int],
    rows: Sequence[dict[int, Any]],
    where: Path | str,
    kind: str = "parquet",
) -> DataFile:
    return replace(file_of(schema, rows, where, kind), content=2, equality_ids=tuple(ids))


def positions(of: Sequence[tuple[str, int]], where: Path | str, kind: str = "parquet") -> DataFile:
    rows = [{DELETE_FILE_PATH_ID: p, DELETE_FILE_POS_ID: n} for p, n in of]
    return replace(file_of(POSITIONS, rows, where, kind), content=1)


def vector(data: DataFile, gone: Sequence[int], where: Path) -> DataFile:
    content, (blob,), _ = encode_puffin([vector_blob(gone, data.file_path)])
    path = where / "dv.puffin"
    path.write_bytes(content)
    return DataFile(
        content=1,
        file_path=str(path),
        file_format="puffin",
        record_count=len(set(gone)),
        file_size_in_bytes=len(content),
        referenced_data_file=data.file_path,
        content_offset=blob.offset,
        content_size_in_bytes=blob.length,
    )


def extra(*names: str) -> list[N]:
    return [N(METADATA_COLUMNS[n], n, EXTRA[n]) for n in names]


def rows(
    data: DataFile,
    deletes: Sequence[DataFile],
    schema: Schema,
    *,
    table: Schema | None = None,
    schemas: Sequence[Schema] = (),
    where: str | None = None,
    parts: Sequence[FileScanTask] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    table = table or schema
    bound = bind(parse(where), table) if where else None
    storage = STORAGE if not data.file_path.startswith("memory:") else MEMORY
    context = ReadContext(
        schema,
        storage,
        table,
        bound,
        options=ReadOptions(**options),
        keys=key_schema((*schemas, table), table),
    )
    task = task_of(data, row_filter=bound).with_deletes(tuple(deletes))
    return read(parts or [task], context).read_all().to_pylist()


def numbered(count: int) -> list[dict[int, Any]]:
    return [{1: i, 2: f"s{i}"} for i in range(count)]


# Equality
# ------------------------------------------------------------------------------------------------------------------------------


@st.composite
def keyed(
    draw: Any,
) -> tuple[Schema, list[dict[int, Any]], list[tuple[tuple[int, ...], list[dict[int, Any]]]]]:
    leaves = draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3))
    schema = Schema(*(N(i + 1, f"c{i}", t) for i, t in enumerate(leaves)))
    pools = [draw(st.lists(leaf_values(t), min_size=1, max_size=3)) for t in leaves]
    row = st.fixed_dictionaries(
        {i + 1: st.none() | st.sampled_from(p) for i, p in enumerate(pools)}
    )
    ids = st.sets(st.sampled_from([f.field_id for f in schema.fields]), min_size=1).map(
        lambda s: tuple(sorted(s))
    )
    deletes = draw(
        st.lists(st.tuples(ids, st.lists(row, min_size=1, max_size=3)), min_size=1, max_size=3)
    )
    return schema, draw(st.lists(row, min_size=1, max_size=12)), deletes


@pytest.fixture
def data(tmp_path: Path) -> DataFile:
    return file_of(PLAIN, numbered(10), tmp_path)


@settings(max_examples=60, deadline=None)
@given(made=keyed(), kinds=st.tuples(*[st.sampled_from(["parquet", "avro"])] * 2))
def test_a_row_is_deleted_when_all_key_columns_of_some_delete_are_equal(
    made: Any, kinds: tuple[str, str]
) -> None:
    schema, held, deletes = made
    place = somewhere()
    data = file_of(schema, held, place, kinds[0])
    files = [
        equality(Schema(*(schema.by_id[i] for i in ids)), ids, keys, place, kinds[1])
        for ids, keys in deletes
    ]

    def told(ids: Sequence[int], some: Sequence[dict[int, Any]]) -> list[str]:
        return list(
            map(repr, comparable(arrow_table(Schema(*(schema.by_id[i] for i in ids)), some)))
        )

    gone = [False] * len(held)
    for ids, keys in deletes:
        wanted = set(told(ids, keys))
        gone = [g or r in wanted for g, r in zip(gone, told(ids, held), strict=True)]
    want = [i for i, g in enumerate(gone) if not g]
    assert [r["_pos"] for r in rows(data, files, Schema(*extra("_pos")), table=schema)] == want
    shown = rows(data, files, Schema(*extra("_deleted")), table=schema)
    assert [r["_deleted"] for r in shown] == gone


@pytest.mark.parametrize("kind", FORMATS)
def test_keys_are_found_by_id_when_they_were_renamed_widened_and_dropped(
    tmp_path: Path, kind: str
) -> None:
    first = Schema(
        N(1, "id", IntegerType()),
        N(2, "f", FloatType()),
        N(3, "d", DecimalType(9, 2)),
        N(4, "st", StructType(N(5, "k", IntegerType()))),
        schema_id=0,
    )
    last = Schema(
        N(1, "nr", LongType()),
        N(2, "g", DoubleType()),
        N(3, "e", DecimalType(18, 2)),
        N(4, "tt", StructType(N(6, "k", StringType()))),
        schema_id=3,
    )
    held = [{1: i, 2: i / 2, 3: Decimal(i) / 4, 4: {5: i} if i % 2 else None} for i in range(8)]
    data = file_of(first, held, tmp_path, kind)
    deletes = [
        equality(Schema(first.fields[0]), [1], [{1: 0}], tmp_path, kind),
        equality(Schema(last.fields[0]), [1], [{1: 1}, {1: 2**40}], tmp_path, kind),
        equality(
            Schema(last.fields[1], last.fields[2]),
            [2, 3],
            [{2: 1.0, 3: Decimal("0.50")}],
            tmp_path,
            kind,
        ),
        equality(Schema(first.fields[3]), [5], [{4: {5: 3}}], tmp_path, kind),
    ]
    for table in (first, last):
        found = rows(data, deletes, Schema(*extra("_pos")), table=table, schemas=[first, last])
        assert [r["_pos"] for r in found] == [4, 5, 6, 7]
    null = equality(Schema(first.fields[3]), [5], [{4: None}], tmp_path, kind)
    assert [
        r["_pos"]
        for r in rows(data, [null], Schema(*extra("_pos")), table=last, schemas=[first, last])
    ] == [1, 3, 5, 7]


def test_a_key_newer_than_the_data_file_has_its_default_there(tmp_path: Path) -> None:
    data = file_of(PLAIN, numbered(3), tmp_path)
    for default, key, left in ((7, 7, 0), (7, None, 3), (None, None, 0)):
        table = Schema(*PLAIN.fields, N(3, "n", LongType(), initial_default=default))
        gone = equality(Schema(N(3, "n", LongType())), [3], [{3: key}], tmp_path)
        assert len(rows(data, [gone], PLAIN, table=table)) == left


def test_a_null_key_takes_only_null_rows(tmp_path: Path) -> None:
    data = file_of(PLAIN, [{1: 1, 2: None}, {1: None, 2: "a"}, {1: 2, 2: "b"}], tmp_path)
    gone = equality(Schema(PLAIN.fields[1]), [2], [{2: None}], tmp_path)
    assert [r["id"] for r in rows(data, [gone], PLAIN)] == [None, 2]
    both = equality(PLAIN, [1, 2], [{1: None, 2: "a"}, {1: 2, 2: None}], tmp_path)
    assert [r["id"] for r in rows(data, [both], PLAIN)] == [1, 2]


def test_columns_of_a_delete_file_that_are_no_keys_do_not_matter(tmp_path: Path) -> None:
    data = file_of(PLAIN, numbered(3), tmp_path)
    gone = equality(PLAIN, [1], [{1: 1, 2: "something else"}], tmp_path)
    assert [r["id"] for r in rows(data, [gone], Schema(PLAIN.fields[0]), table=PLAIN)] == [0, 2]


@pytest.mark.parametrize("kind", FORMATS)
def test_more_keys_than_memory_allows_are_looked_up_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(key_set, "PART", 20_000)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made = []
    of = key_set.SpilledKeys.of
    monkeypatch.setattr(
        deletes_room.SpilledKeys,
        "of",
        lambda batches, size: made.append(of(batches, size)) or made[-1],
    )
    data = file_of(PLAIN, [*numbered(2000), {1: None, 2: None}], tmp_path, kind)
    gone = equality(PLAIN, [1, 2], [*numbered(3000)[1000:], {1: None, 2: None}], tmp_path, kind)
    assert [r["id"] for r in rows(data, [gone], PLAIN, delete_memory=1000)] == list(range(1000))
    (spilled,) = made
    assert len(spilled) == 2001
    assert len(spilled.parts) > 2
    assert not list(folder.iterdir())


def test_a_long_history_of_deletes_makes_few_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data file n has the deletes n, n + 1, …: sets are shared, so that the keys that go into sets
    are n log n, not n * n.
    """
    keys, count = Schema(PLAIN.fields[0]), 64
    gone = [equality(keys, [1], [{1: n}], tmp_path) for n in range(count)]
    data = file_of(PLAIN, numbered(count), tmp_path)
    taken = []
    of = deletes_room.KeySet.of
    monkeypatch.setattr(
        deletes_room.KeySet, "of", lambda columns: taken.append(len(columns[0])) or of(columns)
    )
    context = ReadContext(PLAIN, STORAGE, PLAIN, None, keys=key_schema((PLAIN,), PLAIN))
    for n in range(count):
        left = (
            read([task_of(data).with_deletes(tuple(gone[n:]))], context)
            .read_all()
            .column("id")
            .to_pylist()
        )
        assert left == list(range(n))
    assert sum(taken) <= count * 7


@given(count=st.integers(0, 200))
def test_runs_of_deletes_cover_each_file_once(count: int) -> None:
    files = list(range(count))
    runs: list[Any] = list(deletes_room.blocks(files))  # type: ignore[arg-type]
    assert sorted(f for r in runs for f in r) == files
    assert len(runs) <= count.bit_length()


# Positions
# -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("theirs", FORMATS)
def test_positions_hold_across_row_groups_splits_batches_and_filters(
    tmp_path: Path, kind: str, theirs: str
) -> None:
    small = {
        "write.parquet.row-group-size-bytes": "2000",
        "write.parquet.row-group-check-min-record-count": "50",
    }
    data = file_of(PLAIN, numbered(2000), tmp_path, kind, **small)
    gone = sorted({0, 1, 99, 100, 1999, *range(500, 700), *range(0, 2000, 7)})
    other = tmp_path / "other.parquet"
    delete = positions(
        [(data.file_path, n) for n in gone] + [(str(other), n) for n in range(50)], tmp_path, theirs
    )
    again = vector(data, [3, 4, 99], tmp_path)
    schema = Schema(*PLAIN.fields, *extra("_pos"))
    gone_all = {*gone, 3, 4}
    for size in (2048, 33):
        for where, test in (
            (None, lambda i: True),
            ("id >= 1500", lambda i: i >= 1500),
            ("s = 's701' OR id = 500", lambda i: i == 701),
        ):
            want = [i for i in range(2000) if i not in gone_all and test(i)]
            found = rows(
                data, [delete, again], schema, table=PLAIN, where=where, batch_size=size, workers=1
            )
            assert [(r["id"], r["_pos"]) for r in found] == [(i, i) for i in want], where
    bound = bind(parse("id >= 10"), PLAIN)
    task = pickle.loads(pickle.dumps(task_of(data, row_filter=bound).with_deletes((delete, again))))
    step = max(1, data.file_size_in_bytes // 5)
    parts = [
        task.part(at, min(step, data.file_size_in_bytes - at))
        for at in range(0, data.file_size_in_bytes, step)
    ]
    found = rows(data, [], schema, table=PLAIN, where="id >= 10", parts=parts)
    assert [r["_pos"] for r in found] == [i for i in range(10, 2000) if i not in gone_all]


def test_positions_and_keys_work_together_and_deleted_rows_are_marked(
    tmp_path: Path, data: DataFile
) -> None:
    deletes = [
        positions([(data.file_path, 2), (data.file_path, 2)], tmp_path),
        equality(Schema(PLAIN.fields[1]), [2], [{2: "s4"}], tmp_path),
    ]
    assert [r["id"] for r in rows(data, deletes, PLAIN)] == [0, 1, 3, 5, 6, 7, 8, 9]
    assert [r["id"] for r in rows(data, deletes, PLAIN, where="id > 2 AND s <> 's9'")] == [
        3,
        5,
        6,
        7,
        8,
    ]
    shown = rows(
        data, deletes, Schema(PLAIN.fields[0], *extra("_deleted")), table=PLAIN, where="id < 5"
    )
    assert [(r["id"], r["_deleted"]) for r in shown] == [
        (0, False),
        (1, False),
        (2, True),
        (3, False),
        (4, True),
    ]


def test_position_deletes_that_carry_the_deleted_row_are_read(tmp_path: Path) -> None:
    data = file_of(PLAIN, numbered(4), tmp_path)
    schema = Schema(*POSITIONS.fields, N(DELETE_FILE_ROW_ID, "row", PLAIN.as_struct()))
    held = [
        {
            DELETE_FILE_PATH_ID: data.file_path,
            DELETE_FILE_POS_ID: 1,
            DELETE_FILE_ROW_ID: {1: 1, 2: "s1"},
        }
    ]
    assert [
        r["id"] for r in rows(data, [replace(file_of(schema, held, tmp_path), content=1)], PLAIN)
    ] == [0, 2, 3]


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_position_delete_names_its_file_in_any_form(tmp_path: Path, prefix: str) -> None:
    data = file_of(PLAIN, numbered(3), tmp_path)
    bare = data.file_path.removeprefix("file://").removeprefix("file:")
    for ours in ("", "file:", "file://"):
        named = replace(data, file_path=ours + bare)
        assert [
            r["id"] for r in rows(named, [positions([(prefix + bare, 0)], tmp_path)], PLAIN)
        ] == [1, 2]


def test_a_delete_file_larger_than_the_cache_is_read_for_one_data_file(tmp_path: Path) -> None:
    data = file_of(PLAIN, numbered(300), tmp_path)
    delete = positions(
        [(data.file_path, n) for n in range(0, 300, 2)] + [(f"/x/{n}", n) for n in range(300)],
        tmp_path,
    )
    assert [r["id"] for r in rows(data, [delete], PLAIN, delete_cache=1000)] == list(
        range(1, 300, 2)
    )


# Damage
# --------------------------------------------------------------------------------------------------------------------------------


def refused(
    data: DataFile, delete: DataFile, text: str, error: type[FrazilError] = CorruptData
) -> None:
    with pytest.raises(error, match=text) as found:
        rows(data, [delete], PLAIN)
    assert found.value.facts["file"] == delete.file_path


def vectors_of(gone: dict[str, Sequence[int]], where: Path, **change: Any) -> dict[str, DataFile]:
    """Vectors of several data files in one Puffin file; `change`: properties that every blob has
    instead of the right ones.
    """
    made = [vector_blob(rows, path) for path, rows in gone.items()]
    made = [
        replace(
            b, properties={k: v for k, v in {**b.properties, **change}.items() if v is not None}
        )
        for b in made
    ]
    content, placed, _ = encode_puffin(made)
    path = where / "several.puffin"
    path.write_bytes(content)
    return {
        name: DataFile(
            content=1,
            file_path=str(path),
            file_format="puffin",
            record_count=len(gone[name]),
            file_size_in_bytes=len(content),
            referenced_data_file=name,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for name, blob in zip(gone, placed, strict=True)
    }


def test_vectors_whose_places_are_exchanged_in_the_manifest_are_noticed(tmp_path: Path) -> None:
    data, path = file_of(PLAIN, numbered(10), tmp_path), "file:///w/other.parquet"
    vectors = vectors_of({data.file_path: [1, 5], path: [2, 6]}, tmp_path)
    mine, other = vectors.values()
    assert [r["id"] for r in rows(data, [mine], PLAIN)] == [0, 2, 3, 4, 6, 7, 8, 9]
    place = {
        "content_offset": other.content_offset,
        "content_size_in_bytes": other.content_size_in_bytes,
    }
    refused(
        data,
        replace(mine, **place),
        f"places the deletion vector of {data.file_path} .* says that of {path}",
    )
    both = vectors_of({f"/moved/{Path(data.file_path).name}": [1, 5], path: [2, 6]}, tmp_path)
    moved = replace(next(iter(both.values())), referenced_data_file=data.file_path)
    assert len(rows(data, [moved], PLAIN)) == 8, (
        "a table whose manifests were rewritten to another place"
    )
    both = vectors_of(
        {f"/moved/{Path(data.file_path).name}": [1, 5], data.file_path: [2, 6]}, tmp_path
    )
    refused(
        data,
        replace(next(iter(both.values())), referenced_data_file=data.file_path),
        "says that of /moved/",
    )


def test_a_vector_that_its_footer_describes_otherwise_is_corrupt(
    tmp_path: Path, data: DataFile
) -> None:

    def one(**change: Any) -> DataFile:
        return vectors_of({data.file_path: [1, 5]}, tmp_path, **change)[data.file_path]

    refused(
        data, one(cardinality="3"), r"a deletion vector of 2 positions at offset 4 .* says one of 3"
    )
    assert (
        len(rows(data, [one(**{"cardinality": None, "referenced-data-file": None})], PLAIN)) == 8
    ), "nothing is said, nothing contradicts"
    good = one()
    path = Path(good.file_path)
    content = path.read_bytes()
    for text, other in (
        (b'"length":44', b'"length":43'),
        (b'"offset":4', b'"offset":5'),
        (b"deletion-vector-v1", b"deletion-vector-v2"),
    ):
        assert content.count(text) == 1
        path.write_bytes(content.replace(text, other))
        refused(data, good, "the footer of that file says")
    path.write_bytes(content[:-1])
    refused(data, good, "not a Puffin file")


def test_a_puffin_file_is_opened_once_for_all_its_vectors(tmp_path: Path) -> None:
    names = [f"/w/{n}.parquet" for n in range(2000)]
    for count in (20, 2000):  # all of the file is read at once; the footer alone is
        vectors, counted = (
            vectors_of({n: [1, 5] for n in names[:count]}, tmp_path),
            CountedStorage(),
        )
        cache = DeleteCache(1 << 26)
        for name, vector in vectors.items():
            file = DataFile(
                file_path=name, file_format="parquet", record_count=10, file_size_in_bytes=1
            )
            assert positions_of(file, [vector], counted, cache).tolist() == [1, 5]  # type: ignore[arg-type]
        assert counted.opened == (1 if count == 20 else 1 + count)


class CountedStorage:
    """Local files, and how often one was opened."""

    opened = 0

    def open_input(self, location: str) -> Any:
        self.opened += 1
        return LocalStorage().open_input(location)


def test_damaged_deletion_vectors_are_corrupt_and_named(tmp_path: Path, data: DataFile) -> None:
    good = vector(data, [1, 5], tmp_path)
    assert len(rows(data, [good], PLAIN)) == 8
    path = Path(good.file_path)
    content = path.read_bytes()
    refused(data, replace(good, record_count=3), "holds 2 positions, its manifest says 3")
    refused(data, replace(good, content_offset=None), "no valid offset and length")
    refused(data, replace(good, content_offset=5), "deletion vector")
    refused(data, replace(good, content_size_in_bytes=10**9), "ends after the end of the file")
    refused(data, replace(good, content_size_in_bytes=-1), "no valid offset and length")
    at = good.content_offset or 0
    for place in range(at, at + (good.content_size_in_bytes or 0)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        refused(data, good, "deletion vector")
    refused(data, vector(data, [1, 10], tmp_path), "deletes row 10 of .* which has 10 rows")
    path.unlink()
    refused(data, good, "no file", NoSuchFileError)


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_position_deletes_are_corrupt_and_named(
    tmp_path: Path, kind: str, data: DataFile
) -> None:
    good = positions([(data.file_path, 1), (data.file_path, 5)], tmp_path, kind)
    refused(data, positions([(data.file_path, 10)], tmp_path, kind), "deletes row 10 of")
    refused(data, positions([(data.file_path, -1)], tmp_path, kind), "deletes row -1 of")
    refused(data, replace(good, record_count=1), "rows")
    refused(data, replace(good, record_count=3), "holds 2 rows, its manifest says 3")
    refused(data, replace(file_of(PLAIN, numbered(2), tmp_path, kind), content=1), "required")
    wrong = Schema(
        N(DELETE_FILE_PATH_ID, "file_path", StringType(), True),
        N(DELETE_FILE_POS_ID, "pos", StringType(), True),
    )
    refused(
        data,
        replace(
            file_of(wrong, [{DELETE_FILE_PATH_ID: "a", DELETE_FILE_POS_ID: "b"}], tmp_path, kind),
            content=1,
        ),
        "cannot be read as",
    )
    loose = Schema(*(replace(f, required=False) for f in POSITIONS.fields))
    refused(
        data,
        replace(
            file_of(loose, [{DELETE_FILE_PATH_ID: None, DELETE_FILE_POS_ID: 1}], tmp_path, kind),
            content=1,
        ),
        "without a path or a position",
    )
    refused(data, replace(good, key_metadata=b"k"), "encrypted", Unsupported)
    path = Path(good.file_path.removeprefix("file:"))
    path.write_bytes(path.read_bytes()[:-9])
    refused(data, good, ".")
    path.unlink()
    refused(data, good, "no file", NoSuchFileError)


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_equality_deletes_are_corrupt_and_named(
    tmp_path: Path, kind: str, data: DataFile
) -> None:
    good = equality(Schema(PLAIN.fields[0]), [1], [{1: 4}, {1: 5}], tmp_path, kind)
    refused(data, replace(good, equality_ids=(77,)), "no schema of the table has")
    refused(data, replace(good, record_count=3), "holds 2 rows")
    wrong = equality(Schema(N(1, "id", StringType())), [1], [{1: "x"}], tmp_path, kind)
    refused(data, wrong, "cannot be read as")
    path = Path(good.file_path.removeprefix("file:"))
    path.write_bytes(path.read_bytes()[:-9])
    refused(data, good, ".")
