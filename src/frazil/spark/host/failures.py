"""Translate the error of a failed Spark job into Frazil's: workers that cannot run Frazil, and
errors of disks and stores.
"""

from __future__ import annotations

import errno
import re

from frazil.errors import FrazilError, StorageError
from frazil.spark.host.workers import worker_error
from frazil.storage.base import system_error

_STORAGE_ERROR = re.compile(
    r"^(?:frazil\.[\w.]+\.)?(?:StorageError|AccessRefused|SignedAccessError): (?P<message>Could not .*)$",
    re.MULTILINE,
)
_FILE = re.compile(r"Could not (?:write the temporary file|[a-z]+(?: into| at)?) (?P<file>.*?): ")
_ERROR_NUMBERS = {
    "No space left on device": errno.ENOSPC, "Disk quota exceeded": errno.EDQUOT, "File too large": errno.EFBIG,
    "Read-only file system": errno.EROFS, "Input/output error": errno.EIO, "Too many open files": errno.EMFILE,
    "Permission denied": errno.EACCES,
}  # fmt: skip
# only Java's errors: an OSError of Python may come from a user's own function, and is not about the
# table
_JAVA_ERROR = re.compile(
    r"\b(?:java|org|com)\.[\w.$]+(?:Exception|Error): (?P<before>[^\n]*?)"
    rf"(?P<what>{'|'.join(_ERROR_NUMBERS)})"
)
_PATH = re.compile(r"(?:file:)?/[^\s:(),'\"]+")
_NO_DIRECTORY = re.compile(  # Hadoop's local file system does not give the reason
    r"(?:Mkdirs failed to create|Parent path is not a directory:|Destination exists and is not a directory:) (?P<path>\S+)"
)


def failure(error: BaseException, directory: str) -> FrazilError | None:
    """Return the Frazil error for a failed Spark job that wrote below `directory`; None if the job
    itself raised the error.
    """
    return worker_error(error) or storage_failure(str(error), directory)


def storage_failure(text: str, directory: str) -> StorageError | None:
    """Return the error of a disk or a store that the text of a Spark error contains, or None.
    `directory`: the place to name where the text names none."""
    if raised := _STORAGE_ERROR.search(text):
        file = _FILE.match(raised["message"])
        number = next(
            (n for phrase, n in _ERROR_NUMBERS.items() if phrase in raised["message"]), None
        )
        code = errno.errorcode[number] if number is not None else None
        return StorageError(raised["message"], file=file["file"] if file else directory, errno=code)
    if java_error := _JAVA_ERROR.search(text):
        number = _ERROR_NUMBERS[java_error["what"]]
        path = _PATH.search(java_error["before"])
        storage_error = system_error(
            OSError(number, java_error["what"]), path[0] if path else directory, "write"
        )
        storage_error.advise(
            "Spark also writes temporary files, to the directories of spark.local.dir."
        )
        return storage_error
    if no_directory := _NO_DIRECTORY.search(text):
        path_text = no_directory["path"]
        hint = (
            "Check that no file is in its place and that the user who runs Spark may write there."
        )
        return StorageError(
            f"Could not create the directory {path_text}.", hint=hint, file=path_text
        )
    return None
