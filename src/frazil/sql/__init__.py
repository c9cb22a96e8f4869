"""Define what SQL asks of Frazil's tables, as calls that a user could have typed in Python. Nothing
here opens storage or commits.

Start at `catalog_calls`, by which the catalogs answer that Spark asks for tables (`spark.catalog`).
What Spark cannot parse or cannot plan begins in `statements`, which takes such statements in
Spark's own parser (`spark/host/jvm_parser`): `grammar` parses Iceberg's extension statements,
`from_spark` translates DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE as Spark has parsed them; both
give `nodes`, plain data, and `run` has the table `RUN` of what each node does. `results` keeps the
outcome of each write.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from frazil.ops.session import Session, SqlArguments


class _Callable(ModuleType):
    """Make `frazil.sql` both this room and the function of that name."""

    def __call__(
        self,
        sqlQuery: str,
        spark: Session | None = None,
        args: SqlArguments = None,
        **named: object,
    ) -> Any:
        """Run Spark SQL over Frazil's catalogs (`frazil.dropin.sql.sql`)."""
        return import_module("frazil.dropin.sql").sql(sqlQuery, spark, args, **named)


sys.modules[__name__].__class__ = _Callable

__all__ = ["catalog_calls", "connect", "nodes", "results", "statements", "view_statements"]
