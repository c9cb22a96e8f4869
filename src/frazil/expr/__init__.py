"""Parse, bind and evaluate predicates and expressions with Spark's meaning, with and without Spark.

Steps: text -> `parse.parse` -> unbound nodes (`nodes`, PyIceberg's names) -> `bind.bind` (columns
by id, literals as internal values) -> `pruning` for files and manifests, `compute.compute` for rows
(for record batches: `frazil.arrow.values.evaluate`). `nodes` and `parse` import neither pyarrow nor
numpy.
"""

__all__ = [
    "bind",
    "bound",
    "building",
    "calendar",
    "casts",
    "coerce",
    "compute",
    "double_quotes",
    "functions",
    "grammar",
    "literals",
    "nodes",
    "parse",
    "pruning",
    "sql_text",
    "tokens",
    "transforms",
    "values",
]
