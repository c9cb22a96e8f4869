"""Read case files, in the form of sqllogictest: see tests/README.md. Needs nothing but Python, as every
door's process reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ALONE = ("set", "snapshots", "counts", "wait")
ACTS = (
    "write", "read", "hold", "joined", "outside", "beside", "meanwhile", "metadata", "register",
    "change", "files",
)  # fmt: skip
KINDS = ("statement", "query", "let", "schema", "spec", "order", *ALONE, *ACTS)


@dataclass(frozen=True)
class Record:
    """Hold one record: its first line's words, its SQL, and what comes after `----`. `skips`: doors
    that leave it out, with the reason.
    """

    line: int
    kind: str
    rest: str
    text: str
    expected: tuple[str, ...]
    skips: Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """Hold a case: `runs` are the values of the names in it, of which it is played with each;
    `skips` are doors that refuse it, with the reason; `known` those at which it is known to be
    wrong.
    """

    file: str
    name: str
    line: int
    records: tuple[Record, ...]
    java: tuple[str, ...] = ()
    catalogs: tuple[str, ...] = ("sql",)
    runs: tuple[Mapping[str, str], ...] = ({},)
    since: str = ""
    skips: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Part:
    """A case or a setup while it is read."""

    line: int
    header: list[tuple[str, str]]
    records: list[Record] = field(default_factory=list)


def files() -> list[str]:
    """Return the names of all case files, without the suffix."""
    return sorted(path.stem for path in HERE.glob("*.test"))


@cache
def cases_of(file: str) -> tuple[Case, ...]:
    """Read a case file."""
    return tuple(parse((HERE / f"{file}.test").read_text(), file))


def parse(text: str, file: str) -> Iterator[Case]:
    """Read the cases of a text. Raises ValueError for what is not in the form."""
    defined: dict[str, str] = {}
    setups: dict[str, list[Record]] = {}
    parts: list[_Part] = []
    for line, block in _blocks(text):
        match _parted(block[0])[0]:
            case "define":
                defined.update(_parted(_parted(told)[1]) for told in block)
            case "case" | "setup":
                parts.append(_Part(line, [_parted(told) for told in block]))
            case _:
                if not parts:
                    raise ValueError(f"{file}:{line}: {block[0]!r} stands before any case")
                parts[-1].records += _records(file, line, block)
    for part in parts:
        (kind, name), *facts = part.header
        begun = [r for word, told in facts if word == "setup" for r in setups[told]]
        records = begun + part.records
        if kind == "setup":
            setups[name] = records
        else:
            yield _case(file, part, records, defined)


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Part a text at its empty lines, without its comments."""
    block: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#") and "----" not in block:
            continue
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _parted(line: str) -> tuple[str, str]:
    word, _, rest = line.partition(" ")
    return word, rest.strip()


def _named(pairs: str) -> dict[str, str]:
    """Read `name=value; other=value`."""
    named = (pair.partition("=") for pair in pairs.split(";") if pair)
    return {key.strip(): value.strip() for key, _, value in named}


def _case(file: str, part: _Part, records: list[Record], defined: dict[str, str]) -> Case:
    (_, name), *facts = part.header
    told: dict[str, list[str]] = {}
    for word, rest in facts:
        told.setdefault(word, []).append(rest)
    unknown = told.keys() - {"java", "catalog", "each", "with", "setup", "since", "skipif", "known"}
    if unknown or not name:
        raise ValueError(f"{file}:{part.line}: {sorted(unknown)} of the case {name!r}")
    runs = [
        defined | ({"each": each} if each else {}) | _named(pairs)
        for each in " ".join(told.get("each", ())).split() or [""]
        for pairs in told.get("with", [""])
    ]
    return Case(
        file,
        name,
        part.line,
        tuple(records),
        tuple(" ".join(told.get("java", ())).split()),
        tuple(" ".join(told.get("catalog", ["sql"])).split()),
        tuple(runs),
        "".join(told.get("since", ())),
        _reasons(told.get("skipif", []), file, part.line),
        _reasons(told.get("known", []), file, part.line),
    )


def _reasons(lines: list[str], file: str, line: int) -> dict[str, str]:
    """Read lines such as `java connect # the reason`."""
    reasons = {}
    for doors, mark, reason in (text.partition("#") for text in lines):
        if not mark:
            raise ValueError(f"{file}:{line}: a door is left out without a reason")
        reasons.update(dict.fromkeys(doors.split(), reason.strip()))
    return reasons


def _records(file: str, line: int, block: list[str]) -> Iterator[Record]:
    """Read the records of a block: one, or one for each `set`, `snapshots` or `counts`, or one for
    each statement that ends its line with a semicolon.
    """
    skipped = []
    while block[0].startswith("skipif "):
        skipped.append(block[0].removeprefix("skipif "))
        line, block = line + 1, block[1:]
    skips = _reasons(skipped, file, line)
    kind, rest = _parted(block[0])
    if kind in ALONE:
        for number, told in enumerate(block, line):
            kind, rest = _parted(told)
            if kind not in ALONE:
                raise ValueError(f"{file}:{number}: {told!r} stands in a block of {ALONE}")
            yield Record(number, kind, rest, "", (), skips)
        return
    if kind not in KINDS:
        raise ValueError(f"{file}:{line}: {block[0]!r} begins no record")
    at = block.index("----") if "----" in block else len(block)
    expected = tuple(block[at + 1 :])
    if kind != "statement" or block[1].startswith("BEGIN"):
        yield Record(line, kind, rest, "\n".join(block[1:at]), expected, skips)
        return
    number, statement = line + 1, ""
    for here, told in enumerate(block[1:at], line + 1):
        statement += told if not statement else f"\n{told}"
        if told.endswith(";") or here == line + at - 1:
            yield Record(number, kind, rest, statement.removesuffix(";"), expected, skips)
            number, statement = here + 1, ""


# Values
# --------------------------------------------------------------------------------------------------


def shown(value: object, inside: bool = False) -> str:
    """Write a value as it stands after `----`."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes() | bytearray():
            return f"X'{bytes(value).hex()}'"
        case tuple():
            return f"({', '.join(shown(v, True) for v in value)})"
        case list():
            return f"[{', '.join(shown(v, True) for v in value)}]"
        case dict():
            pairs = sorted((shown(k, True), shown(v, True)) for k, v in value.items())
            return f"{{{', '.join(f'{k}: {v}' for k, v in pairs)}}}"
        case str() if inside:
            return repr(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
            return escaped.replace("\r", "\\r") if value and escaped != "NULL" else f"'{value}'"
        case float():
            return repr(value)
    return str(value)


LETTERS = {int: "I", bool: "B", float: "R", str: "T"}


def letter(values: list[object]) -> str:
    """Return the letter for the type of a column's values: I whole numbers, B truths, R floats, T
    texts, ? others and nulls.
    """
    kinds = {type(v) for v in values if v is not None}
    return LETTERS.get(kinds.pop(), "?") if len(kinds) == 1 else "?"


def letters(rows: list[tuple[object, ...]]) -> str:
    return "".join(letter(list(column)) for column in zip(*rows, strict=True))


def is_of(actual: str, expected: str) -> bool:
    """Tell whether letters are those expected; a column of nulls has any."""
    return len(actual) == len(expected) and all(
        a == e or "?" in (a, e) for a, e in zip(actual, expected, strict=True)
    )


def says(pattern: str, message: str) -> bool:
    return re.search(pattern, message, re.IGNORECASE | re.DOTALL) is not None
