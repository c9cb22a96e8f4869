"""List the commands of the command line, each with its options, and open what a command needs when
it runs.

Importing this module loads click and the registry of procedures only, so that `frazil --help`
answers at once.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import click

from frazil.cli.output import fail
from frazil.cli.procedures import NAMED, procedure_commands
from frazil.errors import FrazilError, StorageError
from frazil.spec.logs import JsonFormatter
from frazil.spec.version import VERSION

_OF_PYICEBERG = {  # what to type for a command of PyIceberg's that has another name here
    "list": "`frazil tables`", "list-refs": "`frazil refs`", "version": "`frazil --version`",
    **dict.fromkeys(("location", "uuid", "spec", "properties"), "`frazil describe TABLE`, or set_properties(…) of a table, in Python"),
    **{name: f"{name}_table(…) or {name}_namespace(…) of a catalog, in Python" for name in ("create", "drop")},
    "rename": "rename_table(…) of a catalog, in Python",
}  # fmt: skip
_SHORT = {  # what to type for a word that is no command
    "expire": "`frazil expire-snapshots`", "orphans": "`frazil remove-orphan-files`",
    "vacuum": "`frazil expire-snapshots` and `frazil remove-orphan-files`",
    **dict.fromkeys(("history", "log"), "`frazil snapshots TABLE`, or `frazil inspect TABLE history`"),
    **dict.fromkeys(("compact", "optimize"), "`frazil rewrite-data-files`"),
    "rollback": "`frazil rollback-to-snapshot` or `frazil rollback-to-timestamp`", "query": "`frazil sql`",
    **dict.fromkeys(("branches", "tags"), "`frazil refs TABLE`"), **dict.fromkeys(("ls", "show"), "`frazil tables`"),
    **{n: f"`frazil inspect TABLE {n}`" for n in ("partitions", "manifests", "entries", "delete-files", "data-files")},
}  # fmt: skip
_JSON = click.Option(["--json"], is_flag=True, help="Print JSON.")


class Command(click.Command):
    """Run a command; `--json` may stand behind it, too."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.params.append(_JSON)

    def invoke(self, context: click.Context) -> Any:
        """Run the command without `json`, which `output.wants_json` reads of the context. End an
        error of Frazil's with its message, and so one of the system's, as of a folder that is not
        there.
        """
        if self.callback is None:
            return None
        try:
            return context.invoke(
                self.callback, **{k: v for k, v in context.params.items() if k != "json"}
            )
        except FrazilError as e:
            fail(e)
        except BrokenPipeError:  # what reads the output has seen enough, as `head` has
            raise
        except OSError as e:
            where = "" if e.filename is None else f"{e.filename}: "
            fail(StorageError(f"{where}{e.strerror or e}", file=e.filename))


class Group(click.Group):
    """Take `_` for `-` in the names of commands, so that `frazil expire_snapshots` is what SQL
    calls it, and list commands by topic.
    """

    topics: dict[str, list[str]] = {}

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        name = name.replace("_", "-")
        if (call := {**_OF_PYICEBERG, **_SHORT}.get(name)) is not None:
            raise click.UsageError(f"There is no command {name}. Use {call}.", context)
        return super().get_command(context, name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for topic, names in self.topics.items():
            with formatter.section(topic):
                formatter.write_dl([(n, self.commands[n].get_short_help_str(100)) for n in names])


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(VERSION, prog_name="frazil")
@click.option("--json", is_flag=True, help="Print JSON.")
@click.option("--log", is_flag=True, help="Print log messages on stderr, with --json as JSON.")
def app(json: bool, log: bool) -> None:
    """Read, inspect and maintain Apache Iceberg tables.

    TABLE is a name, [catalog.]namespace.table, or the location of a table. Catalogs are configured
    in .frazil.yaml, .pyiceberg.yaml or the environment (FRAZIL_CATALOG__PROD__URI=…); where none is
    configured, a catalog in SQLite below ./warehouse is used.
    """
    if os.environ.get("NO_COLOR"):
        click.get_current_context().color = False
    if log:
        import logging

        text = logging.Formatter("%(levelname)s %(name)s: %(message)s")
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter() if json else text)
        logging.basicConfig(level=logging.INFO, handlers=[handler])


def _later(place: str) -> Callable[..., Any]:
    """Return a function that imports the one at `module:name` when it is called."""
    module, _, name = place.partition(":")

    def call(**arguments: object) -> Any:
        return getattr(importlib.import_module(f"frazil.cli.{module}"), name)(**arguments)

    return call


def _argument(name: str, **more: Any) -> click.Argument:
    return click.Argument([name], metavar=more.pop("metavar", name.upper()), **more)


def _option(name: str, help: str, **more: Any) -> click.Option:
    return click.Option([f"--{name}"], help=help, **more)


_TABLE = _argument("table")
_SNAPSHOT = _option("snapshot-id", f"The snapshot to look at: {NAMED}; by default the current one.")
_CATALOG = _option(
    "catalog",
    "The name of the catalog; by default the one called default, or the one that the setting default-catalog names.",
)
_WHERE = _option("where", "A filter in Spark SQL, as in \"id > 5 AND day = DATE '2026-01-01'\".")
_COUNT = click.IntRange(min=0)
_PORT: dict[str, Any] = {"type": click.IntRange(0, 65535), "show_default": True}
_LIMIT = _option("limit", "How many rows to print.", type=_COUNT, default=20, show_default=True)

# name, topic, help, parameters, function
LOOK, QUERY, CARE, MOVE = "Look at tables", "Query", "Keep in order", "Between catalogs"
COMMANDS: tuple[tuple[str, str, str, list[click.Parameter], str], ...] = (
    ("catalogs", LOOK, "List the configured catalogs.", [], "look:catalogs"),
    (
        "namespaces",
        LOOK,
        "List the namespaces of a catalog, by default of the default one.",
        [_argument("catalog", metavar="[CATALOG]", required=False)],
        "look:namespaces",
    ),
    (
        "tables",
        LOOK,
        "List the tables of a namespace or catalog, by default of the default catalog.",
        [_argument("namespace", metavar="[NAMESPACE]", required=False), _CATALOG],
        "look:tables",
    ),
    (
        "describe",
        LOOK,
        "Show a table: location, columns, partitioning, sort order, snapshot, size.",
        [_TABLE],
        "look:describe",
    ),
    ("schema", LOOK, "Show the columns of a table, with their ids.", [_TABLE], "look:schema"),
    ("snapshots", LOOK, "List the snapshots, oldest first.", [_TABLE], "look:snapshots"),
    ("refs", LOOK, "List branches and tags.", [_TABLE], "look:refs"),
    ("files", LOOK, "List data files and delete files.", [_TABLE, _SNAPSHOT], "look:files"),
    (
        "inspect",
        LOOK,
        "Print a metadata table: history, partitions, manifests, entries, …",
        [_TABLE, _argument("metadata_table", metavar="NAME"), _SNAPSHOT],
        "look:inspect",
    ),
    (
        "diff",
        LOOK,
        "Tell what changed between two snapshots (ids, branches, tags, main~3; TO is by default main): rows, files, schema.",
        [
            _TABLE,
            _argument("from_snapshot", metavar="FROM"),
            _argument("to_snapshot", metavar="[TO]", required=False),
            _option("rows", "Print the changed rows, too.", is_flag=True),
            _option(
                "limit",
                "How many rows, added files and removed files to print.",
                type=_COUNT,
                default=20,
                show_default=True,
            ),
        ],
        "diff:diff",
    ),
    (
        "sql",
        QUERY,
        "Run a SQL query: by DuckDB where it answers as Spark does, else by Spark, or by what is installed.",
        [
            _argument("query"),
            _option(
                "engine",
                "What runs the query.",
                type=click.Choice(["auto", "spark", "duckdb", "datafusion"]),
                default="auto",
                show_default=True,
            ),
            _option(
                "limit",
                "How many rows to print; 0: all.",
                type=_COUNT,
                default=1000,
                show_default=True,
            ),
        ],
        "query:sql",
    ),
    (
        "serve",
        QUERY,
        "Serve the catalogs to clients of Spark Connect, JDBC and dbt, until Ctrl-C or SIGTERM.",
        [
            _option("master", "Spark's master; by default Spark's own, else local[*]."),
            _option("conf", "A setting of Spark, KEY=VALUE; may be repeated.", multiple=True),
            _option("connect", "Port of Spark Connect; 0: any.", default=15002, **_PORT),
            _option("thrift", "Port of a Thrift server, for JDBC and dbt.", type=_PORT["type"]),
            _option("host", "The address to listen on.", default="127.0.0.1", show_default=True),
            _option(
                "token",
                "What clients must show, where others than this machine reach it; better in SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            ),
            _option(
                "grace",
                "Seconds that a stop leaves to what runs.",
                type=click.FloatRange(min=0),
                default=30,
                show_default=True,
            ),
            _option("check", "Exit with 0 if it is served there, else with 1.", is_flag=True),
        ],
        "serve:serve",
    ),
    (
        "head",
        QUERY,
        "Print some rows of a table.",
        [_TABLE, _WHERE, _option("columns", "Columns, separated by commas."), _LIMIT],
        "look:head",
    ),
    ("count", QUERY, "Count the rows of a table.", [_TABLE, _WHERE], "look:count"),
    (
        "explain",
        QUERY,
        "Tell which files a query with this filter reads and skips, and by which statistics.",
        [
            _TABLE,
            _WHERE,
            _option("why", "The location of a data file: tell why it is read or skipped."),
        ],
        "look:explain",
    ),
    (
        "report",
        CARE,
        "Write a page of HTML about a table's health, or about all tables of a namespace.",
        [
            _argument("name"),
            _option("out", "The file to write; by default NAME.html in the current folder."),
        ],
        "report:report",
    ),
    (
        "doctor",
        CARE,
        "Check Python, Java, PySpark, packages, catalogs and storage, and say what to do.",
        [_CATALOG],
        "doctor:doctor",
    ),
    (
        "create-namespace",
        MOVE,
        "Create a namespace, as in prod.db.",
        [_argument("namespace")],
        "look:create_namespace",
    ),
    (
        "copy",
        MOVE,
        "Copy a table's rows, schema, partitioning and properties to a new table, which may be in another catalog.",
        [
            _argument("source"),
            _argument("target"),
            _option("snapshot-id", f"The snapshot to copy: {NAMED}; by default the current one."),
        ],
        "move:copy",
    ),
    (
        "migrate-to",
        MOVE,
        "Move tables, or with --from all tables of a catalog, to CATALOG, without copying data.",
        [
            _argument("catalog", metavar="CATALOG"),
            _argument("tables", nargs=-1, metavar="[TABLE]...", required=False),
            _option("from", "The catalog to move from; by default that of the tables."),
            _option("dry-run", "Say what would be moved.", is_flag=True),
        ],
        "move:migrate_to",
    ),
    (
        "completion",
        MOVE,
        'Print the script by which bash, zsh or fish completes commands: eval "$(frazil completion bash)".',
        [_argument("shell", type=click.Choice(["bash", "zsh", "fish"]))],
        "move:completion",
    ),
)


def _add_commands() -> None:
    Group.topics = {topic: [] for topic in (LOOK, QUERY, CARE, MOVE)}
    for name, topic, text, parameters, place in COMMANDS:
        app.add_command(
            Command(
                name, params=list(parameters), help=text, short_help=text, callback=_later(place)
            )
        )
        Group.topics[topic].append(name)
    for name, text, parameters, callback in procedure_commands(_later("procedures_run:run")):
        app.add_command(
            Command(name, params=[*parameters], help=text, short_help=text, callback=callback)
        )
        Group.topics[CARE].append(name)


_add_commands()


def run() -> None:
    """Run the command that the process was started with."""
    app(prog_name="frazil")
