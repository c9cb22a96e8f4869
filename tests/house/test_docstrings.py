"""Check that docstrings begin with a verb, so that each says what its module, class or function
does.
"""

from __future__ import annotations

import ast

from tests.house.test_structure import MODULES, TREES

VERBS = frozenset(
    """
    Act Adapt Add Adopt Advise Alias Annotate Announce Answer Append Apply Ask Assign Attach Begin Bind Bound Bring Build Cache Call Cancel Carry Cast
    Change Check Choose Clean Clear Close Cluster Collapse Collect Combine Commit Compare Compile Complete Compute Concatenate Conform Consume
    Control Convert Copy Correct Count Create Cut Decide Decode Decompress Define Delete Derive Describe Distribute Divide Do Draw Drop Encode
    End Escape Estimate Evaluate Evolve Exchange Expand Expire Explain Export Express Extract Fill Filter Find Finish Fit Flag Fold Format Gather Give
    Group Hand Hash Hide Hold Hook Identify Implement Import Index Inject Insert Intersect Iterate Join Keep Lay Leave Let List Load Lock Log
    Look Maintain Make Manage Map Mark Mask Match Merge Mix Move Multiply Name Narrow Normalise Note Number Open Order Overwrite Pack Page Pair Parse
    Partition Pass Pick Pickle Plan Point Prepare Present Print Produce Project Provide Prune Publish Pull Put Qualify Queue Quote Raise Rank Read
    Rebuild Recognise Record Reduce Refer Refresh Refuse Register Remove Rename Repeat Replace Report Represent Require Reset Resolve Return
    Rewrite Roll Round Route Run Say Scan Select Serve Separate Set Share Shorten Show Shuffle Sort Spell Spill Split Stage Stand Start Stop Store
    Stream Strip Suggest Sum Summarise Swap Sync Tag Take Tell Test Track Translate Truncate Turn Unescape Unify Unite Update Upgrade Use
    View Wait Walk Warn Withhold Wrap Write Yield
    """.split()
)
"""Verbs that docstrings begin with. A new verb is added here; a noun, a pronoun, an article or a
third person is not.
"""


def first_words(name: str) -> list[tuple[str, str]]:
    """List where each docstring of a module stands, and its first word."""
    found = []
    for node in ast.walk(TREES[name]):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and (text := ast.get_docstring(node)) is not None
        ):
            found.append((f"{name}:{node.body[0].lineno}", (text.split() or [""])[0].strip(".,:;")))
    return found


def test_every_docstring_begins_with_a_verb() -> None:
    words = [found for name in MODULES for found in first_words(name)]
    assert (
        len(words) > 1000
        and [f"{place}: {word}" for place, word in words if word not in VERBS] == []
    )
