"""Spark's own scan over tables in S3: with hadoop-aws it reads them by the catalog's properties,
without it a warning says what is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SERVICES = ROOT / "tests/services"
SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.spark, pytest.mark.service]
ROWS = [[0, "a"], [2, "a"], [3, "b"], [4, "a"], [5, "b"]]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if given := os.environ.get("FRAZIL_TEST_S3"):
        yield given
        return
    folder = tmp_path_factory.mktemp("s3")
    environment = os.environ | {"PYTHON": sys.executable}
    started = subprocess.run(
        [SERVICES / "s3.sh", "start", folder], capture_output=True, text=True, env=environment
    )
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip()
    subprocess.run([SERVICES / "s3.sh", "stop", folder], check=True, env=environment)


def job(endpoint: str, jars: str, place: Path, *addresses: str) -> dict[str, Any]:
    import pyarrow.fs

    bucket = f"scan-{uuid.uuid4().hex[:12]}"
    store = pyarrow.fs.S3FileSystem(
        endpoint_override=endpoint,
        access_key="testuser",
        secret_key="testtest",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    for name in (bucket, f"{bucket}-vended", f"{bucket}-env", "frazil-served"):
        store.create_dir(name)
    command = [
        sys.executable,
        str(ROOT / "tests/spark/s3_job.py"),
        endpoint,
        bucket,
        jars,
        *addresses,
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=place, env=environment
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("FOUND ")), None)
    assert line is not None, done.stdout[-2000:] + done.stderr[-3000:]
    assert "S3CRET" not in done.stdout + done.stderr
    return dict(json.loads(line.removeprefix("FOUND ")))


@pytest.fixture(scope="module")
def with_hadoop_aws(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("jars")
    environment = os.environ | {"PYTHON": sys.executable}
    jars = subprocess.run(
        [SERVICES / "spark_jars.sh", "s3a", place], capture_output=True, text=True, env=environment
    )
    assert jars.returncode == 0, jars.stderr
    with reference_server(endpoint, place) if SOAK else contextlib.nullcontext(()) as addresses:
        return job(endpoint, jars.stdout.strip().splitlines()[-1], place, *addresses)


@contextlib.contextmanager
def reference_server(endpoint: str, place: Path) -> Iterator[tuple[str, ...]]:
    """Run Java's reference server over S3, which vends the keys that it was started with; yield its
    address.
    """
    (folder := place / "rest").mkdir()
    keys = {"ACCESS__KEY__ID": "served", "SECRET__ACCESS__KEY": "served-S3CRET"}
    environment = os.environ | {
        "PYTHON": sys.executable,
        "WAREHOUSE": "s3://frazil-served/w",
        "S3_ENDPOINT": endpoint,
        "CATALOG_INCLUDE__CREDENTIALS": "true",
    }
    environment |= {f"CATALOG_S3_{name}": value for name, value in keys.items()}
    started = subprocess.run(
        [SERVICES / "iceberg_rest.sh", "start", folder],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert started.returncode == 0, started.stderr
    try:
        yield (started.stdout.strip(),)
    finally:
        subprocess.run([SERVICES / "iceberg_rest.sh", "stop", folder], check=True, env=environment)


@pytest.mark.parametrize("name", ["one", "two"], ids=["s3", "s3a"])
def test_spark_scans_s3_by_the_properties_of_the_catalog(
    with_hadoop_aws: dict[str, Any], name: str
) -> None:
    assert with_hadoop_aws[name] == {"rows": ROWS, "by_spark": True, "secret": False}


def test_the_classes_of_hadoop_aws_have_the_names_by_which_they_are_called(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert with_hadoop_aws["classes"] == [True] * 4


def test_equality_deletes_in_s3_are_scanned_by_spark(with_hadoop_aws: dict[str, Any]) -> None:
    assert with_hadoop_aws["equality"] == {
        "rows": [[1, "a"], [2, "B"], [3, "c"], [4, "d"]],
        "by_spark": True,
        "secret": False,
    }


def test_a_bucket_that_is_reached_in_another_way_is_read_by_arrow(
    with_hadoop_aws: dict[str, Any],
) -> None:
    for name in ("other keys", "other endpoint of the bucket", "other endpoint"):
        assert with_hadoop_aws[name] == {"rows": ROWS, "by_spark": False, "secret": False}
    told = "\n".join(with_hadoop_aws["warned"])
    assert (
        "another catalog or table reached that bucket" in told
        and "spark.hadoop.fs.s3a.endpoint is not what the catalog says" in told
    )


def test_an_endpoint_that_only_the_environment_tells_reaches_sparks_scan(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert with_hadoop_aws["endpoint of the environment"] == {
        "rows": [[1, "a"]],
        "by_spark": True,
        "secret": False,
    }


def test_an_endpoint_that_only_the_session_tells_is_not_the_catalogs(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert with_hadoop_aws["endpoint of the session alone"] is False


def test_keys_that_a_catalog_vends_without_an_end_are_given_to_sparks_scan(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert with_hadoop_aws["vended_keys"] == {"rows": ROWS, "by_spark": True, "secret": False}


def test_a_vended_token_is_left_to_arrow_with_one_warning_though_no_end_is_told(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert with_hadoop_aws["vended_token"] == {"rows": ROWS, "by_spark": False, "secret": False}
    assert (
        len([text for text in with_hadoop_aws["warned"] if "vends credentials that expire" in text])
        == 1
    )


def test_the_error_of_a_file_that_is_lost_names_it_and_shows_no_key(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert "-vended/db/t/" in with_hadoop_aws["lost"] and "S3CRET" not in with_hadoop_aws["lost"]


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="the long form: make soak")
@pytest.mark.parametrize("name", ["vended_keys_with_an_end", "other_vended_keys"])
def test_keys_that_end_or_differ_from_those_before_in_a_bucket_are_left_to_arrow(
    with_hadoop_aws: dict[str, Any], name: str
) -> None:
    assert with_hadoop_aws[name] == {"rows": ROWS, "by_spark": False, "secret": False}


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="the long form: make soak")
def test_keys_that_javas_reference_server_vends_are_given_to_sparks_scan(
    with_hadoop_aws: dict[str, Any],
) -> None:
    assert with_hadoop_aws["served"] == {"rows": ROWS, "by_spark": True, "secret": False}


def test_without_hadoop_aws_rows_are_read_by_arrow_and_one_warning_names_the_package(
    endpoint: str, tmp_path: Path
) -> None:
    found = job(endpoint, "none", tmp_path)
    assert found["one"] == {"rows": ROWS, "by_spark": False, "secret": False}
    of_one = [text for text in found["warned"] if "s3://" in text]
    assert len(of_one) == 1 and "spark.jars.packages=org.apache.hadoop:hadoop-aws:3." in of_one[0]
