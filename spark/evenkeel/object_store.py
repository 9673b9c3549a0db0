"""Object stores that speak S3, as storage of tables: addresses, credentials, and their form for each library.

Four libraries read and write a lake: Spark (through Hadoop's S3A), deltalake, Arrow, and boto3 for its transparency
log. This module gives all of them the same key pair, session token, endpoint and region. They come from the Airflow
connection that EVENKEEL_LAKE_CONNECTION names. Without one they come from the usual places of AWS's tools
(AWS_ACCESS_KEY_ID and its like, a profile, the machine's role). None of it is part of an address, of a Spark setting or
of a command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, LakeError, SettingsError
from evenkeel.secret import Secret

SCHEME = "s3a://"
"""Scheme of table addresses, as Hadoop knows it. `s3://` names the same place."""
CONNECTION_VARIABLE = "EVENKEEL_LAKE_CONNECTION"
HTTP_VARIABLE = "AWS_ALLOW_HTTP"
DEFAULT_REGION = "us-east-1"
CONNECT_SECONDS = 5
REQUEST_SECONDS = 30
TRIES = 5
"""Number of times in all that a request is sent before it counts as failed."""
RETRY_SECONDS = 120
"""Seconds after which no request is sent again."""

_SCHEMES = ("s3a://", "s3://", "s3n://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_object_store(path: str) -> bool:
    """Return True if the address is in S3."""
    return path.startswith(_SCHEMES)


def canonical(path: str) -> str:
    """Return the address in the form `s3a://bucket/prefix`.

    Raises BadInput if it names no bucket, or holds credentials, which would end up in every log.
    """
    scheme = next((prefix for prefix in _SCHEMES if path.startswith(prefix)), None)
    if scheme is None:
        return path
    bucket, _, key = path.removeprefix(scheme).partition("/")
    if "@" in bucket:
        raise BadInput(
            "the address of a lake in a bucket holds credentials: leave them out, and give them by AWS_ACCESS_KEY_ID "
            f"and AWS_SECRET_ACCESS_KEY, or by {CONNECTION_VARIABLE}"
        )
    if not _BUCKET.fullmatch(bucket):
        raise BadInput(f"the address of a lake, or of its copy, names no bucket: write {SCHEME}BUCKET/PREFIX")
    parts = [part for part in key.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise BadInput(f"the address of a lake in the bucket {bucket}: a key has no parts `.` and `..`")
    return SCHEME + "/".join((bucket, *parts))


def bucket_of(path: str) -> str:
    """Return the bucket of a canonical address."""
    return path.removeprefix(SCHEME).partition("/")[0]


# The parts of a named connection to a store, and the search without one. This loads nothing of boto3.


@dataclass(frozen=True, slots=True)
class S3Connection:
    """The parts of a named connection; boto3 searches for a part that is None."""

    access_key: str | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    region: str | None = None
    endpoint: str | None = None

    def words(self) -> dict[str, str | None]:
        """Return the parts as plain texts, secrets too, for another process of this user; `of_words` reads them."""
        texts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: text.reveal() if isinstance(text, Secret) else text for name, text in texts.items()}

    @classmethod
    def of_words(cls, words: Mapping[str, str | None]) -> S3Connection:
        """Return the connection in plain texts of `words`."""
        secrets = {name: Secret(text) for name in ("secret_key", "session_token") if (text := words[name])}
        return cls(**{**words, **secrets})  # type: ignore[arg-type]


Resolver = Callable[[str], S3Connection | None]
"""Function from the name of a connection to its parts; None if the name is unknown."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Keys and address of a store; `endpoint` is None for Amazon's own."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None
    region: str
    endpoint: str | None

    @property
    def plain(self) -> bool:
        """True if requests go over plain HTTP."""
        return self.endpoint is not None and urlsplit(self.endpoint).scheme == "http"

    def for_deltalake(self) -> dict[str, str]:
        """Return the `storage_options` of deltalake. Conditional puts, which keep two writers apart, are its
        default."""
        options = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key.reveal(),
            "AWS_REGION": self.region,
            "timeout": f"{REQUEST_SECONDS}s",
            "connect_timeout": f"{CONNECT_SECONDS}s",
            "max_retries": str(TRIES - 1),
            "retry_timeout": f"{RETRY_SECONDS}s",
        }
        if self.session_token is not None:
            options["AWS_SESSION_TOKEN"] = self.session_token.reveal()
        if self.endpoint is not None:
            options["AWS_ENDPOINT_URL"] = self.endpoint
        if self.plain:
            options["AWS_ALLOW_HTTP"] = "true"
        return options

    def for_arrow(self) -> Any:
        """Return Arrow's file system of the store; paths begin with the bucket."""
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        where: dict[str, Any] = {}
        if self.endpoint is not None:
            address = urlsplit(self.endpoint)
            where = {"endpoint_override": address.netloc, "scheme": address.scheme}
        return S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key.reveal(),
            session_token=None if self.session_token is None else self.session_token.reveal(),
            region=self.region,
            connect_timeout=CONNECT_SECONDS,
            request_timeout=REQUEST_SECONDS,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=TRIES),
            **where,
        )

    def for_boto(self, *, timeout_seconds: float = REQUEST_SECONDS, tries: int = TRIES) -> Any:
        """Return a boto3 client for S3; a store that is not Amazon's has the bucket in the path.

        `timeout_seconds` bounds each wait for an answer. `tries` is the number of times in all that a request is sent.
        """
        import boto3
        from botocore.config import Config

        config = Config(
            retries={"mode": "standard", "total_max_attempts": tries},
            connect_timeout=min(CONNECT_SECONDS, timeout_seconds),
            read_timeout=timeout_seconds,
            s3={"addressing_style": "auto" if self.endpoint is None else "path"},
        )
        session = boto3.session.Session(
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key.reveal(),
            aws_session_token=None if self.session_token is None else self.session_token.reveal(),
            region_name=self.region,
        )
        return session.client("s3", endpoint_url=self.endpoint, config=config)

    def for_java(self) -> str:
        """Return the text of a Java properties file: secret."""
        properties = {
            "access.key": self.access_key,
            "secret.key": self.secret_key.reveal(),
            "session.token": "" if self.session_token is None else self.session_token.reveal(),
            "region": self.region,
            "endpoint": self.endpoint or "",
        }
        escaped = {key: value.replace("\\", "\\\\") for key, value in properties.items() if value}
        return "".join(f"{key}={value}\n" for key, value in escaped.items())


_resolve: Resolver | None = None


def resolve_connections_by(resolve: Resolver) -> None:
    """Set how this process looks up the connection that EVENKEEL_LAKE_CONNECTION names."""
    global _resolve
    _resolve = resolve


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if this environment names keys, a profile or a connection of an object store."""
    return any(environment.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", CONNECTION_VARIABLE, *_ENDPOINTS))


def access(environment: Mapping[str, str] = os.environ, *, what: str = "the lake") -> StoreAccess:
    """Return the keys with which this process uses the store of its lake: the current ones, since a role's are renewed.

    `what` names the content of the store for messages. Raises SettingsError, which says what is missing and shows no
    value.
    """
    given = _connection(environment)
    if given.access_key is None or given.secret_key is None:
        given = _own_search(given, environment)
    if given.access_key is None or given.secret_key is None:
        raise SettingsError(
            f"{what} is in an object store, and no credentials for it were found: set AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE), or {CONNECTION_VARIABLE} to a connection of Airflow's"
        )
    region = given.region or next((environment[name] for name in _REGIONS if environment.get(name)), DEFAULT_REGION)
    endpoint = _checked_endpoint(given.endpoint, environment) if given.endpoint else None
    return StoreAccess(given.access_key, given.secret_key, given.session_token, region, endpoint)


def load_client(path: str) -> None:
    """Import boto3 if the address is in S3. For callers that start threads: two must not import one package at once."""
    if is_object_store(path):
        import boto3  # noqa: F401

        import evenkeel.aws_errors  # noqa: F401


def _connection(environment: Mapping[str, str]) -> S3Connection:
    name = environment.get(CONNECTION_VARIABLE)
    if not name:
        return S3Connection()
    connection = _resolve(name) if _resolve is not None else None
    if connection is None:
        raise SettingsError(
            f"{CONNECTION_VARIABLE} names a connection that is unknown: make it in Airflow, or "
            "unset the variable and give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Outside of Airflow none is known"
        )
    return connection


def _own_search(given: S3Connection, environment: Mapping[str, str]) -> S3Connection:
    """Return the connection with keys from the environment or boto3's search; its own region and endpoint win."""
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if bool(key) != bool(secret):
        raise SettingsError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together: only one of them is set")
    endpoint = given.endpoint or next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    if key and secret and (endpoint or not _has_profiles(environment)):
        token = environment.get("AWS_SESSION_TOKEN")
        return S3Connection(key, Secret(secret), Secret(token) if token else None, given.region, endpoint)
    found = _boto_search()
    return replace(found, region=given.region or found.region, endpoint=endpoint or found.endpoint)


def _has_profiles(environment: Mapping[str, str]) -> bool:
    place = environment.get("AWS_CONFIG_FILE") or str(Path("~/.aws/config").expanduser())
    return bool(environment.get("AWS_PROFILE")) or Path(place).exists()


def _boto_search() -> S3Connection:
    """Return the result of boto3's search: environment, profile, the machine's role. Raises SettingsError if it
    fails."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    from evenkeel.aws_errors import of_s3

    try:
        session = boto3.session.Session()
        credentials = session.get_credentials()
        frozen = None if credentials is None else credentials.get_frozen_credentials()
        region = session.region_name
        where = {"region_name": region or DEFAULT_REGION}
        used = session.client("s3", **where).meta.endpoint_url
        endpoint_url = session.client(
            "s3", config=Config(ignore_configured_endpoint_urls=True), **where
        ).meta.endpoint_url
    except (BotoCoreError, ValueError) as error:
        fault, advice = of_s3(error)
        raise SettingsError(f"the credentials of the lake's object store: {fault}. {advice}") from None
    endpoint = None if used == endpoint_url else str(used)
    if frozen is None:
        return S3Connection(region=region, endpoint=endpoint)
    token = Secret(frozen.token) if frozen.token else None
    return S3Connection(frozen.access_key, Secret(frozen.secret_key), token, region, endpoint)


def _checked_endpoint(endpoint: str, environment: Mapping[str, str]) -> str:
    try:
        address = urlsplit(endpoint)
        host, _ = address.hostname, address.port
    except ValueError:
        host = None
    if not host or address.scheme not in ("http", "https") or address.username or address.password or address.query:
        raise SettingsError(
            "the endpoint of the lake's object store is not a URL like https://store.example:9000 (without credentials)"
        )
    if address.scheme == "http" and host not in _LOOPBACK and environment.get(HTTP_VARIABLE, "").lower() != "true":
        raise SettingsError(
            f"the endpoint of the lake's object store, {endpoint}, is plain http: anyone on the network path can read "
            f"and change all rows. Use https, or set {HTTP_VARIABLE}=true where the network is trusted"
        )
    return endpoint.rstrip("/")


# Credentials for a Spark server on this machine: a file that only its user can read, never a setting.

FOLDER = "object-stores"
"""Folder below a server's home; `Hadoop` looks for a file in it by the name of the bucket, else for `DEFAULT`."""
DEFAULT = "default"
_OWNER_ONLY = 0o600


def hand_over(home: Path, path: str | None, environment: Mapping[str, str] = os.environ) -> None:
    """Write this process's keys for the bucket of `path` (None: for any bucket) to the server of the home folder
    `home`.

    Does nothing for a path on this machine. A running server uses them from its next request on. Raises SettingsError
    as `access` does.
    """
    if path is not None and not is_object_store(path):
        return
    name = DEFAULT if path is None else bucket_of(canonical(path))
    write_private(home / FOLDER, f"{name}.properties", access(environment).for_java())


def write_private(folder: Path, name: str, text: str) -> None:
    """Replace a file that only this user can read; readers see either the old text or the new one."""
    folder.mkdir(mode=0o700, exist_ok=True)
    part = folder / f".{name}.{os.getpid()}"
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY), "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(folder / name)


# Faults of a store in an operator's words. The three libraries have no common error, but all repeat the store's own
# code.

_KEYS = (
    "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the profile (AWS_PROFILE), or the "
    f"connection that {CONNECTION_VARIABLE} names."
)
_PLACE = "Check the endpoint (AWS_ENDPOINT_URL_S3), the network and the proxy settings."
_AGAIN = "Nothing that was reported as written is lost: run it again, it goes on where the record ends."
_SIGNS: tuple[tuple[str, str, str], ...] = (
    (
        "evenkeel-other-endpoint",
        "the running Spark server used this bucket at another endpoint than the one requested now",
        "End it (`evenkeel engine stop`) and run the command again.",
    ),
    (
        r"ClassNotFoundException: Class evenkeel\.ObjectStore|Class evenkeel\.ObjectStore\S* not found",
        "the Spark server was started without the jars for object stores",
        "Run `make setup`, end the server (`evenkeel engine stop`) and run the command again.",
    ),
    (
        r"NoSuchBucket|UnknownStoreException|[Bb]ucket does not exist|NO_SUCH_BUCKET",
        "there is no such bucket",
        (f"Create it, or correct the address of the lake. {_PLACE}"),
    ),
    (
        "ExpiredToken|[Tt]oken (has|is) expired|TokenRefreshRequired",
        "the session token has expired",
        (f"Log in again, or assume the role again. {_AGAIN}"),
    ),
    ("InvalidAccessKeyId|INVALID_ACCESS_KEY_ID", "the store does not know the access key id", _KEYS),
    ("SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH", "the secret key does not belong to the access key id", _KEYS),
    ("InvalidToken|InvalidClientTokenId", "the session token is not valid for this store", _KEYS),
    ("RequestTimeTooSkewed", "this machine's clock and the store's are too far apart", "Set the clock by NTP."),
    (
        "NoAuthWithAWSException|NoAwsCredentials|CredentialInitializationException|Unable to load credentials",
        "the Spark server has no credentials for it",
        "A server that was started elsewhere needs them in its own environment. " + _KEYS,
    ),
    (
        "PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|AWSRedirect|Status Code: 301",
        "the bucket is in another region",
        "Set AWS_REGION to the region of the bucket, or AWS_ENDPOINT_URL_S3 to the store that holds it.",
    ),
    (
        r"AccessDenied|ACCESS_DENIED|AccessDeniedException|[Ff]orbidden|[Ss]tatus(?: Code:)? 403|403 Forbidden",
        "access is denied",
        "Keys may be wrong or a token expired, or rights are missing: a lake needs s3:ListBucket on the bucket, and "
        "s3:GetObject, s3:PutObject and s3:DeleteObject below it. " + _KEYS,
    ),
    (
        r"SlowDown|SLOW_DOWN|ServiceUnavailable|AWSServiceThrottled|[Ss]tatus(?: Code:)? 503|503 Service",
        "the store is not available, or asks to slow down",
        _AGAIN,
    ),
    (
        r"InternalError|INTERNAL_FAILURE|AWSStatus500|[Ss]tatus(?: Code:)? 50\d|50\d (Internal|Bad|Gateway)",
        ("the store failed inside"),
        _AGAIN,
    ),
    (
        r"SSLHandshake|PKIX path|certificate|CERTIFICATE|SSL_CONNECT",
        "TLS to the store failed",
        ("Check the endpoint and its certificate; plain http has to be asked for by an http:// endpoint."),
    ),
    (
        r"[Cc]onnection refused|[Cc]onnect to \S+ failed|timed out|[Tt]imeout|NETWORK_CONNECTION|[Cc]ouldn't connect|"
        r"error sending request|UnknownHost|[Cc]ould ?n.t resolve|dns error|NoHttpResponse|[Cc]onnection reset|"
        r"Unable to execute HTTP request|AWSNoResponse|AWSClientIOException|curlCode|Connection pool shut down|"
        r"Premature EOF|connection closed|EOFException|broken pipe|[Hh]yper",
        "the store does not answer",
        f"{_PLACE} {_AGAIN}",
    ),
)


def explained(error: BaseException, lake: object) -> LakeError | None:
    """Return the error of a lake in an object store in an operator's words: what is wrong, where, and what to do.

    Returns None if `lake` is elsewhere, or if the error does not come from the store.
    """
    address = str(lake or "")
    if not is_object_store(address):
        return None
    text = " ".join(_texts(error))
    for sign, fault, advice in _SIGNS:
        if re.search(sign, text):
            return LakeError(f"the lake {address}: {fault}. {advice}")
    return None


def _texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{type(error).__name__}: {error}"
        error = error.__cause__
