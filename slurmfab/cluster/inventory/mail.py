"""The model of mail about jobs (key `mail`): a relay to which the controllers hand it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import Model, is_address, written_as

_RELAY = re.compile(r"(\[(?P<bare>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\s]+))(:(?P<port>\d{1,5}))?")
_MAILBOX = re.compile(r"[A-Za-z0-9._%+=-]{1,64}@(?P<domain>[A-Za-z0-9.-]{1,255})")
_USER = re.compile(r"[!-~]{1,256}")
_HIGHEST_PORT = 65535

Tls = Literal["on", "starttls", "off"]
PORTS: dict[str, int] = {"on": 465, "starttls": 587, "off": 25}  # the usual port of a relay by its kind of encryption


@written_as(_RELAY)
def _check_relay(relay: str) -> str:
    found = _RELAY.fullmatch(relay)
    if not found or not is_address(found["bare"] or found["name"]):
        raise ValueError(f'"{relay}" is not a host such as smtp.example.org, with or without :PORT')
    if found["port"] is not None and not 0 < int(found["port"]) <= _HIGHEST_PORT:
        raise ValueError(f"{found['port']} is not a port")
    return relay


@written_as(_MAILBOX)
def check_mailbox(address: str) -> str:
    """Return a mail address such as `slurm@example.org`. Raises ValueError if it is something else."""
    found = _MAILBOX.fullmatch(address)
    if not found or not is_address(found["domain"]):
        raise ValueError(f'"{address}" is not a mail address such as slurm@example.org')
    return address


@written_as(_USER)
def _check_user(user: str | None) -> str | None:
    if user is not None and not _USER.fullmatch(user):
        raise ValueError("it must be one word of ASCII characters")
    return user


def _tls_of(value: Any) -> Any:
    """Read `true` as `on` and `false` as `off`."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


class Mail(Model):
    """The relay to which the controllers hand mail about jobs."""

    relay: Annotated[str, AfterValidator(_check_relay), Field(description="Host of the relay, or HOST:PORT.")]
    # users without an address of their own get the mail in its domain
    sender: Annotated[
        str, AfterValidator(check_mailbox), Field(validation_alias="from", description="Sender of the mail.")
    ]
    tls: Annotated[
        Tls,
        BeforeValidator(_tls_of, json_schema_input_type=Tls | bool),
        Field(description="Encryption: starttls, on (from the start) or off."),
    ] = "starttls"
    user: Annotated[str | None, AfterValidator(_check_user), Field(description="Login at the relay.")] = None
    password_file: Annotated[str | None, Field(min_length=1, description="File with the password, mode 0600.")] = None

    @property
    def host(self) -> str:
        """The relay's host, without a port."""
        found = _RELAY.fullmatch(self.relay)
        return (found["bare"] or found["name"]) if found else self.relay

    @property
    def port(self) -> int:
        """The relay's port."""
        found = _RELAY.fullmatch(self.relay)
        return int(found["port"]) if found and found["port"] else PORTS[self.tls]

    @property
    def domain(self) -> str:
        """The domain of the sender."""
        return self.sender.rpartition("@")[2]
