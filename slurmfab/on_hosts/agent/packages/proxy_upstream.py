"""What a proxy for packages asks of package sources: files, by GET, over connections that are kept for further ones."""

from __future__ import annotations

import base64
import encodings.idna  # noqa: F401 - names of servers need it, when the process has no rights to read it any more
import http.client
import ipaddress
import socket
import threading
from typing import Dict, List, Mapping, Tuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from slurmfab.on_hosts.agent.packages import proxy_sources

SECONDS = 60.0  # how long a source may be silent
MOST_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
AGENT = {"User-Agent": "slurmfab", "Accept": "*/*"}
PORTS = {"http": 80, "https": 443}

Reply = Tuple[http.client.HTTPConnection, http.client.HTTPResponse]


class Upstream:
    """Package sources, reached as this host's apt reaches them. `settings`: as `proxy_sources.proxies`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.idle: Dict[Tuple[str, str], List[http.client.HTTPConnection]] = {}
        self.lock = threading.Lock()

    def get(self, url: str) -> Reply:
        """Ask for a file, at most five redirections further; OSError or HTTPException if there is no answer."""
        for number in range(MOST_REDIRECTS + 1):
            connection, reply = self.ask(url, is_redirected=number > 0)
            place = reply.getheader("Location", "") if reply.status in REDIRECTS else ""
            if not place:
                return connection, reply
            connection.close()
            url = urljoin(url, place)
        raise OSError("it is redirected more than %d times" % MOST_REDIRECTS)

    def ask(self, url: str, *, is_redirected: bool) -> Reply:
        """Ask once, on a kept connection if there is one."""
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise OSError("it is redirected to %.200s" % url)
        proxy = proxy_sources.proxy_of(self.settings, parts.scheme, parts.hostname)
        kept = self.taken(parts)
        if kept is not None:
            try:
                return kept, sent(kept, parts, proxy)
            except (OSError, http.client.HTTPException):
                kept.close()  # the source has closed it meanwhile
        fresh = connection_to(parts, proxy)
        fresh.connect()
        if is_redirected and not proxy:
            refuse_near(fresh.sock)
        return fresh, sent(fresh, parts, proxy)

    def taken(self, parts: SplitResult) -> "http.client.HTTPConnection | None":
        """A connection that is kept for this source."""
        with self.lock:
            kept = self.idle.get((parts.scheme, parts.netloc))
            return kept.pop() if kept else None

    def keep(self, url: str, connection: http.client.HTTPConnection, reply: http.client.HTTPResponse) -> None:
        """Keep a connection whose answer was read to its end, where the source lets it."""
        if reply.will_close or not reply.isclosed() or connection.sock is None:
            connection.close()
            return
        parts = urlsplit(url)
        with self.lock:
            self.idle.setdefault((parts.scheme, parts.netloc), []).append(connection)


def connection_to(parts: SplitResult, proxy: str) -> http.client.HTTPConnection:
    """A connection, not made yet, to a source or to the site's proxy."""
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    at = host, port
    if proxy:
        place = urlsplit(proxy)
        if place.scheme != "http" or not place.hostname:
            raise OSError("this host's own proxy is of a kind that slurmfab does not speak to")
        at = place.hostname, place.port or 80
    if parts.scheme == "http":
        return http.client.HTTPConnection(*at, timeout=SECONDS)
    import ssl  # slow to load, and few sources need it

    secure = http.client.HTTPSConnection(*at, timeout=SECONDS, context=ssl.create_default_context())
    if proxy:
        secure.set_tunnel(host, port, headers=login(proxy))
    return secure


def sent(connection: http.client.HTTPConnection, parts: SplitResult, proxy: str) -> http.client.HTTPResponse:
    """Send a request; the answer's head."""
    path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    if proxy and parts.scheme == "http":
        target, headers = "http://%s%s" % (parts.netloc, path), {**AGENT, **login(proxy)}
    else:
        target, headers = path, AGENT
    connection.request("GET", target, headers={**headers, "Host": parts.netloc})
    return connection.getresponse()


def login(proxy: str) -> Dict[str, str]:
    """The header with user and password of a proxy's address; empty for none."""
    place = urlsplit(proxy)
    if not place.username:
        return {}
    text = "%s:%s" % (unquote(place.username), unquote(place.password or ""))
    return {"Proxy-Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def refuse_near(sock: socket.socket) -> None:
    """Raise OSError where a redirection led to this host itself, or to its link, such as a cloud's service."""
    address = ipaddress.ip_address(sock.getpeername()[0].partition("%")[0])
    if address.is_loopback or address.is_link_local:
        sock.close()
        raise OSError("it is redirected to %s, which is no package source" % address)


def tunnel(settings: Mapping[str, str], host: str, port: int) -> socket.socket:
    """A connection to a source whose content is encrypted, as this host reaches it; OSError if there is none."""
    proxy = proxy_sources.proxy_of(settings, "https", host)
    if not proxy:
        return socket.create_connection((host, port), SECONDS)
    place = urlsplit(proxy)
    through = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=SECONDS)
    through.set_tunnel(host, port, headers=login(proxy))
    through.connect()
    return through.sock
