"""Credentials that a store refuses before the end that the catalog told: it is asked for others,
once, and the work goes on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from frazil.errors import StorageError
from frazil.storage import Credentials, PublishUnclear, Storage, storage_for
from frazil.storage.credentials import vended
from tests.storage.fake_s3 import FakeS3, fake_s3
from tests.storage.test_vended import VendingCatalog

ROOT = "s3://b/db/t"
LIFE = 3_600_000


class Revoking:
    """A fake store that refuses the keys in `revoked`, with a status and a code."""

    def __init__(self, s3: FakeS3, status: int = 403, code: str = "InvalidAccessKeyId") -> None:
        self.revoked, self.refused, self.s3 = set[str](), list[str](), s3
        self.page = 1000
        answer = s3.answer

        def judged(method: str, path: str, query: dict[str, str], headers: Any, body: bytes) -> Any:
            match = re.search("Credential=([^/]*)/", headers.get("Authorization") or "")
            if match and match[1] in self.revoked:
                self.refused.append(method)
                return status, f"<Error><Code>{code}</Code></Error>".encode(), {}
            return (
                self.listed(path, query)
                if "list-type" in query and "delimiter" not in query
                else answer(method, path, query, headers, body)
            )

        s3.answer = judged  # type: ignore[method-assign]

    def listed(self, path: str, query: dict[str, str]) -> Any:
        """A listing by pages."""
        bucket, after = (
            path.rstrip("/"),
            query.get("continuation-token") or query.get("start-after", ""),
        )
        keys = sorted(
            p.removeprefix(f"{bucket}/")
            for p in self.s3.objects
            if p.startswith(f"{bucket}/{query.get('prefix', '')}")
        )
        keys = [key for key in keys if key > after]
        time_ = "2026-01-01T00:00:00.000Z"
        files = "".join(
            f"<Contents><Key>{escape(k)}</Key><LastModified>{time_}</LastModified><Size>1</Size></Contents>"
            for k in keys[: self.page]
        )
        more = len(keys) > self.page
        token = (
            f"<NextContinuationToken>{escape(keys[self.page - 1])}</NextContinuationToken>"
            if more
            else ""
        )
        return (
            200,
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{files}</ListBucketResult>".encode(),
            {},
        )


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with fake_s3() as fake:
        yield fake


def keys(name: str) -> dict[str, str]:
    return {
        "s3.access-key-id": name,
        "s3.secret-access-key": "secret",
        "s3.session-token": f"token-of-{name}",
    }


def vending(s3: FakeS3, folder: Path) -> tuple[VendingCatalog, Storage]:
    catalog = VendingCatalog(str(folder))
    catalog.vend(keys("first"), LIFE)
    storage = storage_for(
        ROOT, {"s3.endpoint": s3.endpoint, "s3.path-style-access": "true"}, catalog
    )
    for n in range(7):
        storage.write(f"{ROOT}/f{n}", b"x", overwrite=True)
    assert storage.publish(f"{ROOT}/metadata/v1", b"1") and catalog.asked == 1
    return catalog, storage


ASKS: dict[str, Callable[[Storage], Any]] = {
    "read": lambda s: s.read(f"{ROOT}/f1"),
    "read_start": lambda s: s.read_start(f"{ROOT}/f1", 9),
    "open_input": lambda s: s.open_input(f"{ROOT}/f1").read(),
    "size": lambda s: s.size(f"{ROOT}/f1"),
    "exists": lambda s: s.exists(f"{ROOT}/f1"),
    "overwrite": lambda s: s.write(f"{ROOT}/f1", b"y", overwrite=True) or s.read(f"{ROOT}/f1"),
    "publish": lambda s: (
        s.publish(f"{ROOT}/metadata/v2", b"2"),
        s.publish(f"{ROOT}/metadata/v2", b"3"),
        s.read(f"{ROOT}/metadata/v2"),
    ),
    "delete": lambda s: s.delete(f"{ROOT}/f1") or s.exists(f"{ROOT}/f1"),
    "delete_many": lambda s: (
        s.delete_many([f"{ROOT}/f{n}" for n in range(7)]) or s.exists(f"{ROOT}/f1")
    ),
    "list": lambda s: sorted(i.location[-2:] for i in s.list(ROOT)),
    "names": lambda s: sorted(s.names(ROOT)),
    "directories": lambda s: s.directories(ROOT),
    "entries": lambda s: (s.entries(ROOT)[0], len(s.entries(ROOT)[1])),
}


@pytest.mark.parametrize(("status", "code"), [(403, "InvalidAccessKeyId"), (400, "ExpiredToken")])
@pytest.mark.parametrize("name", ASKS)
def test_the_catalog_is_asked_for_others_and_the_work_goes_on(
    s3: FakeS3, tmp_path: Path, name: str, status: int, code: str
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    store = Revoking(s3, status, code)
    _, untroubled = vending(s3, tmp_path / "one")
    expected = ASKS[name](untroubled)
    s3.objects.clear()
    catalog, storage = vending(s3, tmp_path / "two")
    store.revoked.add("first")
    catalog.vend(keys("second"), LIFE)
    assert ASKS[name](storage) == expected
    assert store.refused and catalog.asked == 2
    refused = len(store.refused)
    storage.read(f"{ROOT}/metadata/v1")
    assert len(store.refused) == refused, "clients that kept the refused ones are used no more"


def test_a_listing_goes_on_where_it_was_refused(s3: FakeS3, tmp_path: Path) -> None:
    store = Revoking(s3)
    catalog, storage = vending(s3, tmp_path)
    s3.objects.update({f"/b/db/many/f{n:04d}": b"x" for n in range(2500)})
    catalog.vend(keys("second"), LIFE)

    def end(method: str, path: str, query: str) -> None:
        if "continuation-token" in query:
            store.revoked.add("first")

    s3.disturb = end
    s3.asked.clear()
    assert [i.location[-4:] for i in storage.list("s3://b/db/many")] == [
        f"{n:04d}" for n in range(2500)
    ]
    assert store.refused == ["GET"] and catalog.asked == 2
    assert any("start-after" in request for request in s3.requests()), (
        "from where it was refused, not from the beginning"
    )


def test_credentials_without_permission_do_not_have_the_catalog_asked_at_every_file(
    s3: FakeS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Revoking(s3, code="AccessDenied")
    catalog, storage = vending(s3, tmp_path)
    store.revoked.add("first")
    for _ in range(5):
        with pytest.raises(StorageError, match="AccessDenied"):
            storage.read(f"{ROOT}/f1")
    assert catalog.asked == 2
    later = time.time() + 11
    monkeypatch.setattr(vended.time, "time", lambda: later)
    with pytest.raises(StorageError, match="AccessDenied"):
        storage.read(f"{ROOT}/f1")
    assert catalog.asked == 3


def test_the_stores_refusal_is_told_where_the_catalog_cannot_be_asked(
    s3: FakeS3, tmp_path: Path
) -> None:
    store = Revoking(s3)
    catalog, storage = vending(s3, tmp_path)
    store.revoked.add("first")
    Path(catalog.folder, "now.json").unlink()
    with pytest.raises(StorageError, match="InvalidAccessKeyId"):
        storage.read(f"{ROOT}/f1")
    store.revoked.clear()
    assert storage.read(f"{ROOT}/f1") == b"x", "those at hand are kept"


def test_an_upload_that_was_refused_fails_and_the_next_one_has_other_credentials(
    s3: FakeS3, tmp_path: Path
) -> None:
    store = Revoking(s3)
    catalog, storage = vending(s3, tmp_path)
    store.revoked.add("first")
    catalog.vend(keys("second"), LIFE)

    def upload() -> None:
        with storage.open_output(f"{ROOT}/new") as sink:
            sink.write(b"rows")

    with pytest.raises(StorageError, match="InvalidAccessKeyId"):
        upload()
    upload()
    assert s3.objects["/b/db/t/new"] == b"rows" and catalog.asked == 2


def test_a_put_that_may_have_been_applied_stays_unknown_when_the_next_credentials_are_refused_too(
    s3: FakeS3, tmp_path: Path
) -> None:
    store = Revoking(s3, code="AccessDenied")
    catalog, storage = vending(s3, tmp_path)
    catalog.vend(keys("second"), LIFE)

    def applied(method: str, path: str, _: str) -> int | None:
        if method == "PUT" and path not in s3.objects:
            s3.objects[path] = b"2"
            store.revoked.update(("first", "second"))
            return 500
        return None

    s3.disturb = applied
    with pytest.raises(PublishUnclear):
        storage.publish(f"{ROOT}/metadata/v2", b"2")
    assert s3.objects["/b/db/t/metadata/v2"] == b"2" and len(store.refused) >= 3


def test_the_source_of_a_rest_catalog_does_not_give_what_it_was_refused_again() -> None:
    from frazil.catalog.rest.vended import TableCredentials

    asked: list[str] = []

    def ask(
        catalog: str, properties: object, identifier: object, location: str, plan: object
    ) -> Credentials:
        asked.append(location)
        return Credentials(keys("second"), int(time.time() * 1000) + LIFE)

    first = Credentials(keys("first"), int(time.time() * 1000) + LIFE)
    source = TableCredentials("c", (), ("db", "t"), ROOT, ask, first)
    assert vended.current(source) is first and not asked
    assert vended.renewed(source, first) and asked == [ROOT]
    assert vended.current(source).properties == keys("second") and vended.renewed(source, first), (
        "another thread was first"
    )
    assert asked == [ROOT]
