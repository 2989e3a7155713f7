"""Files of the site's own on hosts (key `files`), read from beside the cluster file, and templates among them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import HostNames, Model, number_as_text, written_as

MOST_FILES = 128  # the most files
LARGEST_FILE = 256 * 1024  # the most bytes of a file

LARGEST_SUM = 1024 * 1024
"""The most bytes of all files together: they are compared with those of every host in every deployment."""

ROLES = {"controllers": "controller", "database": "database", "compute": "compute", "login": "login"}
"""The names of roles in the cluster file, with the role of a host that each is."""

OTHERS_READ = 0o004

_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+@:-]{1,200})+")
_MODE = re.compile(r"0?[0-7]{3}")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}\$?")
_UNIT = re.compile(r"[A-Za-z0-9_.@-]{1,100}")


@written_as(_PATH)
def _check_path(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(f'"{path}" is not an absolute path of letters, digits and _ . + @ : -, such as /etc/motd')
    return path


@written_as(_MODE)
def _check_mode(text: str) -> str:
    if not _MODE.fullmatch(text):
        raise ValueError(f'"{text}" is not a mode such as 0644; a file that runs with the rights of its owner is none')
    return text


@written_as(_ACCOUNT)
def _check_account(name: str) -> str:
    if not _ACCOUNT.fullmatch(name):
        raise ValueError(f'"{name}" is not the name of a user or group')
    return name


def _check_unit(unit: str) -> str:
    if not _UNIT.fullmatch(unit):
        raise ValueError(f'"{unit}" is not the name of a systemd unit such as sssd')
    return unit


Role = Literal["all", "controllers", "database", "compute", "login"]
AccountName = Annotated[str, AfterValidator(_check_account)]


class FileOnHosts(Model):
    """A file of the site's own on hosts."""

    # `None` if `text` has it
    source: Annotated[str | None, Field(min_length=1, description="Path, relative to the cluster file.")] = None
    text: Annotated[str | None, Field(max_length=LARGEST_FILE, description="Content, instead of a source.")] = None
    template: Annotated[bool, Field(description="Whether it is a Jinja2 template with the cluster's values.")] = False
    roles: Annotated[tuple[Role, ...], Field(description="Roles of hosts that have it; by default all hosts.")] = ()
    # without roles and hosts, all hosts have it
    hosts: Annotated[HostNames, Field(description="Hostlist of hosts that have it, besides those of the roles.")] = ()
    owner: Annotated[AccountName, Field(description="User on the hosts.")] = "root"
    group: Annotated[AccountName, Field(description="Group on the hosts.")] = "root"
    mode: Annotated[
        str,
        BeforeValidator(number_as_text, json_schema_input_type=str | int),
        AfterValidator(_check_mode),
        Field(description="Permission bits, such as 0640."),
    ] = "0644"
    restart: Annotated[
        str | None, AfterValidator(lambda unit: unit and _check_unit(unit)), Field(description="Unit that reads it.")
    ] = None

    @property
    def bits(self) -> int:
        """The permission bits."""
        return int(self.mode, 8)

    @property
    def is_secret(self) -> bool:
        """Whether others may not read it, so that no report shows its text."""
        return not self.bits & OTHERS_READ

    @cached_property
    def members(self) -> frozenset[str]:
        """The hosts by name, to look one up among very many."""
        return frozenset(self.hosts)

    def is_on(self, host: str, roles: tuple[str, ...]) -> bool:
        """Whether a host with these roles has it."""
        if not self.roles and not self.hosts:
            return True
        wanted = {ROLES.get(role, role) for role in self.roles}
        return host in self.members or "all" in wanted or not wanted.isdisjoint(roles)


def _check_number(files: dict[str, FileOnHosts]) -> dict[str, FileOnHosts]:
    if len(files) > MOST_FILES:
        raise ValueError(f"there are {len(files)} files; at most {MOST_FILES} are allowed")
    return files


Files = Annotated[
    dict[Annotated[str, AfterValidator(_check_path)], FileOnHosts],
    AfterValidator(_check_number),
    Field(description="Files of the site's own on hosts, by their absolute path there."),
]
