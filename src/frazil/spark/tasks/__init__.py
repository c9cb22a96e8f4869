"""Run groups of work as Spark tasks: `spark_runner` is the Runner on Spark, `numbered_groups`
spreads groups over tasks by `mapInArrow`, `stragglers` waits for tasks that outlive their job.
`this_task` tells a task which one it is. `where` chooses between Spark tasks and threads of the
driver. Files that repeated tasks leave are removed by `frazil.tasks.attempts`.
"""

__all__ = ["numbered_groups", "spark_runner", "this_task"]
