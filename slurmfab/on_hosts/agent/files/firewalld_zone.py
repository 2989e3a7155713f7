"""The zone of firewalld(1) by which a host lets the cluster's hosts in: its file, and what firewalld has of it.

A zone that firewalld knows gets and loses addresses at once. A new one needs a reload, which would lose what somebody
has set without --permanent; so that is looked for before.
"""

from __future__ import annotations

import re
from typing import ClassVar, List, Optional, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles

OF = "firewalld"
ZONE = "slurmfab"
PATH = "/etc/firewalld/zones/%s.xml" % ZONE
HERE = "--zone=" + ZONE

IN_EFFECT = "addresses that are let in"
SOURCES, TARGET = (re.compile(r"^  %s: *(.*)$" % name, re.M) for name in ("sources", "target"))
BY_ITSELF = re.compile(r"^  interfaces:.*\n|(?<=\S) \([^)]*\)$", re.M)
"""What firewalld shows of a zone that no file has: interfaces of NetworkManager's, and that the zone is in use."""

UNSAVED = (
    "firewalld has settings that are not permanent, and the reload that a new zone needs would lose them. Keep them "
    "(firewall-cmd --runtime-to-permanent) or drop them (firewall-cmd --reload), then run again"
)


class FirewalldZone(OwnedFiles):
    """The zone, as its file has it and as firewalld knows it; without files, neither."""

    kind: ClassVar[str] = "firewalld-zone"
    besides: ClassVar[State] = {IN_EFFECT: None}
    sources: Tuple[str, ...] = ()  # addresses and networks of which all is let in, sorted

    def wanted(self, context: Context) -> State:
        """The file, in effect."""
        return {**super().wanted(context), IN_EFFECT: " ".join(self.sources) or None}

    def actual(self, context: Context) -> State:
        """The same as found."""
        return {**super().actual(context), IN_EFFECT: " ".join(let_in(info(context) or "")) or None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write the file, or remove it, and let firewalld have it; ResourceFailed of firewalld."""
        is_known = info(context) is not None
        if (
            self.sources
            and not is_known
            and shown(context, "--list-all-zones") != shown(context, "--permanent", "--list-all-zones")
        ):
            raise ResourceFailed(UNSAVED)
        super().converge(context, differing)
        if not is_known:
            if self.sources:
                context.must(["firewall-cmd", "--check-config"])
                context.must(["firewall-cmd", "--reload"])
            return
        there = let_in(info(context) or "")
        words = ["--remove-source=" + one for one in there if one not in self.sources]
        words += ["--add-source=" + one for one in self.sources if one not in there]
        for word in words:
            context.must(["firewall-cmd", HERE, word])


def info(context: Context) -> Optional[str]:
    """What firewalld shows of the zone; `None` if it does not know it, or does not run."""
    try:
        done = context.run(["firewall-cmd", "--info-zone=" + ZONE])
    except ResourceFailed:
        return None  # it is not installed any more
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def let_in(text: str) -> List[str]:
    """The addresses of which firewalld lets all in, sorted. `text`: what it shows of the zone."""
    target, sources = TARGET.search(text), SOURCES.search(text)
    return sorted(sources.group(1).split()) if target and sources and target.group(1) == "ACCEPT" else []


def shown(context: Context, *words: str) -> str:
    """What firewalld shows of all zones, without what it knows by itself."""
    return BY_ITSELF.sub("", context.must(["firewall-cmd", *words]))
