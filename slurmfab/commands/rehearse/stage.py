"""The twin's hosts on this machine: started, fenced in, and with a place from which commands reach them alone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from urllib.parse import urlsplit

from slurmfab import lab as labs
from slurmfab.base import surroundings
from slurmfab.base.errors import LabError
from slurmfab.commands.rehearse.twin import Twin
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.route import Route
from slurmfab.hosts.transport import SshTransport
from slurmfab.lab import network, sources, state
from slurmfab.lab.command import TIED, call
from slurmfab.lab.layout import LabLayout
from slurmfab.lab.spec import Lab, LabSpec

DOOR, DOOR_PLACE = "door", 9  # the network namespace of commands, and the position of its address in the lab's network
OF_SIGNALS = 128  # the exit code of a process that a signal ended, less the signal's number
LONGEST = 3600.0  # seconds after which a command is ended
MOST_OUTPUT = 1 << 20  # bytes of a command's output that are read, from its end

ALLOWED = "ip daddr . tcp dport {{ {places} }} accept"
FENCE = """\
table ip {table} {{
chain beyond {{
type filter hook forward priority filter - 10
iifname != "{bridge}" oifname != "{bridge}" accept
iifname "{bridge}" oifname "{bridge}" accept
ct state established,related accept
{allowed}
counter reject
}}
chain here {{
type filter hook input priority filter - 10
iifname != "{bridge}" accept
ct state established,related accept
{allowed}
counter reject
}}
}}
"""
"""Rules for nft(8): hosts of the lab reach each other and the places where packages are, and nothing else."""


@dataclass(frozen=True)
class Done:
    """A command that was carried out on the twin."""

    exit_code: int  # negative: it was ended by this signal
    seconds: float
    output: str  # on standard output
    errors: str  # on standard error


@dataclass(frozen=True)
class Stage:
    """A twin that is up."""

    lab: Lab
    twin: Twin
    cluster_file: Path  # the twin's, in a private directory

    @property
    def home(self) -> Path:
        """The directory for what commands write, and for what they write about."""
        return self.cluster_file.parent / "home"

    def carry_out(
        self,
        *words: str,
        meanwhile: Callable[[subprocess.Popen[bytes]], None] = lambda _: None,
        seconds: float = LONGEST,
    ) -> Done:
        """Carry out a command of slurmfab on the twin, from a network namespace that has a way to it alone.

        `meanwhile` gets the process when it has begun. After so many `seconds` it is ended.
        """
        began = time.monotonic()
        inside = [*TIED, "nsenter", f"--net=/run/netns/{LabLayout(self.lab.name).host(DOOR).namespace}"]
        argv = [*inside, *surroundings.program(*words, "--cluster", str(self.cluster_file))]
        with (self.home / "output").open("wb") as output, (self.home / "errors").open("wb") as errors:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=self.home,
                env=environment(self.home), start_new_session=True,
            )  # fmt: skip
            try:
                meanwhile(process)
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:
                end(process)
            return Done(process.returncode, time.monotonic() - began, tail(output.name), tail(errors.name))

    def shell(self, script: str, host: str = "") -> str:
        """Run a script as root on a host of the twin, by default the controller; its output."""
        inner = self.twin.hosts[host] if host else self.lab.hosts[0].name
        return labs.run(self.lab, inner, ["sh", "-c", script]).stdout

    def name_hosts(self) -> None:
        """Have the hosts know each other's names, as by the name service of a site."""
        lines = "".join(f"{self.lab.host(inner).address} {host}\n" for host, inner in self.twin.hosts.items())
        for host in self.twin.hosts:
            self.shell(f"printf %s {shlex.quote(lines)} >> /etc/hosts", host)

    @contextmanager
    def transport(self) -> Iterator[SshTransport]:
        """Connections to the twin's hosts, by their addresses and keys alone."""
        routes, policies = {}, {}
        for host, inner in self.twin.hosts.items():
            there = self.lab.host(inner)
            routes[host] = Route(host, there.address, "root", key=str(self.lab.ssh_key), known_hosts=())
            policies[host] = PinnedKey(host, dict(there.host_keys))
        with closing(SshTransport(routes, policies)) as made:
            yield made

    def cut(self, host: str) -> None:
        """Cut a host's power."""
        labs.kill_host(self.lab, self.twin.hosts[host])

    def restore_power(self, host: str) -> None:
        """Switch a host on again; returns when it answers."""
        labs.start_host(self.lab, self.twin.hosts[host])


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with all that it has started, unless it has ended."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment(home: Path) -> dict[str, str]:
    """The environment of commands: nothing of the user's, so that no SSH configuration, agent or variable counts."""
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def tail(name: str) -> str:
    """The end of a file of output."""
    with Path(name).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_OUTPUT))
        return file.read().decode(errors="replace")


@contextmanager
def standing(twin: Twin, known: Path, progress: Callable[[str], None], *, keep: bool) -> Iterator[Stage]:
    """The twin with its hosts up and fenced in, removed at the end unless `keep`.

    `known`: the real cluster file, whose neighbours the twin's file has as well. Raises LabError if this machine cannot
    run it.
    """
    name = twin.spec.name
    labs.down(name)
    try:
        yield started(twin, known, progress)
    finally:
        if not keep:
            labs.down(name)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have what is to be done at the end done as well where a signal ends the process, such as a connection's end."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(OF_SIGNALS + number)

    heeded = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]  # nohup(1)
    before = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def started(twin: Twin, known: Path, progress: Callable[[str], None]) -> Stage:
    """Start the hosts, fence them in, and make the private directory of the twin's files."""
    layout = LabLayout(twin.spec.name)
    lab = labs.up(twin.spec, progress=progress, output=layout.directory / "lab.yaml")
    places = places_of(twin.spec, twin.sources)
    fence(lab.spec, places)
    names = "".join(f"{address} {name}\n" for name, address, _ in places)
    for host in lab.hosts:
        labs.run(lab, host.name, ["sh", "-c", f"printf %s {shlex.quote(names)} >> /etc/hosts"])
    make_door(layout)
    place = place_of(known, layout.directory / "twin")
    for directory in (place / "home", place / "home/.ssh"):
        directory.mkdir(mode=0o700)
    link_neighbours(known.parent.resolve(), place, f"{known.stem}.")
    return Stage(lab, twin, place / known.name)


def place_of(known: Path, root: Path) -> Path:
    """Make a directory for the twin's cluster file as deep as the real one's, so that `../file` means the same."""
    place, real = root, Path("/")
    place.mkdir(mode=0o700)
    for name in known.parent.resolve().parts[1:]:
        (place / name).mkdir(mode=0o700)
        link_neighbours(real, place)
        place, real = place / name, real / name
    return place


def link_neighbours(real: Path, place: Path, own: str = "") -> None:
    """Make links to what is in a directory, but for names that are there, and those that begin with `own`."""
    for path in real.iterdir():
        if not (own and path.name.startswith(own)) and not (place / path.name).exists():
            (place / path.name).symlink_to(path)


def make_door(layout: LabLayout) -> None:
    """Make the network namespace of commands: on the lab's bridge, and without any other way."""
    remembered = state.read(layout.lab)
    if remembered is None:
        raise LabError(f"Lab {layout.lab} is gone.")
    net = IPv4Network(remembered.network)
    network.plug_in(layout.host(DOOR), (str(net[DOOR_PLACE]),), net, offline={DOOR})


Place = tuple[str, str, int]  # a name, its address, and a port


def fence(spec: LabSpec, places: Iterable[Place]) -> None:
    """Keep the hosts of a lab from reaching anything but each other and these places."""
    layout = LabLayout(spec.name)
    some = ", ".join(sorted({f"{address} . {port}" for _, address, port in places}))
    allowed = ALLOWED.format(places=some) if some else ""
    call(["sysctl", "--quiet", "--write", f"net.ipv6.conf.{layout.bridge}.disable_ipv6=1"])
    call(["nft", "-f", "-"], FENCE.format(table=layout.table, bridge=layout.bridge, allowed=allowed))


def places_of(spec: LabSpec, more: Iterable[str]) -> tuple[Place, ...]:
    """Where the hosts of a lab get packages: the mirrors and proxies of this machine, and further addresses."""
    found = []
    for uri in dict.fromkeys((*sources.addresses(spec.suite), *more)):
        parts = urlsplit(uri)
        if parts.scheme in ("http", "https") and parts.hostname:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            found += [(parts.hostname, address, port) for address in addresses_of(parts.hostname)]
    return tuple(found)


def addresses_of(name: str) -> tuple[str, ...]:
    """The first IPv4 address of a name; none if it has none."""
    with suppress(OSError):
        return tuple(sorted({str(one[4][0]) for one in socket.getaddrinfo(name, None, socket.AF_INET)}))[:1]
    return ()


def packet_counts(spec: LabSpec) -> Mapping[str, int]:
    """How many packets the fence has turned back, by chain."""
    shown = json.loads(call(["nft", "-j", "list", "table", "ip", LabLayout(spec.name).table]))
    rules = (one["rule"] for one in shown["nftables"] if "rule" in one)
    return {rule["chain"]: part["counter"]["packets"] for rule in rules for part in rule["expr"] if "counter" in part}
