"""Open single files of HDFS through hdfs-native: a reader that several threads may share, and a
writer that hands on large pieces.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileWriter

_PIECE = 1 << 20  # bytes that are handed to the client at once


class HdfsInput(io.RawIOBase):
    """Read a file at any position. The client fails hard on reads beyond the end, so they are cut
    here.
    """

    def __init__(self, reader: FileReader, translated: Callable[[], AbstractContextManager[None]]):
        super().__init__()
        self._reader, self._translated = reader, translated
        self._length, self._position = int(reader.file_length()), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        position = (
            offset
            + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        )
        if position < 0:
            raise ValueError(f"There is no position {position} in a file.")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._length - self._position)
        wanted = rest if size is None or size < 0 else min(size, rest)
        if not wanted:
            return b""
        with self._translated():
            data = bytes(self._reader.read_range(self._position, wanted))
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class HdfsSink(io.RawIOBase):
    """Collect what pyarrow writes in small pieces and hand it on in large ones. Closing it does not
    complete the file.

    The file is begun with the first large piece. One that stays small is all in `held`, and can be
    written again after a fault.
    """

    def __init__(
        self, begin: Callable[[], Any], translated: Callable[[], AbstractContextManager[None]]
    ):
        super().__init__()
        self._begin, self._translated = begin, translated
        self.writer: Any = None
        self.held = bytearray()
        self.written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        self.held += piece
        if len(self.held) >= _PIECE:
            self.hand_on()
        return len(piece)

    def hand_on(self) -> None:
        """Give the client what was collected."""
        held, self.held = bytes(self.held), bytearray()
        with self._translated():
            if self.writer is None:
                self.writer = self._begin()
            if held:
                self.writer.write(held)
        self.written += len(held)


def complete(client: Client, writer: FileWriter, path: str, size: int) -> None:
    """Complete a file of a private name, which nobody else reads or writes, with all its bytes on
    the data nodes.

    The client sends the last bytes and asks the name node to complete the file, which it refuses
    until a data node has reported the last block. The report takes milliseconds, but the client
    asks again after half a second only (docs/adr/0038). So its wait is left to a thread. Readers
    see the last block's length as soon as the block is complete, that is, once the first request
    and the report have both come in; then the lease on the file can be released at once, which
    closes it. Before that it must not be: recovery would begin.
    """
    if not size:  # without a block there is no report to wait for
        writer.close()
        return
    closing = _Closing(writer)
    closing.start()
    pause = 0.002
    while not closing.done.wait(pause):
        pause = min(pause * 1.5, 0.1)
        if _released(client, path, size):
            return
    if closing.error is not None and not _released(
        client, path, size
    ):  # the answer to the request may be all that was lost
        raise closing.error


def _released(client: Client, path: str, size: int) -> bool:
    """Close a file whose blocks are complete by the release of its lease; False for any other file,
    and where nothing is answered.
    """
    try:
        return client.read(path).file_length() == size and bool(client.recover_lease(path))
    except Exception:
        return False


class _Closing(threading.Thread):
    """Close a writer beside the calling thread. Not a daemon: a process must not end within the
    client's code.
    """

    def __init__(self, writer: FileWriter):
        super().__init__(name="frazil-hdfs-close")
        self._writer, self.done = writer, threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._writer.close()
        except Exception as error:
            self.error = error
        finally:
            self._writer = None
            self.done.set()
