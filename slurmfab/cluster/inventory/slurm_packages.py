"""The model of where Slurm's own packages come from, and of which kind and version they are (key `slurm`)."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.inventory.values import Model, written_as
from slurmfab.cluster.slurm.versions import NEWEST, OLDEST, SlurmVersion
from slurmfab.on_hosts.agent.packages.slurm_release import fits
from slurmfab.on_hosts.agent.slurm.state_versions import SERIES

_VERSION = re.compile(r"\d\d\.\d\d\.(\*|\d{1,3}([.+~-][A-Za-z0-9.+~-]{0,60})?\*?)")
_SUITE = re.compile(r"[a-z][a-z0-9+-]{0,60}(/[a-z]+)?")
_PART = re.compile(r"(?!.*\.\.)[A-Za-z0-9./][A-Za-z0-9._/+~-]{0,100}")
_ADDRESS = re.compile(r"(https?://|(file|copy):/)[A-Za-z0-9\[][A-Za-z0-9._~:/\[\]%+,@=-]{0,500}")
_LOGIN = re.compile(r"https?://[^/]*@")
_MOST = 16
EL = ("el-smd", "el", "el-openhpc")  # the kinds of packages of Enterprise Linux


class OtherSuite(NamedTuple):
    """Another suite of the mirrors that the hosts use already."""

    suite: str  # such as `trixie-backports`


class AptRepository(NamedTuple):
    """An apt repository with a signature."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]  # its suites; a path that ends in `/` for a repository without suites
    components: tuple[str, ...]  # its components; none where the suite is a path
    key: str  # path of the file with the OpenPGP key that signs it, beside the cluster file


class DnfRepository(NamedTuple):
    """A repository of dnf with signed packages."""

    uris: tuple[str, ...]
    key: str  # path of the file with the OpenPGP key that signs its packages, beside the cluster file


class PackageDirectory(NamedTuple):
    """A directory of .deb or .rpm files on the deployer, beside the cluster file."""

    directory: str


@written_as(_VERSION)
def _check_version(version: str | None) -> str | None:
    if version is None:
        return None
    if re.fullmatch(r"\d\d\.\d\d\*?", version):
        raise ValueError(f'"{version}" is a release series; write "{version[:5]}.*" for all of its versions')
    if not _VERSION.fullmatch(version):
        raise ValueError(f'"{version[:80]}" is not a version such as "26.05.*", 26.05.5, or 26.05.5-1')
    if version[:5] not in SERIES or series_of(version) is None:
        raise ValueError(
            f'"{version}" is of a Slurm that slurmfab does not know; it knows {OLDEST} to {NEWEST}: '
            f"{', '.join(name for name in SERIES if series_of(name))}"
        )
    return version


@cache
def series_of(version: str) -> SlurmVersion | None:
    """The release series of a version, if slurmfab has tables for it."""
    try:
        found = SlurmVersion.parse(version)
    except SlurmfabError:
        return None
    return found if found.is_known else None


def upstream(version: str) -> str:
    """The wanted version of Slurm without the revision of a package.

    >>> upstream("26.05.5-1~bpo13+1"), upstream("26.05.*")
    ('26.05.5', '26.05.*')
    """
    return version.partition("-")[0]


@written_as(_SUITE)
def _check_suite(suite: str | None) -> str | None:
    if suite is not None and not _SUITE.fullmatch(suite):
        raise ValueError(f'"{suite[:80]}" is not the name of a suite, such as trixie-backports')
    if suite is not None and suite.endswith(("-security", "-updates")):
        raise ValueError(f'"{suite}" is a part of what the hosts use already; name another suite')
    return suite


@written_as(_ADDRESS)
def _check_address(uri: str) -> str:
    if _LOGIN.match(uri):
        raise ValueError("it has a login, which everybody could read; put that into /etc/apt/auth.conf.d on the hosts")
    if not _ADDRESS.fullmatch(uri):
        raise ValueError(f'"{uri[:80]}" is not an address of a repository, such as https://apt.example.org/slurm')
    return uri


@written_as(_PART)
def _check_part(part: str) -> str:
    if not _PART.fullmatch(part):
        raise ValueError(f'"{part[:80]}" is not a name in a repository, such as trixie or main')
    return part


def _several(value: Any) -> Any:
    """Read one text as a list of it, or texts with blanks between them as apt's own files have them."""
    found = tuple(value.split()) if isinstance(value, str) else value
    if isinstance(found, list | tuple) and len(found) > _MOST:
        raise ValueError(f"there are {len(found)}; at most {_MOST} are allowed")
    return found


_Addresses = Annotated[
    tuple[Annotated[str, AfterValidator(_check_address)], ...],
    BeforeValidator(_several, json_schema_input_type=str | list[str]),
]
_Parts = Annotated[
    tuple[Annotated[str, AfterValidator(_check_part)], ...],
    BeforeValidator(_several, json_schema_input_type=str | list[str]),
]


class Source(Model):
    """Where Slurm's packages come from: another suite, a repository of apt or dnf, or a directory."""

    suite: Annotated[
        str | None,
        AfterValidator(_check_suite),
        Field(description="Another suite of the hosts' own mirrors, such as trixie-backports."),
    ] = None
    uris: Annotated[_Addresses, Field(description="Addresses of a repository of apt or dnf.")] = ()
    suites: Annotated[_Parts, Field(description="Its suites, such as trixie; ./ for a repository without suites.")] = ()
    components: Annotated[_Parts, Field(description="Its components.")] = ()
    key: Annotated[
        str | None, Field(min_length=1, description="File here with the OpenPGP key that signs the repository.")
    ] = None
    directory: Annotated[
        str | None, Field(min_length=1, description="Directory here with .deb or .rpm files, which are sent over SSH.")
    ] = None

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Source:
        if sum(bool(one) for one in (self.suite, self.uris, self.directory)) != 1:
            raise ValueError(
                "it needs exactly one of suite (of the hosts' own mirrors), uris (with key, and suites: a repository) "
                "and directory (of .deb or .rpm files)"
            )
        of_repository = {"suites": self.suites, "components": self.components, "key": self.key}
        strange = [name for name, value in of_repository.items() if value]
        if not self.uris and strange:
            raise ValueError(f"{' and '.join(strange)}: only for a repository, which has uris")
        if self.uris:
            self._check_repository()
        return self

    def _check_repository(self) -> None:
        """Refuse a repository that apt could not use, or that nobody has signed, by ValueError."""
        if not self.key:
            raise ValueError(
                "key is missing: the file with the OpenPGP key that signs the repository. Hosts install its packages "
                "as root; packages without a signature come from a directory here (directory)"
            )
        flat = [one for one in self.suites if one.endswith("/")]
        if flat and (self.components or len(flat) < len(self.suites)):
            raise ValueError(f'suites: "{flat[0]}" is a path, which has no components and no suites beside it')

    def check_for(self, packages: str) -> None:
        """Refuse, by ValueError, a source that a kind of packages cannot have."""
        if packages in EL:
            self._check_for_dnf(packages)
        elif self.suite and packages == "smd":
            raise ValueError(
                "packages: smd: no suite of a distribution has SchedMD's packages; their source is a repository (uris) "
                "or a directory"
            )
        elif self.uris and not self.suites:
            raise ValueError("suites is missing: the suites of the repository, such as trixie; ./ if it has none")

    def _check_for_dnf(self, packages: str) -> None:
        """Refuse, by ValueError, a source that Enterprise Linux does not have."""
        if self.suite:
            raise ValueError(
                f"packages: {packages}: dnf knows no suites; the source is a repository (uris and key) or a directory"
            )
        if self.suites or self.components:
            raise ValueError(f"packages: {packages}: a repository of dnf has no suites and no components")

    @property
    def kind(self) -> OtherSuite | AptRepository | DnfRepository | PackageDirectory:
        """The source, as the one that it is."""
        if self.suite:
            return OtherSuite(self.suite)
        if self.directory:
            return PackageDirectory(self.directory)
        if not self.suites:
            return DnfRepository(self.uris, self.key or "")
        default = () if any(one.endswith("/") for one in self.suites) else ("main",)
        return AptRepository(self.uris, self.suites, self.components or default, self.key or "")


class SlurmPackages(Model):
    """Slurm's own packages."""

    packages: Annotated[
        Literal["debian", "smd", "el-smd", "el", "el-openhpc", "none"],
        Field(
            description="Debian's packages (slurmd, …), SchedMD's (smd: slurm-smd-slurmd, …), on Enterprise Linux "
            "SchedMD's (el-smd: slurm-slurmd, …), EPEL's (el) or OpenHPC's (el-openhpc), or none, as from source."
        ),
    ] = "debian"
    version: Annotated[
        str | None,
        AfterValidator(_check_version),
        Field(description='Version that new hosts get: "26.05.*", 26.05.5, or 26.05.5-1.'),
    ] = None
    given: Annotated[
        Source | None,
        Field(validation_alias="source", description="Where they come from; without it, the hosts' own sources."),
    ] = None

    @model_validator(mode="after")
    def _fit_together(self) -> SlurmPackages:
        if self.given:
            self.given.check_for(self.packages)
        if self.given and self.packages == "none":
            raise ValueError("packages: none: Slurm of no package has no source of packages")
        asks = "source" if self.packages == "debian" else f"packages: {self.packages}"
        if self.version is None and (self.given or self.packages != "debian"):
            raise ValueError(
                f'{asks} needs a version, such as version: "{NEWEST}.*", by which a plan knows the keys of slurm.conf'
            )
        return self

    @property
    def source(self) -> OtherSuite | AptRepository | DnfRepository | PackageDirectory | None:
        """Where the packages come from; `None` for the hosts' own package sources."""
        return self.given.kind if self.given else None

    @property
    def series(self) -> SlurmVersion | None:
        """The release series of the wanted version; `None` if the cluster file wants none."""
        return series_of(self.version) if self.version else None

    def fits(self, version: str) -> bool:
        """Whether the version of a package is the wanted one, or none is wanted."""
        return fits(version, self.version or "")

    def with_version_of(self, other: SlurmPackages) -> SlurmPackages:
        """The same packages in the version of others, without a revision of packages of another kind.

        Packages without a wanted version, and for others without one, stay as they are.
        """
        if self.version is None or other.version is None:
            return self
        version = other.version if other.packages == self.packages else upstream(other.version)
        return self.model_copy(update={"version": version})

    @property
    def is_default(self) -> bool:
        """Whether the cluster file asks for nothing else than what a distribution has."""
        return self == _DEFAULT


_DEFAULT = SlurmPackages()
SlurmsPackages = Annotated[
    SlurmPackages, Field(description="Slurm's own packages: of which kind and version, and where they come from.")
]
