"""Objects of S3 are stored as the catalog, or its server, says: encrypted, with an ACL, tags and a
storage class, whoever writes them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.catalog.rest.vended import vended
from frazil.errors import InvalidInput, NoSuchFileError, Unsupported
from frazil.spark.scan import hadoop_s3
from frazil.storage import storage_for
from frazil.storage.credentials.parties import marks
from frazil.storage.objects.signed import SignedRequest
from frazil.storage.routing import routed
from tests.builders.s3_signer import signature
from tests.builders.store_work import write_and_read
from tests.storage.conftest import s3_place
from tests.storage.fake_s3 import FakeS3, fake_s3

pytest.importorskip("obstore")
KEY = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
SSE = "x-amz-server-side-encryption"
CUSTOMER = {
    f"{SSE}-customer-algorithm": "AES256",
    f"{SSE}-customer-key": KEY,
    f"{SSE}-customer-key-md5": base64.b64encode(
        hashlib.md5(base64.b64decode(KEY)).digest()
    ).decode(),
}
# properties, headers of what makes an object, of every access
CASES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "SSE-S3": ({"s3.sse.type": "s3"}, {SSE: "AES256"}, {}),
    "SSE-KMS": ({"s3.sse.type": "kms", "s3.sse.key": "arn:k"}, {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": "arn:k"}, {}),
    "KMS' own key": ({"s3.sse.type": "KMS"}, {SSE: "aws:kms"}, {}),
    "DSSE-KMS": ({"s3.sse.type": "dsse-kms", "s3.sse.key": "k"}, {SSE: "aws:kms:dsse", f"{SSE}-aws-kms-key-id": "k"}, {}),
    "SSE-C": ({"s3.sse.type": "custom", "s3.sse.key": KEY}, {}, CUSTOMER),
    "storage class": ({"s3.write.storage-class": "STANDARD_IA"}, {"x-amz-storage-class": "STANDARD_IA"}, {}),
    "tags": ({"s3.write.tags.team": "a b", "s3.write.tags.x&y": "="}, {"x-amz-tagging": "team=a+b&x%26y=%3D"}, {}),
    "none": ({"s3.sse.type": "none"}, {}, {}),
}  # fmt: skip
ACL = {"s3.acl": "bucket-owner-full-control"}


def by_server(properties: dict[str, str]) -> dict[str, str]:
    """What is taken of a server's answer."""
    return dict(vended("s3://b/t", properties, []).properties)


def work(
    store: FakeS3, properties: dict[str, str], signer: Any = None, large: int = 12 << 20
) -> None:
    """Write in every way, and read."""
    storage = routed(
        {**store.properties, **properties}
        if signer is None
        else {"s3.endpoint": store.endpoint, **properties},
        signer=signer,
    )
    storage.write("s3://b/t/a", b"x")
    storage.write("s3://b/t/a", b"y", overwrite=True)
    assert storage.publish("s3://b/t/m.json", b"z")
    for name, size in (("small", 10), ("large", large)):
        with storage.open_output(f"s3://b/t/{name}") as sink:
            sink.write(b"d" * size)
    assert storage.read("s3://b/t/a") == b"y" and storage.read_start("s3://b/t/small", 4) == b"dddd"
    with storage.open_input("s3://b/t/large") as file:
        assert file.size() == large and file.read(5) == b"ddddd"
    assert storage.exists("s3://b/t/small") and [
        i.size for i in storage.list("s3://b/t/small")
    ] in ([], [10])
    storage.delete("s3://b/t/small")
    assert store.objects["/b/t/large"] == b"d" * large


def check(store: FakeS3, made: dict[str, str], accessed: dict[str, str]) -> None:
    """Each request has the headers that it needs, signed, and no others."""
    kinds = {"make": 0, "access": 0, "other": 0}
    for (method, path, query), sent in zip(store.asked, store.sent, strict=True):
        makes = (method == "PUT" and "partNumber" not in query) or query.startswith("uploads")
        is_access = path.strip("/").count("/") > 0 and method in ("GET", "HEAD", "PUT")
        kinds["make" if makes else "access" if is_access else "other"] += 1
        wanted = {**accessed, **made} if makes else accessed if is_access else {}
        told = {
            k: v
            for k, v in sent.items()
            if k.startswith(("x-amz-server", "x-amz-acl", "x-amz-storage", "x-amz-tagging"))
        }
        assert {k: sorted(v.split("&")) for k, v in told.items()} == {
            k: sorted(v.split("&")) for k, v in wanted.items()
        }, (method, path, query)
        signed = (
            sent.get("authorization", "")
            .partition("SignedHeaders=")[2]
            .partition(",")[0]
            .split(";")
        )
        assert "authorization" not in sent or set(told) <= set(signed), (
            "S3 refuses such headers that are not signed"
        )
    assert kinds["make"] >= 6 and kinds["access"] >= 6 and kinds["other"] >= 2


@pytest.mark.parametrize("tell", [dict, by_server], ids=["configured", "told by the server"])
@pytest.mark.parametrize("case", CASES)
def test_every_write_and_read_says_how_objects_are_stored(case: str, tell: Any) -> None:
    properties, made, accessed = CASES[case]
    with fake_s3() as store:
        work(store, tell(properties))
        check(store, made, accessed)


@pytest.mark.parametrize("case", CASES)
def test_an_acl_goes_with_all_of_them_by_requests_that_are_signed_here(case: str) -> None:
    properties, made, accessed = CASES[case]
    with fake_s3() as store:
        work(store, {**properties, **ACL}, None, 33 << 20)
        check(store, {**made, "x-amz-acl": "bucket-owner-full-control"}, accessed)
        for (method, path, query), sent in zip(store.asked, store.sent, strict=True):
            url = f"{store.endpoint}{path}" + (f"?{query}" if query else "")
            assert f"Signature={signature(method, url, sent, 'secret')}" in sent["authorization"]


@pytest.mark.parametrize("case", CASES)
def test_a_signer_is_asked_to_sign_them(case: str) -> None:
    properties, made, accessed = CASES[case]
    with fake_s3() as store:
        work(store, {**properties, **ACL}, Signed(), 33 << 20)
        check(store, {**made, "x-amz-acl": "bucket-owner-full-control"}, accessed)


class Signed:
    """A signer that puts all it is asked to sign into the names of what it signed."""

    def __call__(
        self, method: str, url: str, region: str, headers: Any, body: str | None
    ) -> SignedRequest:
        return SignedRequest(
            url,
            {
                "Authorization": f"x SignedHeaders={';'.join(sorted(k.lower() for k in headers))}, Signature=x"
            },
        )


@pytest.mark.parametrize(
    "properties, told",
    [
        ({"s3.sse.type": "aes"}, "s3.sse.type"),
        ({"s3.sse.type": "custom"}, "s3.sse.key"),
        ({"s3.sse.type": "custom", "s3.sse.key": "c2hvcnQ="}, "s3.sse.key"),
        ({"s3.sse.key": KEY}, "s3.sse.type"),
        ({"s3.sse.type": "custom", "s3.sse.key": KEY, "s3.sse.md5": "x"}, "s3.sse.md5"),
        ({"s3.sse.type": "kms", "s3.sse.md5": "x"}, "s3.sse.md5"),
        ({"s3.acl": "everybody"}, "s3.acl"),
        ({f"s3.write.tags.{n}": "x" for n in range(11)}, "s3.write.tags"),
    ],
)
def test_what_cannot_be_is_refused_by_name(properties: dict[str, str], told: str) -> None:
    for tell in (dict, by_server):
        with fake_s3() as store, pytest.raises(InvalidInput, match=told) as caught:
            storage_for("s3://b/t", {**store.properties, **tell(properties)}).write(
                "s3://b/t/a", b"x"
            )
        assert KEY not in f"{caught.value!r}{caught.value.facts}" and not store.asked


def test_objects_are_kept_where_deletes_are_switched_off_and_tags_before_them_are_refused() -> None:
    with fake_s3(objects={"/b/t/a": b"1", "/b/t/b": b"2"}) as store:
        for acl in ({}, ACL):
            kept = storage_for(
                "s3://b/t", {**store.properties, "s3.delete-enabled": "false", **acl}
            )
            kept.delete("s3://b/t/a")
            assert kept.delete_many(["s3://b/t/a", "s3://b/t/b"]) == [] and len(store.objects) == 2
        tagged = storage_for("s3://b/t", {**store.properties, "s3.delete.tags.gone": "yes"})
        assert tagged.read("s3://b/t/a") == b"1"
        with pytest.raises(Unsupported, match=r"s3\.delete\.tags\.gone"):
            tagged.delete("s3://b/t/a")
        assert len(store.objects) == 2


def test_sparks_own_scan_leaves_files_of_a_customers_key_to_arrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hadoop_s3, "jvm_of", lambda spark: object())
    monkeypatch.setattr(hadoop_s3, "has_file_system", lambda spark, scheme: True)
    monkeypatch.setattr(hadoop_s3, "hadoop_settings", lambda spark, keys: {})
    own = {
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.endpoint": "https://sse.example",
    }
    for properties, is_read in (
        (CASES["SSE-C"][0], False),
        (CASES["SSE-KMS"][0], True),
        (ACL, True),
    ):
        assert (
            hadoop_s3.s3_options(None, routed({**own, **properties}), "s3://sse/f") is not None
        ) is is_read


def test_a_customers_key_does_not_go_to_a_host_that_the_server_named_even_beside_its_keys() -> None:
    own = CASES["SSE-C"][0]
    told = {
        "s3.endpoint": "https://told.example",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
    }
    storage = routed({**own, **told, **marks({**own, **told}, own, told)})
    with pytest.raises(InvalidInput, match="gives no credentials for it"):
        storage.read("s3://b/k")


def test_a_table_with_a_customers_key_is_written_and_read(tmp_path: Path) -> None:
    with fake_s3() as store:
        places = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": "s3://b/w"}
        with frazil.load_catalog(
            "c", type="sql", **places, **store.properties, **CASES["SSE-C"][0]
        ) as catalog:
            catalog.create_namespace("db")
            table = catalog.create_table("db.t", "id bigint")
            table.append(pa.table({"id": [1, 2, 3]}))
            table.delete("id = 2")
            assert sorted(catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist()) == [1, 3]
        of_objects = [
            sent
            for (method, path, _), sent in zip(store.asked, store.sent, strict=True)
            if path.count("/") > 2 and method in ("GET", "PUT", "HEAD")
        ]
        assert len(of_objects) > 10 and all(
            sent[f"{SSE}-customer-key"] == KEY for sent in of_objects
        )


@pytest.mark.skipif(
    not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"
)
def test_a_real_server_takes_the_signatures_of_requests_with_an_acl() -> None:
    place, properties = s3_place()
    storage = storage_for(place, {**properties, "s3.acl": "private", "s3.write.tags.a b": "c=d"})
    folder = f"{place}/{uuid.uuid4().hex}/a b+c=ä&d"
    write_and_read(storage, f"{folder}/x y%20.bin", folder)
    assert storage.publish(f"{folder}/once", b"1") and not storage.publish(f"{folder}/once", b"2")
    assert len(list(storage.list(folder))) >= 1 and storage.entries(folder)[1]
    storage.delete_tree(folder)
    with pytest.raises(NoSuchFileError):
        storage.read(f"{folder}/once")
