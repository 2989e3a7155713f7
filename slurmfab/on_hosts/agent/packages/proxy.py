"""A proxy for package sources on the controller, for the time of a run.

{"op": "proxy", "do": "listen", "address": "10.0.0.1", "uris": [...], "tokens": [...]}
-> {"proxy": {"port": 3142, "uris": [...]}}, or {"proxy": {"why": ...}} where it cannot be

{"op": "proxy", "do": "end"}
-> {"proxy": {"fetched": ..., "fetched_bytes": ..., "sent": ..., "sent_bytes": ...}}, or {"proxy": {}} without one

It is a process of its own without root's rights. It ends when this agent does, for whatever reason: it holds a pipe
whose other end closes then.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import select
import signal
import socket
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Sequence

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.packages import proxy_sources
from slurmfab.on_hosts.agent.packages.proxy_cache import Cache
from slurmfab.on_hosts.agent.packages.proxy_server import Server
from slurmfab.on_hosts.agent.packages.proxy_upstream import Upstream

PORT = 3142  # unless it is taken; known for proxies of packages, so that sites can open it
BACKLOG = 256
USERS = ("_apt", "nobody")  # the first that is there is whom the process belongs to
NOBODY = 65534
MOST_FILES = 16384  # open at the same time: connections, and files that are kept
END_SECONDS = 10.0  # how long the process may take to tell its counts
MOST_COUNTS = 4096  # bytes of them


class Running(NamedTuple):
    """The process, and the pipes to it."""

    pid: int
    lifeline: int
    counts: int


RUNNING: List[Running] = []
"""The one process of this agent, if any."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Begin to listen, or end; an answer with `why` if it cannot be."""
    if request["do"] == "end":
        return end()
    settings = proxy_sources.proxies(context)
    if proxy_sources.looks_for_proxies(settings):
        return {"why": "a program tells its apt which proxy to use (Acquire::http::Proxy-Auto-Detect)"}
    uris = [*proxy_sources.uris(context), *proxy_sources.usable(request["uris"])]
    if not uris:
        return {"why": "it has no package source whose address begins with http:// or https://"}
    try:
        listener = bound(request["address"])
    except OSError as error:
        return {"why": "it cannot listen at %s: %s" % (request["address"], error.strerror or error)}
    end()
    with listener:
        server = Server(uris, request["tokens"], settings, Cache(Upstream(settings)))
        RUNNING.append(begun(server, listener))
        return {"port": listener.getsockname()[1], "uris": uris}


def bound(address: str) -> socket.socket:
    """A socket that listens at an address of this host, at the usual port if it is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, PORT), family=family, backlog=BACKLOG)
    except OSError:
        return socket.create_server((address, 0), family=family, backlog=BACKLOG)


def begun(server: Server, listener: socket.socket) -> Running:
    """Begin the process."""
    near, far = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        serve(server, listener, near[0], far[1])
    os.close(near[0])
    os.close(far[1])
    return Running(pid, near[1], far[0])


def serve(server: Server, listener: socket.socket, lifeline: int, counts: int) -> NoReturn:
    """Be the process: serve until the lifeline ends, and tell the counts."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        leave_all_but((listener.fileno(), lifeline, counts))
        give_up_rights()
        server.serve(listener, lifeline)
        os.write(counts, json.dumps(server.counts()).encode())
    finally:
        os._exit(0)


def leave_all_but(kept: Sequence[int]) -> None:
    """Close what was inherited, above all the connection to the deployer, and the host's lock."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        if number > 2 and number not in kept:  # noqa: PLR2004 - the standard streams
            with contextlib.suppress(OSError):
                os.close(number)


def give_up_rights() -> None:
    """Become a user without rights, who may have many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_FILES)), hard))
    if os.geteuid() != 0:
        return
    uid = gid = NOBODY
    for name in USERS:
        with contextlib.suppress(KeyError):
            uid, gid = pwd.getpwnam(name)[2:4]
            break
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    os.chdir("/")


def end() -> Dict[str, Any]:
    """End the process, if there is one; its counts."""
    if not RUNNING:
        return {}
    running = RUNNING.pop()
    os.close(running.lifeline)
    readable, _, _ = select.select([running.counts], [], [], END_SECONDS)
    data = os.read(running.counts, MOST_COUNTS) if readable else b""
    os.close(running.counts)
    with contextlib.suppress(OSError):
        os.kill(running.pid, signal.SIGKILL)
    os.waitpid(running.pid, 0)
    told: Dict[str, Any] = json.loads(data) if data else {}
    return told
