"""Tell Hadoop's S3 file system (hadoop-aws) how a catalog's properties, or the keys that it vends
with a table, reach buckets, so that Spark's own scan opens `s3://` files.

Iceberg tables name their files `s3://…`, and catalogs hold the endpoint and the keys; Hadoop knows
only `s3a://…` and settings of its own. The settings travel as options of one scan. Hadoop keeps one
file system per bucket and process, with the settings that opened it first, so a bucket which the
session, another catalog, or another table reaches in another way is left to Arrow.
"""

from __future__ import annotations

import logging
import re

from frazil.ops.session import Session
from frazil.spark.host.jvm import class_is_loaded, jvm_of
from frazil.spark.host.jvm_reads import (
    S3A_ANONYMOUS,
    S3A_FILE_SYSTEM,
    S3A_KEYS,
    S3A_SESSION_KEYS,
    hadoop_settings,
    hadoop_version,
    has_file_system,
)
from frazil.storage import Storage, lasting_properties
from frazil.storage.credentials.aws import chooses_aws
from frazil.storage.locations import scheme_of
from frazil.storage.objects.object_options import options, s3_endpoint, s3_region

_LOG = logging.getLogger("frazil.spark")
# by JVM and bucket, the settings that its file system was opened with
_OPENED: dict[tuple[int, str], dict[str, str]] = {}
_TOLD: set[str] = set()


def is_s3(location: str) -> bool:
    """Tell whether a location is in S3, by any of its schemes (s3, s3a, s3n)."""
    return scheme_of(location) == "s3"


def s3_options(spark: Session, storage: Storage, location: str) -> dict[str, str] | None:
    """Return the options of Hadoop with which Spark's scan opens the files of a location's bucket;
    None if it cannot.

    It cannot where credentials expire, where hadoop-aws is not on the class path, and where the
    session or an earlier scan reaches the bucket by other settings.
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
    # so that what no client is made by (a host that only the server named) is refused here, too
    options("s3", dict(properties))
    if dict(properties).get("s3.sse.type", "").lower() == "custom":
        # Spark would show the key in its plans
        tell_once(
            f"Files at {bucket} are read by Arrow in Python tasks, since they are encrypted by a key of yours (s3.sse.type=custom)."
        )
        return None
    if chooses_aws(dict(properties)):
        tell_once(
            f"Files at {bucket} are read by Arrow in Python tasks, since Spark's own scan knows no profile or role of the catalog's."
        )
        return None
    settings = _settings(dict(properties))
    if (key := _contradicting(spark, after_scheme.partition("/")[0], settings)) is not None:
        tell_once(
            f"Files at {bucket} are read by Arrow in Python tasks, since spark.hadoop.{key} is not what the catalog says."
        )
        return None
    if not own:
        settings[f"fs.{scheme}.impl"] = S3A_FILE_SYSTEM
    before = _OPENED.setdefault((id(jvm), bucket), settings)
    if before != settings:
        who = "another catalog or table reached that bucket with other settings"
        tell_once(f"Files at {bucket} are read by Arrow in Python tasks, since {who}.")
        return None
    return settings


_ENDPOINT = "fs.s3a.endpoint"
# Settings of the session that contradict the catalog's, if they differ; others (time limits,
# whether to use TLS) are a matter of taste.
_CHOSEN = {_ENDPOINT, "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token"}
_OF_BUCKET = {
    *_CHOSEN,
    "fs.s3a.aws.credentials.provider",
    "fs.s3a.path.style.access",
    "fs.s3a.endpoint.region",
}
# Hadoop takes keys from these stores first
_KEY_STORES = (
    "hadoop.security.credential.provider.path",
    "fs.s3a.security.credential.provider.path",
)
_AMAZON = re.compile(r"(?:https?://)?(?:[\w.-]+\.)?amazonaws\.com(?:\.cn)?/*")


def _contradicting(spark: Session, bucket: str, settings: dict[str, str]) -> str | None:
    """Find a setting of the session by which its scans would reach a bucket in another way than the
    catalog says. Those of the bucket alone (`fs.s3a.bucket.<bucket>.…`) count before the options of
    a scan, and an endpoint counts also where the catalog names none."""
    general = {
        f"fs.s3a.bucket.{bucket}.{key.removeprefix('fs.s3a.')}": key for key in _OF_BUCKET
    } | {key: key for key in _CHOSEN}
    stores = (
        (*_KEY_STORES, f"fs.s3a.bucket.{bucket}.security.credential.provider.path")
        if "fs.s3a.access.key" in settings
        else ()
    )
    for key, value in hadoop_settings(spark, [*general, *stores]).items():
        wanted = settings.get(general.get(key, ""))
        if key in stores or (wanted and value != wanted):
            return key
        if not wanted and general[key] == _ENDPOINT and not _AMAZON.fullmatch(value):
            return key
    return None


def _settings(properties: dict[str, str]) -> dict[str, str]:
    """Translate the properties of a catalog (`s3.endpoint`, …) to Hadoop's settings."""

    def s3_option(name: str) -> str | None:
        return properties.get(f"s3.{name}", properties.get(f"client.{name}"))

    settings: dict[str, str | None] = {
        "fs.s3a.access.key": s3_option("access-key-id"),
        "fs.s3a.secret.key": s3_option("secret-access-key"),
        "fs.s3a.session.token": s3_option("session-token"),
        "fs.s3a.endpoint.region": s3_option("region"),
    }
    if endpoint := s3_endpoint(properties):
        settings[_ENDPOINT] = endpoint
        settings["fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https://")).lower()
        settings["fs.s3a.endpoint.region"] = s3_region(properties)
        settings["fs.s3a.path.style.access"] = str(not _is_virtual(properties)).lower()
    elif (style := properties.get("s3.path-style-access")) is not None:
        settings["fs.s3a.path.style.access"] = style.lower()
    if properties.get("s3.anonymous", "").lower() == "true":
        settings["fs.s3a.aws.credentials.provider"] = S3A_ANONYMOUS
    elif s3_option("access-key-id"):
        settings["fs.s3a.aws.credentials.provider"] = (
            S3A_SESSION_KEYS if s3_option("session-token") else S3A_KEYS
        )
    for name, key in (
        ("connect-timeout", "fs.s3a.connection.establish.timeout"),
        ("request-timeout", "fs.s3a.connection.timeout"),
    ):
        if (seconds := properties.get(f"s3.{name}")) is not None:
            settings[key] = f"{round(float(seconds) * 1000)}ms"
    return {key: value for key, value in settings.items() if value}


def _is_virtual(properties: dict[str, str]) -> bool:
    """Tell whether the bucket is part of the host's name: never at an endpoint of one's own, unless
    the properties say so.
    """
    if (virtual := properties.get("s3.force-virtual-addressing")) is not None:
        return virtual.lower() == "true"
    return properties.get("s3.path-style-access", "true").lower() == "false"


def tell_once(text: str) -> None:
    """Log a text once in this process; addresses in it hold no secrets."""
    if text not in _TOLD:
        _TOLD.add(text)
        _LOG.warning("%s", text)
