"""Files of the site's own on hosts (key `files`), read from beside the cluster file, and templates among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.cluster.inventory.values import HostNames, Model, written_as

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster

MOST_FILES = 128
"""The most files."""

LARGEST_FILE = 256 * 1024
"""The most bytes of a file."""

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


def _mode(value: Any) -> Any:
    """A mode without quotes, which YAML reads as a whole number, as the text that was meant."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


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
        BeforeValidator(_mode, json_schema_input_type=str | int),
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
"""The key `files`."""


class Content(NamedTuple):
    """The content of one of these files, before a template is filled in."""

    path: str
    text: str  # the content; bytes that are not UTF-8 are surrogates


def read(cluster: Cluster, beside: Path) -> tuple[Content, ...]:
    """Read the files that a cluster file names.

    Returns:
        The contents, sorted by path.

    Raises:
        InputError: a file is missing, unreadable or too large; one line for each mistake.
    """
    found: list[Content] = []
    complaints: list[str] = []
    for path, one in sorted(cluster.files.items()):
        try:
            found.append(Content(path, _content(one, beside)))
        except InputError as error:
            complaints.append(f"files.{path}: {error}")
    complaints += _too_much(found)
    if complaints:
        raise InputError("\n".join((*complaints, "Nothing was changed on any host.")))
    return tuple(found)


def read_whole(cluster: Cluster, beside: Path) -> tuple[Content, ...]:
    """Read the files that a cluster file names, and fill in each template for each of its hosts to see that it can be.

    Returns:
        The contents, sorted by path.

    Raises:
        InputError: a file cannot be read, or a template is wrong; one line for each mistake.
    """
    found, complaints = read(cluster, beside), list[str]()
    for content in found:
        one = cluster.files[content.path]
        try:
            for host in cluster.hosts if one.template else ():
                if one.is_on(host, cluster.roles(host)):
                    text_on(cluster, host, content)
        except InputError as error:
            complaints.append(f"files.{content.path}: {error}")
    if complaints:
        raise InputError("\n".join((*complaints, "Nothing was changed on any host.")))
    return found


def text_on(cluster: Cluster, host: str, content: Content) -> str:
    """The text of a file on one host; a template is filled in.

    Raises:
        InputError: the template is wrong.
    """
    if not cluster.files[content.path].template:
        return content.text
    from slurmfab.cluster.slurm.render import fill_text  # Jinja2 takes long to load, and few files are templates

    return fill_text(content.text, values(cluster, host))


def values(cluster: Cluster, host: str) -> Mapping[str, Any]:
    """The values that templates can use on a host."""
    return {
        "cluster": cluster.name,
        "controllers": cluster.controllers,
        "database": cluster.database.host if cluster.database else "",
        "login": cluster.login,
        "compute": cluster.compute_nodes,
        "hosts": cluster.hosts,
        "partitions": tuple(partition.name for partition in cluster.partitions),
        "addresses": {**{name: name for name in cluster.hosts}, **cluster.addresses},
        "host": host,
        "address": cluster.addresses.get(host) or host,
        "roles": cluster.roles(host),
    }


def _content(one: FileOnHosts, beside: Path) -> str:
    """The content of a file.

    Raises:
        InputError: it cannot be read, and why.
    """
    if one.source is None:
        return one.text or ""
    path = beside / Path(one.source).expanduser()
    try:
        return bounded_file.read(path, LARGEST_FILE).decode("utf-8", "surrogateescape")
    except BrokenFile:
        raise InputError(f"{path} is not a regular file of at most {LARGEST_FILE >> 10} KiB.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _too_much(files: list[Content]) -> Iterator[str]:
    """Yield a complaint if the files together are too large."""
    size = sum(len(one.text) for one in files)
    if size > LARGEST_SUM:
        yield f"files: they have {size >> 10} KiB together; at most {LARGEST_SUM >> 10} KiB are allowed."
