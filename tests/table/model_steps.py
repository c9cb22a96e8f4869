"""The random steps of the model test: each does one thing to the table and to the model."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.spec import types as t
from tests.table.model import DEFAULTS, LEAVES, TRANSFORMS, WIDER, Run, Snapshot

PROPERTIES: tuple[dict[str, str], ...] = (
    {"write.format.default": "orc"}, {"write.format.default": "avro"}, {"write.format.default": "parquet"},
    {"write.target-file-size-bytes": "1"}, {"write.target-file-size-bytes": "1000000"},
    {"commit.manifest.min-count-to-merge": "2"}, {"commit.manifest-merge.enabled": "false"}, {"commit.manifest-merge.enabled": "true"},
    {"write.metadata.metrics.default": "none"}, {"write.metadata.metrics.default": "counts"},
    {"write.metadata.metrics.default": "truncate(1)"}, {"write.metadata.metrics.default": "full"},
    {"write.object-storage.enabled": "true"}, {"write.object-storage.enabled": "false"},
    {"write.metadata.compression-codec": "gzip"}, {"write.metadata.compression-codec": "none"},
    {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"},
    {"write.parquet.row-group-limit": "1"}, {"commit.manifest.target-size-bytes": "1"}, {"write.summary.partition-limit": "5"},
    {"write.parquet.compression-codec": "snappy"}, {"write.data.partition-columns": "true"},
)  # fmt: skip


def branch_of(run: Run) -> str:
    return run.rng.choice(["main", "main", "main", *run.heads])


def append(run: Run) -> None:
    branch, schema = branch_of(run), run.table.schema()
    keys = run.new_rows(schema, run.rng.choice([0, 1, 3, 6]))
    result = run.table.append(run.frame(keys, schema), branch=branch)
    run.log.append(f"append {len(keys)} to {branch}")
    assert result.rows_inserted == len(keys)
    run.moved(branch, [run.keys(branch) | set(keys)])


def stale_append(run: Run) -> None:
    """Another handle, that has not seen the last changes, appends under the schema it knows."""
    other = run.again()
    append(run)
    schema = other.schema()
    keys = run.new_rows(schema, 2)
    run.log.append("stale append")
    other.append(run.frame(keys, schema))
    run.table.refresh()
    run.moved("main", [run.keys() | set(keys)])


def overwrite(run: Run) -> None:
    branch, schema = branch_of(run), run.table.schema()
    f = run.filter(schema)
    keys = run.new_rows(schema, 3)
    run.log.append(f"overwrite {f.predicate} on {branch}")
    if run.may_fail(lambda: run.table.overwrite(run.frame(keys, schema), f.predicate, branch=branch)):
        run.moved(branch, [frozenset(k for k in run.keys(branch) if not f.holds(run.rows[k])) | set(keys)])


def overwrite_all(run: Run) -> None:
    schema = run.table.schema()
    keys = run.new_rows(schema, 5)
    run.log.append("overwrite all")
    run.table.overwrite(run.frame(keys, schema))
    run.moved("main", [frozenset(keys)])


def delete(run: Run) -> None:
    branch, f = branch_of(run), run.filter(run.table.schema())
    run.log.append(f"delete {f.predicate} on {branch}")
    before = run.table.metadata_location
    if run.may_fail(lambda: run.table.delete(f.predicate, branch=branch)):
        left = frozenset(k for k in run.keys(branch) if not f.holds(run.rows[k]))
        if run.table.metadata_location != before:
            run.moved(branch, [left])
        assert run.keys(branch) == left, run.log


def overwrite_partitions(run: Run) -> None:
    branch, schema, spec = branch_of(run), run.table.schema(), run.table.spec()
    specs = run.specs(branch)
    keys = run.new_rows(schema, 2)
    run.log.append(f"dynamic overwrite on {branch}, spec {spec}")
    if not run.may_fail(lambda: run.table.dynamic_partition_overwrite(run.frame(keys, schema), branch=branch)):
        return
    gone = {run.partition(k, schema) for k in keys}
    kept = frozenset() if spec.is_unpartitioned else frozenset(
        k for k in run.keys(branch) if specs[k] != spec.spec_id or run.partition(k, schema) not in gone
    )  # fmt: skip
    run.moved(branch, [kept | set(keys)])


def transaction(run: Run) -> None:
    """A delete, a column and two appends as one commit."""
    f, states = run.filter(run.table.schema()), []
    run.log.append(f"transaction with delete {f.predicate}")
    name = new_name(run)

    def do() -> None:
        with run.table.transaction() as tx:
            tx.delete(f.predicate)
            left = frozenset(k for k in run.keys("main") if not f.holds(run.rows[k]))
            if left != run.keys():
                states.append(left)
            with tx.update_schema() as update:
                update.add_column(name, t.StringType())
            schema = tx.metadata.schema()
            run.kinds[schema.find_field(name).field_id] = "string"
            for count in (2, 1):
                keys = run.new_rows(schema, count)
                tx.append(run.frame(keys, schema))
                left |= set(keys)
                states.append(left)

    kinds = dict(run.kinds)
    if run.may_fail(do):
        run.moved("main", states)
    else:
        run.kinds = kinds


def merge_schema(run: Run) -> None:
    schema, name = run.table.schema(), new_name(run)
    keys = run.new_rows(schema, 2)
    frame = run.frame(keys, schema).append_column(name, pa.array([1.5, None], pa.float64()))
    run.table.append(frame, merge_schema=True)
    run.log.append(f"merge schema {name}")
    added = run.table.schema().find_field(name)
    run.kinds[added.field_id] = "double"
    for k, v in zip(keys, (1.5, None), strict=True):
        run.rows[k][added.field_id] = v
    run.moved("main", [run.keys() | set(keys)])


def add_file(run: Run) -> None:
    if not run.adds_files:
        append(run)
        return
    schema = run.table.schema()
    keys = run.new_rows(schema, 1)
    path = str(run.folder / f"other {len(run.rows)}.parquet")
    pq.write_table(run.frame(keys, schema), path)
    run.log.append("add file")
    if run.may_fail(lambda: run.table.add_files([path])):
        run.moved("main", [run.keys() | set(keys)])


# --- columns


def new_name(run: Run) -> str:
    run.names += 1
    return run.rng.choice([f"c{run.names}", f"C {run.names}", f"ü.{run.names}"[:1] + f"'{run.names}"])


def add_column(run: Run) -> None:
    kind, name = run.rng.choice(list(LEAVES)), new_name(run)
    type_, values = LEAVES[kind]
    values = tuple(v for v in values if not isinstance(v, float) or math.isfinite(v))  # others have no JSON form
    default = run.rng.choice(values) if run.table.format_version == 3 and run.rng.random() < 0.6 else None
    holder = run.rng.choice([(), (), ("s",), ("l",)])
    with run.table.update_schema() as update:
        update.add_column((*holder, name), type_, default_value=default)
    inside = {(): "", ("s",): "s.", ("l",): "l.element."}[holder]
    added = run.table.schema().find_field(inside + name)
    assert added.field_id not in run.kinds, run.log
    run.kinds[added.field_id] = kind
    if default is not None:
        DEFAULTS[added.field_id] = default
    run.log.append(f"add column {holder} {name} {kind} default {default!r}")


def droppable(run: Run) -> list[str]:
    schema, used = run.table.schema(), {f.source_id for f in run.table.spec().fields}
    alone = {
        s.field_type.fields[0].field_id for s in schema.fields if isinstance(s.field_type, t.StructType) and len(s.field_type.fields) == 1
    }
    stays = used | alone  # no format holds a struct without fields
    found = [".".join(f.name for f in p) for p in run.leaves(schema) if p[0].name != "k" and p[-1].field_id not in stays]
    return found if len(found) > 2 else []


def drop_column(run: Run) -> None:
    names = droppable(run)
    if run.adds_files or not names:
        return
    name = run.rng.choice(names)
    run.log.append(f"drop {name}")

    def do() -> None:
        with run.table.update_schema() as update:
            update.delete_column(name)

    run.may_fail(do)  # the last field of a struct stays


def drop_and_add_again(run: Run) -> None:
    names = [n for n in droppable(run) if "." not in n]
    if run.adds_files or not names:
        return
    name, kind = run.rng.choice(names), run.rng.choice(list(LEAVES))
    run.log.append(f"drop and add {name} as {kind}")

    def do() -> None:
        with run.table.transaction() as tx:
            with tx.update_schema() as update:
                update.delete_column(name)
            with tx.update_schema() as update:
                update.add_column((name,), LEAVES[kind][0])

    if run.may_fail(do):
        run.kinds[run.table.schema().find_field(name).field_id] = kind


def swap_names(run: Run) -> None:
    names = [f.name for f in run.table.schema().fields if f.name not in ("k", "s", "l")]
    if run.adds_files or len(names) < 2:
        return
    a, b = run.rng.sample(names, 2)
    run.log.append(f"swap {a}, {b}")

    def do() -> None:
        with run.table.update_schema() as update:
            update.rename_column(a, b).rename_column(b, a)

    run.may_fail(do)  # a partition field may have the name


def widen(run: Run) -> None:
    schema = run.table.schema()
    can = [p for p in run.leaves(schema) if str(p[-1].field_type) in ("int", "float", "decimal(9, 2)") and p[-1].name != "k"]
    if not can:
        return
    path = run.rng.choice(can)
    name = ".".join(f.name for f in path)
    type_, kind = WIDER[run.kinds[path[-1].field_id]]
    run.log.append(f"widen {name} to {type_}")

    def do() -> None:
        with run.table.update_schema() as update:
            update.update_column(name, type_)

    if run.may_fail(do):
        run.kinds[path[-1].field_id] = kind


def reorder(run: Run) -> None:
    name = run.rng.choice([f.name for f in run.table.schema().fields])
    with run.table.update_schema() as update:
        update.move_first((name,))
    run.log.append(f"{name} first")


# --- partitions and properties


def add_partition_field(run: Run) -> None:
    path = run.rng.choice(run.leaves(run.table.schema()))
    if path[-1].name == "k" or len(run.table.spec().fields) > 3:
        return
    transform = run.rng.choice(TRANSFORMS[run.kinds[path[-1].field_id]])
    source = ".".join("`" + f.name.replace("`", "``") + "`" for f in path)
    run.log.append(f"partition by {transform} {source}")

    def do() -> None:
        with run.table.update_spec() as update:
            update.add_field(transform.format(source) if transform else source)

    run.may_fail(do)


def drop_partition_field(run: Run) -> None:
    fields = [f for f in run.table.spec().fields if f.transform.name != "void"]
    if fields:
        name = run.rng.choice(fields).name
        with run.table.update_spec() as update:
            update.remove_field(name)
        run.log.append(f"no longer by {name}")


def properties(run: Run) -> None:
    chosen = run.rng.choice(PROPERTIES)
    run.table.set_properties(chosen)
    run.log.append(str(chosen))


def upgrade(run: Run) -> None:
    if run.table.format_version < 3:
        run.table.upgrade(run.table.format_version + 1)
        run.log.append(f"upgrade to {run.table.format_version}")


# --- refs


def create_ref(run: Run) -> None:
    if not run.snapshots:
        return
    sid, name = run.rng.choice(list(run.snapshots)), f"r{len(run.heads) + len(run.tags)}-{len(run.log)}"
    tag = run.rng.random() < 0.5
    with run.table.manage_snapshots() as manage:
        manage.create_tag(sid, name) if tag else manage.create_branch(sid, name)
    (run.tags if tag else run.heads)[name] = sid
    run.log.append(f"{'tag' if tag else 'branch'} {name} at {sid}")


def ancestors(run: Run, sid: int | None) -> list[int]:
    found = []
    while sid is not None and sid in run.snapshots:
        found.append(sid)
        sid = run.snapshots[sid].parent
    return found


def roll_back(run: Run) -> None:
    if "main" in run.heads:
        sid = run.rng.choice(ancestors(run, run.heads["main"]))
        with run.table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(sid)
        run.heads["main"] = sid
        run.log.append(f"roll back to {sid}")


def set_current(run: Run) -> None:
    if run.snapshots:
        sid = run.rng.choice(list(run.snapshots))
        with run.table.manage_snapshots() as manage:
            manage.set_current_snapshot(snapshot_id=sid)
        run.heads["main"] = sid
        run.log.append(f"set current {sid}")


def fast_forward(run: Run) -> None:
    others = [b for b in run.heads if b != "main"]
    if not others or "main" not in run.heads:
        return
    branch = run.rng.choice(others)
    run.log.append(f"fast-forward main to {branch}")

    def do() -> None:
        with run.table.manage_snapshots() as manage:
            manage.fast_forward("main", branch)

    if run.may_fail(do):
        assert run.heads["main"] in ancestors(run, run.heads[branch]), run.log
        run.heads["main"] = run.heads[branch]


def stage(run: Run) -> None:
    schema = run.table.schema()
    keys = run.new_rows(schema, 2)
    result = run.table.append(run.frame(keys, schema), branch=None)
    found = run.table.snapshot_by_id(result.snapshot_id)
    run.snapshots[result.snapshot_id] = Snapshot(run.keys() | set(keys), run.table.schemas()[found.schema_id], found.parent_snapshot_id)
    run.staged.append(result.snapshot_id)
    run.log.append(f"stage {result.snapshot_id}")


def cherry_pick(run: Run) -> None:
    if not run.staged:
        return
    sid = run.rng.choice(run.staged)
    picked = run.snapshots[sid]
    own = picked.keys - (run.snapshots[picked.parent].keys if picked.parent in run.snapshots else frozenset())
    run.log.append(f"cherry-pick {sid}")

    def do() -> None:
        with run.table.manage_snapshots() as manage:
            manage.cherrypick_snapshot(sid)

    if run.may_fail(do):
        if run.table.current_snapshot().snapshot_id == sid:
            run.heads["main"] = sid
        else:
            assert not own & run.keys(), run.log
            run.moved("main", [run.keys() | own])


STEPS: tuple[tuple[Any, int], ...] = (
    (append, 8), (stale_append, 2), (overwrite, 2), (overwrite_all, 1), (delete, 4), (overwrite_partitions, 4), (transaction, 2),
    (merge_schema, 1), (add_file, 3), (add_column, 4), (drop_column, 2), (drop_and_add_again, 2), (swap_names, 2), (widen, 2),
    (reorder, 1), (add_partition_field, 4), (drop_partition_field, 2), (properties, 5), (upgrade, 0.3), (create_ref, 2), (roll_back, 1),
    (set_current, 1), (fast_forward, 1), (stage, 1), (cherry_pick, 2),
)  # fmt: skip


def step(run: Run) -> None:
    chosen = run.rng.choices([s for s, _ in STEPS], [w for _, w in STEPS])[0]
    chosen(run)
    run.check()
