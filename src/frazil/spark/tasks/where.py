"""Choose where the tasks of a session that work from file to file run: as tasks of Spark, or in
threads of the driver's Python.

With a local master the executor is the driver's JVM, so workers see the same cores, files and
memory as the driver's Python does, but each must be started, import Frazil and be sent its work:
the first change of a session waits 2 s for that (docs/adr/0033).
"""

from __future__ import annotations

import re

from frazil.errors import InvalidInput
from frazil.ops.session import Session
from frazil.spark.host.jvm import default_parallelism
from frazil.spark.host.workers import parallelism
from frazil.spark.tasks.spark_runner import runner
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.tasks.runner import InProcess, Runner

RUN_IN = "spark.frazil.tasks.run-in"
"""The session's setting: `spark`, `driver`, or `auto` (the default), which is the driver for the
masters local, local[n] and local[*].
"""
_CHOICES = ("auto", "spark", "driver")
_LOCAL = re.compile(
    r"local(\[(\d+|\*)\])?"
)  # not local[n,tries]: who asks for tries of a task wants Spark's tasks


def runs_in_driver(spark: Session) -> bool:
    """Tell whether tasks that work from file to file run in the driver's Python. Raises
    InvalidInput for an unknown value of `RUN_IN`.
    """
    choice = str(spark.conf.get(RUN_IN, None) or "auto").lower()
    if choice not in _CHOICES:
        raise InvalidInput(
            f"{RUN_IN} is {choice!r}.", hint=f"Set it to one of {', '.join(_CHOICES)}."
        )
    if choice == "auto":
        is_classic = (
            default_parallelism(spark) is not None
        )  # with Spark Connect the master is the server's
        return is_classic and _LOCAL.fullmatch(str(spark.conf.get("spark.master", ""))) is not None
    return choice == "driver"


def runner_of(spark: Session, metadata: TableMetadata, storage: Storage) -> Runner:
    """Return the runner of a session for a table. Raises what `spark_runner.runner` raises, where
    tasks run in Spark.
    """
    return (
        InProcess(parallelism(spark)) if runs_in_driver(spark) else runner(spark, metadata, storage)
    )
