"""Ask for tokens for a REST catalog: Google's default credentials (`rest.auth.type=google`) or
Azure's (`entra`), by their libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

from frazil.errors import InvalidInput, NotInstalledError, StorageError

CLOUDS = ("google", "entra")
_GOOGLE_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ENTRA_SCOPES = ("https://storage.azure.com/.default",)
Provider = Callable[[], tuple[str, float | None]]
"""Return a token, and the time at which it ends, in seconds since 1970."""


def cloud_tokens(kind: str, path: str | None, scopes: tuple[str, ...]) -> Provider:
    """Return the function that gets tokens of a cloud. `path`: of Google's credentials, in place of
    the default ones. Raises NotInstalledError.
    """
    return (
        _google(path, scopes or _GOOGLE_SCOPES)
        if kind == "google"
        else _entra(scopes or _ENTRA_SCOPES)
    )


def _google(path: str | None, scopes: tuple[str, ...]) -> Provider:
    try:
        import google.auth
        import google.auth.exceptions
        import google.auth.transport.urllib3 as transport
        import urllib3
    except ImportError as error:
        raise NotInstalledError(
            "rest.auth.type=google needs google-auth.", hint='pip install "frazil[google-auth]"'
        ) from error
    errors: Any = google.auth.exceptions.GoogleAuthError
    try:
        if path:
            credentials, _ = google.auth.load_credentials_from_file(path, scopes=list(scopes))
        else:
            credentials, _ = google.auth.default(scopes=list(scopes))
    except (errors, OSError, ValueError) as error:
        hint = "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS or gcp.auth.credentials-path."
        raise InvalidInput(
            f"No credentials of Google were found: {type(error).__name__}.", hint=hint
        ) from None
    request = transport.Request(urllib3.PoolManager(maxsize=2))

    def token() -> tuple[str, float | None]:
        try:
            credentials.refresh(request)
        except errors as error:
            text = f"Google gives no token for the catalog: {type(error).__name__}."
            raise StorageError(
                text, hint="Check the credentials, and whether Google's servers can be reached."
            ) from None
        ends = credentials.expiry
        return str(credentials.token), None if ends is None else (
            ends if ends.tzinfo else ends.replace(tzinfo=UTC)
        ).timestamp()

    return token


def _entra(scopes: tuple[str, ...]) -> Provider:
    try:
        import azure.identity
        from azure.core.exceptions import AzureError
    except ImportError as error:
        raise NotInstalledError(
            "rest.auth.type=entra needs azure-identity.",
            hint='pip install "frazil[azure-identity]"',
        ) from error
    credentials = azure.identity.DefaultAzureCredential()

    def token() -> tuple[str, float | None]:
        try:
            had = credentials.get_token(*scopes)
        except AzureError as error:
            text = f"Azure gives no token for the catalog: {type(error).__name__}."
            raise StorageError(
                text,
                hint="Run `az login`, or check AZURE_TENANT_ID, AZURE_CLIENT_ID and the managed identity.",
            ) from None
        return str(had.token), float(had.expires_on)

    return token
