"""Take what a script sets on a reader or writer, and set it on Spark's own, which it stands for, as
well.
"""

from __future__ import annotations

from typing import Any, Self


class BesideSpark:
    """Hold one of Spark's own readers or writers (`own`), and the format and options set on it."""

    def __init__(self, own: Any):
        self.own = own
        self._format = ""
        self._options: dict[str, Any] = {}

    def format(self, source: str) -> Self:
        """Set the format."""
        self._format, self.own = source.lower(), self.own.format(source)
        return self

    def option(self, key: str, value: object) -> Self:
        """Set an option."""
        self._options[key], self.own = value, self.own.option(key, value)
        return self

    def options(self, **options: object) -> Self:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def _set(self, options: dict[str, Any], **arguments: object) -> None:
        """Set what a call that ends the chain was given: by the methods of the same names."""
        for name, value in arguments.items():
            if value is not None:
                getattr(self, name)(value)
        self.options(**options)
