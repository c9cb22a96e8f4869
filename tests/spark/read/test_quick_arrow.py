"""Spark's Python workers make Arrow arrays without pandas, and pandas functions in the same workers
work as ever.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.functions import pandas_udf

from frazil.spark.host.workers import guarded

LOOK = """
import sys
import pyarrow as pa
from frazil.spark.host.workers import prepare
{before}
prepare()
pa.array([1, 2]).to_numpy()
print("pandas" in sys.modules)
import numpy as np
import pandas as pd
series = pd.Series([1.0, np.nan])
print(pa.array(series).null_count, pa.Table.from_pandas(pd.DataFrame({{"a": [1]}})).to_pandas()["a"].tolist())
print(type(pd.__loader__).__name__, pd.__spec__.loader is pd.__loader__, [f for f in sys.meta_path if "frazil" in type(f).__module__])
"""


def looked(before: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(before=before)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_pyarrow_looks_for_pandas_again_once_pandas_is_imported() -> None:
    # A series whose NaN becomes null shows that pyarrow recognises pandas' objects.
    assert looked() == ["False", "1 [1]", "SourceFileLoader True []"]


def test_nothing_changes_where_pandas_is_imported_already() -> None:
    assert looked("import pandas") == ["True", "1 [1]", "SourceFileLoader True []"]


@pytest.mark.spark
def test_pandas_functions_work_in_workers_that_have_run_a_task_of_frazils(plain_spark: Any) -> None:
    # so that the function below meets the worker of the task
    assert plain_spark.conf.get("spark.python.worker.reuse", "true") == "true"
    rows = plain_spark.range(0, 2, 1, 1)
    prepared = guarded("frazil.spark.host.workers", "answer")
    assert [r["ok"] for r in rows.mapInArrow(prepared, "ok long").collect()] == [2]

    @pandas_udf("double")
    def positive(values: pd.Series) -> pd.Series:
        return values.where(values > 0)

    assert [r[0] for r in rows.coalesce(1).select(positive(rows.id.cast("double"))).collect()] == [
        None,
        1.0,
    ]
