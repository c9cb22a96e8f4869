"""A table as plain Python: rows by key, snapshots as sets of keys, columns by field id. What the real table must agree with.

`Run` drives both with the same random steps and compares rows, counts, filters, time travel and refs as it goes.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from frazil import expressions as e
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.errors import CommitFailedException, ValidationError, ValidationException
from frazil.spec import types as t
from frazil.spec.schema import Schema
from frazil.spec.transform_values import apply
from frazil.spec.values import internal_value

Row = dict[int, Any]
LEAVES: dict[str, tuple[t.IcebergType, tuple[Any, ...]]] = {
    "int": (t.IntegerType(), (0, -1, 5, 2**31 - 1, -(2**31))),
    "long": (t.LongType(), (0, -7, 2**40, -(2**63))),
    "float": (t.FloatType(), (0.0, -0.0, 1.5, math.nan, -math.inf)),
    "double": (t.DoubleType(), (0.0, -0.0, -2.5, math.nan, math.inf)),
    "decimal": (t.DecimalType(9, 2), (Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99"))),
    "string": (t.StringType(), ("", "a", "aß𝔘", "a/b=c %", "zzzzzzzzzzzzzzzzzzzzzzzzz")),
    "date": (t.DateType(), (dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "timestamp": (t.TimestampType(), (dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2020, 2, 29, 1))),
    "boolean": (t.BooleanType(), (True, False)),
}
WIDER = {"int": (t.LongType(), "long"), "float": (t.DoubleType(), "double"), "decimal": (t.DecimalType(18, 2), "decimal")}
TRANSFORMS = {
    "int": ("", "bucket(3, {})", "truncate(4, {})"), "long": ("", "bucket(3, {})", "truncate(4, {})"),
    "decimal": ("", "bucket(3, {})", "truncate(50, {})"), "string": ("", "bucket(3, {})", "truncate(1, {})"),
    "date": ("", "years({})", "months({})", "days({})"), "timestamp": ("", "hours({})", "days({})", "bucket(2, {})"),
    "float": ("",), "double": ("",), "boolean": ("",),
}  # fmt: skip


def plain(value: Any) -> Any:
    """Comparable by ==: floats by their text, so that NaN is itself and -0.0 is not 0.0."""
    match value:
        case float():
            return f"f{value!r}"
        case dict():
            return tuple(sorted((k, plain(v)) for k, v in value.items()))
        case list() | tuple():
            return tuple(plain(v) for v in value)
    return value


def shown(value: Any, f: t.NestedField) -> Any:
    """A stored value (structs by field id) as the schema at hand shows it."""
    match f.field_type:
        case _ if value is None:
            return None
        case t.StructType(fields=fields):
            return {c.name: seen(value, c) for c in fields}
        case t.ListType():
            return [shown(v, f.field_type.element_field) for v in value]
    return value


def seen(stored: Row, f: t.NestedField) -> Any:
    return shown(stored[f.field_id], f) if f.field_id in stored else DEFAULTS.get(f.field_id)


DEFAULTS: dict[int, Any] = {}


def order(value: Any) -> Any:
    """Spark's order: NaN above all, -0.0 as 0.0, text by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class Filter:
    """One test of one column, as the library's predicate and as a Python function of three values (None is unknown)."""

    predicate: Any
    test: Callable[[Any], bool | None]
    path: tuple[t.NestedField, ...]

    def holds(self, row: Row) -> bool:
        value: Any = row
        for f in self.path:
            if value is None:
                break
            value = value.get(f.field_id, DEFAULTS.get(f.field_id))
        return self.test(value) is True


def negated(f: Filter) -> Filter:
    def test(v: Any) -> bool | None:
        found = f.test(v)
        return None if found is None else not found

    return replace(f, predicate=e.Not(f.predicate), test=test)


def compare(name: str, word: str, literal: Any) -> tuple[Any, Callable[[Any], bool | None]]:
    made = {"=": e.EqualTo, "<>": e.NotEqualTo, "<": e.LessThan, "<=": e.LessThanOrEqual, ">": e.GreaterThan, ">=": e.GreaterThanOrEqual}
    b = order(literal)

    def test(v: Any) -> bool | None:
        if v is None:
            return None
        a = order(v)
        return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[word]

    return made[word](name, literal), test


@dataclass
class Snapshot:
    keys: frozenset[int]
    schema: Schema
    parent: int | None


@dataclass
class Run:
    """`table` is the real one; the rest is the model. `adds_files`: files of others come in, so names are never given anew."""

    table: Any
    rng: random.Random
    folder: Any
    adds_files: bool = False
    again: Callable[[], Any] = lambda: None
    rows: dict[int, Row] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    staged: list[int] = field(default_factory=list)
    kinds: dict[int, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    refused: int = 0
    names: int = 0

    def __post_init__(self) -> None:
        DEFAULTS.clear()
        for f in self.table.schema().by_id.values():
            self.kinds.setdefault(f.field_id, next((k for k, (type_, _) in LEAVES.items() if type_ == f.field_type), "nested"))

    # --- values

    def value(self, f: t.NestedField) -> Any:
        if f.optional and self.rng.random() < 0.2:
            return None
        match f.field_type:
            case t.StructType(fields=fields):
                return {c.field_id: self.value(c) for c in fields}
            case t.ListType():
                return [self.value(f.field_type.element_field) for _ in range(self.rng.randrange(3))]
        return self.rng.choice(LEAVES[self.kinds[f.field_id]][1])

    def new_rows(self, schema: Schema, count: int) -> list[int]:
        keys = []
        for _ in range(count):
            key = len(self.rows) + 1
            self.rows[key] = {f.field_id: key if f.name == "k" else self.value(f) for f in schema.fields}
            keys.append(key)
        return keys

    def frame(self, keys: list[int], schema: Schema) -> pa.Table:
        made = [{f.name: shown(self.rows[k][f.field_id], f) for f in schema.fields} for k in keys]
        return pa.Table.from_pylist(made, schema=to_arrow_schema(schema))

    def leaves(self, schema: Schema) -> list[tuple[t.NestedField, ...]]:
        found: list[tuple[t.NestedField, ...]] = []
        for f in schema.fields:
            if f.field_type.is_primitive:
                found.append((f,))
            elif isinstance(f.field_type, t.StructType):
                found += [(f, c) for c in f.field_type.fields if c.field_type.is_primitive]
        return found

    def filter(self, schema: Schema) -> Filter:
        path = self.rng.choice(self.leaves(schema))
        name, leaf = ".".join(f.name for f in path), path[-1]
        values = [*LEAVES[self.kinds[leaf.field_id]][1]] if leaf.name != "k" else [1, len(self.rows) // 2, len(self.rows)]
        match self.rng.randrange(5):
            case 0:
                found = Filter(e.IsNull(name), lambda v: v is None, path)
            case 1:
                some = self.rng.sample(values, min(2, len(values)))
                tests = [compare(name, "=", v)[1] for v in some]
                found = Filter(e.In(name, some), lambda v: None if v is None else any(test(v) for test in tests), path)
            case _:
                predicate, test = compare(name, self.rng.choice(["=", "<>", "<", "<=", ">", ">="]), self.rng.choice(values))
                found = Filter(predicate, test, path)
        return negated(found) if self.rng.random() < 0.3 else found

    def specs(self, branch: str) -> dict[int, int]:
        """The spec of each row's file, as the table says: what is rewritten moves to the spec of that time."""
        scan = self.table.scan(selected_fields=("k", "_spec_id"), branch=branch if branch in self.table.refs() else None)
        return {r["k"]: r["_spec_id"] for r in scan.to_arrow().to_pylist()}

    # --- what was committed

    def moved(self, branch: str, states: list[frozenset[int]]) -> None:
        """The branch has these states more, oldest first."""
        refs = self.table.refs()
        at = refs[branch].snapshot_id
        chain = [at]
        while len(chain) < len(states):
            chain.append(self.table.snapshot_by_id(chain[-1]).parent_snapshot_id)
        for sid, keys in zip(reversed(chain), states, strict=True):
            found = self.table.snapshot_by_id(sid)
            self.snapshots[sid] = Snapshot(keys, self.table.schemas()[found.schema_id], found.parent_snapshot_id)
            assert int(found.summary["total-records"]) == len(keys), (self.log, found.summary, len(keys))
        self.heads[branch] = at

    def keys(self, branch: str = "main") -> frozenset[int]:
        head = self.heads.get(branch, self.heads.get("main"))
        return frozenset() if head is None else self.snapshots[head].keys

    def may_fail(self, do: Callable[[], Any]) -> bool:
        """Whether it was done; a refusal must leave the table as it was."""
        before = self.table.refresh().metadata_location
        try:
            do()
        except (ValidationException, ValidationError, CommitFailedException):
            self.refused += 1
            assert self.table.refresh().metadata_location == before
            return False
        self.table.refresh()
        return True

    def partition(self, key: int, schema: Schema) -> Any:
        """The row's partition under the current spec, floats by their bits."""
        found = []
        for pf in self.table.spec().fields:
            source = schema.by_id[pf.source_id]
            value: Any = self.rows[key]
            for step in (*schema.parents[pf.source_id], pf.source_id):
                value = None if value is None else value.get(step, DEFAULTS.get(step))
            found.append(None if value is None else apply(pf.transform, source.field_type, internal_value(source.field_type, value)))
        return plain(found)

    # --- comparing

    def expected(self, keys: frozenset[int], schema: Schema) -> list[Any]:
        return sorted((k, plain({f.name: seen(self.rows[k], f) for f in schema.fields})) for k in keys)

    def got(self, scan: Any) -> list[Any]:
        return sorted((r["k"], plain(r)) for r in scan.to_arrow().to_pylist())

    def check(self) -> None:
        schema, keys = self.table.schema(), self.keys()
        self.same(self.got(self.table.scan()), self.expected(keys, schema), "all rows")
        f = self.filter(schema)
        want = self.expected(frozenset(k for k in keys if f.holds(self.rows[k])), schema)
        self.same(self.got(self.table.scan(f.predicate)), want, f"filter {f.predicate}")
        assert self.table.scan(f.predicate).count() == len(want), (self.log, str(f.predicate))
        if self.snapshots:
            self.check_snapshot(self.rng.choice(list(self.snapshots)))
        for branch, head in self.heads.items():
            assert self.table.refs()[branch].snapshot_id == head, self.log
        if len(self.heads) > 1:
            branch = self.rng.choice(list(self.heads))
            self.same(self.got(self.table.scan(branch=branch)), self.expected(self.keys(branch), schema), f"branch {branch}")
        if self.tags:
            tag = self.rng.choice(list(self.tags))
            then = self.snapshots[self.tags[tag]]
            self.same(self.got(self.table.scan(tag=tag)), self.expected(then.keys, then.schema), f"tag {tag}")

    def check_snapshot(self, sid: int) -> None:
        then = self.snapshots[sid]
        self.same(self.got(self.table.scan(snapshot_id=sid)), self.expected(then.keys, then.schema), f"snapshot {sid}")
        f = self.filter(then.schema)
        want = self.expected(frozenset(k for k in then.keys if f.holds(self.rows[k])), then.schema)
        self.same(self.got(self.table.scan(f.predicate, snapshot_id=sid)), want, f"snapshot {sid}, filter {f.predicate}")

    def check_all(self) -> None:
        for sid in self.snapshots:
            self.check_snapshot(sid)
        if self.table.format_version == 3 and self.keys():
            ids = self.table.scan(selected_fields=("k", "_row_id")).to_arrow()["_row_id"].to_pylist()
            if None not in ids:
                assert len(set(ids)) == len(ids) and max(ids) < self.table.metadata.next_row_id, self.log
        files = self.table.inspect.files()
        assert sum(files["record_count"].to_pylist()) == len(self.keys()), self.log
        self.table.inspect.partitions(), self.table.inspect.entries(), self.table.inspect.all_files(), self.table.inspect.history()

    def same(self, got: list[Any], want: list[Any], what: str) -> None:
        if got != want:
            missing, extra = [w for w in want if w not in got][:3], [g for g in got if g not in want][:3]
            raise AssertionError(f"{what}: {len(got)} rows, not {len(want)}; missing {missing}, extra {extra}; steps {self.log}")
