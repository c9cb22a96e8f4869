"""Run work on groups of files in parallel, and remove files of failed or repeated task attempts.

A `Runner` maps a picklable function over groups of files: in threads of this process
(`runner.InProcess`), or in Spark tasks (`frazil.spark.tasks`). A group may be tried more than once.
File names carry the operation and the attempt, so that the files of attempts that did not count can
be found and removed (`attempts`).
"""

__all__ = ["attempts", "in_order", "runner"]
