"""Hundreds of random steps on a table agree with a plain Python model of it: rows, filters, snapshots, branches, tags."""

import os
import random

import pytest

import frazil
from tests.table.model import Run
from tests.table.model_steps import step

SCHEMA = "k bigint, i int, f float, d decimal(9,2), str string, day date, s struct<x:int,y:string>, l array<struct<p:int>>"


def play(folder, seed, steps):
    rng = random.Random(seed)
    with frazil.load_catalog("model", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "wh")) as catalog:
        catalog.create_namespace("db")
        by = rng.choice([[], ["i"], ["bucket(3, i)", "str"], ["truncate(2, str)"], ["months(day)"], ["f"], ["s.x"], ["d", "day"]])
        table = catalog.create_table("db.t", SCHEMA, partition_by=by, format_version=rng.choice([1, 2, 3]))
        run = Run(table, rng, folder, adds_files=seed % 4 == 3, again=lambda: catalog.load_table("db.t"))
        for _ in range(steps):
            step(run)
        run.check_all()
        return run


@pytest.mark.parametrize("seed", range(4))
def test_random_steps_agree_with_a_model(tmp_path, seed):
    assert play(tmp_path, seed, 25).snapshots


@pytest.mark.soak
@pytest.mark.skipif("FRAZIL_SOAK" not in os.environ, reason="the long form: make soak")
@pytest.mark.parametrize("seed", range(100, 112))
def test_many_random_steps_agree_with_a_model(tmp_path, seed):
    assert play(tmp_path, seed, 300).snapshots
