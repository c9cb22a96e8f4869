"""Object stores that are not quite S3's equals, uploads that break, and deletes by lists: what is
sent, and what is left behind.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import frazil
from frazil.errors import NoSuchFileError, StorageError, Unsupported
from frazil.storage import Storage, storage_for
from frazil.storage.objects.objects import ObjectStorage
from frazil.storage.objects.signed import SignedRequest
from frazil.storage.routing import routed
from tests.storage.fake_s3 import FakeS3, fake_s3

ROOT = "s3://b/db/t"


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with fake_s3() as fake:
        yield fake


def storage_of(s3: FakeS3) -> Storage:
    return storage_for(ROOT, s3.properties)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [("ignored", "ignores conditional writes"), ("refused", "does not implement conditional")],
)
def test_path_tables_are_refused_where_conditional_writes_are_not_honoured(
    s3: FakeS3, conditions: str, reason: str
) -> None:
    s3.conditions = conditions
    with pytest.raises(Unsupported, match=reason) as told:
        storage_of(s3).publish(f"{ROOT}/metadata/v1.metadata.json", b"{}")
    assert "s3://b" in told.value.message and "type sql" in str(told.value.hint)
    catalog = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)
    with pytest.raises(Unsupported, match=reason):
        catalog.create_table("db.t", "id bigint")
    assert s3.objects == {}, "neither a version nor what it was tried with is left"


def test_a_bucket_is_tried_once_and_then_taken_at_its_word(s3: FakeS3) -> None:
    storage = storage_of(s3)
    with ThreadPoolExecutor(8) as pool:
        won = list(
            pool.map(lambda i: storage.publish(f"{ROOT}/metadata/v1", str(i).encode()), range(8))
        )
    assert sum(won) == 1 and list(s3.objects) == ["/b/db/t/metadata/v1"]
    assert sum("conditional-write" in path and method == "PUT" for method, path, _ in s3.asked) == 2
    s3.asked.clear()
    assert storage.publish(f"{ROOT}/metadata/v2", b"2")
    assert s3.requests() == ["PUT"]


def test_a_fault_while_a_bucket_is_tried_passes_or_is_told_and_proves_nothing(s3: FakeS3) -> None:
    storage, faults = storage_of(s3), [503]
    s3.disturb = lambda method, path, _: (
        faults.pop() if faults and "conditional-write" in path else None
    )
    assert storage.publish(f"{ROOT}/metadata/v1", b"1") and not faults, "it was tried again"
    with fake_s3(
        disturb=lambda method, path, _: (
            403 if method == "PUT" and "conditional-write" in path else None
        )
    ) as closed:
        for _ in range(2):
            with pytest.raises(StorageError) as told:
                storage_of(closed).publish(f"{ROOT}/metadata/v1", b"1")
            assert not isinstance(told.value, Unsupported) and closed.objects == {}
        assert sum(r == "PUT" for r in closed.requests()) == 2


def test_a_slow_bucket_holds_up_no_commit_to_another(s3: FakeS3) -> None:
    tried, free = threading.Event(), threading.Event()

    def wait(method: str, path: str, query: str) -> None:
        tried.set()
        free.wait(20)

    with fake_s3(disturb=wait) as slow, ThreadPoolExecutor(1) as pool:
        first = pool.submit(storage_of(slow).publish, f"{ROOT}/metadata/v1", b"1")
        try:
            assert tried.wait(10)
            assert storage_of(s3).publish(f"{ROOT}/metadata/v1", b"1") and not first.done()
        finally:
            free.set()
        assert first.result(20)


@pytest.mark.parametrize("fault", ["of the writer", "of the last request"])
def test_a_broken_upload_leaves_no_parts_in_the_store(s3: FakeS3, fault: str) -> None:
    kind: type[Exception] = RuntimeError if fault == "of the writer" else StorageError
    if kind is StorageError:
        s3.disturb = lambda method, path, query: (
            400 if method == "POST" and query.startswith("uploadId") else None
        )
    with pytest.raises(kind):
        with storage_of(s3).open_output(f"{ROOT}/data/a.parquet") as sink:
            sink.write(bytes(18 << 20))
            if kind is RuntimeError:
                raise kind
    assert "POST uploads" in s3.requests(), "the upload had begun"
    assert s3.uploads == {} and s3.objects == {}


def test_files_are_deleted_by_lists_of_a_thousand_in_order(s3: FakeS3) -> None:
    s3.objects.update({f"/b/db/t/f{i:04d}": b"x" for i in range(2500)}, **{"/c/x": b"x"})
    files = [f"{ROOT}/f{i:04d}" for i in range(2500)]
    assert storage_of(s3).delete_many(iter([*files, f"{ROOT}/missing", "s3://c/x"])) == []
    assert s3.objects == {} and len(s3.asked) == 4, (
        "three lists of the one bucket, and one of the other"
    )


def test_a_list_that_the_store_refuses_is_deleted_one_by_one(s3: FakeS3) -> None:
    s3.objects.update({f"/b/db/t/f{i}": b"x" for i in range(3)})
    refused = [400]
    s3.disturb = lambda method, path, query: (
        refused.pop() if refused and query == "delete" else None
    )
    assert storage_of(s3).delete_many([f"{ROOT}/f{i}" for i in range(3)]) == []
    assert s3.objects == {} and not refused
    s3.disturb = lambda *_: 403
    failed = storage_of(s3).delete_many([f"{ROOT}/f1", f"{ROOT}/f2"])
    assert [location for location, _ in failed] == [f"{ROOT}/f1", f"{ROOT}/f2"]


def test_the_start_of_a_file_comes_in_one_request(s3: FakeS3) -> None:
    storage = storage_of(s3)
    storage.write(f"{ROOT}/long", b"0123456789", overwrite=True)
    s3.asked.clear()
    assert (
        storage.read_start(f"{ROOT}/long", 4) == b"0123"
        and storage.read_start(f"{ROOT}/long", 99) == b"0123456789"
    )
    assert s3.requests() == ["GET", "GET"]
    assert isinstance(storage.of(ROOT), ObjectStorage)  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["a//b", "/lead", "./x", "a/./b", "a/../b", "a/..", "tab\tb"])
def test_a_key_that_the_libraries_refuse_is_told_by_name_and_not_taken_for_another(
    s3: FakeS3, key: str
) -> None:
    s3.objects.update({f"/b/db/t/{key}": b"theirs", "/b/db/t/x": b"1", "/b/db/t/b": b"1"})
    storage, location = storage_of(s3), f"{ROOT}/{key}"
    asks = (
        storage.read,
        storage.open_input,
        storage.size,
        storage.delete,
        storage.arrow,
        lambda file: storage.write(file, b"x", True),
        lambda file: storage.publish(file, b"x"),
    )
    for ask in asks:
        with pytest.raises(Unsupported, match="cannot be addressed") as told:
            ask(location)
        assert told.value.facts["file"] == location
    assert [failed for failed, _ in storage.delete_many([location, f"{ROOT}/b"])] == [location]
    with pytest.raises(Unsupported, match="cannot be addressed") as told:
        list(storage.list(ROOT))
    assert told.value.facts["file"] == location and ROOT in str(told.value.hint)
    assert s3.objects == {f"/b/db/t/{key}": b"theirs", "/b/db/t/x": b"1"}


def test_a_list_of_deletes_takes_no_key_for_another(s3: FakeS3) -> None:
    """obstore would drop the slash in front of the second key, and delete another object."""
    s3.objects.update({"/b/db/t/x": b"1", "/b/data/f": b"of another table"})
    failed = storage_of(s3).delete_many([f"{ROOT}/x", "s3://b//data/f"])
    assert [location for location, _ in failed] == ["s3://b//data/f"]
    assert s3.objects == {"/b/data/f": b"of another table"}


def test_uploads_carry_a_checksum_where_it_is_asked_for(s3: FakeS3) -> None:
    sent: list[tuple[str, str | None, str]] = []
    answer = s3.answer

    def listen(method: str, path: str, query: dict[str, str], headers: Any, body: bytes) -> Any:
        if method == "PUT":
            sent.append(
                (
                    path,
                    headers.get("x-amz-checksum-sha256"),
                    base64.b64encode(hashlib.sha256(body).digest()).decode(),
                )
            )
        return answer(method, path, query, headers, body)

    s3.answer = listen  # type: ignore[method-assign]
    storage = storage_for(ROOT, s3.properties | {"s3.checksum-enabled": "true"})
    storage.write(f"{ROOT}/a", b"1", overwrite=True)
    assert storage.publish(f"{ROOT}/metadata/v1", b"2")
    with storage.open_output(f"{ROOT}/large") as sink:
        sink.write(bytes(12 << 20))
    assert len(sent) >= 5 and "POST uploadId" in s3.requests()
    assert [given for _, given, _ in sent] == [computed for _, _, computed in sent]
    storage_of(s3).write(f"{ROOT}/a", b"1", overwrite=True)
    assert sent[-1][:2] == ("/b/db/t/a", None)


@pytest.mark.parametrize("signed", [False, True])
def test_a_key_that_the_store_does_not_know_is_no_missing_object(s3: FakeS3, signed: bool) -> None:
    """VersityGW answers with status 404, as for an object that is missing."""
    storage = (
        routed(s3.properties, signer=lambda method, url, *_: SignedRequest(url, {}))
        if signed
        else storage_of(s3)
    )
    storage.write(f"{ROOT}/a", b"1", overwrite=True)
    s3.disturb, s3.reason = lambda *_: 404, "XAdminUserNotFound"
    asks = (
        lambda: storage.read(f"{ROOT}/a"),
        lambda: storage.write(f"{ROOT}/b", b"2", overwrite=True),
        lambda: storage.delete(f"{ROOT}/a"),
    )
    for ask in asks:
        with pytest.raises(StorageError, match="XAdminUserNotFound"):
            ask()
    assert [location for location, _ in storage.delete_many([f"{ROOT}/a"])] == [f"{ROOT}/a"]
    s3.reason = "NoSuchKey"
    with pytest.raises(NoSuchFileError):
        storage.read(f"{ROOT}/a")
    assert storage.delete_many([f"{ROOT}/a"]) == []


def test_a_checksum_is_refused_where_others_sign_the_requests() -> None:
    storage = routed({"s3.checksum-enabled": "true"}, signer=lambda *_: SignedRequest("", {}))
    with pytest.raises(Unsupported, match="s3.checksum-enabled"):
        storage.write(f"{ROOT}/a", b"1", overwrite=True)


def test_a_missing_object_is_told_also_while_an_error_of_a_frozen_class_is_handled(
    s3: FakeS3,
) -> None:
    @dataclasses.dataclass(frozen=True)
    class Theirs(Exception):
        text: str = "theirs"

    with pytest.raises(NoSuchFileError):
        try:
            raise Theirs
        except Theirs:
            storage_of(s3).read(f"{ROOT}/missing")
