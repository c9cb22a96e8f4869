"""What SQL asks of Frazil's tables, as calls that a user could have typed in Python. No module of this room opens storage or commits.

Start at `served`: the catalogs that Spark asks for tables (`spark.catalog`) answer by its calls. What Spark cannot parse or cannot plan
begins in `statements`, which takes such statements in Spark's own parser (`spark/host/jvm_parser`): `grammar` parses Iceberg's extension
statements, `from_spark` translates DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE as Spark has parsed them; both give `nodes`, plain data, and
`run` has the table `RUN` of what each node does. `results` keeps the outcome of each write.
"""

__all__ = ["from_spark", "grammar", "nodes", "results", "run", "served", "statements", "targets"]
