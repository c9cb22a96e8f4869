"""Loaded by every Python that Spark starts while FRAZIL_TEST_FAULTS names a folder: first attempts
of tasks fail after they have written all that they write, and leave a file as an attempt does that
was killed in between. Each fault that fires leaves a mark in that folder."""

import os
import uuid

FOLDER = os.environ.get("FRAZIL_TEST_FAULTS")


def _mark(kind):
    with open(os.path.join(FOLDER, f"{kind}-{uuid.uuid4()}"), "w"):
        pass


def _orphan(write):
    """A data file of this operation that no report will name."""
    location = f"{write.location}/data/99999-99999-{write.operation_id}-00001.parquet".removeprefix(
        "file://"
    )
    os.makedirs(os.path.dirname(location), exist_ok=True)
    with open(location, "wb") as out:
        out.write(b"torn")


def _first_attempt():
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.attemptNumber() == 0


def _install():
    from frazil.spark.dml import change_tasks as tasks
    from frazil.spark.dml import staging

    write_rows_and_positions, take_away, write_part = (
        tasks.write_rows_and_positions,
        tasks.take_away,
        staging.write_part,
    )

    def failing_write(sink, batches):
        found = list(write_rows_and_positions(sink, batches))
        if _first_attempt():
            _orphan(sink.write)
            _mark("write")
            raise RuntimeError("injected after the rows were written")
        yield from found

    def failing_take(context, unique, group):
        found = take_away(context, unique, group)
        if _first_attempt():
            _orphan(context.write)
            _mark("take")
            raise RuntimeError("injected after the places were taken away")
        return found

    def failing_stage(staged, batches):
        found = list(write_part(staged, batches))
        if _first_attempt():
            _mark("stage")
            raise RuntimeError("injected after the rows were staged")
        yield from found

    tasks.write_rows_and_positions, tasks.take_away, staging.write_part = (
        failing_write,
        failing_take,
        failing_stage,
    )


if FOLDER:
    _install()
