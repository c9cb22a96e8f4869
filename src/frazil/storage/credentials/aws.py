"""Find credentials of AWS as its own tools do, by botocore (`frazil[aws]`): profiles, SSO, roles of
machines and pods, roles to assume.

They become a source of credentials (`vended`), which is asked anew before they end, in whatever
process it is used: workers have the roles of their own machines. Without botocore the environment's
keys and the roles of machines are left to obstore.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import FrazilError, InvalidInput, NotInstalledError, StorageError, Unsupported
from frazil.storage.base import frozen_properties
from frazil.storage.credentials.precedence import AWS_CHOOSING, AWS_PROFILES, AWS_ROLES
from frazil.storage.credentials.vended import Credentials
from frazil.storage.secrets import note

_SESSIONS = (
    "client.assume-role.session-name",
    "client.role-session-name",
    "client.session-name",
    "s3.role-session-name",
)
_PROVIDER, _ROLE_TAGS = "client.credentials-provider", "client.assume-role.tags."
_REGION, _EXTERNAL, _TIMEOUT = (
    "client.assume-role.region",
    "client.assume-role.external-id",
    "client.assume-role.timeout-sec",
)
AWS_PROPERTIES = {*AWS_CHOOSING, *_SESSIONS, _REGION, _EXTERNAL, _TIMEOUT}
AWS_BEGINNINGS = (_ROLE_TAGS,)
_PROVIDERS = {  # the classes of AWS's library for Java, and what botocore calls the same
    "DefaultCredentialsProvider": "", "ProfileCredentialsProvider": "profile", "EnvironmentVariableCredentialsProvider": "env",
    "InstanceProfileCredentialsProvider": "iam-role", "ContainerCredentialsProvider": "container-role",
    "ProcessCredentialsProvider": "custom-process",
    "WebIdentityTokenFileCredentialsProvider": "assume-role-with-web-identity", "SsoCredentialsProvider": "sso",
}  # fmt: skip
_KEYS = ("access-key-id", "secret-access-key", "session-token")
_CACHED: dict[AwsCredentials, Any] = {}
_LOCK = threading.RLock()
_NONE = "Give s3.access-key-id and s3.secret-access-key, client.profile, or client.assume-role.arn; or s3.anonymous=true for public data."


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class AwsCredentials:
    """Ask botocore for credentials. `properties`: those that choose, and the keys by which a role
    is assumed. `environment`: a digest of what the environment says, since others count after it
    has changed."""

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    environment: str = ""

    def __call__(self) -> Credentials:
        credentials = self._found()
        try:
            keys = credentials.get_frozen_credentials()
        except Exception as error:
            raise _failed(error) from None
        ends = getattr(credentials, "_expiry_time", None)
        note((keys.secret_key, keys.token))
        values = {
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            "s3.session-token": keys.token,
        }
        region = self.region()
        return Credentials(
            {k: v for k, v in values.items() if v} | ({"s3.region": region} if region else {}),
            None if ends is None else int(ends.timestamp() * 1000),
        )

    def anew(self) -> Credentials:
        """Look for credentials again, where a store refuses those at hand."""
        with _LOCK:
            _CACHED.pop(self, None)
        return self()

    def region(self) -> str | None:
        """Return the region that the profile names, where neither the properties nor the
        environment name one.
        """
        properties = dict(self.properties)
        if (
            properties.get("s3.region")
            or properties.get("client.region")
            or os.environ.get("AWS_REGION")
        ):
            return None
        try:
            named = _session(properties).get_config_variable("region")
        except Exception as error:
            raise _failed(error) from None
        return str(named) if named else None

    def _found(self) -> Any:
        with _LOCK:
            if self not in _CACHED:
                while len(_CACHED) > 100:
                    _CACHED.pop(next(iter(_CACHED)))
                try:
                    credentials = _credentials(dict(self.properties))
                except FrazilError:
                    raise
                except Exception as error:
                    raise _failed(error) from None
                if credentials is None:
                    raise StorageError(
                        "No credentials of AWS were found.",
                        hint=f"No credentials were found: {_NONE}",
                    )
                _CACHED[self] = credentials
            return _CACHED[self]


def aws_credentials(properties: Mapping[str, str]) -> AwsCredentials | None:
    """Return the source of credentials for S3 and signed requests that is chosen by properties, or,
    without keys in them, by the environment; None: keys are given, or obstore finds some. Raises
    NotInstalledError, at once, for what needs botocore."""
    chosen = next((key for key in AWS_CHOOSING if properties.get(key)), None)
    has_keys = any(properties.get(f"{client}.access-key-id") for client in ("s3", "client"))
    if chosen is None and (
        has_keys or properties.get("s3.anonymous", "").strip().lower() == "true"
    ):
        return None
    if importlib.util.find_spec("botocore") is None:
        profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        if chosen is None and (not profile or os.environ.get("AWS_ACCESS_KEY_ID")):
            return None
        by = (
            f"The property {chosen}"
            if chosen
            else f"The profile {profile} of the environment (AWS_PROFILE)"
        )
        raise NotInstalledError(f"{by} needs botocore.", hint='pip install "frazil[aws]"')
    names = {
        *AWS_PROPERTIES,
        "s3.region",
        "client.region",
        *(f"{client}.{key}" for client in ("s3", "client") for key in _KEYS),
    }
    chosen_properties = {
        key: value
        for key, value in properties.items()
        if key in names or key.startswith(AWS_BEGINNINGS)
    }
    variables = "\0".join(
        f"{key}={value}"
        for key, value in sorted(os.environ.items())
        if key.startswith("AWS_") or key == "HOME"
    )
    return AwsCredentials(
        frozen_properties(chosen_properties), hashlib.sha256(variables.encode()).hexdigest()
    )


def chooses_aws(properties: Mapping[str, str]) -> bool:
    """Tell whether properties choose credentials, a profile or a role, that Spark's own scan would
    not find.
    """
    return any(properties.get(key) for key in AWS_CHOOSING)


def _session(properties: Mapping[str, str]) -> Any:
    import botocore.session

    return botocore.session.Session(profile=_first(properties, AWS_PROFILES))


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)


def _credentials(properties: Mapping[str, str]) -> Any:
    session = _session(properties)
    if not session.get_config_variable(
        "region"
    ):  # which signs requests for roles; they are given everywhere
        region = (
            properties.get(_REGION)
            or properties.get("client.region")
            or properties.get("s3.region")
            or os.environ.get("AWS_REGION")
        )
        session.set_config_variable("region", region or "us-east-1")
    base = _base(session, properties)
    role = _first(properties, AWS_ROLES)
    return base if role is None or base is None else _assumed(session, base, role, properties)


def _base(session: Any, properties: Mapping[str, str]) -> Any:
    from botocore.credentials import Credentials as Keys

    for client in ("s3", "client"):
        if properties.get(f"{client}.access-key-id"):
            return Keys(*(properties.get(f"{client}.{key}") for key in _KEYS))
    named = properties.get(_PROVIDER)
    if not named:
        return session.get_credentials()
    provider = _PROVIDERS.get(named.strip().rpartition(".")[2])
    if provider is None:
        supported = ", ".join(_PROVIDERS)
        raise Unsupported(
            f"Catalog property {_PROVIDER} names {named!r}, which is not served.",
            hint=f"Served are AWS's {supported}.",
        )
    if provider in ("", "profile"):
        return session.get_credentials()
    return session.get_component("credential_provider").get_provider(provider).load()


def _assumed(session: Any, base: Any, role: str, properties: Mapping[str, str]) -> Any:
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    seconds = properties.get(_TIMEOUT, "3600")
    if not seconds.isdecimal() or not 900 <= int(seconds) <= 43200:
        raise InvalidInput(
            f"Catalog property {_TIMEOUT} must be a number of seconds from 900 to 43200, not {seconds!r}."
        )
    tags = [
        {"Key": k.removeprefix(_ROLE_TAGS), "Value": v}
        for k, v in properties.items()
        if k.startswith(_ROLE_TAGS)
    ]
    arguments = {
        "RoleSessionName": _first(properties, _SESSIONS) or "frazil",
        "DurationSeconds": int(seconds),
        "ExternalId": properties.get(_EXTERNAL),
        "Tags": tags,
    }
    region = properties.get(_REGION) or session.get_config_variable("region")

    def client(service: str, **options: object) -> Any:
        return session.create_client(service, **{"region_name": region, **options})

    fetcher = AssumeRoleCredentialFetcher(
        client, base, role, extra_args={k: v for k, v in arguments.items() if v}
    )
    return DeferredRefreshableCredentials(
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )


def _failed(error: Exception) -> StorageError:
    """Translate an error of botocore, which tells what it looked for; none of them shows a secret."""
    hint = (
        "Run `aws sso login` again." if "sso" in f"{type(error).__name__}{error}".lower() else _NONE
    )
    return StorageError(
        f"Cannot get credentials of AWS: {type(error).__name__}: {str(error)[:500]}", hint=hint
    )
