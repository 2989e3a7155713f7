"""The model of users and groups from a directory (key `directory`): LDAP or Active Directory, by SSSD."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.values import Model, is_address, one_or_more, written_as

_SERVER = re.compile(r"ldaps?://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\s\[\]]+)(:\d{1,5})?/?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*=[^\x00-\x1f\x7f]{1,500}")
_GROUP = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_. -]{0,62}[A-Za-z0-9_.-])?")
_OPTION = re.compile(r"[a-z][a-z0-9_]{1,60}")
_ENTRY = re.compile(r"[^\x00-\x20\x7f,@\[\]]([^\x00-\x1f\x7f,@\[\]]{0,62}[^\x00-\x20\x7f,@\[\]])?")
_FOLDER = re.compile(r"(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)+")
_VALUE = re.compile(r"[!-~]([ -~]{0,1000}[!-~])?")

FORBIDDEN = ("ldap_auth_disable_tls_never_use_in_production", "ldap_default_authtok_type")
"""Options that would send passwords in the clear, or have them read in another way."""


@written_as(_SERVER)
def _check_server(server: str) -> str:
    found = _SERVER.fullmatch(server)
    if not found or not is_address(found["host"].strip("[]")):
        raise ValueError(f'"{server}" is not a server such as ldaps://ldap.example.org, or ldap://… for StartTLS')
    return server.rstrip("/")


@written_as(_NAME)
def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" is not the name of an entry of a directory, such as dc=example,dc=org')
    return name


@written_as(_GROUP)
def check_group(group: str) -> str:
    """Return the name of a group of a directory. Raises ValueError if it is none that SSSD's lists can hold."""
    if not _GROUP.fullmatch(group):
        raise ValueError(f'"{group}" is not the name of a group: letters, digits, _ . - and spaces inside')
    return group


@written_as(_OPTION)
def _check_option(option: str) -> str:
    if not _OPTION.fullmatch(option) or option in FORBIDDEN:
        raise ValueError(f'"{option}" is no option of sssd-ldap(5) or sssd.conf(5) that may be set here')
    return option


@written_as(_VALUE)
def _check_value(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise ValueError("it must be one line of ASCII characters")
    return value


@written_as(_ENTRY)
def _check_entry(name: str) -> str:
    if not _ENTRY.fullmatch(name):
        raise ValueError(f'"{name}" is not the name of a user or a group: no comma, and no space at its ends')
    return name


@written_as(_FOLDER)
def _check_folder(path: str) -> str:
    if not _FOLDER.fullmatch(path):
        raise ValueError(f'"{path}" is not an absolute path of letters, digits and _ . + -, such as /home/staff')
    return path


Group = Annotated[str, AfterValidator(check_group)]
Groups = Annotated[tuple[Group, ...], BeforeValidator(one_or_more, json_schema_input_type=str | list[str])]
"""The names of groups that hosts know, by a directory or by /etc/group."""


Entries = Annotated[
    tuple[Annotated[str, AfterValidator(_check_entry)], ...],
    BeforeValidator(one_or_more, json_schema_input_type=str | list[str]),
]
HomesFolder = Annotated[str, AfterValidator(_check_folder)]

MIN_ID = 10000
"""The lowest UID and GID where the cluster file says none: above those that hosts give to users of their own."""

NUMBERS_END = 1 << 31
"""From here on, programs take numbers for negative ones."""


class Sssd(Model):
    """The directory that SSSD asks on all hosts of the cluster, and who of it may log in."""

    servers: Annotated[
        tuple[Annotated[str, AfterValidator(_check_server)], ...],
        BeforeValidator(one_or_more, json_schema_input_type=str | list[str]),
        Field(min_length=1, description="ldaps://HOST, or ldap://HOST for StartTLS; the first that answers is asked."),
    ]
    base: Annotated[str, AfterValidator(_check_name), Field(description="Where users and groups are searched.")]
    ca_file: Annotated[str, Field(min_length=1, description="Certificate of the servers' authority, in a file (PEM).")]
    type: Annotated[
        Literal["ldap", "ad"], Field(description="ad for Active Directory: UIDs and GIDs are computed from its SIDs.")
    ] = "ldap"
    bind_dn: Annotated[
        Annotated[str, AfterValidator(_check_name)] | None, Field(description="The entry as which SSSD searches.")
    ] = None
    password_file: Annotated[str | None, Field(min_length=1, description="File with its password, mode 0600.")] = None
    groups: Annotated[Groups, Field(description="Groups whose members may log in; without it, all users may.")] = ()
    homes: Annotated[
        Literal["login", "server"] | Annotated[tuple[HomesFolder, ...], Field(min_length=1)],
        Field(
            description="login: the first login makes a home in `homes` or /home (pam_mkhomedir); or the folders in "
            "which it does; server: the site makes homes."
        ),
    ] = "login"
    min_id: Annotated[
        int | None,
        Field(
            ge=1000,
            le=NUMBERS_END - 1,
            description="The lowest UID and GID that count; 10000 without it, if that cuts nobody off.",
        ),
    ] = None
    ignored: Annotated[
        Entries,
        Field(description="Users and groups with the number or name of one of a host: no host sees them."),
    ] = ()
    admins: Annotated[
        Entries,
        Field(description="Users and groups of the directory whom hosts' own groups or rules of sudo name on purpose."),
    ] = ()
    options: Annotated[
        dict[Annotated[str, AfterValidator(_check_option)], Annotated[str, AfterValidator(_check_value)]],
        Field(description="Further options of the domain, as in sssd-ldap(5)."),
    ] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> Sssd:
        if (self.bind_dn is None) != (self.password_file is None):
            raise ValueError("bind_dn and password_file belong together: a name and its password")
        if len({server.partition(":")[0] for server in self.servers}) > 1:
            raise ValueError("servers are either all ldaps:// or all ldap:// (StartTLS)")
        return self

    @property
    def starts_tls(self) -> bool:
        """Whether connections begin in the clear and are encrypted before anything is asked."""
        return self.servers[0].startswith("ldap:")


class Directory(Model):
    """Users and groups from a directory."""

    sssd: Annotated[Sssd, Field(description="LDAP or Active Directory, asked by SSSD.")]
