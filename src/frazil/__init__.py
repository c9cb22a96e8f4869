"""Read and write Apache Iceberg tables with PySpark and in Python, without a JVM plugin.

    import frazil
    catalog = frazil.load_catalog()                       # SQLite and files below ./warehouse
    catalog.create_namespace("db")
    t = catalog.create_table("db.events", "id bigint, ts timestamp", partition_by=["days(ts)"])
    t.append(frame)                                       # Spark, Arrow, pandas or polars
    spark = frazil.spark_session()                        # or frazil.install(your_session)
    t.to_spark()                                          # a DataFrame on Spark's own Parquet scan

Names are loaded when they are first used, so that `import frazil` takes milliseconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from frazil.spec.version import PYSPARK, VERSION

__version__ = VERSION

_HOMES = {
    "frazil.table.load": ("load_catalog", "load_table", "list_catalogs", "StaticTable", "clear_caches"),
    "frazil.table.table": ("Table",),
    "frazil.table.catalog": ("Catalog",),
    "frazil.ops.operation": ("CommitResult",),
    "frazil.tasks.runner": ("InProcess",),
    "frazil.dropin": ("configure", "install", "spark_session"),
    "frazil.dropin.server": ("serve",),
    "frazil.sql.results": ("last_result",),
    "frazil.spark.streams.sink.files": ("write_stream_files",),
    "frazil.spec.schema": ("Schema",),
    "frazil.spec.types": (
        "BooleanType", "IntegerType", "LongType", "FloatType", "DoubleType", "DecimalType", "DateType", "TimeType", "TimestampType",
        "TimestamptzType", "TimestampNanoType", "TimestamptzNanoType", "StringType", "UUIDType", "FixedType", "BinaryType", "UnknownType",
        "VariantType", "GeometryType", "GeographyType", "StructType", "ListType", "MapType", "NestedField",
    ),
    "frazil.spec.transforms": (
        "IdentityTransform", "BucketTransform", "TruncateTransform", "YearTransform", "MonthTransform", "DayTransform", "HourTransform",
        "VoidTransform", "UnknownTransform",
    ),
    "frazil.spec.partitioning": ("PartitionSpec", "PartitionField", "UNPARTITIONED_PARTITION_SPEC"),
    "frazil.spec.sorting": ("SortOrder", "SortField", "SortDirection", "NullOrder", "UNSORTED_SORT_ORDER"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("errors", "expressions", "sql", "testing")

__all__ = ["__version__", *_HOME_OF, *_MODULES]

if TYPE_CHECKING:
    from frazil.dropin import configure as configure
    from frazil.dropin import install as install
    from frazil.dropin import spark_session as spark_session
    from frazil.dropin.server import serve as serve
    from frazil.dropin.sql import sql as sql
    from frazil.ops.operation import CommitResult as CommitResult
    from frazil.spark.streams.sink.files import write_stream_files as write_stream_files
    from frazil.spec.partitioning import (
        UNPARTITIONED_PARTITION_SPEC as UNPARTITIONED_PARTITION_SPEC,
    )
    from frazil.spec.partitioning import PartitionField as PartitionField
    from frazil.spec.partitioning import PartitionSpec as PartitionSpec
    from frazil.spec.schema import Schema as Schema
    from frazil.spec.sorting import UNSORTED_SORT_ORDER as UNSORTED_SORT_ORDER
    from frazil.spec.sorting import NullOrder as NullOrder
    from frazil.spec.sorting import SortDirection as SortDirection
    from frazil.spec.sorting import SortField as SortField
    from frazil.spec.sorting import SortOrder as SortOrder
    from frazil.sql.results import last_result as last_result
    from frazil.table.catalog import Catalog as Catalog
    from frazil.table.load import StaticTable as StaticTable
    from frazil.table.load import clear_caches as clear_caches
    from frazil.table.load import list_catalogs as list_catalogs
    from frazil.table.load import load_catalog as load_catalog
    from frazil.table.load import load_table as load_table
    from frazil.table.table import Table as Table
    from frazil.tasks.runner import InProcess as InProcess


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"frazil.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'frazil' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] != "pyspark":
            raise
        # not an error yet, so that `from frazil import *` works without PySpark
        return _without_pyspark(name)
    globals()[name] = value
    return value


def _without_pyspark(name: str) -> Any:
    """Return a function that raises NotInstalledError when it is called."""

    def missing(*_: object, **__: object) -> Any:
        from frazil.errors import NotInstalledError

        raise NotInstalledError(
            f"frazil.{name} needs {PYSPARK}; none is installed.", hint="pip install 'frazil[spark]'"
        )

    missing.__name__, missing.__doc__ = (
        name,
        "Raise NotInstalledError: this function needs PySpark, which is not installed.",
    )
    return missing


def __dir__() -> list[str]:
    return sorted(__all__)
