"""Let a REST catalog's server plan scans: submit a scan, wait for its plan, fetch its tasks, cancel
a plan that is no longer needed.

A server answers with the tasks at once (`completed`) or names a plan to ask for again
(`submitted`). Either way it may name plan tasks instead of files; each is asked for, several at a
time, and may name further ones.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from frazil.catalog.backend import PlanHints
from frazil.catalog.base import Identifier, LoadedTable
from frazil.catalog.names import full_name
from frazil.catalog.rest.errors import ServerError, raised, scrubbed
from frazil.catalog.rest.http import Answer, Client
from frazil.catalog.rest.options import SCAN_PLANNING
from frazil.catalog.rest.routes import Routes
from frazil.catalog.rest.vended import StorageCredential
from frazil.codec.content_file_json import SIZES, ScanTasksJson
from frazil.codec.expression_json import filter_to_json
from frazil.errors import CorruptData, FrazilError, ScanPlanningError, Unsupported
from frazil.expr.bound import BoundReference, references
from frazil.scan.plan import Plan
from frazil.scan.report import PlannedByServer
from frazil.scan.served_plan import AskedScan, is_plain, plan_of_tasks, total_rows
from frazil.scan.snapshot_ref import schema_of
from frazil.storage import Storage

_TABLE = "namespaces/{}/tables/{}"
PLAN, FETCH, CANCEL, TASKS = (
    f"POST {_TABLE}/plan",
    f"GET {_TABLE}/plan/{{}}",
    f"DELETE {_TABLE}/plan/{{}}",
    f"POST {_TABLE}/tasks",
)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0
_AT_ONCE = 8
_MOST_TASKS = 1_000_000  # plan tasks of one scan
_LONGEST_NAME = 16_384  # of a plan or a plan task
_UNKNOWN = {"NoSuchPlanIdException", "NoSuchPlanTaskException"}
T = TypeVar("T", bound=ScanTasksJson)


class PlanningCatalog(Protocol):
    """Name what planning needs of a `RestBackend`."""

    name: str
    client: Client

    @property
    def routes(self) -> Routes: ...

    def ask_for_table(
        self,
        method: str,
        path: str,
        identifier: Identifier,
        config: Mapping[str, str],
        *,
        body: object = None,
        repeatable: bool = False,
    ) -> Answer: ...

    def storage_of_plan(
        self, table: LoadedTable, credentials: Sequence[StorageCredential], plan_id: str | None
    ) -> Storage: ...


class _Told(msgspec.Struct):
    message: str | None = None
    type: str | None = None
    code: int = 0


class _Planned(ScanTasksJson, rename="kebab", kw_only=True):
    status: str
    plan_id: str | None = None
    storage_credentials: list[StorageCredential] | None = None
    error: _Told | None = None


@dataclass(frozen=True)
class ServerPlanner:
    """Plan scans of a table by the server of its REST catalog. Pickled, it takes the catalog's
    properties with it.
    """

    catalog: PlanningCatalog = field(repr=False)
    table: LoadedTable

    def plan(self, scan: AskedScan, hints: PlanHints) -> Plan:
        """Plan the scan of a snapshot by the server. Raises as `ScanPlanner.plan` says."""
        begun = time.perf_counter_ns()
        self._check_offered()
        request = _request(scan, hints)
        asked = _Asked(self.catalog, self.table)
        answers = asked.answers(request)
        if "min-rows-requested" in request and total_rows(answers) < (hints.limit or 0):
            # empty files may have been counted as rows
            del request["min-rows-requested"]
            answers = asked.answers(request)
        storage = scan.storage
        if asked.credentials:
            storage = self.catalog.storage_of_plan(self.table, asked.credentials, asked.plan_id)
        by_server = PlannedByServer(
            self.catalog.client.settings.uri, asked.plan_id, asked.requests, storage
        )
        try:
            return plan_of_tasks(scan, answers, by_server, begun)
        except CorruptData as error:
            error.advise(
                f"The catalog's server {by_server.server} planned the scan so{_named(asked.plan_id)}."
            )
            raise

    def _check_offered(self) -> None:
        """Raise Unsupported where the server does not list that it plans scans, CorruptData where
        it tells an unknown mode.
        """
        mode, name = (
            self.table.config.get(SCAN_PLANNING.name, ""),
            f"{self.catalog.name}.{full_name(self.table.identifier)}",
        )
        server = self.catalog.client.settings.uri
        if mode.strip().lower() != "server":
            text = f"The catalog's server {server} tells {SCAN_PLANNING.name}={scrubbed(mode[:80], ())!r} for table {name}."
            raise CorruptData(text, hint="It is client or server.", table=name)
        if not self.catalog.routes.lists(PLAN):
            own = self.catalog.client.settings.planning == "server"
            hint = (
                f"Leave {SCAN_PLANNING.name} out of the catalog's properties."
                if own
                else "Ask who runs the server."
            )
            text = f"Scans of table {name} are to be planned by the catalog's server ({SCAN_PLANNING.name}=server)"
            text = f"{text}, but {server} does not list {PLAN}."
            raise Unsupported(text, hint=hint, table=name)


def _request(scan: AskedScan, hints: PlanHints) -> dict[str, Any]:
    """Return the body of a PlanTableScanRequest.

    The snapshot is always named: the table may have moved on since it was loaded. Columns are named
    only where the snapshot's schema and the table's agree on them, since not every server heeds
    `use-snapshot-schema` (Java's takes the snapshot's). Statistics are asked for of the filter's
    columns, so that files are known of which every row matches, and of a number or time, which
    shows their form.
    """
    names = _Names(scan)
    sent: dict[str, Any] = {
        "snapshot-id": scan.snapshot.snapshot_id,
        "case-sensitive": True,
        "use-snapshot-schema": not hints.follows_branch,
    }
    row_filter = filter_to_json(scan.row_filter, names.of)
    filtered_by = [
        name for r in references(scan.row_filter).values() if (name := names.of(r)) is not None
    ]
    if row_filter is not True:
        sent["filter"] = row_filter
    if filtered_by:
        shows = [
            f.field_id
            for f in scan.schema.fields
            if type(f.field_type) in SIZES and names.by_id(f.field_id) is not None
        ]
        telling = (
            {names.by_id(i) for i in shows[:1]}
            if not set(shows) & set(references(scan.row_filter))
            else set()
        )
        sent["stats-fields"] = sorted({*filtered_by, *(n for n in telling if n is not None)})
    if hints.columns is not None:
        tops = [names.by_id(i) for i in hints.columns]
        if tops and None not in tops:
            sent["select"] = sorted({*(n for n in tops if n is not None), *filtered_by})
    total = scan.snapshot.summary.get("total-records", "")
    if hints.limit and total.isdecimal() and int(total) > hints.limit and is_plain(scan.snapshot):
        sent["min-rows-requested"] = hints.limit
    return sent


@dataclass(frozen=True)
class _Names:
    """Name columns as both the snapshot's schema and that of the scan name them."""

    scan: AskedScan

    @cached_property
    def _schemas(self) -> tuple[Any, ...]:
        return (
            self.scan.schema,
            schema_of(self.scan.metadata, self.scan.snapshot),
            self.scan.metadata.schema(),
        )

    def of(self, reference: BoundReference) -> str | None:
        return (
            None if any("." in part for part in reference.path) else self.by_id(reference.field_id)
        )

    def by_id(self, field_id: int) -> str | None:
        name = self._schemas[0].find_column_name(field_id)
        if name is None:
            return None
        fields = [schema.get_field(name) for schema in self._schemas]
        same = all(
            f is not None and f.field_id == field_id and f.field_type == fields[0].field_type
            for f in fields
        )
        return name if same else None


@dataclass
class _Asked:
    """Ask the server for plans of one scan, and remember its id of the plan, the credentials that
    it gave, and the number of requests.
    """

    catalog: PlanningCatalog
    table: LoadedTable
    plan_id: str | None = None
    credentials: Sequence[StorageCredential] = ()
    requests: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    @cached_property
    def name(self) -> str:
        return f"{self.catalog.name}.{full_name(self.table.identifier)}"

    @cached_property
    def path(self) -> str:
        return self.catalog.routes.table(self.table.identifier)

    def answers(self, request: dict[str, Any]) -> list[ScanTasksJson]:
        """Ask for a plan of a scan and return its tasks. A plan that is not fetched to its end is
        cancelled, whatever the reason.
        """
        planned = self._decoded(self._ask("POST", "plan", request), _Planned)
        self.plan_id, self.credentials = (
            self._checked_name(planned.plan_id, "plan"),
            planned.storage_credentials or (),
        )
        held = planned.status in ("submitted", "completed")
        try:
            if planned.status == "submitted":
                planned = self._finished()
                self.credentials = planned.storage_credentials or self.credentials
            if planned.status != "completed":
                held = held and planned.status not in ("failed", "cancelled")
                raise self._unfinished(planned)
            return [planned, *self._of_plan_tasks(planned.plan_tasks or ())]
        except BaseException:
            if held:
                self._cancel()
            raise

    def _ask(self, method: str, path: str, body: object = None) -> Answer:
        with self._lock:
            self.requests += 1
        table = self.table
        answer = self.catalog.ask_for_table(
            method,
            f"{self.path}/{path}",
            table.identifier,
            table.config,
            body=body,
            repeatable=True,
        )
        if answer.error is None:
            return answer
        what, plan = f"Table {self.name}", _named(self.plan_id)
        if answer.error.type in _UNKNOWN:
            text = f"{what}: the catalog's server {self.server} no longer knows the plan of the scan{plan}: {answer.error}."
            raise ScanPlanningError(text, hint="Read again.", **self._facts)
        error = raised(
            answer.error,
            f"{what}: planning a scan by the server {self.server}{plan}",
            table=self.name,
        )
        error.facts |= {k: v for k, v in self._facts.items() if v is not None}
        raise error

    @property
    def server(self) -> str:
        return self.catalog.client.settings.uri

    @property
    def _facts(self) -> dict[str, Any]:
        return {"table": self.name, "server": self.server, "plan_id": self.plan_id}

    def _decoded(self, answer: Answer, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            text = f"The catalog's server answers {answer.request_line} with no valid plan of a scan: {str(error)[:300]}"
            raise CorruptData(text, hint="Ask who runs the server.", **self._facts) from None

    def _checked_name(self, name: str | None, what: str) -> str | None:
        """Refuse the name of a plan that would lead to another path: `DELETE …/tables/t/plan/..`
        would drop the table.
        """
        if name is not None and (name.strip() in ("", ".", "..") or len(name) > _LONGEST_NAME):
            raise CorruptData(
                f"The catalog's server {self.server} names a {what} {name[:40]!r}.", **self._facts
            )
        return name

    def _finished(self) -> _Planned:
        """Ask for a submitted plan, with growing waits, until it is finished. Raises
        ScanPlanningError when that takes too long.
        """
        if self.plan_id is None:
            text = f"The catalog's server {self.server} plans a scan of table {self.name}, but does not name the plan."
            raise CorruptData(text, **self._facts)
        self._check_listed(FETCH, "asked for later")
        limit, pause = self.catalog.client.settings.poll_timeout, _FIRST_WAIT_S
        until = time.monotonic() + limit
        while True:
            left = until - time.monotonic()
            if left <= 0:
                text = f"Table {self.name}: the catalog's server {self.server} has not planned the scan within {limit:g} s"
                text = f"{text}{_named(self.plan_id)}."
                raise ScanPlanningError(
                    text,
                    hint="rest-scan-planning.poll-timeout-ms sets how long to wait.",
                    **self._facts,
                )
            time.sleep(min(pause, left))
            planned = self._decoded(
                self._ask("GET", f"plan/{quote(self.plan_id, safe='')}"), _Planned
            )
            if planned.status != "submitted":
                return planned
            pause = min(2 * pause, _LONGEST_WAIT_S)

    def _unfinished(self, planned: _Planned) -> FrazilError:
        """Return the error for a plan that failed or was cancelled, or of which the server tells no
        known status.
        """
        where = f"Table {self.name}: the catalog's server {self.server}"
        if planned.status == "cancelled":
            text = f"{where} has cancelled the plan of the scan{_named(self.plan_id)}."
            return ScanPlanningError(text, hint="Read again.", **self._facts)
        if planned.status == "failed":
            failure, secrets = planned.error or _Told(), self.catalog.client.secrets()
            error = ServerError(
                failure.code,
                scrubbed(failure.type or "", secrets),
                scrubbed(failure.message or "", secrets),
            )
            return ScanPlanningError(
                f"{where} failed to plan the scan{_named(self.plan_id)}: {error}.", **self._facts
            )
        return CorruptData(
            f"{where} tells the unknown status {planned.status[:40]!r} of a plan{_named(self.plan_id)}.",
            **self._facts,
        )

    def _of_plan_tasks(self, names: Sequence[str]) -> list[ScanTasksJson]:
        """Read plan tasks, and those that they name, several at a time."""
        if not names:
            return []
        self._check_listed(TASKS, "fetched")
        plan_tasks: set[str] = set()
        answers: list[ScanTasksJson] = []
        with _pool(min(_AT_ONCE, max(2, len(names)))) as submit:
            running = {submit(self._fetch, name) for name in self._new(names, plan_tasks)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    answer = future.result()
                    answers.append(answer)
                    running |= {
                        submit(self._fetch, name)
                        for name in self._new(answer.plan_tasks or (), plan_tasks)
                    }
        return answers

    def _new(self, names: Sequence[str], plan_tasks: set[str]) -> list[str]:
        """Add names of plan tasks to the known ones. Raises CorruptData for one that was named
        before: planning would never end.
        """
        for name in names:
            if name in plan_tasks or len(plan_tasks) >= _MOST_TASKS:
                text = (
                    f"names the plan task {name[:40]!r} twice"
                    if name in plan_tasks
                    else f"names more than {_MOST_TASKS} plan tasks"
                )
                raise CorruptData(
                    f"The catalog's server {self.server} {text}{_named(self.plan_id)}.",
                    **self._facts,
                )
            plan_tasks.add(name)
        return list(names)

    def _fetch(self, name: str) -> ScanTasksJson:
        return self._decoded(self._ask("POST", "tasks", {"plan-task": name}), ScanTasksJson)

    def _check_listed(self, endpoint: str, what: str) -> None:
        if not self.catalog.routes.lists(endpoint):
            text = f"The catalog's server {self.server} has planned a scan of table {self.name}, but its plan cannot be {what}"
            text = f"{text}: {endpoint} is not listed."
            raise Unsupported(text, hint="Ask who runs the server.", **self._facts)

    def _cancel(self) -> None:
        """Tell the server that the plan is no longer needed. What comes of it changes nothing."""
        if self.plan_id is not None and self.catalog.routes.lists(CANCEL):
            with contextlib.suppress(FrazilError):
                self._ask("DELETE", f"plan/{quote(self.plan_id, safe='')}")


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[Callable[..., Future[Any]]]:
    """Run calls in threads; after an error those that wait are not begun."""
    with ThreadPoolExecutor(workers, thread_name_prefix="frazil-plan") as pool:

        def submit(call: Callable[..., Any], *arguments: object) -> Future[Any]:
            return pool.submit(call, *arguments)

        try:
            yield submit
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _named(plan_id: str | None) -> str:
    return "" if plan_id is None else f" (plan {plan_id[:100]})"
