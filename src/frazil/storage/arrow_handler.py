"""Implement pyarrow's file system over a storage that pyarrow itself has none for."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.fs

from frazil.errors import NoSuchFileError
from frazil.storage.base import Storage, storage_error


class StorageHandler(pa.fs.FileSystemHandler):
    """Implement pyarrow's file system over a storage; paths in it are locations."""

    def __init__(self, storage: Storage):
        self.storage = storage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageHandler) and other.storage == self.storage

    def __hash__(self) -> int:
        return hash(self.storage)

    def get_type_name(self) -> str:
        return "frazil-" + type(self.storage).__name__.removesuffix("Storage").lower()

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> list[pa.fs.FileInfo]:
        paths = [paths] if isinstance(paths, str) else paths
        return [self._info(p) for p in paths]

    def _info(self, path: str) -> pa.fs.FileInfo:
        if self.storage.exists(path):
            return pa.fs.FileInfo(path, pa.fs.FileType.File, size=self.storage.size(path))
        kind = (
            pa.fs.FileType.Directory if self.storage.is_directory(path) else pa.fs.FileType.NotFound
        )
        return pa.fs.FileInfo(path, kind)

    def get_file_info_selector(self, selector: pa.fs.FileSelector) -> list[pa.fs.FileInfo]:
        return [
            pa.fs.FileInfo(i.location, pa.fs.FileType.File, size=i.size)
            for i in self.storage.list(selector.base_dir)
        ]

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._open(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._open(path)

    def _open(self, path: str) -> pa.NativeFile:
        try:
            return self.storage.open_input(path)
        except NoSuchFileError as error:
            raise FileNotFoundError(str(error)) from error

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:
        return pa.PythonFile(_WholeFileSink(self.storage, path), "w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        raise storage_error(OSError("its files cannot be appended to"), path, "append to")

    def create_dir(self, path: str, recursive: bool) -> None:
        self.storage.make_directory(path)

    def delete_dir(self, path: str) -> None:
        self.storage.delete_tree(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.storage.delete_tree(path)

    def delete_root_dir_contents(self) -> None:
        raise storage_error(OSError("a storage cannot be emptied"), "/", "empty")

    def delete_file(self, path: str) -> None:
        self.storage.delete(path)

    def move(self, src: str, dest: str) -> None:
        self.storage.write(dest, self.storage.read(src), overwrite=True)
        self.storage.delete(src)

    def copy_file(self, src: str, dest: str) -> None:
        self.storage.write(dest, self.storage.read(src), overwrite=True)


class _WholeFileSink(io.BytesIO):
    """Collect bytes that become a file when the sink is closed."""

    def __init__(self, storage: Storage, path: str):
        super().__init__()
        self.storage, self.path = storage, path

    def close(self) -> None:
        if not self.closed:
            self.storage.write(self.path, self.getvalue(), overwrite=True)
        super().close()
