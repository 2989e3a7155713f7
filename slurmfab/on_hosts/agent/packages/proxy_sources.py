"""What apt on a host is set to: the addresses of its package sources, and the proxies by which it reaches them."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, Iterator, List, Mapping

from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.packages import apt_sources

SETTING = re.compile(r'(Acquire::https?::Proxy\S*) "(.+)";', re.IGNORECASE)
"""A line of `apt-config dump` about proxies."""

SCHEMES = ("http", "https")
ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]{1,253})(?::(?P<port>\d{1,5}))?/[\x21-\x7e]{0,1000}")
"""The address of a source without user and password, and without blanks."""

MIRROR_LIST = "mirror+file:"  # what stands before the path of a file with addresses (apt-transport-mirror(1))
MOST = 64  # the most addresses of sources that are taken into account
DIRECT = "DIRECT"  # in place of a proxy: none (apt.conf(5))


def proxies(context: Context) -> Dict[str, str]:
    """The settings about proxies, by name in small letters, and the variables that apt obeys beside them."""
    dump = context.run(["apt-config", "dump"]).stdout.decode(errors="replace")
    found = {match[1].lower(): match[2] for match in map(SETTING.fullmatch, dump.splitlines()) if match}
    named = ((scheme + "_proxy", os.environ.get(scheme + "_proxy", "")) for scheme in SCHEMES)
    return {**found, **{name: value for name, value in named if value}}


def looks_for_proxies(settings: Mapping[str, str]) -> bool:
    """Whether a program of the site's tells apt which proxy to use."""
    return any("auto" in name for name in settings)


def proxy_of(settings: Mapping[str, str], scheme: str, host: str) -> str:
    """The address of the proxy for a source; empty for none. Sources with https have http's by default, as with apt."""
    for one in dict.fromkeys((scheme, "http")):
        for name in ("acquire::%s::proxy::%s" % (one, host.lower()), "acquire::%s::proxy" % one):
            if settings.get(name):
                return "" if settings[name] == DIRECT else settings[name]
    return settings.get(scheme + "_proxy", "")


def uris(context: Context) -> List[str]:
    """The addresses of the host's own sources that begin with http or https, each with a slash at its end."""
    found = (uri for entry in apt_sources.entries(context) for one in entry.uris for uri in plain(context, one))
    return list(dict.fromkeys(found))[:MOST]


def plain(context: Context, uri: str) -> Iterator[str]:
    """The address itself, or those in the file that it names."""
    if uri.startswith(MIRROR_LIST):
        lines = (
            line.partition("#")[0].split() for line in read_text(context.path(uri[len(MIRROR_LIST) :])).splitlines()
        )
        yield from usable(words[0] for words in lines if words)
    else:
        yield from usable([uri])


def usable(some: Iterable[str]) -> Iterator[str]:
    """Those of some addresses that a proxy can serve, each with a slash at its end."""
    for uri in some:
        text = uri if uri.endswith("/") else uri + "/"
        if ADDRESS.fullmatch(text):
            yield text


def host_of(uri: str) -> str:
    """The host in an address, as apt names it in its settings."""
    match = ADDRESS.fullmatch(uri)
    return match["host"] if match else ""
