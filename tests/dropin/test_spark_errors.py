"""Errors that are Spark's as well as Frazil's answer all that Spark's answer."""

import inspect

import pytest
from pyspark.errors import AnalysisException, PySparkException

from frazil.dropin.spark_errors import known_to_spark
from frazil.errors import NoSuchTableError


def test_every_question_to_an_error_of_sparks_is_answered():
    with pytest.raises(AnalysisException) as caught, known_to_spark():
        raise NoSuchTableError("There is no table db.t.", table="db.t")
    asked = [n for n, _ in inspect.getmembers(PySparkException, callable) if n.startswith("get")]
    answers = {name: getattr(caught.value, name)() for name in asked}
    assert answers["getCondition"] == "TABLE_OR_VIEW_NOT_FOUND"
    assert answers["getMessageParameters"]["table"] == "db.t"
