"""Lightweight hosts: an sshd each, with a root file system, a process list and a hostname of their own, and no systemd.

They answer with the real agent, which reads real files and a real dpkg database. What it would ask of systemd and of a
running Slurm, stand-ins answer (`benchmarks.stand_ins`), since neither is started. Hosts are thrown away with the
process that has started them; their network is taken down as a lab's is.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from benchmarks import stand_ins
from benchmarks.access import SSH_PORT, Access, Place
from benchmarks.measuring import Say
from benchmarks.programs import ProgramFailed
from slurmfab import lab
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.lab import LabSpec, base, network, state
from slurmfab.lab.command import CONTAINED, TIED, call
from slurmfab.lab.layout import LABS, LabLayout
from slurmfab.lab.state import LabState

OWN_ADDRESSES = IPv4Network("198.18.0.0/15")
"""What /etc/hosts calls them: the range for benchmarks (RFC 2544). SSH goes where their sshd really listens."""

PORT = 2200
"""The first port, where several hosts share an address."""

AT_ONCE = 32
"""How many are started before they are waited for."""

START_SECONDS = 60.0

PREPARE = """
base=$1 directory=$2; shift 2
mkdir -p "$directory/layer" "$directory/work" "$directory/tree"
mount -t overlay layer -o "lowerdir=$base,upperdir=$directory/layer,workdir=$directory/work" "$directory/tree"
mount -t proc proc "$directory/tree/proc"
mount --rbind /dev "$directory/tree/dev"
printf '#!/bin/sh\\nexit 101\\n' >"$directory/tree/usr/sbin/policy-rc.d"
chmod 755 "$directory/tree/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive
chroot "$directory/tree" apt-get -qq --yes --no-install-recommends install "$@"
rm "$directory/tree/usr/sbin/policy-rc.d"
"""
"""Shell text: installs packages into a layer on a base tree, without starting anything."""

START = """
name=$1 lower=$2 port=$3 directory=$4
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$directory"
mkdir "$directory/upper" "$directory/work" "$directory/root"
root=$directory/root
mount -t overlay light -o "lowerdir=$lower,upperdir=$directory/upper,workdir=$directory/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/sshd" "$root/run/systemd/system"
echo "$name" >"$root/etc/hostname"
hostname "$name"
exec chroot "$root" /usr/sbin/sshd -D -p "$port"
"""
"""Shell text: one host, from its file system to its sshd, which becomes its PID 1."""


@dataclass(frozen=True)
class LightHosts:
    """Lightweight hosts that answer on SSH.

    Args:
        file: a cluster file for them.
        access: the way to them.
    """

    file: Path
    access: Access


@contextmanager
def running(spec: LabSpec, count: int, directory: Path, say: Say) -> Iterator[LightHosts]:
    """Lightweight hosts, as long as this lasts.

    Args:
        spec: the lab that their network is; hosts share its hosts' namespaces evenly, on ports of their own.
        count: how many hosts, the controller included.
        directory: for the cluster file.
        say: told what goes on.

    Raises:
        ProgramFailed: they do not start.
    """
    lab.down(spec.name)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        made = remembered(spec, say)
        access = prepare(made, count, directory)
        say(f"starting {count} sshd in {len(spec.host_names)} network namespaces")
        lower = f"{made.layout.directory / 'hosts' / 'layer'}:{made.base}"
        for first in range(0, count, AT_ONCE):
            some = access.places[first : first + AT_ONCE]
            processes += [start(made, place, lower, number) for number, place in enumerate(some, first)]
            wait(some)
        yield LightHosts(cluster_file(access, directory), access)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        lab.down(spec.name)


def remembered(spec: LabSpec, say: Say) -> LabState:
    """The network of the hosts, written down as a lab's is, so that `lab-down` removes it also after a kill."""
    tree = base.ensure(spec.suite, say)
    layout = LabLayout(spec.name)
    layout.directory.mkdir(parents=True)
    with state.locked(LABS):
        chosen = network.choose_network(spec.name, network.networks_in_use())
        made = LabState(spec, str(chosen), str(tree), (), str(layout.directory / "none.yaml"))
        state.write(made)
    network.make_network(layout, chosen)
    for host, places in network.host_addresses(chosen, spec.host_names).items():
        network.plug_in(layout.host(host), places, chosen)
    return made


def prepare(made: LabState, count: int, directory: Path) -> Access:
    """The layer that all hosts have in common, and the way to them."""
    hosts = made.layout.directory / "hosts"
    wanted = sorted({*DEBIAN.packages("controller"), *DEBIAN.packages("compute")})
    call([*CONTAINED, "sh", "-ec", PREPARE, "prepare", made.base, str(hosts), *wanted])
    key, host_key = made.layout.ssh_key, hosts / "layer/etc/ssh/ssh_host_ed25519_key"
    for path in (key, host_key):
        path.parent.mkdir(parents=True, exist_ok=True)
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "light", "-f", str(path)])
    logins = hosts / "layer/root/.ssh"
    logins.mkdir(mode=0o700, parents=True)
    (logins / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    stand_ins.install(hosts / "layer")
    kind, public = host_key.with_suffix(".pub").read_text().split()[:2]
    return Access(tuple(spread(made, count, {kind: public})), key, directory / made.spec.name).write()


def spread(made: LabState, count: int, host_keys: dict[str, str]) -> Iterator[Place]:
    """Where each host's sshd listens: on the usual port where every host has an address of its own."""
    every = network.host_addresses(IPv4Network(made.network), made.spec.host_names)
    shared = tuple(places[0] for places in every.values())
    for number in range(count):
        port = SSH_PORT if count == len(shared) else PORT + number // len(shared)
        name = f"n{number}" if number else "ctl"
        own = str(IPv4Address(int(OWN_ADDRESSES.network_address) + 10 + number))
        yield Place(name, shared[number % len(shared)], port, host_keys, own)


def start(made: LabState, place: Place, lower: str, number: int) -> subprocess.Popen[bytes]:
    """Start a host; it ends with this process."""
    names = made.spec.host_names
    namespace = made.layout.host(names[number % len(names)]).namespace
    directory = made.layout.directory / "hosts" / place.name
    directory.mkdir()
    return subprocess.Popen(
        [*TIED, "ip", "netns", "exec", namespace, *CONTAINED, "--uts", "sh", "-ec", START, "light",
         place.name, lower, str(place.port), str(directory)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait(places: Sequence[Place]) -> None:
    """Wait until hosts answer on SSH.

    Raises:
        ProgramFailed: one does not.
    """
    deadline = time.monotonic() + START_SECONDS
    for place in places:
        while True:
            try:
                with socket.create_connection((place.address, place.port), 1) as connection:
                    if connection.recv(4) == b"SSH-":
                        break
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise ProgramFailed(f"{place.name}: no sshd answers at {place.known_as}.")
            time.sleep(0.02)


def cluster_file(access: Access, directory: Path) -> Path:
    """A cluster file and a lock for the hosts."""
    controller, *nodes = access.names
    ends = ", ".join(f'{place.name}: "root@{place.address}:{place.port}"' for place in access.places)
    own = ", ".join(f"{place.name}: {place.behind}" for place in access.places)
    file = directory / "light.yaml"
    file.write_text(
        f"cluster: light\nssh: {{user: root, key: {access.key}, endpoints: {{{ends}}}}}\naddresses: {{{own}}}\n"
        f"controllers: [{controller}]\nnodes:\n  - hosts: n[1-{len(nodes)}]\n"
        "partitions:\n  - {PartitionName: main, Nodes: ALL, Default: YES}\n"
    )
    hosts = {place.name: {"host_keys": dict(place.host_keys)} for place in access.places}
    file.with_suffix(".lock.json").write_text(json.dumps({"version": 1, "hosts": hosts}))
    return file


def with_relay(file: Path) -> Path:
    """A copy of a cluster file, and of its lock, by which all hosts are reached through the controller."""
    copy = file.with_name("relayed.yaml")
    copy.write_text(file.read_text().replace("ssh: {", "ssh: {relays: ctl, ", 1))
    copy.with_suffix(".lock.json").write_text(file.with_suffix(".lock.json").read_text())
    return copy
