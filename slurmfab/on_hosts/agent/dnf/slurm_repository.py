"""The source of Slurm's packages on a host with dnf: its file in /etc/yum.repos.d, and others that have the same names.

Packages have to be signed by the source's key. The source leaves Slurm's names out for everybody else than slurmfab, so
that `dnf upgrade` changes no daemon of a cluster.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Iterator, Sequence

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context

if TYPE_CHECKING:
    import configparser

NAME = "slurmfab-slurm"
FOLDER = "/etc/yum.repos.d"
PATH = "%s/%s.repo" % (FOLDER, NAME)
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-" + NAME

TEXT = """\
# Made by slurmfab for the key slurm of the cluster file.
[%(name)s]
name=Slurm's packages, of slurmfab
baseurl=%(addresses)s
enabled=1
gpgcheck=1
gpgkey=file://%(key)s
# Held: slurmfab installs and upgrades these.
excludepkgs=%(held)s
skip_if_unavailable=1
"""

FOREIGN = "epel"  # the beginning of the names of sources that have other packages under SchedMD's names
COMMON, OWN = "slurm", "slurm-libs"  # a package of SchedMD's and EPEL's, and one of EPEL's alone
NO = ("0", "no", "false")


def text(addresses: Sequence[str], held: Sequence[str]) -> str:
    """The text of the source's file. `held`: the names of Slurm's packages."""
    values = {"name": NAME, "addresses": " ".join(addresses), "key": KEY, "held": " ".join(held)}
    return TEXT % values


def clashing(context: Context, slurm: Sequence[str]) -> str:
    """Which source of the host's own has other packages under Slurm's names, and what to do; empty for none."""
    if COMMON not in slurm or OWN in slurm:
        return ""
    for path, section in sources(context):
        left_out = "%s %s" % (section.get("excludepkgs", ""), section.get("exclude", ""))
        patterns = left_out.replace(",", " ").split()
        if section.name.startswith(FOREIGN) and any(not is_left_out(name, patterns) for name in slurm):
            return (
                "EPEL has packages of the same names that are others (%s in %s), and dnf would mix them. Write a line "
                "excludepkgs=slurm* into that section" % (section.name, path)
            )
    return ""


def is_left_out(name: str, patterns: Sequence[str]) -> bool:
    """Whether patterns leave a package out."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def sources(context: Context) -> Iterator[tuple[str, configparser.SectionProxy]]:
    """Yield path and section of each source that is enabled; files that cannot be read have none."""
    import configparser  # the deployer loads this module, too, and reads none

    for name in sorted(names(context.path(FOLDER))):
        path = "%s/%s" % (FOLDER, name)
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(read_text(context.path(path)) if name.endswith(".repo") else "")
        except configparser.Error:
            continue
        for section in parser.sections():
            if parser[section].get("enabled", "1").lower() not in NO:
                yield path, parser[section]
