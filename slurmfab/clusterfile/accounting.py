"""The models of accounting: the database, qualities of service, accounts, and the people who use the cluster.

Keys in CamelCase are Slurm's, spelled as in sacctmgr(1): they go through to slurmdbd.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab import hostlist
from slurmfab.clusterfile.model import Model
from slurmfab.clusterfile.slurm_settings import Setting
from slurmfab.errors import HostlistError

_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,39}")
_LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_GROUP = _LOGIN
_HIGHEST_ID = 2**31 - 2
_SERVER = re.compile(r"(\[(?P<bare>[^]]+)\]|(?P<name>[^:]+|[^:]*(:[^:]*){2,}))(:(?P<port>\d{1,5}))?")
DATABASE_PORT = 3306
"""Where MariaDB and MySQL listen."""

ROOT = "root"
"""The account above all others, which slurmdbd makes itself."""

AssociationSettings = dict[str, Setting]


def _check_name(name: str) -> str:
    """slurmdbd takes names in lower case only, and makes those that are not."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'"{name}" is no name for slurmdbd: lower-case letters, digits, _, . and -, at most 40 of them'
        )
    return name


def _check_login(name: str) -> str:
    if not _LOGIN.fullmatch(name):
        raise ValueError(f'"{name}" is no login name: lower-case letters, digits, _ and -, at most 32 of them')
    return name


def _check_host(host: str) -> str:
    """One host, named as hostlists name them."""
    try:
        count = len(hostlist.expand(host))
    except HostlistError as error:
        raise ValueError(str(error)) from None
    if count != 1:
        raise ValueError(f'"{host}" is {count} hosts; slurmdbd runs on one')
    return host


def _names(value: Any) -> Any:
    """A list of names; one alone needs no brackets, and commas part several."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def database_of(value: Any) -> Any:
    """`database: mn01` says the same as `database: {host: mn01}`."""
    return {"host": value} if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_check_name)]
Login = Annotated[str, AfterValidator(_check_login)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_names, json_schema_input_type=str | list[str])]
Logins = Annotated[tuple[Login, ...], BeforeValidator(_names, json_schema_input_type=str | list[str])]


class Database(Model):
    """Where slurmdbd runs, and the database that it writes to.

    Args:
        host: the host of slurmdbd, and of MariaDB if the database is not elsewhere.
        external: address of a database server that is not slurmfab's, as `db.example.org` or `db.example.org:3307`.
        user: the name as which slurmdbd logs in.
        name: of the database (StorageLoc).
        password_file: on the deployer, the file with the password for an external database.
    """

    host: Annotated[
        str,
        AfterValidator(_check_host),
        Field(min_length=1, description="Host of slurmdbd, and of MariaDB unless external."),
    ]
    external: Annotated[str | None, Field(min_length=1, description="Database server elsewhere: address[:port].")] = (
        None
    )
    user: Annotated[Login, Field(description="As whom slurmdbd logs in at the database.")] = "slurm"
    name: Annotated[Name, Field(description="Name of the database (StorageLoc).")] = "slurm_acct_db"
    password_file: Annotated[
        str | None, Field(min_length=1, description="File on the deployer with the external database's password.")
    ] = None

    @property
    def server(self) -> tuple[str, int]:
        """Address and port of the external server; nothing, and 0, for one on the host itself."""
        found = _SERVER.fullmatch(self.external or "")
        return (found["bare"] or found["name"], int(found["port"] or DATABASE_PORT)) if found else ("", 0)


class Qos(Model):
    """A quality of service.

    Args:
        name: its name.
        settings: its limits and other keys of `sacctmgr modify qos` (sacctmgr(1)) in the file's order.
    """

    name: Annotated[Name, Field(description="Name of the QOS.")]
    settings: AssociationSettings = {}


class Account(Model):
    """An account.

    Args:
        name: its name.
        parent: the account above it.
        description: what it is for; its name if nothing is said.
        organization: whose it is; its parent's name if nothing is said.
        coordinators: who may manage its users and limits.
        settings: its limits and other keys of `sacctmgr modify account` (sacctmgr(1)) in the file's order.
    """

    name: Annotated[Name, Field(description="Name of the account.")]
    parent: Annotated[Name, Field(description="The account above it.")] = ROOT
    description: Annotated[str, Field(description="What it is for.")] = ""
    organization: Annotated[str, Field(description="Whose it is.")] = ""
    coordinators: Annotated[Logins, Field(description="Users who may manage its users and limits.")] = ()
    settings: AssociationSettings = {}


class User(Model):
    """A person: a UNIX user on the hosts, and an association with each of some accounts.

    Args:
        name: the login name.
        uid: the same on every host; slurmfab chooses a free one if nothing is said.
        gid: of the group with the user's name; the UID's number if nothing is said.
        groups: further groups.
        shell: the login shell.
        home: the home directory; below /home if nothing is said.
        comment: the person's name in full, for passwd(5).
        keys: public SSH keys, as in authorized_keys.
        sudo: whether they may become root on login hosts and controllers.
        accounts: the accounts to use, the default first.
        associations: by account, limits that the user has there and not elsewhere; they replace those of `settings`.
        settings: limits and other keys of `sacctmgr modify user` (sacctmgr(1)) in the file's order.
    """

    name: Annotated[Login, Field(description="Login name.")]
    uid: Annotated[int | None, Field(ge=1, le=_HIGHEST_ID, description="UID on every host.")] = None
    gid: Annotated[int | None, Field(ge=1, le=_HIGHEST_ID, description="GID of the user's own group.")] = None
    groups: Annotated[Logins, Field(description="Further groups.")] = ()
    shell: Annotated[str, Field(description="Login shell.")] = "/bin/bash"
    home: Annotated[str, Field(description="Home directory (default: /home/NAME).")] = ""
    comment: Annotated[str, Field(description="The person's name in full.")] = ""
    keys: Annotated[tuple[str, ...], Field(description="Public SSH keys, a line each.")] = ()
    sudo: Annotated[bool, Field(description="Whether they may become root where users log in.")] = False
    accounts: Annotated[Names, Field(description="Accounts to use, the default first.")] = ()
    associations: Annotated[
        dict[Name, AssociationSettings], Field(description="By account, limits that hold there alone.")
    ] = {}
    settings: AssociationSettings = {}

    @property
    def home_directory(self) -> str:
        """Where the user's home is."""
        return self.home or f"/home/{self.name}"


def settings_by_name(entries: tuple[Qos | Account | User, ...]) -> Mapping[str, Mapping[str, str]]:
    """What the file says of each, in Slurm's keys."""
    return {entry.name: entry.settings for entry in entries}
