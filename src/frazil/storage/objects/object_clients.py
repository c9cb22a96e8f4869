"""Make the clients of object stores, obstore's and pyarrow's, by the properties of a catalog.

Where these hold keys or addresses, nothing of the environment is mixed with them: obstore takes
each option that it is not given from there, as the session's token of other keys. obstore does not
work in a process that was forked after its first use: its threads stay behind in the parent, and
each call would wait for ever.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.fs

from frazil.errors import InvalidInput, NotInstalledError, StorageError
from frazil.storage.credentials.precedence import overriding
from frazil.storage.credentials.vended import CredentialsSource, current, merged
from frazil.storage.objects.object_options import options, s3_endpoint
from frazil.storage.objects.redirects import without_redirects

EXTRAS = {"s3": "s3", "gs": "gcs", "abfss": "azure"}
Properties = tuple[tuple[str, str], ...]
_used_in: int | None = (
    # the process that used obstore first; a child has its parent's, where the parent had used it
    None
)


def obstore_for(scheme: str) -> Any:
    """Import obstore for use in this process. Raises StorageError in one that was forked after
    obstore was used.
    """
    global _used_in
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise NotInstalledError(
            f"Locations {scheme}:// need obstore.", hint=f'pip install "frazil[{EXTRAS[scheme]}]"'
        ) from error
    if _used_in is None:
        _used_in = os.getpid()
    elif _used_in != os.getpid():
        text = f"This process was forked after its parent had used an object store ({scheme}://), whose client does not survive that."
        hint = "Start workers by spawn or forkserver (multiprocessing.get_context('spawn')), or fork them before the first use."
        raise StorageError(text, hint=hint)
    return obstore


def by_pyarrow(scheme: str, properties: Properties, host: str) -> bool:
    """Tell whether pyarrow's own client opens files. That of Azure asks for tokens where there is
    neither a key nor a signature; where it is refused one, or the server that gives them cannot be
    reached, it ends the process. That of S3 follows redirects, with the session's token; so it is
    left for keys without one, in a forked process, where obstore does not work."""
    if scheme == "s3":
        arrow = options(scheme, dict(properties), host).arrow
        return (
            _used_in not in (None, os.getpid())
            and ("access_key" in arrow or "anonymous" in arrow)
            and "session_token" not in arrow
        )
    return scheme != "abfss" or bool(
        options(scheme, dict(properties), host).arrow.keys() & {"account_key", "sas_token"}
    )


@functools.lru_cache(maxsize=64)
def client(
    scheme: str,
    bucket: str,
    properties: Properties,
    vended: CredentialsSource | None = None,
    most_retries: int | None = None,
    generation: int = 0,
) -> Any:
    """Make obstore's client of a bucket (in Azure `container@host`). With `vended` it asks for the
    credentials of the moment itself, and keeps them till their end: where a store has refused them
    before, `generation` asks for another client."""
    container, host = split_container(scheme, bucket)
    stores = obstore_for(scheme).store  # before credentials are looked for
    chosen = options(scheme, dict(merged(properties, vended)), host)
    make = {"s3": stores.S3Store, "gs": stores.GCSStore, "abfss": stores.AzureStore}[scheme]
    config, provider, against = dict(chosen.config), None, dict[str, Any]()
    if scheme == "s3":
        config, provider = _s3_config(config, bucket, properties, vended)
        against = {"aws_endpoint_url_s3": config["endpoint"]} if "endpoint" in config else {}
    elif scheme == "abfss":
        provider = _azure_provider(config)
        if provider is not None or "client_secret" in config:
            config |= {"skip_signature": False, "use_emulator": False}
        against = {"credential_type": "client_secret"} if "client_secret" in config else {}
    guarded = chosen.client | without_redirects(
        scheme,
        _address(scheme, config),
        ambient=provider is None and not _has_secret(config),
        region=str(config.get("region", "")),
    )
    shared = {
        "client_options": guarded,
        "retry_config": None if most_retries is None else {"max_retries": most_retries},
        **({} if provider is None else {"credential_provider": provider}),
    }
    try:
        try:
            return make(container, config=config | against, **shared)
        except Exception as error:
            if not against or type(error).__name__ != "UnknownConfigurationKeyError":
                raise
            return make(container, config=config, **shared)  # an older release
    except Exception:  # its text may show the options, which hold secrets
        raise InvalidInput(
            f"The catalog's options for {scheme} are not valid for bucket {bucket}."
        ) from None


def _has_secret(config: dict[str, Any]) -> bool:
    return bool(config.get("skip_signature") or config.get("bearer_token"))


def _address(scheme: str, config: dict[str, Any]) -> str:
    """Return where the store is asked."""
    region = config.get("region", "")
    default = {
        "s3": f"https://s3.{region}.amazonaws.com",
        "gs": "https://storage.googleapis.com",
        "abfss": "https://blob.core.windows.net",
    }
    return str(config.get("endpoint") or config.get("base_url") or default[scheme])


def _s3_config(
    config: dict[str, Any], bucket: str, properties: Properties, vended: CredentialsSource | None
) -> tuple[dict[str, Any], Callable[[], dict[str, Any]] | None]:
    """Complete the options of obstore for a bucket, and take the keys out of them: a provider gives
    these.
    """
    if (
        "endpoint" in config and config["virtual_hosted_style_request"]
    ):  # obstore puts the bucket into the host's name of Amazon's alone
        scheme, _, rest = config["endpoint"].partition("://")
        config["endpoint"] = f"{scheme}://{bucket}.{rest}"
    if "access_key_id" not in config:  # also where the catalog vends secrets of other stores only
        return config, None
    keys, endpoint = (
        {"access_key_id", "secret_access_key", "session_token"},
        s3_endpoint(dict(merged(properties, vended))),
    )
    rest = {"skip_signature": False} | {k: v for k, v in config.items() if k not in keys}
    return rest, functools.partial(s3_credential, properties, vended, endpoint)


def s3_credential(
    properties: Properties, vended: CredentialsSource | None, endpoint: str | None = None
) -> dict[str, Any]:
    """Give obstore the credentials of the moment; it asks again when they expire, also in the midst
    of an upload. `endpoint`: where they are sent; those that come with another one are not for it.
    """
    credentials = None if vended is None else current(vended)
    vended_properties, expires = (
        ({}, None) if credentials is None else (credentials.properties, credentials.expires_ms)
    )
    config = options("s3", overriding(dict(properties), vended_properties)).config
    if endpoint is not None and config.get("endpoint") != endpoint:
        raise StorageError(
            "The catalog names another endpoint of S3 than before.", hint="Load the table again."
        )
    return {
        "access_key_id": config.get("access_key_id", ""),
        "secret_access_key": config.get("secret_access_key", ""),
        "token": config.get("session_token"),
        "expires_at": None if expires is None else datetime.fromtimestamp(expires / 1000, UTC),
    }


def _azure_provider(config: dict[str, Any]) -> Callable[[], dict[str, Any]] | None:
    """Take the key or the signature out of the options of obstore, and make a provider that gives
    it in place of the environment's.
    """
    for option, name in (("account_key", "access_key"), ("sas_key", "sas_token")):
        if option in config:
            credential = {name: config.pop(option), "expires_at": None}
            return lambda: credential
    return None


@functools.lru_cache(maxsize=16)
def arrow_system(scheme: str, properties: Properties, host: str) -> pyarrow.fs.FileSystem:
    """Make pyarrow's file system. `host`: that of a location in Azure."""
    chosen = {**options(scheme, dict(properties), host).arrow, **_patience(scheme)}
    make = {
        "s3": pyarrow.fs.S3FileSystem,
        "gs": pyarrow.fs.GcsFileSystem,
        "abfss": pyarrow.fs.AzureFileSystem,
    }[scheme]
    try:
        return make(**chosen)
    except (TypeError, ValueError):  # its text may show the options, which hold secrets
        raise InvalidInput(
            f"The catalog's options for {scheme} are not valid for its store."
        ) from None


def _patience(scheme: str) -> dict[str, Any]:
    """Return how often pyarrow asks again, so that it bears what obstore does. By itself it gives
    S3 up at the third busy answer, within a second, and asks a server of Google's that cannot be
    reached for a quarter of an hour."""
    if scheme == "s3":
        return {"retry_strategy": pyarrow.fs.AwsDefaultS3RetryStrategy(max_attempts=9)}
    return {"retry_time_limit": timedelta(seconds=60)} if scheme == "gs" else {}


def split_container(scheme: str, bucket: str) -> tuple[str, str]:
    """Split `container@account.dfs.core.windows.net`; buckets of other stores have no host."""
    if scheme != "abfss":
        return bucket, ""
    container, _, host = bucket.partition("@")
    return container, host
