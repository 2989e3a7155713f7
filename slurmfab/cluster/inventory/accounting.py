"""Models of accounting: the database, QOS, accounts and users; keys in CamelCase are sacctmgr(1)'s."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.cluster.inventory.directory import Groups
from slurmfab.cluster.inventory.quota import UserQuotaOrNot
from slurmfab.cluster.inventory.slurm_settings import Setting
from slurmfab.cluster.inventory.values import Model, written_as

_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,39}")
_LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_GROUP = _LOGIN
_HIGHEST_ID = 2**31 - 2
_SERVER = re.compile(r"(\[(?P<bare>[^]]+)\]|(?P<name>[^:]+|[^:]*(:[^:]*){2,}))(:(?P<port>\d{1,5}))?")
DATABASE_PORT = 3306  # the default port of MariaDB and MySQL
ROOT = "root"  # the account above all others, which slurmdbd creates itself

AssociationSettings = dict[str, Setting]


@written_as(_NAME)
def _check_name(name: str) -> str:
    """Check a name for slurmdbd, which converts all names to lower case."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'"{name}" is not a valid name for slurmdbd: use at most 40 lower-case letters, digits, _, . and -'
        )
    return name


def is_name(name: str) -> bool:
    """Whether slurmdbd takes a name as it is."""
    return bool(_NAME.fullmatch(name))


@written_as(_LOGIN)
def _check_login(name: str) -> str:
    if not _LOGIN.fullmatch(name):
        raise ValueError(f'"{name}" is not a login name: use at most 32 lower-case letters, digits, _ and -')
    return name


def _check_host(host: str) -> str:
    """Check that a hostlist names one host."""
    try:
        count = len(hostlist.expand(host))
    except HostlistError as error:
        raise ValueError(str(error)) from None
    if count != 1:
        raise ValueError(f'"{host}" names {count} hosts; slurmdbd runs on one')
    return host


def _names(value: Any) -> Any:
    """A list of names; text is split at commas."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_check_name)]
Login = Annotated[str, AfterValidator(_check_login)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_names, json_schema_input_type=str | list[str])]
Logins = Annotated[tuple[Login, ...], BeforeValidator(_names, json_schema_input_type=str | list[str])]


class Database(Model):
    """The host of slurmdbd, and the database that it writes to."""

    host: Annotated[
        str,
        AfterValidator(_check_host),
        Field(min_length=1, description="Host of slurmdbd, and of MariaDB unless external."),
    ]
    external: Annotated[str | None, Field(min_length=1, description="Database server elsewhere: address[:port].")] = (
        None
    )
    user: Annotated[Login, Field(description="Database user of slurmdbd.")] = "slurm"
    name: Annotated[Name, Field(description="Name of the database (StorageLoc).")] = "slurm_acct_db"
    password_file: Annotated[
        str | None, Field(min_length=1, description="File on the deployer with the external database's password.")
    ] = None
    keep_password: Annotated[
        bool, Field(description="Whether to keep the external database's password in the host's slurmdbd.conf.")
    ] = False
    # otherwise they stay as they are
    settings: Annotated[bool, Field(description="Whether slurmfab writes MariaDB's settings for slurmdbd.")] = True

    @property
    def server(self) -> tuple[str, int]:
        """Address and port of the external server; `("", 0)` if the database is on the host itself."""
        found = _SERVER.fullmatch(self.external or "")
        return (found["bare"] or found["name"], int(found["port"] or DATABASE_PORT)) if found else ("", 0)


class Qos(Model):
    """A quality of service."""

    name: Annotated[Name, Field(description="Name of the QOS.")]
    # limits and other keys of `sacctmgr modify qos` (sacctmgr(1)) in the file's order
    settings: AssociationSettings = {}


class Account(Model):
    """An account."""

    name: Annotated[Name, Field(description="Name of the account.")]
    parent: Annotated[Name, Field(description="The account above it.")] = ROOT
    description: Annotated[str, Field(description="Its purpose.")] = ""  # its name by default
    organization: Annotated[str, Field(description="Its owner.")] = ""  # its parent's name by default
    coordinators: Annotated[Logins, Field(description="Users who may manage its users and limits.")] = ()
    from_groups: Annotated[Groups, Field(description="Groups of the hosts whose members are its users.")] = ()
    # limits and other keys of `sacctmgr modify account` (sacctmgr(1)) in the file's order
    settings: AssociationSettings = {}


class User(Model):
    """A user of the cluster: a UNIX user on the hosts, and an association with each of their accounts."""

    name: Annotated[Login, Field(description="Login name.")]
    # slurmfab chooses a free one by default
    uid: Annotated[int | None, Field(ge=1, le=_HIGHEST_ID, description="UID on every host.")] = None
    # the same number as the UID by default
    gid: Annotated[int | None, Field(ge=1, le=_HIGHEST_ID, description="GID of the user's own group.")] = None
    groups: Annotated[Logins, Field(description="Further groups.")] = ()
    shell: Annotated[str, Field(description="Login shell.")] = "/bin/bash"
    home: Annotated[str, Field(description="Home directory (default: NAME in homes, or /home/NAME).")] = ""
    comment: Annotated[str, Field(description="The person's name in full.")] = ""
    keys: Annotated[tuple[str, ...], Field(description="Public SSH keys, a line each.")] = ()
    sudo: Annotated[bool, Field(description="Whether they may become root on login hosts and controllers.")] = False
    accounts: Annotated[Names, Field(description="Accounts to use, the default first.")] = ()
    # they replace those of `settings`
    associations: Annotated[
        dict[Name, AssociationSettings], Field(description="By account, limits in that account only.")
    ] = {}
    quota: UserQuotaOrNot = None
    # limits and other keys of `sacctmgr modify user` (sacctmgr(1)) in the file's order
    settings: AssociationSettings = {}

    @property
    def home_directory(self) -> str:
        """The home directory, `/home/NAME` by default."""
        return self.home or f"/home/{self.name}"
