"""Define the classes of the table format (spec v1, v2, v3): frozen, checked when they are made,
without I/O.

Entry points: the modules themselves (`types`, `schema`, `partitioning`, `sorting`, `transforms`,
`snapshot`, `metadata`, `properties`, `options`, `manifest`, `updates`).
Values that these classes hold (defaults, bounds, partition values) are *internal values*: see
`types`.
"""

__all__ = [
    "ddl",
    "fact_tree",
    "logs",
    "manifest",
    "metadata",
    "name_mapping",
    "on_demand",
    "options",
    "partitioning",
    "properties",
    "pyiceberg_properties",
    "schema",
    "shown",
    "snapshot",
    "sorting",
    "transform_values",
    "transforms",
    "types",
    "updates",
    "values",
    "version",
    "view",
]
