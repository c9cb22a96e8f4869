"""Azure and Google through Spark's own scan: the properties of a catalog do not reach the JVM, so
the session has to know the store itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from frazil.spark.scan.paths import jvm_can_open
from frazil.storage import storage_for

pytestmark = pytest.mark.spark
ABFSS, GS = "abfss://c@acc.dfs.core.windows.net/t/f", "gs://b/t/f"


@pytest.fixture
def hadoop(plain_spark: Any) -> Iterator[Any]:
    """Hadoop's configuration of a session that has file systems for both schemes; what a test sets
    in it is undone.
    """
    configuration, given = plain_spark.sparkContext._jsc.hadoopConfiguration(), list[str]()

    class Settings:
        def set(self, key: str, value: str) -> None:
            given.append(key)
            configuration.set(key, value)

    settings = Settings()
    for scheme in ("abfss", "gs"):
        settings.set(f"fs.{scheme}.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    yield settings
    for key in given:
        configuration.unset(key)


@pytest.mark.parametrize(
    ("location", "properties", "setting"),
    [
        (
            ABFSS,
            {"adls.account-name": "acc", "adls.account-key": "YQ=="},
            ("fs.azure.account.key.acc.dfs.core.windows.net", "YQ=="),
        ),
        (ABFSS, {"adls.sas-token.acc": "sig=x"}, ("fs.azure.account.auth.type", "SAS")),
        (GS, {"gcs.oauth2.token": "t"}, ("fs.gs.auth.type", "APPLICATION_DEFAULT")),
        (
            GS,
            {"gcs.service.host": "http://127.0.0.1:9"},
            ("fs.gs.storage.root.url", "http://127.0.0.1:9/"),
        ),
    ],
)
def test_spark_opens_a_store_only_where_the_session_knows_it(
    plain_spark: Any,
    hadoop: Any,
    location: str,
    properties: dict[str, str],
    setting: tuple[str, str],
) -> None:
    assert jvm_can_open(plain_spark, location, {}, storage_for(location, {})), (
        "the catalog says nothing, and the session's settings count"
    )
    assert not jvm_can_open(plain_spark, location, {}, storage_for(location, properties))
    hadoop.set(*setting)
    assert jvm_can_open(plain_spark, location, {}, storage_for(location, properties))


def test_settings_of_another_account_or_server_are_not_enough(
    plain_spark: Any, hadoop: Any
) -> None:
    hadoop.set("fs.azure.account.key.other.dfs.core.windows.net", "YQ==")
    hadoop.set("fs.gs.auth.type", "APPLICATION_DEFAULT")
    hadoop.set("fs.gs.storage.root.url", "http://127.0.0.1:8")
    assert not jvm_can_open(
        plain_spark, ABFSS, {}, storage_for(ABFSS, {"adls.account-key": "YQ=="})
    )
    assert not jvm_can_open(
        plain_spark, GS, {}, storage_for(GS, {"gcs.service.host": "http://127.0.0.1:9"})
    )
