"""What every store promises, run over each of them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.errors import AlreadyExists, NoSuchFileError, Unsupported
from frazil.storage import Storage, storage_for

pytestmark = pytest.mark.disk

Place = tuple[Storage, str]


@pytest.fixture
def storage(place: Place) -> Storage:
    return place[0]


@pytest.fixture
def root(place: Place) -> str:
    return place[1]


def test_what_was_written_is_read_back(storage: Storage, root: str) -> None:
    storage.write(f"{root}/a/b.bin", b"12345")
    assert storage.read(f"{root}/a/b.bin") == b"12345"
    assert storage.size(f"{root}/a/b.bin") == 5
    assert storage.exists(f"{root}/a/b.bin") and not storage.exists(f"{root}/a/c.bin")
    with storage.open_input(f"{root}/a/b.bin") as file:
        file.seek(2)
        assert file.read(2) == b"34"


@pytest.mark.parametrize("name", ["p=a b%2F/x", "ü/é", "a+b&c=d/#?", "100%/x", "[a]*{b}/x"])
def test_names_are_taken_as_they_are(storage: Storage, root: str, name: str) -> None:
    storage.write(f"{root}/{name}", b"x")
    assert storage.read(f"{root}/{name}") == b"x"
    assert [i.location for i in storage.list(root)] == [f"{root}/{name}"]
    with storage.open_input(f"{root}/{name}") as file:
        assert file.read() == b"x"


def test_a_write_never_replaces_a_file_unless_it_is_told_to(storage: Storage, root: str) -> None:
    storage.write(f"{root}/x", b"old")
    with pytest.raises(AlreadyExists):
        storage.write(f"{root}/x", b"new")
    assert storage.read(f"{root}/x") == b"old"
    storage.write(f"{root}/x", b"new", overwrite=True)
    assert storage.read(f"{root}/x") == b"new"
    assert [i.location for i in storage.list(root)] == [f"{root}/x"]


def test_publish_has_one_winner(storage: Storage, root: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: storage.publish(f"{root}/v1", str(i).encode()), range(16)))
    assert sum(won) == 1
    assert storage.read(f"{root}/v1") == str(won.index(True)).encode()
    assert [i.location for i in storage.list(root)] == [f"{root}/v1"]


def test_an_output_that_ends_well_is_a_file_and_a_broken_one_is_none(
    storage: Storage, root: str
) -> None:
    with storage.open_output(f"{root}/good") as sink:
        sink.write(b"abc")
    assert storage.read(f"{root}/good") == b"abc"
    with pytest.raises(RuntimeError), storage.open_output(f"{root}/bad") as sink:
        sink.write(b"abc")
        raise RuntimeError
    assert not storage.exists(f"{root}/bad")
    assert [i.location for i in storage.list(root)] == [f"{root}/good"]


def test_parquet_goes_through_the_doors_of_arrow(storage: Storage, root: str) -> None:
    table = pa.table({"a": list(range(1000))})
    with storage.open_output(f"{root}/t.parquet") as sink:
        pq.write_table(table, sink)
    with storage.open_input(f"{root}/t.parquet") as file:
        assert pq.read_table(file).equals(table)
    system, path = storage.arrow(f"{root}/t.parquet")
    assert pq.read_table(path, filesystem=system).equals(table)


def test_missing_files_are_told_by_name(storage: Storage, root: str) -> None:
    for ask in (storage.read, storage.size, storage.open_input):
        with pytest.raises(NoSuchFileError) as told:
            ask(f"{root}/nothing")
        assert told.value.facts["file"] == f"{root}/nothing"
    assert storage.delete_many([f"{root}/nothing"]) == []
    assert list(storage.list(f"{root}/nothing")) == [] == storage.names(f"{root}/nothing")


def test_deleting_takes_what_was_named_and_nothing_else(storage: Storage, root: str) -> None:
    for name in ("a", "b", "c", "d/e", "d/f", "dd"):
        storage.write(f"{root}/{name}", b"x")
    storage.delete(f"{root}/a")
    assert storage.delete_many([f"{root}/b", f"{root}/zzz"]) == []
    storage.delete_tree(f"{root}/d")
    assert sorted(i.location for i in storage.list(root)) == [f"{root}/c", f"{root}/dd"]


def test_listing_sees_files_below_at_any_depth_with_size_and_time(
    storage: Storage, root: str
) -> None:
    storage.write(f"{root}/m/v1", b"123")
    storage.write(f"{root}/m/x/y", b"1")
    storage.write(f"{root}/mm", b"1")
    found = {i.location: i for i in storage.list(f"{root}/m")}
    assert sorted(found) == [f"{root}/m/v1", f"{root}/m/x/y"]
    assert found[f"{root}/m/v1"].size == 3 and found[f"{root}/m/v1"].modified_ms > 1_600_000_000_000
    assert sorted(storage.names(f"{root}/m")) == ["v1", "x"]
    assert storage.names(f"{root}/m", after="v2") == ["x"]
    assert storage.directories(root) == ["m"]


def test_directories_are_made_kept_and_removed_only_when_empty(storage: Storage, root: str) -> None:
    assert not storage.is_directory(f"{root}/n")
    storage.make_directory(f"{root}/n")
    assert (
        storage.is_directory(f"{root}/n")
        and storage.names(f"{root}/n") == []
        and storage.directories(root) == ["n"]
    )
    storage.write(f"{root}/n/file", b"x")
    assert not storage.remove_directory(f"{root}/n")
    storage.delete(f"{root}/n/file")
    assert storage.remove_directory(f"{root}/n")
    assert not storage.is_directory(f"{root}/n")


def test_a_storage_travels_by_pickle(storage: Storage, root: str) -> None:
    storage.write(f"{root}/x", b"x")
    assert pickle.loads(pickle.dumps(storage)).read(f"{root}/x") == b"x"
    assert pickle.loads(pickle.dumps(storage)) == storage


def test_one_storage_serves_files_of_several_schemes(tmp_path: object) -> None:
    storage = storage_for(str(tmp_path))
    storage.write("memory://elsewhere/x", b"1", overwrite=True)
    storage.write(f"file:{tmp_path}/x", b"2")
    assert (storage.read("memory://elsewhere/x"), storage.read(f"{tmp_path}/x")) == (b"1", b"2")
    assert storage.delete_many(["memory://elsewhere/x", f"file:{tmp_path}/x"]) == []


def test_a_scheme_without_storage_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="viewfs"):
        storage_for("viewfs://host/x")
