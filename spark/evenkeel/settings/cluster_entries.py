"""Entries of a cluster: the source of its snapshots, its access, its settings and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from pydantic import ConfigDict, Field, PlainValidator, ValidationError, ValidationInfo, create_model, model_validator
from pydantic import WithJsonSchema as JsonSchema

from evenkeel.errors import SettingsError
from evenkeel.pulsar.limits import Limits
from evenkeel.settings.entries import (
    AdminAddresses,
    ConnectionName,
    Entries,
    FileContext,
    Place,
    S3Address,
    Text,
    context_of,
    did_you_mean,
    fault,
    raise_faults,
    without,
)
from evenkeel.settings.key import Key, short_name
from evenkeel.settings.keys import registry
from evenkeel.settings.parsing import check_allowed, coerce
from evenkeel.settings.resolving import SWITCHES, FaultPath, resolve

DAYS_KEPT: Final = 35.0
"""Days for which snapshots are kept: the cycles of a past month can still be decided again."""
SILENT_SECONDS: Final = 80.0
"""A broker's topic figures may take 60 s; a quarter of the time is left for the answers of others
(`sources.asking`)."""
LIVE: Final = frozenset(
    (
        *("admin", "connection", "auth_plugin", "auth_params", "ca_file", "check_hostname", "broker_url"),
        *("full_every", "silent_seconds"),
    )
)
"""Entries of a running cluster that this process asks."""
_SOURCES = ("recording", "admin", "connection", "s3")
_NEEDS = {
    "s3_connection": ["s3"],
    "queue": ["reports"],
    "reports": ["queue"],
    "queue_keys": ["queue", "reports"],
    "auth_plugin": ["auth_params"],
    "auth_params": ["auth_plugin"],
}
_TYPES: Mapping[str, Any] = {
    "bool": ["boolean", "string"],
    "int": ["integer", "string"],
    "float": ["number", "string"],
    "optional float": ["number", "string"],
    "list": ["array", "string"],
    "set": ["array", "string"],
}
"""JSON types of a setting by its kind: each may also be text, as a broker would write it."""


def _setting(key: Key) -> Any:
    """Return the definition of a field for one of Pulsar's keys."""

    def check(value: Any) -> Any:
        try:
            check_allowed(key, coerce(key, value))
        except SettingsError:
            raise fault(f"Input should be {key.allowed} ({key.unit}){did_you_mean(value, key.choices)}") from None
        return value

    newer = "".join(f" Default of Pulsar {short_name(name)}: {value}." for name, value in key.defaults.items())
    default = sorted(key.default) if isinstance(key.default, frozenset) else key.default
    schema = {
        "type": _TYPES.get(key.kind, "string"),
        "minimum": key.lowest,
        "maximum": key.highest,
        "items": {"type": "string"} if key.kind in ("list", "set") else None,
        "enum": list(key.choices) if key.kind == "str" and key.choices else None,
        "default": list(default) if isinstance(default, tuple) else default,
        "deprecated": True if key.deprecated_alias_of else None,
        "description": f"{key.meaning} Unit: {key.unit}.{newer}",
    }
    return Annotated[Any, PlainValidator(check), JsonSchema({n: v for n, v in schema.items() if v is not None})], None


def _limit(name: str, unit: str, meaning: str, highest: int | None) -> Any:
    return int, Field(getattr(Limits(), name), ge=1, le=highest, description=f"{meaning} Unit: {unit}.")


if TYPE_CHECKING:
    SettingEntries: TypeAlias = Entries
    LimitEntries: TypeAlias = Entries
else:
    SettingEntries = create_model(
        "SettingEntries",
        __base__=Entries,
        **{name: _setting(key) for name, key in registry().items() if name not in SWITCHES},
    )
    LimitEntries = create_model(
        "LimitEntries", __base__=Entries, **{one.name: _limit(one.name, **one.metadata) for one in fields(Limits)}
    )


def _rules_between_entries(schema: dict[str, Any]) -> None:
    running = schema["properties"].keys() - {"recording", "settings", "limits"}
    schema["anyOf"] = [{"required": [name]} for name in _SOURCES]
    schema["dependentRequired"] = _NEEDS
    schema["dependentSchemas"] = {"recording": {"properties": {name: {"not": {}} for name in sorted(running)}}}


class ClusterEntries(Entries):
    """A cluster."""

    model_config = ConfigDict(json_schema_extra=_rules_between_entries)

    recording: Place | None = None
    """Folder of the cluster's snapshots, relative to this file; replaces all entries about a running cluster."""
    admin: AdminAddresses | None = None
    """Web addresses of brokers, tried in this order. Default: those of `connection`."""
    connection: ConnectionName | None = None
    """Name of the connection with the token, or with JSON of `auth_plugin` and `auth_params`: `EVENKEEL_TOKEN_<NAME>`,
    the file of `EVENKEEL_TOKEN_<NAME>_FILE`, or a connection of Airflow's. Default: no authentication."""
    auth_plugin: Text | None = None
    """Authentication as in Pulsar's client.conf, in place of `connection`: `token`, `oauth2`, `tls` or `basic`, or
    Pulsar's class of it."""
    auth_params: Text | Annotated[dict[str, Text], Field(min_length=1)] | None = None
    """Parameters of `auth_plugin` as in client.conf, as text or as a table. Paths are absolute. Secrets are in files
    (`file:`, `env:`, `private_key`, `tlsKeyFile`) or in the connection, not in this file."""
    ca_file: Place | None = None
    """File of PEM certificates to trust, relative to this file. Default: the system's."""
    check_hostname: bool = True
    """A broker's certificate has to name its host."""
    broker_url: Text | None = None
    """Web address of a broker known as host:port, as in `https://{host}:8443`. Default: its id."""
    landing: Place | None = None
    """Folder for the cluster's landed snapshots, relative to this file. Default: `landing/<NAME>`."""
    landing_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = DAYS_KEPT
    """Days for which landed snapshots are kept."""
    full_every: Annotated[int, Field(ge=1)] = 1
    """Topic lists are in every n-th snapshot only."""
    silent_seconds: Annotated[float, Field(ge=1, le=240, allow_inf_nan=False)] = SILENT_SECONDS
    """Seconds without an answer after which a cluster is left out of the cycle."""
    s3: S3Address | None = None
    """Destination of the snapshots that `evenkeel collect` writes beside the cluster: `s3://bucket/prefix`."""
    s3_connection: ConnectionName | None = None
    """Airflow's connection of the AWS kind with the keys of `s3`. Default: boto3's own search."""
    queue: Text | None = None
    """URL of the FIFO queue of SQS for the commands to the agent beside the cluster."""
    reports: Text | None = None
    """URL of the FIFO queue of that agent's reports."""
    queue_keys: ConnectionName | None = None
    """Name of the keys that sign both queues' messages: `EVENKEEL_KEYS_<NAME>`, its `_FILE`, or a connection. Default:
    `queue_<NAME>`."""
    settings: SettingEntries = SettingEntries()
    """Settings of this cluster; they win over those for all."""
    limits: LimitEntries = LimitEntries()
    """Limits of this cluster; they win over those for all."""

    @property
    def is_live(self) -> bool:
        """True if an entry says how this process reaches the cluster."""
        return not LIVE.isdisjoint(self.model_fields_set)

    @model_validator(mode="after")
    def _entries_fit(self, info: ValidationInfo) -> Self:
        raise_faults([*self._source_faults(), *self._setting_faults(context_of(info))])
        return self

    def _source_faults(self) -> Iterator[tuple[FaultPath, str]]:
        from evenkeel.pulsar.admin.connection import AdminConnection

        given = self.model_fields_set
        if "recording" in given:
            for name in sorted(given - {"recording", "settings", "limits"}):
                yield (name,), "This is for a running cluster, and `recording` is a folder: take one"
            return
        if given.isdisjoint(_SOURCES):
            advice = "give `admin` (web addresses of brokers), `connection`, `s3` or `recording`"
            yield (), f"No entry names the source of the snapshots: {advice}"
        for name, beside in _NEEDS.items():
            for missing in (other for other in beside if name in given and other not in given):
                yield (name,), f"This goes with `{missing}`, which is missing"
        if self.auth_plugin is not None and self.auth_params is not None:
            if "connection" in given:
                yield ("auth_plugin",), "This replaces `connection`, which has the authentication itself: take one"
            yield from self._authentication_faults(self.auth_plugin, self.auth_params)
        if self.is_live and (self.admin or not self.connection):
            try:
                AdminConnection(tuple(self.admin or ()), broker_url=self.broker_url)
            except SettingsError as error:
                entry = "broker_url" if self.admin and self.broker_url else "admin"
                yield (entry,), without(str(error), [*(self.admin or ()), self.broker_url or ""])

    def _authentication_faults(self, plugin: str, params: str | dict[str, str]) -> Iterator[tuple[FaultPath, str]]:
        from evenkeel.pulsar.admin.auth_params import authentication_of, secret_in

        texts = [params] if isinstance(params, str) else list(params.values())
        try:
            secret = secret_in(plugin, params, "auth_params")
            if secret is not None:
                advice = "name a file of it, or give it by `connection`"
                yield ("auth_params",), f"This file holds no secrets, and this is one ({secret}): {advice}"
                return
            authentication = authentication_of(plugin, params, "auth_params")
            if authentication.needs_tls and self.admin and not self.admin[0].startswith("https:"):
                yield ("admin",), "A client certificate needs https:// addresses: give the brokers' TLS port"
        except SettingsError as error:
            yield ("auth_params",), without(str(error), [plugin, *texts])

    def _setting_faults(self, context: FileContext) -> Iterator[tuple[FaultPath, str]]:
        """Yield contradictions between the cluster's settings, taken together with those for all clusters."""
        settings = {**context.table("settings"), **self.settings.given()}
        sound = {name: value for name, value in settings.items() if _is_sound(name, value)}
        try:
            resolve(observed=None, overrides=sound)
        except SettingsError as error:
            yield ("settings",), str(error)


def _is_sound(name: str, value: Any) -> bool:
    """Return True if a setting has no fault of its own."""
    try:
        SettingEntries.model_validate({name: value})
    except ValidationError:
        return False
    return True
