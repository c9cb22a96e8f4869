"""Iceberg's functions: bucket, truncate, years, months, days, hours, iceberg_version."""

from datetime import date
from decimal import Decimal

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


@case("TestSparkBucketFunction.testSpecValues")
def buckets_are_those_of_the_specification(p: Place) -> None:
    n = 2**31 - 1  # the bucket of so many is the hash without its sign
    hashes = {
        "34": 2017239379, "34L": 2017239379, "14.20BD": -500754589, "date '2017-11-16'": -653330422,
        "timestamp '2017-11-16 22:31:08'": -2047944441, "timestamp_ntz '2017-11-16 22:31:08'": -2047944441,
        "'iceberg'": 1210000089, text_as_bytes("iceberg"): 1210000089, "X'00010203'": -188683207,
    }  # fmt: skip
    values(p, "bucket", {f"{n}, {text}": (value & n) % n for text, value in hashes.items()})


@case("TestSparkBucketFunction.testBucketIntegers", "TestSparkBucketFunction.testBucketLong")
def whole_numbers_of_every_width_share_buckets(p: Place) -> None:
    values(p, "bucket", {
        "10, 8Y": 3, "10, 8S": 3, "10, 8": 3, "100, 34": 79, "1, CAST(null AS INT)": None,
        "100, 34L": 79, "100, 0L": 76, "100, -34L": 97, "2, -1L": 0, "2, CAST(null AS LONG)": None,
    })  # fmt: skip


@case("TestSparkBucketFunction.testBucketDates")
def days_have_the_buckets_of_their_numbers(p: Place) -> None:
    values(p, "bucket", {
        "10, date('1970-01-09')": 3, "100, date('1970-02-04')": 79, "1, CAST(null AS DATE)": None,
    })  # fmt: skip


@case("TestSparkBucketFunction.testBucketDecimal")
def decimals_have_the_buckets_of_their_unscaled_bytes(p: Place) -> None:
    values(p, "bucket", {
        "64, CAST('12.34' AS DECIMAL(9, 2))": 56, "18, CAST('12.30' AS DECIMAL(9, 2))": 13,
        "16, CAST('12.999' AS DECIMAL(9, 3))": 2, "32, CAST('0.05' AS DECIMAL(5, 2))": 21,
        "128, CAST('0.05' AS DECIMAL(9, 2))": 85, "18, CAST('0.05' AS DECIMAL(9, 2))": 3,
        "2, CAST(null AS DECIMAL)": None,
    })  # fmt: skip


@case("TestSparkBucketFunction.testBucketTimestamp")
def times_have_the_buckets_of_their_microseconds(p: Place) -> None:
    values(p, "bucket", {
        "100, TIMESTAMP '1997-01-01 00:00:00 UTC+00:00'": 99, "100, TIMESTAMP '1997-01-31 09:26:56 UTC+00:00'": 85,
        "100, TIMESTAMP '2022-08-08 00:00:00 UTC+00:00'": 62, "2, CAST(null AS TIMESTAMP)": None,
    })  # fmt: skip


@case("TestSparkBucketFunction.testBucketString")
def texts_have_the_buckets_of_their_utf8(p: Place) -> None:
    values(p, "bucket", {
        "5, 'abcdefg'": 4, "128, 'abc'": 122, "64, 'abcde'": 54, "12, '测试'": 8, "16, '测试raul试测'": 1,
        "16, CAST('测试raul试测' AS varchar(8))": 1, "16, CAST('测试raul试测' AS char(8))": 1, "16, ''": 0,
        "16, CAST(null AS string)": None,
    })  # fmt: skip


@case("TestSparkBucketFunction.testBucketBinary")
def bytes_have_buckets(p: Place) -> None:
    values(p, "bucket", {
        "10, X'0102030405060708090a0b0c0d0e0f'": 1, f"12, {text_as_bytes('abcdefg')}": 10,
        f"18, {text_as_bytes('abc' + chr(0) * 2)}": 13, f"48, {text_as_bytes('abc')}": 42,
        f"16, {text_as_bytes('测试_')}": 3, "100, CAST(null AS binary)": None,
    })  # fmt: skip


@case("TestSparkBucketFunction.testNumBucketsAcceptsShortAndByte")
def the_number_of_buckets_may_be_a_short_one(p: Place) -> None:
    values(p, "bucket", {"5S, 1L": 1, "5Y, 1": 1})


INTERVALS = {
    "INTERVAL '100-00' YEAR TO MONTH": "interval year to month",
    "CAST('11 23:4:0' AS INTERVAL DAY TO SECOND)": "interval day to second",
}


@case("TestSparkBucketFunction.testWrongNumberOfArguments")
def a_bucket_is_of_a_number_and_a_value(p: Place) -> None:
    why = r"wrong number of inputs \(expected numBuckets and value\)"
    refused(p, "bucket", ("", "", why), ("1", "int", why), ("1, 1L, 1", "int, bigint, int", why))


@case("TestSparkBucketFunction.testInvalidTypesCannotBeUsedForNumberOfBuckets")
def the_number_of_buckets_is_an_int(p: Place) -> None:
    why = "expected number of buckets to be tinyint, (short|small)int or int"
    wrong = {"CAST('12.34' AS DECIMAL(9, 2))": "decimal(9,2)", "12L": "bigint", "'5'": "string"}
    refused(
        p,
        "bucket",
        *((f"{one}, 10", f"{kind}, int", why) for one, kind in (wrong | INTERVALS).items()),
    )


NESTED = {"true": "boolean", "map(1, 1)": "map<int,int>", "array(1L)": "array<bigint>"}
REAL = {"cast(12.3456 AS float)": "float", "cast(12.3456 AS double)": "double"}


@case("TestSparkBucketFunction.testInvalidTypesForBucketColumn")
def reals_booleans_and_nested_values_have_no_bucket(p: Place) -> None:
    why = "expected column to be date, tinyint, smallint, int, bigint, decimal, timestamp, string, or binary"
    wrong = REAL | NESTED | INTERVALS
    refused(p, "bucket", *((f"10, {one}", f"int, {kind}", why) for one, kind in wrong.items()))


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


FUNCTIONS = {
    "Years": (47, 0, -1),
    "Months": (575, 0, -1),
    "Days": tuple(map(date.fromisoformat, DAYS)),
    "Hours": (420034, 0, -1),
}


def timed(name: str) -> None:
    function, java = name.lower(), f"TestSpark{name}Function"

    if name != "Hours":

        @case(f"{java}.testDates")
        def days_have_parts(p: Place) -> None:
            parts(p, function, FUNCTIONS[name], "date")

    @case(f"{java}.testTimestamps")
    def times_have_parts(p: Place) -> None:
        parts(p, function, FUNCTIONS[name], "timestamp")

    @case(f"{java}.testTimestamp{'s' if name == 'Hours' else ''}Ntz")
    def times_without_zone_have_parts(p: Place) -> None:
        parts(p, function, FUNCTIONS[name], "timestamp_ntz")

    @case(f"{java}.testWrongNumberOfArguments")
    def a_part_is_of_one_value(p: Place) -> None:
        why = "wrong number of inputs"
        refused(
            p,
            function,
            ("", "", why),
            ("date('1969-12-31'), date('1969-12-31')", "date, date", why),
        )

    @case(f"{java}.testInvalidInputTypes")
    def a_part_is_of_a_time(p: Place) -> None:
        why = f"expected value to be {'' if name == 'Hours' else 'date or '}timestamp"
        refused(p, function, ("1", "int", why), ("1L", "bigint", why))


for _name in FUNCTIONS:
    timed(_name)


@case("TestSparkTruncateFunction.testTruncateTinyInt", "TestSparkTruncateFunction.testTruncateSmallInt",
      "TestSparkTruncateFunction.testTruncateInt", "TestSparkTruncateFunction.testTruncateBigInt",
      each=("tinyint", "smallint", "int", "bigint"))  # fmt: skip
def whole_numbers_are_cut_downwards(p: Place) -> None:
    tens = {0: 0, 1: 0, 5: 0, 9: 0, 10: 10, 11: 10, -1: -10, -5: -10, -10: -10, -11: -20}
    expected: dict[str, object] = {f"10, CAST({n} AS {p.each})": cut for n, cut in tens.items()}
    values(p, "truncate", expected | {
        f"2, CAST(-1 AS {p.each})": -2, f"300, CAST(1 AS {p.each})": 0, f"2, CAST(null AS {p.each})": None,
    })  # fmt: skip
    p.rows(f"SELECT typeof(system.truncate(10, CAST(1 AS {p.each})))", (p.each,))


@case("TestSparkTruncateFunction.testTruncateDecimal")
def decimals_are_cut_downwards_by_their_scale(p: Place) -> None:
    known = {
        ("10", "12.34", "9, 2"): "12.30", ("10", "12.30", "9, 2"): "12.30", ("10", "12.299", "9, 3"): "12.290",
        ("3", "0.05", "5, 2"): "0.03", ("10", "0.05", "9, 2"): "0.00", ("10", "-0.05", "9, 2"): "-0.10",
        ("10", "-0.05", "6, 4"): "-0.0500",
    }  # fmt: skip
    expected: dict[str, object] = {
        f"{width}, CAST({number} AS DECIMAL({kind}))": Decimal(cut)
        for (width, number, kind), cut in known.items()
    }
    values(p, "truncate", expected | {
        "10, 12345.3482": Decimal("12345.3480"), "2, CAST(null AS decimal)": None,
    })  # fmt: skip
    p.rows("SELECT string(system.truncate(10, CAST(-0.05 AS DECIMAL(6, 4))))", ("-0.0500",))


@case("TestSparkTruncateFunction.testTruncateString")
def texts_are_cut_by_code_points(p: Place) -> None:
    values(p, "truncate", {
        "5, 'abcdefg'": "abcde", "5, 'abc'": "abc", "5, 'abcde'": "abcde", "2, 'イロハニホヘト'": "イロ",
        "3, 'イロハニホヘト'": "イロハ", "7, 'イロハニホヘト'": "イロハニホヘト", "1, '\U00010000\U00010000'": "\U00010000",
        "1, '测试'": "测", "4, '测试raul试测'": "测试ra", "10, ''": "", "3, CAST(null AS string)": None,
        "4, CAST('测试raul试测' AS varchar(8))": "测试ra", "4, CAST('测试raul试测' AS char(8))": "测试ra",
    })  # fmt: skip


@case("TestSparkTruncateFunction.testTruncateBinary")
def bytes_are_cut(p: Place) -> None:
    values(p, "truncate", {
        "10, X'0102030405060708090a0b0c0d0e0f'": bytes(range(1, 11)), f"3, {text_as_bytes('abcdefg')}": b"abc",
        f"10, {text_as_bytes('abc' + chr(0) * 2)}": b"abc\0\0", f"3, {text_as_bytes('abc')}": b"abc",
        f"6, {text_as_bytes('测试_')}": "测试".encode(), "3, CAST(null AS binary)": None,
    })  # fmt: skip


@case("TestSparkTruncateFunction.testTruncateUsingDataframeForWidthWithVaryingWidth")
def each_row_may_have_a_width_of_its_own(p: Place) -> None:
    p.sql("USE $c")
    p.rows(
        "SELECT count(*) FROM (SELECT system.truncate(int(id) + 1, id) AS cut FROM range(10)) WHERE cut = 0",
        (10,),
    )


@case("TestSparkTruncateFunction.testWidthAcceptsShortAndByte")
def a_width_may_be_a_short_number(p: Place) -> None:
    values(p, "truncate", {"5S, 1L": 0, "5Y, 1": 0})


@case("TestSparkTruncateFunction.testWrongNumberOfArguments")
def a_truncated_value_is_of_a_width_and_a_value(p: Place) -> None:
    why = r"wrong number of inputs \(expected width and value\)"
    refused(p, "truncate", ("", "", why), ("1", "int", why), ("1, 1L, 1", "int, bigint, int", why))


@case("TestSparkTruncateFunction.testInvalidTypesCannotBeUsedForWidth")
def a_width_is_an_int(p: Place) -> None:
    why = "expected truncation width to be tinyint, (short|small)int or int"
    wrong = {"CAST('12.34' AS DECIMAL(9, 2))": "decimal(9,2)", "'5'": "string"} | INTERVALS
    refused(p, "truncate", *((f"{one}, 10", f"{kind}, int", why) for one, kind in wrong.items()))


@case("TestSparkTruncateFunction.testInvalidTypesForTruncationColumn")
def reals_booleans_and_nested_values_are_not_cut(p: Place) -> None:
    why = "expected truncation col to be tinyint, (short|small)int, int, bigint, decimal, string, or binary"
    wrong = REAL | NESTED | INTERVALS
    refused(p, "truncate", *((f"10, {one}", f"int, {kind}", why) for one, kind in wrong.items()))


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
