"""Implement Spark's catalog interfaces by Python objects, which Spark's own analyser asks for the
tables of Frazil's catalogs.

Start at `catalog`, which Spark asks for tables and namespaces; `session` stands in the place of
Spark's own. `protocol` says what the objects of this room ask of the room `sql`, which answers by
calls that a user could have typed in Python. `proxy` is what all of these objects have in common.
"""

__all__ = ["catalog", "protocol", "relation", "session"]
