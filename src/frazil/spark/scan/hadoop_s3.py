"""Tell Hadoop's S3 file system (hadoop-aws) how a catalog's properties, or the keys that it vends with a table, reach buckets, so that
Spark's own scan opens `s3://` files.

Iceberg tables name their files `s3://…`, and catalogs hold the endpoint and the keys; Hadoop knows only `s3a://…` and settings of its own.
The settings travel as options of one scan. Hadoop keeps one file system per bucket and process, with the settings that opened it first,
so a bucket which the session, another catalog, or another table reaches in another way is left to Arrow.
"""

from __future__ import annotations

import logging
from typing import Any

from frazil.spark.host.jvm import class_is_loaded, jvm_of
from frazil.spark.host.jvm_hadoop import (
    S3A_ANONYMOUS,
    S3A_FILE_SYSTEM,
    S3A_KEYS,
    S3A_SESSION_KEYS,
    hadoop_settings,
    hadoop_version,
    has_file_system,
)
from frazil.storage import Storage, lasting_properties
from frazil.storage.locations import scheme_of

_LOG = logging.getLogger("frazil.spark")
_OPENED: dict[tuple[int, str], dict[str, str]] = {}  # by JVM and bucket, the settings that its file system was opened with
_TOLD: set[str] = set()


def is_s3(location: str) -> bool:
    """Tell whether a location is in S3, by any of its schemes (s3, s3a, s3n)."""
    return scheme_of(location) == "s3"


def s3_options(spark: Any, storage: Storage, location: str) -> dict[str, str] | None:
    """Return the options of Hadoop with which Spark's scan opens the files of a location's bucket; None if it cannot.

    It cannot where credentials expire, where hadoop-aws is not on the class path, and where the session or an earlier scan reaches the
    bucket by other settings.
    """
    properties = lasting_properties(storage, location)
    if (jvm := jvm_of(spark)) is None or properties is None:
        return None
    scheme, _, after_scheme = location.partition("://")
    bucket = f"{scheme}://{after_scheme.partition('/')[0]}"
    own = has_file_system(spark, scheme)
    if not own and not class_is_loaded(spark, S3A_FILE_SYSTEM):
        tell_once(
            f"Files at {bucket} are read by Arrow in Python tasks, since Spark has no hadoop-aws, with which its own scan would read them: "
            f"start the session with spark.jars.packages=org.apache.hadoop:hadoop-aws:{hadoop_version(spark)}."
        )
        return None
    settings = _settings(dict(properties))
    for key, value in hadoop_settings(spark, _CHOSEN & settings.keys()).items():
        if value != settings[key]:
            tell_once(f"Files at {bucket} are read by Arrow in Python tasks, since spark.hadoop.{key} is not what the catalog says.")
            return None
    if not own:
        settings[f"fs.{scheme}.impl"] = S3A_FILE_SYSTEM
    before = _OPENED.setdefault((id(jvm), bucket), settings)
    if before != settings:
        who = "another catalog or table reached that bucket with other settings"
        tell_once(f"Files at {bucket} are read by Arrow in Python tasks, since {who}.")
        return None
    return settings


# Settings of the session that contradict the catalog's, if they differ; others (time limits, whether to use TLS) are a matter of taste.
_CHOSEN = {"fs.s3a.endpoint", "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token"}


def _settings(properties: dict[str, str]) -> dict[str, str]:
    """Translate the properties of a catalog (`s3.endpoint`, …) to Hadoop's settings."""

    def s3_option(name: str) -> str | None:
        return properties.get(f"s3.{name}", properties.get(f"client.{name}"))

    settings: dict[str, str | None] = {
        "fs.s3a.access.key": s3_option("access-key-id"), "fs.s3a.secret.key": s3_option("secret-access-key"),
        "fs.s3a.session.token": s3_option("session-token"),
        "fs.s3a.endpoint.region": s3_option("region"),
    }  # fmt: skip
    if endpoint := properties.get("s3.endpoint"):
        settings["fs.s3a.endpoint"] = endpoint
        settings["fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https://")).lower()
        settings["fs.s3a.endpoint.region"] = s3_option("region") or "us-east-1"
        settings["fs.s3a.path.style.access"] = str(not _is_virtual(properties)).lower()
    elif (style := properties.get("s3.path-style-access")) is not None:
        settings["fs.s3a.path.style.access"] = style.lower()
    if properties.get("s3.anonymous", "").lower() == "true":
        settings["fs.s3a.aws.credentials.provider"] = S3A_ANONYMOUS
    elif s3_option("access-key-id"):
        settings["fs.s3a.aws.credentials.provider"] = S3A_SESSION_KEYS if s3_option("session-token") else S3A_KEYS
    for name, key in (("connect-timeout", "fs.s3a.connection.establish.timeout"), ("request-timeout", "fs.s3a.connection.timeout")):
        if (seconds := properties.get(f"s3.{name}")) is not None:
            settings[key] = f"{round(float(seconds) * 1000)}ms"
    return {key: value for key, value in settings.items() if value}


def _is_virtual(properties: dict[str, str]) -> bool:
    """Tell whether the bucket is part of the host's name: never at an endpoint of one's own, unless the properties say so."""
    if (virtual := properties.get("s3.force-virtual-addressing")) is not None:
        return virtual.lower() == "true"
    return properties.get("s3.path-style-access", "true").lower() == "false"


def tell_once(text: str) -> None:
    """Log a text once in this process; addresses in it hold no secrets."""
    if text not in _TOLD:
        _TOLD.add(text)
        _LOG.warning("%s", text)
