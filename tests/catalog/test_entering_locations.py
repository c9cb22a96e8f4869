"""Locations in metadata that others have written are settled before anything is written by them;
what leaves its place is refused first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInput
from frazil.storage import check_location, normalise, settled
from frazil.storage.locations import check_table_location, local_path_of

pytestmark = pytest.mark.disk


def catalog_in(tmp_path: Path) -> Any:
    catalog: Any = frazil.load_catalog(
        "c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh")
    )
    if not catalog.list_namespaces():
        catalog.create_namespace("db")
    return catalog


def registered(tmp_path: Path, location: str, **properties: str) -> Any:
    """A table whose metadata file says that it lies at `location`."""
    catalog = catalog_in(tmp_path)
    catalog.create_table("db.made", "id bigint").append(pa.table({"id": [1]}))
    made = Path(catalog.load_table("db.made").metadata_location)
    content = json.loads(made.read_text())
    content["location"] = location
    content["properties"] |= properties
    (tmp_path / "in/metadata").mkdir(parents=True, exist_ok=True)
    file = tmp_path / "in/metadata/00007-x.metadata.json"
    file.write_text(json.dumps(content))
    return catalog.register_table("db.t", str(file))


def files(tmp_path: Path) -> set[str]:
    return {
        str(p.relative_to(tmp_path))
        for p in tmp_path.rglob("*")
        if p.is_file() and not p.name.startswith("c.db")
    }


@pytest.mark.parametrize(
    "spelled",
    [
        "{0}/x/../in",
        "file:{0}/x/../in",
        "file://{0}/./in",
        "FILE:{0}//in",
        "file://localhost{0}/in/",
        "{0}//y/z/../../in/.",
    ],
)
def test_a_table_with_an_odd_location_is_written_where_it_lies(
    spelled: str, tmp_path: Path
) -> None:
    table = registered(tmp_path, spelled.format(tmp_path))
    before = files(tmp_path)
    table.append(pa.table({"id": [2]}))
    with table.manage_snapshots() as snapshots:
        snapshots.create_tag(table.metadata.current_snapshot_id, "tagged")
    again = catalog_in(tmp_path).load_table("db.t")
    assert sorted(again.to_arrow()["id"].to_pylist()) == [1, 2] and "tagged" in again.metadata.refs
    assert normalise(again.location()) == str(tmp_path / "in") and not again.location().startswith(
        ("FILE", "file://localhost")
    )
    assert {name.split("/")[0] for name in files(tmp_path) - before} == {"in"}
    assert ".." not in again.metadata_location.split("/")


@pytest.mark.parametrize(
    "location",
    ["/../in", "relative/place", "file:relative", "s3://bucket/../other", "file://otherhost/x"],
)
@pytest.mark.parametrize("change", ["append", "tag", "property"])
def test_a_location_that_leaves_its_place_is_refused_before_the_first_file(
    location: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = registered(tmp_path, location)
    before, pointer = files(tmp_path), table.metadata_location
    with pytest.raises(InvalidInput, match=r"update_location|another host"):
        match change:
            case "append":
                table.append(pa.table({"id": [2]}))
            case "tag":
                table.manage_snapshots().create_tag(
                    table.metadata.current_snapshot_id, "tagged"
                ).commit()
            case "property":
                table.transaction().set_properties({"a": "b"}).commit_transaction()
    again = catalog_in(tmp_path).load_table("db.t")
    assert (
        files(tmp_path) == before
        and again.metadata_location == pointer
        and again.to_arrow()["id"].to_pylist() == [1]
    )


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
def test_a_property_that_climbs_is_refused_before_the_first_file(key: str, tmp_path: Path) -> None:
    table = registered(tmp_path, str(tmp_path / "in"), **{key: f"{tmp_path}/in/../../etc"})
    before = files(tmp_path)
    with pytest.raises(InvalidInput, match=f"{key}.*'..'"):
        table.append(pa.table({"id": [2]}))
    assert files(tmp_path) == before


def test_a_pointer_that_was_registered_with_dots_is_loaded_and_goes_on(tmp_path: Path) -> None:
    table = registered(tmp_path, f"{tmp_path}/x/../in")
    (tmp_path / "x").mkdir()
    catalog = catalog_in(tmp_path)
    old = {
        "new": f"{tmp_path}/x/../in/metadata/00007-x.metadata.json",
        "old": table.metadata_location,
    }
    from frazil.catalog.sql import statements

    store = catalog._backend.store
    assert (
        store.database.execute([(statements.swap("table", v1=True), store.row(("db", "t")) | old)])[
            0
        ]
        == 1
    )
    catalog.load_table("db.t").append(pa.table({"id": [2]}))
    assert sorted(catalog.load_table("db.t").to_arrow()["id"].to_pylist()) == [1, 2]
    assert catalog.load_table("db.t").metadata_location.startswith(f"{tmp_path}/in/metadata/")


@given(
    st.lists(st.sampled_from(["/", "/.", "/..", "a", "..", "%2e%2e", "b"]), max_size=10).map(
        "".join
    ),
    st.sampled_from(["", "file:", "file://", "hdfs://nn", "s3://b"]),
)
def test_a_settled_location_is_settled_for_good_and_climbs_nowhere(path: str, prefix: str) -> None:
    place = settled(prefix + "/" + path)
    assert settled(place) == place
    try:
        check_table_location(place)
    except InvalidInput:
        return
    assert ".." not in place.split("/") and check_location(place) == place and local_path_of(place)
