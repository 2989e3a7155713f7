"""The package mirror of the lab's hosts, read from this machine's own apt configuration.

Formats: sources.list(5) of apt 2.6, both the one-line and the deb822 style. No mirror is named here: where this machine
has no Debian mirror (an Ubuntu machine, say), mmdebstrap falls back to its own default.
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
"""Names by which sources.list may call a Debian release."""

CARRIED = re.compile(
    r'Acquire::(https?::(?!Proxy-?Auto-?Detect)|Retries|Check-Valid-Until|Check-Date|Languages).* "..*";'
)
"""apt settings that the hosts need as much as this machine does: proxies first of all."""

ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>[^#]*)")
"""An entry in the old style."""


@dataclass(frozen=True)
class Source:
    """One place that apt reads packages from.

    Args:
        uris: addresses of mirrors.
        suites: release names, as in `trixie-updates`.
        components: as in `main`.
        signed_by: path of a keyring, or the key itself; empty for apt's default.
    """

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""


def parse_sources(text: str) -> tuple[Source, ...]:
    """The enabled `deb` entries of one file of sources, whichever style it is written in."""
    if re.search(r"^types:", text, re.MULTILINE | re.IGNORECASE):
        return tuple(source for stanza in re.split(r"\n\s*\n", text) for source in _parse_stanza(stanza))
    return tuple(source for line in text.splitlines() for source in _parse_line(line))


def _parse_stanza(stanza: str) -> Iterable[Source]:
    """One deb822 stanza; nothing when it is switched off or for source packages only."""
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
    """One line in the old style; nothing when it is a comment or for source packages."""
    found = ONE_LINE.match(line.strip())
    if found:
        options = dict(pair.split("=", 1) for pair in (found["options"] or "").split() if "=" in pair)
        components = tuple(found["components"].split())
        yield Source((found["uri"],), (found["suite"],), components, options.get("signed-by", ""))


def for_suite(sources: Iterable[Source], suite: str, read: Callable[[str], str]) -> tuple[Source, ...]:
    """The sources that a host of another Debian suite uses on the same mirrors.

    Args:
        sources: what this machine uses.
        suite: the suite of the host; sid has neither updates nor a security archive.
        read: gives the text of a mirror list, for addresses like `mirror+file:/etc/apt/mirrors/debian.list`.
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
    """Addresses that a host can reach by itself: no CD-ROM, no file of this machine."""
    for uri in uris:
        if uri.startswith("mirror+file:"):
            lines = (line.split("#")[0].split() for line in read(uri.removeprefix("mirror+file:")).splitlines())
            yield from _plain_uris((words[0] for words in lines if words), read)
        elif uri.startswith(("http://", "https://")):
            yield uri


def render(sources: Iterable[Source]) -> str:
    """The sources in deb822 style."""
    stanzas = []
    for source in sources:
        lines = ["Types: deb", f"URIs: {' '.join(source.uris)}", f"Suites: {' '.join(source.suites)}"]
        lines.append(f"Components: {' '.join(source.components)}")
        if source.signed_by:
            lines.append(f"Signed-By: {source.signed_by}")
        stanzas.append("\n".join(lines) + "\n")
    return "\n".join(stanzas)


def machine_sources(suite: str) -> tuple[Source, ...]:
    """Sources for hosts of that suite, from the files of this machine; none when it uses no Debian mirror."""
    words = call(["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"])
    places = dict(re.findall(r"^(LIST|PARTS)='(.*)'$", words, re.MULTILINE))
    parts = Path(places["PARTS"])
    files = [Path(places["LIST"]), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    found = [source for file in files if file.is_file() for source in parse_sources(file.read_text())]
    return for_suite(found, suite, lambda path: Path(path).read_text())


def carried_settings(dump: str) -> tuple[str, ...]:
    """The lines of `apt-config dump` that hosts need too."""
    return tuple(line for line in dump.splitlines() if CARRIED.fullmatch(line))
