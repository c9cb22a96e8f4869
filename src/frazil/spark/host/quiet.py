"""Keep PySpark's own report of an error, several kilobytes of JSON and a stack of Java, out of the log where Frazil tells the error."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

from pyspark.logger import PySparkLogger

REPORTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers to which PySpark writes every error of Spark's analyser, handled or not."""
_WITHHELD: ContextVar[list[logging.LogRecord] | None] = ContextVar("withheld", default=None)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Reports of errors that Spark raises inside wait for the outcome: they are logged if it is an error of Spark's own, else dropped."""
    for name in REPORTS:
        PySparkLogger.getLogger(name).addFilter(_is_to_be_logged)  # a filter that is there is not added again
    reports: list[logging.LogRecord] = []
    outside = _WITHHELD.set(reports)
    try:
        yield
    except BaseException as error:
        _WITHHELD.reset(outside)
        if type(error).__module__.startswith("pyspark."):
            for report in reports:
                logging.getLogger(report.name).handle(report)
        raise
    else:
        _WITHHELD.reset(outside)


def _is_to_be_logged(record: logging.LogRecord) -> bool:
    if (reports := _WITHHELD.get()) is None:
        return True
    reports.append(record)
    return False
