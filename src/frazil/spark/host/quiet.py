"""Keep Spark's own report of an error, several kilobytes of JSON and a stack of Java, out of the log where Frazil tells the error."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from pyspark.logger import PySparkLogger

REPORTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers to which PySpark writes every error of Spark's analyser, handled or not."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Errors of Spark that this thread meets inside are not logged by PySpark."""
    loggers, thread = [PySparkLogger.getLogger(name) for name in REPORTS], threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != thread

    for logger in loggers:
        logger.addFilter(is_of_another)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_another)
