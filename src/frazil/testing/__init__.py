"""Fakes that ship with Frazil: a catalog, a store and a runner of tasks that fail on demand, for tests that must survive that, and a
catalog that behaves as a REST server does."""

from frazil.testing.flaky_backend import FlakyBackend
from frazil.testing.flaky_runner import FlakyRunner, TaskKilled
from frazil.testing.flaky_storage import FlakyStorage
from frazil.testing.server_backend import ServerBackend

__all__ = ["FlakyBackend", "FlakyRunner", "FlakyStorage", "ServerBackend", "TaskKilled"]
