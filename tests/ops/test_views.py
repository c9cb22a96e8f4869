"""Views: which table a name in their query means, and changes beside other writers."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.catalog import CatalogBackend, Conflict, Unknown
from frazil.catalog.base import LoadedView
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    InvalidInput,
    NoSuchTableError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.ops.views import create_view, named_in_query, replace_view, version_of
from frazil.spec.ddl import parse_schema
from frazil.spec.view import ViewVersion, new_view

PARTS, NAME = ("db", "v"), "mem.db.v"


def version(
    sql: str | None = "SELECT 1 AS id",
    namespace: Any = None,
    catalog: str | None = None,
    given: Any = None,
) -> ViewVersion:
    return version_of(given, sql, namespace, catalog, PARTS)


class Rival:
    """Stand before a catalog, and answer the next changes of views as `answers` say."""

    def __init__(self, inner: CatalogBackend, *answers: object):
        self.inner, self.answers, self.given = inner, [*answers], 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def views(self) -> Any:
        return self

    def swap_view(self, base: LoadedView, metadata: Any) -> Any:
        if self.answers:
            self.given += 1
            return self.answers.pop(0)
        return self.inner.swap_view(base, metadata)  # type: ignore[attr-defined]


@pytest.fixture
def view(backend: CatalogBackend) -> LoadedView:
    return create_view(backend, PARTS, new_view("", parse_schema("id int"), version(), {}), NAME)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.ops.views.time.sleep", lambda _: None)


@pytest.mark.parametrize(
    ("parts", "default_catalog", "means"),
    [
        (("t",), None, ("mem", ("ns", "t"))),
        (("a", "t"), None, ("mem", ("a", "t"))),
        (("other", "a", "t"), None, ("other", ("a", "t"))),
        (("a", "b", "t"), None, ("mem", ("a", "b", "t"))),
        (("other", "t"), None, ("mem", ("other", "t"))),
        (("t",), "other", ("other", ("ns", "t"))),
        (("spark_catalog", "a", "t"), None, ("spark_catalog", ("a", "t"))),
    ],
)
def test_a_name_in_a_query_means_a_table_of_the_version_s_catalog_unless_it_tells_one(
    parts: tuple[str, ...], default_catalog: str | None, means: tuple[str, tuple[str, ...]]
) -> None:
    assert (
        named_in_query(
            parts, version(namespace="ns", catalog=default_catalog), NAME, "mem", ["other"]
        )
        == means
    )


def test_a_catalog_that_is_not_configured_is_told() -> None:
    with pytest.raises(
        NoSuchTableError,
        match=r"view mem\.db\.v names ns\.t in catalog 'gone', which is not configured",
    ):
        named_in_query(("t",), version(namespace="ns", catalog="gone"), NAME, "mem", ["other"])


def test_the_version_is_that_of_the_arguments() -> None:
    made = version_of(None, {"spark": "SELECT 1", "trino": "SELECT 2"}, None, "cat", PARTS)
    assert (made.default_namespace, made.default_catalog, set(made.queries)) == (
        ("db",),
        "cat",
        {"spark", "trino"},
    )
    assert version(namespace="a.b").default_namespace == ("a", "b") and version(
        namespace=("a.b",)
    ).default_namespace == ("a.b",)
    assert version(None, given=made) is made


@pytest.mark.parametrize(
    "arguments",
    [
        {"sql": None},
        {"given": version()},
        {"sql": None, "given": "SELECT 1"},
        {"sql": " "},
        {"sql": None, "given": version(), "namespace": "a"},
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        version(**arguments)


def test_a_name_is_taken_once(backend: CatalogBackend, view: LoadedView) -> None:
    with pytest.raises(ViewAlreadyExistsError, match=r"Table or view already exists: mem\.db\.v"):
        create_view(backend, PARTS, view.metadata, NAME)


def test_a_change_is_made_again_when_another_writer_was_first(
    backend: CatalogBackend, view: LoadedView
) -> None:
    rival: Any = Rival(backend, Conflict("a"), Conflict("b"))
    changed = replace_view(rival, PARTS, version("SELECT 2 AS id"), None, {"k": "v"}, NAME)
    assert (
        rival.given == 2
        and changed.metadata.properties["k"] == "v"
        and len(changed.metadata.versions) == 2
    )
    assert changed.metadata.current_version().queries["spark"].sql == "SELECT 2 AS id"


def test_a_change_that_always_loses_and_one_without_an_answer_are_told_apart(
    backend: CatalogBackend, view: LoadedView
) -> None:
    loser: Any = Rival(backend, *[Conflict(f"writer {n}") for n in range(9)])
    with pytest.raises(
        CommitFailedException, match=r"could not be changed in 5 attempts: writer 4"
    ):
        replace_view(loser, PARTS, version("SELECT 2 AS id"), None, {}, NAME)
    unknown: Any = Rival(backend, Unknown(OSError("reset")))
    with pytest.raises(
        CommitStateUnknownException, match="not known whether view mem.db.v was changed: reset"
    ):
        replace_view(unknown, PARTS, version("SELECT 2 AS id"), None, {}, NAME)
    assert (loser.given, unknown.given) == (5, 1) and len(
        backend.load_view(PARTS).metadata.versions
    ) == 1  # type: ignore[attr-defined]


def test_a_materialized_view_is_not_replaced(backend: CatalogBackend) -> None:
    from dataclasses import replace

    stored = replace(version(), extra={"storage-table": {"namespace": ["db"], "name": "s"}})
    create_view(backend, PARTS, new_view("", parse_schema("id int"), stored, {}), NAME)
    with pytest.raises(Unsupported, match="is materialized"):
        replace_view(backend, PARTS, version("SELECT 2 AS id"), None, {}, NAME)
