"""What the source of Slurm's packages says of its release, and which of its packages are installed.

`on_hosts/agent/slurm/package_source.py` writes the source and the record of its release; here both are used.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages import apt_sources, dpkg_status
from slurmfab.on_hosts.agent.packages.apt import DOWNGRADES, MINIMAL, apt_get

SOURCES = "/etc/apt/sources.list.d/slurmfab-slurm.sources"
RECORD = "/var/lib/slurmfab/slurm-source.json"

_NEEDS = r"Depends: ([a-z0-9][a-z0-9+.-]+) (?:\((?:= ([^)]+)|[^)]*)\) )?but "
OTHER_VERSION = re.compile(_NEEDS + r"\S+ is to be installed")
"""A line of apt-get about a package whose version is not the one that another package needs."""

LEFT_OUT = re.compile(_NEEDS + r"it is not (?:going to be installed|installable)")
"""The same about one that apt would not install at all, often because of what it needs itself."""

CHANGED = re.compile(r"^(?:Inst|Conf) (\S+) (?:\[\S+\] )?\((\S+) ", re.M)
"""A line of apt-get --simulate; a package that is unpacked, and not configured yet, has no `Inst`."""

MOST_PACKAGES = 4096  # apt-get is asked for no more


class Release(NamedTuple):
    """What a Release file says of itself; empty where it says nothing."""

    origin: str  # who made it
    label: str  # which repository it is
    codename: str  # its codename, such as `trixie-backports`
    suite: str  # its suite, such as `stable-backports`

    @property
    def pin(self) -> str:
        """The release as it is named in a pin (apt_preferences(5)); empty if it says nothing."""
        letters = {"o": self.origin, "l": self.label, "n": self.codename, "a": self.suite}
        said = ["%s=%s" % (key, text) for key, text in letters.items() if text and "," not in text]
        return "release " + ",".join(said) if said else ""


def releases(context: Context, digest: str = "") -> Optional[List[Release]]:
    """The source's releases by lists fetched first, if known, of a digest or (empty) the present source."""
    record: Dict[str, Any] = host_records.read(context, RECORD)
    if not record or (digest and record.get("of") != digest):
        return None
    return [Release(*one) for one in record.get("releases", ())]


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
    """Packages (`NAME`, `NAME=VERSION`) for apt-get, Slurm's own from their source in the wanted version.

    On a host that has Slurm already, further packages of it get the version that is there: a deployment changes none.
    `version`: may end in `*`; empty for any. Raises ResourceFailed if the source does not have it.
    """
    own = [name for name in missing if name in slurm]
    installed = sorted(set(dpkg_status.versions(dpkg_status.read(context.root), slurm).values())) if own else []
    if not own or (not version and releases(context) is None):
        return missing
    if installed and not all(fits(one, version) for one in installed):
        return ["%s=%s" % (one, installed[0]) if one in own else one for one in missing]
    return in_version(context, missing, slurm, version)


def exactly(context: Context, missing: List[str], slurm: Iterable[str], version: str) -> List[str]:
    """The same, with what they need of Slurm's source; unchanged where Slurm has no source of its own."""
    exact = chosen(context, missing, slurm, version) if slurm else missing
    return exact if exact == missing else solved(context, exact, flags=DOWNGRADES)[0]


def in_version(context: Context, wanted: List[str], slurm: Iterable[str], version: str) -> List[str]:
    """The same whatever is installed; arguments and error as `chosen`."""
    own = [name for name in wanted if name in slurm]
    texts = {name: from_source(context, name, found, version) for name, found in offered(context, own).items()}
    return [texts.get(one, one) for one in wanted]


def from_source(context: Context, name: str, found: List[str], version: str) -> str:
    """`NAME=VERSION` of the newest wanted version found for apt-get; ResourceFailed if there is none."""
    fitting = [one for one in found if fits(one, version)]
    if not fitting:
        there = "it has " + ", ".join(found[:4]) if found else "it has no such package"
        where = "the source of Slurm's packages" if releases(context) is not None else "this host's package sources"
        raise ResourceFailed(
            "%s: no %s %s in %s (%s); slurm.version in the cluster file says which one is wanted"
            % (name, name, version, where, there)
        )
    return "%s=%s" % (name, fitting[0])


def solved(
    context: Context,
    wanted: Sequence[str],
    options: Sequence[str] = (),
    flags: Sequence[str] = (),
    source: Optional[apt_sources.Source] = None,
) -> Tuple[List[str], int, str]:
    """Packages for apt-get, with those of Slurm's source that it needs besides and would not take from there by itself.

    A release (`NAME/RELEASE`) would bring along whatever it has of what Slurm needs, also where the host's own sources
    satisfy it: so packages are named one by one. `flags`: of apt-get alone. Returns also its exit code and simulation.
    """
    words = [*wanted]
    while True:
        code, output = apt_get(context, [*options, *flags, *MINIMAL, "--simulate", "install", "--", *words])
        more = also_needed(context, output, words, options, source) if code != 0 else []
        if not more or len(words) + len(more) > MOST_PACKAGES:
            return words, code, output
        words += more


def changes_in(simulated: str) -> Dict[str, str]:
    """The new version of each package that apt-get would change, by name, from what its simulation printed."""
    return {name.partition(":")[0]: version for name, version in CHANGED.findall(simulated)}


def also_needed(
    context: Context, output: str, wanted: Sequence[str], options: Sequence[str], source: Optional[apt_sources.Source]
) -> List[str]:
    """What apt-get complained of and Slurm's source has: `NAME=VERSION` of each; see `solved` for the arguments.

    That is what Slurm needs in a version that the other sources do not have, or at all; and what would be removed
    because it needs the old version of such a package.
    """
    from slurmfab.on_hosts.agent.packages import apt_errors  # slow to compile, and most runs install nothing

    source = source or own_source(context)
    named = {text.partition("=")[0] for text in wanted}
    gone = apt_errors.REMOVALS.search(output)
    removed = [(name.partition(":")[0], "") for name in gone.group(1).split()] if gone else []
    for needed in ([*OTHER_VERSION.findall(output), *removed], LEFT_OUT.findall(output)):
        exact = dict(needed)
        more = sorted(exact.keys() - named)
        found = offered(context, more, options, source) if source and more else {}
        if any(found.values()):
            return ["%s=%s" % (name, exact[name] or versions[0]) for name, versions in found.items() if versions]
    return []


def own_source(context: Context) -> Optional[apt_sources.Source]:
    """The source of Slurm's packages that the host has; `None` where these come from its other sources."""
    found = next(apt_sources.of_stanza(read_text(context.path(SOURCES))), None)
    names = {name for one in releases(context) or () for name in (one.codename, one.suite) if name}
    # A suite that the host has anyway needs no file of slurmfab's.
    return found or next((one for one in apt_sources.entries(context) if names.intersection(one.suites)), None)


def offered(
    context: Context, packages: Sequence[str], options: Sequence[str] = (), source: Optional[apt_sources.Source] = None
) -> Dict[str, List[str]]:
    """By package, the versions that Slurm's source has, the newest first; without one, those of all sources."""
    source = source or own_source(context)
    done = context.run(["apt-cache", *options, "madison", *packages], seconds=60)
    found: Dict[str, List[str]] = {name: [] for name in packages}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, version, place = ([part.strip() for part in line.split(" | ")] + ["", ""])[:3]
        is_there = (source is None or is_from(source, place)) and not place.endswith("Sources")
        if is_there and name in found and version not in found[name]:
            found[name].append(version)
    return found


def is_from(source: apt_sources.Source, place: str) -> bool:
    """Whether a package is from a source; `place` as `apt-cache madison` prints it: address, suite and so on."""
    uri, suite = [*place.split(), "", ""][:2]
    return uri.rstrip("/") in [one.rstrip("/") for one in source.uris] and any(
        suite == one or suite.startswith(one.rstrip("/") + "/") for one in source.suites
    )


ONLY = (
    "-o", "Dir::Etc::sourcelist=" + SOURCES, "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Get::List-Cleanup=0",
)  # fmt: skip
"""Options of apt-get update that leave the lists of all other sources as they are."""


def refresh_lists(context: Context, options: Tuple[str, ...] = ONLY) -> str:
    """Fetch the lists of Slurm's source alone (empty: all); what apt-get complained of, or empty."""
    code, output = apt_get(context, [*options, "update"])
    failed = code != 0 or "\nErr:" in output or (options and "\nW: Failed to fetch" in output)
    return "\n" + output if failed else ""
