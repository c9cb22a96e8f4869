"""Cancel the Spark jobs of a call that is interrupted with Ctrl-C, and wait until they have ended.

A job that goes on after the prompt is back would keep the slots of the next one, and write into a
folder that has been removed. PySpark's own signal handler does not help: it calls the JVM over the
connection on which the interrupted call waits, which py4j refuses, and the call itself goes on in
the JVM. So a job that the main thread starts (signals reach no other thread) runs in a thread with
a connection of its own, while the main thread waits for it and can be interrupted.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, jvm_of, set_active
from frazil.spark.host.jvm_servers import calling_thread, operation_tag

R = TypeVar("R")
_PATIENCE = 30.0  # seconds to wait for a cancelled job
_LOOK = 0.5  # seconds between two looks at a thread that may be interrupted


def interruptible(spark: Session, job: Callable[[], R]) -> R:
    """Return the result of a call that runs Spark jobs. If it is interrupted, cancel its jobs, wait
    until they have ended (30 seconds at most), and raise the interrupt. A call from a thread other
    than the main one is made directly, since no signal reaches it, and so is any call if Spark has
    changed how a thread gets its session."""
    if threading.current_thread() is not threading.main_thread():
        return job()
    # imported here since workers import this module too, and do not need it
    from pyspark import (
        InheritableThread,
    )
    from pyspark.sql import is_remote

    tag = f"frazil-{uuid.uuid4()}"
    if (jvm := jvm_of(spark)) is None or is_remote():
        return _on_connect(spark, tag, job) if jvm is None else job()
    outcome: Future[R] = Future()

    def work() -> None:
        try:
            set_active(spark, jvm)
            spark.sparkContext.addJobTag(tag)
        except NOT_AS_KNOWN as e:
            outcome.set_exception(_NotStarted(e))
            return
        try:
            outcome.set_result(job())
        except BaseException as e:
            outcome.set_exception(e)

    InheritableThread(
        target=contextvars.copy_context().run, args=(work,), session=spark, name=tag, daemon=True
    ).start()
    try:
        return outcome.result()
    except _NotStarted as e:
        fall_back(
            "The active session of a thread",
            e.reason,
            "Jobs go on when their call is interrupted with Ctrl-C.",
        )
        return job()
    except BaseException:
        if not outcome.done():
            _cancel(spark, tag, outcome)
        raise


@contextlib.contextmanager
def ended_with_caller(spark: Session) -> Iterator[None]:
    """Cancel the Spark jobs of the block when the JVM's thread that has called it is interrupted, as
    a server does for a client that gives up. The thread itself waits for this process meanwhile,
    where an interrupt does not reach it."""
    if not (tag := operation_tag(spark)):
        yield
        return
    caller, over = calling_thread(spark), threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            with contextlib.suppress(Exception):
                if caller.isInterrupted():
                    spark.sparkContext.cancelJobsWithTag(tag)

    threading.Thread(target=watch, daemon=True, name=tag).start()
    try:
        yield
    finally:
        over.set()


def cancel_jobs_of_client(spark: Session) -> None:
    """Cancel the jobs of a client's operation that has failed: where the JVM's thread was
    interrupted while it waited for a job, the job goes on, and Spark ends it after this process has
    answered."""
    with contextlib.suppress(Exception):
        if tag := operation_tag(spark):
            spark.sparkContext.cancelJobsWithTag(tag)


class _NotStarted(Exception):
    """Report that the thread of a job could not be prepared, so that no job has begun."""

    def __init__(self, reason: Exception):
        super().__init__(reason)
        self.reason = reason


def _cancel(spark: Session, tag: str, outcome: Future[Any]) -> None:
    """Cancel the jobs of a tag until the call has ended. Once is not enough: the call may be
    between two jobs, or before its first.
    """
    end = time.monotonic() + _PATIENCE
    while not outcome.done() and time.monotonic() < end:
        with contextlib.suppress(Exception):
            spark.sparkContext.cancelJobsWithTag(tag)
        wait([outcome], timeout=0.2)
    # until Spark counts the tasks that it was starting when their job was cancelled
    # (`tasks.spark_runner` waits for those)
    time.sleep(0.3)


def _on_connect(spark: Session, tag: str, job: Callable[[], R]) -> R:
    """Run a call on Spark Connect, and ask the server once to interrupt it; whether the call is
    between two jobs cannot be seen there.
    """
    spark.addTag(tag)
    try:
        return job()
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):
            spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)
