"""A disk that is full under Spark: StorageError with the path, whether the JVM or a task in Python
met it.
"""

import contextlib
import errno
import os
import resource
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import FrazilError, StorageError
from frazil.spark.host.failures import storage_failure
from frazil.spark.tasks.spark_runner import SparkRunner
from frazil.storage.base import translated_errors
from tests.builders.files_on_disk import files_below

pytestmark = [pytest.mark.spark, pytest.mark.disk]


@contextlib.contextmanager
def no_file_larger_than(size, spark):
    """As a full disk, for Spark's JVM."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_files_that_spark_has_no_room_for_are_a_storage_error(catalog, session, tmp_path):
    table = catalog.create_table("db.t", "id bigint, v double")
    # what Spark unpacks for its writers, it unpacks now
    table.append(session.sql("select 1L id, 0.5D v"))
    before = files_below(tmp_path)
    with (
        no_file_larger_than(50_000, session),
        pytest.raises(StorageError, match="File too large") as refused,
    ):
        table.append(session.range(200_000).selectExpr("id", "rand() v"))
    assert refused.value.facts["errno"] == "EFBIG" and refused.value.facts["file"].startswith(
        table.location()
    )
    assert files_below(tmp_path) == before
    assert table.refresh().to_arrow()["id"].to_pylist() == [1]


def test_what_a_task_has_no_room_for_is_a_storage_error(session, tmp_path):
    def work(group):
        with translated_errors(group, "write"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StorageError, match="The disk is full") as refused:
        list(SparkRunner(session, "/w/t/data").run(work, ["/w/t/data/a b.parquet"]))
    assert refused.value.facts == {"file": "/w/t/data/a b.parquet", "errno": "ENOSPC"}


def test_a_place_that_cannot_be_written_is_an_error_of_frazil_with_the_path(catalog, session):
    table = catalog.create_table("db.t", "id bigint, p bigint", partition_by=["p"])
    data = Path(table.location()) / "data"
    data.write_text("a file where a directory should be")
    for frame in (session.range(3).selectExpr("id", "id p"), pa.table({"id": [1], "p": [1]})):
        with pytest.raises(FrazilError, match=str(data)) as refused:
            table.append(frame)
        assert refused.value.facts["file"].removeprefix("file:").startswith(str(data))


@pytest.mark.parametrize(
    ("text", "file", "code"),
    [
        (
            "Caused by: java.lang.ExceptionInInitializerError: Cannot unpack libzstd: File too large",
            "/w/t/data",
            "EFBIG",
        ),
        (
            "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device",
            "/w/t/data",
            "ENOSPC",
        ),
        (
            "Caused by: java.io.FileNotFoundException: /w/t/data/x/.part-0.crc (Permission denied)",
            "/w/t/data/x/.part-0.crc",
            "EACCES",
        ),
        (
            "java.nio.file.FileSystemException: /tmp/blockmgr-1/0c/temp: Read-only file system",
            "/tmp/blockmgr-1/0c/temp",
            "EROFS",
        ),
        (
            "java.io.IOException: Mkdirs failed to create file:/w/t/data/p=1 (exists=false, cwd=file:/)",
            "file:/w/t/data/p=1",
            None,
        ),
        (
            "frazil.errors.StorageError: Could not write the temporary file /tmp/k: Disk quota exceeded. The quota …",
            "/tmp/k",
            "EDQUOT",
        ),
        (
            "frazil.errors.StorageError: Could not look at s3://b/t: the store answered with Generic.",
            "s3://b/t",
            None,
        ),
        (
            "frazil.storage.base.AccessRefused: Could not open s3://b/t: the store answered with OSError (ACCESS_DENIED).",
            "s3://b/t",
            None,
        ),
        (
            "frazil.storage.objects.signed.SignedAccessError: Could not read s3://b/t: the store answered with HTTP 403.",
            "s3://b/t",
            None,
        ),
    ],
)
def test_the_texts_of_the_jvm_and_of_tasks_are_understood(text, file, code):
    found = storage_failure(
        f"An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted.\n{text}\n\tat x.y",
        "/w/t/data",
    )
    assert (found.facts["file"], found.facts.get("errno")) == (file, code)


@pytest.mark.parametrize(
    "text",
    [
        "PermissionError: [Errno 13] Permission denied: '/of/a/users/udf'",
        "the text No space left on device in a row",
    ],
)
def test_errors_of_users_functions_stay_theirs(text):
    assert (
        storage_failure(f"pyspark.errors.PythonException: Traceback\n{text}", "/w/t/data") is None
    )
