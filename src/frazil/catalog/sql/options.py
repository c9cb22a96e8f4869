"""Define the properties of catalogs in a SQL database, under Java's and PyIceberg's names."""

from __future__ import annotations

from frazil.catalog.options import NOUN, UNIQUE_LOCATION
from frazil.spec.options import BOOLEAN, TEXT, Option, OptionTable, one_of

URI = Option(
    "uri", TEXT, None,
    text="The database: `sqlite:///…`, `postgresql://…`, `mysql://…`, `mariadb://…` or `jdbc:…`.",
)  # fmt: skip
USER = Option("jdbc.user", TEXT, None, otherwise="that in `uri`", text="The user.")
PASSWORD = Option(
    "jdbc.password", TEXT, None, secret=True, otherwise="that in `uri`",
    text="The password. In a Spark session give it here: Spark masks settings by their names, and writes `uri` to its event log as it is.",
)  # fmt: skip
SCHEMA_VERSION = Option(
    "schema-version", one_of("v0", "v1"), None, aliases=("jdbc.schema-version",), otherwise="as the tables are; new ones `v1`",
    text="`v1` upgrades the catalog's own tables, so that they can hold views.",
)  # fmt: skip
MAY_CREATE = Option(
    "init-catalog-tables", BOOLEAN, True, aliases=("jdbc.init-catalog-tables",),
    text="Whether the catalog's own tables are created where the database has none.",
)  # fmt: skip
STRICT = Option(
    "jdbc.strict-mode", BOOLEAN, True, text="`false`: a namespace need not exist before its tables."
)  # fmt: skip
PRE_PING = Option(
    "pool-pre-ping", BOOLEAN, True,
    text="Whether a connection that was idle is tried before it is used; SQLite has none.",
)  # fmt: skip
ECHO = Option("echo", BOOLEAN, False, text="`true`: statements are logged.")
OPTIONS = OptionTable(
    NOUN,
    (URI, USER, PASSWORD, SCHEMA_VERSION, MAY_CREATE, STRICT, UNIQUE_LOCATION, PRE_PING, ECHO),
)
