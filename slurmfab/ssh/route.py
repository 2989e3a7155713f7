"""The way to a host: address, user, port and jump host, from the cluster file and the user's ssh_config."""

from __future__ import annotations

import getpass
import glob
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.errors import InputError

if TYPE_CHECKING:
    import paramiko

    from slurmfab.cluster import Cluster, Ssh

    Config = paramiko.SSHConfig

SSH_CONFIGS = (Path("~/.ssh/config"), Path("/etc/ssh/ssh_config"))
DEEPEST_INCLUDE = 16
EVERYWHERE = "Host *"
"""The line of ssh_config(5) that ends a Host or Match block, since there is none for the purpose."""


@dataclass(frozen=True)
class Route:
    """How to reach one host.

    Args:
        host: its name in the cluster, or what the user typed at first contact.
        address: an IP address or a name that resolves here (or on the gateway).
        user: whom to log in as.
        port: of its sshd.
        key: the one private key file to log in with; empty where nobody said one.
        keys: private key files that ssh_config names, to try beside the agent's keys.
        gateway: the way to the jump host in front of it.
        proxy_command: a local program that stands for the connection (ssh_config(5), ProxyCommand); empty for none.
        become: whether to become root by sudo there.
    """

    host: str
    address: str
    user: str
    port: int = 22
    key: str = ""
    keys: tuple[str, ...] = ()
    gateway: Route | None = None
    proxy_command: str = ""
    become: bool = False


def to_hosts(cluster: Cluster, config: Config | None = None) -> dict[str, Route]:
    """The ways to all hosts of a cluster, by name; see `to_host`."""
    return {host: to_host(host, cluster.ssh, cluster.addresses.get(host, ""), config) for host in cluster.hosts}


def to_host(host: str, ssh: Ssh, address: str = "", config: Config | None = None) -> Route:
    """The way to one host: the cluster file's word first, then ssh_config's, then the usual.

    Args:
        host: its name in the cluster.
        ssh: the cluster file's `ssh` section.
        address: its address in the cluster; an entry in `ssh.endpoints` wins over it.
        config: the ssh_config; `None` for the user's and the system's.

    Raises:
        InputError: the endpoint, the gateway or ssh_config cannot be understood.
    """
    from slurmfab.hostlist import expand_endpoints  # noqa: PLC0415 - `fab --list` shall not pay for it

    config = config or ssh_config()
    endpoint = expand_endpoints(ssh.endpoints[host])[0] if host in ssh.endpoints else None
    options = config.lookup(host)
    user = (endpoint and endpoint.user) or ssh.user or str(options.get("user", "")) or getpass.getuser()
    gateway = gateway_for(ssh.gateway or str(options.get("proxyjump", "")), ssh, config)
    way = Route(
        host=host,
        address=(endpoint.address if endpoint else address) or str(options.get("hostname", host)),
        user=user,
        port=(endpoint and endpoint.port) or ssh.port or port_of(options),
        key=str(Path(ssh.key).expanduser()) if ssh.key else "",
        keys=keys_of(options),
        become=ssh.become == "sudo" and user != "root",
    )
    if gateway is None:
        command = str(options.get("proxycommand", ""))
        return way if command.lower() in ("", "none") else replace(way, proxy_command=command)
    return way if is_same(gateway, way) else replace(way, gateway=gateway)


def is_same(gateway: Route, way: Route) -> bool:
    """Whether a jump host is the very host that it should lead to, as when the controller is the gateway of all."""
    return gateway.port == way.port and (gateway.host == way.host or gateway.address == way.address)


def gateway_for(spec: str, ssh: Ssh, config: Config, beyond: tuple[str, ...] = ()) -> Route | None:
    """The way to a jump host written as `user@host:port`, or to the last of several with commas, as in ProxyJump.

    Args:
        spec: the text; empty or `none` for no jump host.
        ssh: the cluster file's `ssh` section.
        config: the ssh_config.
        beyond: the jump hosts that lie behind this one.

    Raises:
        InputError: the text is no jump host, or ssh_config's jump hosts lead in a circle.
    """
    if not spec or spec.lower() == "none":
        return None
    from slurmfab.hostlist import expand_endpoints  # noqa: PLC0415 - `fab --list` shall not pay for it

    *before, last = spec.split(",")
    endpoints = expand_endpoints(last.strip())
    if len(endpoints) != 1:
        raise InputError(f"ssh.gateway: {spec!r} is no jump host; write user@host:port.")
    endpoint = endpoints[0]
    if endpoint.address in beyond:
        raise InputError(
            f"The jump hosts {', '.join(beyond)} lead in a circle; "
            f"give {endpoint.address} `ProxyJump none` in ssh_config."
        )
    options = config.lookup(endpoint.address)
    nearer = ",".join(before) or str(options.get("proxyjump", ""))
    return Route(
        host=endpoint.address,
        address=str(options.get("hostname", endpoint.address)),
        user=endpoint.user or str(options.get("user", "")) or ssh.user or getpass.getuser(),
        port=endpoint.port or port_of(options),
        key=str(Path(ssh.key).expanduser()) if ssh.key else "",
        keys=keys_of(options),
        gateway=gateway_for(nearer, ssh, config, (*beyond, endpoint.address)),
    )


def port_of(options: paramiko.SSHConfigDict) -> int:
    """The port that ssh_config says.

    Raises:
        InputError: it says something that is none.
    """
    text = str(options.get("port", 22))
    if not text.isdecimal():
        raise InputError(f"ssh_config: Port {text}: this is no number.")
    return int(text)


def keys_of(options: paramiko.SSHConfigDict) -> tuple[str, ...]:
    """The private key files that ssh_config names and that exist."""
    return tuple(path for path in map(os.path.expanduser, options.get("identityfile", ())) if Path(path).is_file())


@cache
def ssh_config() -> Config:
    """The user's and the system's ssh_config, read once."""
    return read_config(SSH_CONFIGS)


def read_config(files: Iterable[Path]) -> Config:
    """Files in the form of ssh_config(5), with what they include; the lines of the earlier ones win.

    Paramiko does not follow `Include`, so the files are put together here.

    Raises:
        InputError: a line cannot be understood.
    """
    import paramiko  # noqa: PLC0415 - slow to import, and `fab --list` has no need for it

    paths = [path.expanduser() for path in files]
    lines = [line for path in paths for line in (EVERYWHERE, *lines_of(path, path.parent))]
    try:
        return paramiko.SSHConfig.from_text("\n".join(lines))
    except paramiko.ConfigParseError as error:
        names = ", ".join(str(path) for path in paths if path.exists())
        raise InputError(f"ssh_config cannot be understood: {error}. Look into {names}.") from error


def lines_of(path: Path, base: Path, block: str = EVERYWHERE, depth: int = 0) -> Iterable[str]:
    """The lines of an ssh_config file and of all that it includes; a file that cannot be read has none.

    Args:
        path: the file.
        base: where the names of included files begin, unless they are absolute.
        block: the Host or Match line in force; it is said again behind an included file, which may have had its own.
        depth: how many files include this one.
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        keyword, *values = words_of(line) or ("",)
        if keyword in ("host", "match"):
            block = line
        if keyword != "include" or depth >= DEEPEST_INCLUDE:
            yield line
            continue
        for pattern in values:
            for included in sorted(glob.glob(str(base / Path(os.path.expanduser(pattern))))):  # noqa: PTH111, PTH207
                yield from lines_of(Path(included), base, block, depth + 1)
                yield block


def words_of(line: str) -> list[str]:
    """The keyword of an ssh_config line, in lower case, and its values; nothing of a comment or a damaged line."""
    keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
    try:
        return [keyword.lower(), *shlex.split(rest)] if keyword and not keyword.startswith("#") else []
    except ValueError:
        return []
