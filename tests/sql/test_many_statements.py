"""Ten thousand small statements in one session: what the JVM and this process hold stays flat."""

import gc

import pytest

from frazil.spark.catalog.proxy import SparkProxy

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def _held(spark):
    """Return the JVM's heap in use after a collection, and how many proxies live in this process."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        gc.collect()
        spark._jvm.java.lang.System.gc()
    proxies = sum(isinstance(held, SparkProxy) for held in gc.get_objects())
    return runtime.totalMemory() - runtime.freeMemory(), proxies


def test_ten_thousand_statements_leave_nothing_behind(spark, lake, run):
    run(
        "CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '1')"
    )

    def statements(count):
        for n in range(count // 4):
            run(f"INSERT INTO lake.db.t VALUES ({n}, 'a')")
            run(f"SELECT s FROM lake.db.t WHERE id = {n}")
            run(f"DELETE FROM lake.db.t WHERE id = {n}")
            run("SELECT count(*) FROM lake.db.t")
            if n % 50 == 49:
                run("CALL lake.system.expire_snapshots(table => 'db.t', retain_last => 1)")

    statements(1_000)
    heap, proxies = _held(spark)
    statements(9_000)
    heap_after, proxies_after = _held(spark)
    assert proxies_after <= proxies + 100
    assert heap_after <= heap + (64 << 20)
