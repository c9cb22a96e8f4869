"""Stand in for what fails in production: a catalog, a store and a task runner that fail on
demand, and a catalog that behaves like a REST server."""

from tests.stand_ins.flaky_backend import FlakyBackend
from tests.stand_ins.flaky_runner import FlakyRunner, TaskKilled
from tests.stand_ins.flaky_storage import FlakyStorage
from tests.stand_ins.server_backend import ServerBackend

__all__ = ["FlakyBackend", "FlakyRunner", "FlakyStorage", "ServerBackend", "TaskKilled"]
