"""Package sources of the lab's hosts, derived from this machine's apt configuration.

Formats: one-line and deb822 style of sources.list(5), apt 2.6. If this machine uses no Debian mirror (for example
an Ubuntu machine), mmdebstrap uses its default mirror.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from slurmfab.lab.command import call

DEBIAN = frozenset(
    "bullseye bookworm trixie forky duke sid stable oldstable oldoldstable testing unstable".split()  # noqa: SIM905
)
"""Names of Debian releases that sources.list can contain."""

CARRIED = re.compile(
    r'Acquire::(https?::(?!Proxy-?Auto-?Detect)|Retries|Check-Valid-Until|Check-Date|Languages).* "..*";'
)
"""Lines of `apt-config dump` with settings that hosts need too, above all proxies."""

ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>[^#]*)")
"""A `deb` entry in one-line style."""


@dataclass(frozen=True)
class Source:
    """One `deb` entry of an apt source list.

    Args:
        uris: addresses of mirrors.
        suites: release names, such as `trixie-updates`.
        components: such as `main`.
        signed_by: path of a keyring, or the key itself; empty for apt's default.
    """

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""


def parse_sources(text: str) -> tuple[Source, ...]:
    """Parse the enabled `deb` entries of one source list, in one-line or deb822 style."""
    if re.search(r"^types:", text, re.MULTILINE | re.IGNORECASE):
        return tuple(source for stanza in re.split(r"\n\s*\n", text) for source in _parse_stanza(stanza))
    return tuple(source for line in text.splitlines() for source in _parse_line(line))


def _parse_stanza(stanza: str) -> Iterable[Source]:
    """Parse one deb822 stanza; yields nothing if it is disabled or only for source packages."""
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[key] = f"{fields.get(key, '')}\n{line}"
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = value.strip()
    if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in ("no", "false"):
        uris, suites, components = (tuple(fields.get(name, "").split()) for name in ("uris", "suites", "components"))
        yield Source(uris, suites, components, fields.get("signed-by", ""))


def _parse_line(line: str) -> Iterable[Source]:
    """Parse one line in one-line style; yields nothing for comments and source packages."""
    found = ONE_LINE.match(line.strip())
    if found:
        options = dict(pair.split("=", 1) for pair in (found["options"] or "").split() if "=" in pair)
        components = tuple(found["components"].split())
        yield Source((found["uri"],), (found["suite"],), components, options.get("signed-by", ""))


def for_suite(sources: Iterable[Source], suite: str, read: Callable[[str], str]) -> tuple[Source, ...]:
    """Sources for hosts of a Debian suite, on the mirrors that this machine uses.

    Args:
        sources: this machine's sources.
        suite: the hosts' suite; sid has neither updates nor a security archive.
        read: returns the text of a mirror list, for addresses like `mirror+file:/etc/apt/mirrors/debian.list`.

    Returns:
        Sources of the release, its updates and its security archive; empty if this machine uses no Debian mirror.
    """
    kinds = ("",) if suite == "sid" else ("", "-updates", "-security")
    wanted: dict[str, Source] = {}
    for source in sources:
        for name in source.suites:
            release, _, kind = name.replace("/updates", "-security").partition("-")
            kind = f"-{kind}" if kind else ""
            uris = tuple(_plain_uris(source.uris, read))
            if release in DEBIAN and kind in kinds and uris:
                wanted.setdefault(kind, Source(uris, (suite + kind,), ("main",), source.signed_by))
    return tuple(wanted[kind] for kind in kinds if kind in wanted) if "" in wanted else ()


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


def machine_sources(suite: str) -> tuple[Source, ...]:
    """Sources for hosts of a suite, from this machine's source lists; empty if it uses no Debian mirror."""
    variables = call(["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"])
    places = dict(re.findall(r"^(LIST|PARTS)='(.*)'$", variables, re.MULTILINE))
    parts = Path(places["PARTS"])
    files = [Path(places["LIST"]), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    found = [source for file in files if file.is_file() for source in parse_sources(file.read_text())]
    return for_suite(found, suite, lambda path: Path(path).read_text())


def carried_settings(dump: str) -> tuple[str, ...]:
    """The lines of `apt-config dump` with settings that hosts need too."""
    return tuple(line for line in dump.splitlines() if CARRIED.fullmatch(line))
