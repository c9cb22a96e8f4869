"""What Frazil computes of expressions is, row by row, what Spark's SELECT shows, or both raise:
expressions drawn from every function, operator and node of the grammar, over settings and rows of
edges.

`FRAZIL_EXPRESSIONS_SEED` repeats a run, whose seed is printed; `FRAZIL_EXPRESSIONS` is the number
of pairs of expression and setting. An expression that the grammar refuses is Spark's to evaluate.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import struct
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.values.evaluate import compute_over, evaluate
from frazil.arrow.values.python_values import as_internal
from frazil.errors import EvaluationError, FrazilError
from frazil.expr import nodes as n
from frazil.expr.bind import bind, bind_term
from frazil.expr.bound import Bound
from frazil.expr.functions.by_name import FUNCTIONS, find_function, function_names
from frazil.expr.functions.function import Signature
from frazil.expr.functions.numbers import ARITHMETIC
from frazil.expr.parse import _CASTS, _COMPARISONS, parse
from frazil.expr.sql_text import quoted_text
from frazil.spark.host.jvm_plans import column_of
from frazil.spark.host.quiet import quietly
from frazil.spec.ddl import parse_schema
from frazil.spec.types import (
    BooleanType,
    IcebergType,
)
from tests.conftest import ROOT

pytestmark = pytest.mark.spark
RAISES = "raises"
TRIED = ("n1", "n2", "n3", "p1", "p2", "2026-11-29 7f4c36f63cfc57952ebd03c5c2a096911f34ca80")
"""Seeds of which the short form draws one by date and commit, so that a run fails by what has changed
and not by what nobody has looked at yet, which the long form finds."""
ROWS, BATCH = 10, 100
_D = Decimal
_INSTANTS = [
    "1970-01-01 00:00:00", "2024-02-29 23:59:59.999999", "2024-03-31 01:30:00", "2024-10-27 00:30:00", "2024-10-27 01:30:00",
    "2018-11-04 03:00:00", "2018-02-18 01:30:00", "1582-10-04 12:00:00", "1582-10-15 00:00:00", "0001-01-01 00:00:00",
    "1889-12-31 23:59:59", "1900-01-01 00:00:00", "1985-12-31 18:29:59", "2037-07-01 12:00:00", "2050-07-01 12:00:00",
    "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "2011-12-30 12:00:00",
]  # fmt: skip
_TEXTS = [
    "", " ", "a", "A", "ab", "Straße", "ŉ", "ΑΣ", "ΑΣΑ", "ς", "σ", "µ", "μ", "ſ", "s", "K", "k", "İ", "i̇", "ı", "I", "e\u0301", "É",
    "𝄞x", "\U00010400", "a%b", "a_b", "a\\b", "it's", "ab\ncd", "\0", "ǅ", "ﬃ", "day", "WEEK", "Quarter", "yyyy", "mon", "nothing",
]  # fmt: skip
_WRITTEN = [
    "12", " 12 ", "\t-7\n", "\x7f5\x7f", "\u00a012", "１２", "١٢", "𝟏𝟐", "12.", ".5", "1.5", "1e3", "1E-2", "1d", "1.5F", "1l", "0x1p3", "+5", "-",
    "+-5", "NaN", "nan", "-NaN", "Infinity", "-inf", "+INF", "infinityd", "1e400", "99999999999", "9223372036854775808", "1_000",
    "123456789012345678901234567890.5", "0e38", "1e-400", "true", "T", "yes", "No", "0", " y ", "2024-02-29", "2023-02-29", "2024-2-9",
    "2024", "2024-02", "02024-01-01", "12345-06-07", "1234567-01-01", "-0001-01-01", "+2024-01-01", "2024-01-01T", "2024-01-01 ",
    "2024-01-01 x", "2024-01-01 12", "2024-01-01T1:2:3", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-10-27 02:30:00+01:00",
    "2024-01-01 12:00:00.1234567", "2024-01-01 12:00:60", "2024-01-01 24:00:00", "2024-01-01 12:00:00Z", "2024-01-01 12:00:00 z",
    "2024-01-01 12:00:00 Europe/Berlin", "2024-01-01 12:00:00 PST", "2024-01-01 12:00:00+5:3", "2024-01-01 12:00:00+800",
    "2024-01-01 12:00:00UTC+2", "2024-01-01 12:00Z", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2٠24-01-01", "1.17549435082e-38",
    "1.00000017881393432617187499", "1.00000017881393432617187501", "294247-01-10 04:00:54.775807",
]  # fmt: skip
_NUMBERS = ["0", "1", "-1", "2", "-1.5", "0.5", "2.5", "9999999.99", "-9999999.99"]
_WIDE = ["0", "1e-10", "-1e-10", "9999999999999999999999999999.9999999999", "-0.5", "1.5", "3"]
_FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 2.5, 1e10, 1e19, -1e19, 2.0**53, 2.0**63, -(2.0**63), 2147483647.5, 1e300, math.inf, -math.inf, math.nan, 5e-324]  # fmt: skip
_LIST, _MAP = pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32())


def _instants() -> list[dt.datetime]:
    return [dt.datetime.fromisoformat(t) for t in _INSTANTS]


EDGES: dict[str, tuple[str, list[Any]]] = {
    "b": ("boolean", [True, False]),
    "i": ("int", [0, 1, -1, 2, 7, -7, 100, 2**31 - 1, -(2**31), 1900, 2024]),
    "l": ("bigint", [0, 1, -1, 3, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "f": ("float", [*(x for x in _FLOATS if x != 1e300), 16777217.0]),
    "d": ("double", _FLOATS),
    "c": ("decimal(9,2)", [_D(x).quantize(_D("0.01")) for x in _NUMBERS]),
    "w": ("decimal(38,10)", [_D(x) for x in _WIDE]),
    "x": ("decimal(38,0)", [_D(0), _D(1), _D(-3), _D("9" * 38), _D("-" + "9" * 38)]),
    "s": ("string", _TEXTS),
    "k": ("string", _WRITTEN),
    "y": ("binary", [b"", b"\0", b"ab", b"\xff\x80", "é".encode()]),
    "t": ("date", [*(i.date() for i in _instants()), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "z": ("timestamp", [i.replace(tzinfo=dt.UTC) for i in _instants()]),
    "m": ("timestamp_ntz", _instants()),
    "li": ("array<int>", [[], [1], [1, None]]),
    "mp": ("map<string, int>", [[], [("a", 1)]]),
}
TYPES = ", ".join(f"{name} {type_}" for name, (type_, _) in EDGES.items())
SCHEMA = parse_schema(TYPES)
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe", "+05:30", "Pacific/Apia"]  # fmt: skip
_LITERALS = [
    "NULL", "TRUE", "FALSE", "0", "1", "-1", "2", "3", "10", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "1L",
    "0.5", "1.50", "-0.01", "123456.789", "1e10", "-0.0D", "2.5D", "1.5F", "1BD", "X'ff80'", "X''",
    "DATE'2024-02-29'", "DATE'0001-01-01'", "DATE'9999-12-31'", "TIMESTAMP'2024-10-27 02:30:00'", "TIMESTAMP'2024-03-31 02:30:00'",
    "TIMESTAMP'2024-10-27 00:30:00Z'", "TIMESTAMP'1800-01-01 00:00:00'", "TIMESTAMP_NTZ'2024-03-31 02:30:00'", "double('NaN')", "R'a\\b'",
]  # fmt: skip
_PATTERNS = ["%", "_", "", "a%", "%b", "%S%", "s_", "%ß%", "µ", "ſ%", "ς", "%Σ", "k", "i̇%", "_̇", "a\\\\%b", "É", "%\\\\_%"]  # fmt: skip
_INFIX = sorted({*_COMPARISONS, *(f for f in FUNCTIONS if not f[0].isalpha()), "||", "div", "AND", "OR", "IS DISTINCT FROM"})  # fmt: skip
_SIGNS = [f for f in FUNCTIONS if f in ARITHMETIC and not f.isidentifier()]
_TYPES = [*_CASTS, "decimal(38,10)", "decimal(5,4)", "decimal(38,0)", "timestamp_ntz"]
_FORMS = [
    "({} IN ({}, {}))", "({} NOT IN ({}))", "({} IN ({}, NULL))", "({} BETWEEN {} AND {})", "({} NOT BETWEEN {} AND {})", "({} IS NULL)",
    "({} IS NOT NULL)", "(NOT {})", "(CASE WHEN {} THEN {} END)", "(CASE WHEN {} THEN {} ELSE {} END)", "(CASE {} WHEN {} THEN {} ELSE {} END)",
    "if({}, {}, {})", "nullif({}, {})", "isnull({})", "isnotnull({})", "isnan({})", "({} IS NOT DISTINCT FROM {})", "({} IS TRUE)",
    "({} IS NOT FALSE)", "(- {})", "({} IS UNKNOWN)", "(NOT isnan({}))", "(NOT startswith({}, {}))",
]  # fmt: skip


# Expression is the base; the parser reads the others as NOT
_NEGATIONS = {n.Expression, n.NotStartsWith, n.NotNaN, n.AlwaysFalse, n.Translated}


class Drawn:
    """Draw expressions that Frazil's grammar binds, over columns, constants and those drawn before."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        # those of partitions need a catalog; tests/expr/test_partition_functions.py has them
        self.names = [f for f in function_names() if "." not in f and f != "case"]
        leaves = [*EDGES, *_LITERALS, *map(quoted_text, [*_TEXTS, *_WRITTEN])]
        self.terms = [(text, bind_term(parse(text), SCHEMA).type) for text in leaves]

    def expression(self) -> str:
        while True:
            text = self._form()
            try:
                type_ = bind_term(parse(text), SCHEMA).type
            except EvaluationError:
                if self.random.random() < 0.1:
                    return text
                continue
            except FrazilError:
                continue
            except Exception:
                return text  # which `by_frazil` tells
            if len(text) < 150:
                self.terms.append((text, type_))
            return text

    def _term(self) -> tuple[str, IcebergType]:
        chance = self.random.random()
        columns = len(EDGES)
        if chance < 0.5:
            return self.terms[self.random.randrange(columns)]
        return self.random.choice(self.terms[-100:] if chance > 0.75 else self.terms[columns:])

    def _form(self) -> str:
        kind = self.random.randrange(8)
        if kind < 4:
            name = self.random.choice(self.names)
            function = find_function(name)
            for _ in range(100):
                arguments = [self._term() for _ in range(self.random.choice((1, 1, 2, 2, 3)))]
                if self.random.random() < 0.5:
                    alike = [t for t in self.terms if t[1] == arguments[0][1]]
                    arguments = [self.random.choice(alike) for _ in arguments]
                if isinstance(function.bind(tuple(t for _, t in arguments)), Signature):
                    break
            return f"{name}({', '.join(text for text, _ in arguments)})"
        if kind == 4:
            word = self.random.choice(_INFIX + 2 * _SIGNS)
            left, right = self._term(), self._term()
            if word in ("AND", "OR"):
                truths = [t for t in self.terms if isinstance(t[1], BooleanType)]
                left, right = self.random.choice(truths), self.random.choice(truths)
            return f"({left[0]} {word} {right[0]})"
        if kind == 5:
            word, type_ = self.random.choice(("CAST", "TRY_CAST")), self.random.choice(_TYPES)
            return f"{word}({self._term()[0]} AS {type_})"
        if kind == 6:
            form = self.random.choice(_FORMS)
            return form.format(*(self._term()[0] for _ in range(form.count("{}"))))
        word = self.random.choice(("LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"))
        return f"({self._term()[0]} {word} '{self.random.choice(_PATTERNS)}')"

    def rows(self) -> pa.RecordBatch:
        schema = to_arrow_schema(SCHEMA)
        cell = lambda values: None if self.random.random() < 0.12 else self.random.choice(values)
        columns = [[cell(v) for _ in range(ROWS)] for _, v in EDGES.values()]
        return pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)],
            names=list(EDGES),
        )


def exact(value: object) -> object:
    """Return a value of which no two that differ are equal: -0.0 is not 0.0, NaN is NaN."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack(">d", value).hex()
    return value.encode() if isinstance(value, str) else value


def by_frazil(text: str, rows: pa.RecordBatch, **settings: Any) -> tuple[IcebergType | None, Any]:
    """Return type and values, RAISES in the place of an error; None where the grammar refuses it."""
    try:
        bound = bind_term(parse(text), SCHEMA, **settings)
    except EvaluationError:
        return None, RAISES
    except FrazilError:
        return None, None
    except Exception as error:
        return None, [repr(error)] * len(rows)
    values = _computed(bound, rows)
    if isinstance(bound.type, BooleanType):
        kept = [v if isinstance(v, str) else bool(v) for v in values]
        where = bind(parse(text), SCHEMA, **settings)
        assert [v if isinstance(v, str) else bool(v) for v in _computed(where, rows, evaluate)] == kept  # fmt: skip
    return bound.type, values


def _computed(bound: Bound, rows: pa.RecordBatch, run: Any = compute_over) -> list[Any]:
    try:
        return [exact(v) for v in as_internal(run(bound, rows), bound.type).to_pylist()]
    except EvaluationError:
        if len(rows) == 1:
            return [RAISES]
        return [v for i in range(len(rows)) for v in _computed(bound, rows.slice(i, 1), run)]
    except Exception as error:
        return [repr(error)] * len(rows)


def by_spark(session: Any, frame: Any, texts: list[str]) -> list[Any]:
    """Return for each expression an array of structs, null where Spark raises; an error's text for
    what its analyser refuses."""
    expressions = session._jvm.org.apache.spark.sql.catalyst.expressions
    read = session._jsparkSession.sessionState().sqlParser().parseExpression
    try:
        columns = [
            column_of(session, expressions.TryEval(read(f"named_struct('v', {text})"))).alias(
                f"e{i}"
            )
            for i, text in enumerate(texts)
        ]
        with quietly():
            computed = frame.select(*columns)
    except Exception as error:
        if len(texts) == 1:
            return [str(error).splitlines()[0]]
        half = len(texts) // 2
        return by_spark(session, frame, texts[:half]) + by_spark(session, frame, texts[half:])
    # `toArrow` refuses a null struct of a member that is never null
    return [c.combine_chunks() for c in pa.Table.from_batches(computed._collect_as_arrow()).columns]


def differences(session: Any, seed: str, pairs: int) -> Iterator[str]:
    drawn, nodes, functions = Drawn(seed), set[type](), set[str]()
    grammar = {v for v in vars(n).values() if isinstance(v, type) and issubclass(v, n.Expression)}
    grammar = {c for c in grammar if c.__name__[0] != "_"} - _NEGATIONS
    named = {f for f in FUNCTIONS if not f.startswith("system.")}
    tried = 0
    # two thousand may miss one of the operators: it goes on until each was drawn
    while tried < pairs or (pairs >= 2_000 and (grammar - nodes or named - functions)):
        assert tried < 4 * pairs, (grammar - nodes, named - functions)
        tried += BATCH
        zone, ansi, rows = drawn.random.choice(ZONES), drawn.random.random() < 0.85, drawn.rows()
        settings = {
            "spark.sql.session.timeZone": zone,
            "spark.sql.ansi.enabled": str(ansi).lower(),
            "spark.sql.legacy.timeParserPolicy": drawn.random.choice(("CORRECTED", "EXCEPTION")),
            "spark.sql.subexpressionElimination.enabled": "false",
            "spark.sql.alwaysInlineCommonExpr": "true",
            "spark.sql.codegen.wholeStage": drawn.random.choice(("false", "false", "false", "true")),
            "spark.sql.codegen.factoryMode": drawn.random.choice(("NO_CODEGEN", "NO_CODEGEN", "FALLBACK")),
        }  # fmt: skip
        for key, value in settings.items():
            session.conf.set(key, value)
        texts = list(dict.fromkeys(drawn.expression() for _ in range(BATCH)))
        for text in texts:
            every = list(n.walk(parse(text)))
            nodes |= {type(e) for e in every}
            called = [find_function(e.function) for e in every if isinstance(e, n.Call)]
            functions |= {f.name for f in called if f is not None}
            functions |= {"startswith"} if n.StartsWith in nodes else set()
        ours = {t: by_frazil(t, rows, zone=zone, ansi=ansi, spark=True) for t in texts}
        asked = [t for t in texts if ours[t][1] is not None]
        frame = session.createDataFrame(pa.Table.from_batches([rows]), TYPES)
        for text, theirs in zip(asked, by_spark(session, frame, asked), strict=True):
            type_, values = ours[text]
            if values == RAISES:
                problem = None if raises(frame, text) else "is an error, and none of Spark"
            else:
                problem = problem_of(type_, values, theirs, rows)
            if problem is not None:
                yield f"{text}\n    zone={zone} ansi={ansi}: {problem}"


def raises(frame: Any, text: str) -> bool:
    """Tell whether Spark raises an error for a constant that fails, as it plans or runs."""
    with quietly():
        try:
            frame.selectExpr(text).collect()
        except Exception:
            return True
    return False


def problem_of(
    type_: IcebergType | None, values: list[Any], theirs: Any, rows: pa.RecordBatch
) -> str | None:
    if isinstance(theirs, str):
        return None  # which Spark's analyser refuses before Frazil is asked
    inner = theirs.field(0)
    if type_ is not None:
        if not type_.is_primitive:
            return None
        try:
            inner = as_internal(inner, type_)
        except FrazilError as error:
            return str(error)
        if pa.types.is_decimal(inner.type) and theirs.field(0).type != inner.type:
            return f"is {type_}, of Spark {theirs.field(0).type}"
    if pa.types.is_string(inner.type):
        inner = inner.cast(pa.binary())  # Spark keeps bytes that are no UTF-8
    for i, mine in enumerate(values):
        spark = exact(inner[i].as_py()) if theirs[i].is_valid else RAISES
        if spark != mine:
            return f"is {mine}, of Spark {spark} for {rows.slice(i, 1).to_pylist()}"
    return None


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.parametrize("pairs", [2_000, pytest.param(50_000, marks=pytest.mark.soak)])
def test_an_expression_gives_in_each_row_what_spark_gives(session, pairs):
    seed = f"{dt.date.today()} {_commit()}"
    if pairs == 2_000:
        seed = random.Random(seed).choice(TRIED)
    seed = os.environ.get("FRAZIL_EXPRESSIONS_SEED", seed)
    print(f"FRAZIL_EXPRESSIONS_SEED={seed!r}")
    pairs = int(os.environ.get("FRAZIL_EXPRESSIONS", pairs))
    assert "\n".join(differences(session, seed, pairs)) == ""
