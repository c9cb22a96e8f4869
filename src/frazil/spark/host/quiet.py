"""Keep PySpark's report of an error out of the log where Frazil raises an error of its own: the
report is several kilobytes of JSON and a Java stack trace.

PySpark also records, for such reports, from which line each `Column` was made, at some ten calls of
the JVM for each function. Frazil's own lines tell users nothing, and a MERGE into a wide table
makes thousands of columns; so this, too, is left out.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from pyspark.errors import utils
from pyspark.logger import PySparkLogger

REPORTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers to which PySpark writes every error of Spark's analyser, whether or not it is caught.
"""
_WITHHELD: ContextVar[list[logging.LogRecord] | None] = ContextVar("withheld", default=None)
_records_lines_elsewhere: Callable[[], bool] = getattr(utils, "is_debugging_enabled", bool)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Withhold PySpark's error reports inside the block, and record no lines of columns. If the
    block ends with an error of PySpark the reports are logged then, else dropped.
    """
    utils.is_debugging_enabled = _records_lines
    for name in REPORTS:
        # adding the same filter again changes nothing
        PySparkLogger.getLogger(name).addFilter(_is_to_be_logged)
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


def _records_lines() -> bool:
    return _WITHHELD.get() is None and _records_lines_elsewhere()
