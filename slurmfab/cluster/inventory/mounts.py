"""The model of file systems that hosts mount (key `mounts`)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.values import HostNames, Model, check_directory, one_or_more, written_as

Role = Literal["controller", "database", "login", "compute"]

ROLES: tuple[Role, ...] = ("controller", "login", "compute")
"""The roles of hosts with a mount that names neither roles nor hosts: those on which people or their jobs work."""

BIND = "bind"
NETWORK = frozenset(
    {"nfs", "nfs4", "glusterfs", "lustre", "fuse.sshfs", "cifs", "smb3", "ceph", "beegfs", "gpfs", "9p"}
)
"""Types of file systems on other machines; they are mounted once the network is up (systemd.mount(5))."""

_OWN_RECOVERY = frozenset({"lustre", "beegfs", "gpfs"})  # types whose clients connect again by themselves
LIKE_NETWORK = ("fuse.",)  # how the types of other file systems begin that are taken for such

CLIENTS = {
    "nfs": "nfs-common",
    "nfs4": "nfs-common",
    "glusterfs": "glusterfs-client",
    "fuse.sshfs": "sshfs",
    "cifs": "cifs-utils",
    "smb3": "cifs-utils",
    "ceph": "ceph-common",
    "xfs": "xfsprogs",
    "btrfs": "btrfs-progs",
}
"""The package with the client, by type; Debian and Ubuntu name them alike."""

_SERVER = frozenset({"nfs", "nfs4", "glusterfs", "lustre", "fuse.sshfs"})  # types whose source is SERVER:PATH

_SHARES = frozenset({"cifs", "smb3"})
_OTHER_NAMES = {"sshfs": "fuse.sshfs"}
_TYPE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SOURCE = re.compile(r"[^\s\"'\\$\x00-\x1f\x7f]{1,1024}")
_OPTION = re.compile(r"[^\s,\"'\\$\x00-\x1f\x7f]{1,512}")
_SECRETS = ("password", "password2", "pass", "passwd", "secret")
_OF_FSTAB = "x-systemd."


@written_as(_TYPE)
def _check_type(name: str) -> str:
    name = _OTHER_NAMES.get(name, name)
    if not _TYPE.fullmatch(name):
        raise ValueError(f'"{name}" is not a type of file systems that mount(8) takes, such as nfs4')
    return name


@written_as(_SOURCE)
def _check_source(source: str) -> str:
    if not _SOURCE.fullmatch(source):
        raise ValueError("a source is a text without spaces, quotes, $ and backslashes, such as server:/export/home")
    return source


def split_options(value: Any) -> Any:
    """Options in a list, or in a text with commas as in fstab(5) and exports(5); a validator for both."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


@written_as(_OPTION)
def _check_option(option: str) -> str:
    name = option.partition("=")[0].lower()
    if name in _SECRETS:
        raise ValueError(
            f"{name}= would be readable for every user of the hosts; name a file instead: credentials=FILE or "
            "secretfile=FILE"
        )
    if not _OPTION.fullmatch(option):
        raise ValueError("an option of mount(8) has no spaces, commas, quotes, $ and backslashes")
    if option.startswith(_OF_FSTAB):
        raise ValueError(f'"{option}" is for fstab; slurmfab writes units of systemd: for {name} see automount: true')
    return option


Path = Annotated[str, AfterValidator(check_directory("/home"))]
Option = Annotated[str, AfterValidator(_check_option)]
Roles = Annotated[
    tuple[Role, ...], BeforeValidator(one_or_more, json_schema_input_type=Role | list[Role]), Field(min_length=1)
]
"""One role, or a list of some."""


class Mount(Model):
    """A file system that hosts mount."""

    path: Annotated[Path, Field(description="Mount point, such as /home.")]
    source: Annotated[
        str, AfterValidator(_check_source), Field(description="What is mounted, such as server:/export/home.")
    ]
    type: Annotated[
        str,
        AfterValidator(_check_type),
        Field(description="nfs4, glusterfs, lustre, sshfs, cifs, bind, ext4, or another type of mount(8)."),
    ]
    options: Annotated[
        tuple[Option, ...],
        BeforeValidator(split_options, json_schema_input_type=str | list[str]),
        Field(description="Options of mount(8), as a list or with commas."),
    ] = ()
    roles: Annotated[
        Roles, Field(description="Roles of the hosts that mount it; by default controller, login, compute.")
    ] = ROLES
    hosts: Annotated[
        HostNames | None, Field(min_length=1, description="Hostlist of the hosts that mount it, instead of roles.")
    ] = None
    # left out, see `is_tried_again`
    automount: Annotated[
        bool,
        Field(
            description="Whether it is mounted when it is first used, and not at boot. Left out, a network file system "
            "is mounted at boot and, where that fails, at its next use."
        ),
    ] = False

    @model_validator(mode="after")
    def _fits_together(self) -> Mount:
        if self.hosts is not None and "roles" in self.model_fields_set:
            raise ValueError("a mount has roles or hosts, not both")
        if self.type in _SERVER and ":" not in self.source:
            raise ValueError(f'the source of type {self.type} is SERVER:PATH, not "{self.source}"')
        if self.type in _SHARES and not self.source.startswith("//"):
            raise ValueError(f'the source of type {self.type} is //SERVER/SHARE, not "{self.source}"')
        if self.type == BIND and (not self.source.startswith("/") or posixpath.normpath(self.source) == self.path):
            raise ValueError(f'the source of type bind is another directory of the host, not "{self.source}"')
        return self

    @property
    def is_nfs(self) -> bool:
        """Whether it is mounted by NFS, of whatever version."""
        return self.type in ("nfs", "nfs4")

    @property
    def is_nfs_4(self) -> bool:
        """Whether it is mounted by NFS version 4 and never by an older one (nfs(5): `nfs4`, or an option for it)."""
        asks = any(re.fullmatch(r"(nfs)?vers=4(\.\d)?", option) for option in self.options)
        return self.type == "nfs4" or (self.type == "nfs" and asks)

    @property
    def is_network(self) -> bool:
        """Whether it is on other machines, so that hosts with it see the same files."""
        return self.type in NETWORK or self.type.startswith(LIKE_NETWORK)

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be written there."""
        return "ro" in self.options


Mounts = Annotated[
    tuple[Mount, ...], Field(description="File systems that hosts mount, such as homes on a file server.")
]


def covering(mounts: Iterable[Mount], path: str) -> Mount | None:
    """The innermost of some mounts that a path is on; `None` if it is on none of them.

    >>> covering((), "/home/ann")
    """
    found = [one for one in mounts if f"{path}/".startswith(f"{one.path}/")]
    return max(found, key=lambda one: len(one.path), default=None)


def needs_network(mount: Mount, mounts: Iterable[Mount]) -> bool:
    """Whether a mount needs the network: its own file system's, or that of the mount that a `bind` is a part of."""
    if mount.is_network or "_netdev" in mount.options:
        return True
    below = covering(mounts, mount.source) if mount.type == BIND else None
    return below is not None and below != mount and needs_network(below, [one for one in mounts if one != mount])


def is_tried_again(mount: Mount, mounts: Iterable[Mount], state_directory: str) -> bool:
    """Whether a mount that fails at boot is tried again at its next use, as of a file server that comes later.

    That of slurmctld's state is not: slurmctld does not start without it. Lustre, BeeGFS and GPFS have daemons or
    modules of their own that come back.
    """
    if "automount" in mount.model_fields_set or mount.type in _OWN_RECOVERY:
        return False
    return needs_network(mount, mounts) and not f"{state_directory}/".startswith(f"{mount.path}/")


def unit_name(path: str, suffix: str) -> str:
    r"""The name of the unit of a mount point, as `systemd-escape --path --suffix` makes it.

    >>> unit_name("/srv/big-data", ".mount")
    'srv-big\\x2ddata.mount'
    """
    parts = posixpath.normpath(path).strip("/")
    escaped = "".join(
        "-" if one == "/" else one if is_plain(one) and not (one == "." and place == 0) else f"\\x{ord(one):02x}"
        for place, one in enumerate(parts)
    )
    return f"{escaped}{suffix}"


def is_plain(letter: str) -> bool:
    """Whether systemd.unit(5) takes a letter as it is in names."""
    return letter.isascii() and (letter.isalnum() or letter in ":_.")
