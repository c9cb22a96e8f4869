"""Split the text of a predicate into tokens, and find the comments of a statement, as Spark's lexer
does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.errors import ParseError

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<hex>[xX]'[^']*')
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LlSsYyDdFf])?(?![A-Za-z0-9_]))
    |(?P<word>[^\W\d]\w*)
    |(?P<mark><=>|<>|<=|>=|==|!=|\|\||::|[-+*/%=<>!(),.\[\]])""",
    re.VERBOSE | re.DOTALL,
)
TEXTS = r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
"""The pattern of a text in quotes within a SQL statement; a doubled quote is the end of one text
and the beginning of another.
"""
_COMMENT_OR_QUOTED = re.compile(rf"(?P<comment>--|/\*)|{TEXTS}|`[^`]*`", re.DOTALL)
_LINE_COMMENT = re.compile(r"--(?:\\\n|[^\r\n])*")
_COMMENT_BEGINS_OR_ENDS = re.compile(r"/\*(?!\+)|\*/")
SPARK_CAN = "Spark can: with a session delete, update and merge take any Spark SQL, and t.to_spark().where(…) takes any condition."
_ESCAPES = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_ESCAPE_OR_QUOTE = re.compile(
    r"""\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))|''|\"\"""", re.DOTALL
)


@dataclass(frozen=True)
class Token:
    """Hold one token. `kind` is word, quoted, string, hex, number, mark, other or end; `value` the
    content (words in lower case), `text` the token as written, `position` where it begins in the
    text."""

    kind: str
    value: str
    text: str
    position: int


def tokens(text: str, *, lenient: bool = False) -> list[Token]:
    """Split text into tokens, with one of kind end at the end. Raises ParseError with the position
    of an unknown character; `lenient`: it becomes a token of kind other instead."""
    parsed: list[Token] = []
    position = 0
    while position < len(text):
        if text[position] in "-/" and (end := _comment_end(text, position)) is not None:
            position = end
            continue
        match = _TOKEN.match(text, position)
        if not match:
            if lenient:
                parsed.append(Token("other", text[position], text[position], position))
                position += 1
                continue
            raise error(text, position, f"cannot read {text[position : position + 20]!r}")
        if (kind := match.lastgroup or "") != "blank":
            parsed.append(_token(match, kind))
        position = match.end()
    return [*parsed, Token("end", "", "", len(text))]


def without_comments(text: str) -> str:
    """Replace each comment of a SQL statement by a blank, hints included. What looks like a comment
    within quotes stays.
    """
    between: list[str] = []
    position = 0
    while (match := _COMMENT_OR_QUOTED.search(text, position)) is not None:
        if match["comment"]:
            between += text[position : match.start()], " "
            end = _comment_end(text, match.start())
            position = len(text) if end is None else end
        else:
            between.append(text[position : match.end()])
            position = match.end()
    return "".join((*between, text[position:]))


def _comment_end(text: str, start: int) -> int | None:
    """Return where the comment ends that begins at `start`; None where none begins, or it is not
    closed. A backslash before the end of a line continues the comment, and a comment in brackets
    may hold others."""
    if (line := _LINE_COMMENT.match(text, start)) is not None:
        return line.end()
    depth = 1
    for mark in (
        _COMMENT_BEGINS_OR_ENDS.finditer(text, start + 2) if text.startswith("/*", start) else ()
    ):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _token(match: re.Match[str], kind: str) -> Token:
    raw = match[0]
    match kind:
        case "raw":
            return Token("string", raw[2:-1], raw, match.start())
        case "string":
            return Token("string", unescaped(raw), raw, match.start())
        case "quoted":
            return Token(kind, raw[1:-1].replace("``", "`"), raw, match.start())
        case "hex":
            return Token(kind, raw[2:-1], raw, match.start())
        case "word":
            return Token(kind, raw.lower(), raw, match.start())
    return Token(kind, raw, raw, match.start())


def unescaped(quoted: str) -> str:
    """Unescape a quoted string as Spark does; a doubled quote is one quote. `\\%` and `\\_` keep
    their backslash, for LIKE.
    """
    quote, body = quoted[0], quoted[1:-1]

    def character(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            code = int(match[1] or match[2], 16)
            return chr(code) if code < 0x110000 else match[0]
        if match[3]:
            return chr(int(match[3], 8))
        return _ESCAPES.get(match[4], match[4])

    def replacement(match: re.Match[str]) -> str:
        if match[0] in ("''", '""') and match[0][0] == quote:
            return quote
        return character(match) if match[0][0] == "\\" else match[0]

    return _ESCAPE_OR_QUOTE.sub(replacement, body)


def error(text: str, position: int, problem: str, hint: str | None = None) -> ParseError:
    """Make a ParseError that shows the position in the text."""
    start = max(text.rfind("\n", 0, position) + 1, position - 60)
    line = text[start:].split("\n", 1)[0][:120]
    text = f"Cannot read the filter at position {position + 1}: {problem}.\n  {line}\n  {' ' * (position - start)}^"
    return ParseError(text, hint=hint, position=position)
