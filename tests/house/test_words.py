"""What must not stand in the project, and what must."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# as the package's page at a registry needs links
OURS = "https://github.com/frazil-py/frazil/blob/main"
TEXT = {".py", ".md", ".toml", ".sh", ".json", ".yml", ".yaml", ".cfg", ".txt", ""}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        return [
            ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()
        ]
    skipped = {".git", ".venv", ".cache"}
    return [
        p for p in ROOT.rglob("*") if p.is_file() and not skipped & set(p.relative_to(ROOT).parts)
    ]


def texts() -> list[tuple[str, str]]:
    return [
        (str(p.relative_to(ROOT)), p.read_text(errors="replace"))
        for p in tracked()
        if p.suffix in TEXT and p.stat().st_size < 1_000_000
    ]


def test_no_paths_of_somebodys_machine() -> None:
    pattern = re.compile(
        r"/(?:wor"
        + r"k/(?:main|shared)|ho"
        + r"me/\w+|tmp/(?:envs|peer|notes|contract)|roo"
        + r"t/)"
    )
    found = [
        f"{name}: {m[0]}"
        for name, text in texts()
        for m in pattern.finditer(text)
        if not name.startswith("tests/golden/")
    ]
    assert found == []


def test_no_keys_and_no_work_left_undone() -> None:
    pattern = re.compile(
        r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b|AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY"
    )
    ours = [
        (name, text)
        for name, text in texts()
        if not name.startswith(("tests/peers/", "tests/services/", "LICENSE"))
    ]
    assert [f"{name}: {m[0]}" for name, text in ours for m in pattern.finditer(text)] == []


@pytest.mark.parametrize(
    "name",
    "README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md KNOWN_GAPS.md LICENSE Makefile requirements.lock docs/adr docs/benchmarks.md .ci/run".split(),
)
def test_the_documents_are_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_package_is_typed_and_small() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = {re.split(r"[<>=\[ ;]", d)[0] for d in project["dependencies"]}
    assert base == {"pyarrow", "numpy", "msgspec", "deflate", "pyroaring", "pyyaml"}
    assert (ROOT / "src/frazil/py.typed").exists()
    assert project["license"] == "Apache-2.0"


def test_the_lock_file_holds_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(
            d
            for name, extra in project["optional-dependencies"].items()
            if name != "docs"  # has an environment of its own
            for d in extra
        ),
    ]
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.M))
    # that is built against the system's Kerberos, which not every machine has
    names = {re.split(r"[<>=\[ ;]", d)[0].lower() for d in wanted} - {
        "frazil",
        "gssapi",
    }
    assert names - locked == set()


def test_every_word_of_the_makefile_has_a_line_of_help() -> None:
    run = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    words = {line.split()[0] for line in run.stdout.splitlines() if line.strip()}
    assert {"help", "demo", "demo-stream", "test", "test-all", "check", "bench", "soak"} <= words


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in tracked():
        if path.suffix == ".md":
            prose = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.S)
            for target in re.findall(r"\]\(([^)#\s]*(?:/|\.md|\.py|\.sh)[^)#\s]*)[^)]*\)", prose):
                ours = target.startswith(f"{OURS}/")
                there = ROOT / target.removeprefix(f"{OURS}/") if ours else path.parent / target
                if (ours or "://" not in target) and not there.exists():
                    broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def test_the_navigation_of_the_site_has_every_page() -> None:
    """`make docs` fails on a page that has no place there."""
    listed = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {p.name for p in (ROOT / "docs").glob("*.md")}
    assert len(pages) > 15 and pages - listed == set()


def test_the_files_that_architecture_and_decisions_name_are_there() -> None:
    papers = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "adr").glob("*.md"))]
    paths = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]*(?:\.py)?)`")
    named = {(p.name, n) for p in papers for n in paths.findall(p.read_text())}
    others = {"transactions/commit", "metadata/_partition_commits/"}  # of a server, of a table
    gone = [
        (paper, n)
        for paper, n in sorted(named)
        if n not in others
        and not any((ROOT / d / n).exists() for d in ("src/frazil", "src", "."))
        and not (ROOT / "src/frazil" / f"{n}.py").exists()
    ]
    assert len(named) > 100 and gone == []
