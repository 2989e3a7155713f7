"""The model of directories that a host of the cluster serves to the others by NFS (key `exports`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from slurmfab.base.ip_addresses import IPV6, family
from slurmfab.cluster.inventory.mounts import BIND, ROLES, Mount, Path, Roles, split_options
from slurmfab.cluster.inventory.values import Model

TYPE = "nfs4"  # the type of the mounts: the server serves version 4 alone, on one TCP port

DEFAULT_OPTIONS = ("rw", "no_subtree_check")
READ_ONLY = "ro"

_WORDS = frozenset(
    (
        *("ro", "rw", "secure", "insecure", "sync", "async", "wdelay", "no_wdelay", "hide", "nohide", "crossmnt"),
        *("nocrossmnt", "root_squash", "no_root_squash", "all_squash", "no_all_squash", "subtree_check"),
        *("no_subtree_check", "acl", "no_acl", "pnfs", "no_pnfs", "security_label", "mountpoint", "mp"),
    )
)
"""Options of exports(5) that are a word; exportfs ignores all lines after one with a word that it does not know."""

_VALUES = frozenset({"anonuid", "anongid", "fsid", "sec", "mountpoint", "mp", "refer", "replicas", "xprtsec"})
"""Options of exports(5) with a value."""

_VALUE = re.compile(r"[A-Za-z0-9_./:@+-]{1,255}")
_ROOTS = ("fsid=0", "fsid=root")
"""Options that make a directory the root of all exports, so that the paths of the others change."""


def _check_option(option: str) -> str:
    name, equals, value = option.partition("=")
    if option in _ROOTS:
        raise ValueError(f"{option} would change the paths of all other exports; leave it out: NFSv4 needs no root")
    if not (name in _VALUES and _VALUE.fullmatch(value) if equals else name in _WORDS):
        raise ValueError(f'"{option}" is not an option of exports(5)')
    return option


class Export(Model):
    """A directory that a host of the cluster serves to others."""

    path: Annotated[Path, Field(description="Directory on the server, such as /srv/home.")]
    host: Annotated[str, Field(min_length=1, description="The host of the cluster that serves it.")]
    to: Annotated[
        Roles, Field(description="Roles of the hosts that may mount it; by default controller, login, compute.")
    ] = ROLES
    options: Annotated[
        tuple[Annotated[str, AfterValidator(_check_option)], ...],
        BeforeValidator(split_options, json_schema_input_type=str | list[str]),
        Field(description="Options of exports(5), as a list or with commas (default: rw,no_subtree_check)."),
    ] = DEFAULT_OPTIONS
    # `None` if no host mounts it because of this key
    mount: Annotated[Path | None, Field(description="Where these hosts mount it, such as /home.")] = None

    @field_validator("options")
    @classmethod
    def _one_of_each(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        """Add `no_subtree_check`, without which exportfs complains."""
        return options if {"subtree_check", "no_subtree_check"} & set(options) else (*options, "no_subtree_check")


Exports = Annotated[
    tuple[Export, ...], Field(description="Directories that a host of the cluster serves to others by NFS.")
]


class Served(NamedTuple):
    """The mounts that follow from an export."""

    export: Export
    here: Mount | None  # the mount on the server itself; `None` where the directory has the path already
    elsewhere: Mount  # the mount on all other hosts


def served(exports: Iterable[Export], addresses: Mapping[str, str]) -> Iterator[Served]:
    """Yield the exports that hosts mount."""
    for export in exports:
        if export.mount is not None:
            is_same = export.mount == export.path
            here = None if is_same else Mount(path=export.mount, source=export.path, type=BIND)
            source = f"{bracketed(addresses.get(export.host) or export.host)}:{export.path}"
            options = (READ_ONLY,) if READ_ONLY in export.options else ()
            yield Served(export, here, Mount(path=export.mount, source=source, type=TYPE, options=options))


def bracketed(address: str) -> str:
    """An address as it is written before a colon and a path.

    >>> bracketed("10.0.0.1"), bracketed("fd00::1")
    ('10.0.0.1', '[fd00::1]')
    """
    return f"[{address}]" if family(address) == IPV6 else address
