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


def refused(p: Place, function: str, *told: tuple[str, str, str]) -> None:
    """Check that arguments are refused, with their types and the reason in the message."""
    p.sql("USE $c")
    for arguments, types, why in told:
        types = types.replace("(", r"\(").replace(")", r"\)")
        message = rf"function '{function}' cannot process input: \({types}\): {why}"
        p.fails(f"SELECT system.{function}({arguments})", "AnalysisException", message)


def text_as_bytes(text: str) -> str:
    return f"X'{text.encode().hex()}'"


@case("TestSparkBucketFunction.testBucketBinary")
def bytes_have_buckets(p: Place) -> None:
    values(p, "bucket", {
        "10, X'0102030405060708090a0b0c0d0e0f'": 1, f"12, {text_as_bytes('abcdefg')}": 10,
        f"18, {text_as_bytes('abc' + chr(0) * 2)}": 13, f"48, {text_as_bytes('abc')}": 42,
        f"16, {text_as_bytes('测试_')}": 3, "100, CAST(null AS binary)": None,
    })  # fmt: skip


NESTED = {"true": "boolean", "map(1, 1)": "map<int,int>", "array(1L)": "array<bigint>"}


DAYS = ("2017-12-01", "1970-01-01", "1969-12-31")
INSTANTS = (
    "2017-12-01 10:12:55.038194", "1970-01-01 00:00:01.000001", "1969-12-31 23:59:58.999999",
)  # fmt: skip


def parts(p: Place, function: str, expected: tuple[object, ...], kind: str) -> None:
    texts = DAYS if kind == "date" else INSTANTS
    zone = " UTC+00:00" if kind == "timestamp" else ""
    known: dict[str, object] = {
        f"{kind} '{text}{zone}'": value for text, value in zip(texts, expected, strict=True)
    }
    values(p, function, known | {f"CAST(null AS {kind})": None})


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
