"""Routes to hosts: address, user, port and jump host, from the cluster file and the user's ssh_config."""

from __future__ import annotations

import getpass
import glob
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import InputError
from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family
from slurmfab.hosts.known_hosts import GLOBAL_FILES, USER_FILES

if TYPE_CHECKING:
    import paramiko

    from slurmfab.cluster.inventory.cluster import Cluster, Ssh

    Config = paramiko.SSHConfig

SSH_CONFIGS = (Path("~/.ssh/config"), Path("/etc/ssh/ssh_config"))
DEEPEST_INCLUDE = 16
KEY_FILES = {"hostkeyalias", "userknownhostsfile", "globalknownhostsfile", "revokedhostkeys"}
"""The options about host keys, in lower case as paramiko has them."""

CONNECT_SECONDS = 10  # time limit for a TCP connection; a host that is switched off does not answer at all
MOST_RELAYS = 3
"""How many relays of a host are tried, each of which may take the time limit of a connection, before the direct way."""

EVERYWHERE = "Host *"  # a line that ends a Host or Match block of ssh_config(5), which has no keyword for that


@dataclass(frozen=True)
class Route:
    """How to reach one host."""

    host: str  # its name in the cluster, or the name that the user typed at first contact
    address: str  # an IP address or a name that resolves here (or on the gateway)
    user: str
    port: int = 22
    key: str = ""  # the only private key file to use; empty if none was given
    keys: tuple[str, ...] = ()
    gateway: Route | None = None  # the route to its jump host; `None` for none
    relays: tuple[Route, ...] = ()  # the hosts through which it is reached if they work, best first (`ssh.relays`)
    proxy_command: str = ""  # a local program to connect through (ssh_config(5), ProxyCommand); empty for none
    become: bool = False  # whether to become root with sudo
    key_alias: str = ""  # its name in known_hosts, if that is another one (ssh_config(5), HostKeyAlias); empty for none
    known_hosts: tuple[str, ...] = (*USER_FILES, *GLOBAL_FILES)  # known_hosts files
    revoked_keys: tuple[str, ...] = ()
    patience: int = CONNECT_SECONDS  # seconds for a TCP connection


def to_hosts(cluster: Cluster, config: Config | None = None) -> dict[str, Route]:
    """The routes to all hosts of a cluster, by name; see `to_host`."""
    direct = {host: to_host(host, cluster.ssh, cluster.addresses.get(host, ""), config) for host in cluster.hosts}
    return with_relays({host: (host, way) for host, way in direct.items()}, cluster, direct)


def with_relays(
    ways: Mapping[str, tuple[str, Route]], cluster: Cluster, direct: Mapping[str, Route] | None = None
) -> dict[str, Route]:
    """Routes with the relays that lead to them, by any key. `ways`: host and route. `direct`: routes to all hosts."""
    if not cluster.ssh.relays:
        return {key: way for key, (_, way) in ways.items()}
    known = to_hosts(cluster) if direct is None else direct
    through = relays_of([host for host, _ in ways.values()], cluster.ssh.relays)
    return {
        key: replace(way, relays=tuple(known[relay] for relay in through.get(host, ())))
        for key, (host, way) in ways.items()
    }


def relays_of(hosts: Iterable[str], relays: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The relays by which hosts are reached, best first, by host; a relay itself, and a host without any, has no entry.

    Those that name the host come before those of all hosts. Relays that serve the same hosts get equal shares of them,
    and stand in for each other. `relays`: `ssh.relays` of the cluster file.
    """
    from slurmfab.base.hostlist import expand

    groups = sorted(((expand(names), near) for names, near in relays.items()), key=lambda group: group[1] == "ALL")
    every = {relay for names, _ in groups for relay in names}
    behind = [host for host in hosts if host not in every]
    found: dict[str, dict[str, None]] = {host: {} for host in behind}
    for names, near in groups:
        for number, host in enumerate(behind if near == "ALL" else (host for host in near if host in found)):
            first = number % len(names)
            found[host].update(dict.fromkeys((*names[first:], *names[:first])[:MOST_RELAYS]))
    return {host: tuple(names)[:MOST_RELAYS] for host, names in found.items() if names}


def to_host(host: str, ssh: Ssh, address: str = "", config: Config | None = None) -> Route:
    """The route to one host: values come from the cluster file first, then from ssh_config, then from defaults.

    What ssh_config says of the host's name comes before what it says of its address or endpoint, by which a first
    contact may have reached it. `address`: yields to `ssh.endpoints`. `config`: by default that of the user and the
    system. Raises InputError.
    """
    from slurmfab.base.hostlist import expand_endpoints

    config = config or ssh_config()
    endpoint = expand_endpoints(ssh.endpoints[host])[0] if host in ssh.endpoints else None
    options = config.lookup(host)
    place = endpoint.address if endpoint else address
    if place and config.get_hostnames() - {"*"}:
        of_address: dict[str, Any] = config.lookup(place)
        keys = dict.fromkeys((*options.get("identityfile", ()), *of_address.get("identityfile", ())))
        options = type(options)(of_address | options | {"identityfile": [*keys]})
    user = (endpoint and endpoint.user) or ssh.user or str(options.get("user", "")) or getpass.getuser()
    gateway = gateway_for(ssh.gateway or str(options.get("proxyjump", "")), ssh, config)
    way = Route(
        host=host,
        address=(hostname_of(endpoint.address, config) if endpoint else address) or str(options.get("hostname", host)),
        user=user,
        port=(endpoint and endpoint.port) or ssh.port or port_of(options),
        key=str(Path(ssh.key).expanduser()) if ssh.key else "",
        keys=keys_of(options),
        **key_files(options, host),
        become=ssh.become == "sudo" and user != "root",
    )
    if gateway is None:
        command = str(options.get("proxycommand", ""))
        return way if command.lower() in ("", "none") else replace(way, proxy_command=command)
    return way if is_same(gateway, way) else replace(way, gateway=gateway)


def hostname_of(name: str, config: Config) -> str:
    """Where SSH connects to for an address or a name, which can be an alias (HostName in ssh_config)."""
    return name if family(name) != NO_ADDRESS else str(config.lookup(name).get("hostname", name))


def is_same(gateway: Route, way: Route) -> bool:
    """Whether a jump host is the target itself, as for the controller if it is the gateway of all hosts."""
    has_same_address = canonical(gateway.address) == canonical(way.address)
    return gateway.port == way.port and (gateway.host == way.host or has_same_address)


def gateway_for(spec: str, ssh: Ssh, config: Config, beyond: tuple[str, ...] = ()) -> Route | None:
    """The route to a jump host `user@host:port`, or the last of several, as in ProxyJump; empty or `none` for none.

    `beyond`: those behind this one; InputError if they form a loop, or the text is none.
    """
    if not spec or spec.lower() == "none":
        return None
    from slurmfab.base.hostlist import expand_endpoints

    *before, last = spec.split(",")
    endpoints = expand_endpoints(last.strip())
    if len(endpoints) != 1:
        raise InputError(f"ssh.gateway: {spec!r} is not a jump host; write user@host:port.")
    endpoint = endpoints[0]
    if endpoint.address in beyond:
        raise InputError(
            f"The jump hosts {', '.join(beyond)} form a loop. "
            f"Set `ProxyJump none` for {endpoint.address} in ssh_config."
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
        **key_files(options, endpoint.address),
        gateway=gateway_for(nearer, ssh, config, (*beyond, endpoint.address)),
    )


def key_files(options: paramiko.SSHConfigDict, host: str) -> dict[str, Any]:
    """The options of ssh_config about host keys, as fields of a route; `%h` and `%n` are the host."""
    if not options.keys() & KEY_FILES:
        return {}
    letters = {"%%": "%", "%d": str(Path.home()), "%u": getpass.getuser(), "%h": host, "%n": host}

    def files(key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        named = words_of(f"{key} {options[key]}")[1:] if key in options else default
        expanded = (re.sub("%[%duhn]", lambda letter: letters[letter[0]], name) for name in named)
        return tuple(name for name in expanded if name.lower() != "none")

    user_files, global_files = files("userknownhostsfile", USER_FILES), files("globalknownhostsfile", GLOBAL_FILES)
    return {
        "key_alias": str(options.get("hostkeyalias", "")),
        "known_hosts": (*user_files, *global_files),
        "revoked_keys": files("revokedhostkeys", ()),
    }


def port_of(options: paramiko.SSHConfigDict) -> int:
    """The port in the options of ssh_config; 22 by default. Raises InputError if it is not a number."""
    text = str(options.get("port", 22))
    if not text.isdecimal():
        raise InputError(f"ssh_config: Port {text}: this is not a number.")
    return int(text)


def keys_of(options: paramiko.SSHConfigDict) -> tuple[str, ...]:
    """The private key files in the options of ssh_config that exist."""
    return tuple(path for path in map(os.path.expanduser, options.get("identityfile", ())) if Path(path).is_file())


@cache
def ssh_config() -> Config:
    """The user's and the system's ssh_config, read once."""
    return read_config(SSH_CONFIGS)


def read_config(files: Iterable[Path]) -> Config:
    """Read files in the format of ssh_config(5) with their includes; earlier files have priority.

    paramiko does not follow `Include`, so the files are joined here. Raises InputError if a line is invalid.
    """
    import paramiko  # slow to import, and `fab --list` has no need for it

    paths = [path.expanduser() for path in files]
    lines = [line for path in paths for line in (EVERYWHERE, *lines_of(path, path.parent))]
    try:
        return paramiko.SSHConfig.from_text("\n".join(lines))
    except paramiko.ConfigParseError as error:
        names = ", ".join(str(path) for path in paths if path.exists())
        raise InputError(f"ssh_config has a mistake: {error}. Files read: {names}.") from error


def lines_of(path: Path, base: Path, block: str = EVERYWHERE, depth: int = 0) -> Iterable[str]:
    """The lines of an ssh_config file and of the files that it includes; an unreadable file has none.

    `base`: the directory for relative names of included files. `block`: the current Host or Match line; it is repeated
    after an included file, which may contain others. `depth`: how many files include this one.
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
    """The keyword of an ssh_config line in lower case, and its values; empty for a comment or a damaged line."""
    keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
    try:
        return [keyword.lower(), *shlex.split(rest)] if keyword and not keyword.startswith("#") else []
    except ValueError:
        return []
