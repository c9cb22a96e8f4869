"""The tables of procedures in the documents are made of the registry.

After a change that is meant: `python -m tests.docs.test_procedures` writes them.
"""

from __future__ import annotations

from pathlib import Path

from frazil.maintain.procedures import PROCEDURES, Parameter

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- procedures -->\n"


def _shown(parameter: Parameter) -> str:
    if parameter.required:
        return f"`{parameter.name}`*"
    default = (
        {None: "", True: " (true)", False: " (false)"}.get(parameter.default)
        if parameter.default != {}
        else ""
    )
    return f"`{parameter.name}`{f' ({parameter.default})' if default is None else default}"


def as_markdown() -> str:
    """The table of procedures. An asterisk marks required parameters; those that only Frazil has
    stand behind a plus.
    """
    lines = [
        "| procedure | what it does | parameters (defaults) | output columns |",
        "|---|---|---|---|",
    ]
    for procedure in PROCEDURES:
        of_java = ", ".join(_shown(p) for p in procedure.parameters if not p.ours)
        ours = ", ".join(_shown(p) for p in procedure.parameters if p.ours)
        columns = ", ".join(f"`{c.name}`" for c in procedure.columns)
        text = procedure.text.removesuffix(".") + (" (Frazil's own)" if procedure.ours else "")
        lines.append(
            f"| `{procedure.name}` | {text} | {of_java}{f' + {ours}' if ours else ''} | {columns} |"
        )
    return "".join(f"{line}\n" for line in lines)


def written(page: Path) -> str:
    before, _, after = page.read_text().split(MARK)
    return f"{before}{MARK}{as_markdown()}{MARK}{after}"


if __name__ == "__main__":
    path = ROOT / "docs/procedures.md"
    path.write_text(written(path))
