"""The front hall: what users hold in their hands. It joins the rooms below, and holds no logic of the format.

Door: `load` (load_catalog, load_table), `catalog.Catalog`, `table.Table`, `scan.DataScan`, `transaction.Transaction`,
`result.CommitResult`.
The words follow PyIceberg where it has them; ours are keyword-only.
"""

__all__ = ["caches", "catalog", "create", "engines", "load", "static", "table"]
