"""Ask Spark, in a task, which task of the job it is, and report errors about the rows that a task
was given to the driver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark import TaskContext

from frazil.errors import InvalidInput

INPUT = "FRAZIL_INPUT: "
"""The mark of a message about a value that cannot be written, in the error of a Spark task."""


@dataclass(frozen=True)
class ThisTask:
    """Describe a running task. `partition`: its number in the job; `attempt`: an id that no other
    attempt of the application has, 0 outside of tasks; `retried`: an earlier attempt at this task
    failed."""

    partition: int = 0
    attempt: int = 0
    retried: bool = False


def this_task() -> ThisTask:
    """Return which task calls; outside of Spark's tasks, the first attempt at partition 0."""
    task = TaskContext.get()
    return (
        ThisTask()
        if task is None
        else ThisTask(task.partitionId(), task.taskAttemptId(), task.attemptNumber() > 0)
    )


def task_property(key: str) -> str | None:
    """Return a local property of the thread that started this task's job: workers see no session,
    and the settings of a session reach the tasks of its queries that way. None outside of Spark's
    tasks and for a property that is not set."""
    task = TaskContext.get()
    value = None if task is None else task.getLocalProperty(key)
    return None if value is None else str(value)


def task_was_retried() -> bool:
    """Return, in a task, whether Spark has tried this task before or may be running a copy of it
    now.
    """
    return this_task().retried or task_property("spark.speculation") == "true"


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Mark errors about the rows of a task, so that the driver raises InvalidInput for them and not
    Spark's error (`write.write_frame.clear_errors`)."""
    try:
        yield
    except InvalidInput as e:
        raise RuntimeError(f"{INPUT}{e}") from None
