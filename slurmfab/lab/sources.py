"""Package sources of the lab's hosts, derived from this machine's apt configuration.

Formats: one-line and deb822 style of sources.list(5), apt 2.6. If this machine uses no Debian mirror (for example
an Ubuntu machine), mmdebstrap uses its default mirror for Debian. Hosts with Ubuntu need a mirror of it: this
machine's, or the one in `UBUNTU_MIRROR`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab.command import call
from slurmfab.lab.spec import UBUNTU_SUITES
from slurmfab.on_hosts.agent.packages import apt_sources

DEBIAN = frozenset(
    "bullseye bookworm trixie forky duke sid stable oldstable oldoldstable testing unstable".split()  # noqa: SIM905
)
"""Names of Debian releases that sources.list can contain."""

UBUNTU = frozenset(
    "focal jammy kinetic lunar mantic noble oracular plucky questing resolute devel".split()  # noqa: SIM905
)
"""Names of Ubuntu releases that sources.list can contain."""

UBUNTU_MIRROR = "SLURMFAB_UBUNTU_MIRROR"
"""Environment variable: address of a mirror with all pockets of Ubuntu, for machines whose sources name none."""

UBUNTU_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
"""Keys that Ubuntu's package archive is signed with, where Ubuntu's package ubuntu-keyring puts them."""

CARRIED = re.compile(
    r'Acquire::(https?::(?!Proxy-?Auto-?Detect)|Retries|Check-Valid-Until|Check-Date|Languages).* "..*";'
)
"""Lines of `apt-config dump` with settings that hosts need too, above all proxies."""


@dataclass(frozen=True)
class Source:
    """One `deb` entry of an apt source list."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]  # release names, such as `trixie-updates`
    components: tuple[str, ...]  # such as `main`
    signed_by: str = ""  # path of a keyring, or the key itself; empty for apt's default


def parse_sources(text: str) -> tuple[Source, ...]:
    """Parse the enabled `deb` entries of one source list, in one-line or deb822 style."""
    is_deb822 = re.search(r"^types:", text, re.MULTILINE | re.IGNORECASE)
    entries = apt_sources.of_stanzas(text) if is_deb822 else apt_sources.of_lines(text)
    return tuple(Source(one.uris, one.suites, one.components, one.signed_by) for one in entries)


def for_suite(sources: Iterable[Source], suite: str, read: Callable[[str], str]) -> tuple[Source, ...]:
    """Sources, updates and security of a Debian or Ubuntu suite on this machine's mirrors of it, if any.

    `read`: the text of a mirror list, for `mirror+file:/etc/apt/mirrors/debian.list`. Sid has a release alone.
    """
    kinds = ("",) if suite == "sid" else ("", "-updates", "-security")
    releases = UBUNTU if suite in UBUNTU_SUITES else DEBIAN
    wanted: dict[str, Source] = {}
    for source in sources:
        for name in source.suites:
            release, _, kind = name.replace("/updates", "-security").partition("-")
            kind = f"-{kind}" if kind else ""
            uris = tuple(_plain_uris(source.uris, read))
            if release in releases and kind in kinds and uris:
                wanted.setdefault(kind, Source(uris, (suite + kind,), components_of(suite), source.signed_by))
    return tuple(wanted[kind] for kind in kinds if kind in wanted) if "" in wanted else ()


def components_of(suite: str) -> tuple[str, ...]:
    """The components in which a suite has Slurm and what slurmfab installs: in Ubuntu also universe."""
    return ("main", "universe") if suite in UBUNTU_SUITES else ("main",)


def on_mirror(mirror: str, suite: str) -> tuple[Source, ...]:
    """Sources of an Ubuntu suite on one mirror, which has its updates and security fixes, too."""
    suites = (suite, f"{suite}-updates", f"{suite}-security")
    return (Source((mirror,), suites, components_of(suite), UBUNTU_KEYRING),)


def require_ubuntu(suite: str, found: tuple[Source, ...], has_keys: Callable[[str], bool]) -> None:
    """Check that Ubuntu hosts can get packages; LabError, with what to set, without mirror or keys."""
    if not found:
        raise LabError(
            f"This machine's package sources name no mirror of Ubuntu, so there are no packages for {suite}. Name one "
            f"with main and universe: {UBUNTU_MIRROR}=http://MIRROR/ubuntu. Or try --suite trixie, bookworm or sid."
        )
    keyrings = {source.signed_by for source in found if source.signed_by.startswith("/")}
    missing = sorted(keyring for keyring in keyrings if not has_keys(keyring))
    if missing:
        raise LabError(
            f"The keys of Ubuntu's archive are missing here: {' '.join(missing)}. Try: apt-get install ubuntu-keyring, "
            "or copy the file from a machine with Ubuntu."
        )


def _plain_uris(uris: Iterable[str], read: Callable[[str], str]) -> Iterable[str]:
    """The http and https addresses, including those in mirror lists; hosts cannot use this machine's files."""
    for uri in uris:
        if uri.startswith("mirror+file:"):
            lines = (line.split("#")[0].split() for line in read(uri.removeprefix("mirror+file:")).splitlines())
            yield from _plain_uris((fields[0] for fields in lines if fields), read)
        elif uri.startswith(("http://", "https://")):
            yield uri


def render(sources: Iterable[Source]) -> str:
    """Render sources in deb822 style."""
    stanzas = []
    for source in sources:
        lines = ["Types: deb", f"URIs: {' '.join(source.uris)}", f"Suites: {' '.join(source.suites)}"]
        lines.append(f"Components: {' '.join(source.components)}")
        if source.signed_by:
            lines.append(f"Signed-By: {source.signed_by}")
        stanzas.append("\n".join(lines) + "\n")
    return "\n".join(stanzas)


def machine_sources(suite: str, environment: Mapping[str, str] = os.environ) -> tuple[Source, ...]:
    """Sources for hosts of a suite, from this machine's lists, or `UBUNTU_MIRROR`; LabError if Ubuntu has none."""
    mirror = environment.get(UBUNTU_MIRROR, "")
    if suite in UBUNTU_SUITES and mirror:
        found = on_mirror(mirror, suite)
    else:
        found = for_suite(_configured(), suite, lambda path: Path(path).read_text())
    if suite in UBUNTU_SUITES:
        require_ubuntu(suite, found, lambda keyring: Path(keyring).is_file())
    return found


def _configured() -> tuple[Source, ...]:
    """All sources in this machine's source lists."""
    variables = call(["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"])
    places = dict(re.findall(r"^(LIST|PARTS)='(.*)'$", variables, re.MULTILINE))
    parts = Path(places["PARTS"])
    files = [Path(places["LIST"]), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    return tuple(source for file in files if file.is_file() for source in parse_sources(file.read_text()))


def carried_settings(dump: str) -> tuple[str, ...]:
    """The lines of `apt-config dump` with settings that hosts need too."""
    return tuple(line for line in dump.splitlines() if CARRIED.fullmatch(line))


def addresses(suite: str) -> tuple[str, ...]:
    """The addresses from which hosts of a suite get packages: this machine's mirrors, and its proxies."""
    mirrors = (uri for source in machine_sources(suite) for uri in source.uris)
    proxies = re.findall(r'"(https?://[^"]+)"', "\n".join(carried_settings(call(["apt-config", "dump"]))))
    return tuple(dict.fromkeys((*mirrors, *proxies)))
