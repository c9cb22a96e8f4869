"""Write a DataFrame as data files of a table: by Spark's Parquet writer into a staging folder,
whose files are adopted, or by Arrow in tasks.

No row comes to the driver. A job that fails leaves no files. Tasks that are retried or speculated
leave no second copy: Spark's committer keeps the files of one attempt in the staging folder, and
files of Arrow tasks count only when they are reported.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from pyspark.sql import DataFrame

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions, meaningless, write_options
from frazil.errors import FrazilError, InvalidInput, StorageError, ValidationError
from frazil.ops.session import Session
from frazil.spark.host.failures import failure
from frazil.spark.host.settings import is_case_sensitive
from frazil.spark.host.workers import check_shared, check_workers, marked
from frazil.spark.tasks.this_task import INPUT
from frazil.spark.types.safe_casts import misfit
from frazil.spark.write.arrow_write import write_by_arrow
from frazil.spark.write.conform_frame import REQUIRED, conform
from frazil.spark.write.layout import distribution_mode
from frazil.spark.write.spark_writer import can_write, write_by_folder
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import check_source
from frazil.storage import Storage
from frazil.storage.locations import data_root

_WHOLE_TARGET = 128 << 20  # a task of Spark does not fill a file of this target size or more


def write(
    df: DataFrame,
    metadata: TableMetadata,
    storage: Storage,
    options: WriteOptions | None = None,
    *,
    case_sensitive: bool | None = None,
) -> list[DataFile]:
    """Write the rows of a frame as data files of the table, synced to disk, and return the files;
    after an error no file is left.

    `case_sensitive` defaults to the session's spark.sql.caseSensitive. Raises InvalidInput for
    options that have no effect here, SchemaMismatch for a frame that does not fit, ValidationError
    for nulls in required columns, NotInstalledError where workers are needed and lack this version
    of Frazil.
    """
    options = options or write_options({})
    spark = df.sparkSession
    context = WriteContext.of(metadata, storage, options)
    assert context.settings is not None
    for field in context.spec.fields:
        if field.source_id in context.schema.by_id:
            check_source(context.schema, field.source_id, field.transform)
    if (
        options.asks_for("advisory_partition_size")
        and distribution_mode(spark, context, metadata.properties) == "none"
    ):
        hint = "Shuffle them by distribution-mode: hash (of partitions) or range."
        raise meaningless("advisory_partition_size", "where rows are not shuffled", hint)
    sensitive = is_case_sensitive(spark, case_sensitive)
    frame = conform(df, context.schema, case_sensitive=sensitive)
    check_workers(spark)
    if (root := storage.local_path(data_root(context.location, context.properties))) is not None:
        check_shared(spark, root)
    with clear_errors(metadata):
        if can_write(context) and not _needs_rolling(spark, context, metadata):
            return write_by_folder(spark, frame, context)
        return write_by_arrow(spark, frame, context)


def _needs_rolling(spark: Session, context: WriteContext, metadata: TableMetadata) -> bool:
    """Return whether a task must write several files: the target size is small, and no shuffle cuts
    tasks to it. Spark's writer would write a single file of any size."""
    return (
        context.target_size < _WHOLE_TARGET
        and distribution_mode(spark, context, metadata.properties) == "none"
    )


def _raised(text: str) -> str | None:
    """Return the message with which an expression of Frazil made the job fail (`raise_error`), None
    where none did.
    """
    mark = "[USER_RAISED_EXCEPTION] " + INPUT
    begin = text.find(mark)
    return (
        None
        if begin < 0
        else re.split(r"\.? SQLSTATE", text[begin + len(mark) :])[0].splitlines()[0]
    )


# Hadoop's local file system gives no reason
_TOO_LONG = re.compile(r"File name too long|Mkdirs failed to create [^\n]*/[^/\n]{255}")


@contextlib.contextmanager
def clear_errors(metadata: TableMetadata) -> Iterator[None]:
    """Translate the error of a failed Spark job to an error of Frazil, where Frazil's own checks or
    its files made the job fail.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        begin = text.find(REQUIRED)
        if begin >= 0:
            message = (
                text[begin + len(REQUIRED) :]
                .split(". SQLSTATE")[0]
                .split(" SQLSTATE")[0]
                .splitlines()[0]
            )
            raise ValidationError(
                f"Cannot write to {metadata.location}: {message}.",
                table=metadata.location,
                condition="NOT_NULL_ASSERT_VIOLATION",
            ) from error
        if (mismatch := misfit(text)) is not None:
            raise mismatch from error
        if (refusal := marked(text, INPUT) or _raised(text)) is not None:
            raise InvalidInput(refusal, table=metadata.location) from error
        if _TOO_LONG.search(text):
            fields = ", ".join(f.name for f in metadata.spec().fields)
            raise StorageError(
                f"Cannot write to {metadata.location}: a partition's value is too long for the name of a folder (partitioned by {fields}).",
                hint="File systems allow about 255 bytes: partition by truncate or bucket.",
                table=metadata.location,
                errno="ENAMETOOLONG",
            ) from error
        if isinstance(error, FrazilError):
            raise
        job_failure = failure(error, data_root(metadata.location, metadata.properties))
        if job_failure is not None:
            raise job_failure from error
        raise
