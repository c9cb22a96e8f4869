"""A plan never leaves out a row: any filter over generated tables, against a row-by-row oracle that
knows nothing of the pruner.
"""

import importlib
import math
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.expr import nodes as n
from frazil.scan import prune
from frazil.scan.manifests import clear_caches
from frazil.scan.plan import plan
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from frazil.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)
from tests.builders.examples import examples
from tests.scan.made import MadeFile, is_nan, make_table

A, D, S, DAY, TS, DEC, U, N, X = range(1, 10)
SCHEMA = Schema(
    NestedField(A, "a", LongType()),
    NestedField(D, "d", DoubleType()),
    NestedField(S, "s", StringType()),
    NestedField(DAY, "day", DateType()),
    NestedField(TS, "ts", TimestampType()),
    NestedField(DEC, "dec", DecimalType(9, 2)),
    NestedField(U, "u", UUIDType()),
    NestedField(N, "n", StructType(NestedField(X, "x", LongType(), required=True))),
)
NAMES = {A: "a", D: "d", S: "s", DAY: "day", TS: "ts", DEC: "dec", U: "u", X: "n.x"}
VALUES = {
    A: st.sampled_from([-(2**40), -21, -11, -10, -1, 0, 1, 5, 9, 10, 11, 20, 2**31 - 1, 2**40]),
    D: st.sampled_from([float("nan"), float("-inf"), -1.5, -0.0, 0.0, 0.5, 3.0, 5.5, float("inf")]),
    S: st.sampled_from(["", "a", "ab", "abc", "abd", "b", "zz", "\u00e9", "\U0001f600x", "\uffff"]),
    DAY: st.sampled_from([-(2**31), -800, -366, -365, -31, -2, -1, 0, 1, 30, 365, 20000, 2**31 - 1]),
    TS: st.sampled_from([
        -86_400_000_001, -86_400_000_000, -3_600_000_001, -1, 0, 1, 3_600_000_000, 86_400_000_000, 31_536_000_000_000,
        -(2**63), -(2**31) * 3_600_000_000 - 1, 2**31 * 3_600_000_000, 2**63 - 1,
    ]),
    DEC: st.sampled_from([Decimal(v) for v in ("-9999999.50", "-10.50", "-0.01", "0.00", "0.01", "10.50", "10.65", "9999999.99")]),
    U: st.sampled_from([bytes([b]) + bytes(15) for b in (0, 1, 0x7F, 0x80, 0xFF)]),
    X: st.sampled_from([-1, 0, 1, 7]),
}  # fmt: skip
FIELDS = [
    (A, IdentityTransform()), (A, BucketTransform(4)), (A, TruncateTransform(10)), (D, IdentityTransform()), (S, TruncateTransform(2)),
    (S, BucketTransform(3)), (S, IdentityTransform()), (DAY, YearTransform()), (DAY, MonthTransform()), (DAY, DayTransform()),
    (DAY, IdentityTransform()), (TS, HourTransform()), (TS, DayTransform()), (TS, YearTransform()), (DEC, TruncateTransform(50)),
    (DEC, IdentityTransform()), (U, IdentityTransform()), (U, BucketTransform(2)), (A, VoidTransform()), (X, IdentityTransform()),
]  # fmt: skip


@st.composite
def specs(draw, spec_id):
    chosen = draw(
        st.lists(st.sampled_from(FIELDS), max_size=2, unique_by=lambda f: (f[0], str(f[1])))
    )
    return PartitionSpec(
        *(
            PartitionField(i, 1000 + 10 * spec_id + k, t, f"p{spec_id}{k}")
            for k, (i, t) in enumerate(chosen)
        ),
        spec_id=spec_id,
    )


ROW = st.fixed_dictionaries({}, optional=dict(VALUES.items()))
FILE = st.builds(
    lambda rows, keep, narrow, cut, exchanged, groups: MadeFile(
        tuple(rows), keep, narrow, cut, exchanged=exchanged == 3, row_groups=groups
    ),
    st.lists(ROW, min_size=1, max_size=5),
    st.sampled_from(["vnNb", "vnNb", "vnb", "nb", "b", "vn", "vnN", "n", "", "vNb"]),
    st.booleans(),
    st.sampled_from([None, None, 1, 2]),
    st.integers(0, 3),
    st.integers(1, 3),
)


@st.composite
def tables(draw):
    count = draw(st.integers(1, 3))
    manifests = [
        (draw(specs(i)), draw(st.lists(FILE, min_size=1, max_size=3))) for i in range(count)
    ]
    return make_table(SCHEMA, manifests, exchanged=draw(st.integers(0, 3)) == 3)


# --- the oracle: three-valued, Spark's order of floats
# --------------------------------------------------------


def rank(value):
    """Comparable with <, ==: NaN above all and equal to itself, -0.0 equal to 0.0, text and bytes
    by bytes.
    """
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return (0, value.encode() if isinstance(value, str) else value)


def comparing(test):
    def of(field, literal):
        return lambda row: None if row.get(field) is None else test(rank(row[field]), rank(literal))

    return of


def negated(test):
    def result(row):
        found = test(row)
        return None if found is None else not found

    return result


def joined(tests, decisive):
    def result(row):
        found = [t(row) for t in tests]
        return decisive if decisive in found else None if None in found else not decisive

    return result


COMPARISONS = [
    (n.EqualTo, comparing(lambda a, b: a == b)), (n.NotEqualTo, comparing(lambda a, b: a != b)), (n.LessThan, comparing(lambda a, b: a < b)),
    (n.LessThanOrEqual, comparing(lambda a, b: a <= b)), (n.GreaterThan, comparing(lambda a, b: a > b)),
    (n.GreaterThanOrEqual, comparing(lambda a, b: a >= b)),
]  # fmt: skip


def literal(field, value):
    return n.Literal(value, SCHEMA.by_id[field].field_type)


@st.composite
def leaf(draw):
    field = draw(st.sampled_from(sorted(NAMES)))
    name, kind = n.Reference(NAMES[field]), draw(st.integers(0, 9))
    if kind <= 4:
        node, oracle = draw(st.sampled_from(COMPARISONS))
        value = draw(VALUES[field])
        return node(name, literal(field, value)), oracle(field, value)
    if kind == 5:
        values = draw(st.lists(VALUES[field], min_size=1, max_size=3))
        ranks = [rank(v) for v in values]
        inside = lambda row: None if row.get(field) is None else rank(row[field]) in ranks
        return n.In(name, [literal(field, v) for v in values]), inside
    if kind == 6:
        return n.IsNull(name), lambda row: row.get(field) is None
    if kind == 7:
        return n.NotNull(name), lambda row: row.get(field) is not None
    if kind == 8:
        value = draw(VALUES[field])
        same = lambda row: row.get(field) is not None and rank(row[field]) == rank(value)
        return n.NullSafeEqualTo(name, literal(field, value)), same
    if draw(st.booleans()):
        return n.IsNaN(n.Reference("d")), lambda row: is_nan(row.get(D))
    prefix = draw(st.sampled_from(["", "a", "ab", "\u00e9", "zz"]))
    starts = lambda row: None if row.get(S) is None else row[S].startswith(prefix)
    return n.StartsWith(n.Reference("s"), n.Literal(prefix, StringType())), starts


def combine(inner):
    def both(pair):
        (a, x), (b, y) = pair
        return [(n.And(a, b), joined([x, y], False)), (n.Or(a, b), joined([x, y], True))]

    pairs = st.tuples(inner, inner).flatmap(lambda p: st.sampled_from(both(p)))
    return st.one_of(pairs, inner.map(lambda p: (n.Not(p[0]), negated(p[1]))))


PREDICATES = st.recursive(leaf(), combine, max_leaves=4)


@settings(
    max_examples=examples(120),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(tables(), st.lists(PREDICATES, min_size=1, max_size=6))
def test_no_filter_loses_a_row_and_wholly_matching_files_match_wholly(made, predicates):
    clear_caches()
    for predicate, oracle in predicates:
        found = plan(
            made.metadata,
            made.storage,
            snapshot=made.metadata.current_snapshot(),
            row_filter=predicate,
            schema=SCHEMA,
        )
        planned = {t.file.file_path: t for t in found.tasks()}
        for path, rows in made.rows_of.items():
            answers = [oracle(r) for r in rows]
            if True in answers:
                assert path in planned, f"{predicate} loses {rows} of {path}"
            if path in planned and planned[path].residual is None:
                assert set(answers) == {True}, f"{predicate} does not take all of {rows}"
        assert found.matched_records == sum(
            len(made.rows_of[p]) for p, t in planned.items() if t.residual is None
        )
        assert len(found) == len(planned) and len(found.undecided_tasks()) == sum(
            t.residual is not None for t in planned.values()
        )


@settings(max_examples=examples(60))
@given(tables())
def test_without_filter_every_file_is_planned_and_none_is_tested(made):
    clear_caches()
    found = plan(
        made.metadata, made.storage, snapshot=made.metadata.current_snapshot(), schema=SCHEMA
    )
    assert sorted(found.paths()) == sorted(made.rows_of)
    assert all(t.residual is None for t in found.tasks())
    assert found.total_records == sum(map(len, made.rows_of.values()))


# the room's door has a function of that name
planning = importlib.import_module("frazil.scan.plan")


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(tables(), st.lists(PREDICATES, min_size=1, max_size=4))
def test_bounds_read_before_the_counts_change_nothing_that_is_found(made, predicates):
    def found(predicate, many, least=1 << 30):
        clear_caches()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planning, "_MANY_MANIFESTS", many)
            patch.setattr(prune, "LEAST_BYTES", least)
            patch.setattr(prune, "FEW", 1)
            plan_ = plan(
                made.metadata,
                made.storage,
                snapshot=made.metadata.current_snapshot(),
                row_filter=predicate,
                schema=SCHEMA,
            )
        return [(repr(t.file), t.residual is None) for t in plan_.tasks()], replace(
            plan_.report, total_planning_duration=0
        )

    for predicate, _ in predicates:
        assert found(predicate, 1) == found(predicate, 1000) == found(predicate, 1000, 0)
