"""Decide who may reach a server that this process opens."""

from __future__ import annotations

import ipaddress

from frazil.errors import InvalidInput

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""The variable in which Spark's server and PySpark's client look for the token."""


def check_access(host: str, token: str | None, connect: int | None, thrift: int | None) -> None:
    """Raise InvalidInput where nothing would be served, or to anybody who reaches the port."""
    if connect is None and thrift is None:
        raise InvalidInput("Nothing to serve.", hint="Give a port for Connect or for Thrift.")
    if thrift == 0:
        raise InvalidInput("Thrift needs a port of its own.", hint="10000 is what its clients try.")
    if is_local(host):
        return
    if connect is not None and not token:
        raise InvalidInput(
            f"Whoever reaches {host} could change every table: Spark Connect needs a token there.",
            hint=f"Set {TOKEN} (or --token), or listen on 127.0.0.1.",
            host=host,
        )
    if thrift is not None:
        raise InvalidInput(
            f"Spark's Thrift server asks nobody who they are: it is not opened on {host}.",
            hint="Listen on 127.0.0.1, behind a tunnel or proxy that asks.",
            host=host,
        )


def is_local(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_any(host: str) -> bool:
    """Tell whether an address stands for all of this machine's."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
