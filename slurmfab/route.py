"""The way to a host: address, user, port and jump host, from the cluster file and the user's ssh_config."""

from __future__ import annotations

import getpass
import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.errors import InputError

if TYPE_CHECKING:
    import paramiko

    from slurmfab.cluster import Cluster, Ssh

SSH_CONFIGS = (Path("~/.ssh/config"), Path("/etc/ssh/ssh_config"))
DEEPEST_INCLUDE = 16


@dataclass(frozen=True)
class Route:
    """How to reach one host.

    Args:
        host: its name in the cluster, or what the user typed at first contact.
        address: an IP address or a name that resolves here (or on the gateway).
        user: whom to log in as.
        port: of its sshd.
        keys: private key files to try, in order; empty leaves it to the agent and the user's default keys.
        gateway: the way to the jump host in front of it.
        become: whether to become root by sudo there.
    """

    host: str
    address: str
    user: str
    port: int = 22
    keys: tuple[str, ...] = ()
    gateway: Route | None = None
    become: bool = False


def to_hosts(cluster: Cluster) -> dict[str, Route]:
    """The ways to all hosts of a cluster, by name."""
    return {host: to_host(host, cluster.ssh, cluster.addresses.get(host, "")) for host in cluster.hosts}


def to_host(host: str, ssh: Ssh, address: str = "") -> Route:
    """The way to one host: the cluster file's word first, then ssh_config's, then the usual.

    Args:
        host: its name in the cluster.
        ssh: the cluster file's `ssh` section.
        address: its address in the cluster; an entry in `ssh.endpoints` wins over it.

    Raises:
        InputError: the endpoint or the gateway cannot be understood.
    """
    from slurmfab.hostlist import expand_endpoints  # noqa: PLC0415 - ClusterShell is slow to import

    endpoint = expand_endpoints(ssh.endpoints[host])[0] if host in ssh.endpoints else None
    options = ssh_config().lookup(host)
    user = (endpoint and endpoint.user) or ssh.user or str(options.get("user", "")) or getpass.getuser()
    return Route(
        host=host,
        address=(endpoint.address if endpoint else address) or str(options.get("hostname", host)),
        user=user,
        port=(endpoint and endpoint.port) or ssh.port or int(options.get("port", 22)),
        keys=keys_for(ssh.key, options),
        gateway=gateway_for(ssh.gateway or str(options.get("proxyjump", "")), ssh),
        become=ssh.become == "sudo" and user != "root",
    )


def gateway_for(spec: str, ssh: Ssh) -> Route | None:
    """The way to a jump host written as `user@host:port`; several, nearest first, with commas as in ProxyJump.

    Raises:
        InputError: the text is none.
    """
    if not spec or spec.lower() == "none":
        return None
    from slurmfab.hostlist import expand_endpoints  # noqa: PLC0415 - ClusterShell is slow to import

    *before, last = spec.split(",")
    endpoints = expand_endpoints(last.strip())
    if len(endpoints) != 1:
        raise InputError(f"ssh.gateway: {spec!r} is no jump host; write user@host:port")
    endpoint = endpoints[0]
    options = ssh_config().lookup(endpoint.address)
    return Route(
        host=endpoint.address,
        address=str(options.get("hostname", endpoint.address)),
        user=endpoint.user or str(options.get("user", "")) or ssh.user or getpass.getuser(),
        port=endpoint.port or int(options.get("port", 22)),
        keys=keys_for(ssh.key, options),
        gateway=gateway_for(",".join(before) or str(options.get("proxyjump", "")), ssh),
    )


def keys_for(key: str | None, options: paramiko.SSHConfigDict) -> tuple[str, ...]:
    """The private key files to offer: the cluster file's alone, or those of ssh_config that exist."""
    if key:
        return (str(Path(key).expanduser()),)
    return tuple(path for path in map(os.path.expanduser, options.get("identityfile", ())) if Path(path).is_file())


@cache
def ssh_config() -> paramiko.SSHConfig:
    """The user's and the system's ssh_config, with what they include; the user's lines win.

    Paramiko does not follow `Include` (ssh_config(5)), so the files are put together here.
    """
    import paramiko  # noqa: PLC0415 - slow to import, and `fab --list` has no need for it

    return paramiko.SSHConfig.from_text("\n".join(line for path in SSH_CONFIGS for line in lines_of(path.expanduser())))


def lines_of(path: Path, depth: int = 0) -> Iterable[str]:
    """The lines of an ssh_config file and of all that it includes; a file that cannot be read has none."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.replace("=", " ", 1).split()
        if words and words[0].lower() == "include" and depth < DEEPEST_INCLUDE:
            for pattern in words[1:]:
                for included in sorted(glob.glob(str(path.parent / Path(pattern).expanduser()))):
                    yield from lines_of(Path(included), depth + 1)
        else:
            yield line
