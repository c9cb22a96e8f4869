"""Name the modules of types that annotations need and calls seldom do: `typing.get_type_hints`
loads them when it is asked for the types, and importing a table does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.on_demand import module_on_demand

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from frazil.table import result_types as results
else:
    duckdb, pd, pl, results = map(
        module_on_demand, ("duckdb", "pandas", "polars", "frazil.table.result_types")
    )

__all__ = ["duckdb", "pd", "pl", "results"]
