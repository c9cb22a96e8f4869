"""Run work in groups, wherever there are slots, and leave no files behind but those that a result names.

A `Runner` maps a picklable function over groups of files: in threads of this process (`runner.InProcess`), or in tasks of Spark
(`frazil.spark.tasks`). A group may be tried more than once; names of files carry the operation and the attempt, so that files of attempts
that did not count can be found and removed (`attempts`).
"""

__all__ = ["attempts", "in_order", "runner"]
