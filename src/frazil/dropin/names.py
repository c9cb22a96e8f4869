"""Tell whose a name is: one rule for every door of a prepared session."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pyspark.sql import DataFrame

from frazil.catalog import meanings
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names, default_name
from frazil.catalog.names import full_name, identifier_parts
from frazil.dropin.catalogs import (
    default_catalog,
    default_is_there,
    register,
    registered_in,
    spark_asks,
)
from frazil.errors import (
    FrazilError,
    InvalidInput,
    NoSuchTableError,
    NotFound,
    TableAlreadyExistsError,
)
from frazil.ops.find_table import FoundTable, find_in, find_table, is_location
from frazil.ops.session import Session
from frazil.spark.engine.read_target import ReadRequest, frame_of, target_of
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.jvm_catalog import (
    SESSION_CATALOG,
    current_catalog,
    current_namespace,
    has_database,
    knows_catalog,
)
from frazil.spark.host.jvm_views import is_temporary_view
from frazil.spark.host.quiet import quietly
from frazil.sql.catalog_calls import CatalogCalls
from frazil.sql.nodes import Name
from frazil.table.catalog import Catalog
from frazil.table.load import configured_catalog, loaded_catalogs, table_of
from frazil.table.table import Table

Purpose = Literal["any", "iceberg", "new"]
_NO_PLACE = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNSUPPORTED_FEATURE.TABLE_OPERATION")


@dataclass(frozen=True)
class TablePlace:
    """Hold a catalog of Frazil's and a name in it. `is_served`: Spark itself asks the catalog for
    what the name means."""

    calls: CatalogCalls
    parts: Name
    is_served: bool = False

    @property
    def catalog(self) -> Catalog:
        return self.calls.catalog

    @property
    def full(self) -> Name:
        """Return the whole name."""
        return (self.calls.name, *self.parts)

    def is_view(self) -> bool:
        """Tell whether the name is that of a view."""
        try:
            return len(self.parts) > 1 and self.calls.view_exists(self.parts)
        except FrazilError:
            return False

    def find(self, name: str | None = None) -> FoundTable:
        """Find the table. `name`: as it was given, for errors. Raises NoSuchTableError."""
        return find_in(self.calls.backend, self.parts, name)


def is_there(find: Callable[[], FoundTable]) -> bool:
    """Tell whether a table is found, or one of its metadata tables, branches, tags or snapshots;
    also one that is damaged, as its reader will report.
    """
    try:
        find()
    except NotFound:
        return False
    except FrazilError:
        return True
    return True


def whose(spark: Session, name: str | Name, purpose: Purpose = "any") -> TablePlace | None:
    """Tell whose a name is at this moment: return its place in a catalog of Frazil's; None where it
    is Spark's, nobody's or a location.

    The first of these counts: a table of the catalog that Frazil serves in the place of Spark's own
    one; a name that begins with a catalog of Frazil's; one that begins with another catalog; one
    within the current catalog; one of the default catalog that Spark does not know. `purpose`:
    "any": Spark's tables may have the name; "iceberg": an Iceberg table is asked for, so that the
    default catalog has what no other one has; "new": it may also be created. Raises InvalidInput
    for an Iceberg table without namespace, TableAlreadyExistsError for a new one whose name is that
    of a table of Spark's own.
    """
    if is_location(name):
        return None
    try:
        parts = identifier_parts(name) if isinstance(name, str) else tuple(name)
    except InvalidInput:  # which Spark reports
        if purpose == "any":
            return None
        raise
    # A copy, since `default_catalog` forgets the names when a setting or its place has changed.
    served, passing = register(spark), dict(registered_in(spark).passing)
    first, *rest = parts
    if (own := in_session_catalog(spark, parts, new=purpose == "new")) is not None:
        return own
    if rest and first != SESSION_CATALOG and first in served:
        return TablePlace(served[first], parts[1:], spark_asks(spark))
    current = current_catalog(spark) if spark_asks(spark) else SESSION_CATALOG
    if rest and first in passing and (first == current or not has_database(spark, first)):
        return TablePlace(default_catalog(spark), (*passing[first].prefix, *rest))
    if (
        first == DEFAULT_CATALOG
        and len(rest) > 1
        and (current == SESSION_CATALOG or default_is_there(spark))
    ):
        return TablePlace(default_catalog(spark), parts[1:])
    is_others = len(parts) > 1 and knows_catalog(spark, first)
    if not is_others and current != SESSION_CATALOG and current in {**served, **passing}:
        if not rest and is_temporary_view(spark, first):
            return None
        within = parts if rest else (*current_namespace(spark), first)
        if current in served:
            return TablePlace(served[current], within, True)
        return TablePlace(default_catalog(spark), (*passing[current].prefix, *within))
    if purpose == "any":
        if not rest or is_others or current != SESSION_CATALOG or not default_is_there(spark):
            return None
        of_default = TablePlace(served.get(default_name()) or default_catalog(spark), parts)
        its = not _spark_knows(spark, parts) and (is_there(of_default.find) or of_default.is_view())
        return of_default if its else None
    settings = session_catalogs(spark)
    catalog, within = meanings(parts, {}, spark_conf=settings)[0]
    if catalog is None or catalog == DEFAULT_CATALOG:
        return TablePlace(served.get(default_name()) or default_catalog(spark), within)
    return TablePlace(
        CatalogCalls(catalog, partial(configured_catalog, catalog, settings), spark), within
    )


def in_session_catalog(
    spark: Session, parts: Sequence[str], *, new: bool = False
) -> TablePlace | None:
    """Return the place of a table in the catalog that Frazil serves in the place of Spark's own one
    (SparkSessionCatalog); None for all other names. `new`: also of a table that could be created in
    a database of Spark's; raises TableAlreadyExistsError where the name is one of Spark's own
    tables."""
    served = register(spark)
    if SESSION_CATALOG not in served or not spark_asks(spark):
        return None
    if len(parts) > 1 and parts[0] == SESSION_CATALOG:
        within = tuple(parts[1:])
    elif (len(parts) > 1 and parts[0] in served) or current_catalog(spark) != SESSION_CATALOG:
        return None
    else:
        within = tuple(parts)
    if len(within) == 1:
        if within == tuple(parts) and is_temporary_view(spark, within[0]):
            return None
        within = (*current_namespace(spark), *within)
    place = TablePlace(served[SESSION_CATALOG], within, True)
    try:
        place.find()
    except NotFound:
        if not new or len(within) != 2 or not has_database(spark, within[0]):
            return None
        if _spark_knows(spark, within):
            text = f"{full_name(within)} is a table of Spark's own, not of Iceberg."
            raise TableAlreadyExistsError(text, table=full_name(within)) from None
    return place


def found(
    spark: Session, name: str, properties: Mapping[str, Any] = {}, purpose: Purpose = "iceberg"
) -> FoundTable:
    """Find the Iceberg table that a name or location means in a session. `properties`: those of its
    catalog or store that options give. Raises as `find_table` does."""
    place = None if properties else whose(spark, name, purpose)
    if place is None:
        return find_table(name, properties, session_catalogs(spark))
    return place.find(name)


def is_ours(spark: Session, name: str | Name) -> bool:
    """Tell whether reads and writes of a name or location go to Frazil."""
    return is_location(name) or whose(spark, name) is not None


def in_full(spark: Session, name: str) -> str:
    """Return the name of a table with the session's current catalog and namespace where they are
    left out and Frazil serves that catalog; other names and locations as they are.
    """
    place = whose(spark, name)
    return name if place is None or not place.is_served else full_name(place.full)


def _spark_knows(spark: Session, parts: Name) -> bool:
    """Tell whether Spark itself knows a table of this name, and not by way of the default catalog,
    under a name that the last statement had.
    """
    try:
        if parts[0] in registered_in(spark).passing:
            return True  # as a database of its own has the name
        with quietly():
            return bool(spark.catalog.spark_catalog.tableExists(full_name(parts)))
    except Exception:  # Spark refuses names whose catalog it does not know
        return False


@contextlib.contextmanager
def led_to_ours(spark: Session, name: str, hint: str) -> Iterator[None]:
    """Add a hint to Spark's error for a write to a table or namespace that it does not find: how to
    create the table in Frazil.

    Raises NoSuchTableError where the namespace is one of Frazil's default catalog.
    """
    with quietly():
        try:
            yield
        except Exception as error:
            if any(m in str(error) for m in _NO_PLACE):
                namespace = tuple(identifier_parts(name)[:-1])
                if namespace and _is_of_default_alone(spark, namespace):
                    message = f"Spark has no table {name}, and no namespace {full_name(namespace)}, which Frazil's default catalog has."
                    raise NoSuchTableError(message, hint=hint, table=name) from error
                error.add_note(hint)
            raise


def _is_of_default_alone(spark: Session, namespace: Name) -> bool:
    """Tell whether Frazil's default catalog has a namespace that Spark does not have."""
    if not default_is_there(spark):
        return False
    with contextlib.suppress(Exception), quietly():
        # Spark's own catalog has no namespaces of several parts
        if spark.catalog.spark_catalog.databaseExists(full_name(namespace)):
            return False
    try:
        return default_catalog(spark).namespace_exists(namespace)
    except FrazilError:
        return False


@dataclass(frozen=True)
class SessionNames:
    """Implement `sql.run.NamesOfTables` for a session. On Spark Connect, whose current catalog is
    the server's, names are whole."""

    spark: Session

    def is_ours(self, name: Name) -> bool:
        """Tell whether a name is within a catalog that Frazil serves, or is a table of the default
        catalog that Spark does not know.
        """
        return whose(self.spark, name) is not None

    def may_be_ours(self, name: Name) -> bool:
        """Tell whether a name can be a table of Frazil's, whichever catalog and namespace are
        current: it does not begin with a catalog of others.
        """
        return len(name) < 2 or name[0] in self.catalogs() or not knows_catalog(self.spark, name[0])

    def open(self, name: Name) -> tuple[Table, str | None]:
        """Open a table, and return it with the branch that the name selects. Raises
        NoSuchTableError, and InvalidInput for what takes no writes."""
        named = self._named(name)
        return table_of(named), named.written_branch()

    def frame(self, name: Name) -> DataFrame:
        """Return a DataFrame of a table, of the branch, tag or snapshot that the name selects, or
        of a metadata table. Raises NoSuchTableError."""
        return frame_of(self.spark, target_of(self._named(name), ReadRequest(full_name(name))))

    def _named(self, name: Name) -> FoundTable:
        place = whose(self.spark, name)
        return found(self.spark, full_name(name)) if place is None else place.find()

    def catalogs(self) -> Collection[str]:
        """Return the names of the catalogs that Frazil serves at this moment. They are looked over
        first: a statement from inside the JVM may be the first one since a setting changed."""
        return register(self.spark).keys() | registered_in(self.spark).passing.keys()

    def spelled(self, name: Name) -> Name:
        """Return the name with its catalog and namespace, by which expressions may call the table."""
        place = whose(self.spark, name)
        return name if place is None else place.full


def names_one_of(spark: Session, text: str) -> bool:
    """Tell whether a text may name a table of Frazil's: it has the name of one of its catalogs, or
    there is a default catalog.
    """
    names = {*configured_names(session_catalogs(spark)), *loaded_catalogs()} - {DEFAULT_CATALOG}
    return default_is_there(spark) or any(
        re.search(rf"(?<!\w){re.escape(name)}`?\s*\.", text) for name in names
    )
