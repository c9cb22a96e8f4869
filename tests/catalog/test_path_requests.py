"""What a commit to a path table asks of an object store: no listing, however long the table's
history is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import Committed, Unknown
from frazil.catalog.path import files as path_files
from frazil.codec.metadata_json import encode_metadata
from frazil.errors import NoSuchTableError, ValidationException
from tests.catalog.conftest import TABLE, changed, committed, new_metadata
from tests.storage.fake_s3 import FakeS3, fake_s3


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with fake_s3() as fake:
        yield fake


def test_a_warm_append_takes_eight_requests_and_no_listing(s3: FakeS3) -> None:
    catalog = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)
    table = catalog.create_table("db.t", "id bigint")
    table.append([{"id": 0}])
    s3.asked.clear()
    table.append([{"id": 1}])
    asked = [(method, path.rpartition("/")[2].rpartition(".")[2]) for method, path, _ in s3.asked]
    read = [("GET", "json"), ("GET", "json"), ("GET", "text")]  # the base twice, and the hint
    assert sorted(asked) == sorted(
        [
            ("PUT", "parquet"),
            ("PUT", "avro"),
            ("PUT", "avro"),
            ("PUT", "json"),
            ("PUT", "text"),
            *read,
        ]
    )
    assert not any("list-type" in query for _, _, query in s3.asked)
    assert sorted(catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist()) == [0, 1]


def test_a_long_history_that_this_process_knows_is_loaded_without_a_listing(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_files, "_FEW", 2)
    backend = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)._backend
    table = committed(backend.create(TABLE, new_metadata("")))
    table = committed(backend.swap(table, changed(table, a="1")))
    s3.asked.clear()
    assert backend.load(TABLE).metadata == table.metadata
    asked = sorted((method, path.rpartition("/")[2]) for method, path, _ in s3.asked)
    tried = [
        ("HEAD", f"v3{ending}")
        for ending in (".gz.metadata.json", ".metadata.json", ".metadata.json.gz")
    ]
    assert asked == [("GET", "v2.metadata.json"), ("GET", "version-hint.text"), *tried]
    later = table.metadata_location.removeprefix("s3:/").replace("v2.", "v3.")
    s3.objects[later] = encode_metadata(replace(table.metadata, properties={"by": "another"}))
    assert backend.load(TABLE).metadata.properties == {"by": "another"}, (
        "a writer that was killed before it wrote the hint"
    )


def test_a_table_to_which_others_commit_is_listed_at_once(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether what this process knows is the newest is asked again when nobody has committed."""
    monkeypatch.setattr(path_files, "_FEW", 2)
    backend = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)._backend
    table = committed(backend.create(TABLE, new_metadata("")))

    def asked(by_others: bool) -> list[str]:
        nonlocal table
        table = committed(backend.swap(table, changed(table, a=str(len(s3.objects)))))
        expected = table.metadata
        if by_others:
            number = path_files.version_of(table.metadata_location)
            assert number is not None
            place = table.metadata_location.removeprefix("s3:/").rpartition("/")[0]
            expected = replace(table.metadata, properties={"by": f"another {number}"})
            s3.objects[f"{place}/v{number + 1}.metadata.json"] = encode_metadata(expected)
        s3.asked.clear()
        table = backend.load(TABLE)
        assert table.metadata == expected
        return sorted(
            "list" if "list-type" in query else f"{method} {path.rpartition('.')[2]}"
            for method, path, query in s3.asked
        )

    asked(False)
    looked = ["GET json", "GET text", *["HEAD gz", "HEAD json", "HEAD json"]]
    assert asked(False) == looked
    assert asked(True) == sorted([*looked, "list"])
    assert asked(True) == asked(True) == asked(False) == ["GET json", "list"]
    assert asked(False) == looked


def test_a_next_version_that_cannot_be_looked_for_has_the_versions_listed(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_files, "_FEW", 0)
    backend = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)._backend
    table = committed(backend.create(TABLE, new_metadata("")))
    fired: list[str] = []
    s3.disturb = lambda method, path, query: (
        (fired.append(path), 403)[1] if path.endswith("v2.gz.metadata.json") else None
    )
    assert backend.load(TABLE).metadata == table.metadata
    assert fired and any("list-type" in query for _, _, query in s3.asked)


def test_a_hint_that_names_a_newer_version_has_the_versions_listed(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused writer whose slot became free publishes there, and finds out that the table is
    further on.
    """
    backend = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)._backend
    table = base = committed(backend.create(TABLE, new_metadata("")))
    limits = {
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    for i in range(5):
        table = committed(backend.swap(table, changed(table, i=str(i), **limits)))
    monkeypatch.setattr(path_files, "_stale", lambda *_: None)
    s3.objects[base.metadata_location.removeprefix("s3:/")] = (
        b"{}"  # as if the oldest had been removed after the one that followed it
    )
    s3.asked.clear()
    assert not isinstance(backend.swap(base, changed(base, lost="1")), Committed)
    assert any("list-type" in query for _, _, query in s3.asked)
    assert backend.load(TABLE).metadata == table.metadata


@pytest.mark.parametrize("place", ["local", "s3", "s3-gzip"])
@pytest.mark.parametrize("again", [False, True])
def test_a_commit_that_races_a_drop_is_not_acknowledged_and_brings_no_table_back(
    s3: FakeS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, again: bool
) -> None:
    """The table is dropped, and perhaps created again, after the writer has looked at its base and
    before it publishes.
    """
    where = (
        {"warehouse": str(tmp_path)}
        if place == "local"
        else {"warehouse": "s3://b/w", **s3.properties}
    )
    catalog: Any = frazil.load_catalog("p", type="path", **where)
    properties = {"write.metadata.compression-codec": "gzip" if place == "s3-gzip" else "none"}
    table = catalog.create_table("db.t", "id bigint", properties=properties)
    check, dropped = path_files._stale, []

    def dropped_after(*arguments: Any) -> str | None:
        reason = check(*arguments)
        if not dropped:
            dropped.append(catalog.drop_table("db.t"))
            if again:
                catalog.create_table("db.t", "other string")
        return reason

    monkeypatch.setattr(path_files, "_stale", dropped_after)
    with pytest.raises(
        ValidationException if again else NoSuchTableError,
        match="dropped and made again" if again else "does not exist",
    ):
        table.append([{"id": 1}])
    assert dropped and catalog.table_exists("db.t") is again
    if again:
        assert catalog.load_table("db.t").schema().column_names == ["other"]


def test_a_base_that_cannot_be_looked_at_after_publishing_leaves_the_outcome_unknown(
    s3: FakeS3,
) -> None:
    backend = frazil.load_catalog("p", type="path", warehouse="s3://b/w", **s3.properties)._backend
    base = committed(backend.create(TABLE, new_metadata("")))
    fired: list[str] = []

    def refuse_base(method: str, path: str, query: str) -> int | None:
        if path.endswith("v1.metadata.json") and any(
            p.endswith("v2.metadata.json") for p in s3.objects
        ):
            fired.append(method)
            return 403
        return None

    s3.disturb = refuse_base
    assert isinstance(backend.swap(base, changed(base, a="1")), Unknown)
    assert fired and any(p.endswith("v2.metadata.json") for p in s3.objects)
