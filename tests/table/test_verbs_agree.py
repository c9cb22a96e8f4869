"""Every verb takes the same values into a column and refuses the same ones: one rule, whichever way
rows come.
"""

import datetime as dt
import decimal
import itertools
import zoneinfo

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import EvaluationError, SchemaMismatch
from frazil.expressions import Literal
from tests.builders.catalogs import catalog_of
from tests.builders.examples import examples

HERE = {"runner": "in-process"}
UTC = zoneinfo.ZoneInfo("UTC")
NAIVE, ZONED = dt.datetime(2024, 5, 6, 7, 8, 9, 10), dt.datetime(2024, 5, 6, 7, 8, 9, 10, UTC)
MIDNIGHT = dt.datetime(2024, 5, 6, tzinfo=UTC)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    with catalog_of("memory", tmp_path_factory.mktemp("agree")) as made:
        yield made


def append(t, new, old):
    t.append(new)


def overwrite(t, new, old):
    t.overwrite(new, "id = 2")


def dynamic_partition_overwrite(t, new, old):
    t.dynamic_partition_overwrite(new)


def upsert_that_inserts(t, new, old):
    t.upsert(new, ["id"], **HERE)


def upsert_that_updates(t, new, old):
    t.upsert(old, ["id"], **HERE)


def merging(t, frame):
    return t.merge(frame, "target.id = source.id", **HERE)


def merge_insert_all(t, new, old):
    merging(t, new).when_not_matched_insert_all().execute()


def merge_update_all(t, new, old):
    merging(t, old).when_matched_update_all().execute()


def merge_set(t, new, old):
    merging(t, old).when_matched_update({"x": "source.x"}).execute()


def merge_values(t, new, old):
    merging(t, new).when_not_matched_insert({"id": "source.id", "x": "source.x"}).execute()


FRAMES = (
    append, overwrite, dynamic_partition_overwrite, upsert_that_inserts, upsert_that_updates, merge_insert_all, merge_update_all,
)  # fmt: skip
EXPRESSIONS = (merge_set, merge_values)


def update_set(t, new, old):
    value = old[0]["x"]
    t.update({"x": Literal(value) if isinstance(value, str) else value}, "id = 1", **HERE)


def outcome(catalog, verb, ddl, frames):
    """What is stored for the new value, or "refused". Row 1 is there before, with null; row 2 is
    new. `ddl`: of column x.
    """
    t = catalog.create_table(
        f"db.t{next(_numbers)}", f"id bigint, x {ddl}", format_version=3, partition_by=["id"]
    )
    t.append([{"id": 1}])
    before = t.current_snapshot().snapshot_id
    try:
        verb(t, *frames)
    except (SchemaMismatch, EvaluationError):
        assert t.refresh().current_snapshot().snapshot_id == before
        return "refused"
    found = {r["id"]: r["x"] for r in t.to_arrow().to_pylist()}
    return repr(found[2] if 2 in found else found[1])


def same(catalog, verbs, ddl, frames):
    outcomes = {verb.__name__: outcome(catalog, verb, ddl, frames) for verb in verbs}
    assert len(set(outcomes.values())) == 1, outcomes
    return outcomes[verbs[0].__name__]


# Columns of Arrow frames
# ----------------------------------------------------------------------------------------------------------------

WHOLE = [
    0,
    1,
    -1,
    127,
    2**15 - 1,
    2**24,
    2**24 + 1,
    2**31 - 1,
    2**31,
    2**53,
    2**53 + 1,
    -(2**60),
    2**63 - 1,
    -(2**63),
]
MICROS = [0, 1_700_000_000_000_000, -1_500]


def arrays(type_):
    """Arrow values of a type, some of them at the edges of narrower ones."""
    if pa.types.is_integer(type_):
        low, high = (
            (0, 2**type_.bit_width)
            if pa.types.is_unsigned_integer(type_)
            else (-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1))
        )
        values = st.sampled_from([v for v in WHOLE if low <= v < high])
    elif pa.types.is_floating(type_):
        values = st.sampled_from(
            [0.0, 1.0, -2.5, 0.1, 2.0**24, 1e300]
            if type_ == pa.float64()
            else [0.0, 1.0, -2.5, 2.0**24]
        )
    elif pa.types.is_decimal(type_):
        values = st.sampled_from(
            [decimal.Decimal(v).scaleb(-type_.scale) for v in (0, 1, -5, 99, 10**4)]
        )
    elif pa.types.is_timestamp(type_):
        per = {"s": 10**6, "ms": 1000, "us": 1, "ns": 1}[type_.unit]
        many = 1000 if type_.unit == "ns" else 1
        values = st.sampled_from(
            [v // per * many for v in MICROS] + ([1] if type_.unit == "ns" else [])
        )
        return values.map(lambda v: pa.array([v], pa.int64()).view(type_))
    else:
        values = st.sampled_from(OTHERS[type_])
    return values.map(lambda v: pa.array([v], type_))


OTHERS = {
    pa.bool_(): [True], pa.string(): ["1", "00000000-0000-0000-0000-00000000000a", ""], pa.binary(): [b"", b"1234"], pa.binary(4): [b"1234"],
    pa.date32(): [dt.date(2024, 5, 6)], pa.time64("us"): [dt.time(1, 2, 3)], pa.null(): [None],
}  # fmt: skip
ARROW = [
    pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal128(10, 2),
    pa.decimal128(12, 4), *(pa.timestamp(u, z) for u in ("s", "us", "ns") for z in (None, "UTC", "Asia/Tokyo")), *OTHERS,
]  # fmt: skip
COLUMNS = [
    "boolean", "int", "bigint", "float", "double", "decimal(6,2)", "decimal(20,0)", "date", "time", "timestamp", "timestamp_ntz", "timestamp_ns",
    "timestamptz_ns", "string", "uuid", "binary", "fixed(4)",
]  # fmt: skip
column = st.sampled_from(ARROW).flatmap(arrays)


def frames_of(array):
    return [pa.table({"id": [n], "x": array}) for n in (2, 1)]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(array=column, ddl=st.sampled_from(COLUMNS), inside=st.booleans())
def test_every_verb_takes_the_same_arrow_values_into_a_column(catalog, array, ddl, inside):
    if inside:
        array, ddl = pa.StructArray.from_arrays([array], names=["m"]), f"struct<m: {ddl}>"
    found = same(catalog, FRAMES, ddl, frames_of(array))
    if found != "refused":

        def evolves(t, new, old):
            t.append(new, merge_schema=True)

        assert outcome(catalog, evolves, ddl, frames_of(array)) == found
        # these may take more: numbers as SQL assigns them
        assert same(catalog, EXPRESSIONS, ddl, frames_of(array)) == found


TAKEN = [
    (pa.array([7], pa.int64()), "double", "7.0"), (pa.array([7], pa.int64()), "int", "7"), (pa.array([2**60]), "double", repr(2.0**60)),
    (pa.array([1.5], pa.float32()), "double", "1.5"), (pa.array([dt.date(2024, 5, 6)]), "timestamp_ntz", repr(dt.datetime(2024, 5, 6))),
    (pa.array(["00000000-0000-0000-0000-00000000000A"]), "uuid", "'00000000-0000-0000-0000-00000000000a'"),
    (pa.array([decimal.Decimal("1.5")]), "decimal(10,2)", "Decimal('1.50')"),
]  # fmt: skip
REFUSED = [
    (pa.array([NAIVE]), "timestamp"), (pa.array([ZONED]), "timestamp_ntz"), (pa.array([dt.date(2024, 5, 6)]), "timestamp"), (pa.array([NAIVE]), "date"),
    (pa.array([1.5]), "float"), (pa.array([1.0]), "int"), (pa.array([2**53 + 1]), "double"), (pa.array([2**40]), "int"), (pa.array([1]), "string"),
    (pa.array([decimal.Decimal("1.555")]), "decimal(10,2)"), (pa.array([1], pa.timestamp("ns")), "timestamp_ntz"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "ddl", "held"), TAKEN, ids=str)
def test_what_has_an_equal_value_in_the_column_s_type_is_taken_by_every_verb(
    catalog, array, ddl, held
):
    assert same(catalog, (*FRAMES, *EXPRESSIONS), ddl, frames_of(array)) == held


@pytest.mark.parametrize(("array", "ddl"), REFUSED, ids=str)
def test_what_has_none_is_refused_by_every_verb(catalog, array, ddl):
    assert same(catalog, FRAMES, ddl, frames_of(array)) == "refused"
    if pa.types.is_temporal(array.type):
        assert same(catalog, EXPRESSIONS, ddl, frames_of(array)) == "refused"


# Python values
# --------------------------------------------------------------------------------------------------------------------------

VALUES = [
    True, 0, 7, 2**31, 2**53 + 1, 2**60, 1.0, 0.1, 1e300, decimal.Decimal("1.5"), decimal.Decimal("1.555"), "x", "00000000-0000-0000-0000-00000000000a", b"1234",
    NAIVE, ZONED, NAIVE.date(), dt.time(1, 2, 3), None,
]  # fmt: skip


@pytest.mark.parametrize("ddl", COLUMNS)
def test_a_python_value_is_taken_by_set_where_a_list_of_dicts_with_it_is_appended(catalog, ddl):
    taken = [
        v
        for v in VALUES
        if same(catalog, (append, update_set), ddl, [[{"id": n, "x": v}] for n in (2, 1)])
        != "refused"
    ]
    assert None in taken and len(taken) < len(VALUES)


@pytest.mark.parametrize(
    ("value", "ddl"),
    [(NAIVE, "timestamp"), (7, "double"), (0.1, "float"), (True, "int"), (2**53 + 1, "double")],
    ids=str,
)
def test_every_verb_takes_the_same_lists_of_dicts(catalog, value, ddl):
    same(catalog, (*FRAMES, update_set), ddl, [[{"id": n, "x": value}] for n in (2, 1)])


# SQL text
# -------------------------------------------------------------------------------------------------------------------------------


def updated(catalog, ddl, text):
    def verb(t, new, old):
        t.update({"x": text}, **HERE)

    return outcome(catalog, verb, ddl, [None, None])


@pytest.mark.parametrize(
    ("ddl", "text", "held"),
    [
        ("timestamp", "TIMESTAMP '2024-05-06 00:00:00'", MIDNIGHT),
        ("timestamp", "TIMESTAMP_NTZ '2024-05-06 00:00:00'", MIDNIGHT),
        ("timestamp", "DATE '2024-05-06'", MIDNIGHT),
        ("timestamp_ntz", "TIMESTAMP '2024-05-06 00:00:00'", dt.datetime(2024, 5, 6)),
        ("timestamp", "CAST(date_add(DATE '2024-05-05', 1) AS timestamp)", MIDNIGHT),
        ("decimal(10,2)", "id * 1.555", decimal.Decimal("1.56")),
        ("float", "id * 0.1D", 0.10000000149011612),
        ("string", "id + 1", "2"),
    ],
)
def test_literals_and_computed_values_are_cast_as_spark_assigns_them(catalog, ddl, text, held):
    assert updated(catalog, ddl, text) == repr(held)


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("timestamp", "date_add(DATE '2024-05-05', 1)"),
        ("timestamp", "if(id = 1, TIMESTAMP_NTZ '2024-05-06 00:00:00', null)"),
        ("timestamp_ntz", "if(id = 1, TIMESTAMP '2024-05-06 00:00:00', null)"),
    ],
)
def test_nothing_computed_moves_in_or_out_of_a_zone_by_itself(catalog, ddl, text):
    assert updated(catalog, ddl, text) == "refused"


def test_columns_in_expressions_are_cast_as_sql_assigns_them_but_for_times(catalog):
    t = catalog.create_table(
        "db.columns",
        "i bigint, n timestamp_ntz, d double, ts timestamp, f float, s string, o int, day date",
    )
    t.append([{"i": 7, "n": NAIVE, "d": 0.1, "day": NAIVE.date(), "ts": ZONED}])
    t.update({"o": "i", "f": "d", "s": "i", "n": "day"}, **HERE)
    row = t.to_arrow().to_pylist()[0]
    assert (row["o"], row["f"], row["s"], row["n"]) == (
        7,
        0.10000000149011612,
        "7",
        dt.datetime(2024, 5, 6),
    )
    for new, advice in (
        ({"ts": "n"}, "give them one"),
        ({"ts": "day"}, "give them one"),
        ({"n": "ts"}, "choose one"),
        ({"day": "n"}, "CAST"),
    ):
        with pytest.raises(SchemaMismatch, match=f"Cannot assign.*{advice}"):
            t.update(new, **HERE)
    t.update({"i": str(2**40)}, **HERE)
    with pytest.raises(EvaluationError, match="Column o"):
        t.update({"o": "i"}, **HERE)
