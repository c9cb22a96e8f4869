"""The walls of the house: imports one way, a light `import frazil`, rooms that say what they do.
Sizes are advice: `sizes.py` reports them.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

# Lower rooms first; a room imports rooms before it only. Rooms of one line do not import each
# other.
LAYERS = [
    ["errors"],
    ["spec"],
    ["expr"],
    ["codec", "storage"],
    ["scan"],
    ["catalog"],
    ["tasks"],
    ["commit", "arrow"],
    ["rows"],
    ["ops"],
    ["stream", "maintain"],
    ["report"],
    ["spark"],
    ["table"],
    ["sql"],
    ["dropin"],
    ["cli", "testing"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
INSIDE = {  # rooms within a room, lower ones first; modules that stand in none of them may use all
    "arrow": ["footers", "values", "files", "write", "deletes", "read", "changelog"],
    "spark": [
        "host",
        "types",
        "tasks",
        "scan",
        "deletes",
        "read",
        "write",
        "dml",
        "streams",
        "engine",
        "catalog",
    ],
    "storage": [
        "locations",
        "real_paths",
        "secrets",
        "tuning",
        "base",
        "arrow_handler",
        "local",
        "memory",
        "credentials",
        "hdfs",
        "objects",
        "routing",
        "file_io",
    ],
    "stream": ["hooks", "source", "partitions", "sink", "engine"],
}
# names users import, gathered
FRONT = {
    "__init__",
    "expressions",
    "schema",
    "types",
    "partitioning",
    "transforms",
    "exceptions",
    "io",
    "logs",
    "metrics",
    "manifest",
    "typedef",
    "view",
}
MODULES = {
    ".".join(p.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): p
    for p in SRC.rglob("*.py")
}
SPARK_ROOMS = {"spark", "sql", "dropin", "testing"}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imported(name: str, node: ast.AST) -> list[str]:
    """Full names of the modules an import statement brings in."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = name.split(".") if MODULES[name].name == "__init__.py" else name.split(".")[:-1]
    stem = ".".join(
        [
            *(base[: len(base) - node.level + 1] if node.level else []),
            *([node.module] if node.module else []),
        ]
    )
    return [f"{stem}.{a.name}" if f"{stem}.{a.name}" in MODULES else stem for a in node.names]


def typing_only(tree: ast.AST) -> set[int]:
    guarded = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    return {id(inner) for n in guarded for statement in n.body for inner in ast.walk(statement)}


def edges() -> Iterator[tuple[str, str]]:
    """(module, module of ours that it imports, be it for types only)"""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            for target in imported(name, node):
                if target.split(".")[0] in ("frazil", "pyspark_frazil"):
                    yield name, target


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "frazil" else "__init__"


def test_rooms_import_only_rooms_below_them() -> None:
    wrong = []
    for source, target in edges():
        a, b = room(source), room(target)
        if a == b or a in FRONT or source.startswith("pyspark_frazil"):
            continue
        if b in FRONT or LEVEL[b] >= LEVEL[a]:
            wrong.append(f"{source} imports {target}")
    assert wrong == []


@pytest.mark.parametrize("outer", INSIDE)
def test_rooms_within_a_room_import_only_rooms_below_them(outer: str) -> None:
    order = INSIDE[outer]
    wrong = []
    for source, target in edges():
        a, b = source.split(".")[1:3], target.split(".")[1:3]
        if (
            len(a) == len(b) == 2
            and a[0] == b[0] == outer
            and a[1] != b[1]
            and order.index(b[1]) > order.index(a[1])
        ):
            wrong.append(f"{source} imports {target}")
    assert wrong == []


def door(room: str) -> set[str]:
    """What a room's `__init__` names in `__all__`: modules and names that other rooms may import."""
    for node in TREES[room].body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "__all__"
        ):
            return set(ast.literal_eval(node.value))
    return set()


def test_rooms_are_entered_by_their_doors() -> None:
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"} - {"frazil"}
    wrong = []
    for source, target in edges():
        parts = target.split(".")
        for depth in range(2, len(parts)):
            room = ".".join(parts[:depth])
            if (
                room in packages
                and source != room
                and not source.startswith(f"{room}.")
                and parts[depth] not in door(room)
            ):
                wrong.append(f"{source} imports {target}, which the door of {room} does not name")
    assert wrong == []


def imported_names(name: str) -> Iterator[str]:
    """Full names of what the imports of a module bring in, module by module and name by name."""
    for node in ast.walk(TREES[name]):
        for module in imported(name, node):
            yield module
            if isinstance(node, ast.ImportFrom):
                yield from (f"{module}.{a.name}" for a in node.names)


# doors, and modules at them, that users import by these paths; so they do what `public_names.txt`
# lists
FOR_USERS = {
    "pyspark_frazil.DefaultSource", "frazil.cli.main", "frazil.io.pyarrow", "frazil.table.refs", "frazil.table.metadata", "frazil.table.snapshots",
    "frazil.table.sorting", "frazil.table.update",
    "frazil.table.statistics", "frazil.table.views", "frazil.table.views.SQLViewRepresentation", "frazil.table.views.View",
    "frazil.table.views.ViewHistoryEntry", "frazil.table.views.ViewVersion",
}  # fmt: skip


def test_doors_name_only_what_is_asked_for_from_outside() -> None:
    promised = (ROOT / "tests" / "house" / "public_names.txt").read_text().splitlines()
    for_users = FOR_USERS | {line.partition("(")[0] for line in promised}
    importers: dict[str, set[str]] = {}
    for source in MODULES:
        for target in imported_names(source):
            parts = target.split(".")
            for depth in range(2, len(parts) + 1):
                importers.setdefault(".".join(parts[:depth]), set()).add(source)
    unused = []
    for room in (
        name for name, path in MODULES.items() if path.name == "__init__.py" and name != "frazil"
    ):
        for item in (f"{room}.{one}" for one in door(room)):
            outside = {
                s for s in importers.get(item, ()) if s != room and not s.startswith(f"{room}.")
            }
            if not outside and item not in for_users:
                unused.append(item)
    assert unused == []


def looked_up(module: str) -> dict[str, str]:
    """What a room shows at its door of a room above (`_FROM_ABOVE`), and the module that it is
    looked up in.
    """
    for node in TREES[module].body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "_FROM_ABOVE"
        ):
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    return {}


def test_what_is_looked_up_above_is_there_and_stays_little() -> None:
    """PyIceberg's nouns and its `catalog` know more than a low room may (docs/adr/0028): few
    modules ask for it by name.
    """
    users = {source for source, target in edges() if target == "frazil.spec.on_demand"}
    of_catalogs = {f"frazil.catalog{one}" for one in ("", ".hive", ".memory", ".rest", ".sql")}
    assert users == of_catalogs | {
        "frazil.catalog.load",
        "frazil.spec.schema",
        "frazil.table.catalog",
        "frazil.dropin",
        "frazil.table.inspect",
        "frazil.table.on_demand_types",
        "frazil.table.table",
    }
    for name, module in looked_up("frazil.catalog").items():
        assert getattr(importlib.import_module("frazil.catalog"), name) is getattr(
            importlib.import_module(f"frazil.{module}"), name
        )


def test_doors_name_what_is_there() -> None:
    gone = []
    for name, path in MODULES.items():
        if path.name == "__init__.py" and name != "frazil":
            given = {
                a.asname or a.name
                for n in TREES[name].body
                if isinstance(n, ast.ImportFrom)
                for a in n.names
            }
            given |= {
                n.name for n in TREES[name].body if isinstance(n, ast.FunctionDef | ast.ClassDef)
            }
            given |= {
                t.id
                for n in TREES[name].body
                if isinstance(n, ast.Assign)
                for e in n.targets
                for t in ast.walk(e)
                if isinstance(t, ast.Name)
            }
            given |= set(looked_up(name))
            gone += [
                f"{name}.{item}"
                for item in door(name)
                if item not in given and f"{name}.{item}" not in MODULES
            ]
    assert gone == []


def type_aliases(tree: ast.Module) -> Iterator[str]:
    """Names in CamelCase that a module gives to something at its top."""
    for node in tree.body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", target.id):
            yield target.id


def test_a_class_name_stands_for_one_class() -> None:
    """Also those of private classes; and a type alias does not have the name of a class elsewhere."""
    places: dict[str, list[str]] = {}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    for name, tree in TREES.items():
        for alias in type_aliases(tree):
            if alias in places:
                places[alias].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_room_is_known_to_the_rule() -> None:
    rooms = {room(m) for m in MODULES if m.startswith("frazil.")}
    assert rooms - LEVEL.keys() - FRONT == set()


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for source, target in edges():
        while target and target not in MODULES:
            target = target.rpartition(".")[0]
        if (
            target
            and target != source
            and not target.startswith(source + ".")
            and not source.startswith(target + ".")
        ):
            graph.setdefault(source, set()).add(target)
    state: dict[str, int] = {}

    def visit(module: str, trail: list[str]) -> list[str] | None:
        state[module] = 1
        for other in sorted(graph.get(module, ())):
            if state.get(other) == 1:
                return [*trail[trail.index(other) :], other]
            if other not in state and (found := visit(other, [*trail, other])):
                return found
        state[module] = 2
        return None

    assert [c for m in sorted(graph) if m not in state and (c := visit(m, [m]))] == []


def test_only_spark_rooms_know_pyspark() -> None:
    wrong = []
    for name, tree in TREES.items():
        if room(name) in SPARK_ROOMS or name.startswith("pyspark_frazil"):
            continue
        skipped = typing_only(tree)
        wrong += [
            name
            for n in ast.walk(tree)
            if id(n) not in skipped
            for t in imported(name, n)
            if t.split(".")[0] in ("pyspark", "py4j")
        ]
    assert wrong == []


TO_THE_JVM = {
    "_jvm", "_jdf", "_jsparkSession", "_jsc", "_jreader", "_jschema", "_jc", "_jsq", "_gateway", "_sc", "_instantiatedSession",
    "getClass", "getSimpleName",
}  # fmt: skip


def test_the_jvm_is_touched_in_its_files_only() -> None:
    """What leads to the JVM, as an attribute or as the text of one (`hasattr`), stands in
    `spark/host/jvm*.py`; so do the names of Catalyst's classes, and those of packages, to which
    other modules could join the name of a class."""
    texts = {
        n.id
        for n in ast.walk(TREES["frazil.spark.host.jvm"])
        if isinstance(n, ast.Name) and n.id.isupper()
    }
    packages = {
        n
        for n in texts
        if str(getattr(importlib.import_module("frazil.spark.host.jvm"), n, "")).endswith(".")
    }
    kinds = set(importlib.import_module("frazil.spark.host.jvm_plans").NodeKind)
    assert len(packages) == 3 and len(kinds) > 15
    inside, outside = 0, []
    for name, tree in TREES.items():
        if not name.startswith("frazil.spark.host.jvm"):
            joined = [
                a.name
                for n in ast.walk(tree)
                if isinstance(n, ast.ImportFrom)
                for a in n.names
                if a.name in packages
            ]
            named = [
                n.value
                for n in ast.walk(tree)
                if isinstance(n, ast.Constant) and room(name) == "spark" and n.value in kinds
            ]
            outside += [f"{name} {text}" for text in joined + named]
        for node in ast.walk(tree):
            touched = (
                node.attr
                if isinstance(node, ast.Attribute)
                else node.value
                if isinstance(node, ast.Constant)
                else None
            )
            java_class = isinstance(touched, str) and re.match(
                r"(org\.apache\.(spark|hadoop)|java|scala|com\.fasterxml)\.[\w.$]+$", touched
            )
            if not (java_class and room(name) == "spark") and touched not in TO_THE_JVM:
                continue
            if name.startswith("frazil.spark.host.jvm"):
                inside += 1
            else:
                outside.append(f"{name}:{node.lineno} {touched}")
    assert inside > 40 and outside == []


def test_own_imports_stand_at_the_top() -> None:
    inner = []
    for name, tree in TREES.items():
        for f in ast.walk(tree):
            if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef):
                inner += [
                    f"{name}.{f.name}"
                    for n in ast.walk(f)
                    for t in imported(name, n)
                    if t.startswith("frazil")
                ]
    assert len(inner) <= 3, inner  # the lazy doors: frazil/__init__ and the one that opens spark/


def test_tests_that_start_spark_in_a_process_of_their_own_are_marked() -> None:
    """Those that take a session of the process are held to it when they are collected
    (tests/conftest.py).
    """
    starts = re.compile(r"SparkSession\.builder|spark_session\(")
    unmarked = []
    for path in (p for p in (ROOT / "tests").rglob("test_*.py") if p != Path(__file__)):
        text, room_of_tests = (
            path.read_text(),
            ROOT / "tests" / path.relative_to(ROOT / "tests").parts[0],
        )
        scripts = [
            q.read_text()
            for q in room_of_tests.rglob("*.py")
            if f'"{q.name}"' in text or f'/{q.name}"' in text
        ]
        if (
            "subprocess" in text
            and any(map(starts.search, [text, *scripts]))
            and "mark.spark" not in text
        ):
            unmarked.append(str(path.relative_to(ROOT)))
    assert unmarked == []


CLOCKS = {f"{owner}.{call}" for owner in ("datetime", "dt.datetime", "datetime.datetime") for call in ("now", "today", "utcnow")} | {
    "time.time", "time.time_ns", "date.today", "dt.date.today", "datetime.date.today",
}  # fmt: skip


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What of a module is run when it is imported: all but the bodies of its functions."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for part in (*child.decorator_list, child.args):
                    yield part
                    yield from run_at_import(part)
            case ast.Lambda():
                yield from run_at_import(child.args)
            case _:
                yield child
                yield from run_at_import(child)


def test_tests_ask_no_clock_when_they_are_imported() -> None:
    """An hour after that time is over before a long run comes to the test. What is to lie in the
    future lies in 2099 or later.
    """
    asked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in run_at_import(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS
    ]
    assert asked == []


def test_four_doors_open_modules_of_ours_by_name() -> None:
    """`frazil.<name>` loads what it names, `table.engines` opens `spark/`, `spec.on_demand` what
    PyIceberg's nouns are asked for, and `frazil.sql`, which is a room and a function, the
    function's module; everything else is imported where one can see it."""
    of_ours = re.compile(r"import_module\((?![\"']pyspark)|__import__\(")
    by_name = {name for name, path in MODULES.items() if of_ours.search(path.read_text())}
    # functions that run in Spark's workers must not need Frazil before they have looked for it
    # there
    in_workers = {
        "frazil.spark.host.workers",
        "frazil.spark.tasks.numbered_groups",
        "frazil.spark.write.catalyst_transforms",
    }
    # and what a streaming query's processes get pickled imports in each of them only what that one
    # does
    in_workers.add("frazil.spark.streams.source.stream_reader")
    # options that name a class or function of the user's
    of_users = {
        "frazil.stream.partitions.callables",
        "frazil.catalog.reporting",
    }
    # each command opens what it needs, so that `frazil --help` answers at once
    command_line = {
        "frazil.cli",
        "frazil.cli.app",
        "frazil.cli.output",
        "frazil.cli.query",
    }
    assert by_name - in_workers - of_users - command_line == {
        "frazil",
        "frazil.sql",
        "frazil.table.engines",
        "frazil.spec.on_demand",
    }


def test_every_module_and_room_says_what_it_is() -> None:
    silent = [name for name, tree in TREES.items() if tree.body and ast.get_docstring(tree) is None]
    empty = [
        name
        for name, path in MODULES.items()
        if path.name == "__init__.py" and not ast.get_docstring(TREES[name])
    ]
    assert silent + empty == []


def python(code: str) -> tuple[str, float]:
    """What a program prints, and the seconds of a processor that it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return run.stdout.strip(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_frazil_loads_nothing_heavy() -> None:
    heavy = "pyspark pyarrow numpy pandas polars datafusion deflate fastavro sqlalchemy obstore msgspec".split()
    found, _ = python(
        f"import json, sys; import frazil; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    )
    assert json.loads(found) == []


def test_statements_of_sql_are_data_that_loads_no_arrow() -> None:
    found, _ = python("import sys; import frazil.sql.grammar; print('pyarrow' in sys.modules)")
    assert found == "False"


def test_import_frazil_takes_less_than_150_milliseconds() -> None:
    best, bare = (min(python(code)[1] for _ in range(5)) for code in ("import frazil", "pass"))
    assert best - bare < 0.15


@pytest.mark.parametrize(
    "name",
    [
        "load_catalog",
        "load_table",
        "spark_session",
        "configure",
        "install",
        "Schema",
        "errors",
        "expressions",
        "__version__",
    ],
)
def test_the_public_names_are_there(name: str) -> None:
    import frazil

    assert getattr(frazil, name) is not None
    assert name in dir(frazil)
