"""What the source of Slurm's packages says of its release, and which of its packages are installed.

`on_hosts/agent/slurm/package_source.py` writes the source and the record of its release; here both are used.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages import apt_sources, dpkg_status

SOURCES = "/etc/apt/sources.list.d/slurmfab-slurm.sources"
RECORD = "/var/lib/slurmfab/slurm-source.json"

DEPENDS = re.compile(r"Depends: ([a-z0-9][a-z0-9+.-]+) \(.* is to be installed")
"""A line of apt-get about a package whose version is not the one that another package needs."""


class Release(NamedTuple):
    """What a Release file says of itself; empty where it says nothing."""

    origin: str  # who made it
    label: str  # which repository it is
    codename: str  # its codename, such as `trixie-backports`
    suite: str  # its suite, such as `stable-backports`

    @property
    def pin(self) -> str:
        """It, as in a pin; empty if it says nothing."""
        letters = {"o": self.origin, "l": self.label, "n": self.codename, "a": self.suite}
        said = ["%s=%s" % (key, text) for key, text in letters.items() if text and "," not in text]
        return "release " + ",".join(said) if said else ""


def releases(context: Context, digest: str = "") -> Optional[List[Release]]:
    """What the source said of its releases when its lists were fetched first; `None` if that is not known.

    Args:
        digest: of the source that is meant; empty for the one that is there.
    """
    record: Dict[str, Any] = host_records.read(context, RECORD)
    if not record or (digest and record.get("of") != digest):
        return None
    return [Release(*one) for one in record.get("releases", ())]


def release_name(context: Context) -> str:
    """The name of the source's release for `apt-get install NAME/RELEASE`; empty if there is none."""
    found = releases(context) or []
    return next((one.codename or one.suite for one in found if one.codename or one.suite), "")


def fits(version: str, wanted: str) -> bool:
    """Whether a package's version is the wanted one of Slurm.

    >>> fits("26.05.5-1", "26.05.*"), fits("26.05.5-1", "26.05.5"), fits("26.05.51-1", "26.05.5"), fits("1", "")
    (True, True, False, True)
    >>> fits("26.05.5-1", "26.05.4")
    False

    Args:
        wanted: a version of Slurm or of a package, or with a `*` behind the beginning of one; empty for any.
    """
    if not wanted or wanted.endswith("*"):
        return version.startswith(wanted[:-1])
    return version == wanted or version.startswith(tuple(wanted + one for one in "-+~"))


def chosen(context: Context, missing: List[str], slurm: Iterable[str], version: str) -> List[str]:
    """Packages for apt-get, those of Slurm's own from their source and in the wanted version.

    On a host that has Slurm already, further packages of it get the version that is there: a deployment changes none.

    Args:
        missing: `NAME` or `NAME=VERSION` of each package.
        slurm: the names of all packages of Slurm's own.
        version: the wanted version, or with a `*` behind the beginning of one; empty for any.

    Raises:
        ResourceFailed: the source does not have the wanted version.
    """
    own = [name for name in missing if name in slurm]
    installed = sorted(set(dpkg_status.versions(dpkg_status.read(context.root), slurm).values())) if own else []
    if not own or (not version and releases(context) is None):
        return missing
    if installed and not all(fits(one, version) for one in installed):
        return ["%s=%s" % (one, installed[0]) if one in own else one for one in missing]
    return in_version(context, missing, slurm, version)


def in_version(context: Context, wanted: List[str], slurm: Iterable[str], version: str) -> List[str]:
    """Packages for apt-get, those of Slurm's own from their source and in the wanted version, whatever is installed.

    Args:
        wanted: `NAME` or `NAME=VERSION` of each package.
        slurm: the names of all packages of Slurm's own.
        version: the wanted version, or with a `*` behind the beginning of one; empty for any.

    Raises:
        ResourceFailed: the source does not have the wanted version.
    """
    own = [name for name in wanted if name in slurm]
    texts = {name: from_source(context, name, found, version) for name, found in offered(context, own).items()}
    return [texts.get(one, one) for one in wanted]


def also_needed(context: Context, output: str, wanted: List[str]) -> List[str]:
    """What apt-get complained that packages of Slurm depend on, if their source has it: `NAME/RELEASE` of each.

    Where nothing is installed, as for a bundle, apt does not take it from there by itself.

    Args:
        wanted: the packages that it was asked for.
    """
    release = release_name(context)
    named = {text.partition("/")[0].partition("=")[0] for text in wanted}
    needed = sorted(set(DEPENDS.findall(output)) - named)
    if not release or not needed:
        return []
    return ["%s/%s" % (name, release) for name, versions in offered(context, needed).items() if versions]


def from_source(context: Context, name: str, found: List[str], version: str) -> str:
    """A package for apt-get in the wanted version: `NAME/RELEASE`, or `NAME=VERSION` where there is a newer one.

    Only with the name of the release, apt takes what the package needs from there, too, if no other source has it.

    Args:
        found: the versions that there are, the newest first.

    Raises:
        ResourceFailed: it is not there.
    """
    fitting = [one for one in found if fits(one, version)]
    if not fitting:
        there = "it has " + ", ".join(found[:4]) if found else "it has no such package"
        where = "the source of Slurm's packages" if releases(context) is not None else "this host's package sources"
        raise ResourceFailed(
            "%s: no %s %s in %s (%s); slurm.version in the cluster file says which one is wanted"
            % (name, name, version, where, there)
        )
    release = release_name(context)
    return "%s/%s" % (name, release) if release and fitting[0] == found[0] else "%s=%s" % (name, fitting[0])


def offered(context: Context, packages: List[str]) -> Dict[str, List[str]]:
    """By package, the versions that Slurm's source has, the newest first; without one, those of all sources."""
    source = next(apt_sources.of_stanza(read_text(context.path(SOURCES))), None)
    done = context.run(["apt-cache", "madison", *packages], seconds=60)
    found: Dict[str, List[str]] = {name: [] for name in packages}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, version, place = ([part.strip() for part in line.split(" | ")] + ["", ""])[:3]
        if name in found and version not in found[name] and (source is None or is_from(source, place)):
            found[name].append(version)
    return found


def is_from(source: apt_sources.Source, place: str) -> bool:
    """Whether a package is from a source.

    Args:
        place: as `apt-cache madison` prints it: address, suite and component, architecture.
    """
    uri, suite = [*place.split(), "", ""][:2]
    return uri.rstrip("/") in [one.rstrip("/") for one in source.uris] and any(
        suite == one or suite.startswith(one.rstrip("/") + "/") for one in source.suites
    )
