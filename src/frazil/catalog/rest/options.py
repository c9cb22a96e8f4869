"""Define the properties of REST catalogs, under Java's and PyIceberg's names."""

from __future__ import annotations

from frazil.catalog.options import NOUN
from frazil.catalog.own_files import DELETABLE
from frazil.spec.options import BOOLEAN, TEXT, Option, OptionTable, one_of, whole
from frazil.storage.credentials.parties import TRUSTED

_TIME = whole(1, 86_400_000)  # milliseconds
_OURS = "A server cannot set it."

URI = Option(
    "uri", TEXT, None,
    text="The server's address, without `/v1/…`. Frazil follows no redirect, and the server cannot move the catalog to another host.",
)  # fmt: skip
PREFIX = Option(
    "prefix", TEXT, None, otherwise="what the server says",
    text="The part of all paths behind `/v1/`. The server's overrides count first, then properties given here, then the server's "
    "defaults.",
)  # fmt: skip
TOKEN = Option("token", TEXT, None, secret=True, text="A bearer token.")
CREDENTIAL = Option(
    "credential", TEXT, None, secret=True, text="`id:secret`, for OAuth2 by client credentials."
)  # fmt: skip
OAUTH2_SERVER = Option(
    "oauth2-server-uri", TEXT, "v1/oauth/tokens", otherwise="`<uri>/v1/oauth/tokens`",
    text="The address that gives tokens.",
)  # fmt: skip
SCOPE = Option("scope", TEXT, "catalog", text="The scope of tokens.")
AUDIENCE = Option("audience", TEXT, None, text="The audience of tokens.")
RESOURCE = Option("resource", TEXT, None, text="The resource of tokens.")
TOKEN_REFRESH = Option(
    "token-refresh-enabled", BOOLEAN, True,
    text="Whether tokens are renewed five minutes before they expire and when the server refuses them: by the credential, else by token "
    "exchange.",
)  # fmt: skip
TOKEN_EXCHANGE = Option(
    "token-exchange-enabled", BOOLEAN, True, text="Whether a token may be exchanged for a newer one."
)  # fmt: skip
TOKEN_EXPIRES = Option(
    "token-expires-in-ms", _TIME, 3_600_000, otherwise="3600000",
    text="How long a token is valid, in milliseconds, if the server does not say when it expires.",
)  # fmt: skip
AUTH_TYPE = Option(
    "auth.type", TEXT, None, aliases=("rest.auth.type",), otherwise="`oauth2` with a token or credential, else `none`",
    text="`none` (`noop`), `basic`, `oauth2`, `sigv4` (as `rest.sigv4-enabled=true`), `google` (needs `frazil[google-auth]`), `entra` "
    "(`azure`; needs `frazil[azure-identity]`), or the name of Java's class for it (`org.apache.iceberg.rest.auth.OAuth2Manager`).",
)  # fmt: skip
GOOGLE_PATH = Option(
    "auth.google.credentials-path", TEXT, None, aliases=("rest.auth.google.credentials-path", "gcp.auth.credentials-path"),
    otherwise="Google's default credentials", text=f"Of `google`: a file of credentials. {_OURS}",
)  # fmt: skip
GOOGLE_SCOPES = Option(
    "auth.google.scopes", TEXT, None, aliases=("rest.auth.google.scopes", "gcp.auth.scopes"),
    otherwise="`https://www.googleapis.com/auth/cloud-platform`", text=f"Of `google`: scopes. {_OURS}",
)  # fmt: skip
ENTRA_SCOPES = Option(
    "auth.entra.scopes", TEXT, None, aliases=("rest.auth.entra.scopes",), otherwise="`https://storage.azure.com/.default`",
    text=f"Of `entra`: scopes of the token from Azure's default credentials. {_OURS}",
)  # fmt: skip
DELEGATE_AUTH_TYPE = Option(
    "auth.sigv4.delegate-auth-type", TEXT, None, aliases=("rest.auth.sigv4.delegate-auth-type",), otherwise="as `auth.type`",
    text=f"How a signed request also authenticates: `none`, `basic` or `oauth2`. {_OURS}",
)  # fmt: skip
USER = Option(
    "auth.basic.username", TEXT, None, aliases=("rest.auth.basic.username",), text="The user of `basic`."
)  # fmt: skip
PASSWORD = Option(
    "auth.basic.password", TEXT, None, aliases=("rest.auth.basic.password",), secret=True,
    text="The password of `basic`.",
)  # fmt: skip
CA_BUNDLE = Option(
    "ssl.cabundle", TEXT, None, otherwise="the authorities that certifi knows",
    text=f"A file of the authorities to trust. {_OURS}",
)  # fmt: skip
CLIENT_CERT = Option(
    "ssl.client.cert", TEXT, None, text=f"A file of a certificate for TLS. {_OURS}"
)  # fmt: skip
CLIENT_KEY = Option("ssl.client.key", TEXT, None, text=f"The file of its key. {_OURS}")
CONNECT_TIMEOUT = Option(
    "rest.client.connection-timeout-ms", _TIME, 10_000, otherwise="10000", text="Time to connect."
)  # fmt: skip
READ_TIMEOUT = Option(
    "rest.client.socket-timeout-ms", _TIME, 60_000, otherwise="60000", text="Time without an answer."
)  # fmt: skip
RETRIES = Option(
    "rest.client.max-retries", whole(0, 100), 5,
    text="Retried after a fault are requests that read, those that the server certainly has not handled, and, if the server takes keys "
    "(`idempotency-key-lifetime`), changes by their `Idempotency-Key`.",
)  # fmt: skip
_PROXY = "With plain HTTP to the proxy; servers at `https` are reached through a tunnel."
PROXY_HOST = Option(
    "rest.client.proxy.hostname", TEXT, None, otherwise="`HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment",
    text=f"A forward proxy. {_PROXY} {_OURS}",
)  # fmt: skip
PROXY_PORT = Option("rest.client.proxy.port", whole(1, 65535), None, text="Its port.")
PROXY_USER = Option("rest.client.proxy.username", TEXT, None, text="The user to name to the proxy.")
PROXY_PASSWORD = Option(
    "rest.client.proxy.password", TEXT, None, secret=True, text="The user's password."
)  # fmt: skip
DELETABLE_LOCATIONS = Option(
    DELETABLE, TEXT, None,
    text="Directories, separated by commas, in which files of tables may be deleted on the server's word alone ([which files are a table's "
    "own](procedures.md#which-files-are-the-tables-own)).",
)  # fmt: skip
TRUSTED_HOSTS = Option(
    TRUSTED, TEXT, None,
    text="Hosts, such as `minio` or `minio:9000`, with commas between them, to which the catalog's own secrets may go although only its "
    f"server names them; see [below](#whose-secrets-go-where). {_OURS}",
)  # fmt: skip
PAGE_SIZE = Option(
    "rest-page-size", whole(1, 999_999_999), None, otherwise="the server's", text="The size of pages of lists."
)  # fmt: skip
SEPARATOR = Option(
    "namespace-separator", TEXT, "%1F", otherwise="`%1F`",
    text="What separates the levels of a namespace in paths, if the server names nothing.",
)  # fmt: skip
SIGNED = Option(
    "rest.sigv4-enabled", BOOLEAN, False,
    text="`true`: every request is signed by AWS Signature Version 4, as the REST endpoints of AWS Glue and S3 Tables demand. A token is "
    f"sent beside the signature as `Original-Authorization`. {_OURS}",
)  # fmt: skip
SIGNING_REGION = Option(
    "rest.signing-region", TEXT, None, aliases=("client.region",), otherwise="`AWS_REGION`", text=f"The region. {_OURS}"
)  # fmt: skip
SIGNING_NAME = Option(
    "rest.signing-name", TEXT, "execute-api", text=f"The service: `execute-api`, `glue` or `s3tables`. {_OURS}"
)  # fmt: skip
_KEYS = "`client.…`, a [profile or role](stores.md#credentials-of-aws), then the environment"
SIGNING_KEYS = (
    Option(
        "rest.access-key-id", TEXT, None, otherwise=_KEYS, text=f"The key that signs requests. {_OURS}"
    ),
    Option(
        "rest.secret-access-key", TEXT, None, secret=True, otherwise=_KEYS, text=f"Its secret. {_OURS}"
    ),
    Option(
        "rest.session-token", TEXT, None, secret=True, otherwise=_KEYS, text=f"The token of a session. {_OURS}"
    ),
)  # fmt: skip
VIEW_ENDPOINTS = Option(
    "view-endpoints-supported", BOOLEAN, True,
    text="`false`: a server that does not list its endpoints has none for views.",
)  # fmt: skip
SNAPSHOT_LOADING = Option(
    "snapshot-loading-mode", one_of("all", "refs"), "all",
    text="`refs`: a load brings only the snapshots of branches and tags; the first use of another one (history, time travel, a commit, "
    "expiry) loads all of them.",
)  # fmt: skip
METRICS = Option(
    "rest-metrics-reporting-enabled", BOOLEAN, True,
    text="Whether [metrics reports](tour.md#metrics-reports) of scans and commits go to the server, in the background, unless it lists its "
    "endpoints without this one. `false`, here or from the server, sends none.",
)  # fmt: skip
SCAN_PLANNING = Option(
    "scan-planning-mode", one_of("client", "server"), "client",
    text="`server`: scans of snapshots, branches and tags are [planned by the server](tour.md#scans-planned-by-the-server), which "
    "must list "
    "`POST …/plan`. The first of these counts: what the server sends with a table, its overrides, the catalog's property, its defaults.",
)  # fmt: skip
POLL_TIMEOUT = Option(
    "rest-scan-planning.poll-timeout-ms", _TIME, 300_000, otherwise="300000",
    text="How long to wait for a plan that the server has not finished.",
)  # fmt: skip
HEADER = Option(
    "header.<Name>", TEXT, None,
    text="A header of every request, also for tokens, unless `oauth2-server-uri` is at another host; "
    "`header.X-Iceberg-Access-Delegation` is `vended-credentials,remote-signing` unless it is set.",
)  # fmt: skip
OF_SIGNING = (SIGNED, SIGNING_REGION, SIGNING_NAME, *SIGNING_KEYS, DELEGATE_AUTH_TYPE)
OF_CLOUDS = (GOOGLE_PATH, GOOGLE_SCOPES, ENTRA_SCOPES)
OPTIONS = OptionTable(
    NOUN,
    (
        URI, PREFIX, TOKEN, CREDENTIAL, OAUTH2_SERVER, SCOPE, AUDIENCE, RESOURCE, TOKEN_REFRESH, TOKEN_EXCHANGE, TOKEN_EXPIRES, AUTH_TYPE,
        USER, PASSWORD, *OF_CLOUDS, *OF_SIGNING, CA_BUNDLE, CLIENT_CERT, CLIENT_KEY, CONNECT_TIMEOUT, READ_TIMEOUT, RETRIES, PROXY_HOST,
        PROXY_PORT, PROXY_USER, PROXY_PASSWORD, DELETABLE_LOCATIONS, TRUSTED_HOSTS, PAGE_SIZE, SEPARATOR, VIEW_ENDPOINTS,
        SNAPSHOT_LOADING, METRICS, SCAN_PLANNING, POLL_TIMEOUT,
    ),
    families=(HEADER,),
)  # fmt: skip
_NAMES = frozenset(n for o in OPTIONS.options for n in o.names)
_OWN = frozenset(n for o in (*OF_SIGNING, *OF_CLOUDS, TRUSTED_HOSTS) for n in o.names)


def is_own(key: str) -> bool:
    """Tell whether a property counts only as it is configured here, whatever the server tells."""
    return key in _OWN or key.startswith(("ssl.", "client.", "rest.client.proxy."))


def is_of_rest(key: str) -> bool:
    """Tell whether a property is one of REST catalogs."""
    return key in _NAMES or key.startswith("header.")
