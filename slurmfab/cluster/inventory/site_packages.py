"""Packages of the site's own on hosts (key `packages`): for all hosts, by role, and for groups of hosts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import HostNames, Model, check_once

PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")
"""Names of packages (deb-control(5)); apt-get takes a name that ends in `-` for one to be removed."""

_FILE = re.compile(r"[^\s\"'\\\x00-\x1f\x7f]{1,1000}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:-]*\*?")
_LONGEST = 200
MOST_PACKAGES = 256  # the most packages of one list
DEB = ".deb"  # how the name of a package's file ends

ROLES = {"controllers": "controller", "database": "database", "compute": "compute", "login": "login"}
"""The keys of lists by role, with the role of a host that each is for."""


class Wanted(NamedTuple):
    """A package that a host should have."""

    name: str
    version: str = ""  # its version, or the beginning of it with a `*` behind; empty for any
    # path of the package's file beside the cluster file, which has the version; empty for one of a source
    file: str = ""

    @property
    def text(self) -> str:
        """The package as apt-get takes it, `NAME` or `NAME=VERSION`; of a file without a known version, the path."""
        if self.file and not self.version:
            return self.file
        return f"{self.name}={self.version}" if self.version else self.name


def wanted_from(text: str) -> Wanted:
    """Read `NAME` or `NAME=VERSION`, or the path of a file that ends in .deb; ValueError if it is something else."""
    if text.endswith(DEB):
        return _from_file(text)
    name, equals, version = text.partition("=")
    if len(text) > _LONGEST or not PACKAGE_NAME.fullmatch(name):
        raise ValueError(f'"{text[:_LONGEST]}" is not the name of a package, such as htop, or htop=3.2* for a version')
    if equals and not _VERSION.fullmatch(version):
        raise ValueError(f'"{version}" is not a version such as 3.2.2-2, or 3.2* for all that begin like this')
    return Wanted(name, version)


def _from_file(path: str) -> Wanted:
    """The package in a file, by the file's name."""
    name, underscore, _ = posixpath.basename(path).partition("_")
    if not _FILE.fullmatch(path) or not underscore or not PACKAGE_NAME.fullmatch(name):
        raise ValueError(
            f'"{path[:_LONGEST]}" is not the path of a package such as debs/enroot_3.5.0-1_amd64.deb; the file\'s name '
            "begins with the package's and _ (dpkg-name renames files so)"
        )
    return Wanted(name, file=path)


def _packages(value: Any) -> tuple[str, ...]:
    """Read a list of packages, or one."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise ValueError("it must be a list of packages, such as [htop, tree=2.1*]")
    if len(found) > MOST_PACKAGES:
        raise ValueError(f"there are {len(found)} packages; at most {MOST_PACKAGES} are allowed")
    return tuple(found)


def _check_packages(texts: tuple[str, ...]) -> tuple[str, ...]:
    check_once(tuple(wanted_from(text).name for text in texts))
    return texts


PackageList = Annotated[
    tuple[str, ...], BeforeValidator(_packages, json_schema_input_type=str | list[str]), AfterValidator(_check_packages)
]


class PackageGroup(Model):
    """Packages for some hosts."""

    hosts: Annotated[HostNames, Field(description="Hostlist of hosts of the cluster, such as cn[01-04].")]
    packages: Annotated[PackageList, Field(description="Packages: NAME, NAME=VERSION (htop=3.2*), or FILE.deb.")]

    @cached_property
    def members(self) -> frozenset[str]:
        """The hosts, to look a name up among very many."""
        return frozenset(self.hosts)


class SitePackages(Model):
    """The packages of the site's own, each as `NAME` or `NAME=VERSION`, or as the path of a file that ends in .deb."""

    all: Annotated[PackageList, Field(description="Packages for every host.")] = ()
    controllers: Annotated[PackageList, Field(description="Packages for controllers.")] = ()
    database: Annotated[PackageList, Field(description="Packages for slurmdbd's host.")] = ()
    compute: Annotated[PackageList, Field(description="Packages for compute nodes.")] = ()
    login: Annotated[PackageList, Field(description="Packages for login hosts.")] = ()
    groups: Annotated[tuple[PackageGroup, ...], Field(description="Packages for groups of hosts.")] = ()
    through: Annotated[
        Literal["controller"] | None,
        Field(description="`controller`: it fetches each package once for all hosts, which get them over SSH."),
    ] = None

    @property
    def everything(self) -> tuple[Wanted, ...]:
        """All packages of all hosts, each once, sorted."""
        lists = (self.all, *(getattr(self, key) for key in ROLES), *(group.packages for group in self.groups))
        return tuple(sorted({wanted_from(text) for texts in lists for text in texts}))

    def of_host(self, host: str, roles: Iterable[str]) -> tuple[Wanted, ...]:
        """The packages of a host, each once, sorted."""
        if not self.model_fields_set:
            return ()
        there = set(roles)
        texts = {*self.all, *(text for key, role in ROLES.items() if role in there for text in getattr(self, key))}
        texts.update(text for group in self.groups if host in group.members for text in group.packages)
        return tuple(sorted(wanted_from(text) for text in texts))


PackageLists = Annotated[
    SitePackages, Field(description="Packages of the site's own: for all hosts, by role, and for groups of hosts.")
]
