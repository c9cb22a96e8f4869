"""Test code that uses Frazil under faults: a catalog, a store and a task runner that fail on
demand, and a catalog that behaves like a REST server."""

from frazil.testing.flaky_backend import FlakyBackend
from frazil.testing.flaky_runner import FlakyRunner, TaskKilled
from frazil.testing.flaky_storage import FlakyStorage
from frazil.testing.server_backend import ServerBackend

__all__ = ["FlakyBackend", "FlakyRunner", "FlakyStorage", "ServerBackend", "TaskKilled"]
