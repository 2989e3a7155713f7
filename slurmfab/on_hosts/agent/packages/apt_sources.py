"""apt's sources on a host: the entries of its files (sources.list(5)), in both styles, and what their releases say."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core.reading import names, os_release, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

LIST = "/etc/apt/sources.list"
PARTS = "/etc/apt/sources.list.d"
OWN = "slurmfab-slurm.sources"  # the file of slurmfab's own

FORMAT = "\t".join("$(%s)" % name for name in ("SOURCESENTRY", "RELEASE", "ORIGIN", "LABEL", "CODENAME", "SUITE"))
"""The format of a line of `apt-get indextargets`; fields without a value stay as they are written here."""

ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>[^#]*)")


class Source(NamedTuple):
    """An entry of apt's sources."""

    uris: Tuple[str, ...]
    suites: Tuple[str, ...]  # such as `trixie`
    components: Tuple[str, ...]  # such as `main`
    signed_by: str = ""  # path of a keyring, or the key itself; empty for apt's default
    trusted: str = ""  # `yes` for a source without a signature; empty as a rule
    architectures: str = ""  # those that it is restricted to, with blanks between them; empty for the host's


def stanza(source: Source) -> str:
    """An entry in deb822 style, with a line that says who made it."""
    return "# Made by slurmfab for the key slurm of the cluster file.\n" + deb822(source)


def deb822(source: Source) -> str:
    """An entry in deb822 style."""
    fields = {
        "URIs": " ".join(source.uris),
        "Suites": " ".join(source.suites),
        "Components": " ".join(source.components),
        "Architectures": source.architectures,
        "Signed-By": source.signed_by,
        "Trusted": source.trusted,
    }
    return "".join("%s\n" % one for one in ("Types: deb", *("%s: %s" % pair for pair in fields.items() if pair[1])))


def own_codename(context: Context) -> str:
    """The codename of the host's own release, such as `trixie`; empty if it is not known."""
    return os_release(context.root.rstrip("/")).get("VERSION_CODENAME", "")


def of_own_release(context: Context) -> Source:
    """The first source of the host's own release. Raises ResourceFailed if there is none."""
    found = first_of_own_release(context)
    if found is None:
        codename = own_codename(context)
        raise ResourceFailed(
            "this host has no package source of its own release (%s), whose mirror has the other suites; "
            "check /etc/apt/sources.list and sources.list.d" % (codename or "unknown")
        )
    return found


def first_of_own_release(context: Context) -> Optional[Source]:
    """The first source of the host's own release; `None` if there is none."""
    codename = own_codename(context)
    return next((one for one in entries(context) if codename and codename in one.suites), None)


def entries(context: Context) -> Iterator[Source]:
    """Yield the enabled `deb` entries of the host's own sources, slurmfab's left out."""
    parts = [one for one in sorted(names(context.path(PARTS))) if one.endswith((".list", ".sources")) and one != OWN]
    for path in (LIST, *(os.path.join(PARTS, one) for one in parts)):
        text = read_text(context.path(path))
        if path.endswith(".sources"):
            yield from of_stanzas(text)
        else:
            yield from of_lines(text)


def of_stanzas(text: str) -> Iterator[Source]:
    """Yield the sources of a file in deb822 style."""
    for stanza in re.split(r"\n[ \t]*\n", text):
        yield from of_stanza(stanza)


def of_stanza(text: str) -> Iterator[Source]:
    """Yield the source of a stanza in deb822 style, if it is enabled and has packages."""
    fields: Dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[key] = "%s\n%s" % (fields.get(key, ""), line)
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = value.strip()
    if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in ("no", "false"):
        uris, suites, components = (tuple(fields.get(one, "").split()) for one in ("uris", "suites", "components"))
        more = (fields.get(one, "") for one in ("signed-by", "trusted", "architectures"))
        yield Source(uris, suites, components, *more)


def of_lines(text: str) -> Iterator[Source]:
    """Yield the sources of a file in one-line style."""
    for line in text.splitlines():
        found = ONE_LINE.match(line.strip())
        if found:
            options = dict(pair.split("=", 1) for pair in (found.group("options") or "").split() if "=" in pair)
            more = (options.get("signed-by", ""), options.get("trusted", ""), options.get("arch", "").replace(",", " "))
            suites, components = (found.group("suite"),), tuple(found.group("components").split())
            yield Source((found.group("uri"),), suites, components, *more)


def releases(context: Context, options: Sequence[str] = ()) -> List[Tuple[str, str, Tuple[str, str, str, str]]]:
    """File, number, suite and the release's origin, label, codename, suite of sources whose lists are there."""
    done = context.run(["apt-get", *options, "indextargets", "--format", FORMAT, "Created-By: Packages"], seconds=60)
    found: List[Tuple[str, str, Tuple[str, str, str, str]]] = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        entry, wanted, *fields = [*line.split("\t"), ""]
        # A field that the Release file lacks is printed as its placeholder.
        origin, label, codename, suite = (["" if one.startswith("$(") else one for one in fields] + [""] * 4)[:4]
        found.append((entry, wanted, (origin, label, codename, suite)))
    return found
