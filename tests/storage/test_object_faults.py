"""Faults of object stores whose outcome must be told rightly: conflicts, refusals after lost
answers, busy stores, buckets that are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

import frazil
from frazil.errors import FrazilError, NoSuchFileError, StorageError, Unsupported
from frazil.storage import PublishUnclear, Storage, storage_for
from frazil.storage.objects.object_clients import arrow_system
from frazil.storage.objects.objects import ObjectStorage
from frazil.storage.objects.signed import SignedRequest
from frazil.storage.routing import routed
from tests.storage.fake_s3 import FakeS3, fake_s3

ROOT, ROOT_FOLDER = "s3://b/db/t", Path(__file__).resolve().parents[2]
KEY = "/b/db/t/metadata/v2"


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with fake_s3() as fake:
        yield fake


@pytest.fixture(params=["keys", "signed"])
def storage(s3: FakeS3, request: pytest.FixtureRequest) -> Storage:
    """A storage of the bucket, which has been found to honour conditions."""
    signed = request.param == "signed"
    made = (
        routed(s3.properties, signer=lambda method, url, *_: SignedRequest(url, {}))
        if signed
        else storage_for(ROOT, s3.properties)
    )
    assert made.publish(f"{ROOT}/metadata/v1", b"1")
    s3.asked.clear()
    return made


def answering(
    *statuses: int, method: str = "PUT"
) -> tuple[list[int], Callable[[str, str, str], int | None]]:
    """Statuses with which requests are answered, one after the other; the list shows those that are
    left.
    """
    left = list(statuses)
    return left, lambda asked, *_: left.pop(0) if left and asked == method else None


@pytest.mark.parametrize("reason", ["ConditionalRequestConflict", "OperationAborted"])
def test_a_conditional_request_that_met_another_one_is_sent_again(
    s3: FakeS3, storage: Storage, reason: str
) -> None:
    left, s3.disturb = answering(409, 409)
    s3.reason = reason
    assert storage.publish(f"{ROOT}/metadata/v2", b"mine") and not left
    assert s3.objects[KEY] == b"mine"


def test_of_two_conditional_requests_at_once_the_other_may_have_won(
    s3: FakeS3, storage: Storage
) -> None:
    def first(method: str, path: str, _: str) -> int | None:
        if method != "PUT":
            return None
        s3.objects[path] = b"theirs"
        return 409

    s3.disturb, s3.reason = first, "ConditionalRequestConflict"
    assert not storage.publish(f"{ROOT}/metadata/v2", b"mine")
    assert s3.objects[KEY] == b"theirs"


def test_a_conflict_that_never_ends_is_a_failure_that_has_changed_nothing(
    s3: FakeS3, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    s3.disturb, s3.reason = (
        lambda method, *_: 409 if method == "PUT" else None,
        "ConditionalRequestConflict",
    )
    with pytest.raises(StorageError, match="ConditionalRequestConflict") as told:
        storage.publish(f"{ROOT}/metadata/v2", b"mine")
    assert not isinstance(told.value, PublishUnclear) and s3.requests().count("PUT") == 5


def test_a_refusal_after_an_answer_that_was_lost_is_an_outcome_that_is_not_known(
    s3: FakeS3, storage: Storage
) -> None:
    """The first request is applied and answered with 500; then the credentials end."""

    def applied(method: str, path: str, _: str) -> int | None:
        if method == "PUT" and path == KEY and path not in s3.objects:
            s3.objects[path] = b"mine"
            return 500
        return 403

    s3.disturb, s3.reason = applied, "ExpiredToken"
    with pytest.raises(PublishUnclear, match="ExpiredToken"):
        storage.publish(f"{ROOT}/metadata/v2", b"mine")
    assert s3.objects[KEY] == b"mine" and s3.requests().count("PUT") == 2


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "AccessDenied"), (400, "ExpiredToken"), (400, "KeyTooLongError")]
)
def test_a_refusal_at_the_first_request_is_certain(
    s3: FakeS3, storage: Storage, status: int, reason: str
) -> None:
    s3.disturb, s3.reason = lambda *_: status, reason
    with pytest.raises(StorageError, match=reason) as told:
        storage.publish(f"{ROOT}/metadata/v2", b"mine")
    assert not isinstance(told.value, PublishUnclear) and s3.requests().count("PUT") == 1


def test_a_commit_that_was_applied_before_the_credentials_ended_keeps_its_files(s3: FakeS3) -> None:
    catalog = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)
    t = catalog.create_table("db.t", "id bigint")
    t.append([{"id": 1}])

    def applied(method: str, path: str, _: str) -> int | None:
        if method == "PUT" and path.endswith("/v3.metadata.json"):
            s3.disturb = lambda *_: 403
            s3.objects[path] = b""
            return 500
        return None

    before = set(s3.objects)
    s3.disturb, s3.reason = applied, "ExpiredToken"
    with pytest.raises(frazil.errors.CommitStateUnknownException):
        t.append([{"id": 2}])
    s3.disturb = lambda *_: None
    assert any(path.endswith(".parquet") for path in set(s3.objects) - before), (
        "the rows of a commit that may have been applied"
    )


def test_a_busy_store_is_waited_for_by_both_libraries(s3: FakeS3) -> None:
    storage = storage_for(ROOT, s3.properties)
    s3.objects["/b/db/t/f"], s3.reason = b"rows", "SlowDown"
    for ask in (storage.read, lambda location: storage.open_input(location).read()):
        left = [503] * 5
        s3.disturb = lambda *_, left=left: left.pop() if left else None  # type: ignore[misc]
        assert ask(f"{ROOT}/f") == b"rows" and not left


def test_a_server_of_google_that_cannot_be_reached_is_not_asked_for_a_quarter_of_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(pyarrow.fs, "GcsFileSystem", lambda **options: given.update(options))
    arrow_system.__wrapped__("gs", (("gcs.oauth2.token", "t"),), "")
    assert 10 <= given["retry_time_limit"].total_seconds() <= 120


def test_an_empty_object_has_an_empty_start(s3: FakeS3, storage: Storage) -> None:
    s3.objects["/b/db/t/empty"] = b""
    assert storage.read_start(f"{ROOT}/empty", 100) == b""
    s3.objects["/b/db/t/f416"] = b"x"
    s3.disturb, s3.reason = lambda method, *_: 416 if method == "GET" else None, "InvalidRange"
    with pytest.raises(StorageError):
        storage.read_start(f"{ROOT}/f416", 100)


def test_a_bucket_that_is_missing_is_told(s3: FakeS3) -> None:
    storage = storage_for(ROOT, s3.properties)
    s3.disturb, s3.reason = lambda *_: 404, "NoSuchBucket"
    asks: list[Callable[[], Any]] = [
        lambda: storage.write(f"{ROOT}/f", b"1", overwrite=True),
        lambda: storage.write(f"{ROOT}/f", b"1"),
        lambda: list(storage.list(ROOT)),
    ]
    for ask in asks:
        with pytest.raises(FrazilError, match="no bucket s3://b|NoSuchBucket") as told:
            ask()
        assert not isinstance(told.value, NoSuchFileError) and "Create the bucket" in str(
            told.value.hint
        )
    with pytest.raises(NoSuchFileError, match="no bucket s3://b"):
        storage.read(f"{ROOT}/f")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("ExpiredToken", "have ended"),
        ("RequestTimeTooSkewed", "clock"),
        ("KeyTooLongError", "1024"),
    ],
)
def test_what_the_store_calls_an_error_is_told_with_a_hint(
    s3: FakeS3, reason: str, advice: str
) -> None:
    storage = storage_for(ROOT, s3.properties)
    s3.disturb, s3.reason = lambda *_: 400, reason
    with pytest.raises(StorageError, match=reason) as told:
        storage.read(f"{ROOT}/f")
    assert advice in str(told.value.hint)


def test_a_backslash_that_azure_takes_for_a_slash_is_refused() -> None:
    location = "abfss://c@acc.dfs.core.windows.net/t/a\\b"
    storage = storage_for(location, {"adls.account-key": "YQ=="})
    for ask in (storage.read, storage.delete, storage.open_input):
        with pytest.raises(Unsupported, match="backslash"):
            ask(location)


TOKENS = """
import sys
from frazil.errors import StorageError
from frazil.storage import storage_for
location = "abfss://c@acc.dfs.core.windows.net/t/f"
storage = storage_for(location, {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "wrong"})
for ask in (storage.open_input, lambda file: storage.arrow(file)[0].open_input_file(file)):
    try:
        ask(location)
    except StorageError:
        print("told")
"""


def test_a_token_of_azure_that_cannot_be_had_is_an_error_and_does_not_end_the_process() -> None:
    """Nobody answers at the address to which this process would go for a token."""
    environment = os.environ | {
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "https_proxy": "http://127.0.0.1:1",
        "PYTHONPATH": str(ROOT_FOLDER / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", TOKENS], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0 and done.stdout.split() == ["told", "told"], done.stderr


def test_an_object_is_read_by_ranges_where_pyarrow_is_not_asked(s3: FakeS3) -> None:
    s3.objects["/b/db/t/f"] = bytes(range(100))
    with ObjectStorage("s3", tuple(sorted(s3.properties.items())))._open_by_ranges(
        f"{ROOT}/f"
    ) as opened:
        opened.seek(90)
        assert opened.read(100) == bytes(range(90, 100)) and opened.read(1) == b""
        opened.seek(0)
        assert opened.read(3) == b"\0\1\2"
