"""Predicates: one grammar, one meaning (Spark's), with and without Spark.

Journey: text -> `parse.parse` -> unbound nodes (`nodes`, PyIceberg's names) -> `bind.bind` (columns by id, literals as internal values)
-> `prune.outcomes` over ranges of files and manifests (`ranges`, `partitions`), `residual.residual`, and `compute.compute` over rows
(door for batches: `frazil.arrow.values.evaluate`). `nodes` and `parse` import neither pyarrow nor numpy.
"""

__all__ = [
    "bind",
    "bound",
    "building",
    "calendar",
    "casts",
    "casts_numbers",
    "compute",
    "functions",
    "literals",
    "nodes",
    "parse",
    "pruning",
    "quoted",
    "tokens",
    "values",
]
