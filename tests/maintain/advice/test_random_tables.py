"""Random tables: each cure that is advised would do something, its dry run tells what it does, and
after `auto` there is nothing to do.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from frazil.maintain.procedure import ProcedureResult
from frazil.scan.manifests import clear_caches
from tests.maintain import deletes
from tests.maintain.deletes import by_bounded_keys, by_keys, by_position

SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 100))]
ESTIMATED = (
    "added_data_files_count",
    "added_files",
    "removed_files",
    "seconds",
    "dry_run",
    "ndv",
    "statistics_file",
    "partition_statistics_file",
)


def random_table(seed: int, folder: Path) -> Any:
    """A table of some appends, with deletes of each kind that its version has, as streams, engines
    and interrupted jobs leave it.
    """
    rng = random.Random(seed)
    version = rng.choice([1, 2, 2, 2, 3, 3])
    properties = {
        "write.target-file-size-bytes": str(rng.choice([1 << 9, 3000, 20_000, 512 << 20])),
        "write.delete.granularity": rng.choice(["file", "partition"]),
        "commit.manifest-merge.enabled": rng.choice(["true", "false"]),
        "history.expire.max-snapshot-age-ms": rng.choice(["1", "432000000"]),
    }
    spec = rng.choice([(), (), ("p",), ("bucket(3, id)",)])
    table = deletes.made(folder, version, spec, **properties)
    if rng.random() < 0.4:
        with table.update_sort_order() as order:
            order.asc(rng.choice(["id", "n"]), _identity())
    ids = 0
    for _ in range(rng.choice([1, 4, 8, 14])):
        count = rng.choice([3, 40, 2000])
        mixed = list(range(ids, ids + count))
        rng.shuffle(mixed)
        deletes.append(table, mixed)
        ids += count
        _delete(rng, table, ids, version)
    if rng.random() < 0.3:
        table.refresh().delete(
            rng.choice(["true", "id < 1000", "p = 'a'"]),
            mode="copy-on-write"
            if version == 1
            else rng.choice(["copy-on-write", "merge-on-read"]),
        )
    return table.refresh()


def _identity() -> Any:
    from frazil.transforms import IdentityTransform

    return IdentityTransform()


def _delete(rng: random.Random, table: Any, ids: int, version: int) -> None:
    kind = rng.choice(["none", "none", "rows", "keys", "positions", "file"])
    some = sorted(rng.sample(range(ids), min(ids, rng.choice([1, 5, 30]))))
    if kind == "file":
        table.refresh().delete(f"id >= {ids - 3}", mode="copy-on-write")
    elif version > 1 and kind == "rows":
        table.refresh().delete(f"id in ({', '.join(map(str, some))})", mode="merge-on-read")
    elif version > 1 and kind == "keys":
        (by_bounded_keys if table.spec().fields else by_keys)(table.refresh(), some)
    elif version == 2 and kind == "positions":
        by_position(table.refresh(), some, rng.choice(["file", "partition"]))


def content(table: Any) -> list[tuple[Any, ...]]:
    return sorted((r["id"], r["p"] or "", r["n"]) for r in table.refresh().to_arrow().to_pylist())


def numbers(result: ProcedureResult) -> dict[str, Any]:
    return {k: v for k, v in result.to_dict().items() if k not in ESTIMATED}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_advised_is_done_and_then_nothing_is_left(seed: int, tmp_path: Path) -> None:
    table = random_table(seed, tmp_path)
    rows = content(table)
    findings = table.maintenance.recommend()
    for finding in findings:
        told = getattr(table.maintenance, finding.cure.verb)(
            **{**finding.cure.arguments, "dry_run": True}
        )
        assert any(v for k, v in told.to_dict().items() if k not in ("dry_run", "seconds")), (
            finding,
            told,
        )
    if findings:
        cure = random.Random(seed).choice(findings).cure
        told, done = (
            getattr(table.refresh().maintenance, cure.verb)(**{**cure.arguments, "dry_run": dry})
            for dry in (True, False)
        )
        assert numbers(told) == numbers(done), cure
    result = table.maintenance.auto()
    assert not result.failed, result
    clear_caches()
    assert content(table) == rows
    again = table.refresh().maintenance.auto()
    assert again.steps == (), (result, again, table.maintenance.recommend())
