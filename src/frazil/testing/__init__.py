"""Fakes that ship with Frazil: a catalog, a store and a runner of tasks that fail on demand, for tests that must survive that."""

from frazil.testing.flaky_backend import FlakyBackend
from frazil.testing.flaky_runner import FlakyRunner, TaskKilled
from frazil.testing.flaky_storage import FlakyStorage

__all__ = ["FlakyBackend", "FlakyRunner", "FlakyStorage", "TaskKilled"]
