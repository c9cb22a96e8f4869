"""Locations: one text for one file, Java's layout of object stores, and nothing that leaves its
place.
"""

from __future__ import annotations

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.scan.delete_ranges import normalised
from frazil.spec.properties import TABLE_PROPERTIES
from frazil.storage import (
    absolute,
    check_location,
    check_name,
    is_inside,
    metadata_location,
    normalise,
    place_of,
)
from frazil.storage.locations import data_location, local_path_of, murmur3_32, scheme_of

HASHED = {"write.object-storage.enabled": "true"}


@pytest.mark.parametrize(
    "text",
    [
        "/a/b",
        "file:/a/b",
        "file:///a/b",
        "file://localhost/a/b",
        "/a//b/",
        "FILE:/a/b",
        "/a/./b",
        "file:///./a/.//./b/.",
    ],
)
def test_a_local_file_has_one_normal_text(text: str) -> None:
    assert normalise(text) == "/a/b"


@given(
    st.lists(st.sampled_from(["/", "/.", "a", ".b", "c.", "..."]), max_size=12).map(
        lambda parts: "/" + "".join(parts)
    )
)
def test_a_path_is_collapsed_as_hadoops_path_does(path: str) -> None:
    names = [n for n in path.split("/") if n not in ("", ".")]
    assert normalise(path) == "/" + "/".join(names) and normalise("file://" + path) == normalise(
        path
    )
    assert (
        normalised(pa.array([path + "/f", "file://" + path + "/f"])).to_pylist()
        == [normalise(path + "/f")] * 2
    )


def test_aliases_of_object_stores_are_one_scheme() -> None:
    assert normalise("s3a://b/k") == normalise("s3n://b/k/") == "s3://b/k"
    assert normalise("s3://b/a//k") != normalise("s3://b/a/k"), "keys keep their slashes"
    assert normalise("memory:/b/k") == normalise("memory:///b/k") == "memory://b/k"
    assert (
        scheme_of("/a:b/c") == "file"
        and scheme_of("C:/x") == "file"
        and scheme_of("gs://b") == "gs"
    )


def test_nothing_is_decoded() -> None:
    assert local_path_of("file:/p=a%2Fb c") == "/p=a%2Fb c"


def test_another_host_is_refused() -> None:
    with pytest.raises(InvalidInput, match="otherhost"):
        local_path_of("file://otherhost/a")


def test_relative_paths_start_at_the_current_directory(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert absolute("w/db/") == f"{tmp_path}/w/db"
    assert absolute("./w/./db/.") == f"{tmp_path}/w/db"
    assert (
        absolute("file:///x/./t/.") == "file:///x/t"
        and absolute("file:/x/./t") == "file:/x/t"
        and absolute("file:///") == "file:///"
    )
    assert absolute("s3://b/x/") == "s3://b/x" and absolute("file:/x/") == "file:/x"


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "/", "a\0b", "..\\x", "a\nb", "\x7f", None, 3]
)
def test_names_that_would_leave_their_place_are_refused(name: object) -> None:
    with pytest.raises(InvalidInput):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "A b", "ü", "a.b", "...", "a..b", "%2e%2e", "-", "~"])
def test_other_names_are_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "location", ["/a/../b", "s3://b/..", "../x", "/a\0b", "", "  ", "s3://b/x\ny"]
)
def test_locations_that_climb_are_refused(location: str) -> None:
    with pytest.raises(InvalidInput):
        check_location(location)


def test_inside_is_told_by_names_not_by_letters() -> None:
    assert is_inside("file:/w/db/t/x", "/w/db/t") and is_inside("/w", "/w/")
    assert not is_inside("/w/db/tt", "/w/db/t") and not is_inside("/w/db/t/../u", "/w/db/t")


def test_data_files_go_below_the_table_or_below_the_data_path() -> None:
    assert data_location("/w/t/", {}, "", "f.parquet") == "/w/t/data/f.parquet"
    assert data_location("/w/t", {}, "a=1/b=x", "f") == "/w/t/data/a=1/b=x/f"
    assert (
        data_location("/w/t", {"write.data.path": "s3://other/d/"}, "a=1", "f")
        == "s3://other/d/a=1/f"
    )
    assert metadata_location("/w/t", {}, "m.avro") == "/w/t/metadata/m.avro"
    assert metadata_location("/w/t", {"write.metadata.path": "/m/"}, "m.avro") == "/m/m.avro"


def test_paths_in_properties_are_stored_as_the_one_text_of_their_directory() -> None:
    assert data_location("/w/t", {"write.data.path": "/x/./d/."}, "", "f") == "/x/d/f"
    assert (
        metadata_location("/w/t", {"write.metadata.path": "file:///m/./x"}, "f") == "file:///m/x/f"
    )


@pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path"])
def test_a_path_that_begins_with_a_blank_is_refused(name: str) -> None:
    assert TABLE_PROPERTIES[name].of({name: "/x y "}) == "/x y "
    with pytest.raises(ValidationError, match="' /x'"):
        TABLE_PROPERTIES[name].of({name: " /x"})
    with pytest.raises(InvalidInput, match="begins with a blank"):
        place_of(" /x")


def test_the_layout_for_object_stores_is_javas() -> None:
    """Java's documented vector: name `a`."""
    assert (
        data_location("s3://b/db/t", HASHED, "", "a")
        == "s3://b/db/t/data/0101/0110/1001/10110010/a"
    )
    flat = HASHED | {"write.object-storage.partitioned-paths": "false"}
    assert (
        data_location("s3://b/db/t", flat, "p=1", "a")
        == "s3://b/db/t/data/0101/0110/1001/10110010-a"
    )
    away = HASHED | {"write.data.path": "s3://shared/d"}
    assert (
        data_location("s3://b/db/t", away, "", "a")
        == "s3://shared/d/0101/0110/1001/10110010/db/t/a"
    )


def test_the_layout_matches_files_that_java_wrote(golden: object) -> None:
    table = golden["object_store"]  # type: ignore[index]
    files = [line for _, _, line in _walk(f"{table.location}/data")]
    assert files
    for path in files:
        entropy, rest = path[:23], path[24:]
        folders, name = rest.rpartition("/")[0], rest.rpartition("/")[2]
        assert data_location("/t", HASHED, folders, name) == f"/t/data/{entropy}/{rest}"


def _walk(root: str) -> list[tuple[str, str, str]]:
    import os

    root = local_path_of(root)
    return [
        (base, n, os.path.relpath(os.path.join(base, n), root))
        for base, _, names in os.walk(root)
        for n in names
        if n.endswith(".parquet")
    ]


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "a\0"])
def test_file_names_that_climb_are_refused(name: str) -> None:
    for make in (
        lambda: data_location("/t", {}, "", name),
        lambda: metadata_location("/t", {}, name),
    ):
        with pytest.raises(InvalidInput):
            make()


CLIMBING = [
    ({"write.data.path": "/w/t/../../etc"}, "", InvalidInput, r"write\.data\.path"),
    ({}, "p=1/../..", InvalidInput, ""),
    ({"write.location-provider.impl": "com.x.Y"}, "", Unsupported, "location-provider"),
    ({"write.object-storage.path": "s3://x"}, "", ValidationError, r"write\.object-storage\.path"),
    ({"write.object-storage.enabled": "yes"}, "", ValidationError, "true or false"),
]


def test_properties_that_climb_or_name_java_classes_are_refused() -> None:
    for properties, partition, error, message in CLIMBING:
        with pytest.raises(error, match=message or None):
            data_location("/w/t", properties, partition, "f")
    with pytest.raises(InvalidInput, match=r"write\.metadata\.path"):
        metadata_location("/w/t", {"write.metadata.path": "/w/../x"}, "f")


@given(st.binary(max_size=40), st.integers(0, 2**32 - 1))
def test_murmur3_is_murmur3(data: bytes, seed: int) -> None:
    assert murmur3_32(data, seed) == mmh3.hash(data, seed, signed=False)


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_or_partition_path_leads_out_of_the_data_directory(path: str, name: str) -> None:
    try:
        location = data_location("/w/t", {}, path, name)
    except InvalidInput:
        return
    assert is_inside(location, "/w/t/data") and "\0" not in location
