"""Credentials for several prefixes: each file is reached by those of the longest prefix with which
its location begins.
"""

from __future__ import annotations

import os
import pickle
import time
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from frazil.catalog import metadata_files
from frazil.catalog.rest.vended import Credentials, StorageCredential, vended_by_prefix
from frazil.errors import StorageError, ValidationException
from frazil.storage import lasting_properties, storage_for
from frazil.storage.credentials.precedence import host_of
from frazil.storage.credentials.vended import merged
from frazil.storage.locations import scheme_of
from frazil.storage.objects.object_options import options
from frazil.storage.routing import RoutedStorage, for_prefix_of
from tests.builders.one_table import one_table
from tests.builders.rotating_keys import keyed_store
from tests.catalog.conftest import TABLE
from tests.catalog.rest.conftest import Server, table_json
from tests.storage.conftest import s3_place

LATER = 4_102_444_800_000  # 2100: in the future, however long the run takes that imported this


def keys(name: str, **more: str) -> dict[str, str]:
    return {"s3.access-key-id": name, "s3.secret-access-key": "hush", **more}


def used(storage: RoutedStorage, location: str) -> str:
    """The key with which a location is reached."""
    chosen = for_prefix_of(storage, location)
    config = options(
        scheme_of(location), dict(merged(chosen.properties, chosen.vended)), host_of(location)
    ).config
    return str(config.get("access_key_id", config.get("sas_key")))


def loaded(
    server: Server,
    location: str,
    credentials: dict[str, dict[str, str]],
    config: dict[str, str],
    **own: str,
) -> RoutedStorage:
    answer = table_json(
        **{
            "storage-credentials": [{"prefix": p, "config": c} for p, c in credentials.items()],
            "config": config,
        }
    )
    answer["metadata"]["location"] = location
    server.on("GET /v1/namespaces/db/tables/t", (200, answer))
    storage = pickle.loads(pickle.dumps(server.catalog(**own).load(TABLE).storage))
    assert isinstance(storage, RoutedStorage)
    return storage


PREFIXES = {
    "s3://b/t": keys("table"), "s3://b/t/data/p=1/": keys("partition", **{"s3.session-token-expires-at-ms": str(LATER)}), "s3://other": keys("other"),
    "s3://b/": keys("bucket"), "s3://b/deletes/": keys("table"),
}  # fmt: skip
FILES = {
    "s3://b/t/metadata/m.json": "table", "s3a://b/t/data/p=2/a": "table", "s3://b/t/data/p=1/a": "partition", "s3://b/t/data/p=1": "partition",
    "s3://b/t/data/p=11/a": "table", "s3://b/u": "bucket", "s3://other/x": "other", "s3://others/x": "other", "s3a://others/x": "table",
    "s3://b/deletes/x": "table", "s3://third/x": "table",
}  # fmt: skip


@pytest.mark.parametrize(
    "order", [list(PREFIXES), list(PREFIXES)[::-1]], ids=["in turn", "reversed"]
)
def test_each_file_of_s3_is_reached_by_the_keys_of_the_longest_prefix_of_its_location(
    server: Server, order: list[str]
) -> None:
    storage = loaded(
        server,
        "s3://b/t",
        {p: PREFIXES[p] for p in order},
        {"s3.region": "x"},
        s3__access_key_id="own",
        s3__secret_access_key="own",
    )
    assert {location: used(storage, location) for location in FILES} == FILES
    assert "hush" not in repr(storage)
    for location, key in FILES.items():
        lasting = lasting_properties(storage, location)
        assert (lasting is None) is (key == "partition") and dict(lasting or ()).get(
            "s3.access-key-id", "partition"
        ) == key


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_in_azure_prefixes_of_one_account_have_tokens_of_their_own(
    server: Server, order: tuple[int, ...]
) -> None:
    def place(account: str, path: str) -> str:
        return f"abfss://box@{account}.dfs.core.windows.net/{path}"

    tokens = [
        (place("mine", "t/"), "table"),
        (place("other", ""), "wide"),
        (place("other", "secret/"), "narrow"),
    ]
    given = {prefix: {"adls.sas-token": token} for prefix, token in (tokens[n] for n in order)}
    storage = loaded(server, place("mine", "t"), given, {})
    found = {
        at: used(storage, place(*at))
        for at in (("mine", "t/a"), ("other", "a"), ("other", "secret/a"), ("other", "secrets"))
    }
    assert found == {
        ("mine", "t/a"): "table",
        ("other", "a"): "wide",
        ("other", "secret/a"): "narrow",
        ("other", "secrets"): "wide",
    }
    assert used(storage, place("third", "a")) == "None"


def test_in_google_prefixes_have_tokens_of_their_own(server: Server) -> None:
    given = {
        "gs://b/": {"gcs.oauth2.token": "wide"},
        "gs://b/t/data/": {"gcs.oauth2.token": "data"},
    }
    storage = loaded(server, "gs://b/t", given, {})
    files = {
        "gs://b/t/metadata/m": "wide",
        "gs://b/t/data/a": "data",
        "gs://b/t/data": "data",
        "gs://b/u": "wide",
    }
    assert {
        location: dict(for_prefix_of(storage, location).properties)["gcs.oauth2.token"]
        for location in files
    } == files


def test_prefixes_that_bring_nothing_else_or_that_no_store_is_for_change_nothing(
    server: Server,
) -> None:
    same = [StorageCredential("s3://b/", keys("k")), StorageCredential("s3://b/t/", keys("k"))]
    assert (
        vended_by_prefix("s3://b/t", {}, same) == ()
        and vended_by_prefix("s3://b/t", keys("k"), []) == ()
    )
    assert vended_by_prefix("s3://b/t", {}, [*same, StorageCredential("s3://c/", keys("c"))]) == (
        ("s3://b/t/", None),
        ("s3://b/", None),
        ("s3://c/", Credentials(keys("c"))),
    )
    storage = loaded(
        server,
        "s3://b/t",
        {
            "oss://b/": {"oss.key": "x"},
            "": keys("all"),
            "s3://b/t/../u": keys("up"),
            "s3://b/t/": keys("k"),
        },
        {},
    )
    assert used(storage, "s3://b/t/x") == "k" and used(storage, "s3://b/u") == "all"


def test_keys_of_a_prefix_that_do_not_end_are_not_kept_by_etag(server: Server) -> None:
    ends = {"s3.session-token": "t", "s3.session-token-expires-at-ms": str(LATER)}
    credentials = [
        {"prefix": "s3://b/t/", "config": keys("k", **ends)},
        {"prefix": "s3://c/", "config": keys("c")},
    ]
    asked: list[dict[str, str]] = []
    for given, kept in ((credentials[:1], True), (credentials, False)):
        answer = table_json(**{"storage-credentials": given})
        answer["metadata"]["location"] = "s3://b/t"
        server.on("GET /v1/namespaces/db/tables/t", (200, answer, {"ETag": '"1"'}))
        catalog = server.catalog()
        catalog.load(TABLE)
        catalog.load(TABLE)
        asked.append(server.asked[-1].headers)
        assert ("If-None-Match" in asked[-1]) is kept


@pytest.mark.skipif(
    not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"
)
def test_a_store_that_takes_each_key_below_its_own_prefix_alone_serves_every_file(
    server: Server,
) -> None:
    """The keys of the data files end, and are renewed; those of the table's own folder and of one
    partition do not.
    """
    place, _ = s3_place()
    with keyed_store(os.environ["FRAZIL_TEST_S3"]) as store:
        root = place.removeprefix("s3:/")
        lasting = {
            f"{place}/{path}/": store.key(3600, f"{root}/{path}/") for path in ("t", "data/id=2")
        }

        def told() -> dict[str, Any]:
            fixed = [{"prefix": prefix, "config": keys(key)} for prefix, key in lasting.items()]
            return {
                "storage-credentials": [
                    *store.credentials(f"{place}/data/", 4.0, f"{root}/data/"),
                    *fixed,
                ]
            }

        properties = {
            "write.data.path": f"{place}/data",
            "write.delete.mode": "merge-on-read",
            "write.metadata.path": f"{place}/t/m",
        }
        with one_table(server, store.uri, f"{place}/t", told, properties) as catalog:
            table = catalog.load_table("db.t")
            with table.update_spec() as spec:
                spec.add_identity("id")
            for n in range(4):
                table.append(pa.table({"id": pa.array([n] * 10, pa.int64())}))
                time.sleep(0.7)
            table.append(pa.table({"id": pa.array([2, 3], pa.int64())}))
            table.delete("id = 3")
            assert (
                sorted(table.scan().to_arrow()["id"].to_pylist()) == [0] * 10 + [1] * 10 + [2] * 11
            )
            paths = table.inspect.files()["file_path"].to_pylist()
            assert sum(f"{place}/data/id=2/" in path for path in paths) == 2
            with pytest.raises(
                ValidationException,
                match=r"metadata\.json, which the catalog's server names, cannot be read",
            ):
                # this server keeps metadata to itself
                table.maintenance.remove_orphan_files(dry_run=True)
            own = {
                "s3.endpoint": store.uri,
                "s3.path-style-access": "true",
                **keys(lasting[f"{place}/t/"]),
            }
            storage_for(place, own).write(
                table.metadata_location, metadata_files.encode(table.metadata, False)
            )
            assert table.maintenance.remove_orphan_files(dry_run=True) is not None
            assert {*lasting.values()} < {*store.served} and len(store.served) >= 4, (
                "both lasting keys, and two others"
            )
            assert store.refused == []
            wrong = {
                "s3.endpoint": store.uri,
                "s3.path-style-access": "true",
                **keys(lasting[f"{place}/t/"]),
            }
            with pytest.raises(StorageError):
                storage_for(place, wrong).read(paths[0])
            assert [key for key, _ in store.refused] == [lasting[f"{place}/t/"]]
