"""SSH host keys of the hosts that a cluster is brought back on: reinstalled, they show others than before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurmfab import lock as locks
from slurmfab import operations
from slurmfab.errors import HostKeyChanged, HostKeyUnknown, InputError
from slurmfab.inventory import Inventory
from slurmfab.lock import HostLock
from slurmfab.nodes.replacement import SeenKey
from slurmfab.operations import Output
from slurmfab.ssh import route
from slurmfab.ssh.fan_out import on_each
from slurmfab.ssh.host_keys import fingerprint
from slurmfab.ssh.transport import SshTransport

Key = tuple[str, str]
"""Type and base64."""


def acquainted(known: Inventory, hosts: Sequence[str], output: Output, *, accept: bool) -> Inventory:
    """The cluster with the host keys that these hosts show now, if they are others and that is accepted.

    Args:
        known: the cluster.
        hosts: those that may have been reinstalled; compute nodes never are by this.
        output: whom to tell.
        accept: whether other keys than before are believed.

    Raises:
        InputError: there are other keys, and nobody said to accept them.
    """
    seen = others(known, hosts)
    if seen and not accept:
        raise InputError(refusal(known, seen))
    progress = output.progress()
    for host, (kind, key) in seen.items():
        progress.line(f"{host}: accepted its host key {kind} {fingerprint(key)}.")
        old = known.lock.hosts.get(host, HostLock())
        fresh = replace(old, host_keys={kind: key}, public_key="")
        known = replace(known, lock=locks.with_host(known.lock, host, fresh))
    return known


def others(known: Inventory, hosts: Sequence[str]) -> dict[str, Key]:
    """The keys of the hosts that show other ones than before; those that do not answer are told of later."""
    routes = route.to_hosts(known.cluster)
    policies = {host: SeenKey(host, operations.pinned(known, host)) for host in hosts}
    transport = SshTransport({host: routes[host] for host in hosts}, policies)
    found: dict[str, Key] = {}
    try:
        answers: Mapping[str, Any] = dict(on_each(hosts, transport.connection))
        for host in hosts:
            if isinstance(answers[host], HostKeyChanged | HostKeyUnknown):
                found[host] = policies[host].seen
    finally:
        transport.close()
    return found


def refusal(known: Inventory, seen: Mapping[str, Key]) -> str:
    """What to say of other keys that nobody has accepted."""
    lines = []
    for host, (kind, key) in seen.items():
        pinned = operations.pinned(known, host)
        before = ", ".join(f"{name} {fingerprint(value)}" for name, value in sorted(pinned.items())) or "unknown"
        lines += [f"{host}: it shows another SSH host key than before.", f"  before: {before}"]
        lines += [f"  now:    {kind} {fingerprint(key)}"]
    return "\n".join((
        *lines,
        "Compare the new ones with the hosts' consoles (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub). If these "
        "hosts were reinstalled, say --accept-new-host-keys. Nothing was changed.",
    ))  # fmt: skip
