"""Putting back a lost lock, from a record or from the controller's copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import paramiko

from slurmfab.base.errors import AgentFailed, HostFailed, HostKeyUnknown, InputError
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import agrees, can_ask
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import missing_lock, session
from slurmfab.core.engine.missing_lock import Copy
from slurmfab.hosts import route
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import SshTransport, Transport


class ComparedKey(PinnedKey):
    """The check of a host key whose fingerprint an admin has compared, on a machine that does not know the key.

    Args:
        pinned: its known public keys, which count more than the fingerprint.
        compared: the fingerprint, as OpenSSH prints it; empty if nobody compared any.
    """

    def __init__(self, host: str, pinned: dict[str, tuple[str, ...]], compared: str) -> None:
        super().__init__(host, pinned)
        self.compared = compared

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Accept a pinned key, and an unknown one that has the fingerprint.

        Raises HostKeyRevoked if this key is revoked. Raises HostKeyUnknown if no key of this host is known, and this
        one has another fingerprint. Raises HostKeyChanged if another key of this type is pinned.
        """
        try:
            super().missing_host_key(client, hostname, key)
        except HostKeyUnknown as error:
            if self.pinned or error.fingerprint != self.compared:
                raise


def restore(cluster: str, output: session.Output, *, from_controller: bool, fingerprint: str) -> int:
    """Put back a missing lock: the newest record's, or the controller's copy where no record has one.

    Args:
        cluster: path of the cluster file, empty for the default one.
        output: the options that all tasks share.
        from_controller: whether the controller's copy is taken in any case.
        fingerprint: of the controller's SSH host key, which an admin has compared; empty for a known key alone.

    Returns:
        The exit code.

    Raises:
        InputError: there is a lock, or no copy of it.
        SlurmfabError: the controller cannot be asked, or its copy is not to be trusted.
    """
    path = loading.named_path(cluster)
    missing_lock.refuse_present(path)
    copy = None if from_controller else missing_lock.newest_copy(path)
    if copy is None:
        known = loading.load(path)
        if not (from_controller or (can_ask() and agrees(f"No record has the lock. {offer(known)} [y/N] "))):
            raise InputError(missing_lock.no_copy(path, known.cluster.controller))
        copy = fetched(known, output, fingerprint)
    return missing_lock.put_back(path, copy)


def offer(known: Inventory) -> str:
    """The question whether the controller is to be asked."""
    return f"Ask {known.cluster.controller}, the controller, for its copy?"


def fetched(known: Inventory, output: session.Output, fingerprint: str) -> Copy:
    """The controller's copy, by a connection whose host key is known.

    Args:
        known: the cluster, without a lock.
        output: the options that all tasks share.
        fingerprint: of the controller's SSH host key; empty for a known key alone.

    Raises:
        SlurmfabError: the controller cannot be asked, or its copy is not to be trusted.
    """
    host, asker = known.cluster.controller, output.asker()
    policies = {host: ComparedKey(host, session.trusted_keys(known, host), fingerprint)}
    password = asker() if output.ask_password and asker else ""
    transport = SshTransport(route.to_hosts(known.cluster), policies, asker, password)
    try:
        return asked(known, transport)
    except HostKeyUnknown as error:
        kind = error.key_type.removeprefix("ssh-").partition("-")[0]
        raise HostFailed(
            host,
            f"its SSH host key is unknown here: {error.key_type} {error.fingerprint}. {error.note}Compare it with what "
            f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub prints on the host's console. If it is the same: {FAB} "
            f"restore-lock --from-controller --fingerprint {error.fingerprint}. Nothing was written.",
        ) from None
    finally:
        transport.close()


def asked(known: Inventory, transport: Transport) -> Copy:
    """The copy of the lock that the controller has, without what it could make others trust.

    Raises HostFailed if it has none, that of another cluster, or one with another host key of its own. Raises
    AgentFailed if its copy is no lock. Raises HostError if it does not answer.
    """
    host = known.cluster.controller
    found = answer_value(host, transport.call(host, {"op": "lock-copy"}), "lock_copy")
    if not found:
        raise HostFailed(host, "it has no copy of the lock; runs of an older slurmfab left none.")
    if found["cluster"] != known.cluster.name:
        raise HostFailed(host, f"its copy is the lock of the cluster {found['cluster']}, not of {known.cluster.name}.")
    try:
        lock = locks.parse(found["text"].encode(), Path(f"{host}:lock-copy"))
    except InputError as error:
        raise AgentFailed(host, f"its copy is no lock: {error}") from None
    shown, own = transport.host_key(host), lock.hosts.get(host)
    if shown and own and own.host_keys.get(shown[0]) != shown[1]:
        raise HostFailed(host, "its copy of the lock has another SSH host key for it than the one it shows now.")
    return Copy(replace(lock, signers=(), bundles={}), f"{host}, since {found['run']} by {found['by']},")
