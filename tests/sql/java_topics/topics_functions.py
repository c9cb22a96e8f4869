"""Iceberg's functions: bucket, truncate, years, months, days, hours, iceberg_version."""

from tests.sql.java_topics.harness import Place, case, not_sql

MAGIC = "Java's name for the method that a task calls, in the text of a plan"


def values(p: Place, function: str, expected: dict[str, object]) -> None:
    """Check what calls of a function give, each call as an expression of one query."""
    p.sql("USE $c")
    calls = ", ".join(f"system.{function}({call}) AS c{n}" for n, call in enumerate(expected))
    ((*actual,),) = p.sql(f"SELECT {calls}")
    wrong = {
        call: (one, other)
        for (call, other), one in zip(expected.items(), actual, strict=True)
        if one != other
    }
    assert not wrong, wrong


def text_as_bytes(text: str) -> str:
    return f"X'{text.encode().hex()}'"


@case("TestSparkBucketFunction.testBucketBinary")
def bytes_have_buckets(p: Place) -> None:
    values(p, "bucket", {
        "10, X'0102030405060708090a0b0c0d0e0f'": 1, f"12, {text_as_bytes('abcdefg')}": 10,
        f"18, {text_as_bytes('abc' + chr(0) * 2)}": 13, f"48, {text_as_bytes('abc')}": 42,
        f"16, {text_as_bytes('测试_')}": 3, "100, CAST(null AS binary)": None,
    })  # fmt: skip


@case("TestSparkTruncateFunction.testTruncateBinary")
def bytes_are_cut(p: Place) -> None:
    values(p, "truncate", {
        "10, X'0102030405060708090a0b0c0d0e0f'": bytes(range(1, 11)), f"3, {text_as_bytes('abcdefg')}": b"abc",
        f"10, {text_as_bytes('abc' + chr(0) * 2)}": b"abc\0\0", f"3, {text_as_bytes('abc')}": b"abc",
        f"6, {text_as_bytes('测试_')}": "测试".encode(), "3, CAST(null AS binary)": None,
    })  # fmt: skip


for _class, _methods in {
    "TestSparkBucketFunction": ("testThatMagicFunctionsAreInvoked",),
    "TestSparkMonthsFunction": ("testThatMagicFunctionsAreInvoked",),
    "TestSparkYearsFunction": ("testThatMagicFunctionsAreInvoked",),
    "TestSparkTruncateFunction": (
        "testThatMagicFunctionsAreInvoked",
        "testMagicFunctionsResolveForTinyIntAndSmallIntWidths",
    ),
}.items():
    not_sql(_class, MAGIC, *_methods)
