"""Secrets never show."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.storage import redact, redact_text, storage_for
from frazil.storage.object_options import options

SECRET = "hunter2-very-secret"
KEYS = [
    "s3.secret-access-key", "s3.access-key-id", "s3.session-token", "adls.account-key", "adls.sas-token", "adls.client-secret", "adls.connection-string",
    "gcs.oauth2.token", "token", "credential", "jdbc.password", "header.Authorization", "header.X-Key", "rest.signing-secret", "PASSWORD",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_values_of_secret_keys_are_masked(key: str) -> None:
    assert redact({key: SECRET, "warehouse": "/w"}) == {key: "***", "warehouse": "/w"}


@pytest.mark.parametrize(
    "uri",
    [f"postgresql://app:{SECRET}@h/db", f"mysql+pymysql://app:{SECRET}@h:1/db?x=1", f"jdbc:postgresql://h/db?user=a&password={SECRET}"],
)
def test_passwords_in_uris_are_masked(uri: str) -> None:
    assert SECRET not in redact_text(uri) and SECRET not in str(redact({"uri": uri})) and "h" in redact_text(uri)


def test_a_storage_shows_no_property() -> None:
    storage = storage_for("s3://bucket/x", {"s3.secret-access-key": SECRET, "s3.access-key-id": SECRET})
    assert SECRET not in repr(storage) and SECRET not in repr(storage.of("s3://bucket/x"))  # type: ignore[attr-defined]


def test_errors_of_options_show_keys_not_values() -> None:
    with pytest.raises(Unsupported, match=r"s3\.sse\.key") as told:
        options("s3", {"s3.sse.key": SECRET})
    assert SECRET not in str(told.value)


def test_contradictory_and_mistyped_options_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"s3\.path-style-access and s3\.force-virtual-addressing"):
        options("s3", {"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"})
    with pytest.raises(InvalidInput, match=r"s3\.endpoint"):
        options("s3", {"s3.endpoint": "localhost:9000"})
    with pytest.raises(InvalidInput, match=r"s3\.connect-timeout"):
        options("s3", {"s3.connect-timeout": "soon"})
    with pytest.raises(InvalidInput, match=r"s3\.anonymous"):
        options("s3", {"s3.anonymous": "yes"})
