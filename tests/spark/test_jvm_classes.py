"""Frazil's classes of Java are compiled once for a Spark, and one that does not compile closes its
own door alone.
"""

import pytest

from frazil.errors import Unsupported
from frazil.spark.host import fall_back, jvm_classes

pytestmark = [pytest.mark.spark, pytest.mark.versions]
GOOD = "package frazil.spark.jvm; public final class Good { public Good(String of) { } }"


@pytest.mark.parametrize("cache", ["writable", "of another process", "not a folder"])
def test_a_class_that_does_not_compile_is_told_once_and_the_others_work(
    spark, tmp_path, monkeypatch, caplog, cache
):
    home = tmp_path / "cache"
    if cache == "not a folder":
        home.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    texts = {"Bad": "public final class Bad { Missing of; }", "Good": GOOD}
    monkeypatch.setattr(jvm_classes, "_texts", lambda: texts)
    monkeypatch.setattr(jvm_classes, "_LOADED", {})
    monkeypatch.setattr(jvm_classes, "DOORS", {"Bad": "The door of Bad is closed."})
    monkeypatch.setattr(fall_back, "_WARNED", set())
    jvm_classes.kept_classes.cache_clear()
    compile_, compiled = jvm_classes._compile, []
    monkeypatch.setattr(jvm_classes, "_compile", lambda *a: (compiled.append(a), compile_(*a)))
    try:
        if cache == "of another process":
            jvm_classes._compiled(jvm_classes.classic_jvm(spark))
        for _ in range(2):
            good = jvm_classes.make(spark, "Good", "text")
            assert good.getClass().getName() == "frazil.spark.jvm.Good"
            with pytest.raises(Unsupported, match="Bad does not compile on this Spark"):
                jvm_classes.make(spark, "Bad")
    finally:
        jvm_classes.kept_classes.cache_clear()
    assert len(compiled) == 1
    assert sum("door of Bad" in r.getMessage() for r in caplog.records) == 1


@pytest.mark.parametrize("version, line", [("4.1.4", "old();"), ("4.2.0", "new();")])
def test_a_marked_line_is_of_some_versions(monkeypatch, tmp_path, version, line):
    (tmp_path / "jvm").mkdir()
    (tmp_path / "jvm" / "Shown.java").write_text("//since 4.2: new();\n//before 4.2: old();")
    monkeypatch.setattr(jvm_classes.pyspark, "__version__", version)
    monkeypatch.setattr(jvm_classes.resources, "files", lambda _: tmp_path)
    text = jvm_classes._texts.__wrapped__()["Shown"]
    assert [part for part in text.splitlines() if not part.startswith("//")] == [line]
