"""Z-order and Hilbert curves: box queries read about what they must, whatever the types, ranges and
spread of the columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.maintain.compact import external_sort, rewrite
from frazil.maintain.compact.curves import ColumnScale, bits_of_column, ordered_words, zorder
from frazil.maintain.compact.external_sort import SortedGroup, sorted_batches
from frazil.maintain.compact.file_cuts import FileSizes, cut, ends_along_curve, even_ends
from frazil.maintain.compact.sorting import Sorting
from frazil.spec.schema import Schema
from frazil.spec.types import DoubleType, LongType, NestedField, StringType
from frazil.table.table import Table
from tests.builders.catalogs import catalog_of

ROWS = 20_000


def of_one_site(shares: Any) -> pa.Array:
    """Texts that differ behind 32 bytes, but for a null, an outlier before them, and one behind."""
    texts: list[str | None] = [
        f"https://example.org/articles/2026{int(v * 1e7):08d}" for v in shares
    ]
    order = np.argsort(shares)
    texts[order[0]], texts[order[1]], texts[order[-1]] = None, "file:/tmp/x", "s3://bucket/x"
    return pa.array(texts)


KINDS: dict[str, Any] = {
    "long": (LongType(), lambda share: pa.array((share * 1e12).astype(np.int64))),
    "few bits": (LongType(), lambda share: pa.array(7_000_000 + (share * 40_000).astype(np.int64))),
    "negative": (DoubleType(), lambda share: pa.array(share * 2 - 1)),
    "skewed": (DoubleType(), lambda share: pa.array(np.exp(share * 40))),
    "text": (StringType(), lambda share: pa.array([f"{int(v * 1e7):08d}" for v in share])),
    "text of one site": (StringType(), of_one_site),
}


def files_of(curve: str, kinds: tuple[str, ...], shares: list[Any], files: int) -> list[Any]:
    """The rows of each file, as their numbers in the input, after sorting along a curve."""
    fields = [
        NestedField(n, f"c{n}", KINDS[kind][0], required=False) for n, kind in enumerate(kinds)
    ]
    sorting = Sorting(
        Schema(*fields, NestedField(99, "row", LongType())),
        curve=curve,
        columns=tuple(range(len(kinds))),
        text_bytes=48,
    )
    columns = {
        f"c{n}": KINDS[kind][1](share)
        for n, (kind, share) in enumerate(zip(kinds, shares, strict=True))
    }
    batch = pa.RecordBatch.from_pydict({**columns, "row": np.arange(len(shares[0]))})
    found: dict[int, list[Any]] = {}
    for number, rows in sorted_batches(
        [batch],
        SortedGroup(sorting, batch.num_rows, lambda: sorting, FileSizes(files, most=1.4)),
        1 << 40,
    ):
        found.setdefault(number, []).append(rows.column("row").to_numpy())
    return [np.concatenate(parts) for _, parts in sorted(found.items())]


def read_by_boxes(
    files: list[Any], shares: list[Any], percent: int, random: np.random.Generator
) -> float:
    """The share of the rows in files that meet boxes with this percentage of the area, on average."""
    side = (percent / 100) ** 0.5
    ends = [(s[rows].min(), s[rows].max()) for s in shares for rows in files]
    boxes = np.array(ends).reshape(2, len(files), 2)
    sizes, found = np.array([len(f) for f in files]), 0.0
    for _ in range(200):
        corner = random.uniform(0, 1 - side, 2)
        hit = (
            (boxes[:, :, 0] <= corner[:, None] + side) & (boxes[:, :, 1] >= corner[:, None])
        ).all(axis=0)
        found += float(sizes[hit].sum())
    return found / 200 / sizes.sum()


@settings(max_examples=12, deadline=None)
@given(
    curve=st.sampled_from(["zorder", "hilbert"]),
    kinds=st.tuples(*[st.sampled_from(sorted(KINDS))] * 2),
    files=st.integers(4, 90),
    percent=st.sampled_from([1, 5, 20]),
    seed=st.integers(0, 10**6),
)
def test_boxes_read_about_what_square_tiles_would(
    curve: str, kinds: tuple[str, str], files: int, percent: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    shares = [random.random(ROWS), random.random(ROWS)]
    found = files_of(curve, kinds, shares, files)
    assert sorted(np.concatenate(found).tolist()) == list(range(ROWS))
    assert max(map(len, found)) <= 1.4 * ROWS / files and len(found) <= 2 * files
    tile = len(found) ** -0.5
    # of tiles as wide as high, a box reads those that it touches
    ideal = ((percent / 100) ** 0.5 + tile) ** 2
    assert read_by_boxes(found, shares, percent, random) <= 1.25 * ideal


def test_cuts_at_even_sizes_would_read_more() -> None:
    """The measure of the property above tells files that hold whole quarters of the curve from
    files of the same size.
    """
    random = np.random.default_rng(5)
    shares = [random.random(ROWS), random.random(ROWS)]
    found = files_of("zorder", ("long", "long"), shares, 100)
    order, ends = np.concatenate(found), even_ends(ROWS, 100)
    even = [order[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    assert read_by_boxes(found, shares, 1, random) < 0.7 * read_by_boxes(even, shares, 1, random)


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_a_wide_and_a_narrow_column_are_both_skipped_by(curve: str) -> None:
    """Java mixes the bits of the values themselves: of columns below 10^12 and below 40,000, only
    the first would be sorted by.
    """
    random = np.random.default_rng(7)
    shares = [random.random(ROWS), random.random(ROWS)]
    for rows in files_of(curve, ("long", "few bits"), shares, 16):
        assert max(np.ptp(s[rows]) for s in shares) < 0.3


@pytest.mark.parametrize("columns", range(1, 9))
def test_a_z_order_takes_one_bit_of_each_column_in_turn(columns: int) -> None:
    bits = bits_of_column(columns)
    random = np.random.default_rng(columns)
    ranks = [random.integers(0, 1 << bits, 50).astype(np.uint64) for _ in range(columns)]
    expected = []
    for row in range(50):
        texts = [f"{int(r[row]):0{bits}b}" for r in ranks]
        expected.append(int("".join("".join(t) for t in zip(*texts, strict=True)), 2))
    assert zorder(ranks, bits).tolist() == expected


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.none() | st.floats(width=64), min_size=1, max_size=60),
    sample=st.integers(1, 60),
)
def test_ranks_keep_the_order_of_values_whatever_the_sample_saw(
    values: list[float | None], sample: int
) -> None:
    words = ordered_words(pa.array(values, pa.float64()), DoubleType(), 8)
    ranks = ColumnScale.of([w[:sample] for w in words]).ranks(words, 20)
    order = np.argsort(words[0], kind="stable")
    assert (np.diff(ranks[order].astype(np.int64)) >= 0).all() and ranks.max() < 1 << 20


STARTS = [b"", b"ab", b"abcdefgh", b"abcdefghijk", b"abcdefghijklmnopqrst"]
TEXTS = (
    st.none()
    | st.binary(max_size=3)
    | st.tuples(st.sampled_from(STARTS), st.binary(max_size=9)).map(b"".join)
)


@settings(max_examples=200, deadline=None)
@given(
    most=st.sampled_from(STARTS),
    ends=st.lists(st.binary(max_size=9), max_size=300),
    others=st.lists(TEXTS, max_size=9),
    data=st.data(),
)
def test_ranks_of_texts_keep_their_order_whatever_nulls_and_outliers_the_sample_has(
    most: bytes, ends: list[bytes], others: list[bytes | None], data: st.DataObject
) -> None:
    texts = [*(most + end for end in ends), *others, b"", b"zzzzzzzzz", None]
    length, sample = (
        data.draw(st.integers(1, 30), "bytes that count"),
        data.draw(st.integers(0, len(texts)), "rows of the sample"),
    )
    words = ordered_words(pa.array(texts, pa.binary()), StringType(), length)
    ranks = ColumnScale.of([w[:sample] for w in words]).ranks(words, 20)
    order = sorted(range(len(texts)), key=lambda n: (texts[n] or b"")[:length].rstrip(b"\0"))
    assert (np.diff(ranks[order].astype(np.int64)) >= 0).all() and ranks.max() < 1 << 20


@pytest.mark.parametrize(
    "others",
    [[], [None], ["a"], ["zzz"], ["https://example.com/x"], [None, "", "a", "zzz", "https://f"]],
)
@pytest.mark.parametrize(
    "start", ["", "item-", "https://example.org/", "https://example.org/articles/2026/11/"]
)
def test_texts_are_told_apart_behind_their_common_start_whatever_else_is_in_the_column(
    start: str, others: list[str | None]
) -> None:
    texts = [*(f"{start}{n:06d}" for n in range(2_000)), *others]
    words = ordered_words(pa.array(texts), StringType(), 48)
    ranks = ColumnScale.of(words).ranks(words, 20)[:2_000].astype(np.float64)
    assert np.abs(ranks / (1 << 20) - np.arange(2_000) / 2_000).max() < 0.01


def test_texts_with_a_long_common_beginning_are_told_apart_by_the_bytes_that_count() -> None:
    texts = [f"https://example.org/{n:03d}" for n in range(100)]
    words = ordered_words(pa.array(texts), StringType(), 24)
    assert len(np.unique(ColumnScale.of(words).ranks(words, 20))) == 100


def test_a_column_of_one_value_or_of_nulls_leaves_the_order_to_the_others() -> None:
    for column in (pa.array([5] * 10), pa.array([None] * 10, pa.int64())):
        words = ordered_words(column, LongType(), 8)
        assert set(ColumnScale.of(words).ranks(words, 20).tolist()) == {0}


@settings(max_examples=50, deadline=None)
@given(
    places=st.lists(st.lists(st.integers(0, 255), max_size=30), min_size=1, max_size=3),
    most=st.floats(1, 40),
)
def test_files_along_a_curve_hold_all_rows_and_no_more_than_they_may(
    places: list[list[int]], most: float
) -> None:
    ordered = [np.sort(np.array(p, np.uint64)) for p in places]
    every = np.sort(np.concatenate(ordered))
    ends = ends_along_curve(ordered, 8, most)
    assert (ends[-1] if ends else 0) == len(every) and ends == sorted(set(ends)) and 0 not in ends
    for begin, end in zip([0, *ends], ends, strict=False):
        assert end - begin <= most or every[begin] == every[end - 1]
        assert begin == 0 or every[begin - 1] < every[begin], "rows of one place stay together"


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), max_size=8), files=st.integers(1, 6))
def test_a_stream_is_cut_where_files_end(sizes: list[int], files: int) -> None:
    rows = sum(sizes)
    ends = even_ends(rows, files)
    starts = np.cumsum([0, *sizes])
    batches = [
        pa.RecordBatch.from_pydict({"n": np.arange(a, a + size)})
        for a, size in zip(starts, sizes, strict=False)
    ]
    found: dict[int, list[int]] = {}
    for file, batch in cut(batches, ends):
        found.setdefault(file, []).extend(batch.column(0).to_pylist())
    assert [r for part in found.values() for r in part] == list(range(rows))
    assert [part[-1] + 1 for part in found.values()] == (ends if rows else [])


def clustered(place: Path, curve: str) -> Table:
    table = catalog_of("memory", place).create_table("db.t", "a bigint, b double")
    random = np.random.default_rng(1)
    for _ in range(8):
        table.append(pa.table({"a": random.integers(0, 1000, 500), "b": random.random(500)}))
    table.delete("a % 7 = 3")
    size = sum(table.inspect.data_files().column("file_size_in_bytes").to_pylist())
    table.maintenance.rewrite_data_files(
        sort_order=f"{curve}(a, b)",
        options={"rewrite-all": True, "target-file-size-bytes": size // 8},
    )
    return table


@pytest.mark.parametrize("targets", [2.9, 5.9, 8.3, 11.6, 11.8])
@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_a_table_along_a_curve_is_not_rewritten_again(
    tmp_path: Path, curve: str, targets: float
) -> None:
    table = catalog_of("memory", tmp_path).create_table("db.t", "a bigint, b bigint")
    random = np.random.default_rng(3)
    for _ in range(6):
        table.append(pa.table({name: random.integers(0, 1 << 60, 12_000) for name in ("a", "b")}))
    size = sum(table.inspect.data_files().column("file_size_in_bytes").to_pylist())
    options = {"target-file-size-bytes": int(size / targets)}
    first = table.maintenance.rewrite_data_files(
        sort_order=f"{curve}(a, b)", options={**options, "rewrite-all": True}
    )
    sizes = (
        np.array(table.inspect.data_files().column("file_size_in_bytes").to_pylist())
        * targets
        / size
    )
    assert first.rewritten_data_files_count == 6 and 0.75 < sizes.min() <= sizes.max() < 1.45
    again = table.maintenance.rewrite_data_files(sort_order=f"{curve}(a, b)", options=options)
    assert again.rewritten_data_files_count == 0


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_files_of_a_group_beyond_memory_end_where_those_in_memory_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, curve: str
) -> None:
    whole = clustered(tmp_path / "whole", curve)
    spilled, spill = list[int](), external_sort._spilled

    def counted(*arguments: Any) -> Any:
        spilled.append(1)
        return spill(*arguments)

    monkeypatch.setattr(rewrite, "_sort_memory", lambda *_: 5_000)
    monkeypatch.setattr(external_sort, "_spilled", counted)
    parts = clustered(tmp_path / "parts", curve)
    counts = [t.inspect.data_files().column("record_count").to_pylist() for t in (whole, parts)]
    assert len(spilled) > 1 and counts[0] == counts[1] and len(counts[0]) > 4
    assert whole.scan().to_arrow() == parts.scan().to_arrow()


@pytest.mark.parametrize("bytes_", [1, 2, 8])
def test_max_output_size_takes_the_first_bytes_of_a_z_order(bytes_: int) -> None:
    batch = pa.RecordBatch.from_pydict({"a": np.arange(1000), "b": np.arange(1000)[::-1]})
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()))
    whole = Sorting(schema, curve="zorder", columns=(1, 2)).with_sample([batch], 1000)
    short = Sorting(schema, curve="zorder", columns=(1, 2), key_bytes=bytes_).with_sample(
        [batch], 1000
    )
    places, few = (s.keys(batch).columns["k0"].to_numpy() for s in (whole, short))
    assert (few == places >> np.uint64(max(0, 40 - 8 * bytes_))).all() and short.curve_bits == min(
        40, 8 * bytes_
    )
