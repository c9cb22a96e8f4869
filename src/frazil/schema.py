"""Provide Schema by PyIceberg's path: `from frazil.schema import Schema`."""

from frazil.spec.schema import Schema

__all__ = ["Schema"]
