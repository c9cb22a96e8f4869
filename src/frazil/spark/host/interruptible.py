"""Jobs of Spark that end with a Ctrl-C: none runs on behind the prompt, takes the next one's slots and writes into a folder that is gone.

PySpark's own signal handler asks the JVM over the very connection on which the interrupted call waits, which py4j refuses; and the call
itself goes on in the JVM. So a job that the main thread starts (signals reach no other) waits in a thread with a connection of its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from frazil.spark.host.jvm import jvm_of, set_active

R = TypeVar("R")
_PATIENCE = 30.0
"""Seconds that a cancelled job gets to end."""


def interruptible(spark: Any, job: Callable[[], R]) -> R:
    """The result of a call that runs jobs of Spark. Where it is interrupted, its jobs are cancelled and have ended before that goes on."""
    if threading.current_thread() is not threading.main_thread():
        return job()
    from pyspark import InheritableThread  # workers import this module, too, and have no use for it
    from pyspark.sql import is_remote

    tag = f"frazil-{uuid.uuid4()}"
    if (jvm := jvm_of(spark)) is None or is_remote():
        return _on_connect(spark, tag, job) if jvm is None else job()
    outcome: Future[R] = Future()

    def work() -> None:
        try:
            set_active(spark, jvm)
            spark.sparkContext.addJobTag(tag)
            outcome.set_result(job())
        except BaseException as e:
            outcome.set_exception(e)

    InheritableThread(target=contextvars.copy_context().run, args=(work,), session=spark, name=tag, daemon=True).start()
    try:
        return outcome.result()
    except BaseException:
        if not outcome.done():
            _cancel(spark, tag, outcome)
        raise


def _cancel(spark: Any, tag: str, outcome: Future[Any]) -> None:
    """Again and again, since the JVM may be between two jobs of the call, or before the first."""
    end = time.monotonic() + _PATIENCE
    while not outcome.done() and time.monotonic() < end:
        with contextlib.suppress(Exception):
            spark.sparkContext.cancelJobsWithTag(tag)
        wait([outcome], timeout=0.2)
    time.sleep(0.3)  # tasks that were being started when their job was cancelled are counted by then (`workers.settle`)


def _on_connect(spark: Any, tag: str, job: Callable[[], R]) -> R:
    """There the server is asked, once: what it does between two jobs cannot be seen."""
    spark.addTag(tag)
    try:
        return job()
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):
            spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)
