"""recommend() with a scan log: its estimate of a layout compared with a real rewrite, and the text
of its finding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.catalog import Catalog
from frazil.maintain.advice.layout_advice import best_of, compared_columns, layout_values
from frazil.maintain.advice.table_state import state_of
from frazil.scan.scan_log.files import BUFFER, read_log
from frazil.table import Table

ON = {
    "frazil.scan-log.enabled": "true",
    "write.target-file-size-bytes": "100000",
    "write.parquet.compression-codec": "uncompressed",
}
ROWS, FILES = 20_000, 6
Random = np.random.Generator
Make = Callable[[Random], pa.Array]

KINDS: dict[str, tuple[str, Make, Callable[[Any], str]]] = {
    "long": ("bigint", lambda r: pa.array(r.integers(-(10**9), 10**9, ROWS)), str),
    "double": ("double", lambda r: pa.array(r.random(ROWS) * 1e6), repr),
    "date": (
        "date",
        lambda r: pa.array(r.integers(18_000, 19_000, ROWS).astype(np.int32)).cast(pa.date32()),
        lambda v: f"DATE '{v}'",
    ),
    "text": (
        "string",
        lambda r: pa.array([f"user-{v:07d}" for v in r.integers(0, 10**7, ROWS)]),
        lambda v: f"'{v}'",
    ),
    "few": ("bigint", lambda r: pa.array(r.integers(0, 20, ROWS)), str),
}


def appended(t: Table, columns: dict[str, Make], random: Random) -> list[pa.Table]:
    frames = [
        pa.table({name: make(random) for name, make in columns.items()}) for _ in range(FILES)
    ]
    for frame in frames:
        t.append(frame)
    return frames


def filters_on(
    name: str, values: Sequence[Any], literal: Callable[[Any], str], random: Random, count: int = 12
) -> list[str]:
    """Comparisons of every kind with values of the column."""
    found, ordered = [], sorted(values)
    for n in range(count):
        at = int(random.integers(0, len(ordered) - 1))
        low, high = (
            ordered[at],
            ordered[min(at + int(random.integers(1, len(ordered) // 6)), len(ordered) - 1)],
        )
        match n % 3:
            case 0:
                found.append(f"{name} = {literal(low)}")
            case 1:
                found.append(f"{name} >= {literal(low)} and {name} <= {literal(high)}")
            case 2:
                found.append(f"{name} in ({literal(low)}, {literal(high)})")
    return found


def scanned(t: Table, texts: Sequence[str]) -> int:
    """Plan the filters, and return the bytes of the files that they leave."""
    return sum(t.scan(text).plan().total_size for text in texts)


def estimates(t: Table) -> tuple[dict[tuple[str, ...], float], int]:
    BUFFER.flush()
    table, schema = t.maintenance._table("in-process"), t.schema()
    scans = read_log(t.metadata, t._loaded.storage)
    columns = compared_columns(scans, schema)
    state = state_of(table, columns)
    assert state is not None
    read = sum(s.bytes for s in scans)
    values = layout_values(state, scans, columns)
    return {
        tuple(str(schema.find_column_name(i)) for i in v.layout.columns): v.skipped / read
        for v in values
    }, read


def opened(name: str, columns: str, properties: dict[str, str] = ON, **more: Any) -> Table:
    catalog = frazil.load_catalog(name, type="memory")
    catalog.create_namespace("db")
    return catalog.create_table("db.t", columns, properties=properties, **more)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 10**6), sorted_before=st.booleans())
def test_the_estimate_of_a_sort_is_what_a_real_sort_skips(
    kind: str, seed: int, sorted_before: bool
) -> None:
    random, (type_, make, literal) = np.random.default_rng(seed), KINDS[kind]
    t = opened(f"c{kind}{seed}{sorted_before}", f"a {type_}, b bigint")
    frames = appended(t, {"a": make, "b": KINDS["long"][1]}, random)
    if sorted_before:
        t.maintenance.rewrite_data_files(
            strategy="sort", sort_order="a", options={"rewrite-all": "true"}
        )
    values = [v for f in frames for v in f["a"].to_pylist()]
    texts = filters_on("a", values, literal, random)
    before = scanned(t, texts)
    share, read = estimates(t)
    assert read == before
    t.maintenance.rewrite_data_files(
        strategy="sort", sort_order="a", options={"rewrite-all": "true"}
    )
    real = 1 - scanned(t.refresh(), texts) / before
    # of a dozen scans of one to three files each, chance decides where the next cuts lie
    near = 0.25 if sorted_before else 0.08
    assert share[("a",)] == pytest.approx(max(real, 0.0), abs=near), (
        f"{t.scan().plan().report.result_data_files} files"
    )


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    first=st.sampled_from(["long", "date", "double"]),
    second=st.sampled_from(["long", "text"]),
    seed=st.integers(0, 10**6),
)
def test_the_estimate_of_a_z_order_is_what_a_real_z_order_skips(
    first: str, second: str, seed: int
) -> None:
    random = np.random.default_rng(seed)
    kinds = {"a": KINDS[first], "b": KINDS[second]}
    t = opened(f"z{first}{second}{seed}", ", ".join(f"{n} {k[0]}" for n, k in kinds.items()))
    frames = appended(t, {n: k[1] for n, k in kinds.items()}, random)
    texts = []
    for name, (_, _, literal) in kinds.items():
        texts += filters_on(name, [v for f in frames for v in f[name].to_pylist()], literal, random)
    before = scanned(t, texts)
    share, _ = estimates(t)
    z_order = next(columns for columns in share if len(columns) == 2)
    t.maintenance.rewrite_data_files(
        strategy="sort", sort_order=f"zorder({', '.join(z_order)})", options={"rewrite-all": "true"}
    )
    assert share[z_order] == pytest.approx(1 - scanned(t.refresh(), texts) / before, abs=0.12)


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_the_estimate_keeps_to_partitions_and_counts_their_last_files(
    home: Catalog, partitions: int
) -> None:
    """The last file of a partition holds what the others leave: with three files of a partition, it
    decides a tenth of what is skipped.
    """
    t = home.create_table("db.t", "a bigint, p bigint", partition_by=["p"], properties=ON)
    random = np.random.default_rng(5)
    appended(
        t, {"a": KINDS["long"][1], "p": lambda r: pa.array(r.integers(0, partitions, ROWS))}, random
    )
    texts = [f"a = {v} and p = {v % partitions}" for v in range(-(10**9), 10**9, 10**8)]
    before = scanned(t, texts)
    share, _ = estimates(t)
    t.maintenance.rewrite_data_files(
        strategy="sort", sort_order="a", options={"rewrite-all": "true"}
    )
    assert set(share) == {("a",)}, "the files of a partition are not sorted by its own value"
    real = 1 - scanned(t.refresh(), texts) / before
    assert share[("a",)] == pytest.approx(real, abs=0.05) and real > 0.15


def test_few_texts_are_not_taken_for_many(home: Catalog) -> None:
    """A sort by a column of three values skips two thirds, where ranges of texts look as if it
    skipped nearly all.
    """
    t = home.create_table("db.t", "a string, b bigint", properties=ON)
    states = ["closed", "open", "pending"]
    appended(
        t,
        {
            "a": lambda r: pa.array([states[i] for i in r.integers(0, 3, ROWS)]),
            "b": KINDS["long"][1],
        },
        np.random.default_rng(2),
    )
    texts = [f"a = '{v}'" for v in states] * 4
    before = scanned(t, texts)
    share, _ = estimates(t)
    t.maintenance.rewrite_data_files(
        strategy="sort", sort_order="a", options={"rewrite-all": "true"}
    )
    real = 1 - scanned(t.refresh(), texts) / before
    assert 0.3 < share[("a",)] <= real + 0.02


# --- the finding


def asked(t: Table, texts: Sequence[str]) -> Any:
    for text in texts:
        t.scan(text).plan()
    BUFFER.flush()
    return t.refresh().maintenance.recommend()


def plain(name: str = "t", **more: Any) -> Table:
    t = opened(f"plain{name}{time.time_ns()}", "id bigint, day bigint", **more)
    appended(t, {"id": KINDS["long"][1], "day": KINDS["long"][1]}, np.random.default_rng(3))
    t.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    return t


EQUAL = [f"id = {n}" for n in range(-(10**9), 10**9, 10**8)]


def test_the_finding_says_by_which_column_to_sort_and_what_would_have_been_skipped() -> None:
    t = plain()
    assert "layout" not in asked(t, []).kinds
    found = next(f for f in asked(t, EQUAL) if f.kind == "layout")
    assert (
        "20 scans" in found.text
        and "with files sorted by id they would have skipped about" in found.text
    )
    assert (
        found.cure.arguments["sort_order"] == "id"
        and found.numbers["scans"] == 20
        and 0.8 < found.numbers["share"] < 1
    )
    assert (
        found.numbers["bytes_skipped"]
        < found.numbers["bytes_read"]
        <= 20 * t.scan().plan().total_size
    )
    assert found.cost_bytes == 2 * t.scan().plan().total_size and found.seconds_saved > 0
    t.maintenance.rewrite_data_files(**found.cure.arguments)
    assert "layout" not in t.refresh().maintenance.recommend().kinds, (
        "it is done: the same log asks for nothing more"
    )


def test_scans_by_two_columns_ask_for_a_z_order() -> None:
    t = plain()
    found = next(
        f
        for f in asked(t, [*EQUAL, *(e.replace("id", "day") for e in EQUAL)])
        if f.kind == "layout"
    )
    assert (
        found.cure.arguments["sort_order"] == "zorder(id, day)"
        and "in z-order of id and day" in found.text
    )
    assert "sorted by id: " in found.text


def test_scans_of_everything_lower_the_share() -> None:
    t = plain()
    found = next(f for f in asked(t, [*EQUAL, *["true"] * 20]) if f.kind == "layout")
    assert found.numbers["scans"] == 40 and 0.4 < found.numbers["share"] < 0.5
    assert "layout" not in asked(t, ["true"] * 100).kinds, "less than a fifth is not worth it"


def test_few_scans_and_filters_without_constants_tell_nothing() -> None:
    t = plain()
    assert "layout" not in asked(t, EQUAL[:9]).kinds
    t = plain("hidden", properties={**ON, "write.metadata.metrics.column.id": "counts"})
    assert "layout" not in asked(t, [*EQUAL, "id + 1 = 7", "id is null"]).kinds


def test_a_log_is_not_read_while_it_is_switched_off() -> None:
    t = plain()
    assert "layout" in asked(t, EQUAL).kinds
    t.update_properties().set("frazil.scan-log.enabled", "false").commit()
    assert "layout" not in t.refresh().maintenance.recommend().kinds


def test_dropped_columns_and_columns_of_new_types_in_the_log_do_no_harm() -> None:
    t = plain()
    asked(t, [*EQUAL, *(e.replace("id", "day") for e in EQUAL)])
    with t.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("day")
    found = next(f for f in t.refresh().maintenance.recommend() if f.kind == "layout")
    assert found.cure.arguments["sort_order"] == "id"


def test_auto_leaves_a_new_layout_to_the_owner() -> None:
    t = plain()
    asked(t, EQUAL)
    before = t.current_snapshot()
    result = t.maintenance.auto()
    step = next(s for s in result.steps if s.kind == "layout")
    assert (
        step.outcome == "left to you"
        and "sort_order='id'" in step.call
        and step.result is None
        and not result.failed
    )
    assert {
        s.kind for s in result.steps if s.outcome == "done"
    } or t.refresh().current_snapshot() == before


def test_auto_restores_the_tables_own_order_for_which_the_scans_ask() -> None:
    t = opened(f"own{time.time_ns()}", "id bigint, day bigint", sort_by=["id"])
    appended(t, {"id": KINDS["long"][1], "day": KINDS["long"][1]}, np.random.default_rng(3))
    found = asked(t, EQUAL)
    assert found.kinds[0] == "unsorted" and "layout" not in found.kinds
    assert (
        "by which the table is sorted" in found[0].text
        and "20 scans" in found[0].text
        and found[0].numbers["share"] > 0.5
    )
    assert t.maintenance.auto().steps[0].outcome == "done"
    assert "unsorted" not in t.refresh().maintenance.recommend().kinds


def test_a_simpler_layout_wins_where_another_skips_little_more() -> None:
    t = plain()
    asked(t, EQUAL)
    columns = compared_columns(read_log(t.metadata, t._loaded.storage), t.schema())
    state = state_of(t.maintenance._table("in-process"), columns)
    assert state is not None
    (value,) = layout_values(state, read_log(t.metadata, t._loaded.storage), columns)
    wider = replace(
        value, layout=replace(value.layout, columns=(1, 2)), skipped=value.skipped * 1.01
    )
    assert best_of([wider, value], int(value.skipped)) == value
    much = replace(wider, skipped=value.skipped * 1.5)
    assert best_of([much, value], int(value.skipped)) == much
