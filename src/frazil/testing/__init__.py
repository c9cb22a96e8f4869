"""Fakes that ship with Frazil: a catalog and a store that fail on demand, for tests of programs that must survive that."""

from frazil.testing.flaky_backend import FlakyBackend
from frazil.testing.flaky_storage import FlakyStorage

__all__ = ["FlakyBackend", "FlakyStorage"]
