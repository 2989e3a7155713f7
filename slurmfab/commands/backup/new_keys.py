"""New SSH host keys of reinstalled hosts: shown, and accepted if the user allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurmfab.base.errors import HostKeyChanged, HostKeyUnknown, InputError
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.core.engine import session
from slurmfab.core.engine.session import Output
from slurmfab.hosts import route
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.host_keys import PinnedKey, changed_key_text
from slurmfab.hosts.known_hosts import HostKey, fingerprint
from slurmfab.hosts.transport import SshTransport


def accept_changed(known: Inventory, hosts: Sequence[str], output: Output, *, accept: bool) -> Inventory:
    """Put the SSH host keys of now of hosts that may be reinstalled into the lock; nothing is written.

    Raises InputError if keys differ from the known ones, and `accept` is false.
    """
    changed = changed_keys(known, hosts)
    if changed and not accept:
        raise InputError(refusal(known, changed))
    progress = output.progress()
    for host, (kind, key) in changed.items():
        progress.line(f"{host}: accepted its host key {kind} {fingerprint(key)}.")
        old = known.lock.hosts.get(host, HostLock())
        fresh = replace(old, host_keys={kind: key}, public_key="")
        known = replace(known, lock=locks.with_host(known.lock, host, fresh))
    return known


def changed_keys(known: Inventory, hosts: Sequence[str]) -> dict[str, HostKey]:
    """The SSH host keys of the hosts that show other keys than the known ones; hosts that do not answer are skipped."""
    routes = route.to_hosts(known.cluster)
    policies = {host: PinnedKey(host, session.trusted_keys(known, host)) for host in hosts}
    transport = SshTransport({host: routes[host] for host in hosts}, policies)
    changed: dict[str, HostKey] = {}
    try:
        results: Mapping[str, Any] = dict(on_each(hosts, transport.connection))
        for host in hosts:
            shown = policies[host].shown
            if isinstance(results[host], HostKeyChanged | HostKeyUnknown) and shown:
                changed[host] = shown
    finally:
        transport.close()
    return changed


def refusal(known: Inventory, changed: Mapping[str, HostKey]) -> str:
    """The message about host keys that differ from the known ones and are not accepted."""
    return "\n".join((
        *(changed_key_text(host, session.trusted_keys(known, host), key) for host, key in changed.items()),
        "Compare the new keys with the hosts' consoles (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub). If these "
        "hosts were reinstalled, add --accept-new-host-keys. Nothing was changed.",
    ))  # fmt: skip
