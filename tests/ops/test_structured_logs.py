"""Log records of commits, scans and maintenance: each tells its table and operation by name, and one
formatter writes them as JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import frazil
from frazil.spec.logs import JsonFormatter, facts


@pytest.fixture
def table() -> Iterator[Any]:
    with frazil.load_catalog("logged", type="memory") as catalog:
        catalog.create_namespace("db")
        yield catalog.create_table("db.t", "id bigint")


def told(caplog: pytest.LogCaptureFixture, logger: str) -> list[dict[str, Any]]:
    """The records of a logger as their JSON."""
    lines = [JsonFormatter().format(r) for r in caplog.records if r.name == logger]
    assert all("\n" not in line for line in lines)
    return [json.loads(line) for line in lines]


def test_a_commit_tells_table_snapshot_operation_and_time(
    table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "frazil.commit"):
        result = table.append([{"id": 1}, {"id": 2}])
        with table.transaction() as tx:
            tx.set_properties(a="b")
    commit, change = told(caplog, "frazil.commit.table_commit")
    assert (commit["table"], commit["operation"], commit["snapshot_id"]) == (
        "logged.db.t",
        "append",
        result.snapshot_id,
    )
    assert commit["location"] == table.metadata.location and commit["attempts"] == 1
    assert commit["result"]["added-records"] == "2" and commit["seconds"] > 0
    assert commit["level"] == "INFO" and commit["time"].endswith("+00:00")
    assert commit["message"] == f"Committed snapshot {result.snapshot_id} of logged.db.t: append"
    assert change["operation"] == "metadata" and "snapshot_id" not in change


def test_a_scan_tells_what_it_skipped_at_level_debug(
    table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    table.append([{"id": 1}])
    with caplog.at_level(logging.INFO, "frazil.scan"):
        table.scan("id = 1").to_arrow()
    assert told(caplog, "frazil.scan") == []
    with caplog.at_level(logging.DEBUG, "frazil.scan"):
        table.scan("id = 7").to_arrow()
    (scan,) = told(caplog, "frazil.scan")
    assert (scan["operation"], scan["snapshot_id"], scan["result"]["skipped_data_files"]) == (
        "scan",
        table.current_snapshot().snapshot_id,
        1,
    )
    assert scan["location"] == table.metadata.location and "= 7" not in json.dumps(scan)


def test_maintenance_tells_the_procedure_and_the_numbers_of_its_result(
    table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(3):
        table.append([{"id": n}])
    with caplog.at_level(logging.INFO, "frazil"):
        done = table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
        table.maintenance.recommend()
    (record,) = told(caplog, "frazil.maintain")
    assert (record["table"], record["operation"]) == ("logged.db.t", "rewrite_data_files")
    assert record["result"]["rewritten_data_files_count"] == done.rewritten_data_files_count == 3
    assert [r["operation"] for r in told(caplog, "frazil.commit.table_commit")] == ["replace"]


def test_json_holds_errors_and_what_it_lacks_as_text() -> None:
    logger = logging.getLogger("of.a.test")
    try:
        raise ValueError("no\nsuch thing")
    except ValueError as error:
        record = logger.makeRecord(
            "of.a.test", logging.ERROR, "f", 1, "it %s", ("broke",), (ValueError, error, None),
            extra=facts("a.b", "append", snapshot_id=None, file=object()),
        )  # fmt: skip
    line = JsonFormatter().format(record)
    told = json.loads(line)
    assert "\n" not in line and told["message"] == "it broke" and "snapshot_id" not in told
    assert "no\nsuch thing" in told["exception"] and told["file"].startswith("<object")
