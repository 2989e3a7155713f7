"""The way by which this host's apt gets packages in a run: through a proxy on the controller, or its own."""

from __future__ import annotations

import socket
from typing import ClassVar, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.packages import apt, proxy_sources

SECONDS = 4.0  # time for a connection: the kernel repeats a lost packet after one and after three seconds
MOST_ANSWER = 4096

WITHOUT_DELAY = "Acquire::Retries::Delay=false"
"""apt 2.6 waits for ever for further files where a server ends between two of them, unless it tries again at once."""


class PackageWay(Resource):
    """apt's calls of this run go through a proxy, unless the site has set one, or the proxy cannot be reached.

    It leaves nothing on the host, so it never differs; a proxy that cannot be reached is a remark.
    """

    kind: ClassVar[str] = "package-way"
    only_name: ClassVar[str] = "proxy"
    UNSHOWN = ("token",)
    address: str  # of the controller, as hosts reach it
    port: int
    token: str  # shows the proxy that this is a host of the cluster
    uris: Tuple[str, ...]  # addresses of the package sources that the proxy serves, each with a slash at its end

    def actual(self, context: Context) -> State:
        """Nothing; apt's further calls go through the proxy where they can."""
        apt.WAY.clear()
        if proxy_sources.proxies(context):
            return {}
        why = introduced(self.address, self.port, self.token)
        if why:
            context.remark = (
                "packages come by this host's own way: %s port %d: %s. To have them come through the controller, let "
                "this host in there" % (self.address, self.port, why)
            )
        else:
            apt.WAY.extend(self.options(context))
        return {}

    def options(self, context: Context) -> List[str]:
        """The options of apt-get: the proxy for each server of which all sources of this host are served."""
        others = {proxy_sources.host_of(uri) for uri in proxy_sources.uris(context) if not uri.startswith(self.uris)}
        place = "http://%s:%d" % ("[%s]" % self.address if ":" in self.address else self.address, self.port)
        hosts = sorted({proxy_sources.host_of(uri) for uri in self.uris} - others)
        ways = [
            "Acquire::%s::Proxy::%s=%s" % (scheme, host, place) for host in hosts for scheme in proxy_sources.SCHEMES
        ]
        return [word for way in (*ways, WITHOUT_DELAY) for word in ("-o", way)]


def introduced(address: str, port: int, token: str) -> str:
    """Show the proxy this host's address; why that fails, or empty."""
    try:
        with socket.create_connection((address, port), SECONDS) as connection:
            connection.sendall(b"GET /%s HTTP/1.1\r\nHost: slurmfab\r\n\r\n" % token.encode())
            answer = connection.recv(MOST_ANSWER).decode("latin-1")
    except socket.timeout:
        return "no answer within %.0f s; does a firewall there drop its packets?" % SECONDS
    except OSError as error:
        return error.strerror or str(error)
    return "" if answer.startswith("HTTP/1.1 200 ") else "it answers %.200r" % answer.partition("\r\n")[0]
