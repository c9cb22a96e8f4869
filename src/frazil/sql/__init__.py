"""What SQL asks of Frazil's tables, as calls that a user could have typed in Python.

Start at `served`: the catalogs that Spark asks for tables (`spark.catalog`) answer by its calls. `results` keeps the outcome of each write.
No module of this room opens storage or commits.
"""

__all__ = ["results", "served"]
