"""OpenTelemetry's metrics and spans of scans and commits (`metrics-reporter-impl=otel`), read by the
in-memory exporters of its SDK.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import frazil
from frazil.catalog import reporting
from frazil.catalog.reporting import REPORTER
from frazil.errors import InvalidInput

READER, SPANS = InMemoryMetricReader(), InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def providers() -> None:
    """Set the providers of this process, which may be set once only."""
    metrics.set_meter_provider(MeterProvider([READER]))
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(tracing)


@pytest.fixture
def catalog() -> Iterator[Any]:
    SPANS.clear()
    with frazil.load_catalog("watched", type="memory", **{REPORTER: "otel"}) as made:
        made.create_namespace("db")
        yield made


def points(table: str) -> dict[str, tuple[str, Any]]:
    """The unit and the one data point of each metric of a table."""
    data = READER.get_metrics_data()
    assert data is not None
    return {
        metric.name: (metric.unit, point)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes["iceberg.table.name"] == table
    }


def test_commits_and_scans_become_metrics_in_the_words_of_the_field(catalog: Any) -> None:
    table = catalog.create_table("db.counted", "id bigint")
    table.append([{"id": 1}, {"id": 2}])
    table.append([{"id": 3}])
    assert table.scan("id = 3").to_arrow().num_rows == 1
    reporting.flush()
    found = points("watched.db.counted")
    unit, seconds = found["iceberg.commit.total_duration"]
    assert (unit, seconds.count) == ("s", 2) and 0 < seconds.sum < 600
    assert seconds.attributes["iceberg.operation"] == "append"
    assert found["iceberg.commit.attempts"][1].value == 2
    assert found["iceberg.commit.added_records"][1].value == 3
    assert found["iceberg.commit.total_records"][1].value == 3, "a gauge: of the last commit"
    assert found["iceberg.commit.added_files_size_bytes"][0] == "By"
    assert found["iceberg.scan.result_data_files"][1].value == 1
    assert found["iceberg.scan.skipped_data_files"][1].value == 1
    unit, seconds = found["iceberg.scan.total_planning_duration"]
    assert (unit, seconds.count) == ("s", 1) and seconds.sum > 0


def test_spans_stand_below_the_span_in_which_the_operation_ran(catalog: Any) -> None:
    table = catalog.create_table("db.traced", "id bigint")
    with trace.get_tracer("test").start_as_current_span("a job") as job:
        result = table.append([{"id": 1}])
        assert table.scan("id > 0").to_arrow().num_rows == 1
        reporting.flush()
    commit, scan, _ = SPANS.get_finished_spans()
    assert (commit.name, scan.name) == ("iceberg.commit", "iceberg.scan")
    for span in (commit, scan):
        assert span.parent is not None and span.parent.span_id == job.get_span_context().span_id
        assert span.start_time is not None and span.end_time is not None
        assert span.start_time < span.end_time
        assert span.attributes is not None
        assert span.attributes["iceberg.table.name"] == "watched.db.traced"
        assert span.attributes["iceberg.snapshot.id"] == result.snapshot_id
    assert commit.attributes is not None and scan.attributes is not None
    assert commit.attributes["iceberg.operation"] == "append"
    assert commit.attributes["iceberg.commit.added_records"] == 1
    assert scan.attributes["iceberg.scan.projected_field_names"] == ("id",)
    assert '"value": "(1-digit-int)"' in str(scan.attributes["iceberg.scan.filter"])


def test_without_its_package_the_catalog_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("frazil.catalog.otel", "opentelemetry"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidInput, match=r"frazil\[otel\]"):
        frazil.load_catalog("none", type="memory", **{REPORTER: "otel"})
