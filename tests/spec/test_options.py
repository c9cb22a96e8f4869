"""Options are read in one way: names in any spelling, values by their kind, and what is wrong told
with the option, its value and what it takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.spec import options as k
from frazil.spec.options import Option, OptionTable, did_you_mean, folded

SIZE = Option("target-size", k.SIZE, 100, "target")
MERGE = Option(
    "merge-schema",
    k.BOOLEAN,
    False,
    verbs=("append", "merge"),
    why="it has no frame",
    aliases=("mergeschema",),
)
TABLE = OptionTable(
    "write option",
    (SIZE, MERGE, Option("property.a", k.TEXT, ""), Option("part.delay", k.DURATION, 0), Option("mode", k.one_of("fast", "Slow", "none"), "fast"), Option("keys", k.NAMES, ())),
    {"shred-variants": "variants are written unshredded"}, (Option("property.<name>", k.TEXT, ""),),
)  # fmt: skip


def test_a_name_is_found_in_every_spelling() -> None:
    for key in ("part.delay", "PART_DELAY", "part-delay", " Part_Delay "):
        assert TABLE.read({key: "1 s"}) == {"part.delay": 1000}
    assert (
        TABLE.read({"mergeSchema": "true"}) == {"merge-schema": True} and TABLE.find("merg") is None
    )
    assert folded("A.b_C-d") == "a-b-c-d"


def test_a_value_that_is_absent_or_none_is_the_default() -> None:
    values = TABLE.read({"target_size": None, "merge_schema": True})
    assert (SIZE.of(values), MERGE.of(values)) == (100, True) and values == {"merge-schema": True}
    assert (
        TABLE.fields(TABLE.read({"target-size": "1k", "mode": "SLOW"}))
        == {"target": 1024}
        != TABLE.fields({})
        == {"target": 100}
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"target_size": "big"}, "Write option 'target-size' must be a size in bytes, not 'big'."),
        ({"merge-schema": "yes"}, "Write option 'merge-schema' must be true or false, not 'yes'."),
        ({"merge-schema": 1}, "Write option 'merge-schema' must be true or false, not 1."),
        ({"mode": 3}, "Write option 'mode' must be one of fast, Slow, none, not 3."),
        (
            {"part.delay": "soon"},
            "Write option 'part.delay' must be a duration such as 30 min, 1 h or 1 d, not 'soon'.",
        ),
        (
            {"mode": "fast", "MODE": "slow"},
            "Write option 'mode' is given twice, as 'fast' and as 'Slow'. Give it once.",
        ),
        (
            {"merge-shema": True},
            "Unknown write option: 'merge-shema'. Did you mean 'merge-schema'? Known: keys, "
            "merge-schema, mode, part.delay, property.<name>, target-size.",
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_option_its_value_and_what_it_takes(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        TABLE.read(given)
    assert str(error.value) == told and folded(error.value.facts["option"]) in {
        folded(name) for name in given
    }


def test_one_value_may_be_given_twice_in_two_spellings() -> None:
    assert TABLE.read(
        {
            "target-size": "1k",
            "target_size": 1024,
            "part.delay": timedelta(seconds=2),
            "part_delay": "2 s",
        }
    ) == {
        "target-size": 1024,
        "part.delay": 2000,
    }


def test_an_option_that_means_nothing_to_a_verb_is_refused_and_one_of_another_engine_with_the_reason() -> (
    None
):
    assert (
        TABLE.read({"merge-schema": True}, "merge")
        and TABLE.read({"merge-schema": None}, "delete") == {}
    )
    with pytest.raises(
        InvalidInput,
        match="'merge-schema' means nothing to delete: it has no frame.* it belongs to append, merge",
    ):
        TABLE.read({"merge_schema": True}, "delete")
    with pytest.raises(
        Unsupported, match="'Shred_Variants' is not supported here: variants are written unshredded"
    ):
        TABLE.read({"Shred_Variants": None})


def test_options_of_other_engines_are_refused_by_a_pattern_of_their_names() -> None:
    table = OptionTable("read option", (SIZE,), {"async-*": "batches are planned when wanted"})
    assert table.knows("async.queue_limit") and not table.knows("async")
    with pytest.raises(Unsupported, match="'Async_Limit' is not supported here: batches are"):
        table.read({"Async_Limit": 1})


def test_a_fixed_option_takes_its_default_only() -> None:
    table = OptionTable(
        "read option",
        (Option("locality", k.BOOLEAN, False, fixed=True, why="tasks name no hosts"),),
    )
    assert table.read({"locality": "FALSE"}) == {"locality": False}
    with pytest.raises(
        Unsupported, match="'locality' cannot be true here: tasks name no hosts. Leave it out."
    ):
        table.read({"locality": True})
    with pytest.raises(InvalidInput, match="must be true or false"):
        table.read({"locality": "maybe"})


def test_the_value_of_an_option_is_found_before_it_is_read() -> None:
    assert MERGE.given({"MERGE_schema": None, "mergeschema": "yes", "mode": 1}) == "yes"
    assert MERGE.given({"mode": 1}) is None


def test_errors_and_documents_list_a_family_of_options_in_place_of_its_members() -> None:
    names = [o.name for o in TABLE.listed]
    assert "property.a" not in names and names[-1] == "property.<name>"


def test_messages_can_call_an_option_by_where_it_was_set() -> None:
    with pytest.raises(InvalidInput, match="^The setting 'x.mode' must be"):
        TABLE.read({"mode": "no"}, label="The setting 'x.{}'")


def test_no_option_is_suggested_for_a_name_that_resembles_none() -> None:
    assert (
        did_you_mean("zebra", ("mode", "keys")) == ""
        and did_you_mean("Modee", ("mode",)) == " Did you mean 'mode'?"
    )


READ = [
    (k.whole(-1), "+7", 7), (k.whole(-1), -1, -1), (k.INTEGER, " -12 ", -12), (k.SHARE, "1", 1.0), (k.FACTOR, 2.5, 2.5),
    (k.NAMES, "a, b", ("a", "b")), (k.NAMES, ["a"], ("a",)), (k.NAME, " a", " a"), (k.TEXT, "", ""), (k.BOOLEAN, False, False),
]  # fmt: skip
NOT_READ = [
    (k.whole(-1), -2), (k.whole(1), 1.5), (k.INTEGER, "1_0"), (k.INTEGER, "²"), (k.SHARE, 0), (k.SHARE, 1.1), (k.FACTOR, "inf"), (k.FACTOR, "x"),
    (k.NAMES, ""), (k.NAMES, "a,,b"), (k.NAMES, []), (k.NAMES, 3), (k.NAMES, [1]), (k.NAME, " "), (k.NAME, 5), (k.TEXT, ["a"]), (k.BOOLEAN, "0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "value"), READ)
def test_a_value_is_read_by_its_kind(kind: k.ValueKind[Any], given: Any, value: Any) -> None:
    assert kind.parse("It", given) == value and type(kind.parse("It", given)) is type(value)


@pytest.mark.parametrize(("kind", "given"), NOT_READ)
def test_what_is_not_of_the_kind_is_refused(kind: k.ValueKind[Any], given: Any) -> None:
    with pytest.raises(InvalidInput, match="^It must be ") as told:
        kind.parse("It", given)
    assert kind.description in str(told.value) and str(told.value).endswith(f"not {given!r}.")
