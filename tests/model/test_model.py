"""Random scripts of changes agree with a plain Python model after every step: rows, row ids,
counts, time travel, branches, tags, files.
"""

import os
import random

import pytest

from tests.model import generate
from tests.model.play import CATALOG, Mismatch, play, told
from tests.model.shrink import shrunk

SQL = CATALOG.replace('"memory"', '"sql", uri="sqlite:///{0}/catalog.db", warehouse="{0}/wh"')


def check(seed, steps, catalog=CATALOG):
    """Plays the script of a seed; a failure is told as a small program."""
    rng = random.Random(seed)
    try:
        return play(generate.opening(rng, catalog), generate.steps(rng, steps))
    except Mismatch as failure:
        pytest.fail(f"seed {seed}, {told(shrunk(failure))}", pytrace=False)


@pytest.mark.parametrize(
    "part", [*range(6), *(pytest.param(n, marks=pytest.mark.soak) for n in range(6, 10))]
)
def test_random_scripts_agree_with_a_model(part):
    for seed in range(part * 5, part * 5 + 5):
        check(seed, 7)


@pytest.mark.parametrize("seed", range(4))
def test_long_scripts_in_a_sql_catalog_agree_with_a_model(tmp_path, seed):
    assert check(seed, 25, SQL.format(tmp_path)).state.snaps


@pytest.mark.soak
@pytest.mark.skipif("FRAZIL_SOAK" not in os.environ, reason="the long form: make soak")
@pytest.mark.parametrize("seed", range(100, 112))
def test_very_long_scripts_in_a_sql_catalog_agree_with_a_model(tmp_path, seed):
    assert check(seed, 300, SQL.format(tmp_path)).state.snaps


@pytest.mark.soak
@pytest.mark.skipif("FRAZIL_SOAK" not in os.environ, reason="the long form: make soak")
@pytest.mark.parametrize("part", range(20))
def test_thousands_of_random_scripts_agree_with_a_model(part):
    for seed in range(10_000 + part * 150, 10_000 + part * 150 + 150):
        check(seed, 7 if seed % 10 else 40)
