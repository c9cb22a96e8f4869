"""Run groups of work as tasks of Spark (`mapInArrow`): the Runner on Spark, and waiting for tasks that still run
(`stragglers`). What tasks that were tried twice leave is removed by `frazil.tasks.attempts`."""

__all__ = ["numbered_groups", "spark_runner", "stragglers"]
