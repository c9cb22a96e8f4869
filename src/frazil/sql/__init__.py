"""Run the SQL that Spark cannot parse or cannot plan: Iceberg's extension statements, and DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE.

`statements` decides which statements of a session these are, and takes them in Spark's own parser (`spark/host/jvm_parser`). `grammar`
parses the extension statements, `from_spark` translates those that Spark has parsed; both give `nodes`, plain data, and `run` has the table
`RUN` of what each node does: a call of the table that one could have typed in Python. Nothing here opens storage or commits.
"""
