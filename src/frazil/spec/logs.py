"""Name what a log record tells of (table, snapshot, operation) as attributes of the record, and
format records as JSON.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any

_OF_EVERY_RECORD = frozenset(
    (*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "exc_text")
)


def facts(table: str, operation: str, **more: object) -> dict[str, Any]:
    """Return the facts of a log record, for its argument `extra`: `table` (its full name),
    `operation` (of a snapshot, `scan`, or a procedure's name) and others by name: `snapshot_id`,
    `branch`, `seconds`, `attempts`, counters. Those that are None are left out.
    """
    return {
        "table": table,
        "operation": operation,
        **{name: value for name, value in more.items() if value is not None},
    }


class JsonFormatter(logging.Formatter):
    """Format each log record as one line of JSON: `time` (ISO 8601, UTC), `level`, `logger`,
    `message`, the facts by name, and `exception`, the traceback, where there is one.

    Attach it to any handler: `handler.setFormatter(JsonFormatter())`. Values that JSON lacks are
    written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{k: v for k, v in vars(record).items() if k not in _OF_EVERY_RECORD},
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
