"""Topics of Java Iceberg's Spark tests: each of its methods about SQL is right, or differs for a
reason that is told. The run ends with one line of counts.
"""

from collections import defaultdict

import pytest

from tests.cases.form import cases_of, files
from tests.sql.java_topics import harness

pytestmark = [pytest.mark.soak, pytest.mark.spark]

RUNS = [
    pytest.param(
        case, kind, each, id="-".join([case.java[0], kind, *([str(each)] if each else [])])
    )
    for case in harness.load_cases()
    for kind in case.on
    for each in case.each
]


@pytest.fixture(scope="module")
def tally(request):
    """Which of Java's methods came out how: printed when all have run."""
    outcomes = defaultdict(set)
    yield outcomes
    counts = defaultdict(int)
    for kinds in outcomes.values():
        counts[min(kinds)] += 1  # "differs" and "failed" before "right"
    told = ", ".join(f"{counts[kind]} {kind}" for kind in ("right", "differs", "failed"))
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nMethods of Java Iceberg's Spark tests: {told}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("topics")


@pytest.fixture(scope="module")
def sessions(spark, folder):
    with harness.catalogs(spark, folder) as sessions:
        yield sessions


@pytest.mark.parametrize("case, kind, each", RUNS)
def test_what_a_method_of_javas_says_holds(case, kind, each, sessions, folder, tally):
    import pyspark

    reason = case.reason(".".join(pyspark.__version__.split(".")[:2]))
    outcome = "failed"
    try:
        with harness.place(sessions, kind, folder, each) as place:
            case.play(place)
        outcome = "right"
    except Exception:
        if not reason:
            raise
        outcome = "differs"
    finally:
        for method in case.java:
            tally[method].add(outcome)
    if outcome == "differs":
        pytest.xfail(reason)
    assert not reason, f"it does not differ any more: {reason}"


def test_every_method_of_javas_has_a_case_or_says_nothing_about_sql():
    methods = {f"{name}.{m}" for name, listed in harness.METHODS.items() for m in listed}
    told = {method for case in harness.load_cases() for method in case.java}
    told |= {method for file in files() for case in cases_of(file) for method in case.java}
    assert not told & harness.NOT_SQL.keys()
    assert methods == told | harness.NOT_SQL.keys()
