"""What a failed Spark job says, as an error of Frazil: workers that cannot run it, and errors of the operating system."""

from __future__ import annotations

import errno
import re

from frazil.errors import FrazilError, StorageError
from frazil.spark.host.workers import worker_error
from frazil.storage.base import system_error

_OURS = re.compile(r"^(?:frazil\.errors\.)?StorageError: (?P<message>Could not .*)$", re.MULTILINE)
_FILE = re.compile(r"Could not (?:write the temporary file|[a-z]+(?: into| at)?) (?P<file>.*?): ")
_NUMBERS = {
    "No space left on device": errno.ENOSPC, "Disk quota exceeded": errno.EDQUOT, "File too large": errno.EFBIG,
    "Read-only file system": errno.EROFS, "Input/output error": errno.EIO, "Too many open files": errno.EMFILE,
    "Permission denied": errno.EACCES,
}  # fmt: skip
_JVM = re.compile(
    r"\b(?:java|org|com)\.[\w.$]+(?:Exception|Error): (?P<before>[^\n]*?)"  # Python's errors are of the functions of users
    rf"(?P<what>{'|'.join(_NUMBERS)})"
)
_PATH = re.compile(r"(?:file:)?/[^\s:(),'\"]+")
_NO_DIRECTORY = re.compile(  # Hadoop's local file system tells no more
    r"(?:Mkdirs failed to create|Parent path is not a directory:|Destination exists and is not a directory:) (?P<path>\S+)"
)


def failure(error: BaseException, directory: str) -> FrazilError | None:
    """Why a Spark job that wrote below `directory` failed, where it was not the job's own doing."""
    return worker_error(error) or storage_failure(str(error), directory)


def storage_failure(text: str, directory: str) -> StorageError | None:
    """The error of a disk or a store behind the text of Spark's error; None: there is none."""
    if ours := _OURS.search(text):
        named = _FILE.match(ours["message"])
        number = next((n for what, n in _NUMBERS.items() if what in ours["message"]), None)
        code = errno.errorcode[number] if number is not None else None
        return StorageError(ours["message"], file=named["file"] if named else directory, errno=code)
    if found := _JVM.search(text):
        number = _NUMBERS[found["what"]]
        path = _PATH.search(found["before"])
        told = system_error(OSError(number, found["what"]), path[0] if path else directory, "write")
        told.advise("Spark itself writes to the directories of spark.local.dir, too.")
        return told
    if missing := _NO_DIRECTORY.search(text):
        where = missing["path"]
        return StorageError(f"Could not make the directory {where}.", hint="Look what is there, and who may write.", file=where)
    return None
