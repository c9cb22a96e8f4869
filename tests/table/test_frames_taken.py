"""What a first user brings to a table: pandas frames with an index, lists of dicts; and what a
refusal tells to do.
"""

import datetime as dt
import math
import re
import uuid
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, SchemaMismatch, Unsupported
from frazil.table.table import Table
from tests.builders.catalogs import catalog_of

NAIVE = dt.datetime(2024, 5, 6, 7, 8, 9)
HERE = {"runner": "in-process"}
GROUPED = pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}).groupby("k").sum()


@pytest.fixture
def catalog(tmp_path):
    with catalog_of("memory", tmp_path) as made:
        yield made


def merged(t, frame):
    t.merge(
        frame, "target.k = source.k", **HERE
    ).when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize(
    "write",
    [
        lambda t, f: t.append(f),
        lambda t, f: t.overwrite(f),
        lambda t, f: t.overwrite(f, "k = 'z'"),
        lambda t, f: t.dynamic_partition_overwrite(f),
        lambda t, f: t.upsert(f, ["k"], **HERE),
        merged,
    ],
    ids=["append", "overwrite", "overwrite by a filter", "partitions", "upsert", "merge"],
)
@pytest.mark.parametrize("named", [True, False])
def test_levels_of_a_pandas_index_that_have_names_are_columns_in_every_verb(catalog, write, named):
    t = catalog.create_table("db.g", "k string, v bigint", partition_by=["k"])
    frame = GROUPED if named else GROUPED.reset_index().set_index(pd.Index([5, 7]))
    write(t, frame)
    assert sorted(t.refresh().to_arrow().to_pylist(), key=str) == [
        {"k": "a", "v": 4},
        {"k": "b", "v": 2},
    ]


@pytest.mark.parametrize(
    "values",
    [pd.period_range("2026-01", periods=2, freq="M"), pa.array([1, 0], pa.int8()).cast(pa.bool8())],
)
def test_codes_of_what_values_mean_are_no_numbers(catalog, values):
    frame = (
        pd.DataFrame({"id": values})
        if isinstance(values, pd.PeriodIndex)
        else pa.table({"id": values})
    )
    with pytest.raises(SchemaMismatch, match="cannot be cast"):
        catalog.create_table("db.codes", "id bigint").append(frame)
    with pytest.raises(Unsupported, match="has no Iceberg type"):
        catalog.create_table("db.coded", frame)


def test_a_table_made_of_a_grouped_frame_has_its_keys(catalog):
    t = catalog.create_table("db.g", GROUPED)
    t.append(GROUPED)
    assert {f.name: str(f.field_type) for f in t.schema().fields} == {"v": "long", "k": "string"}
    assert t.to_arrow().sort_by("k").to_pylist() == [{"v": 4, "k": "a"}, {"v": 2, "k": "b"}]
    t.append(GROUPED.rename_axis("other"), merge_schema=True)
    assert t.schema().column_names == ["v", "k", "other"]


def test_lists_of_dicts_need_no_types(catalog):
    t = catalog.create_table(
        "db.t",
        "id bigint not null, x double, m map<string,double>, at timestamp, u uuid",
        identifier_fields=["id"],
    )
    row = {
        "id": 1,
        "x": 1,
        "m": {"a": 1},
        "at": NAIVE.replace(tzinfo=dt.UTC),
        "u": uuid.UUID(int=1),
    }
    t.append([row])
    t.upsert([{**row, "x": 2}, {**row, "id": 2}], **HERE)
    t.overwrite([{**row, "id": 3}], "id = 2")
    found = t.refresh().to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["x"], r["m"], r["u"]) for r in found] == [
        (i, x, [("a", 1.0)], str(uuid.UUID(int=1))) for i, x in ((1, 2.0), (3, 1.0))
    ]


def test_whole_numbers_with_missing_ones_come_from_pandas(catalog):
    t = catalog.create_table("db.t", "id bigint, n int")
    frame = pd.DataFrame({"id": [1, 2], "n": [1, None]})
    t.append(frame)
    t.upsert(frame.assign(n=[math.nan, 5]), ["id"], **HERE)
    assert t.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "n": None}, {"id": 2, "n": 5}]


def test_columns_that_take_other_types_anyway_change_nothing_when_schemas_are_merged(catalog):
    t = catalog.create_table("db.t", "id bigint, u uuid, x double, s struct<y: double>")
    t.append(
        pa.table(
            {"id": [1], "u": [str(uuid.UUID(int=1))], "x": [1], "s": [{"y": 1}], "new": ["n"]}
        ),
        merge_schema=True,
    )
    assert [(f.name, str(f.field_type)) for f in t.schema().fields][1:3] == [
        ("u", "uuid"),
        ("x", "double"),
    ]
    assert t.to_arrow().to_pylist() == [
        {"id": 1, "u": str(uuid.UUID(int=1)), "x": 1.0, "s": {"y": 1.0}, "new": "n"}
    ]


ADVICE = {
    "naive times": ({"at": [NAIVE]}, "tz_localize.*timestamp_ntz"),
    "naive times of Arrow": (pa.table({"at": [NAIVE]}), "assume_timezone.*timestamp_ntz"),
    "naive times of pandas": (pd.DataFrame({"at": [NAIVE]}), "tz_localize.*timestamp_ntz"),
    "times with a zone": (
        [{"local": NAIVE.replace(tzinfo=dt.UTC)}],
        "tz_convert.*make the column timestamp",
    ),
    "whole numbers in doubles": ([{"x": 2**53 + 1}], r"up to 2\^53.*long"),
    "whole numbers with NaN": ({"id": np.array([1.0, math.nan])}, "Int64"),
    "fractions": (pd.DataFrame({"id": [1.5]}), "fractions need a double column"),
    "large numbers": ([{"n": 2**31}], "long"),
    "doubles in floats": (pa.table({"f": [1.5]}), "float, which rounds"),
    "new columns": ([{"id": 1, "more": 2}], "merge_schema=True"),
    "names in other case": ([{"ID": 1}], "which has 'id'.*case_sensitive=False"),
    "text": ([{"id": "1"}], "Cast the column"),
}


@pytest.mark.parametrize("what", ADVICE)
@pytest.mark.parametrize("verb", ["append", "upsert", "overwrite"])
def test_a_refusal_says_what_to_do(catalog, what, verb):
    t = catalog.create_table(
        "db.t", "key bigint, id bigint, n int, at timestamp, local timestamp_ntz, x double, f float"
    )
    frame, advice = ADVICE[what]
    if verb == "upsert":
        frame = with_key(frame)
    write = {
        "append": t.append,
        "overwrite": t.overwrite,
        "upsert": lambda f: t.upsert(f, ["key"], **HERE),
    }[verb]
    with pytest.raises(SchemaMismatch) as caught:
        write(frame)
    assert re.search(f"(?s){advice}", str(caught.value)), str(caught.value)
    assert isinstance(caught.value, InvalidInput) and t.current_snapshot() is None


def with_key(frame):
    if isinstance(frame, list):
        return [{"key": n, **row} for n, row in enumerate(frame)]
    if isinstance(frame, pd.DataFrame):
        return frame.assign(key=range(len(frame)))
    if isinstance(frame, pa.Table):
        return frame.append_column("key", pa.array(range(frame.num_rows)))
    return {**frame, "key": list(range(len(next(iter(frame.values())))))}


def named_for_editors(frame):
    """Whether the type of the argument `df` names this frame, as a type checker decides it."""
    kinds = get_args(get_type_hints(Table.append)["df"])
    return any(isinstance(frame, get_origin(kind) or kind) for kind in kinds)


@pytest.mark.filterwarnings(
    "ignore:Determining the column names of a LazyFrame"
)  # isinstance asks for the attributes of each kind
def test_the_type_of_the_argument_names_every_kind_of_frame_that_is_taken_and_no_other(catalog):
    t = catalog.create_table("db.kinds", "k string, v bigint")
    arrow = pa.table({"k": ["a"], "v": [1]})
    polars = pytest.importorskip("polars").from_arrow(arrow)
    frames = [
        arrow,
        arrow.to_reader(),
        arrow.to_batches()[0],
        arrow.to_pandas(),
        polars,
        polars.lazy(),
        arrow.to_pylist(),
        arrow.to_pydict(),
    ]
    for frame in frames:
        assert named_for_editors(frame)
        t.append(frame)
    assert t.to_arrow().to_pylist() == [{"k": "a", "v": 1}] * len(frames)
    members = {"sparkSession": None, "schema": None, "toArrow": lambda self: arrow}
    assert named_for_editors(type("DataFrame", (), members)())
    assert named_for_editors(t) and named_for_editors(t.scan("v > 0"))
    t.append(t.scan("v > 0", limit=2))
    assert t.count() == len(frames) + 2
    for other in (7, None, object(), (n for n in [{"k": "a"}])):
        assert not named_for_editors(other)
        with pytest.raises(InvalidInput, match="is not a frame"):
            t.append(other)
