"""Random scripts: the next step is chosen by what the model holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.model import column_steps as c
from tests.model import ref_steps as r
from tests.model import steps as s
from tests.model.chance import branch_of, mode_of, new_rows
from tests.model.merge import merge
from tests.model.play import CATALOG, Player, Script
from tests.model.sql import moved, new_value, predicate
from tests.model.state import Refused, State, Work
from tests.model.values import (
    KINDS,
    TRANSFORMS,
    WIDER,
    Column,
    Invalid,
    evolving,
    find,
    leaves,
    shown,
)

PROPERTIES: tuple[dict[str, str], ...] = (
    {"write.delete.mode": "merge-on-read"}, {"write.update.mode": "merge-on-read"}, {"write.merge.mode": "merge-on-read"},
    {"write.delete.mode": "copy-on-write", "write.update.mode": "copy-on-write", "write.merge.mode": "copy-on-write"},
    {"write.delete.granularity": "partition"}, {"write.delete.granularity": "file"}, {"write.delete.format.default": "avro"},
    {"write.format.default": "orc"}, {"write.format.default": "avro"}, {"write.format.default": "parquet"},
    {"write.target-file-size-bytes": "1"}, {"write.target-file-size-bytes": "1000000"}, {"write.parquet.row-group-limit": "1"},
    {"commit.manifest.min-count-to-merge": "2"}, {"write.metadata.metrics.default": "none"}, {"write.metadata.metrics.default": "full"},
    {"write.delete.isolation-level": "snapshot"}, {"write.parquet.row-group-size-bytes": "1"}, {"read.split.target-size": "1"},
    {"commit.manifest-merge.enabled": "false"}, {"commit.manifest-merge.enabled": "true"}, {"commit.manifest.target-size-bytes": "1"},
    {"write.metadata.metrics.default": "counts"}, {"write.metadata.metrics.default": "truncate(1)"}, {"write.summary.partition-limit": "5"},
    {"write.object-storage.enabled": "true"}, {"write.object-storage.enabled": "false"}, {"write.data.partition-columns": "true"},
    {"write.metadata.compression-codec": "gzip"}, {"write.metadata.compression-codec": "none"}, {"write.parquet.compression-codec": "snappy"},
    {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"},
)  # fmt: skip
NAMES = ("n1", "n2", "n3", "New", "ü'", "a b", "i", "s")


def opening(rng: random.Random, catalog: str = CATALOG) -> Script:
    """An empty table: some columns beside the key `k`, a partition spec, a version, properties."""
    version = rng.choice([1, 2, 2, 2, 3, 3, 3])
    kinds = rng.sample([k for k in KINDS if k != "wide"], rng.randrange(2, 6))
    columns: list[Column] = [Column(1, "k", "long")]
    for n, kind in enumerate(kinds):
        columns.append(Column(2 + n, {"int": "i", "string": "s"}.get(kind, f"{kind[0]}{n}"), kind))
    if rng.random() < 0.5:
        columns.append(
            Column(
                20,
                "p",
                "struct",
                None,
                (Column(21, "x", "int"), Column(22, "y", "string"), Column(23, "z", "double")),
            )
        )
    if rng.random() < 0.4:
        columns.append(
            Column(
                30,
                "l",
                "list",
                None,
                (Column(31, "x", "int"), Column(32, "y", "string"), Column(33, "z", "float")),
            )
        )
    by = []
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        path, column = rng.choice(list(leaves(tuple(columns))))
        if TRANSFORMS[column.kind] and not any(path in other for other in by):
            by.append(rng.choice(TRANSFORMS[column.kind]).format(path))
    properties: dict[str, str] = {}
    for _ in range(rng.randrange(3)):
        properties |= rng.choice(PROPERTIES)
    return Script(tuple(columns), version, tuple(by), allowed(properties, version), (), catalog)


def allowed(properties: dict[str, str], version: int) -> tuple[tuple[str, str], ...]:
    """Version 1 has no merge-on-read."""
    return tuple((k, v) for k, v in properties.items() if version > 1 or v != "merge-on-read")


def steps(rng: random.Random, count: int) -> Callable[[Player], Iterator[Any]]:
    def some(player: Player) -> Iterator[Any]:
        yield s.Append(new_rows(rng, player.state, rng.randrange(3, 9)))
        for _ in range(count):
            yield one(rng, player)

    return some


def one(rng: random.Random, player: Player) -> Any:
    """A step that can be applied to the model as it stands."""
    while True:
        made = rng.choices(list(MAKERS), list(MAKERS.values()))[0](rng, player.state)
        if made is None:
            continue
        state = player.state
        trial = Work.of(replace(state), getattr(made, "branch", "main"))
        trial.replaced = player.replaced
        try:
            made.apply(trial)
        except Invalid:
            continue
        except Refused:
            return made
        return made


# --- makers: None when there is nothing to do


def where(rng: random.Random, state: State) -> Any:
    return predicate(rng, state.columns, top=max(state.keys, 3))


def append(rng: random.Random, state: State) -> Any:
    return s.Append(new_rows(rng, state, rng.choice([1, 2, 5])), branch_of(rng, state))


def overwrite(rng: random.Random, state: State) -> Any:
    cut = where(rng, state) if rng.random() < 0.9 else None
    return s.Overwrite(new_rows(rng, state, rng.choice([1, 2])), cut, branch_of(rng, state))


def overwrite_partitions(rng: random.Random, state: State) -> Any:
    return s.OverwritePartitions(new_rows(rng, state, rng.choice([1, 2])), branch_of(rng, state))


def delete(rng: random.Random, state: State) -> Any:
    return s.Delete(where(rng, state), branch_of(rng, state), mode_of(rng, state))


def update(rng: random.Random, state: State) -> Any:
    sets: dict[str, Any] = {}
    for _ in range(rng.choice([1, 1, 2, 3])):
        path, column = rng.choice(list(leaves(state.columns)))
        if path == "k":
            if rng.random() < 0.2:
                sets[path] = moved("k", 10_000)
        else:
            sets[path] = new_value(rng, column, state.columns, top=max(state.keys, 3))
    return (
        s.Update(tuple(sets.items()), where(rng, state), branch_of(rng, state), mode_of(rng, state))
        if sets
        else None
    )


def upsert(rng: random.Random, state: State) -> Any:
    branch = branch_of(rng, state)
    there = list(state.head(branch).rows.values())
    named = [
        n
        for n in (
            shown(row, state.columns)
            for row in rng.sample(there, min(len(there), rng.randrange(4)))
        )
        if n
    ]
    also = (
        rng.choice([x.name for x in state.columns if x.kind in ("int", "string", "date")] or [""])
        if rng.random() < 0.2
        else ""
    )
    changed = [n if rng.random() < 0.3 else {**new_rows(rng, state, 1, [n["k"]])[0]} for n in named]
    if also:  # a key of two columns: rows are told apart by `k`, so the other stays
        changed = [
            {**new, also: old[also]}
            for new, old in zip(changed, named, strict=True)
            if old[also] is not None
        ]
    rows = (*changed, *new_rows(rng, state, rng.randrange(3)))
    if rows and rng.random() < 0.05:
        rows = (*rows, {**rows[0]})
    flags = rng.choice([(True, True), (True, True), (True, False), (False, True)])
    return s.Upsert(tuple(rows), ("k", also) if also else ("k",), *flags, branch) if rows else None


def new_column(rng: random.Random, state: State, name: str) -> Column:
    kind = rng.choice(list(KINDS))
    # others have no JSON form
    finite = [v for v in KINDS[kind][1] if not isinstance(v, float) or abs(v) < 1e300]
    return Column(
        0, name, kind, rng.choice(finite) if state.version >= 3 and rng.random() < 0.5 else None
    )


def add_column(rng: random.Random, state: State) -> Any:
    parent = rng.choice(["", "", *(x.name for x in state.columns if x.members)])
    return c.AddColumn(parent, new_column(rng, state, rng.choice(NAMES)))


def append_wider(rng: random.Random, state: State) -> Any:
    values = tuple(rng.choice([1.5, None, -0.0]) for _ in range(2))
    return s.AppendWider(new_rows(rng, state, 2), rng.choice(NAMES), values, branch_of(rng, state))


def drop_column(rng: random.Random, state: State) -> Any:
    return c.DropColumn(rng.choice(evolving(state.columns)))


def drop_and_add_again(rng: random.Random, state: State) -> Any:
    """A name given anew, in one commit."""
    name = rng.choice([x.name for x in state.columns])
    return s.Transaction((c.DropColumn(name), c.AddColumn("", new_column(rng, state, name))))


def rename_column(rng: random.Random, state: State) -> Any:
    return c.RenameColumn(rng.choice(evolving(state.columns)), rng.choice(NAMES))


def swap_names(rng: random.Random, state: State) -> Any:
    return c.SwapNames(*rng.sample([x.name for x in state.columns], 2))


def move_first(rng: random.Random, state: State) -> Any:
    return c.MoveFirst(rng.choice(state.columns).name)


def widen(rng: random.Random, state: State) -> Any:
    can = [path for path in evolving(state.columns) if find(state.columns, path)[-1].kind in WIDER]
    return c.Widen(rng.choice(can)) if can else None


def add_partition_field(rng: random.Random, state: State) -> Any:
    path, column = rng.choice(list(leaves(state.columns)))
    return (
        c.AddPartitionField(rng.choice(TRANSFORMS[column.kind]), path)
        if TRANSFORMS[column.kind]
        else None
    )


def drop_partition_field(rng: random.Random, state: State) -> Any:
    return c.DropPartitionField()


def set_properties(rng: random.Random, state: State) -> Any:
    chosen = allowed(rng.choice(PROPERTIES), state.version)
    return c.SetProperties(chosen) if chosen else None


def upgrade(rng: random.Random, state: State) -> Any:
    return c.Upgrade(state.version + 1) if state.version < 3 else None


def some_snapshot(rng: random.Random, state: State) -> int:
    """The place of a snapshot whose rows are known."""
    return rng.choice([n for n, found in enumerate(state.order) if found in state.snaps])


def create_branch(rng: random.Random, state: State) -> Any:
    return r.CreateBranch(f"b{len(state.heads)}", some_snapshot(rng, state))


def create_tag(rng: random.Random, state: State) -> Any:
    return r.CreateTag(f"t{len(state.tags)}", some_snapshot(rng, state))


def fast_forward(rng: random.Random, state: State) -> Any:
    others = [b for b in state.heads if b != "main"]
    return r.FastForward(rng.choice(others)) if others else None


def roll_back(rng: random.Random, state: State) -> Any:
    return r.RollBack(
        state.order.index(rng.choice(state.ancestors(state.head().snapshot_id)).snapshot_id or 0)
    )


def set_current(rng: random.Random, state: State) -> Any:
    return r.SetCurrent(some_snapshot(rng, state))


def stage(rng: random.Random, state: State) -> Any:
    return r.Stage(new_rows(rng, state, 2))


def cherry_pick(rng: random.Random, state: State) -> Any:
    return r.CherryPick(state.order.index(rng.choice(state.staged))) if state.staged else None


def add_file(rng: random.Random, state: State) -> Any:
    return s.AddFile(new_rows(rng, state, 1), f"{state.keys}")


def transaction(rng: random.Random, state: State) -> Any:
    """Up to three steps that do not rely on each other's names; a key is given out once."""
    branch, made = branch_of(rng, state), []
    keys = state.keys
    for maker in rng.choices(
        [append, delete, update, overwrite, upsert, merge, add_column], k=rng.randrange(2, 4)
    ):
        step = maker(rng, replace(state, keys=keys))
        if step is None or (
            maker is add_column
            and (any(isinstance(m, c.AddColumn) for m in made) or branch != "main")
        ):
            continue
        keys += 10
        made.append(replace(step, branch=branch) if hasattr(step, "branch") else step)
    return s.Transaction(tuple(made), branch) if made else None


def race(rng: random.Random, state: State) -> Any:
    """An overwrite is never the second: as in Java it validates nothing unless isolation-level is
    given. After a new column only an append is, whose frame lacks it."""
    makers = [append, delete, update, upsert, merge]
    chosen = rng.choice([*makers, overwrite, add_column])
    first, second = (
        chosen(rng, state),
        rng.choice([*makers, compact] if chosen is not add_column else [append, compact])(
            rng, replace(state, keys=state.keys + 10)
        ),
    )
    if not first or not second:
        return None
    return s.Race(
        tuple(
            replace(step, branch="main") if hasattr(step, "branch") else step
            for step in (first, second)
        )
    )


def compact(rng: random.Random, state: State) -> Any:
    strategy, order = rng.choice(
        [(None, None), (None, None), ("sort", "k DESC"), ("sort", "zorder(k)"), ("hilbert", "k")]
    )
    options: dict[str, Any] = (
        {"rewrite-all": True}
        if rng.random() < 0.7
        else {"min-input-files": 2, "delete-ratio-threshold": 0.1}
    )
    options |= rng.choice(
        [
            {},
            {"remove-dangling-deletes": True},
            {"partial-progress.enabled": True},
            {"max-files-to-rewrite": 2},
        ]
    )
    return s.Compact(strategy, order, tuple(options.items()), branch_of(rng, state))


def look(rng: random.Random, state: State) -> Any:
    if rng.random() < 0.3:
        number = some_snapshot(rng, state)
        return s.Look(
            predicate(rng, state.snapshot(number).columns, top=max(state.keys, 3)), snapshot=number
        )
    return s.Look(where(rng, state), branch_of(rng, state))


MAKERS: dict[Callable[[random.Random, State], Any], float] = {
    append: 5, append_wider: 1, overwrite: 2, overwrite_partitions: 2, delete: 6, update: 6, upsert: 4, merge: 8, look: 6, add_file: 1,
    add_column: 2, drop_column: 1, drop_and_add_again: 1, rename_column: 1, swap_names: 1, move_first: 0.5, widen: 1,
    add_partition_field: 2, drop_partition_field: 1, set_properties: 3, upgrade: 0.7, create_branch: 1, create_tag: 0.5, fast_forward: 0.7,
    roll_back: 0.5, set_current: 0.5, stage: 1, cherry_pick: 1.5, transaction: 3, race: 2, compact: 2,
}  # fmt: skip
