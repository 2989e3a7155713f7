"""The members of a cluster as ssh_config(5) and known_hosts, so that ssh(1) and what uses it reach them as we do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.own_directory import own_directory
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.hosts.host_keys import RSA_SIGNATURES
from slurmfab.hosts.route import SSH_CONFIGS, Route, to_hosts

SUFFIX = ".known_hosts"  # what the file with the pinned host keys adds to the name of the cluster file, without `.yaml`


def known_hosts_text(keys: Mapping[str, Mapping[str, str]]) -> str:
    """The pinned host keys as a known_hosts file. `keys`: base64 by type, by name of the host."""
    return "".join(f"{host} {kind} {key}\n" for host, pinned in keys.items() for kind, key in sorted(pinned.items()))


def config_text(routes: Mapping[str, Route], pinned: Mapping[str, Mapping[str, str]], known_hosts: Path) -> str:
    """A block of ssh_config(5) for each host, and for jump hosts that are no members.

    `routes`: how each host is reached. `pinned`: their pinned host keys, base64 by type; a host without any is checked
    as the user's own ssh_config says. `known_hosts`: the file with the pinned keys.
    """
    gateways = {way.host: way for route in routes.values() for way in gateways_of(route)}
    blocks = [block(host, way, pinned.get(host, {}), known_hosts) for host, way in routes.items()]
    blocks += [block(host, way, {}, known_hosts) for host, way in gateways.items() if host not in routes]
    return "\n".join(blocks)


def gateways_of(route: Route) -> Iterator[Route]:
    """The jump hosts of a route, the last one first."""
    while route.gateway:
        route = route.gateway
        yield route


def block(host: str, way: Route, pinned: Mapping[str, str], known_hosts: Path) -> str:
    """The block of one host: the way to it, and `known_hosts`, the file with its pinned keys (base64 by type)."""
    lines = [f"HostName {quoted(way.address)}", f"User {quoted(way.user)}", f"Port {way.port}"]
    lines += [f"IdentityFile {quoted(key)}" for key in ((way.key,) if way.key else way.keys)]
    lines += ["IdentitiesOnly yes"] if way.key else []
    if way.relays:
        lines.append(f"ProxyJump {plain(way.relays[0].host)}")
    elif way.gateway:
        lines.append(f"ProxyJump {plain(way.gateway.host)}")
    elif way.proxy_command:
        lines.append(f"ProxyCommand {way.proxy_command}")
    if pinned:
        lines += [
            f"HostKeyAlias {plain(host)}",
            f"UserKnownHostsFile {quoted(str(known_hosts))}",
            "GlobalKnownHostsFile none",
            "StrictHostKeyChecking yes",
            f"HostKeyAlgorithms {','.join(algorithms(pinned))}",
        ]
    elif way.key_alias:
        lines.append(f"HostKeyAlias {plain(way.key_alias)}")
    return "\n".join([f"Host {plain(host)}", *(f"    {line}" for line in lines)]) + "\n"


def algorithms(kinds: Mapping[str, str]) -> Iterator[str]:
    """Signature algorithms for host keys of these types; an RSA key signs with SHA-2 (RFC 8332)."""
    for kind in sorted(kinds):
        yield from RSA_SIGNATURES if kind == "ssh-rsa" else (kind,)


def plain(value: str) -> str:
    """A value of ssh_config(5) in which % is nothing special; InputError for a quote or a control character."""
    if '"' in value or not value.isprintable():
        raise InputError(f"{value!r} cannot be written into an ssh_config: it has a quote or a control character.")
    return value


def quoted(value: str) -> str:
    """The same with %, and with spaces, made safe."""
    text = plain(value).replace("%", "%%")
    return f'"{text}"' if " " in text or "#" in text else text


def pinned_keys(known: Inventory) -> dict[str, Mapping[str, str]]:
    """The host keys in the lock, base64 by type, by host; hosts without keys are left out."""
    locked = known.lock.hosts
    return {host: locked[host].host_keys for host in known.cluster.hosts if host in locked and locked[host].host_keys}


def show(known: Inventory) -> str:
    """Write the pinned keys beside the cluster file, or raise InputError; the ssh_config that refers to them."""
    path = known.path.with_name(known.path.name.removesuffix(".yaml") + SUFFIX).absolute()
    pinned = pinned_keys(known)
    atomic_file.write(path, known_hosts_text(pinned), new=atomic_file.READABLE_BY_ALL)
    head = f"# The hosts of the cluster {known.cluster.name}, by `{FAB} ssh-config`; for `ssh -F` or `Include`.\n\n"
    return head + config_text(to_hosts(known.cluster), pinned, path)


def connect(known: Inventory, host: str, command: Sequence[str]) -> int:
    """Run ssh(1) to a member, with its pinned host keys, and wait until it ends.

    The user's and the system's ssh_config hold for all that the cluster file does not say. `command`: what runs there;
    nothing for a shell. Returns ssh's exit code, which is the command's, or 255 if the connection failed. Raises
    InputError if the host is no member, or there is no ssh(1).
    """
    if host not in known.cluster.hosts:
        raise InputError(f"{host}: not in {known.path} (known: {fold(known.cluster.hosts)}).")
    program = shutil.which("ssh")
    if program is None:
        raise InputError("There is no ssh(1) on this machine. Install it: apt install openssh-client.")
    with own_directory("ssh") as directory:
        keys, config, pinned = directory / "known_hosts", directory / "config", pinned_keys(known)
        keys.write_text(known_hosts_text(pinned))
        includes = "".join(f"Match all\nInclude {path.expanduser()}\n" for path in SSH_CONFIGS)
        config.write_text(config_text(to_hosts(known.cluster), pinned, keys) + includes)
        done = subprocess.run([program, "-F", str(config), host, *command], check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
