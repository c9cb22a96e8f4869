"""Streams of a prepared session: those over Frazil's tables are refused by name, all others are Spark's."""

from __future__ import annotations

from typing import Any

from frazil.dropin.names import is_ours
from frazil.errors import Unsupported

_HINT = "Streams come with a later version; see KNOWN_GAPS.md."


def _refuse(what: str) -> Unsupported:
    return Unsupported(f"{what} is not supported yet.", hint=_HINT)


class _Stream:
    """Passes calls on to Spark's reader or writer and keeps an eye on the format."""

    def __init__(self, own: Any, owner: Any):
        self._own, self._spark = own, getattr(owner, "sparkSession", owner)
        self._format = ""

    def format(self, source: str) -> Any:
        self._format = source.lower()
        self._own = self._own.format(source)
        return self

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._own, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            answer = found(*arguments, **named)
            if isinstance(answer, type(self._own)):
                self._own = answer
                return self
            return answer

        return call


class IcebergStreamReader(_Stream):
    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        if (format or self._format).lower() == "iceberg":
            raise _refuse("readStream.format('iceberg')")
        return self._own.load(path, format, schema, **options)

    def table(self, tableName: str) -> Any:
        if is_ours(self._spark, tableName):
            raise _refuse(f"readStream.table({tableName!r})")
        return self._own.table(tableName)
