"""Files under PyIceberg's names: `new_input`, `new_output`, `load_file_io`."""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import (
    AlreadyExists,
    FileAlreadyExistsError,
    InvalidInput,
    NoSuchFileError,
    Unsupported,
)
from frazil.io import load_file_io
from frazil.io.pyarrow import PyArrowFileIO
from frazil.storage import Storage, file_io
from frazil.storage.memory import MemoryStorage

Place = tuple[Storage, str]


@pytest.fixture
def io(place: Place) -> Any:
    return file_io(place[0])


def test_an_output_is_read_back_by_an_input(place: Place) -> None:
    storage, root = place
    io = file_io(storage)
    out = io.new_output(f"{root}/a.bin")
    assert not out.exists()
    with out.create() as stream:
        assert stream.write(b"abc") == 3 and stream.write(b"de") == 2 and stream.tell() == 5
    found = out.to_input_file()
    assert (
        found.exists()
        and len(found) == len(out) == 5
        and found.location == out.location
        and bool(found)
    )
    with found.open() as source:
        source.seek(1)
        assert source.read(2) == b"bc" and source.tell() == 3
    assert storage.read(f"{root}/a.bin") == b"abcde"


def test_a_stream_without_a_block_ends_with_close_and_only_once(place: Place, io: Any) -> None:
    stream = io.new_output(f"{place[1]}/a.bin").create()
    stream.write(b"x")
    stream.close()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.write(b"y")
    assert io.read(f"{place[1]}/a.bin") == b"x"


def test_a_file_that_is_there_is_replaced_only_when_it_is_asked_for(place: Place, io: Any) -> None:
    out = io.new_output(f"{place[1]}/a.bin")
    for overwrite, data in ((False, b"1"), (True, b"2")):
        with out.create(overwrite=overwrite) as stream:
            stream.write(data)
    with pytest.raises(FileExistsError) as refused, out.create() as stream:
        stream.write(b"3")
    assert (
        isinstance(refused.value, FileAlreadyExistsError)
        and isinstance(refused.value, AlreadyExists)
        and "a.bin" in str(refused.value)
    )
    assert io.read(out.location) == b"2"


class NeverLooks(MemoryStorage):
    """As object stores: an output replaces what is there."""

    def open_output(self, location: str, *, overwrite: bool = False) -> AbstractContextManager[Any]:
        return super().open_output(location, overwrite=True)


def test_a_store_that_never_looks_is_asked_whether_the_file_is_there() -> None:
    out = file_io(NeverLooks()).new_output("memory://never-looks/a.bin")
    out.create().close()
    with pytest.raises(FileAlreadyExistsError, match=r"a\.bin"):
        out.create()
    with out.create(overwrite=True) as stream:
        stream.write(b"2")
    assert out.to_input_file().open().read() == b"2"


def test_an_error_while_writing_leaves_no_file(place: Place) -> None:
    out = file_io(place[0]).new_output(f"{place[1]}/a.bin")
    with pytest.raises(ZeroDivisionError), out.create() as stream:
        stream.write(b"1")
        raise ZeroDivisionError
    assert not out.exists()


def test_files_are_deleted_by_location_or_as_they_came(place: Place, io: Any) -> None:
    for as_it_came in (False, True):
        out = io.new_output(f"{place[1]}/a.bin")
        out.create().close()
        io.delete(out if as_it_came else out.location)
        assert not out.exists()
    with pytest.raises(NoSuchFileError), io.new_input(f"{place[1]}/none").open() as stream:
        stream.read()
    with pytest.raises(InvalidInput, match="no location"):
        io.delete(5)  # type: ignore[arg-type]


def test_a_file_io_is_a_storage_and_travels_by_pickle(place: Place, io: Any) -> None:
    io.write(f"{place[1]}/a.bin", b"1")
    again = pickle.loads(pickle.dumps(io))
    assert again.read(f"{place[1]}/a.bin") == b"1" and again == io and file_io(io) is io
    assert [i.size for i in again.list(place[1])] == [1]


def test_load_file_io_serves_every_scheme_that_a_storage_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for io in (
        load_file_io(),
        load_file_io({"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}, str(tmp_path)),
        PyArrowFileIO(),
    ):
        with io.new_output("./a/b.bin").create(overwrite=True) as stream:
            stream.write(b"1")
        assert (tmp_path / "a" / "b.bin").read_bytes() == b"1" and io.new_input(
            f"file://{tmp_path}/a/b.bin"
        ).exists()
    io.new_output("memory://x/y").create(overwrite=True).close()
    assert load_file_io(location="memory://x").new_input("memory://x/y").exists()


def test_load_file_io_refuses_what_it_cannot_serve() -> None:
    with pytest.raises(Unsupported, match="viewfs"):
        load_file_io({"warehouse": "viewfs://n/x"})
    with pytest.raises(Unsupported, match=r"my\.own\.FileIO"):
        load_file_io({"py-io-impl": "my.own.FileIO"})
