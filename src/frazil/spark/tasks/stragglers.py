"""Wait for Spark tasks that outlive their job (speculative copies, the other tasks of a failed
job), and remove what they wrote.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from frazil.ops.session import Session
from frazil.spark.host.jvm import running_tasks
from frazil.storage import Storage
from frazil.tasks.attempts import Attempts, WriteOperation

LINGER = 2.5
"""The seconds for which the Python worker of a killed task may still write:
spark.python.task.killTimeout, and some more.
"""
_SETTLE = 15.0  # seconds to wait at most; Spark ends the Python worker of a killed task after two


def attempts_on(spark: Session, operation: WriteOperation) -> Attempts:
    """Return the attempts of an operation whose tasks run in this session."""
    return Attempts(operation, speculates(spark), partial(settle, spark))


def speculates(spark: Session) -> bool:
    """Return whether Spark may run two copies of a task at the same time (spark.speculation)."""
    return str(spark.conf.get("spark.speculation", "false")).lower() == "true"


def settle(spark: Session) -> float:
    """Wait until no task of the session runs, 15 seconds at most, and return for how many seconds
    killed tasks may still write.

    Called after a job that failed or was speculated: a task that still runs may write files after
    the operation's files were removed.
    """
    end = time.monotonic() + _SETTLE
    with contextlib.suppress(
        Exception
    ):  # Spark Connect does not list running tasks; files that one leaves there are orphans
        while running_tasks(spark) and time.monotonic() < end:
            time.sleep(0.05)
    return LINGER


@contextlib.contextmanager
def folder_removed_on_error(spark: Session, storage: Storage, folder: str) -> Iterator[None]:
    """Remove a folder after an error in the block, once no task of the session runs that would
    create it again.
    """
    try:
        yield
    except BaseException:
        settle(spark)
        remove_folder(storage, folder)
        raise


def remove_folder(storage: Storage, folder: str) -> None:
    """Delete a folder for temporary files. Errors are ignored, since files that stay are harmless
    orphans.
    """
    with contextlib.suppress(Exception):
        if storage.is_directory(folder):
            storage.delete_tree(folder)
