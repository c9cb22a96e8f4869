"""Plays a script on a table and on the model, and compares them after every step."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from frazil.errors import FrazilError
from frazil.spec.transform_values import apply as transformed
from frazil.spec.values import internal_value
from tests.model import column_steps as c
from tests.model import ref_steps as r
from tests.model import steps as s
from tests.model.merge import ModelMerge
from tests.model.state import Facts, Refused, Snap, State, Work
from tests.model.values import Columns, Row, as_set, ddl, find, plain, shown, value_of

PRELUDE = """\
import datetime
from decimal import Decimal
import pyarrow as pa
import pyarrow.parquet as pq
import frazil
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.spec.ddl import parse_type
nan, inf = float("nan"), float("inf")
def rows(t, found, names=None, doubles={}):
    schema = to_arrow_schema(t.metadata.schema())
    chosen = pa.Table.from_pylist(found, schema=pa.schema([schema.field(n) for n in names]) if names else schema)
    for name, values in doubles.items():
        chosen = chosen.append_column(name, pa.array(values, pa.float64()))
    return chosen
def parquet(frame, t, name):
    sink = pa.BufferOutputStream()
    pq.write_table(frame, sink)
    t.io.write(path := f"{t.location()}/elsewhere/{name}.parquet", sink.getvalue().to_pybytes())
    return path
def wider(t, path):
    return parse_type({"int": "bigint", "float": "double", "decimal(9, 2)": "decimal(18,2)"}[str(t.metadata.schema().find_field(path).field_type)])
"""
CATALOG = 'catalog = frazil.load_catalog("model", type="memory")\ncatalog.create_namespace("db")\n'
LINEAGE = ("_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True)
class Script:
    """`catalog`: code that makes `catalog` with the namespace db."""

    columns: Columns
    version: int
    partition_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    steps: tuple[Any, ...] = ()
    catalog: str = CATALOG

    def opening(self) -> str:
        create = f"t = catalog.create_table('db.t', {ddl(self.columns)!r}, partition_by={list(self.partition_by)!r},\n"
        return (
            create + f"    format_version={self.version}, properties={dict(self.properties)!r})\n"
        )

    def code(self) -> str:
        """A program that does the same."""
        return (
            PRELUDE
            + self.catalog
            + self.opening()
            + "\n".join(step.code() for step in self.steps)
            + "\nprint(t.scan().to_arrow().to_pylist())\n"
        )


class Mismatch(AssertionError):
    """The table and the model differ. `kind` tells failures of different causes apart."""

    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Player:
    """`step` plays one more step, `finish` looks at everything once more."""

    def __init__(self, script: Script):
        self.script = replace(script, steps=())
        self.names: dict[str, Any] = {}
        self.refused = self.played = 0
        self.known: dict[Any, tuple[dict[int, Row], dict[int, Facts]]] = {}
        exec(PRELUDE + script.catalog + script.opening(), self.names)
        self.state = State(
            script.columns, script.version, {"main": Snap(columns=script.columns)}, keys=0
        )
        self.state.schemas[self.table.schema().schema_id] = script.columns

    @property
    def table(self) -> Any:
        return self.names["t"]

    def step(self, step: Any) -> None:
        self.played += 1
        self.script = replace(self.script, steps=(*self.script.steps, step))
        if isinstance(step, s.Race):
            self.race(step)
            self.state.order = [found.snapshot_id for found in self.table.snapshots()]
            return
        work = Work.of(self.state, getattr(step, "branch", "main"))
        work.replaced = self.replaced
        expected: Refused | None = None
        try:
            step.apply(work)
        except Refused as e:
            expected = e
        if self.run(step, expected):
            self.state.order = [found.snapshot_id for found in self.table.snapshots()]
            self.done(step, work)

    def run(self, step: Any, expected: Refused | None) -> bool:
        """Whether it was done; a refusal leaves the table as it was."""
        before = self.table.metadata_location
        try:
            exec(step.code(), self.names)
        except FrazilError as e:
            if expected is None and not getattr(step, "maybe", False):
                raise Mismatch(f"error {type(e).__name__}", str(e)) from e
            if self.table.refresh().metadata_location != before:
                raise Mismatch("refused, yet committed", str(e)) from e
            self.refused += 1
            return False
        except Exception as e:
            raise Mismatch(f"error {type(e).__name__}", str(e)) from e
        if expected is not None:
            raise Mismatch("not refused", str(expected))
        return True

    def race(self, race: Any) -> None:
        """The second step was made from the table as it was before the first: it is refused, or
        some order of the two explains the rows.
        """
        orders = [
            race.outcome(Work.of(self.state), order, self.replaced)
            for order in ((0,), (0, 1), (1, 0))
        ]
        orders.append(self.read_before(race))
        if not self.run(race, None):
            return
        self.names["result"] = None
        raced = self.names.pop("raced")
        found = as_set(self.table.scan().to_arrow().to_pylist())
        for work in orders[:1] if raced else orders[1:]:
            if work and found == as_set(shown(row, work.columns) for row in work.rows.values()):
                self.state.columns = work.columns
                self.state.schemas.setdefault(self.table.schema().schema_id, work.columns)
                self.committed(race, work, self.state.head())
                self.look_around()
                return
        outcomes = [
            work and as_set(shown(row, work.columns) for row in work.rows.values())
            for work in orders
        ]
        raise Mismatch(
            "race", f"{'lost' if raced else 'won'}: {raced}; {found} is none of {outcomes}"
        )

    def read_before(self, race: Any) -> Work | None:
        """The first step's deletes after the second one: as in Java, a merge does not conflict with
        deletes of rows that it matched and left as they are (so it does not insert them)."""
        first, before = (
            race.outcome(Work.of(self.state), (0,), self.replaced),
            self.state.head().rows,
        )
        if first is None or not isinstance(race.steps[1], ModelMerge | s.Upsert):
            return None
        gone = {i: row for i, row in before.items() if i not in first.rows}
        both = replace(first, rows={**first.rows, **gone}, touched=set(first.touched))
        both = race.outcome(both, (1,), self.replaced)
        if both is None or any(i not in both.rows or i in both.touched for i in gone):
            return None
        return replace(both, rows={i: row for i, row in both.rows.items() if i not in gone})

    # --- what was committed

    def done(self, step: Any, work: Work) -> None:
        state, before = self.state, self.state.head(work.branch)
        state.columns, state.adopted = work.columns, state.adopted or work.adopts
        state.schemas.setdefault(self.table.schema().schema_id, work.columns)
        match step:
            case s.Look():
                self.same(
                    self.names["looked"][0].to_pylist(), step.found, f"rows where {step.where.text}"
                )
                if self.names["looked"][1] != len(step.found):
                    raise Mismatch(
                        "count",
                        f"{self.names['looked'][1]} where {step.where.text}, not {len(step.found)}",
                    )
                return
            case c.Upgrade():
                state.version = step.version
            case r.CreateTag():
                state.tags[step.name] = state.order[step.snapshot]
            case r.CreateBranch():
                state.heads[step.name] = state.snapshot(step.snapshot)
            case r.FastForward():
                state.heads["main"] = state.head(step.source)
            case r.RollBack() | r.SetCurrent():
                state.heads["main"] = state.snapshot(step.snapshot)
            case r.Stage():
                self.staged(work)
            case r.CherryPick() if (
                self.table.current_snapshot().snapshot_id == state.order[step.snapshot]
            ):
                state.heads["main"] = state.snapshot(step.snapshot)
                state.row_ids |= {
                    f.row_id for f in state.head().facts.values() if f.row_id is not None
                }
            case _:
                self.committed(step, work, before)
        self.look_around()

    def staged(self, work: Work) -> None:
        """A snapshot that no branch has; what it adds gets row ids once it is picked."""
        found = self.table.snapshot_by_id(self.names["result"].snapshot_id)
        snap = Snap(
            work.rows,
            self.state.schemas[found.schema_id],
            {},
            found.snapshot_id,
            found.parent_snapshot_id,
        )
        snap = replace(snap, facts=self.read(snap, snap.columns, snapshot_id=found.snapshot_id))
        self.state.snaps[found.snapshot_id] = snap
        self.state.staged.append(found.snapshot_id)
        self.state.keys = max([self.state.keys, *(work.key(row) for row in work.rows.values())])

    def committed(self, step: Any, work: Work, before: Snap) -> None:
        refs = self.table.refs()
        head = refs[work.branch].snapshot_id if work.branch in refs else None
        if head == before.snapshot_id:
            if work.changes:
                raise Mismatch(
                    "no snapshot",
                    f"but {work.inserted} rows inserted, {work.updated} updated, {work.deleted} deleted",
                )
        else:
            if isinstance(step, s.Delete | s.Update | s.Upsert | ModelMerge) and not work.changes:
                raise Mismatch("a snapshot of nothing", self.table.snapshot_by_id(head).operation)
            found = self.table.snapshot_by_id(head)
            self.on_the_way(step, work, before, found)
            snap = Snap(
                work.rows, self.state.schemas[found.schema_id], {}, head, found.parent_snapshot_id
            )
            snap = replace(snap, facts=self.read(snap, work.columns, branch=work.branch))
            self.follow(work, before, snap, found.sequence_number or 0)
            self.state.snaps[head] = self.state.heads[work.branch] = snap
            self.state.keys = max([self.state.keys, *(work.key(row) for row in work.rows.values())])
            self.summary(found, snap)
        self.metrics(step, work)

    def on_the_way(self, step: Any, work: Work, before: Snap, head: Any) -> None:
        """The snapshots that a transaction made before its last one."""
        at = head
        for rows in reversed(work.states) if isinstance(step, s.Transaction) else ():
            at = self.table.snapshot_by_id(at.parent_snapshot_id)
            if at is None or at.snapshot_id == before.snapshot_id:
                raise Mismatch("no snapshot", "for a step of a transaction")
            snap = Snap(
                rows, self.state.schemas[at.schema_id], {}, at.snapshot_id, at.parent_snapshot_id
            )
            self.state.snaps[at.snapshot_id] = replace(
                snap, facts=self.read(snap, snap.columns, snapshot_id=at.snapshot_id)
            )
            self.summary(at, snap)
        if isinstance(step, s.Transaction) and at.parent_snapshot_id != before.snapshot_id:
            raise Mismatch(
                "a snapshot of nothing", f"between {before.snapshot_id} and {at.snapshot_id}"
            )

    def summary(self, snapshot: Any, snap: Snap) -> None:
        """The total of rows, where no deletes lie beside them."""
        if snapshot.summary["total-position-deletes"] == "0" and int(
            snapshot.summary["total-records"]
        ) != len(snap.rows):
            raise Mismatch(
                "summary",
                f"total-records is {snapshot.summary['total-records']}, not {len(snap.rows)}",
            )

    def metrics(self, step: Any, work: Work) -> None:
        result = self.names.get("result")
        match step:
            case s.Append() | s.AppendWider():
                want = {"rows_inserted": work.inserted}
            case s.Delete():
                want = {"rows_deleted": work.deleted}
            case s.Update():
                want = {"rows_updated": work.updated}
            case s.Upsert() | ModelMerge():
                want = {
                    "rows_inserted": work.inserted,
                    "rows_updated": work.updated,
                    "rows_deleted": work.deleted,
                }
            case _:
                return
        got = {name: getattr(result, name) for name in want}
        if got != want:
            raise Mismatch("metrics", f"{got}, not {want}")

    def follow(self, work: Work, before: Snap, now: Snap, sequence: int) -> None:
        """Row ids stay, new ones were never used before; sequence numbers move with changed rows
        only.
        """
        if self.state.version < 3:
            return
        ids = [f.row_id for f in now.facts.values()]
        if len(set(ids)) != len(ids) or None in ids:
            raise Mismatch("row ids", f"not unique, or null: {ids}")
        if ids and max(ids) >= self.table.metadata.next_row_id:  # type: ignore[type-var]
            raise Mismatch(
                "row ids", f"{max(ids)} is not below next-row-id {self.table.metadata.next_row_id}"
            )  # type: ignore[type-var]
        least = (
            self.table.snapshot_by_id(before.snapshot_id).sequence_number
            if before.snapshot_id
            else 0
        )
        for i, f in now.facts.items():
            old, key = before.facts.get(i, Facts()), work.key(now.rows[i])
            if old.row_id is not None and f.row_id != old.row_id:
                raise Mismatch("row ids", f"of row {key} was {old.row_id}, is {f.row_id}")
            if old.row_id is None and f.row_id in self.state.row_ids:
                raise Mismatch("row ids", f"{f.row_id}, of row {key}, was another row's")
            if i in work.touched and not least < (f.sequence or 0) <= sequence:
                raise Mismatch("sequence", f"of changed row {key} is {f.sequence}, not {sequence}")
            if i not in work.touched and old.sequence is not None and f.sequence != old.sequence:
                raise Mismatch(
                    "sequence",
                    f"of row {key}, which did not change, was {old.sequence}, is {f.sequence}",
                )
            if f.sequence is None or f.sequence > sequence:
                raise Mismatch("sequence", f"of row {key} is {f.sequence} in snapshot {sequence}")
        self.state.row_ids |= {i for i in ids if i is not None}

    # --- comparing

    def read(self, snap: Snap, columns: Columns, **where: Any) -> dict[int, Facts]:
        """Compares the rows, and gives what the table says about each. What was read of this
        version of the table is not read again.
        """
        asked = (self.table.metadata_location, *where.items())
        if self.known.get(asked, (None,))[0] is snap.rows:
            return self.known[asked][1]
        extra = (*LINEAGE, "_spec_id") if self.table.format_version >= 3 else ("_spec_id",)
        found = (
            self.table.scan(selected_fields=(*(column.name for column in columns), *extra), **where)
            .to_arrow()
            .to_pylist()
        )
        facts = [
            Facts(
                row.pop("_row_id", None),
                row.pop("_last_updated_sequence_number", None),
                row.pop("_spec_id"),
            )
            for row in found
        ]
        self.same(found, [shown(row, columns) for row in snap.rows.values()], f"rows at {where}")
        key = find(columns, "k")[0].number
        identities = {row.get(key): i for i, row in snap.rows.items()}
        self.known[asked] = (
            snap.rows,
            {identities[row["k"]]: f for row, f in zip(found, facts, strict=True)},
        )
        return self.known[asked][1]

    def same(self, got: Iterable[Any], want: Iterable[Any], what: str, kind: str = "rows") -> None:
        got, want = as_set(got), as_set(want)
        if got != want:
            lines = [f"missing {w}" for w in want if w not in got][:5] + [
                f"extra {g}" for g in got if g not in want
            ][:5]
            raise Mismatch(kind, f"{what}: {len(got)}, not {len(want)}\n" + "\n".join(lines))

    def look_around(self) -> None:
        """One earlier snapshot, one tag, and the heads of the branches."""
        state = self.state
        if state.snaps:
            self.look_back(list(state.snaps.values())[self.played % len(state.snaps)])
        if state.tags:
            name, tagged = list(state.tags.items())[self.played % len(state.tags)]
            self.read(state.snaps[tagged], state.snaps[tagged].columns, tag=name)
        for name, head in state.heads.items():
            if (
                head.snapshot_id is not None
                and self.table.refs()[name].snapshot_id != head.snapshot_id
            ):
                raise Mismatch(
                    "refs",
                    f"{name} is at {self.table.refs()[name].snapshot_id}, not {head.snapshot_id}",
                )
        name = list(state.heads)[self.played % len(state.heads)]
        if state.heads[name].snapshot_id is not None:
            self.read(state.heads[name], state.columns, branch=name)

    def look_back(self, snap: Snap) -> None:
        facts = self.read(snap, snap.columns, snapshot_id=snap.snapshot_id)
        known = {i: f for i, f in snap.facts.items() if f.row_id is not None}
        if changed := [i for i, f in known.items() if f != facts[i]]:
            raise Mismatch(
                "row ids",
                f"in snapshot {snap.snapshot_id} were {known[changed[0]]}, are {facts[changed[0]]}",
            )

    def finish(self) -> None:
        for snap in self.state.snaps.values():
            self.look_back(snap)
        for name, head in self.state.heads.items():
            if head.snapshot_id is not None:
                self.read(head, self.state.columns, branch=name)
        self.changelog()
        self.files()
        self.inspected()

    def changelog(self) -> None:
        """What changed between the last snapshots of main is what the model says."""
        chain: list[Snap] = []
        at = self.state.head().snapshot_id
        while at is not None:
            chain += [self.state.snaps[at]] if at in self.state.snaps else []
            at = self.table.snapshot_by_id(at).parent_snapshot_id
        chain.append(Snap())
        for new, old in list(zip(chain, chain[1:], strict=False))[:4]:
            came, gone = self.difference(old, new)
            spans = {"start_snapshot_id": old.snapshot_id, "end_snapshot_id": new.snapshot_id}
            self.changed(came, gone, {**spans, "net": True})
            if new.parent == old.snapshot_id:
                self.changed(came, gone, spans)
                keys = {row["k"] for row in came} & {row["k"] for row in gone}
                self.changed(came, gone, {**spans, "identifier_columns": ["k"]}, keys)

    def difference(self, old: Snap, new: Snap) -> tuple[list[Any], list[Any]]:
        """Rows that only the new (only the old) one has, in the columns of today."""
        columns = self.state.columns
        before, after = (
            {repr(plain(n)): n for row in snap.rows.values() if (n := shown(row, columns))}
            for snap in (old, new)
        )
        return [n for text, n in after.items() if text not in before], [
            n for text, n in before.items() if text not in after
        ]

    def changed(
        self, came: list[Any], gone: list[Any], arguments: dict[str, Any], pairs: Iterable[Any] = ()
    ) -> None:
        pairs, names = set(pairs), ["_change_type", *(column.name for column in self.state.columns)]
        want = [
            {**row, "_change_type": "UPDATE_AFTER" if row["k"] in pairs else "INSERT"}
            for row in came
        ]
        want += [
            {**row, "_change_type": "UPDATE_BEFORE" if row["k"] in pairs else "DELETE"}
            for row in gone
        ]
        found = self.table.changes(**arguments).to_arrow().to_pylist()
        self.same(
            [{n: row[n] for n in names} for row in found], want, f"changes {arguments}", "changelog"
        )

    def files(self) -> None:
        """What lies in the table's folder of data is what its snapshots name."""
        table, inspect = self.table, self.table.inspect
        named = set(inspect.all_files()["file_path"].to_pylist()) if self.state.snaps else set()
        named = {path for path in named if "/elsewhere/" not in path}
        there = {f.location for f in table.io.list(f"{table.location()}/data")}
        if orphans := there - named:
            raise Mismatch("orphans", ", ".join(sorted(orphans)))
        if missing := named - there:
            raise Mismatch("missing files", ", ".join(sorted(missing)))

    def inspected(self) -> None:
        """The metadata tables agree with one another, and with the rows where no deletes lie beside
        them.
        """
        inspect = self.table.inspect
        if self.state.head().snapshot_id is None:
            return
        files, partitions = inspect.files().to_pylist(), inspect.partitions().to_pylist()
        data = [f for f in files if f["content"] == 0]
        totals = {
            "files": sum(f["record_count"] for f in data),
            "partitions": sum(p["record_count"] for p in partitions),
            "entries": sum(
                e["data_file"]["record_count"]
                for e in inspect.entries().to_pylist()
                if e["status"] < 2 and not e["data_file"]["content"]
            ),
        }
        rows = len(self.state.head().rows) if len(data) == len(files) else totals["files"]
        if set(totals.values()) != {rows}:
            raise Mismatch("metadata tables", f"{totals}, not {rows} rows")
        if inspect.history().to_pylist()[-1]["snapshot_id"] != self.state.head().snapshot_id:
            raise Mismatch(
                "metadata tables", "the last line of history is not the current snapshot"
            )

    # --- partitions

    def replaced(self, work: Work, new: list[Row]) -> list[int]:
        spec = self.table.spec()
        if spec.is_unpartitioned:
            return list(work.rows)
        gone = {self.partition(row, work.columns) for row in new}
        return [
            i
            for i, row in work.rows.items()
            if work.facts[i].spec_id == spec.spec_id and self.partition(row, work.columns) in gone
        ]

    def partition(self, row: Row, columns: Columns) -> Any:
        """Under the current spec."""
        schema, found = self.table.schema(), []
        for f in self.table.spec().fields:
            name, type_ = (
                schema.find_column_name(f.source_id),
                schema.find_field(f.source_id).field_type,
            )
            value: Any = row
            for column in find(columns, name):
                value = value_of(value, column)
            found.append(
                None
                if value is None
                else transformed(f.transform, type_, internal_value(type_, value))
            )
        return plain(found)


def play(
    script: Script,
    steps: Iterable[Any] | Callable[[Player], Iterable[Any]],
    kind: type[Player] = Player,
) -> Player:
    """Plays all steps; the Mismatch that ends it has the script so far."""
    player = kind(script)
    try:
        for step in steps(player) if callable(steps) else steps:
            player.step(step)
        player.finish()
    except Mismatch as e:
        e.script = player.script  # type: ignore[attr-defined]
        raise
    return player


def told(failure: Mismatch) -> str:
    """The failure with a program that shows it."""
    return f"{failure}\n\nThe script:\n\n" + textwrap.indent(failure.script.code(), "    ")  # type: ignore[attr-defined]
