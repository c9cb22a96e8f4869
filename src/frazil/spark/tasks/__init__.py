"""Run groups of work as Spark tasks: `spark_runner` is the Runner on Spark, chooses between Spark's
tasks and threads of the driver, and waits for tasks that outlive their job. `numbered_groups`
spreads groups over tasks by `mapInArrow`, `this_task` tells a task which one it is. Files that
repeated tasks leave are removed by `frazil.tasks.attempts`.
"""

__all__ = ["numbered_groups", "spark_runner", "this_task"]
