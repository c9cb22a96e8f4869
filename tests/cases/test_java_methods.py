"""Each method of Java Iceberg's own Spark tests (`java_methods.json`) stands in a `java` line of a
case, or in `not_sql.json` with the reason why it says nothing about SQL.
"""

import json

from tests.cases.form import HERE, cases_of, files


def test_every_method_of_javas_has_a_case_or_says_nothing_about_sql():
    listed = json.loads((HERE / "java_methods.json").read_text())
    methods = {f"{name}.{method}" for name, those in listed.items() for method in those}
    reasons = json.loads((HERE / "not_sql.json").read_text())
    not_sql = {method for those in reasons.values() for method in those}
    told = {method for file in files() for case in cases_of(file) for method in case.java}
    assert not told & not_sql
    assert methods == told | not_sql
