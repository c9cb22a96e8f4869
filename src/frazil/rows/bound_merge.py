"""Bind a MERGE to the schemas of target and source: resolve names, cast values, match columns by
name for UPDATE * and INSERT *, split the ON condition, and find the columns that schema evolution
adds.

`split` divides ON into join keys, which a key index can look up, parts over one side, and the rest.
Rows match if every part is TRUE. So parts over one side are tested before rows are paired, and the
rest is tested on the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from frazil.arrow.write.store import ByName
from frazil.errors import InvalidInput, ParseError
from frazil.expr.bind import conjunction
from frazil.expr.bound import (
    TRUE,
    Bound,
    BoundReference,
    Comparison,
    Constant,
    conjuncts,
    references,
)
from frazil.expr.compute import can_fail
from frazil.expr.nodes import AlwaysTrue, And, Expression, Or, Predicate, Reference, names
from frazil.rows.assign import (
    Assignments,
    as_expression,
    bind_insert,
    bind_update,
    name_parts,
    typed_name,
)
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.rows.sides import Side, Sides, with_references
from frazil.spec.schema import Schema
from frazil.spec.types import FieldsByName, IcebergType, NestedField, StructType, can_promote

_SIDES = {
    When.MATCHED: Side.BOTH,
    When.NOT_MATCHED: Side.SOURCE,
    When.NOT_MATCHED_BY_SOURCE: Side.TARGET,
}


@dataclass(frozen=True)
class BoundClause:
    """Hold one bound clause. `assignments` None: a DELETE."""

    do: Do
    condition: Bound
    assignments: Assignments | None


@dataclass(frozen=True)
class BoundMerge:
    """Hold a bound MERGE. `changed_only`: a row of which an update would change no column is not
    rewritten (upsert). `target_parts`: the parts of ON that read the target alone, as predicates.
    """

    sides: Sides
    on: JoinOn
    matched: tuple[BoundClause, ...]
    not_matched: tuple[BoundClause, ...]
    by_source: tuple[BoundClause, ...]
    checks_cardinality: bool
    changed_only: bool = False
    target_parts: tuple[Predicate, ...] = ()
    by_source_parts: tuple[Predicate, ...] = ()

    @property
    def of_target(self) -> tuple[BoundClause, ...]:
        """Return the clauses that act on rows of the target."""
        return (*self.matched, *self.by_source)

    @property
    def updates(self) -> bool:
        return any(c.assignments is not None for c in self.of_target)

    @property
    def takes_whole_rows(self) -> bool:
        """Tell whether each new version of a row is made from its source row alone, and no row
        changes without one.
        """
        assignments = [c.assignments for c in self.of_target if c.assignments is not None]
        return not self.by_source and not any(
            m.kept or self.target_ids(m.read.values()) for m in assignments
        )

    def target_ids(self, references_: Iterable[BoundReference]) -> set[int]:
        return {r.field_id for r in references_ if r.field_id not in self.sides.of_source}

    @property
    def tested(self) -> set[int]:
        """Return the ids of the target's columns that decide which rows match and which clause
        applies to them.
        """
        tests = [
            *(k.target for k in self.on.keys),
            self.on.of_target,
            self.on.rest,
            *(c.condition for c in self.of_target),
        ]
        return {i for t in tests for i in self.target_ids(references(t).values())}

    @property
    def needed_to_update(self) -> set[int]:
        """Return the ids of the target's columns from which new versions of rows are made."""
        field_ids: set[int] = set()
        for clause in self.of_target:
            if clause.assignments is not None:
                field_ids |= clause.assignments.kept | self.target_ids(
                    clause.assignments.read.values()
                )
                if self.changed_only:
                    field_ids |= {f.field_id for f in self.sides.target.fields}
        return field_ids

    def names_of_source(
        self, bounds: Iterable[Bound], clause: BoundClause | None = None
    ) -> list[str]:
        """Return the source columns that these expressions and the clause's new values read."""
        ids = (
            set(clause.assignments.read)
            if clause is not None and clause.assignments is not None
            else set()
        )
        ids |= {i for b in bounds for i in references(b)}
        tops = {(self.sides.source.parents[i] or (i,))[0] for i in ids & self.sides.of_source}
        return [f.name for f in self.sides.source.fields if f.field_id in tops]

    def target_filter(self, of_keys: Predicate) -> Predicate:
        """Build the filter on the rows of the target that the MERGE may change. `of_keys`: the
        filter that the source's keys imply.
        """
        if self.by_source_parts and any(isinstance(p, AlwaysTrue) for p in self.by_source_parts):
            return AlwaysTrue()
        both: Predicate = of_keys
        for part in self.target_parts:
            both = part if isinstance(both, AlwaysTrue) else both & part
        return Or(both, *self.by_source_parts) if self.by_source_parts else both


def bind_merge(merge: Merge, sides: Sides, *, changed_only: bool = False) -> BoundMerge:
    """Bind a MERGE. Raises InvalidInput and ValidationError, which name the clause's column.

    `changed_only`: an upsert; rows that it would not change are not rewritten, and columns that its
    frame lacks get their default or null, as in any frame that is written.
    """
    merge.check()
    qualified = sides.qualified(merge.on)
    clauses = {
        when: tuple(_clause(c, sides, merge.merge_schema, changed_only) for c in merge.of(when))
        for when in When
    }
    by_source = [
        # A condition that may fail is evaluated for rows without a match only, so it cannot be used
        # to prune files.
        AlwaysTrue()
        if c.is_unconditional or can_fail(b.condition)
        else without_alias(sides.qualified(c.condition, Side.TARGET))
        for c, b in zip(
            merge.of(When.NOT_MATCHED_BY_SOURCE), clauses[When.NOT_MATCHED_BY_SOURCE], strict=True
        )
    ]
    return BoundMerge(
        sides,
        split(sides.condition(merge.on), sides),
        clauses[When.MATCHED],
        clauses[When.NOT_MATCHED],
        clauses[When.NOT_MATCHED_BY_SOURCE],
        merge.checks_cardinality,
        changed_only,
        tuple(parts_of_target(qualified, sides)),
        tuple(by_source),
    )


def _clause(clause: Clause, sides: Sides, merge_schema: bool, fills: bool) -> BoundClause:
    side = _SIDES[clause.when]
    condition = TRUE if clause.is_unconditional else sides.condition(clause.condition, side)
    if clause.do is Do.DELETE:
        return BoundClause(clause.do, condition, None)
    options: dict[str, Any] = {"zone": sides.zone, "case_sensitive": sides.case_sensitive}
    values: Iterable[tuple[str, Any]] = _named(clause, sides)
    structs: dict[tuple[str, ...], Expression] = {}
    if clause.takes_all:
        values = list(_all(sides, merge_schema, structs, members=clause.updates, fills=fills))
    bind = partial(sides.term, side=side)
    if clause.updates:
        assignments = bind_update(
            sides.target, values, bind, structs=structs, prefix=(sides.target_alias,), **options
        )
        return BoundClause(clause.do, condition, assignments)
    fills_members = clause.takes_all and merge_schema
    return BoundClause(
        clause.do,
        condition,
        bind_insert(sides.target, values, bind, whole=not fills_members, **options),
    )


def _named(clause: Clause, sides: Sides) -> Iterator[tuple[str, Any]]:
    """Yield assignments by the name of their column, which may be led by the target's alias; the
    alias goes before a column of that name, as in Spark."""
    for name, value in clause.assignments:
        first, *rest = name_parts(name)
        led = bool(rest) and sides.is_target(first)
        own = any(sides.same_name(f.name, first) for f in sides.target.fields)
        yield (typed_name(rest) if led and (not own or sides.has_target(rest)) else name), value


def _all(
    sides: Sides,
    merge_schema: bool,
    structs: dict[tuple[str, ...], Expression],
    *,
    members: bool,
    fills: bool,
) -> Iterator[tuple[str, Any]]:
    """Assign every column of the target from the source column of that name. With `merge_schema`,
    columns that the source lacks are left alone; otherwise `fills` gives them their default or
    null. Structs that are assigned by their members are added to `structs`, with those of the
    source."""
    missing: list[str] = []
    yield from _matched(
        sides, sides.target.fields, sides.source, (), missing, structs, merge_schema and members
    )
    if fills and not merge_schema:
        names = set(missing)
        lacking = [f.name for f in sides.target.fields if f.name in names]
        yield from ((typed_name((name,)), "DEFAULT") for name in lacking)
        filled = set(lacking)
        missing = [name for name in missing if name not in filled]
    if missing and not merge_schema:
        raise InvalidInput(
            f"MERGE: the source lacks columns of the target: {', '.join(missing)}.",
            hint="Name the columns to set, or use merge_schema=True, which leaves them as they are.",
            columns=missing,
        )


def _matched(
    sides: Sides,
    want: Iterable[NestedField],
    have: FieldsByName,
    path: tuple[str, ...],
    missing: list[str],
    structs: dict[tuple[str, ...], Expression],
    members: bool,
) -> Iterator[tuple[str, ByName]]:
    for field in want:
        candidates = have.fields_named(field.name, sides.case_sensitive)
        full = (*path, field.name)
        if len(candidates) > 1:
            raise InvalidInput(
                f"MERGE: the source has several columns {'.'.join(full)}: {', '.join(h.name for h in candidates)}."
            )
        if not candidates:
            missing.append(".".join(full))
            continue
        inside: list[str] = []
        target_type, source_type = field.field_type, candidates[0].field_type
        if isinstance(target_type, StructType) and isinstance(source_type, StructType):
            parts = list(
                _matched(sides, target_type.fields, source_type, full, inside, structs, members)
            )
            missing += inside
            if inside and members:  # the members that the source has, so that the others stay
                structs[full] = _of_source(sides, full)
                yield from parts
                continue
        yield typed_name(full), ByName(_of_source(sides, full))


def _of_source(sides: Sides, path: tuple[str, ...]) -> Reference:
    parts = (sides.source_alias, *_source_path(sides, path))
    return Reference(".".join(parts), parts)


def _source_path(sides: Sides, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path by which the source has a column of the target, whose case may differ."""
    around: FieldsByName = sides.source
    names: list[str] = []
    for name in path:
        f = around.fields_named(name, sides.case_sensitive)[0]
        names.append(f.name)
        around = f.field_type if isinstance(f.field_type, StructType) else StructType()
    return tuple(names)


@dataclass(frozen=True)
class JoinKey:
    """Hold one join key: `target = source`, or `target <=> source` (`null_safe`); both sides have
    the same type.
    """

    target: Bound
    source: Bound
    null_safe: bool


@dataclass(frozen=True)
class JoinOn:
    """Hold a split ON condition. `of_target`, `of_source`: parts that read one side only (TRUE:
    none). `rest`: parts over both sides. Without keys every target row is paired with every source
    row."""

    keys: tuple[JoinKey, ...]
    of_target: Bound = TRUE
    of_source: Bound = TRUE
    rest: Bound = TRUE

    @property
    def never(self) -> bool:
        """Tell whether no two rows can match, whatever their values."""
        return isinstance(self.of_source, Constant) and self.of_source.value is not True


def split(on: Bound, sides: Sides) -> JoinOn:
    """Split a bound ON condition into its parts."""
    keys: list[JoinKey] = []
    parts: dict[Side, list[Bound]] = {s: [] for s in Side}
    for part in conjuncts(on):
        if (key := _key(part, sides)) is not None:
            keys.append(key)
        else:
            parts[sides.side_of(part) or Side.SOURCE].append(part)
    return JoinOn(
        tuple(keys), *(conjunction(parts[s]) for s in (Side.TARGET, Side.SOURCE, Side.BOTH))
    )


def _key(part: Bound, sides: Sides) -> JoinKey | None:
    match part:
        case Comparison(op="eq" | "nseq" as op, left=left, right=right):
            match sides.side_of(left), sides.side_of(right):
                case Side.TARGET, Side.SOURCE:
                    return JoinKey(left, right, op == "nseq")
                case Side.SOURCE, Side.TARGET:
                    return JoinKey(right, left, op == "nseq")
    return None


def parts_of_target(on: Expression, sides: Sides) -> list[Expression]:
    """Return the parts of a qualified ON condition that read the target alone, as predicates over
    the table.
    """
    parts = on.parts if isinstance(on, And) else (on,)
    prefix = sides.target_alias + "."
    return [
        without_alias(p)
        for p in parts
        if (columns := names(p)) and all(n.startswith(prefix) for n in columns)
    ]


def without_alias(qualified: Expression) -> Expression:
    """Strip the alias from an expression over one side, so that it names that side's columns."""

    def bare(r: Reference) -> Reference:
        return Reference(".".join(r.parts[1:]), r.parts[1:])

    unqualified: Expression = with_references(qualified, bare)
    return unqualified


def columns_to_add(merge: Merge, target: Schema, source: Schema, case_sensitive: bool) -> Schema:
    """Return the source columns that a MERGE with schema evolution may add to the table, or widen:
    all if a clause is UPDATE * or INSERT *, otherwise those, and members of structs, that a clause
    assigns to a column of the same name.
    """
    if any(clause.takes_all for clause in merge.clauses):
        return source

    def spelled(path: Iterable[str]) -> tuple[str, ...]:
        return tuple(path) if case_sensitive else tuple(name.lower() for name in path)

    assigned = {spelled(path) for path in merge.copied}
    for clause in merge.clauses:
        for name, value in clause.assignments:
            path = spelled(_without(merge.target_alias, name_parts(name)))
            if path == spelled(_source_column(value, merge)):
                assigned.add(path)

    def chosen(fields: Iterable[NestedField], around: tuple[str, ...]) -> Iterator[NestedField]:
        for f in fields:
            path = (*around, f.name)
            key = spelled(path)
            if key in assigned:
                column = target.get_field(".".join(path), case_sensitive)
                if column is None or _widens(column.field_type, f.field_type):
                    yield f
            elif isinstance(f.field_type, StructType) and any(
                key == name[: len(key)] for name in assigned
            ):
                if inside := tuple(chosen(f.field_type.fields, path)):
                    yield replace(f, field_type=StructType(*inside))

    return Schema(*chosen(source.fields, ()))


def _widens(have: IcebergType, given: IcebergType) -> bool:
    """Tell whether a column may take a type of the source: others are cast when they are stored."""
    if have.is_primitive and given.is_primitive:
        return have != given and can_promote(have, given)
    return type(have) is type(given)


def _source_column(value: object, merge: Merge) -> tuple[str, ...]:
    """Return the name of the source's column, or member of one, that an assigned value is; empty
    for any other value: from no other follows the type of a column.
    """
    if not isinstance(value, str | Expression):
        return ()
    try:
        expression = as_expression(value)
    except ParseError:  # text that only Spark can parse is not a plain column
        return ()
    return (
        _without(merge.source_alias, expression.parts) if isinstance(expression, Reference) else ()
    )


def _without(alias: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a column's name without the alias of its side."""
    return parts[1:] if len(parts) > 1 and parts[0] == alias else parts
