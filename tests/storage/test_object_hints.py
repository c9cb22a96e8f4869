"""Hints of object stores name the keys of the store's own scheme."""

from __future__ import annotations

import pytest

from frazil.storage.objects.objects import _translated


@pytest.mark.parametrize(
    ("scheme", "own"),
    [("s3a", "s3."), ("gs", "gcs."), ("gcs", "gcs."), ("abfss", "adls."), ("wasbs", "adls.")],
)
@pytest.mark.parametrize(
    "text",
    [
        "GET http://169.254.169.254/latest",
        "http://metadata.google.internal/",
        "error sending request",
    ],
)
def test_a_hint_names_the_keys_of_its_own_scheme_only(scheme: str, own: str, text: str) -> None:
    hint = _translated(OSError(text), f"{scheme}://bucket/key", "read").hint
    assert hint is not None and own in hint
    assert not [key for key in {"s3.", "gcs.", "adls."} - {own} if key in hint]
