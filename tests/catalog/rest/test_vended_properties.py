"""What is taken of the properties that a server gives for the files of a table."""

from __future__ import annotations

from itertools import permutations

import pytest

from frazil.catalog.rest.vended import StorageCredential, vended
from frazil.storage import Credentials

HOST = "dfs.core.windows.net"
TOKENS = {"adls.sas-token.mine": "mine", f"adls.sas-token.other.{HOST}": "other", "adls.sas-token": "plain"}
ENDS = {"adls.sas-token-expires-at-ms.mine": "2000", f"adls.sas-token-expires-at-ms.other.{HOST}": "1000"}


@pytest.mark.parametrize("order", list(permutations(TOKENS)), ids=lambda names: " ".join(TOKENS[n] for n in names))
@pytest.mark.parametrize(
    ("account", "token", "ends"), [("mine", "mine", 2000), ("OTHER", "other", 1000), ("third", "plain", None)], ids=["mine", "other", "third"]
)
def test_the_sas_token_is_that_of_the_locations_account(order: tuple[str, ...], account: str, token: str, ends: int | None) -> None:
    given = {**{name: TOKENS[name] for name in order}, **ENDS}
    location = f"abfss://box@{account}.{HOST}/t"
    assert vended(location, given, []) == Credentials({"adls.sas-token": token}, ends)
    assert vended(location, {}, [StorageCredential(f"abfss://box@{account}.{HOST}/", given)]) == Credentials({"adls.sas-token": token}, ends)


def test_no_sas_token_of_another_account_is_used() -> None:
    assert vended(f"abfss://box@third.{HOST}/t", {"adls.sas-token.mine": "mine"}, []) == Credentials({}, None)
    assert vended("abfss://box/t", {"adls.sas-token.mine": "mine"}, []).properties == {"adls.sas-token": "mine"}
    named = {"adls.account-name": "mine", "adls.sas-token.other": "other", "adls.sas-token.mine": "mine"}
    assert vended("abfss://box/t", named, []).properties == {"adls.account-name": "mine", "adls.sas-token": "mine"}
