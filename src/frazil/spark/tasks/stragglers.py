"""Wait for tasks of Spark that still run after their job has ended: copies made by speculation, and tasks of a job that failed."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

from pyspark import TaskContext

from frazil.spark.host.jvm import running_tasks
from frazil.tasks.attempts import Attempts, Operation

LINGER = 2.5
"""Seconds for which the Python of a task that Spark has ended may still write: spark.python.task.killTimeout, and some more."""
_SETTLE = 15.0  # seconds; Spark ends a killed task's Python after two


def attempts_on(spark: Any, operation: Operation) -> Attempts:
    """The attempts of an operation whose tasks run in this session."""
    return Attempts(operation, speculates(spark), partial(settle, spark))


def speculates(spark: Any) -> bool:
    """Whether Spark may run a task twice at the same time."""
    return str(spark.conf.get("spark.speculation", "false")).lower() == "true"


def settle(spark: Any) -> float:
    """After a failed job, or copies that speculation made: wait until the other tasks have ended, some seconds at most, since a task that
    still runs may write on after what was written has been removed. Returns the seconds for which the Python of such a task may."""
    end = time.monotonic() + _SETTLE
    with contextlib.suppress(Exception):  # Connect has no such facts; then what such a task leaves is an orphan
        while running_tasks(spark) and time.monotonic() < end:
            time.sleep(0.05)
    return LINGER


def tried_again() -> bool:
    """In a task: whether Spark has tried this task before, or may be running a copy of it now (settings of a session travel with the tasks
    of its queries as local properties)."""
    task = TaskContext.get()
    return task is not None and (task.attemptNumber() > 0 or task.getLocalProperty("spark.speculation") == "true")
