"""What every store of objects must do with single files, whoever signs its requests."""

from __future__ import annotations

import os

import pytest

from frazil.errors import FileAlreadyExistsError
from frazil.storage import Storage


def write_and_read(storage: Storage, odd: str, place: str) -> None:
    """Publish, write, replace and read the file `odd`, whose name needs escaping; stream a large
    one into `place`, and break another off.
    """
    assert (
        storage.publish(odd, b"one")
        and not storage.publish(odd, b"two")
        and storage.read(odd) == b"one"
        and storage.size(odd) == 3
    )
    with pytest.raises(FileAlreadyExistsError):
        storage.write(odd, b"three")
    storage.write(odd, b"four!", overwrite=True)
    assert storage.read_start(odd, 2) == b"fo"
    with storage.open_input(odd) as file:
        file.seek(1)
        assert file.read(3) == b"our" and file.size() == 5
    large = os.urandom(40 << 20)
    with storage.open_output(f"{place}/large") as sink:
        for start in range(0, len(large), 7 << 20):
            sink.write(large[start : start + (7 << 20)])
    assert storage.read(f"{place}/large") == large
    with pytest.raises(RuntimeError, match="stop"), storage.open_output(f"{place}/broken") as sink:
        sink.write(large)
        raise RuntimeError("stop")
    assert not storage.exists(f"{place}/broken")
