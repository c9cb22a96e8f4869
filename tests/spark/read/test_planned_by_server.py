"""Spark reads scans that Java's reference server has planned (FRAZIL_TEST_REST names the server):
by its own scan, and by the data source.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.spark.deletes import native_deletes
from frazil.spark.engine.datasource import SourceReader, schema_of
from frazil.spark.engine.read_target import locate, read_request
from frazil.table.catalog import Catalog
from tests.golden import Golden

SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []
TABLES = ("dv_v3", "eq_basic", "part_days", "spec_evolution_v2")
SERVED = {"type": "rest", "scan-planning-mode": "server"}


@pytest.fixture(params=SERVERS)
def registered(
    request: pytest.FixtureRequest, golden: Golden
) -> Iterator[tuple[Catalog, Catalog, str]]:
    """A catalog that plans itself, one whose server plans, and the namespace of the tables."""
    own, served = (
        frazil.load_catalog("own", type="rest", uri=request.param),
        frazil.load_catalog("served", uri=request.param, **SERVED),
    )
    space = f"k{uuid.uuid4().hex[:8]}"
    own.create_namespace(space)
    for name in TABLES:
        own.register_table(f"{space}.{name}", golden[name].metadata_file)
    yield own, served, space
    own.close()
    served.close()


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def test_vectors_are_applied_by_spark_and_equality_deletes_by_arrow(
    registered: tuple[Catalog, Catalog, str],
) -> None:
    _, served, space = registered
    found = {}
    for name in ("dv_v3", "eq_basic"):
        plan = served.load_table(f"{space}.{name}").scan().plan()
        assert plan.by_server is not None
        found[name] = {int(kind) for group in plan.groups for kind in native_deletes.kinds(group)}
    assert (
        found["dv_v3"] <= {native_deletes.NONE, native_deletes.POSITIONS}
        and native_deletes.POSITIONS in found["dv_v3"]
    )
    assert found["eq_basic"] <= {native_deletes.NONE, -1} and -1 in found["eq_basic"]


def test_the_data_source_reads_the_servers_plan(registered: tuple[Catalog, Catalog, str]) -> None:
    own, served, space = registered
    options = {f"catalog.{k}": v for k, v in {**SERVED, "uri": served.properties["uri"]}.items()}
    for name in TABLES:
        target = locate(read_request({"path": f"served.{space}.{name}", **options}), {})
        assert target.reading().plan().by_server is not None
        reader = SourceReader(target, schema_of(target))
        batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        assert sum(b.num_rows for b in batches) == own.load_table(f"{space}.{name}").scan().count()
        ids = pa.Table.from_batches(batches).column(0).to_pylist()
        assert sorted(map(repr, ids)) == sorted(
            map(repr, own.load_table(f"{space}.{name}").to_arrow().column(0).to_pylist())
        )


@pytest.mark.spark
def test_spark_reads_the_servers_plan(spark: Any, registered: tuple[Catalog, Catalog, str]) -> None:
    own, served, space = registered
    for name in TABLES:
        mine, theirs = own.load_table(f"{space}.{name}"), served.load_table(f"{space}.{name}")
        for row_filter in ("true", "id > 5", "id % 3 = 0"):
            expected = sorted_rows(
                mine.scan(row_filter, selected_fields=("id",)).to_arrow().to_pylist()
            )
            frame = theirs.scan(row_filter, selected_fields=("id",)).to_spark(spark)
            assert sorted_rows([r.asDict() for r in frame.collect()]) == expected, (
                name,
                row_filter,
            )
        assert theirs.scan().to_spark(spark).where("id > 5").count() == mine.scan("id > 5").count()
