"""The one form in which facts are shown: as text in columns, as HTML whose texts are escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from frazil.spec.fact_tree import FactNode, html_of, leaves, text_of

TREE = FactNode(
    "a scan",
    (("filter", "id < 3"), ("a name longer than others", "x\ny")),
    (
        FactNode("deletes: 2", (), leaves(["first <one>", "second"])),
        FactNode("", (("alone", "1"),)),
        FactNode("last"),
    ),
)


def test_texts_stand_below_each_other_and_levels_to_the_right() -> None:
    assert text_of(TREE).splitlines() == [
        "a scan",
        "                     filter  id < 3",
        "  a name longer than others  x",
        "                             y",
        "  deletes: 2",
        "    first <one>",
        "    second",
        "           alone  1",
        "  last",
    ]
    assert text_of(FactNode()) == "" and text_of(FactNode("only")) == "only"


def test_html_has_tables_of_facts_and_nodes_that_can_be_closed() -> None:
    page = html_of(TREE)
    assert page.count("<table>") == 2 and page.count("<details open>") == 1
    assert "<summary>deletes: 2</summary>" in page and "<p>first &lt;one&gt;</p>" in page
    assert "<pre>x\ny</pre>" in page and "id &lt; 3" in page and "<p>last</p>" in page


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


TEXTS = st.text("<>&'\"ab/ \n", max_size=12)
TREES = st.recursive(
    st.builds(FactNode, TEXTS),
    lambda below: st.builds(
        FactNode,
        TEXTS,
        st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
        st.lists(below, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@given(tree=TREES)
def test_no_text_is_taken_for_html(tree: FactNode) -> None:
    page = Page(html_of(tree))
    assert page.open == []
    assert page.seen <= set("div p table tbody tr th td pre details summary".split())


def every(tree: FactNode) -> list[FactNode]:
    return [tree, *(node for child in tree.children for node in every(child))]


@given(tree=TREES)
def test_the_text_holds_every_label_and_fact(tree: FactNode) -> None:
    shown = text_of(tree)
    for node in every(tree):
        for _, text in node.facts:
            assert all(line.rstrip() in shown for line in text.split("\n"))
