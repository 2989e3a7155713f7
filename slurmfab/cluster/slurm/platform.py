"""What a host's Slurm is packaged as: the one place that knows names, directories and units of each kind of packages.

A platform is data. Everything that depends on who made the packages is a field of `Platform` here, and whatever needs
it takes it from the platform that a host shall have (`wanted`) or that it has (`installed`). For packages of another
kind or another distribution one adds a `Platform` to `PLATFORMS`; docs/adding-things.md says what else that takes.

Sources: the control files, file lists, units and maintainer scripts of Debian 12, 13 and sid and of Ubuntu 24.04 to
26.04; debian/ and etc/*.service.in in Slurm's own source, 23.11 to 26.05, from which SchedMD's packages are built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from slurmfab.base.errors import InputError
from slurmfab.cluster.slurm.versions import SlurmVersion

if TYPE_CHECKING:
    from slurmfab.cluster.facts import HostFacts

BY_SYSTEMD = SlurmVersion(23, 11)
"""The first Slurm whose units run slurmctld and slurmdbd as the slurm user, and use --systemd (RELEASE_NOTES)."""


@dataclass(frozen=True)
class SystemAccount:
    """A user and group of a service."""

    name: str
    number: int  # the UID and GID that the distribution reserves for it; 0 for none
    home: str  # its home directory, as the packages make it
    shell: str  # its shell, as slurmfab makes it
    made_by: str = ""  # the package that makes it; empty if none does


@dataclass(frozen=True)
class Manager:
    """A package manager, as commands for people on a host and questions of checks name it."""

    name: str
    lists: str  # the program that has the list of installed packages
    remove: str  # what removes packages, without their names
    again: str  # what installs the package of a FILE anew
    unfinished: str  # what is wrong with packages that it has not finished
    finish: str  # what finishes them
    owner: str  # what tells the package of a file, without its path
    archives: str  # the directory of downloaded packages
    older: str  # what also installs former versions, without packages
    joint: str  # what stands between the name and the version of a package
    versions: str  # shell text that prints name, version and `installed` of those of some packages (%s) that are
    indexed: str  # pattern of a package's entry (%s) in the index of a bundle, with the parts of its version
    verify: str  # shell text that prints what differs from Slurm's and munge's packages, as `rpm --verify` does


@dataclass(frozen=True)
class Database:
    """The database server of a distribution."""

    packages: tuple[str, ...]
    unit: str
    settings: str  # directory of the server's settings files; the last one in order of names counts


@dataclass(frozen=True)
class Platform:
    """One kind of Slurm's packages on one family of distributions."""

    name: str  # such as `debian-smd`; unique
    word: str  # the word for it in the cluster file, `slurm: {packages: WORD}`
    title: str  # for messages, such as `the distribution's packages`
    manager: Manager  # the package manager
    like: tuple[str, ...]  # `ID` and `ID_LIKE` of os-release(5): any of them
    releases: tuple[str, ...]  # the codenames of the releases that it is for; empty for all
    core: str  # the package that all of Slurm's others need, by which the kind is known; empty for Slurm of no package
    instead_of: str  # the kind whose names these packages have, too, and which only `core` tells apart; empty for none
    common: tuple[str, ...]  # packages that each host of a cluster needs
    by_role: Mapping[str, tuple[str, ...]]  # the package of each role's daemon, by role; empty for a role without one
    # Every package of Slurm's own of this kind, for pins and holds; those of libraries, which have a number in their
    # names, as patterns (fnmatch, apt_preferences(5)).
    slurm_packages: tuple[str, ...]
    pam: str  # the package of pam_slurm_adopt
    # The package with the plugin of a value of AutoDetect, where one of its own has it, and the part of the archive
    # that has it, if not the main one.
    gpu_plugins: Mapping[str, str]
    plugin_directory: str  # directory of Slurm's plugins in the directories of `libraries`
    libraries: str  # pattern of the directories of libraries
    programs: str  # directory of the daemons
    commands: str  # directory of Slurm's commands
    rotates_logs: bool  # whether they rotate the logs in Slurm's directory of logs
    oldest: SlurmVersion  # the first Slurm with such packages
    slurm: SystemAccount  # the account of Slurm's daemons; `munge` is that of MUNGE
    munge: SystemAccount
    database: Database  # the database server
    rest: str  # the package of slurmrestd
    jwt: str  # the package of the plugin for its tokens; empty where the core has it
    bus: str  # the package of D-Bus, over which slurmd asks systemd for its cgroup v2 scope

    def packages(self, role: str) -> tuple[str, ...]:
        """The packages of a role (`controller`, `database`, `compute`, `login`), in every release; or InputError."""
        if role not in self.by_role:
            raise InputError(f"“{role}” is not a role with packages (known: {', '.join(self.by_role)}).")
        return tuple(sorted((*self.common, *self.by_role[role])))

    def packages_of(self, roles: Iterable[str]) -> frozenset[str]:
        """The packages that a host with these roles needs, the database server's not among them."""
        return frozenset(name for role in roles for name in self.packages(role))

    @property
    def telling(self) -> tuple[str, ...]:
        """The packages that tell that a host has this kind of Slurm's: the core, the clients' and the daemons'.

        Libraries do not: MPI libraries need some of the distribution's, whatever Slurm a host has.
        """
        if self.instead_of:
            return (self.core,)
        return tuple(filter(None, (self.core, self.client, *self.daemon_packages.values())))

    @property
    def asked(self) -> tuple[str, ...]:
        """The packages of which hosts are asked for the version: those of all roles, and what Slurm needs."""
        return (*self.packages("controller"), *self.telling, *self.database.packages, self.bus)

    @property
    def daemon_packages(self) -> Mapping[str, str]:
        """The package of each daemon."""
        daemons = {"slurmctld": "controller", "slurmd": "compute", "slurmdbd": "database"}
        return {daemon: self.by_role[role][0] for daemon, role in daemons.items() if self.by_role[role]}

    @property
    def protected(self) -> tuple[str, ...]:
        """The packages of daemons that serve the whole cluster, which are never removed along with others."""
        daemons = {"slurmctld", "slurmdbd", "slurmrestd"}
        return tuple(name for name in self.slurm_packages if daemons & {*name.split("-")})

    @property
    def client(self) -> str:
        """The package of Slurm's commands; empty for Slurm of no package."""
        return next((name for name in self.common if name in self.slurm_packages), "")

    def key(self, series: str) -> str:
        """How a cluster file asks for this Slurm; only the distribution's packages need no series."""
        version = "" if self.word == DEBIAN.word else f', version: "{series}.*"'
        return f"slurm: {{packages: {self.word}{version}}}"

    @property
    def units(self) -> tuple[str, ...]:
        """The units of Slurm's daemons that slurmfab sets up."""
        return ("slurmctld", "slurmd", "slurmdbd")

    def program(self, daemon: str) -> str:
        """The path of a daemon's program."""
        return f"{self.programs}/{daemon}"

    @property
    def telling_programs(self) -> tuple[str, ...]:
        """The paths of the programs that tell the version of Slurm."""
        return (*(self.program(unit) for unit in self.units), f"{self.commands}/scontrol")

    @property
    def database_settings(self) -> str:
        """The file with slurmfab's settings of the database server."""
        return f"{self.database.settings}/60-slurmfab.cnf"

    def pid_files(self, version: SlurmVersion) -> Mapping[str, str]:
        """The pid file of each daemon, by daemon.

        slurmctld and slurmdbd run as the slurm user and own only their RuntimeDirectory: by the packages' units from
        23.11 on, and by slurmfab's drop-ins before. The unit of slurmd names `PIDFile=/run/slurmd.pid` up to 23.02.
        """
        return {
            "slurmctld": "/run/slurmctld/slurmctld.pid",
            "slurmd": "/run/slurmd.pid" if version < BY_SYSTEMD else "/run/slurm/slurmd.pid",
            "slurmdbd": "/run/slurmdbd/slurmdbd.pid",
        }

    def slurmd_mode(self, version: SlurmVersion) -> str:
        """The options of slurmd in its unit: `-D -s` (Type=simple) up to 23.02, `--systemd` (Type=notify) later."""
        return "-D -s" if version < BY_SYSTEMD else "--systemd"


APT = Manager(
    name="apt",
    lists="dpkg",
    remove="apt-get remove",
    again="apt-get install --reinstall $(dpkg-query --search FILE | cut -d: -f1)",
    unfinished="no package can be installed or upgraded there",
    finish="dpkg --configure -a",
    owner="dpkg -S",
    archives="/var/cache/apt/archives",
    older="apt-get install --allow-downgrades",
    joint="=",
    indexed=r"^Package: %s\n(?:.+\n)*?Version: (\S+)",
    versions="dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' %s 2>/dev/null || :",
    verify=(
        "names=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\\n' 'slurm*' 'libslurm*' munge "
        "'libmunge*' 2>/dev/null | sed -n 's/^installed //p' | sort -u); test -z \"$names\" || dpkg --verify $names; "
        "awk 'FNR == 1 { is_link = 1 } /^$/ { is_link = 0 } is_link && /^\\/usr\\/s?bin\\//' "
        "/var/lib/dpkg/alternatives/slurm* 2>/dev/null | while read -r link; do "
        'test -e "$link" || test -L "$(readlink "$link")" || echo "unlinked $link"; done; :'
    ),
)
"""Of Debian and Ubuntu; the links are those of update-alternatives(1) to programs."""

DNF = Manager(
    name="dnf",
    lists="rpm",
    remove="dnf remove",
    again="dnf reinstall $(rpm --query --file --queryformat '%{NAME}' FILE)",
    unfinished="dnf was killed, and their scripts have not run",
    finish="dnf reinstall of them",
    owner="rpm --query --file",
    archives="/var/cache/dnf",
    older="dnf --disableexcludes=all install",
    joint="-",
    indexed=r'<name>%s</name>\s*<arch>[^<]*</arch>\s*<version epoch="\d+" ver="([^"<>]+)" rel="([^"<>]+)"',
    versions="rpm --query --queryformat '%{NAME} %{VERSION}-%{RELEASE} installed\\n' %s || :",
    verify="names=$(rpm --query --all 'slurm*' 'munge*'); test -z \"$names\" || rpm --verify --nodeps $names; :",
)
"""Of Enterprise Linux."""

_MARIADB = Database(("mariadb-client", "mariadb-server"), "mariadb", "/etc/mysql/mariadb.conf.d")
_MUNGE = SystemAccount("munge", 0, "/nonexistent", "/usr/sbin/nologin", made_by="munge")

DEBIAN = Platform(
    name="debian",
    word="debian",
    title="the distribution's packages",
    manager=APT,
    like=("debian", "ubuntu"),
    releases=(),
    core="slurm-wlm-basic-plugins",
    instead_of="",
    # munge is named because Slurm 26.05 only recommends it; openssh-client because the slurm user uses SSH everywhere.
    # libpmix is not: Debian 13's slurm-client depends on it, and Debian 12's pmix plugin opens `libpmix.so`, which is
    # only in libpmix-dev, whose dependencies include a compiler.
    common=("munge", "openssh-client", "slurm-client"),
    by_role={"controller": ("slurmctld",), "database": ("slurmdbd",), "compute": ("slurmd",), "login": ()},
    slurm_packages=(
        "slurmctld",
        "slurmd",
        "slurmdbd",
        "slurmrestd",
        "sackd",
        "slurm-client",
        "slurm-wlm",
        "slurm-wlm-basic-plugins",
        "slurm-wlm-elasticsearch-plugin",
        "slurm-wlm-hdf5-plugin",
        "slurm-wlm-influxdb-plugin",
        "slurm-wlm-ipmi-plugins",
        "slurm-wlm-jwt-plugin",
        "slurm-wlm-kafka-plugin",
        "slurm-wlm-mysql-plugin",
        "slurm-wlm-nvml-plugin",
        "slurm-wlm-plugins",
        "slurm-wlm-rrd-plugin",
        "slurm-wlm-rsmi-plugin",
        "slurm-wlm-torque",
        "slurm-client-emulator",
        "slurm-wlm-emulator",
        "slurm-wlm-basic-plugins-dev",
        "libpam-slurm",
        "libpam-slurm-adopt",
        "libpmi0*",
        "libpmi2-0*",
        "libslurm-dev",
        "libslurm[0-9]*",
        "libslurm-perl",
        "libslurmdb-perl",
        "sview",
    ),
    pam="libpam-slurm-adopt",
    # Debian 12 has no nvml plugin that fits its slurmd.
    gpu_plugins={"nvml": "slurm-wlm-nvml-plugin (contrib)", "rsmi": "slurm-wlm-rsmi-plugin"},
    plugin_directory="slurm-wlm",
    libraries="/usr/lib/*",
    programs="/usr/sbin",
    commands="/usr/bin",
    rotates_logs=True,
    oldest=SlurmVersion(22, 5),
    slurm=SystemAccount("slurm", 64030, "/nonexistent", "/usr/sbin/nologin", made_by="slurm-wlm-basic-plugins"),
    munge=_MUNGE,
    database=_MARIADB,
    bus="dbus",
    rest="slurmrestd",
    jwt="slurm-wlm-jwt-plugin",
)
"""What Debian and Ubuntu package themselves, and backports of it."""

DEBIAN_SMD = Platform(
    name="debian-smd",
    word="smd",
    title="SchedMD's packages",
    manager=APT,
    like=("debian", "ubuntu"),
    releases=(),
    core="slurm-smd",
    instead_of="",
    common=("munge", "openssh-client", "slurm-smd-client"),
    by_role={
        "controller": ("slurm-smd-slurmctld",),
        "database": ("slurm-smd-slurmdbd",),
        "compute": ("slurm-smd-slurmd",),
        "login": (),
    },
    slurm_packages=(
        "slurm-smd",
        "slurm-smd-client",
        "slurm-smd-dev",
        "slurm-smd-doc",
        "slurm-smd-libnss-slurm",
        "slurm-smd-libpam-slurm-adopt",
        "slurm-smd-libpmi0",
        "slurm-smd-libpmi2-0",
        "slurm-smd-libslurm-perl",
        "slurm-smd-openlava",
        "slurm-smd-sackd",
        "slurm-smd-slurmctld",
        "slurm-smd-slurmd",
        "slurm-smd-slurmdbd",
        "slurm-smd-slurmrestd",
        "slurm-smd-sview",
        "slurm-smd-torque",
    ),
    pam="slurm-smd-libpam-slurm-adopt",
    gpu_plugins={},  # slurm-smd itself has each plugin whose library was there when it was built
    plugin_directory="slurm",
    libraries="/usr/lib/*",
    programs="/usr/sbin",
    commands="/usr/bin",
    # They have /etc/slurm, /var/log/slurm and /var/lib/slurm/slurmctld of root's, and neither user nor logrotate.
    rotates_logs=False,
    oldest=SlurmVersion(23, 11),
    slurm=SystemAccount("slurm", 64030, "/nonexistent", "/usr/sbin/nologin"),
    munge=_MUNGE,
    database=_MARIADB,
    bus="dbus",
    rest="slurm-smd-slurmrestd",
    jwt="",
)
"""What SchedMD's own debian/ makes, on Debian and Ubuntu; sites build them, or take others' builds."""

EL_SMD = Platform(
    name="el-smd",
    word="el-smd",
    title="SchedMD's packages for Enterprise Linux",
    manager=DNF,
    like=("rhel", "ol"),
    releases=("el9", "el10"),
    core="slurm",
    instead_of="",
    common=("munge", "openssh-clients", "slurm"),
    by_role={
        "controller": ("slurm-slurmctld",),
        "database": ("slurm-slurmdbd",),
        "compute": ("slurm-slurmd",),
        "login": (),
    },
    slurm_packages=(
        "slurm",
        "slurm-contribs",
        "slurm-devel",
        "slurm-example-configs",
        "slurm-libpmi",
        "slurm-openlava",
        "slurm-pam_slurm",
        "slurm-perlapi",
        "slurm-sackd",
        "slurm-slurmctld",
        "slurm-slurmd",
        "slurm-slurmdbd",
        "slurm-slurmrestd",
        "slurm-torque",
    ),
    pam="slurm-pam_slurm",
    gpu_plugins={},  # slurm itself has each plugin whose library was there when it was built
    plugin_directory="slurm",
    libraries="/usr/lib64",
    programs="/usr/sbin",
    commands="/usr/bin",
    rotates_logs=False,  # they have neither user nor logrotate, nor directories of logs and of slurmctld's state
    oldest=SlurmVersion(23, 11),
    slurm=SystemAccount("slurm", 0, "/nonexistent", "/sbin/nologin"),
    munge=SystemAccount("munge", 0, "/run/munge", "/sbin/nologin", made_by="munge"),
    database=Database(("mariadb", "mariadb-server"), "mariadb", "/etc/my.cnf.d"),
    bus="dbus",
    rest="slurm-slurmrestd",
    jwt="",
)
"""What SchedMD's slurm.spec makes, on Enterprise Linux 9 and 10 (RHEL, Rocky, AlmaLinux, CentOS Stream, Oracle).

No real one of these systems was deployed to: what is here is from slurm.spec and public pages of packages.
"""

EL = replace(
    EL_SMD,
    name="el",
    word="el",
    title="EPEL's packages",
    core="slurm-libs",
    instead_of=EL_SMD.name,
    slurm_packages=(
        "slurm",
        "slurm-contribs",
        "slurm-devel",
        "slurm-doc",
        "slurm-gui",
        "slurm-libs",
        "slurm-nss_slurm",
        "slurm-openlava",
        "slurm-pam_slurm",
        "slurm-perlapi",
        "slurm-pmi*",
        "slurm-rrdtool",
        "slurm-sackd",
        "slurm-slurmctld",
        "slurm-slurmd",
        "slurm-slurmdbd",
        "slurm-slurmrestd",
        "slurm-torque",
    ),
    rotates_logs=True,
    oldest=SlurmVersion(22, 5),
    slurm=SystemAccount("slurm", 0, "/var/lib/slurm", "/sbin/nologin", made_by="slurm"),
)
"""EPEL's packages, whose spec is Fedora's: names of SchedMD's, with the library in slurm-libs, and examples of
slurm.conf and slurmdbd.conf at their places in /etc/slurm. No real ones were deployed."""

EL_OPENHPC = replace(
    EL_SMD,
    name="el-openhpc",
    word="el-openhpc",
    title="OpenHPC's packages",
    core="slurm-ohpc",
    common=("munge", "openssh-clients", "slurm-ohpc"),
    by_role={role: tuple(f"{name}-ohpc" for name in names) for role, names in EL_SMD.by_role.items()},
    slurm_packages=(
        *(f"{name}-ohpc" for name in EL_SMD.slurm_packages if name != "slurm-slurmrestd"),
        "slurm-ohpc-slurmrestd",
        "slurm-sview-ohpc",
    ),
    pam="slurm-pam_slurm-ohpc",
    slurm=SystemAccount("slurm", 202, "/etc/slurm", "/sbin/nologin", made_by="slurm-ohpc"),
    rest="slurm-ohpc-slurmrestd",
)
"""OpenHPC 3's packages, whose spec is made of SchedMD's: the same places and units; MUNGE is the distribution's. No
real ones were deployed."""

SOURCE = replace(
    DEBIAN,
    name="debian-source",
    word="none",
    title="Slurm of no package, built from source",
    core="",
    common=("munge", "openssh-client"),
    by_role=dict.fromkeys(DEBIAN.by_role, ()),
    slurm_packages=(),
    pam="",
    gpu_plugins={},
    plugin_directory="slurm",
    libraries="/usr/local/lib",
    programs="/usr/local/sbin",
    commands="/usr/local/bin",
    rotates_logs=False,
    slurm=SystemAccount("slurm", 64030, "/nonexistent", "/usr/sbin/nologin"),
)
"""What `make install` makes; a build with another prefix, such as /opt/slurm, has links there. Programs, plugins and
units are the site's: slurmfab keeps and checks them."""

PLATFORMS: Mapping[str, Platform] = {one.name: one for one in (DEBIAN, DEBIAN_SMD, EL_SMD, EL, EL_OPENHPC, SOURCE)}
"""Every kind of packages that slurmfab knows, by name."""


class OfPackages(Protocol):
    """The key `slurm` of a cluster file, which names a kind of packages by its word."""

    @property
    def packages(self) -> str:
        """The word."""
        raise NotImplementedError


class HasPackages(Protocol):
    """A cluster file, which has the key `slurm`, and groups of nodes that may have one, too."""

    def slurm_of(self, host: str) -> OfPackages:
        """The key that holds for a host."""
        raise NotImplementedError


def wanted(cluster: HasPackages, host: str) -> Platform:
    """The platform of a host: that of `slurm: {packages: …}` in the cluster file, by default the distribution's."""
    return named(cluster.slurm_of(host))


def named(slurm: OfPackages) -> Platform:
    """The platform that a key `slurm` names."""
    return next(one for one in PLATFORMS.values() if one.word == slurm.packages)


SYSTEMS = "Debian, Ubuntu and Enterprise Linux 9 and 10"
OLD_PYTHON = (
    "of Enterprise Linux, slurmfab knows 9 and 10: the python3 of earlier releases is too old for its agent, which "
    "needs 3.9"
)


def unsupported(kinds: Sequence[str], codename: str, meant: Platform) -> str:
    """Why packages of a platform are not for a host's system; empty if they are.

    `kinds`: `ID` and the words of `ID_LIKE` of os-release(5). `codename`: `VERSION_CODENAME`, or `PLATFORM_ID` without
    its beginning.
    """
    reason = unknown(kinds, codename)
    if reason or {*meant.like} & {*kinds}:
        return reason
    keys = " or ".join(one.key("SERIES") for one in _made_for(kinds))
    return (
        f"it runs {kinds[0]}, and the cluster file is for {meant.title} there. For this system: {keys}, for all hosts, "
        "in a group of nodes, or as login_slurm."
    )


def unknown(kinds: Sequence[str], codename: str) -> str:
    """Why no packages that slurmfab knows are for a host's system; empty if some are. Arguments as of `unsupported`."""
    system, known = kinds[0] if kinds and kinds[0] else "an unknown system", _made_for(kinds)
    if not known:
        return f"it runs {system}; slurmfab deploys to {SYSTEMS} (docs/supported.md)."
    releases = known[0].releases
    if releases and codename not in releases:
        return f"it runs {system} ({codename or 'an old release'}); {OLD_PYTHON}."
    return ""


def _made_for(kinds: Sequence[str]) -> list[Platform]:
    return [one for one in PLATFORMS.values() if one.core and {*one.like} & {*kinds}]


def all_installed(facts: HostFacts) -> tuple[Platform, ...]:
    """Every platform that a host has: none on a new host, and more than one on a host that is mixed up."""
    known = [one for one in PLATFORMS.values() if facts.packages.keys() & {*one.telling}]
    others = {one.instead_of for one in known}
    found = tuple(one for one in known if one.name not in others)
    return found or ((SOURCE,) if facts.slurm_versions and not is_unfinished(facts) else ())


def installed(facts: HostFacts) -> Platform | None:
    """The platform of a host's packages; `None` if it has none of Slurm's, or some of more than one kind."""
    found = all_installed(facts)
    return found[0] if len(found) == 1 else None


def is_unfinished(facts: HostFacts) -> bool:
    """Whether the installation of Slurm's packages was interrupted on a host."""
    return any(name in one.telling for name in facts.unfinished_packages for one in PLATFORMS.values())


def has(facts: HostFacts, daemon: str) -> bool:
    """Whether a host has the program of a daemon, of whatever package or of none."""
    return daemon in facts.slurm_versions or any(
        one.daemon_packages.get(daemon) in facts.packages for one in PLATFORMS.values()
    )
