"""`fab replace-node`: a reinstalled or new machine takes the place of a compute node, under its name."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import asking, deploying, inventory, operations
from slurmfab import lock as locks
from slurmfab.agent.node_gate import NodeGate
from slurmfab.agent.service import Service
from slurmfab.clusterfile import cuts
from slurmfab.consent import NOTHING, Consent
from slurmfab.errors import HostKeyChanged, HostKeyUnknown, InputError, SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.fitness.hosts import unfit
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.lock import HostLock
from slurmfab.newcomers import introduce
from slurmfab.nodes import draining, joining, preflight
from slurmfab.nodes.changes import change
from slurmfab.operations import Output
from slurmfab.people import numbers
from slurmfab.plans.other_hardware import differences
from slurmfab.promises.dangers import LOST_LIMITS, require_known
from slurmfab.run import Run
from slurmfab.signature import stamp
from slurmfab.ssh import route
from slurmfab.ssh.host_keys import PinnedKey, fingerprint
from slurmfab.ssh.transport import SshTransport
from slurmfab.status import snapshot

if TYPE_CHECKING:
    import paramiko

WHY = "it is being replaced"


@dataclass(frozen=True)
class Swap:
    """What was said of the new machine.

    Args:
        address: its address, empty when that is the old one's.
        accept_key: whether its SSH host key is believed.
        accept_hardware: whether it may be other hardware.
        consent: what was agreed to beforehand.
    """

    address: str = ""
    accept_key: bool = False
    accept_hardware: bool = False
    consent: Consent = NOTHING


@dataclass(frozen=True)
class Met:
    """The new machine as it was met.

    Args:
        facts: what it said.
        host_key: the key that it showed, as (type, base64).
        password: the sudo password that was asked for; never shown.
    """

    facts: HostFacts
    host_key: tuple[str, str]
    password: str = ""

    def __repr__(self) -> str:
        return f"Met({self.facts.name})"


class SeenKey(PinnedKey):
    """A pinned key that remembers what the host showed, also when it is refused."""

    seen: tuple[str, str] = ("", "")

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Remember the key, then accept or refuse it."""
        self.seen = (key.get_name(), key.get_base64())
        super().missing_host_key(client, hostname, key)


def replace_node(cluster: str, host: str, swap: Swap, output: Output) -> int:
    """Meet the machine, compare it with what the lock holds, prepare it, and let it in as a new node.

    Returns:
        The exit code.

    Raises:
        InputError: the host is no compute node, or shows another key or hardware and nobody accepted that.
        SlurmfabError: jobs run on the node, or the machine cannot be it; nothing was changed.
    """
    require_known(swap.consent)
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    refuse_other_roles(known, host)
    text = inventory.read_text(known.path)
    if swap.address:
        text = cuts.with_address(text, host, checked(swap.address))
    moved = replace(known, cluster=inventory.parse(text, str(known.path)))
    met = meet(moved, host, accept_key=swap.accept_key, asker=output.asker())
    refuse_unsuited(moved, host, met, swap.consent.allowed)
    renewed = replace(moved, lock=locks.with_host(known.lock, host, host_lock(moved, host, met, swap)))
    run = operations.start(renewed, "", output, met.password, command="replace-node", consent=swap.consent)
    return operations.perform(run, output, lambda begun: carry_out(begun, host, text))


def refuse_other_roles(known: Inventory, host: str) -> None:
    """Refuse what is no compute node alone.

    Raises:
        InputError: it is something else.
    """
    roles = known.cluster.roles(host)
    if not roles:
        nodes = fold(known.cluster.compute_nodes)
        raise InputError(f"{host}: not in {known.path} (known: {nodes}). New hosts join by fab add-node.")
    if roles != ("compute",):
        raise InputError(
            f"{host}: it is {' and '.join(roles)} here; only what is a compute node alone can be replaced. fab deploy "
            "prepares a reinstalled host of another role."
        )


def checked(address: str) -> str:
    """An address, once it is known to be one.

    Raises:
        InputError: it is none.
    """
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise InputError(f"--address {address}: this is no IP address.") from None


def meet(known: Inventory, host: str, *, accept_key: bool, asker: Callable[[], str] | None) -> Met:
    """Ask the machine who it is, once its host key is the pinned one or is accepted.

    Raises:
        InputError: it shows another key, and nobody accepted that.
        HostError: it does not answer.
    """
    pinned = operations.pinned(known, host)
    policy = SeenKey(host, pinned)
    try:
        return greet(known, host, policy, asker)
    except (HostKeyChanged, HostKeyUnknown):
        kind, key = policy.seen
        before = ", ".join(f"{name} {fingerprint(value)}" for name, value in sorted(pinned.items())) or "unknown"
        if not accept_key:
            raise InputError(
                f"{host}: it shows another SSH host key than before.\n  before: {before}\n  now:    {kind} "
                f"{fingerprint(key)}\nCompare the new one with the host's console (ssh-keygen -lf /etc/ssh/"
                "ssh_host_ed25519_key.pub), then say --accept-new-host-keys. Nothing was changed."
            ) from None
    return greet(known, host, SeenKey(host, {}, accept_new=True), asker)


def greet(known: Inventory, host: str, policy: SeenKey, asker: Callable[[], str] | None) -> Met:
    """Connect to the machine and ask for its facts; python3 is installed where it is missing."""
    way = route.to_host(host, known.cluster.ssh, known.cluster.addresses.get(host, ""))
    transport = SshTransport({host: way}, {host: policy}, asker)
    try:
        facts = introduce(transport, host, asking.cared_for(known, host))
        return Met(facts, policy.seen, transport.password)
    finally:
        transport.close()


def refuse_unsuited(known: Inventory, host: str, met: Met, allowed: Collection[str] = ()) -> None:
    """Refuse a machine that cannot be this node.

    Raises:
        SlurmfabError: it cannot.
        IdConflict: somebody there has the cluster's UIDs or GIDs.
    """
    reasons = unfit(known.cluster, {host: met.facts})
    reason = reasons.get(host) or preflight.twin(known, host, met.facts)
    is_same = met.host_key in known.lock.hosts.get(host, HostLock()).host_keys.items()
    reason = reason or ("" if is_same else preflight.at_work(met.facts))
    reason = reason or preflight.poorer(known.cluster, host, met.facts)
    reason = reason or ("" if LOST_LIMITS in allowed else preflight.weaker(known, host, met.facts.cgroup))
    if reason:
        raise SlurmfabError(f"{host}: {reason} Nothing was changed.")
    numbers.decide(known.cluster, known.lock.ids, {host: met.facts})


def host_lock(known: Inventory, host: str, met: Met, swap: Swap) -> HostLock:
    """What the lock holds of the machine from now on.

    Raises:
        InputError: it is other hardware, and nobody accepted that.
    """
    old, facts = known.lock.hosts.get(host, HostLock()), met.facts
    found = differences(old, facts.hardware, facts.gpus, known.cluster.memory_margin)
    if found and not swap.accept_hardware:
        raise InputError("\n".join((
            f"{host}: it is other hardware than the lock holds:",
            *(f"  {change.name}: {change.wanted} -> {change.actual}" for change in found),
            "If that is meant, say --accept-hardware. Nothing was changed.",
        )))  # fmt: skip
    fresh = HostLock(facts.hostname, dict([met.host_key]), old.hardware, old.gpus, facts.cgroup, on_trial=True)
    return replace(fresh, hardware=facts.hardware, gpus=facts.gpus) if found or not old.hardware else fresh


def carry_out(run: Run, host: str, text: str) -> None:
    """Drain the node, prepare the machine, write the files, deploy, and let it in.

    Args:
        run: over the cluster with the new machine in it, of which the files say nothing yet.
        host: the node.
        text: the new cluster file.

    Raises:
        SlurmfabError: jobs run there, or the machine could not be prepared; the files are as before.
    """
    change(run, "slurmctld", run.controller, Service("slurmctld"))
    refuse_jobs(run, host)
    change(run, "drain", run.controller, NodeGate((host,), WHY, stamp(), takes_over=True))
    joining.prepare_and_write(run, (host,), text)
    deploying.deploy_and_admit(run)


def refuse_jobs(run: Run, host: str) -> None:
    """Stop if jobs have the node; of one that does not answer, those do not count that Slurm is ending already.

    Raises:
        SlurmfabError: they have.
    """
    seen = snapshot.ask_up(run.transport, run.controller, draining.PARTS)
    if host not in seen.by_name:
        return
    answers = seen.by_name[host].state.answers
    jobs = [job for job in draining.jobs_on(seen, [host]) if answers or job.state != "COMPLETING"]
    if jobs:
        raise SlurmfabError(
            f"{host}: jobs have this node: {draining.job_words(jobs)}. Wait for them (fab drain {host} --reason "
            "replaced --wait) or cancel them. Nothing was changed."
        )
