"""Run groups of work as tasks of Spark (`mapInArrow`): the Runner on Spark, and how tasks that were tried twice are cleaned up."""

__all__ = ["numbered_groups", "spark_runner", "stragglers"]
