"""The report of a table: facts from metadata alone, and one page that needs nothing beside itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.report.page import overview_of, page_of
from frazil.table import Table
from tests import golden as golden_tables

VOID = {"meta", "br", "line", "circle", "rect", "path", "polyline", "polygon"}


class Page(HTMLParser):
    """Check that every element is closed in order, and collect headings, labels and what is asked
    of the network.
    """

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.labels: list[str] = []
        self.asked: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.asked += [v for k, v in attrs if k in ("src", "href") and v and not v.startswith("#")]
        if given.get("role") == "img":
            self.labels.append(given["aria-label"] or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


@pytest.fixture
def table() -> Iterator[Table]:
    with frazil.load_catalog("health", type="memory") as catalog:
        catalog.create_namespace("d")
        made = catalog.create_table(
            "d.<b>events",
            "id bigint, day date, s string",
            partition_by=["day"],
            sort_by=["id"],
            properties={"write.delete.mode": "merge-on-read"},
        )
        for i in range(12):
            ids = pa.array(range(i * 100, i * 100 + 50), pa.int64())
            made.append(
                pa.table(
                    {
                        "id": ids,
                        "day": [dt.date(2026, 1, 1 + i % 2)] * 50,
                        "s": [f"<i>{n}</i>" for n in range(50)],
                    }
                )
            )
        made.delete("id < 10")
        with made.manage_snapshots() as manage:
            manage.create_tag(made.snapshots()[1].snapshot_id, "first-week")
            manage.create_branch(made.snapshots()[2].snapshot_id, "audit")
        made.append(
            pa.table({"id": pa.array([7], pa.int64()), "day": [dt.date(2026, 1, 1)], "s": ["x"]}),
            branch="audit",
        )
        yield made


def test_the_facts_are_those_of_the_table(table: Table) -> None:
    health = table.report().health
    assert (
        dict(health.facts)["data files"] == "12"
        and dict(health.facts)["rows"] == "590"
        and dict(health.facts)["deleted rows in data files"] == "10"
    )
    assert health.moments[-1].rows == 590 == table.count()
    assert sum(c.files for c in health.sizes) == 12 and sum(c.bytes for c in health.sizes) == sum(
        table.inspect.data_files()["file_size_in_bytes"].to_pylist()
    )
    worst = health.partitions[0]
    assert (worst.name, worst.rows, worst.deleted_rows, health.partition_count) == (
        "day=2026-01-01",
        300,
        10,
        2,
    )
    by_name = {c.name: c for c in health.columns}
    assert by_name["id"].is_sorted_by and (by_name["id"].lower, by_name["id"].upper) == (
        "0",
        "1149",
    )
    assert by_name["id"].skipped is not None and by_name["id"].skipped > 0.8, (
        "files of separate ranges"
    )
    assert "2026-01-01" in by_name["day"].lower
    refs = {name: node for node in health.snapshots for name in node.refs}
    assert (
        set(refs) == {"main", "audit", "first-week"}
        and refs["audit"].parent_id == table.snapshots()[2].snapshot_id
    )
    assert health.manifests[0][3] == 12 and health.manifests[1][1] == 1
    assert [f.kind for f in health.findings] == [f.kind for f in table.maintenance.recommend()]


def test_the_page_stands_alone_and_is_sound(table: Table, tmp_path: Path) -> None:
    table.scan("id = 3").to_arrow()
    report = table.report(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text()
    page = Page(text)
    assert (
        page.asked == []
        and "script" not in page.tags
        and "http" not in text.replace("http-equiv", "")
    )
    assert "<b>events" in page.headings[0]
    wanted = {
        "What to do",
        "Growth",
        "File sizes",
        "Deletes by partition",
        "Snapshots, branches, tags",
        "Manifests",
    }
    assert wanted <= set(page.headings)
    assert (
        any(label.startswith("Size, with delete files: ") for label in page.labels)
        and "prefers-color-scheme:dark" in text
    )
    assert "<b>events" not in text.split("<body>")[1] and "<i>" not in text, (
        "names and values are escaped"
    )
    assert 'srcdoc="&lt;!doctype html' in report._repr_html_() and "small_files" in repr(report)


LAYOUTS = {  # the values of each file, and the share of files that a look-up skips
    "a region each": ([["eu"], ["us"], ["asia"]], 2 / 3),
    "one value": ([["eu"], ["eu"], ["eu"]], 0),
    "ranges apart": ([[0, 9], [10, 19], [1000, 2000], [5000, 9000]], 3 / 4),
    "the same range": ([[0, 1000], [0, 1000]], 0),
}


@pytest.mark.parametrize("files, skipped", LAYOUTS.values(), ids=LAYOUTS)
def test_what_look_ups_skip_is_measured_by_values_that_files_hold(
    files: list[list[object]], skipped: float
) -> None:
    with frazil.load_catalog("layout", type="memory") as catalog:
        catalog.create_namespace("d")
        made = catalog.create_table("d.t", pa.schema([("v", pa.array(files[0]).type)]))
        for values in files:
            made.append(pa.table({"v": values}))
        assert made.report().health.columns[0].skipped == pytest.approx(skipped)


def test_a_report_begins_with_how_the_table_is_and_says_how_much_it_leaves_out(
    table: Table,
) -> None:
    text = page_of(table.report().health)
    told = text.split('<p class="headline ill">')[1].split("</p>")[0]
    assert "10 of 600 rows are deleted" in told and "last commit just now" in told
    assert "small files slow full reads" in told and "<dl class" in text
    with frazil.load_catalog("wide", type="memory") as catalog:
        catalog.create_namespace("d")
        names = [f"c{n}" for n in range(300)]
        wide = catalog.create_table("d.t", pa.schema([(n, pa.int64()) for n in names]))
        assert wide.report().html().count("Nothing was committed to this table yet.") == 1
        for count in (1000, 10):
            wide.append(pa.table({n: pa.array(range(count), pa.int64()) for n in names}))
        health = wide.report().health
        assert "… 290 more columns" in page_of(health)
        assert page_of(replace(health, largest=("day=1", 990, 10))).count("partition day=1 holds")
        small = catalog.create_table("d.small", "id bigint")
        for n in range(2):
            small.append([{"id": n}])
        text = page_of(small.report().health)
        assert "below 1.0 KB" in text and ">2</text>" in text and text.count(">0</text>") == 2


@pytest.mark.parametrize("name, link", [("a#b", "d.a%23b.html"), ("50%", "d.50%25.html")])
def test_a_link_leads_to_a_table_of_any_name(table: Table, name: str, link: str) -> None:
    page = Page(overview_of("d", [(table.report().health, f"d.{name}.html")]))
    assert page.asked == [link]


def test_a_page_says_what_to_type_where_it_was_made(table: Table) -> None:
    report = table.report()
    assert "t.maintenance.auto()" in report.html() and "frazil auto" not in report.html()
    commands = page_of(report.health, lambda call: call.as_command("d.t"))
    assert "frazil auto d.t" in commands and "t.maintenance" not in commands


def test_a_table_without_snapshot_has_a_report(table: Table) -> None:
    with frazil.load_catalog("none", type="memory") as catalog:
        catalog.create_namespace("d")
        empty = catalog.create_table("d.t", "id bigint")
        page = Page(empty.report().html())
        assert "What to do" in page.headings and "Growth" not in page.headings


def test_growth_is_that_of_main(table: Table) -> None:
    """Snapshots of a branch, and those that were rolled back, are in the list of snapshots, but
    their totals were never the table's."""
    before = table.report().health.moments
    kept = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.append([{"id": 1}])
    table.manage_snapshots().rollback_to_snapshot(kept).commit()
    table.append([{"id": 2}], branch="audit")
    health = table.report().health
    assert health.moments == before and health.snapshot_count == len(before) + 3
    assert [m.files for m in before] == [*range(1, 13), 12]
    row = overview_of("d", [(health, "")]).split("<tbody>")[1].split("</tr>")[0]
    assert ">590<" in row and ">10<" in row and ">12<" in row


def test_many_snapshots_and_partitions_make_no_large_page(table: Table) -> None:
    with frazil.load_catalog("many", type="memory") as catalog:
        catalog.create_namespace("d")
        many = catalog.create_table("d.t", "id bigint", partition_by=["id"])
        many.append(pa.table({"id": pa.array(range(200), pa.int64())}))
        for _ in range(60):
            many.append(pa.table({"id": pa.array([1], pa.int64())}))
        health = many.report().health
        text = page_of(health)
        assert (
            len(health.partitions) == 25
            and health.partition_count == 200
            and "175 more partitions" in text
        )
        assert len(health.snapshots) == 40 and "21 older snapshots" in text and len(text) < 150_000


@pytest.mark.parametrize("name", golden_tables.names())
def test_golden_tables_have_a_sound_report(golden: golden_tables.Golden, name: str) -> None:
    table = frazil.load_table(golden[name].metadata_file)
    report = table.report()
    Page(report.html())
    assert report.health.snapshot_count == len(table.snapshots())
    assert sum(c.files for c in report.health.sizes) == table.inspect.data_files().num_rows


def test_a_namespace_has_a_page_with_those_first_that_need_the_most(table: Table) -> None:
    with frazil.load_catalog("two", type="memory") as catalog:
        catalog.create_namespace("d")
        idle = catalog.create_table("d.idle", "id bigint")
        text = overview_of(
            "two.d",
            [(idle.report().health, ""), (table.report().health, "events.html")],
            [("two.d.gone", "no <file>")],
        )
    page = Page(text)
    assert page.asked == ["events.html"] and text.index("events.html") < text.index("two.d.idle")
    assert "Could not be opened" in page.headings and "no &lt;file&gt;" in text
