"""Report the sizes of the house: files, functions and folders that outgrew their idea. Sizes are
advice, so nothing fails here.
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"


def report() -> str:
    """List the longest files and functions and the fullest folders, and the figures of the whole."""
    files = {path: path.read_text() for path in sorted(SRC.rglob("*.py"))}
    lines = {path.relative_to(SRC): text.count("\n") for path, text in files.items()}
    functions = [
        ((node.end_lineno or 0) - node.lineno + 1, f"{path.relative_to(SRC)}:{node.name}")
        for path, text in files.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    folders = Counter(str(path.parent) for path in lines)
    wide = sum(len(line) > 100 for text in files.values() for line in text.splitlines())
    said = [
        f"{sum(lines.values())} lines, {len(lines)} files, median {statistics.median(lines.values()):.0f} lines, {wide} lines over 100 characters"
    ]
    said += [
        f"{count} lines: {path}"
        for path, count in sorted(lines.items(), key=lambda item: -item[1])[:5]
        if count > 400
    ]
    said += [
        f"{size} lines: {place}" for size, place in sorted(functions, reverse=True)[:5] if size > 60
    ]
    said += [f"{count} files: {folder}" for folder, count in folders.most_common(5) if count > 20]
    return "\n".join(said)


if __name__ == "__main__":
    print(report())
