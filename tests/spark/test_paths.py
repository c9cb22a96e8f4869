from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.spark.scan.file_keys import FileKeys
from frazil.spark.scan.paths import as_glob, is_hidden, spark_text


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("/x/p=a b%2F/f", "file:/x/p=a%20b%252F/f"),
        ("file:///x//y/f", "file:/x/y/f"),
        ("/x/./y/.//./f", "file:/x/y/f"),
        ("s3a://b/./x/./f", "s3a://b/x/f"),
        ("file:/x/[a]{b}?#/ü+", "file:/x/%5Ba%5D%7Bb%7D%3F%23/ü+"),
        ("hdfs://nn:8020/x/é f", "hdfs://nn:8020/x/é%20f"),
        ("s3a://b/\u00a0x", "s3a://b/%C2%A0x"),
    ],
)
def test_a_location_is_known_by_the_text_that_spark_gives(location, text):
    assert spark_text(location) == text


@given(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="/\0"), min_size=1))
def test_the_text_can_be_read_back(name):
    assert unquote(spark_text(f"/x/{name}")) == f"file:/x/{name}"


@given(st.text(st.sampled_from("ab*?[]{}\\"), max_size=12))
def test_a_glob_of_a_path_has_no_bare_wildcard(path):
    plain, escaped = [], False
    for c in as_glob(path):
        if escaped or c != "\\":
            assert escaped or c not in "*?[]{}"
            plain.append(c)
            escaped = False
        else:
            escaped = True
    assert "".join(plain) == path


@pytest.mark.parametrize("name", ["_f.parquet", ".f.parquet", "f.parquet._COPYING_", "a\nb"])
def test_files_that_spark_leaves_out_are_known(name):
    assert is_hidden(f"/x/{name}")
    assert not is_hidden("/_x/.y/f.parquet")


def test_a_file_has_one_key_in_every_spelling_that_hadoop_collapses():
    spellings = ["/d/x/f.parquet", "file:/d/./x/f.parquet", "file:///d//x/./f.parquet"]
    assert set(FileKeys.of(spellings).numbers.tolist()) == set(
        FileKeys.of(["/d/x/f.parquet"]).numbers.tolist()
    )
    assert (
        FileKeys.of([spellings[1], "/d/y/f.parquet"]).numbers.tolist()
        == FileKeys.of([spellings[0], "/d/y/f.parquet"]).numbers.tolist()
    )
