"""Credentials that a catalog vends: asked for once for each life, before they end, in every
process, also in the midst of an upload.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from frazil.errors import FrazilError, StorageError
from frazil.spark.scan import hadoop_s3, paths
from frazil.spark.scan.paths import jvm_can_open
from frazil.storage import Credentials, storage_for
from frazil.storage.base import frozen_properties
from frazil.storage.credentials import vended
from frazil.storage.credentials.precedence import overriding
from frazil.storage.objects.object_clients import s3_credential
from frazil.storage.objects.object_options import options
from tests.storage.conftest import s3_place
from tests.storage.recorder import recorder


@dataclass(frozen=True)
class VendingCatalog:
    """A source as a catalog gives it: a folder with what it vends now, in which each question
    leaves a file. `life`: milliseconds.
    """

    folder: str

    def vend(self, properties: dict[str, str], life: int | None) -> None:
        Path(self.folder, "now.json").write_text(json.dumps([properties, life]))

    @property
    def asked(self) -> int:
        return len([n for n in os.listdir(self.folder) if n.startswith("asked-")])

    def __call__(self) -> Credentials:
        Path(self.folder, f"asked-{time.monotonic_ns()}-{threading.get_ident()}").touch()
        properties, life = json.loads(Path(self.folder, "now.json").read_text())
        return Credentials(properties, None if life is None else int(time.time() * 1000) + life)


@pytest.fixture
def catalog(tmp_path: Path) -> VendingCatalog:
    return VendingCatalog(str(tmp_path))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds since 1970 that a test moves on by hand."""
    now = [time.time()]
    monkeypatch.setattr(vended.time, "time", lambda: now[0])
    return now


@pytest.mark.parametrize(("life", "early"), [(3_600_000, 300_000), (60_000, 30_000)])
def test_credentials_are_asked_for_again_before_they_end_and_not_sooner(
    life: int, early: int, catalog: VendingCatalog, clock: list[float]
) -> None:
    catalog.vend({"s3.access-key-id": "a"}, life)
    first = vended.current(catalog)
    clock[0] += (life - early) / 1000 - 1
    assert vended.current(catalog) is first and catalog.asked == 1
    clock[0] += 2
    catalog.vend({"s3.access-key-id": "b"}, life)
    assert vended.current(catalog).properties == {"s3.access-key-id": "b"} and catalog.asked == 2


def test_credentials_without_an_end_are_asked_for_once_however_many_threads_ask(
    catalog: VendingCatalog, clock: list[float]
) -> None:
    catalog.vend({"s3.access-key-id": "a"}, None)
    with ThreadPoolExecutor(16) as pool:
        assert {id(c) for c in pool.map(lambda _: vended.current(catalog), range(200))} == {
            id(vended.current(catalog))
        }
    clock[0] += 1e9
    vended.current(catalog)
    assert catalog.asked == 1


@dataclass(frozen=True)
class SlowCatalog:
    """A source that answers once a test lets it; `lives` milliseconds are left when it answers."""

    name: str
    lives: int
    let: threading.Event = field(compare=False, default_factory=threading.Event)
    asked: list[str] = field(compare=False, default_factory=list)

    def __call__(self) -> Credentials:
        self.asked.append(threading.current_thread().name)
        ends = int(time.time() * 1000) + self.lives
        assert self.let.wait(20)
        return Credentials({"s3.access-key-id": str(len(self.asked))}, ends)


def test_while_one_thread_renews_the_others_go_on_with_what_lives(clock: list[float]) -> None:
    catalog = SlowCatalog("waits", 600_000)
    catalog.let.set()
    first = vended.current(catalog)
    clock[0] += 400
    catalog.let.clear()
    with ThreadPoolExecutor(17) as pool:
        renewing = pool.submit(vended.current, catalog)
        while len(catalog.asked) < 2:
            time.sleep(0.001)
        others = [pool.submit(vended.current, catalog) for _ in range(16)]
        assert all(other.result(10) is first for other in others) and not renewing.done()
        clock[0] += 200  # those at hand end: now all wait for the new ones
        late = [pool.submit(vended.current, catalog) for _ in range(16)]
        time.sleep(0.05)
        assert not any(other.done() for other in late)
        catalog.let.set()
        assert {id(other.result(10)) for other in late} == {id(renewing.result(10))} and len(
            catalog.asked
        ) == 2
    assert renewing.result().properties == {"s3.access-key-id": "2"}


def test_credentials_that_took_long_to_come_are_renewed_by_the_life_that_is_left(
    clock: list[float],
) -> None:
    asked: list[float] = []

    def slow() -> Credentials:
        asked.append(clock[0])
        ends = int(clock[0] * 1000) + 600_000
        clock[0] += 500
        return Credentials({}, ends)

    vended.current(slow)
    clock[0] += 49
    vended.current(slow)
    assert len(asked) == 1
    clock[0] += 2
    vended.current(slow)
    assert len(asked) == 2, "of the 100 s that were left, half have gone"


def test_sources_that_are_used_no_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vended, "_MOST_HELD", 3)
    sources = [SlowCatalog(f"forgotten {n}", 600_000) for n in range(5)]
    for source in sources:
        source.let.set()
        vended.current(source)
        vended.current(sources[0])
    assert (
        len(vended._HELD) == 3
        and sources[0] in vended._HELD
        and [len(s.asked) for s in sources] == [1] * 5
    )


def test_those_at_hand_are_used_while_the_catalog_cannot_be_reached_and_no_longer(
    catalog: VendingCatalog, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    catalog.vend({"s3.access-key-id": "a"}, 600_000)
    first = vended.current(catalog)
    Path(catalog.folder, "now.json").unlink()
    clock[0] += 400
    with caplog.at_level(logging.WARNING, "frazil"):
        assert vended.current(catalog) is first and "as long as they live" in caplog.text
    asked = catalog.asked
    clock[0] += 5
    # it is not asked at every file
    assert vended.current(catalog) is first and catalog.asked == asked
    clock[0] += 200
    with pytest.raises(StorageError, match="vends no credentials"):
        vended.current(catalog)


OWN_KEYS = {"s3.access-key-id": "own", "s3.secret-access-key": "own", "s3.session-token": "own"}
NEW_KEYS = {"s3.access-key-id": "new", "s3.secret-access-key": "new"}


@pytest.mark.parametrize(
    "own",
    [
        OWN_KEYS,
        {k.replace("s3.", "client."): v for k, v in OWN_KEYS.items()},
        {"s3.anonymous": "true"},
    ],
    ids=["s3", "client", "anonymous"],
)
def test_vended_keys_of_s3_are_not_mixed_with_what_the_catalog_has(
    own: dict[str, str], catalog: VendingCatalog
) -> None:
    catalog.vend(NEW_KEYS, None)
    chosen = options(
        "s3", dict(vended.merged(frozen_properties(own | {"s3.region": "x"}), catalog))
    )
    assert {
        k: chosen.arrow.get(k)
        for k in ("access_key", "secret_key", "session_token", "anonymous", "region")
    } == {
        "access_key": "new",
        "secret_key": "new",
        "session_token": None,
        "anonymous": None,
        "region": "x",
    }
    given = s3_credential(frozen_properties(own), catalog)
    assert (given["access_key_id"], given["secret_access_key"], given["token"]) == (
        "new",
        "new",
        None,
    )


def test_vended_keys_that_name_the_client_count_and_public_buckets_need_none(
    catalog: VendingCatalog,
) -> None:
    catalog.vend({k.replace("s3.", "client."): v for k, v in NEW_KEYS.items()}, None)
    assert (
        options("s3", dict(vended.merged(frozen_properties(OWN_KEYS), catalog))).arrow["access_key"]
        == "new"
    )
    assert (
        options("s3", overriding(OWN_KEYS, {"s3.anonymous": "true"})).config["skip_signature"]
        is True
    )


def test_what_a_server_tells_of_region_and_addressing_counts_by_whichever_name() -> None:
    own = {
        "s3.region": "own",
        "s3.force-virtual-addressing": "true",
        "s3.endpoint": "http://localhost:9",
    }
    chosen = options(
        "s3", overriding(own, {"client.region": "vended", "s3.path-style-access": "true"})
    )
    assert (chosen.config["region"], chosen.arrow["force_virtual_addressing"]) == ("vended", False)
    assert options("s3", overriding(own, {})).config["region"] == "own"


def test_a_vended_token_of_google_has_its_own_end(catalog: VendingCatalog) -> None:
    own = {"gcs.oauth2.token": "own", "gcs.oauth2.token-expires-at": "1700000000000"}
    catalog.vend({"gcs.oauth2.token": "new"}, None)
    for before in (own, {"gcs.no-auth": "true"}):
        chosen = options("gs", dict(vended.merged(frozen_properties(before), catalog)))
        assert (
            chosen.config["bearer_token"],
            chosen.arrow["credential_token_expiration"].year,
        ) == ("new", 9999)


def test_credentials_that_have_ended_when_they_come_are_refused(catalog: VendingCatalog) -> None:
    catalog.vend({"s3.access-key-id": "a"}, -1)
    with pytest.raises(StorageError, match="expired already"):
        vended.current(catalog)


def test_a_storage_travels_with_its_source_and_shows_no_secret(catalog: VendingCatalog) -> None:
    catalog.vend({"s3.secret-access-key": "hush", "s3.access-key-id": "a"}, None)
    storage = storage_for("s3://bucket/t", {"s3.region": "x"}, catalog)
    again = pickle.loads(pickle.dumps(storage))
    assert again == storage and "hush" not in repr(again) + repr(again.of("s3://bucket/t")) + repr(
        vended.current(catalog)
    )
    assert b"hush" not in pickle.dumps(storage)


def test_the_jvm_does_not_open_files_whose_credentials_it_does_not_have(
    catalog: VendingCatalog,
) -> None:
    storage = storage_for("s3://bucket/t", {}, catalog)
    known = {("s3://bucket", ()): True}
    assert not jvm_can_open(None, "s3://bucket/t/a.parquet", known, storage) and jvm_can_open(
        None, "/t/a.parquet", known, storage
    )
    assert jvm_can_open(None, "s3://bucket/t/a.parquet", known, storage_for("s3://bucket/t"))


def test_a_store_whose_files_are_left_to_arrow_for_their_credentials_is_told_once(
    catalog: VendingCatalog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadoop_s3, "_TOLD", set())
    monkeypatch.setattr(paths, "jvm_of", lambda _: object())
    storage = storage_for("s3://bucket/t", {}, catalog)
    for name in ("t/a.parquet", "t/b.parquet"):
        assert not jvm_can_open(None, f"s3://bucket/{name}", {}, storage)
    (said,) = [r.getMessage() for r in caplog.records if "by Arrow" in r.getMessage()]
    assert (
        said.startswith("Files at s3://bucket are read by Arrow in Python tasks")
        and "vends credentials" in said
    )


@pytest.mark.skipif(
    not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"
)
def test_files_of_a_real_store_are_read_and_written_beyond_the_life_of_the_first_credentials(
    catalog: VendingCatalog,
) -> None:
    location, properties = s3_place()
    keys = {k: properties.pop(k) for k in list(properties) if "access-key" in k}
    catalog.vend(keys, 1_000)
    storage = storage_for(location, properties, catalog)
    with storage.open_output(f"{location}/large") as sink:
        for _ in range(3):
            sink.write(os.urandom(6 << 20))  # parts of their own
            time.sleep(0.7)
    assert catalog.asked >= 2 and storage.size(f"{location}/large") == 18 << 20
    with storage.open_input(f"{location}/large") as opened:
        assert len(opened.read(1 << 20)) == 1 << 20
    asked = catalog.asked
    time.sleep(1.1)
    with storage.open_input(f"{location}/large") as opened:  # with the next credentials
        assert len(opened.read()) == 18 << 20
    assert catalog.asked > asked


def test_secrets_of_another_store_leave_the_environments_keys_of_s3(
    catalog: VendingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    catalog.vend({"gcs.oauth2.token": "new"}, 3_600_000)
    with recorder() as store:
        storage = storage_for("s3://b/k", {"s3.endpoint": store.endpoint}, catalog)
        for read in (storage.read, storage.open_input):
            with pytest.raises(FrazilError, match="the store answered"):
                read("s3://b/k")
    assert [
        "Credential=ENVIRONMENT/" in headers["authorization"] for _, _, headers in store.asked
    ] == [True, True]


def test_an_empty_property_of_the_server_leaves_the_keys_of_the_catalog() -> None:
    assert overriding(NEW_KEYS, {"s3.session-token": ""}) == NEW_KEYS | {"s3.session-token": ""}
