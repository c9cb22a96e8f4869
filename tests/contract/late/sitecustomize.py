"""Loaded by every Python that Spark starts while FRAZIL_TEST_LATE names a folder: the first attempt
of a job's task 0 waits until a copy of it, which Spark's speculation started elsewhere, has done
the work; then it does it too, as a slow machine would. Marks in that folder say so."""

import os
import time
from functools import wraps

FOLDER = os.environ.get("FRAZIL_TEST_LATE")
PATIENCE = 60.0
LATE = 0.5  # seconds; Spark ends the Python of a killed task after two


def mark(name):
    with open(os.path.join(FOLDER, name), "w"):
        pass


def late(work, kind):
    """`work`, a generator of a task, as above."""

    @wraps(work)
    def task(*arguments):
        from pyspark import TaskContext

        context = TaskContext.get()
        name = f"{kind}-{context.stageId()}-{context.partitionId()}"
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            end = time.monotonic() + PATIENCE
            while (
                not os.path.exists(os.path.join(FOLDER, f"{name}-copy")) and time.monotonic() < end
            ):
                time.sleep(0.02)
            time.sleep(LATE)
            found = list(work(*arguments))
            mark(f"{name}-late")
            yield from found
            return
        yield from work(*arguments)
        if context.attemptNumber() > 0:
            mark(f"{name}-copy")

    return task


def _install():
    from frazil.spark.dml import change_tasks as row_changes_tasks
    from frazil.spark.dml import staging
    from frazil.spark.streams.sink import batch_rows
    from frazil.spark.tasks import spark_runner as run
    from frazil.spark.write import arrow_write

    run.work_on = late(run.work_on, "work")
    arrow_write.write_part = late(arrow_write.write_part, "arrow")
    batch_rows.stage_part = late(batch_rows.stage_part, "stream")
    batch_rows.write_part = late(batch_rows.write_part, "stream")
    staging.write_part = late(staging.write_part, "stage")
    row_changes_tasks.write_rows_and_positions = late(
        row_changes_tasks.write_rows_and_positions, "changes"
    )


if FOLDER:
    _install()
