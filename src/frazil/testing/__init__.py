"""Fakes that ship with Frazil: a catalog and a store that fail on demand, for tests of programs that must survive that; a catalog that
behaves as a REST server does."""

from frazil.testing.flaky_backend import FlakyBackend
from frazil.testing.flaky_storage import FlakyStorage
from frazil.testing.server_backend import ServerBackend

__all__ = ["FlakyBackend", "FlakyStorage", "ServerBackend"]
